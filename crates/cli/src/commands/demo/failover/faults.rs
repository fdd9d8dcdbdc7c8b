//! The faults, and what comes of them.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context, Result};
use clap::ValueEnum;
use rustix::process::Signal;
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::{Failover, nodes::NODES};

/// How long the cluster may take to go on, or to be complete again.
pub(super) const PATIENCE: Duration = Duration::from_secs(90);

/// How long all branches must be silent before the token counts as idle.
const QUIET: Duration = Duration::from_millis(100);

/// A fault.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(super) enum Fault {
    /// The node of the holder is killed.
    HolderKilled,
    /// The node that has the token, and does not hold the lock, is killed.
    TokenKilled,
    /// The leader of the consensus engine is killed.
    LeaderKilled,
    /// The leader of the consensus engine is stopped in order (SIGTERM), and hands over.
    LeaderStopped,
    /// The node of the holder and another one are cut off from the other three.
    HolderCutOff,
    /// The process of the holder is paused (SIGSTOP).
    HolderPaused,
}

impl Fault {
    pub(super) const ALL: [Self; 6] = [
        Self::HolderKilled,
        Self::TokenKilled,
        Self::LeaderKilled,
        Self::LeaderStopped,
        Self::HolderCutOff,
        Self::HolderPaused,
    ];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::HolderKilled => "the holder's node killed",
            Self::TokenKilled => "the node with the idle token killed",
            Self::LeaderKilled => "the consensus leader killed",
            Self::LeaderStopped => "the consensus leader stopped in order",
            Self::HolderCutOff => "the holder's node and another cut off",
            Self::HolderPaused => "the holder's node paused",
        }
    }
}

/// What came of a fault.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Outcome {
    pub(super) fault: Fault,
    /// The nodes that it struck.
    pub(super) nodes: Vec<String>,
    /// The longest time without a grant of the bank's lock, up to when all nodes were back.
    pub(super) longest_gap_ms: u64,
    /// The longest time without a grant of the other nodes' own locks.
    pub(super) other_locks_ms: u64,
    pub(super) view_changes: u64,
    /// How long before the next grant the holder that was cut off knew that it had lost the lock.
    pub(super) lost_before_ms: Option<i64>,
    /// How long after it was resumed the paused holder reported that it had lost the lock.
    pub(super) lost_after_resume_ms: Option<u64>,
}

/// A fault that has been caused.
pub(super) struct Struck {
    fault: Fault,
    nodes: Vec<usize>,
    at: Instant,
    view: u64,
    /// When the process that it paused was resumed.
    resumed: Option<Instant>,
}

impl Struck {
    pub(super) fn nodes(&self) -> impl Iterator<Item = usize> {
        self.nodes.iter().copied()
    }
}

impl Failover {
    /// The names of the nodes that were struck.
    pub(super) fn names_of(&self, struck: &Struck) -> String {
        let names: Vec<_> = struck.nodes().map(|node| &*self.nodes.names()[node]).collect();
        names.join(", ")
    }

    /// Causes a fault. Nodes in `spared` are struck only if there is no other.
    pub(super) async fn strike(
        &mut self,
        fault: Fault,
        spared: &BTreeSet<usize>,
    ) -> Result<Struck> {
        let view = self.bank.state().view();
        let nodes = match fault {
            Fault::HolderKilled => vec![self.catch(spared).await?],
            Fault::TokenKilled => vec![self.find_idle_token(spared).await?],
            Fault::LeaderKilled | Fault::LeaderStopped => vec![self.find_idle_leader().await?],
            Fault::HolderCutOff => {
                let holder = self.catch(spared).await?;
                let leader = self.leader()?;
                let other = (0..NODES).filter(|&node| node != holder && node != leader);
                vec![holder, other.min_by_key(|node| spared.contains(node)).context("no node")?]
            }
            Fault::HolderPaused => vec![self.catch(spared).await?],
        };
        match fault {
            Fault::HolderKilled | Fault::TokenKilled | Fault::LeaderKilled => {
                self.nodes.kill(nodes[0]);
                self.bank.state().branches[nodes[0]].status = None;
            }
            Fault::LeaderStopped => self.nodes.signal(nodes[0], Signal::TERM),
            Fault::HolderCutOff => self.nodes.network.cut(nodes.iter().copied()),
            Fault::HolderPaused => {
                self.bank.state().branches[nodes[0]].paused = true;
                self.nodes.signal(nodes[0], Signal::STOP);
            }
        }
        let at = self.bank.measure();
        if fault == Fault::TokenKilled {
            self.bank.run(true);
        }
        Ok(Struck { fault, nodes, at, view, resumed: None })
    }

    /// Waits until the other nodes have gone on without those that were struck.
    pub(super) async fn await_recovery(&self, struck: &Struck) -> Result<()> {
        let names = self.nodes.names().to_vec();
        let others: Vec<_> = (0..NODES).filter(|node| !struck.nodes.contains(node)).collect();
        let gone_on = |state: &mut super::bank::State| {
            state.are_in_view(&others, &names) && state.grants.first.is_some()
        };
        self.bank.until("the other nodes go on", PATIENCE, gone_on).await
    }

    /// Ends the fault, and waits until all nodes are in one view.
    pub(super) async fn repair(&mut self, struck: &mut Struck) -> Result<()> {
        match struck.fault {
            Fault::HolderCutOff => self.nodes.network.heal(),
            Fault::HolderPaused => {
                struck.resumed = Some(Instant::now());
                self.nodes.signal(struck.nodes[0], Signal::CONT);
            }
            Fault::LeaderStopped => {
                self.nodes.wait(struck.nodes[0]);
                self.bank.state().branches[struck.nodes[0]].status = None;
                self.nodes.start_one(struck.nodes[0])?;
            }
            Fault::HolderKilled | Fault::TokenKilled | Fault::LeaderKilled => {
                self.nodes.start_one(struck.nodes[0])?;
            }
        }
        self.await_all().await
    }

    /// Waits until all nodes are in one view and know its leader.
    pub(super) async fn await_all(&self) -> Result<()> {
        let names = self.nodes.names().to_vec();
        let all: Vec<_> = (0..NODES).collect();
        let whole = |state: &mut super::bank::State| {
            state.are_in_view(&all, &names) && state.leader(&names).is_some()
        };
        self.bank.until("all nodes are in one view", PATIENCE, whole).await
    }

    /// What has come of a fault until now.
    pub(super) fn outcome(&self, struck: &Struck) -> Outcome {
        let state = self.bank.state();
        let now = Instant::now();
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let others = (0..NODES).filter(|node| !struck.nodes.contains(node));
        let pauses = others.map(|node| state.branches[node].own_pause);
        let signed = |time: Instant| i64::try_from(millis(time - struck.at)).unwrap_or(i64::MAX);
        let lost = state.branches[struck.nodes[0]].lost_at;
        let lost_before = lost.filter(|_| struck.fault == Fault::HolderCutOff);
        let lost_before = lost_before.zip(state.grants.first);
        let lost_after = lost.zip(struck.resumed);
        Outcome {
            fault: struck.fault,
            nodes: struck.nodes.iter().map(|&node| self.nodes.names()[node].clone()).collect(),
            longest_gap_ms: millis(state.grants.longest(now)),
            other_locks_ms: millis(pauses.max().unwrap_or_default()),
            view_changes: state.view().saturating_sub(struck.view),
            lost_before_ms: lost_before.map(|(lost, granted)| signed(granted) - signed(lost)),
            lost_after_resume_ms: lost_after
                .map(|(lost, resumed)| millis(lost.saturating_duration_since(resumed))),
        }
    }

    fn leader(&self) -> Result<usize> {
        self.bank.state().leader(self.nodes.names()).context("the branches report no leader")
    }

    /// A node other than the leader that holds the lock now.
    async fn catch(&self, spared: &BTreeSet<usize>) -> Result<usize> {
        let leader = self.leader()?;
        let others: Vec<_> = (0..NODES).filter(|&node| node != leader).collect();
        let mut fresh = others.clone();
        fresh.retain(|node| !spared.contains(node));
        self.bank.catch(if fresh.is_empty() { others } else { fresh }, PATIENCE).await
    }

    /// The node that held the lock last, when no node requests it: the token is there.
    async fn find_idle_token(&self, spared: &BTreeSet<usize>) -> Result<usize> {
        // The last one is decided by the queue; after some tries any of them will do.
        for tries in 0.. {
            self.bank.run(false);
            let mut transfers = None;
            // Quiet: no transfer since the last look, and no branch in its critical section.
            loop {
                sleep(QUIET).await;
                let state = self.bank.state();
                let now = Some(state.ledger.transfers());
                if state.ledger.holder().is_none() && transfers == now {
                    break;
                }
                transfers = now;
            }
            let last = self.bank.state().last_holder.context("no transfer yet")?;
            if tries == 20 || (last != self.leader()? && !spared.contains(&last)) {
                return Ok(last);
            }
            self.bank.run(true);
            sleep(QUIET).await;
        }
        unreachable!("the last try returns")
    }

    /// The leader, at a moment at which it does not hold the lock.
    async fn find_idle_leader(&self) -> Result<usize> {
        let leader = self.leader()?;
        let idle = |state: &mut super::bank::State| {
            state.ledger.holder().is_some_and(|holder| holder != leader)
        };
        self.bank.until("another node holds the lock", PATIENCE, idle).await?;
        Ok(leader)
    }
}
