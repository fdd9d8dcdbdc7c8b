//! Ghosts: what the search remembers for a property, on no process's mind.
//!
//! A ghost is a few bits beside each process and on each message under way. Each multiplies the
//! states by little, so a property that needs one is searched for by itself.

use mutua_algorithms::{NodeId, Renaming};

use crate::{
    actor::Event,
    catalogue::{OVERTOOK, UNFENCED},
};

/// Which property is remembered for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ghost {
    /// None.
    None,
    /// Fence growth. One bit: "has heard of the last exit". An exit clears it everywhere and sets
    /// it at the leaver; messages that carry the clock carry it. Who enters without it may have a
    /// clock below the last one's.
    Fence,
    /// EM3. Two sets of processes with an open request: those known here, and those that were known
    /// when our own request was made. An entry takes the process out of all sets.
    Ordering,
    /// Bounded bypass. At a process: who has entered since our request reached everyone. On a
    /// message: it is part of a request that is still spreading.
    Bypass,
}

/// What happened, as far as a ghost cares.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Happened {
    Request,
    Release,
    Receive { ghost: u32, clocked: bool },
    Else,
}

impl Happened {
    pub(crate) fn of(event: Event) -> Self {
        match event {
            Event::Request => Self::Request,
            Event::Release => Self::Release,
            Event::Start | Event::Timeout(_) | Event::Crash | Event::Restart | Event::Tell(_) => {
                Self::Else
            }
        }
    }
}

/// The ghost of a process and of what it sends, after an event.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct After {
    pub(crate) kept: u32,
    pub(crate) sent: u32,
    pub(crate) marks: u8,
}

/// Where the second set of [`Ghost::Ordering`] begins.
const BEFORE_OURS: u32 = 16;

impl Ghost {
    /// The ghost of every process and message at the start. While somebody is inside, nobody has
    /// heard of an exit.
    pub(crate) fn at_start(self, inside: Option<NodeId>) -> u32 {
        match self {
            Self::Fence => u32::from(inside.is_none()),
            Self::None | Self::Ordering | Self::Bypass => 0,
        }
    }

    pub(crate) fn after(self, ghost: u32, me: NodeId, happened: Happened, entered: bool) -> After {
        match self {
            Self::None => After::default(),
            Self::Fence => fence(ghost, happened, entered),
            Self::Ordering => ordering(ghost, me, happened, entered),
            Self::Bypass => After {
                kept: if entered || happened == Happened::Request { 0 } else { ghost },
                sent: u32::from(happened == Happened::Request),
                marks: 0,
            },
        }
    }

    /// A process's ghost after `who` has left (fence) or entered (the others).
    pub(crate) fn sweep_kept(self, ghost: u32, who: NodeId) -> u32 {
        match self {
            Self::None | Self::Fence => 0,
            Self::Ordering => ghost & !(bit(who) | (bit(who) << BEFORE_OURS)),
            Self::Bypass => ghost | bit(who),
        }
    }

    /// A message's ghost after the same.
    pub(crate) fn sweep_sent(self, ghost: u32, who: NodeId) -> u32 {
        match self {
            Self::None | Self::Fence => 0,
            Self::Ordering => ghost & !bit(who),
            Self::Bypass => ghost,
        }
    }
}

/// The same ghosts under new names.
impl Ghost {
    pub(crate) fn rename_kept(self, ghost: u32, renaming: &Renaming) -> u32 {
        match self {
            Self::None | Self::Fence => ghost,
            Self::Ordering => {
                let known = rename(ghost & ((1 << BEFORE_OURS) - 1), renaming);
                known | (rename(ghost >> BEFORE_OURS, renaming) << BEFORE_OURS)
            }
            Self::Bypass => rename(ghost, renaming),
        }
    }

    pub(crate) fn rename_sent(self, ghost: u32, renaming: &Renaming) -> u32 {
        match self {
            Self::None | Self::Fence | Self::Bypass => ghost,
            Self::Ordering => rename(ghost, renaming),
        }
    }
}

fn rename(set: u32, renaming: &Renaming) -> u32 {
    let members = (0..32).map(NodeId).filter(|&node| set & bit(node) != 0);
    members.fold(0, |all, node| all | bit(renaming.of(node)))
}

fn fence(ghost: u32, happened: Happened, entered: bool) -> After {
    let kept = match happened {
        Happened::Release => 1,
        Happened::Receive { ghost: heard, clocked: true } => ghost | heard,
        Happened::Receive { clocked: false, .. } | Happened::Request | Happened::Else => ghost,
    };
    After { kept, sent: kept, marks: if entered && kept == 0 { UNFENCED } else { 0 } }
}

fn ordering(ghost: u32, me: NodeId, happened: Happened, entered: bool) -> After {
    let known = ghost & ((1 << BEFORE_OURS) - 1);
    let before_ours = ghost >> BEFORE_OURS;
    let (mut known, mut before_ours) = match happened {
        Happened::Request => (known | bit(me), known),
        Happened::Receive { ghost: heard, .. } => (known | heard, before_ours),
        Happened::Release | Happened::Else => (known, before_ours),
    };
    let marks = if entered && before_ours != 0 { OVERTOOK } else { 0 };
    if entered {
        known &= !bit(me);
        before_ours = 0;
    }
    After { kept: known | (before_ours << BEFORE_OURS), sent: known, marks }
}

fn bit(node: NodeId) -> u32 {
    1 << node.0
}
