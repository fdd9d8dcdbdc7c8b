//! The engine: one voter.

use std::{
    collections::BTreeSet,
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use openraft::{ChangeMembers, EmptyNode, error::RaftError, raft::AppendEntriesResponse};
use tokio::{sync::watch, time::Instant};

use crate::{
    config::{EngineConfig, Origin},
    error::{ChangeError, Ended, EngineError, HandleError, InitializeError, ProposeError},
    guards::{Guards, Turn},
    interface::{StateMachine, Transport, VoterId, Watcher},
    log_store::{LogStore, file::Disk},
    machine::Machine,
    monitor,
    network::Network,
    shared::Shared,
    types::{Raft, Types},
    wire::{self, Answer, Request},
};

/// A change of one voter, the only kind there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VoterChange {
    /// Send the voter the log, then let it vote.
    Add(VoterId),
    /// Let the voter vote no longer.
    Remove(VoterId),
}

/// What an engine knows at one moment; others may know more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The term, which grows with every election.
    pub term: u64,
    /// The leader of the term, if one was elected and this voter has learnt of it.
    pub leader: Option<VoterId>,
    /// Whether this voter leads.
    pub leads: bool,
    /// The index of the last entry of this voter's log, decided or not.
    pub last_log: Option<u64>,
    /// The index of the last decided entry that this voter has applied.
    pub applied: Option<u64>,
    /// The index of the last entry in this voter's snapshot.
    pub snapshot: Option<u64>,
    /// The voters, as of the last entry of the log that changes them.
    pub voters: BTreeSet<VoterId>,
    /// Voters to be, which get the log and do not vote yet.
    pub learners: BTreeSet<VoterId>,
    /// Whether a change of voters has begun and is not complete: majorities of both the old and
    /// the new voters are needed.
    pub changing: bool,
    /// At the leader: how long ago the messages were sent that a majority has answered last.
    pub acknowledgement_age: Option<Duration>,
}

/// One voter of a cluster that decides a sequence of commands. See [`crate`].
///
/// Dropping it stops it, without waiting for a write under way.
pub struct Engine {
    id: VoterId,
    origin: Origin,
    guarded: bool,
    change_timeout: Duration,
    election_max: Duration,
    raft: Raft,
    store: LogStore,
    shared: Arc<Shared>,
    ended: watch::Receiver<Option<Ended>>,
    /// Held during a change of voters.
    changing: tokio::sync::Mutex<()>,
}

impl Engine {
    /// Open the log store on `disk` and start. The watcher gets the store's contents before this
    /// returns.
    ///
    /// The disk is read on the calling thread, since nothing else can happen before.
    pub async fn start(
        config: EngineConfig,
        disk: Box<dyn Disk>,
        transport: Arc<dyn Transport>,
        machine: Box<dyn StateMachine>,
        watcher: Box<dyn Watcher>,
    ) -> Result<Engine, EngineError> {
        let raft_config = Arc::new(config.raft()?);
        let guards = Guards::new(config.timing.election_max, config.guarded);
        let shared = Arc::new(Shared::new(watcher, guards));
        let store = LogStore::open(disk, &config, Arc::clone(&shared))?;
        let machine = Machine::new(machine, store.clone(), Arc::clone(&shared));
        let network = Network::new(transport, Arc::clone(&shared), config.timing.heartbeat);
        let raft = Raft::new(config.id, raft_config, network, store.clone(), machine).await;
        let raft = raft.map_err(|error| EngineError::Engine(error.to_string()))?;
        let (end, ended) = watch::channel(None);
        tokio::spawn(monitor::run(raft.metrics(), Arc::clone(&shared), end));
        Ok(Engine {
            id: config.id,
            origin: config.origin,
            guarded: config.guarded,
            change_timeout: config.timing.election_max * 10,
            election_max: config.timing.election_max,
            raft,
            store,
            shared,
            ended,
            changing: tokio::sync::Mutex::new(()),
        })
    }

    /// Found a cluster of these voters, this one included. To be called at one voter, once, when
    /// the engines of a majority of them run; the others start with [`Origin::Founding`].
    pub async fn initialize(&self, voters: &BTreeSet<VoterId>) -> Result<(), InitializeError> {
        use openraft::error::InitializeError as Refused;
        match self.raft.initialize(voters.clone()).await {
            Ok(()) => Ok(()),
            Err(RaftError::APIError(Refused::NotAllowed(_))) => Err(InitializeError::Initialized),
            Err(RaftError::APIError(Refused::NotInMembers(_))) => Err(InitializeError::NotIncluded),
            Err(RaftError::Fatal(_)) => Err(InitializeError::Ended),
        }
    }

    /// Propose a command, without waiting. It may be decided soon, late, twice (if it is proposed
    /// again) or never; [`Watcher::decided`] tells. Refused while guard 3 forbids it.
    pub fn propose(&self, command: Vec<u8>) -> Result<(), ProposeError> {
        self.may_propose()?;
        // Sending is immediate. It waits only for the end of an engine that is ending.
        let sent = pin!(self.raft.client_write_ff(command));
        match sent.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(_result)) => Ok(()),
            Poll::Ready(Err(_)) | Poll::Pending => Err(ProposeError::Ended),
        }
    }

    fn may_propose(&self) -> Result<(), ProposeError> {
        if self.ended.borrow().is_some() {
            return Err(ProposeError::Ended);
        }
        // Not held longer: waiting for another lock under this one could stop both.
        let (leads, may_propose) = {
            let guards = self.shared.guards();
            (guards.leads(), guards.may_propose(Instant::now()))
        };
        match (leads, may_propose) {
            (true, true) => Ok(()),
            (true, false) => Err(ProposeError::Unconfirmed),
            (false, _) => Err(ProposeError::NotLeader { leader: self.leader() }),
        }
    }

    /// Add or remove one voter, and wait until that is decided. Only the leader can, and only one
    /// change at a time. Asking for a change that was made already succeeds.
    ///
    /// A leader that removes itself leads until another is elected.
    pub async fn change_voters(&self, change: VoterChange) -> Result<(), ChangeError> {
        let _changing = self.changing.try_lock().map_err(|_| ChangeError::InProgress)?;
        self.may_propose()?;
        let changed = tokio::time::timeout(self.change_timeout, self.change(change));
        changed.await.unwrap_or(Err(ChangeError::Unfinished))
    }

    async fn change(&self, change: VoterChange) -> Result<(), ChangeError> {
        // A former leader may have left a change half made; this completes it.
        if self.status().changing {
            self.change_members(ChangeMembers::AddVoterIds(BTreeSet::new())).await?;
        }
        let Status { voters, learners, .. } = self.status();
        match change {
            VoterChange::Add(voter) if voters.contains(&voter) => Ok(()),
            VoterChange::Add(voter) => {
                self.add_learner(voter).await?;
                self.change_members(ChangeMembers::AddVoterIds(BTreeSet::from([voter]))).await
            }
            VoterChange::Remove(voter) if voters == BTreeSet::from([voter]) => {
                Err(ChangeError::LastVoter)
            }
            VoterChange::Remove(voter) if voters.contains(&voter) => {
                self.change_members(ChangeMembers::RemoveVoters(BTreeSet::from([voter]))).await
            }
            VoterChange::Remove(voter) if learners.contains(&voter) => {
                self.change_members(ChangeMembers::RemoveNodes(BTreeSet::from([voter]))).await
            }
            VoterChange::Remove(_) => Ok(()),
        }
    }

    /// Send a voter to be the log, and wait until it has it, up to and including the entry that
    /// adds it. openraft can wait too, but takes a learner that never answered for one that is up
    /// to date while the log is short.
    async fn add_learner(&self, voter: VoterId) -> Result<(), ChangeError> {
        let added = self.raft.add_learner(voter, EmptyNode::default(), false).await;
        let added = added.map_err(|_| ChangeError::Unfinished)?.log_id;
        let mut metrics = self.raft.metrics();
        let has_log = metrics.wait_for(|metrics| match &metrics.replication {
            Some(replication) => replication.get(&voter).is_some_and(|has| *has >= Some(added)),
            // This voter no longer leads.
            None => true,
        });
        match has_log.await {
            Ok(metrics) if metrics.replication.is_some() => Ok(()),
            _ => Err(ChangeError::Unfinished),
        }
    }

    async fn change_members(
        &self,
        change: ChangeMembers<VoterId, EmptyNode>,
    ) -> Result<(), ChangeError> {
        let changed = self.raft.change_membership(change, false).await;
        changed.map(|_| ()).map_err(|_| ChangeError::Unfinished)
    }

    /// Answer a request of another voter. `from` is the sender, as the transport has authenticated
    /// it. When this returns an answer, whatever the answer promises is durable.
    pub async fn handle(&self, from: VoterId, request: &[u8]) -> Result<Vec<u8>, HandleError> {
        let request = wire::decode::<Request>(request).ok_or(HandleError::Invalid(from))?;
        let author = request.author();
        if author != from {
            return Err(HandleError::Impostor { from, author });
        }
        let answer = match request {
            Request::Append(request) => {
                let answer = self.raft.append_entries(request).await;
                let answer = answer.map_err(|_| HandleError::Ended)?;
                if !matches!(answer, AppendEntriesResponse::HigherVote(_)) {
                    self.shared.heard_leader();
                }
                Answer::Append(answer)
            }
            Request::Vote(request) => {
                if self.origin != Origin::Founding && self.store.is_empty() {
                    return Err(HandleError::NoLog);
                }
                let answer = self.raft.vote(request).await;
                Answer::Vote(answer.map_err(|_| HandleError::Ended)?)
            }
            Request::Snapshot { vote, meta, state } => {
                let snapshot = openraft::Snapshot::<Types> { meta, snapshot: Box::new(state) };
                let answer = self.raft.install_full_snapshot(vote, snapshot).await;
                Answer::Snapshot(answer.map_err(|_| HandleError::Ended)?)
            }
        };
        Ok(wire::encode(&answer))
    }

    /// Guard 2: tell which voters this one sees; to be called several times in an `election_max`.
    /// Without a majority of them, itself included, it does not stand for election: it could not
    /// win, and its growing term would unseat the leader when it is seen again. Until the first
    /// call it does not.
    ///
    /// Of those that see a majority, the one with the greatest id stands first, the others later.
    pub fn sees(&self, seen: &BTreeSet<VoterId>) {
        if !self.guarded {
            return;
        }
        let metrics = self.raft.metrics();
        let (configs, leader) = {
            let metrics = metrics.borrow();
            let members = metrics.membership_config.membership();
            (members.get_joint_config().clone(), metrics.current_leader)
        };
        let is_seen = |voter: &VoterId| *voter == self.id || seen.contains(voter);
        let majority = |voters: &BTreeSet<VoterId>| {
            voters.iter().filter(|voter| is_seen(voter)).count() * 2 > voters.len()
        };
        let before =
            |voter: &&VoterId| **voter > self.id && Some(**voter) != leader && is_seen(voter);
        let voters = configs.last();
        let rank = voters.map_or(0, |voters| voters.iter().filter(before).count());
        let turn = Turn { rank, silence: self.shared.silence() };
        let stands = configs.iter().all(majority) && turn.has_come(self.election_max);
        self.raft.runtime_config().elect(stands);
    }

    /// The leader, as far as this voter knows.
    pub fn leader(&self) -> Option<VoterId> {
        self.raft.metrics().borrow().current_leader
    }

    /// Whether this voter leads, or has lately received something from the leader: no election is
    /// near.
    pub fn is_led(&self) -> bool {
        self.shared.guards().leads() || self.shared.silence() < self.election_max
    }

    /// What this voter knows now.
    pub fn status(&self) -> Status {
        let (leads, acknowledgement_age) = {
            let guards = self.shared.guards();
            (guards.leads(), guards.acknowledgement_age(Instant::now()))
        };
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let members = metrics.membership_config.membership();
        Status {
            term: metrics.current_term,
            leader: metrics.current_leader,
            leads,
            last_log: metrics.last_log_index,
            applied: metrics.last_applied.map(|id| id.index),
            snapshot: metrics.snapshot.map(|id| id.index),
            voters: members.get_joint_config().last().cloned().unwrap_or_default(),
            learners: members.learner_ids().collect(),
            changing: members.get_joint_config().len() > 1,
            acknowledgement_age,
        }
    }

    /// Wait until the engine ends, and return why. If [`Ended::is_fatal`], the process has to end.
    pub async fn ended(&self) -> Ended {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(end) => end.clone().unwrap_or(Ended::Panicked),
            // The monitor panicked, which the watcher's `leads` can do.
            Err(_) => Ended::Panicked,
        }
    }

    /// Stop, after what is being written is durable.
    pub async fn stop(&self) {
        // It only fails if openraft's task panicked, which `ended` reports.
        let _ = self.raft.shutdown().await;
        self.ended().await;
    }

    /// This voter.
    pub fn id(&self) -> VoterId {
        self.id
    }
}
