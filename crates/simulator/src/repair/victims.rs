//! Crashes of processes that are chosen by their part in the algorithm.

use std::{fmt, str::FromStr};

use mutua_algorithms::{
    About, Mutex, NodeId, Phase, Start, StartError, Structure, repairs::Generic,
};
use serde::Serialize;

/// The process that a crash hits, by its part.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Victim {
    /// The coordinator: the first one, or that of the last view.
    Coordinator,
    /// The first process that is in the critical section from then on.
    Holder,
    /// The first process that has the token from then on.
    Token,
    /// A member of the quorum of the first process that is requesting or in the critical section
    /// from then on: the lowest but that process itself.
    QuorumMember,
}

/// A crash of a process that is chosen when the time has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ChosenCrash {
    /// The process, by its part.
    pub victim: Victim,
    /// The time from which the process is looked for, in nanoseconds.
    pub from: u64,
    /// The time of the restart; none if it never restarts.
    pub until: Option<u64>,
}

/// The process that a crash by part has hit.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct HitCrash {
    /// The part: `coordinator`, `holder`, `token` or `quorum-member`.
    pub part: String,
    /// The time from which a process with the part was looked for, in nanoseconds.
    pub from: u64,
    /// The first process that had it; none if there was none before the run ended.
    pub process: Option<u32>,
    /// When it crashed.
    pub at: Option<u64>,
}

impl HitCrash {
    /// The crash before its time has come.
    pub(super) fn new(crash: &ChosenCrash) -> Self {
        Self { part: crash.victim.to_string(), from: crash.from, process: None, at: None }
    }
}

impl Victim {
    /// Every part.
    pub const ALL: [Self; 4] = [Self::Coordinator, Self::Holder, Self::Token, Self::QuorumMember];

    fn word(self) -> &'static str {
        match self {
            Self::Coordinator => "coordinator",
            Self::Holder => "holder",
            Self::Token => "token",
            Self::QuorumMember => "quorum-member",
        }
    }

    /// Whether a process of this algorithm can have the part.
    pub(super) fn check(self, about: &About, start: &Start) -> Result<(), StartError> {
        let has_it = match self {
            Self::Coordinator => start.settings().get("coordinator").is_some(),
            Self::Holder => true,
            Self::Token => about.family == "token",
            Self::QuorumMember => about.structure == Structure::Quorums || start.sets().is_some(),
        };
        if has_it {
            return Ok(());
        }
        let name = about.name;
        Err(StartError::new(format!(
            "{name} has no {self}: crash `holder`, or a process by its id, as in 2@10ms"
        )))
    }

    /// The process that has the part now, of those that are up.
    pub(super) fn find<M: Mutex>(self, up: &[&Generic<M>], start: &Start) -> Option<NodeId> {
        let with = |phase: Phase| up.iter().find(|process| process.phase() == phase);
        match self {
            Self::Coordinator => {
                let last = up.iter().max_by_key(|process| process.view().map(|view| view.0))?;
                let coordinator = last.coordinator()?;
                up.iter().map(|process| process.id()).find(|&id| id == coordinator)
            }
            Self::Holder => with(Phase::InCs).map(|process| process.id()),
            Self::Token => {
                let mut up = up.iter();
                up.find(|process| process.has_token()).map(|process| process.id())
            }
            Self::QuorumMember => {
                let one = with(Phase::InCs).or_else(|| with(Phase::Requesting))?.id();
                let quorum = match start.sets() {
                    Some(sets) => sets.request(one),
                    None => start.quorums().of(one),
                };
                let is_up = |node: &NodeId| up.iter().any(|process| process.id() == *node);
                quorum.iter().copied().find(|node| *node != one && is_up(node))
            }
        }
    }
}

impl fmt::Display for Victim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Victim {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|victim| victim.word() == text).ok_or(())
    }
}
