//! What a process of a token algorithm is about, and where the token is in that.

use crate::{NodeId, Phase, Start};

/// Where the local client stands, together with the token. `T` is what the token carries.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum State<T = ()> {
    /// Neither wanting in nor having the token.
    Outside,
    /// Having the token and not wanting in.
    Keeping(T),
    Requesting,
    Inside(T),
}

impl<T> State<T> {
    /// The state at the start; the token, wherever it is, is new.
    pub(super) fn new(me: NodeId, start: &Start, token: impl FnOnce() -> T) -> Self {
        match (me == start.holder(), start.is_inside(me)) {
            (_, true) => Self::Inside(token()),
            (true, false) => Self::Keeping(token()),
            (false, false) => Self::Outside,
        }
    }

    pub(super) fn phase(&self) -> Phase {
        match self {
            Self::Outside | Self::Keeping(_) => Phase::Outside,
            Self::Requesting => Phase::Requesting,
            Self::Inside(_) => Phase::Inside,
        }
    }

    pub(super) fn is_keeping(&self) -> bool {
        matches!(self, Self::Keeping(_))
    }

    /// The token, if it is here.
    pub(super) fn token(&self) -> Option<&T> {
        match self {
            Self::Keeping(token) | Self::Inside(token) => Some(token),
            Self::Outside | Self::Requesting => None,
        }
    }

    /// Takes the token out, if it is here, and is outside without it.
    pub(super) fn take_token(&mut self) -> Option<T> {
        match std::mem::replace(self, Self::Outside) {
            Self::Keeping(token) | Self::Inside(token) => Some(token),
            other @ (Self::Outside | Self::Requesting) => {
                *self = other;
                None
            }
        }
    }

    /// Whether the client is outside, and the token here if that is where it was at first.
    pub(super) fn is_as_at_start(&self, me: NodeId, start: &Start) -> bool {
        match self {
            Self::Outside => me != start.holder(),
            Self::Keeping(_) => me == start.holder(),
            Self::Requesting | Self::Inside(_) => false,
        }
    }
}
