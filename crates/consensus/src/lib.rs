//! Voters that decide one sequence of commands and go on deciding while a majority of them can
//! talk to each other: openraft, its log on disk, and guards against partial partitions.
//!
//! This crate knows nothing of locks or views. A command is bytes, and what it does is for the
//! caller's [`StateMachine`].
//!
//! # Raft in a few sentences
//!
//! At most five voters each keep a *log* of commands. One of them, elected by a majority for a
//! *term*, is the *leader*: it appends proposals to its log and sends them to the others. An entry
//! is *decided* when a majority has it on disk; it is then applied everywhere, in the order of
//! the log. Entries that no majority got may vanish when another leader takes over. After enough
//! entries the state is written as a *snapshot* and older entries are removed; a voter that
//! is far behind gets the snapshot. Ongaro and Ousterhout, "In Search of an Understandable
//! Consensus Algorithm" (2014), is the paper; openraft implements it.
//!
//! # How it is put together
//!
//! ```text
//!     propose ┐                    ┌ appended, truncated, decided, leads
//!             ▼                    │
//!          Engine ── openraft ── Watcher
//!     handle ▲          │  │
//!            │          │  └ StateMachine: apply, snapshot, restore
//!   Transport ┘         └ log store: append + CRC + fdatasync
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `interface` | the traits that the caller implements |
//! | `engine`, `config`, `error` | the handle, its settings, its errors |
//! | `log_store` | openraft's storage; in `format` frames, in `file` durable writes |
//! | `machine` | openraft's state machine |
//! | `network`, `wire` | calls to other voters, and their bytes |
//! | `guards`, `monitor` | what a leader may do, and openraft's reports, which it depends on |
//!
//! # What a caller can rely on
//!
//! - Decided commands are the same at all voters, in the same order, for ever. No clock is part of
//!   that.
//! - [`Watcher::appended`] and [`Watcher::snapshot_installed`] are called when the entry is
//!   durable and *before* this voter acknowledges it. So when a command is decided, a majority of
//!   voters has seen it appended; a voter can stop doing something at that moment, and the command
//!   takes effect only after a majority has stopped.
//! - A voter answers nothing that it has not written: a failed write or fsync ends the engine
//!   ([`Engine::ended`]), and nothing is tried again.
//! - A proposal may be lost, decided late, or decided twice if it is made twice. Commands have to
//!   stand that, for instance by naming the state that they expect.
//! - After a restart a voter has its log but does not know how much of it is decided. It learns
//!   that from the leader.
//!
//! # Three guards
//!
//! A leader renews its lease at every follower that it reaches, and a follower with a lease votes
//! for nobody else. With some links cut that stops openraft 0.9 for as long as the cut lasts: a
//! leader that is answered by no majority keeps a voter from joining the majority that could
//! elect another (openraft#2080). So:
//!
//! 1. A leader that no majority has answered for `2 x election_max` sends nothing for
//!    `4 x election_max`.
//! 2. A voter stands for election only while it sees a majority of voters ([`Engine::sees`]), and
//!    of these the one with the greatest id first: two that stand at the same time may both fail.
//! 3. A leader takes proposals only while the last answer of a majority is younger than
//!    `election_max`.
//!
//! openraft's feature `single-term-leader` must stay off: with it, elections can tie for ever.

mod config;
mod engine;
mod error;
mod guards;
mod interface;
mod log_store;
mod machine;
mod monitor;
mod network;
mod shared;
mod types;
mod wire;

pub use config::{EngineConfig, Origin, Timing};
pub use engine::{Engine, Status, VoterChange};
pub use error::{
    ChangeError, Ended, EngineError, HandleError, InitializeError, ProposeError, StoreError,
};
pub use interface::{Call, StateMachine, Transport, Unreachable, VoterId, Watcher};
pub use log_store::file::{Directory, Disk};
