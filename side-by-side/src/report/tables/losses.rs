//! The measures in which a peer is better than Mutua.

use super::super::{
    number,
    summary::{Row, Summary},
    targets::{self, LIBRARY, SERVED},
};

/// A measure in which Mutua may lose.
struct Measure {
    what: &'static str,
    unit: &'static str,
    of: fn(&Row) -> Option<f64>,
    more: bool,
}

const MEASURES: [Measure; 8] = [
    Measure { what: "locking again", unit: "us", of: targets::pair, more: false },
    Measure {
        what: "a name never used before (the node must obtain the token first)",
        unit: "us",
        of: |row| row.fresh.as_ref().map(|pairs| pairs.p50_us),
        more: false,
    },
    Measure { what: "hand-overs of 3", unit: "/s", of: targets::handovers_of_three, more: true },
    Measure {
        what: "hand-overs of 8",
        unit: "/s",
        of: |row| row.empty.get(&8).map(|one| one.handovers_per_s),
        more: true,
    },
    Measure {
        what: "hand-overs of 64",
        unit: "/s",
        of: |row| row.empty.get(&64).map(|one| one.handovers_per_s),
        more: true,
    },
    Measure {
        what: "release to next grant, held for 120 ms",
        unit: "us",
        of: targets::delay_of_three,
        more: false,
    },
    Measure {
        what: "eight clients with a name each",
        unit: "/s",
        of: |row| row.names.as_ref().map(|pairs| pairs.per_s),
        more: true,
    },
    Measure {
        what: "processor time per hand-over of 3, all processes",
        unit: "us",
        of: |row| row.empty.get(&3).map(|one| one.server_cpu_us + one.client_cpu_us),
        more: false,
    },
];

/// A sentence for each loss of the library's default and of three nodes by gRPC.
pub(in super::super) fn losses(summary: &Summary) -> Vec<String> {
    let mut list = Vec::new();
    for id in [LIBRARY, SERVED] {
        let Some(ours) = summary.rows.iter().find(|row| row.system.id == id) else { continue };
        for measure in &MEASURES {
            list.extend(loss(measure, ours, &summary.rows));
        }
    }
    list.push(
        "Durability: etcd and ZooKeeper keep locks on disk, through a crash of all nodes. Mutua's \
         nodes keep them in memory: after a crash of all, grants wait until leases have expired."
            .to_owned(),
    );
    list
}

fn loss(measure: &Measure, ours: &Row, rows: &[Row]) -> Option<String> {
    let own = (measure.of)(ours)?;
    let peers = rows.iter().filter(|row| {
        let kind = &row.system.kind;
        !kind.is_mutua() && !kind.is_limit()
    });
    let better: Vec<_> = peers
        .filter_map(|row| Some((row, (measure.of)(row)?)))
        .filter(|(_, theirs)| if measure.more { *theirs > own } else { *theirs < own })
        .map(|(row, theirs)| format!("{} ({} {})", row.title, number(theirs), measure.unit))
        .collect();
    if better.is_empty() {
        return None;
    }
    let (who, figure) = (&ours.title, number(own));
    let (what, unit) = (measure.what, measure.unit);
    Some(format!("{who}, {what}: {figure} {unit}. Better: {}.", better.join(", ")))
}
