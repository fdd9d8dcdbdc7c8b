//! Ghosts: what the search remembers for a property, unknown to all processes.
//!
//! A ghost is a few bits beside each process and on each message under way. Each multiplies the
//! states by little, so a property that needs one is searched for by itself.

use mutua_algorithms::{NodeId, Renaming};

use crate::{
    actor::Event,
    catalogue::{OVERTOOK, UNFENCED},
};

/// The property that a ghost is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ghost {
    /// None.
    None,
    /// Growth of the fencing token. One bit: "the last exit happened before this". An exit clears
    /// it everywhere and sets it at the process that exits; messages that carry the clock carry it.
    /// A process that enters without it may have a clock below that of the entry before. The
    /// start of a view sets it too: the view's number is above all clocks of older views.
    Fencing,
    /// EM3. Two sets of processes with an open request: those known here, and those that were known
    /// when our own request was made. An entry takes the process out of all sets.
    Ordering,
    /// EM3 by timestamps, with no bits at all: each entry is judged by the clocks of the others.
    /// See `check/stamps.rs`.
    Stamps,
    /// Bounded bypass. At a process: the set of those that have entered since the messages that it
    /// sent when it requested have arrived. On a message: it is one of those, and not one that
    /// another process forwards.
    Bypass,
}

/// The bits that a ghost remembers at one process or on one message; each ghost gives them its own
/// meaning.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[repr(transparent)]
pub(crate) struct GhostBits(u32);

impl GhostBits {
    /// Nothing is remembered.
    pub(crate) const NONE: Self = Self(0);
}

/// An event as a ghost sees it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Happened {
    Request,
    Release,
    Receive { ghost: GhostBits, clocked: bool },
    Else,
}

impl Happened {
    pub(crate) fn of(event: Event) -> Self {
        match event {
            Event::Request => Self::Request,
            Event::Release => Self::Release,
            Event::Start
            | Event::Timeout(_)
            | Event::Crash
            | Event::Restart
            | Event::AppSend(_)
            | Event::Report(..) => Self::Else,
        }
    }
}

/// The ghost of a process and of what it sends, after an event.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct After {
    pub(crate) kept: GhostBits,
    pub(crate) sent: GhostBits,
    pub(crate) marks: u8,
}

/// Where the second set of [`Ghost::Ordering`] begins.
const BEFORE_OURS: u32 = 16;

impl Ghost {
    /// The ghost of every process and message at the start. While a process is in the critical
    /// section, no exit has happened yet.
    pub(crate) fn at_start(self, in_cs: Option<NodeId>) -> GhostBits {
        match self {
            Self::Fencing => GhostBits(in_cs.is_none().into()),
            Self::None | Self::Ordering | Self::Stamps | Self::Bypass => GhostBits::NONE,
        }
    }

    pub(crate) fn after(
        self,
        ghost: GhostBits,
        me: NodeId,
        happened: Happened,
        entered: bool,
        starts_view: bool,
    ) -> After {
        match self {
            Self::None | Self::Stamps => After::default(),
            Self::Fencing => {
                let ghost = if starts_view { GhostBits(1) } else { ghost };
                fencing(ghost, happened, entered)
            }
            Self::Ordering => ordering(ghost, me, happened, entered),
            Self::Bypass => After {
                kept: if entered || happened == Happened::Request {
                    GhostBits::NONE
                } else {
                    ghost
                },
                sent: GhostBits((happened == Happened::Request).into()),
                marks: 0,
            },
        }
    }

    /// A process's ghost after `who` has exited (fencing) or entered (the others).
    pub(crate) fn sweep_kept(self, ghost: GhostBits, who: NodeId) -> GhostBits {
        match self {
            Self::None | Self::Fencing | Self::Stamps => GhostBits::NONE,
            Self::Ordering => GhostBits(ghost.0 & !(bit(who) | (bit(who) << BEFORE_OURS))),
            Self::Bypass => GhostBits(ghost.0 | bit(who)),
        }
    }

    /// A message's ghost after the same.
    pub(crate) fn sweep_sent(self, ghost: GhostBits, who: NodeId) -> GhostBits {
        match self {
            Self::None | Self::Fencing | Self::Stamps => GhostBits::NONE,
            Self::Ordering => GhostBits(ghost.0 & !bit(who)),
            Self::Bypass => ghost,
        }
    }
}

/// The same ghosts under new names.
impl Ghost {
    pub(crate) fn rename_kept(self, ghost: GhostBits, renaming: &Renaming) -> GhostBits {
        match self {
            Self::None | Self::Fencing | Self::Stamps => ghost,
            Self::Ordering => {
                let known = rename(ghost.0 & ((1 << BEFORE_OURS) - 1), renaming);
                GhostBits(known | (rename(ghost.0 >> BEFORE_OURS, renaming) << BEFORE_OURS))
            }
            Self::Bypass => GhostBits(rename(ghost.0, renaming)),
        }
    }

    pub(crate) fn rename_sent(self, ghost: GhostBits, renaming: &Renaming) -> GhostBits {
        match self {
            Self::None | Self::Fencing | Self::Stamps | Self::Bypass => ghost,
            Self::Ordering => GhostBits(rename(ghost.0, renaming)),
        }
    }
}

fn rename(set: u32, renaming: &Renaming) -> u32 {
    let members = (0..32).map(NodeId).filter(|&node| set & bit(node) != 0);
    members.fold(0, |all, node| all | bit(renaming.of(node)))
}

fn fencing(ghost: GhostBits, happened: Happened, entered: bool) -> After {
    let kept = match happened {
        Happened::Release => GhostBits(1),
        Happened::Receive { ghost: received, clocked: true } => GhostBits(ghost.0 | received.0),
        Happened::Receive { clocked: false, .. } | Happened::Request | Happened::Else => ghost,
    };
    After { kept, sent: kept, marks: if entered && kept == GhostBits::NONE { UNFENCED } else { 0 } }
}

fn ordering(ghost: GhostBits, me: NodeId, happened: Happened, entered: bool) -> After {
    let known = ghost.0 & ((1 << BEFORE_OURS) - 1);
    let before_ours = ghost.0 >> BEFORE_OURS;
    let (mut known, mut before_ours) = match happened {
        Happened::Request => (known | bit(me), known),
        Happened::Receive { ghost: received, .. } => (known | received.0, before_ours),
        Happened::Release | Happened::Else => (known, before_ours),
    };
    let marks = if entered && before_ours != 0 { OVERTOOK } else { 0 };
    if entered {
        known &= !bit(me);
        before_ours = 0;
    }
    let kept = GhostBits(known | (before_ours << BEFORE_OURS));
    After { kept, sent: GhostBits(known), marks }
}

fn bit(node: NodeId) -> u32 {
    1 << node.0
}
