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

/// The default of the library, and of the nodes that are served.
pub(super) const LIBRARY: &str = "mutua-naimi-trehel";
pub(super) const SERVED: &str = "mutua-grpc-3-naimi-trehel";

/// The peers, and how many times better the library must be: in hand-overs of three, in
/// the delay at 120 ms, and in entering again.
const PEERS: [(&str, [Option<f64>; 3]); 11] = [
    ("etcd-1", [None, Some(2.0), Some(1000.0)]),
    ("etcd-3", [Some(100.0), Some(2.0), Some(1000.0)]),
    ("etcd-1-memory", [None, Some(2.0), Some(1000.0)]),
    ("etcd-3-memory", [None, Some(2.0), Some(1000.0)]),
    ("zookeeper-1", [None, Some(2.0), Some(1000.0)]),
    ("zookeeper-3", [Some(50.0), Some(2.0), Some(1000.0)]),
    ("redis-poll", [Some(5.0), Some(2.0), Some(100.0)]),
    ("redis-blpop", [Some(5.0), Some(2.0), Some(100.0)]),
    ("redlock", [None, Some(2.0), Some(100.0)]),
    ("postgres", [Some(3.0), Some(2.0), Some(100.0)]),
    ("flock", [None, None, None]),
];

/// A figure of a system.
type Figure = fn(&Row) -> Option<f64>;

/// How many times better the first of two figures is.
type Ratio = fn(f64, f64) -> f64;

pub(super) fn all(rows: &[Row]) -> Vec<Target> {
    let find = |id: &str| rows.iter().find(|row| row.system.id == id);
    let mut all = Vec::new();
    for (ours, must) in [(LIBRARY, true), (SERVED, false)] {
        let Some(ours) = find(ours) else { continue };
        let measures: [(&str, Figure, Ratio); 3] = [
            (HANDOVERS, handovers_of_three, |ours, theirs| ours / theirs),
            (DELAY, delay_of_three, |ours, theirs| theirs / ours),
            (AGAIN, pair, |ours, theirs| theirs / ours),
        ];
        for (index, (what, of, ratio)) in measures.into_iter().enumerate() {
            for (peer, wanted) in PEERS {
                let Some(theirs) = find(peer) else { continue };
                let wanted = wanted[index].filter(|_| must);
                all.extend(target(what, ours, theirs, of, wanted, ratio));
            }
        }
    }
    all
}

pub(super) const HANDOVERS: &str = "hand-overs per second, 3 contenders";
pub(super) const DELAY: &str = "us from release to next grant, held for 120 ms";
pub(super) const AGAIN: &str = "us to lock and unlock again";

pub(super) fn handovers_of_three(row: &Row) -> Option<f64> {
    row.empty.get(&3).map(|figures| figures.handovers_per_s)
}

pub(super) fn delay_of_three(row: &Row) -> Option<f64> {
    // Without hand-overs there is no delay.
    row.long.get(&3).map(|figures| figures.delay_p50_us).filter(|delay| *delay > 0.0)
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
