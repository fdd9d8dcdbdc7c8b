//! openraft's network: calls through the caller's [`Transport`], unless guard 1 forbids them.

use std::{
    collections::BTreeMap,
    future::Future,
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use openraft::{
    AnyError, EmptyNode, RaftNetwork, RaftNetworkFactory,
    error::{Fatal, RPCError, RaftError, ReplicationClosed, StreamingError, Unreachable},
    network::{Backoff, RPCOption},
    raft::{
        AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
    },
};

use crate::{
    interface::{Transport, VoterId},
    shared::{Shared, lock},
    types::{LogId, Types, Vote},
    wire::{self, Answer, Request},
};

type CallError = RPCError<VoterId, EmptyNode, RaftError<VoterId>>;

/// Makes a [`Peer`] for each voter that is called.
pub(crate) struct Network {
    transport: Arc<dyn Transport>,
    shared: Arc<Shared>,
    heartbeat: Duration,
    matched: Arc<Mutex<Matched>>,
}

impl Network {
    pub(crate) fn new(
        transport: Arc<dyn Transport>,
        shared: Arc<Shared>,
        heartbeat: Duration,
    ) -> Network {
        Network { transport, shared, heartbeat, matched: Arc::default() }
    }
}

impl RaftNetworkFactory<Types> for Network {
    type Network = Peer;

    async fn new_client(&mut self, to: VoterId, _: &EmptyNode) -> Peer {
        Peer {
            to,
            transport: Arc::clone(&self.transport),
            shared: Arc::clone(&self.shared),
            heartbeat: self.heartbeat,
            matched: Arc::clone(&self.matched),
        }
    }
}

/// How much of this leader's log each voter is known to have, while it leads.
#[derive(Default)]
struct Matched {
    leader: Option<Vote>,
    voters: BTreeMap<VoterId, LogId>,
}

impl Matched {
    /// Take in an answer. Returns whether the voter lacks what it once acknowledged to this leader.
    fn has_lost(
        &mut self,
        to: VoterId,
        sent: &Sent,
        answer: &AppendEntriesResponse<VoterId>,
    ) -> bool {
        if self.leader != Some(sent.vote) {
            *self = Matched { leader: Some(sent.vote), voters: BTreeMap::new() };
        }
        let known = self.voters.get(&to).copied();
        match answer {
            AppendEntriesResponse::Success => {
                if let Some(last) = known.max(sent.last) {
                    self.voters.insert(to, last);
                }
                false
            }
            AppendEntriesResponse::Conflict => known.is_some() && known >= sent.previous,
            AppendEntriesResponse::PartialSuccess(_) | AppendEntriesResponse::HigherVote(_) => {
                false
            }
        }
    }
}

/// What an append claims of the log.
struct Sent {
    vote: Vote,
    previous: Option<LogId>,
    last: Option<LogId>,
}

/// Another voter.
pub(crate) struct Peer {
    to: VoterId,
    transport: Arc<dyn Transport>,
    shared: Arc<Shared>,
    heartbeat: Duration,
    matched: Arc<Mutex<Matched>>,
}

impl Peer {
    async fn call(&self, request: &Request) -> Result<Answer, Unreachable> {
        if !self.shared.may_send() {
            return Err(unreachable("silent: no majority answers this leader"));
        }
        let answer = self.transport.call(self.to, wire::encode(request)).await;
        let answer = answer.map_err(|error| Unreachable::new(&error))?;
        wire::decode(&answer).ok_or_else(|| unreachable("the answer is invalid"))
    }
}

impl RaftNetwork<Types> for Peer {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Types>,
        _: RPCOption,
    ) -> Result<AppendEntriesResponse<VoterId>, CallError> {
        let last = request.entries.last().map(|entry| entry.log_id).or(request.prev_log_id);
        let sent = Sent { vote: request.vote, previous: request.prev_log_id, last };
        let Answer::Append(answer) = self.call(&Request::Append(request)).await? else {
            return Err(unreachable("the answer is of another kind").into());
        };
        // openraft's leader panics, or worse, when a voter has less than it acknowledged. Such a
        // voter counts for nothing: it is treated as unreachable until it is removed.
        if lock(&self.matched).has_lost(self.to, &sent, &answer) {
            tracing::error!(voter = %self.to, "the voter has lost its log; it has to be removed");
            return Err(unreachable("the voter has lost its log").into());
        }
        Ok(answer)
    }

    async fn vote(
        &mut self,
        request: VoteRequest<VoterId>,
        _: RPCOption,
    ) -> Result<VoteResponse<VoterId>, CallError> {
        match self.call(&Request::Vote(request)).await? {
            Answer::Vote(answer) => Ok(answer),
            _ => Err(unreachable("the answer is of another kind").into()),
        }
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: openraft::Snapshot<Types>,
        cancel: impl Future<Output = ReplicationClosed> + Send + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<VoterId>, StreamingError<Types, Fatal<VoterId>>> {
        let request = Request::Snapshot { vote, meta: snapshot.meta, state: *snapshot.snapshot };
        let answer = tokio::select! {
            closed = cancel => return Err(closed.into()),
            answer = tokio::time::timeout(option.hard_ttl(), self.call(&request)) => answer,
        };
        match answer.unwrap_or_else(|_| Err(unreachable("installing a snapshot takes too long")))? {
            Answer::Snapshot(answer) => Ok(answer),
            _ => Err(unreachable("the answer is of another kind").into()),
        }
    }

    /// The pause after an unreachable voter. openraft's default is as long as an election.
    fn backoff(&self) -> Backoff {
        Backoff::new(std::iter::repeat(self.heartbeat))
    }
}

fn unreachable(reason: &'static str) -> Unreachable {
    Unreachable::from(AnyError::new(&io::Error::other(reason)))
}
