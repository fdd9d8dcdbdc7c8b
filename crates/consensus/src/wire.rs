//! Requests and answers between voters, as bytes: a version, then postcard.

use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
};
use serde::{Deserialize, Serialize};

use crate::{
    interface::VoterId,
    types::{SnapshotMeta, Types, Vote},
};

const VERSION: u8 = 1;

/// A call of one voter to another.
#[derive(Serialize, Deserialize)]
pub(crate) enum Request {
    /// Entries, or a heartbeat, of the leader.
    Append(AppendEntriesRequest<Types>),
    /// A candidate asks for a vote.
    Vote(VoteRequest<VoterId>),
    /// The leader's snapshot, whole.
    Snapshot { vote: Vote, meta: SnapshotMeta, state: Vec<u8> },
}

impl Request {
    /// The voter that made the request: only a leader or candidate does.
    pub(crate) fn author(&self) -> VoterId {
        let vote = match self {
            Request::Append(request) => &request.vote,
            Request::Vote(request) => &request.vote,
            Request::Snapshot { vote, .. } => vote,
        };
        vote.leader_id.node_id
    }
}

/// The answer to a [`Request`], of the same kind.
#[derive(Serialize, Deserialize)]
pub(crate) enum Answer {
    Append(AppendEntriesResponse<VoterId>),
    Vote(VoteResponse<VoterId>),
    Snapshot(SnapshotResponse<VoterId>),
}

pub(crate) fn encode(message: &impl Serialize) -> Vec<u8> {
    postcard::to_extend(message, vec![VERSION]).expect("a message can be serialized")
}

pub(crate) fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Option<T> {
    match bytes.split_first() {
        Some((&VERSION, rest)) => postcard::from_bytes(rest).ok(),
        _ => None,
    }
}
