//! The phase of a process of a token algorithm together with the token.

use crate::{NodeId, Outbox, Phase, Stamp, Start};

/// The phase of the local client, and the token if it is here. `T` is the contents of the token.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum State<T = ()> {
    /// Idle, without the token.
    Idle,
    /// Idle, with the token.
    IdleWithToken(T),
    Requesting,
    InCs(T),
}

impl<T> State<T> {
    /// The state at the start; the token, wherever it is, is new.
    pub(super) fn new(me: NodeId, start: &Start, token: impl FnOnce() -> T) -> Self {
        match (me == start.holder(), start.is_in_cs(me)) {
            (_, true) => Self::InCs(token()),
            (true, false) => Self::IdleWithToken(token()),
            (false, false) => Self::Idle,
        }
    }

    pub(super) fn phase(&self) -> Phase {
        match self {
            Self::Idle | Self::IdleWithToken(_) => Phase::Idle,
            Self::Requesting => Phase::Requesting,
            Self::InCs(_) => Phase::InCs,
        }
    }

    pub(super) fn is_idle_with_token(&self) -> bool {
        matches!(self, Self::IdleWithToken(_))
    }

    /// The token, if it is here.
    pub(super) fn token(&self) -> Option<&T> {
        match self {
            Self::IdleWithToken(token) | Self::InCs(token) => Some(token),
            Self::Idle | Self::Requesting => None,
        }
    }

    /// Takes the token out, if it is here; the client is idle without it.
    pub(super) fn take_token(&mut self) -> Option<T> {
        match std::mem::replace(self, Self::Idle) {
            Self::IdleWithToken(token) | Self::InCs(token) => Some(token),
            other @ (Self::Idle | Self::Requesting) => {
                *self = other;
                None
            }
        }
    }

    /// The state in a view that begins with these requests, the oldest first. The holder enters if
    /// one of them is its own; the others wait. Returns those others, in the order of the requests.
    pub(super) fn resume<M>(
        &mut self,
        me: NodeId,
        start: &Start,
        pending: &[Stamp],
        out: &mut Outbox<M>,
    ) -> Vec<NodeId> {
        let holder = start.holder();
        let nodes = pending.iter().map(|request| request.node);
        let waiting: Vec<_> = nodes.filter(|&node| node != holder).collect();
        if waiting.contains(&me) {
            *self = Self::Requesting;
        } else if me == holder
            && pending.len() > waiting.len()
            && let Some(token) = self.take_token()
        {
            *self = Self::InCs(token);
            out.enter();
        }
        waiting
    }

    /// Whether the client is idle, and the token here if that is where it was at first.
    pub(super) fn is_at_start(&self, me: NodeId, start: &Start) -> bool {
        match self {
            Self::Idle => me != start.holder(),
            Self::IdleWithToken(_) => me == start.holder(),
            Self::Requesting | Self::InCs(_) => false,
        }
    }
}

/// The process that gets the token after `me`, where it goes from the holder to the waiting ones in
/// their order.
pub(super) fn next_of(me: NodeId, holder: NodeId, waiting: &[NodeId]) -> Option<NodeId> {
    let mut queue = [holder].into_iter().chain(waiting.iter().copied());
    queue.find(|&node| node == me)?;
    queue.next()
}
