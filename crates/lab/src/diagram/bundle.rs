//! Bundles: so many messages of one kind at one time that their labels could not be read.
//!
//! When all survivors of a crash start an election at once, dozens of messages of one kind are sent
//! at the same time. They are drawn as thin lines, and one label above the lines of the processes
//! says how many there are.

use std::collections::{BTreeMap, BTreeSet};

use mutua_algorithms::NodeId;

use super::scene::{Arrow, Scene};

/// So many messages of one kind, sent at one time by several processes, are a bundle.
const LEAST: usize = 20;

/// Messages of one kind that are sent at one time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Bundle {
    pub(super) kind: usize,
    pub(super) sent: u64,
    pub(super) count: usize,
    /// Its place among the bundles of that time.
    pub(super) place: usize,
}

/// The bundles of a scene.
#[derive(Clone, Debug, Default)]
pub(super) struct Bundles {
    pub(super) all: Vec<Bundle>,
}

impl Bundle {
    pub(super) fn label(&self, scene: &Scene) -> String {
        format!("{} {}", self.count, scene.kinds[self.kind])
    }
}

impl Bundles {
    pub(super) fn of(scene: &Scene) -> Self {
        let mut sent: BTreeMap<(u64, usize), (usize, BTreeSet<NodeId>)> = BTreeMap::new();
        for arrow in &scene.arrows {
            if let Some(kind) = arrow.kind {
                let (count, senders) = sent.entry((arrow.sent, kind)).or_default();
                *count += 1;
                senders.insert(arrow.from);
            }
        }
        let mut all: Vec<Bundle> = Vec::new();
        for ((sent, kind), (count, senders)) in sent {
            if count >= LEAST && senders.len() > 1 {
                let place = all.iter().filter(|other| other.sent == sent).count();
                all.push(Bundle { kind, sent, count, place });
            }
        }
        Self { all }
    }

    /// Whether an arrow is part of one.
    pub(super) fn has(&self, arrow: &Arrow) -> bool {
        let is_its = |bundle: &Bundle| (bundle.sent, Some(bundle.kind)) == (arrow.sent, arrow.kind);
        self.all.iter().any(is_its)
    }

    /// How many lines of labels stand above the first line.
    pub(super) fn lines(&self) -> usize {
        self.all.iter().map(|bundle| bundle.place + 1).max().unwrap_or(0)
    }
}
