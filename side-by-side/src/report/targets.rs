//! The table of ratios: how much better Mutua must be, and whether it was.

use serde::{Deserialize, Serialize};

use super::summary::Row;

/// One comparison.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Target {
    /// What is compared.
    pub(super) what: String,
    pub(super) ours: String,
    pub(super) our_figure: f64,
    pub(super) theirs: String,
    pub(super) their_figure: f64,
    /// How many times better ours is; below 1 it is worse.
    pub(super) ratio: f64,
    /// The target for the ratio; none where the report only shows it.
    pub(super) wanted: Option<f64>,
}

impl Target {
    pub(super) fn holds(&self) -> Option<bool> {
        self.wanted.map(|wanted| self.ratio >= wanted)
    }
}

/// The default of the library, the node's own client, and etcd's lock service at a node.
pub(super) const LIBRARY: &str = "mutua-naimi-trehel";
const CLIENT: &str = "mutua-client-1";
const CLIENT_OF_THREE: &str = "mutua-client-3";
pub(super) const SERVED: &str = "mutua-grpc-3-naimi-trehel";
const SERVED_BY_ONE: &str = "mutua-grpc-1";

/// A peer, and how many times better than it one of ours must be in each of [`MEASURES`].
type Wanted = (&'static str, [Option<f64>; 5]);

/// Ours, and their targets. A client in a process of its own is compared with what such clients
/// use. With three nodes PostgreSQL is given one more round to two peers, see [`after_a_round`]: that
/// is what a record of the hold at the other nodes costs at least.
const SIDES: [(&str, &[Wanted]); 5] = [
    (LIBRARY, &PEERS),
    (CLIENT, &[("postgres", [Some(1.0); 5]), ("redis-blpop", [None; 5])]),
    (CLIENT_OF_THREE, &[("postgres", [None; 5]), ("redis-blpop", [None; 5])]),
    (SERVED_BY_ONE, &[("redis-blpop", [Some(1.0), None, Some(1.0), None, None])]),
    (SERVED, &SHOWN),
];

/// The peers, and the targets of the library.
const PEERS: [Wanted; 11] = [
    ("etcd-1", [None, Some(2.0), Some(1000.0), None, None]),
    ("etcd-3", [Some(100.0), Some(2.0), Some(1000.0), None, None]),
    ("etcd-1-memory", [None, Some(2.0), Some(1000.0), None, None]),
    ("etcd-3-memory", [None, Some(2.0), Some(1000.0), None, None]),
    ("zookeeper-1", [None, Some(2.0), Some(1000.0), None, None]),
    ("zookeeper-3", [Some(50.0), Some(2.0), Some(1000.0), None, None]),
    ("redis-poll", [Some(5.0), Some(2.0), Some(100.0), None, None]),
    ("redis-blpop", [Some(5.0), Some(2.0), Some(100.0), None, None]),
    ("redlock", [None, Some(2.0), Some(100.0), None, None]),
    ("postgres", [Some(3.0), Some(2.0), Some(100.0), None, None]),
    ("flock", [None; 5]),
];

/// The same peers without targets.
const SHOWN: [Wanted; 11] = {
    let mut shown = PEERS;
    let mut index = 0;
    while index < shown.len() {
        shown[index].1 = [None; 5];
        index += 1;
    }
    shown
};

/// A figure of a system.
type Figure = fn(&Row) -> Option<f64>;

/// How many times better the first of two figures is.
type Ratio = fn(f64, f64) -> f64;

const MORE: Ratio = |ours, theirs| ours / theirs;
const LESS: Ratio = |ours, theirs| theirs / ours;

/// What is compared.
pub(super) const MEASURES: [(&str, Figure, Ratio); 5] = [
    (HANDOVERS, handovers_of_three, MORE),
    (DELAY, delay_of_three, LESS),
    (AGAIN, pair, LESS),
    (NAMES, |row| row.names.as_ref().map(|pairs| pairs.per_s), MORE),
    (SERVER, server_time, LESS),
];

pub(super) fn all(rows: &[Row]) -> Vec<Target> {
    let find = |id: &str| rows.iter().find(|row| row.system.id == id);
    let mut all = Vec::new();
    for (ours, peers) in SIDES {
        let Some(ours) = find(ours) else { continue };
        for (index, (what, of, ratio)) in MEASURES.into_iter().enumerate() {
            for (peer, wanted) in peers {
                let Some(theirs) = find(peer) else { continue };
                let wanted = match (ours.system.id.as_str(), *peer) {
                    (CLIENT_OF_THREE, "postgres") => after_a_round(what, theirs, &find),
                    _ => wanted[index],
                };
                all.extend(target(what, ours, theirs, of, wanted, ratio));
            }
        }
    }
    all
}

/// The share of its speed that a system keeps if a bare round to peers is added to it: a ping, or two
/// messages of the bare ring in the same regime. None where no limit of this run tells.
fn after_a_round<'a>(
    what: &str,
    system: &Row,
    find: &impl Fn(&str) -> Option<&'a Row>,
) -> Option<f64> {
    let us = |per_second: f64| 1e6 / per_second;
    let (own, round) = match what {
        HANDOVERS => {
            let of = |row: &Row| handovers_of_three(row).map(us);
            (of(system)?, 2.0 * of(find("ring")?)?)
        }
        DELAY => (delay_of_three(system)?, 2.0 * delay_of_three(find("ring")?)?),
        AGAIN => (pair(system)?, pair(find("ping")?)?),
        _ => return None,
    };
    Some(own / (own + round))
}

pub(super) const HANDOVERS: &str = "hand-overs per second, 3 contenders";
pub(super) const DELAY: &str = "us from release to next grant, held for 120 ms";
pub(super) const AGAIN: &str = "us to lock and unlock again";
const NAMES: &str = "pairs per second, eight clients with a name each";
const SERVER: &str = "us of the servers' processor time per hand-over of 3";

pub(super) fn handovers_of_three(row: &Row) -> Option<f64> {
    row.empty.get(&3).map(|figures| figures.handovers_per_s)
}

pub(super) fn delay_of_three(row: &Row) -> Option<f64> {
    // Without hand-overs there is no delay.
    row.long.get(&3).map(|figures| figures.delay_p50_us).filter(|delay| *delay > 0.0)
}

/// None where the lock has no server.
fn server_time(row: &Row) -> Option<f64> {
    row.empty.get(&3).map(|figures| figures.server_cpu_us).filter(|time| *time > 0.0)
}

pub(super) fn pair(row: &Row) -> Option<f64> {
    row.again.as_ref().map(|pairs| pairs.p50_us)
}

fn target(
    what: &str,
    ours: &Row,
    theirs: &Row,
    of: Figure,
    wanted: Option<f64>,
    ratio: Ratio,
) -> Option<Target> {
    let (our_figure, their_figure) = (of(ours)?, of(theirs)?);
    Some(Target {
        what: what.to_owned(),
        ours: ours.title.clone(),
        our_figure,
        theirs: theirs.title.clone(),
        their_figure,
        ratio: ratio(our_figure, their_figure),
        wanted,
    })
}
