//! openraft's types, with ours filled in.

use openraft::{EmptyNode, EntryPayload, TokioRuntime};

use crate::interface::VoterId;

openraft::declare_raft_types!(
    /// A command is opaque bytes; applying one has no result; a snapshot is bytes in memory.
    pub(crate) Types:
        D = Vec<u8>,
        R = (),
        NodeId = VoterId,
        Node = EmptyNode,
        Entry = openraft::Entry<Types>,
        SnapshotData = Vec<u8>,
        AsyncRuntime = TokioRuntime,
);

pub(crate) type Entry = openraft::Entry<Types>;
pub(crate) type LogId = openraft::LogId<VoterId>;
pub(crate) type Vote = openraft::Vote<VoterId>;
pub(crate) type SnapshotMeta = openraft::SnapshotMeta<VoterId, EmptyNode>;
pub(crate) type StoredMembership = openraft::StoredMembership<VoterId, EmptyNode>;
pub(crate) type StorageError = openraft::StorageError<VoterId>;
pub(crate) type Raft = openraft::Raft<Types>;
pub(crate) type Metrics = openraft::RaftMetrics<VoterId, EmptyNode>;

/// The command of an entry; the engine's own entries have none.
pub(crate) fn command(entry: &Entry) -> Option<&[u8]> {
    match &entry.payload {
        EntryPayload::Normal(command) => Some(command),
        EntryPayload::Blank | EntryPayload::Membership(_) => None,
    }
}
