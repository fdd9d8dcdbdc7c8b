//! Errors. Each says whether anything has changed.

use std::io;

use crate::interface::VoterId;

/// The files of a log store cannot be used, or a write has failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The disk refused an operation. After a failed write the store does nothing more: whether
    /// the write is durable is unknown, and a second fsync would not tell.
    #[error("cannot {operation} `{file}`: {source}")]
    Io {
        /// The operation, as a verb.
        operation: &'static str,
        /// The file's name in the store's directory.
        file: String,
        /// The disk's error.
        source: io::Error,
    },
    /// An earlier write failed; nothing was written since.
    #[error("the log store has stopped after a failed write")]
    Stopped,
    /// A file does not hold what was once acknowledged. Nothing was changed.
    #[error(
        "`{file}` is corrupted at byte {offset}: {reason}; restore it, or rejoin as a new voter"
    )]
    Corrupt {
        /// The file's name in the store's directory.
        file: &'static str,
        /// Where the defect begins.
        offset: usize,
        /// The defect.
        reason: &'static str,
    },
    /// A voter that ran before has no log. Nothing was changed.
    #[error("voter {0} has lost its log: remove this voter and let it join as a new one")]
    Wiped(VoterId),
    /// The files belong to another voter. Nothing was changed.
    #[error("this is the log of voter {found}, not of voter {expected}")]
    WrongVoter {
        /// The voter in the file.
        found: VoterId,
        /// The voter in the settings.
        expected: VoterId,
    },
}

/// An engine does not start.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The settings contradict one another.
    #[error("invalid consensus settings: {0}")]
    Config(String),
    /// The log store cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// openraft refuses the stored state.
    #[error("the consensus engine does not start: {0}")]
    Engine(String),
}

/// A proposal is refused: it was not and will not be decided.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// Another voter leads, or none.
    #[error("this voter does not lead")]
    NotLeader {
        /// The leader, as far as this voter knows.
        leader: Option<VoterId>,
    },
    /// This voter leads, but for a while no majority has confirmed it (guard 3).
    #[error("no majority of voters has confirmed this leader for too long")]
    Unconfirmed,
    /// The engine has ended.
    #[error("the consensus engine has ended")]
    Ended,
}

/// The first set of voters is refused; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InitializeError {
    /// This voter has a log or has voted already.
    #[error("this voter is part of a cluster already")]
    Initialized,
    /// The voters do not include this one, or there are none.
    #[error("the voters must include this one")]
    NotIncluded,
    /// The engine has ended.
    #[error("the consensus engine has ended")]
    Ended,
}

/// The voters could not be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// The proposal of the change is refused; nothing has changed.
    #[error(transparent)]
    Refused(#[from] ProposeError),
    /// Another change is under way; nothing has changed.
    #[error("another change of voters is under way")]
    InProgress,
    /// A cluster without voters decides nothing; nothing has changed.
    #[error("the last voter cannot be removed")]
    LastVoter,
    /// It took too long, because voters are unreachable or this one no longer leads. The change
    /// may still be decided; asking for it again is harmless and completes it.
    #[error("the change of voters is not decided yet")]
    Unfinished,
}

/// Bytes of another voter are refused; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandleError {
    /// Not a request of this version of the engine.
    #[error("voter {0} sent an invalid consensus request")]
    Invalid(VoterId),
    /// The request was made by another voter than the one that sent it.
    #[error("voter {from} sent a consensus request of voter {author}")]
    Impostor {
        /// The sender, according to the transport.
        from: VoterId,
        /// The voter named in the request.
        author: VoterId,
    },
    /// This voter has no log yet and does not vote until the leader has sent it.
    #[error("this voter has no log yet and does not vote")]
    NoLog,
    /// The engine has ended. It did not answer, although it may have written.
    #[error("the consensus engine has ended")]
    Ended,
}

/// Why an engine ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// [`Engine::stop`](crate::Engine::stop) was called.
    #[error("stopped")]
    Stopped,
    /// The disk failed, or what it holds is not what was written. No request that needed the
    /// write was answered. The process has to end: only a new start can tell what is durable.
    #[error("the log store failed: {0}")]
    Store(String),
    /// The engine, the state machine or the watcher panicked. The process has to end.
    #[error("the consensus engine panicked")]
    Panicked,
}

impl Ended {
    /// Whether the process has to end.
    pub fn is_fatal(&self) -> bool {
        *self != Ended::Stopped
    }
}
