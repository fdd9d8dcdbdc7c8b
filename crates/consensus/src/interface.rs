//! What the engine needs from its caller, and what it reports back.

use std::{fmt, future::Future, pin::Pin};

use serde::{Deserialize, Serialize};

/// A voter's number. It is never given to another voter, not even after this one is removed or
/// has lost its disk.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct VoterId(pub u64);

impl fmt::Display for VoterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The state that the decided commands make.
///
/// All voters apply the same commands in the same order, so this must be deterministic. It is
/// small: a snapshot of it is one message and is kept in memory.
pub trait StateMachine: Send + 'static {
    /// Apply a decided command.
    fn apply(&mut self, command: &[u8]);

    /// Return the whole state, for [`StateMachine::restore`].
    fn snapshot(&self) -> Vec<u8>;

    /// Replace the state by one that [`StateMachine::snapshot`] returned, here or at another voter.
    fn restore(&mut self, state: &[u8]);
}

/// Reports of the engine, as synchronous calls, one at a time.
///
/// A call holds the engine up, so it must be short and must not block. It may call
/// [`Engine::propose`](crate::Engine::propose) and the like.
///
/// Indexes grow but have gaps: the engine's own entries (a new leader's first one, changes of
/// voters) are not reported.
///
/// At start the contents of the disk are reported again: `snapshot_installed` with the latest
/// snapshot, if there is one, then `appended` with each later command. Which of those commands are
/// decided is not known until a leader says so; `decided` is called again for them then.
pub trait Watcher: Send + 'static {
    /// The command is durable in this voter's log. It is not decided yet and may vanish.
    ///
    /// Called before this voter acknowledges the command to the leader, or, at the leader, before
    /// it counts itself. So when a command is decided, a majority of voters has made this call.
    fn appended(&mut self, index: u64, command: &[u8]);

    /// The entries from this index on have been removed from the log: another leader did not have
    /// them. They were never decided.
    fn truncated(&mut self, since: u64);

    /// A snapshot of the leader has replaced the state, and is durable. Called before this voter
    /// acknowledges it. No `decided` is called for the commands that it contains.
    fn snapshot_installed(&mut self, state: &[u8]);

    /// The command is decided, and the state machine has applied it.
    fn decided(&mut self, index: u64, command: &[u8]);

    /// This voter has become the leader (`true`) or is no longer (`false`). A hint: another voter
    /// may lead already, and short leaderships may go unreported.
    fn leads(&mut self, leads: bool);
}

/// A voter did not answer: not connected, too slow, or the answer was lost. The call may or may
/// not have arrived.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("voter {to} is unreachable: {reason}")]
pub struct Unreachable {
    /// The voter that was called.
    pub to: VoterId,
    /// The reason, for logs.
    pub reason: String,
}

/// The answer to a [`Transport::call`].
pub type Call = Pin<Box<dyn Future<Output = Result<Vec<u8>, Unreachable>> + Send>>;

/// Carries the engine's calls to other voters.
///
/// Calls may be lost, delayed and reordered, and the engine drops the future when it waits no
/// longer. The transport authenticates both sides: bytes that arrive at a voter are passed to
/// [`Engine::handle`](crate::Engine::handle) together with their true sender.
pub trait Transport: Send + Sync + 'static {
    /// Send `body` to a voter and return its answer.
    fn call(&self, to: VoterId, body: Vec<u8>) -> Call;
}
