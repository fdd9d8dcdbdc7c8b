//! The bank: serves the branches, keeps the ledger, and notes when the lock was granted.

use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use tokio::{
    net::{UnixListener, UnixStream},
    sync::{Notify, mpsc, oneshot},
    time::{Instant, timeout},
};

use super::{
    ledger::Ledger,
    message::{BranchStatus, FromBank, Messages, ToBank, sender},
};

/// The bank, shared by the tasks that serve branches and the one that causes faults.
#[derive(Clone)]
pub(super) struct Bank(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

/// What the bank knows.
pub(super) struct State {
    pub(super) ledger: Ledger,
    pub(super) branches: Vec<Branch>,
    pub(super) grants: Grants,
    /// The branch that was granted the lock last.
    pub(super) last_holder: Option<usize>,
    /// Whether the branches request the lock.
    running: bool,
    trap: Option<Trap>,
    /// What must not happen, in words.
    pub(super) violations: Vec<String>,
}

/// The next branch of these that acquires the lock gets no reply, and is reported.
struct Trap {
    branches: Vec<usize>,
    caught: oneshot::Sender<usize>,
}

/// A branch as the bank knows it.
#[derive(Default)]
pub(super) struct Branch {
    to: Option<mpsc::UnboundedSender<FromBank>>,
    /// The last status of its node; none if it does not run.
    pub(super) status: Option<BranchStatus>,
    pub(super) transfers: u64,
    /// The longest pause of its own lock since the measurement began.
    pub(super) own_pause: Duration,
    /// When it reported that it has lost the lock.
    pub(super) lost_at: Option<Instant>,
    /// Late writes that the bank refused.
    pub(super) refused: u64,
    /// It was paused: it may try a late write.
    pub(super) paused: bool,
}

/// The times of grants.
#[derive(Clone, Copy)]
pub(super) struct Grants {
    last: Instant,
    longest: Duration,
    /// The first grant since the measurement began.
    pub(super) first: Option<Instant>,
}

impl Grants {
    fn granted(&mut self, now: Instant) {
        self.longest = self.longest.max(now - self.last);
        self.last = now;
        self.first.get_or_insert(now);
    }

    /// The time since the last grant.
    pub(super) fn since_last(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.last)
    }

    /// The longest time without a grant since the measurement began, the present one included.
    pub(super) fn longest(&self, now: Instant) -> Duration {
        self.longest.max(self.since_last(now))
    }
}

impl Bank {
    /// Opens a bank for so many branches; it serves them until the runtime ends.
    pub(super) fn open(socket: &Path, branches: usize) -> Result<Self> {
        let listener = UnixListener::bind(socket)
            .with_context(|| format!("cannot listen at {}", socket.display()))?;
        let now = Instant::now();
        let state = State {
            ledger: Ledger::new(),
            branches: (0..branches).map(|_| Branch::default()).collect(),
            grants: Grants { last: now, longest: Duration::ZERO, first: None },
            last_holder: None,
            running: false,
            trap: None,
            violations: Vec::new(),
        };
        let bank = Self(Arc::new(Shared { state: Mutex::new(state), changed: Notify::new() }));
        let serving = bank.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let bank = serving.clone();
                tokio::spawn(async move { bank.serve(stream).await });
            }
        });
        Ok(bank)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves a branch until its process has ended.
    async fn serve(&self, stream: UnixStream) {
        let (reader, writer) = stream.into_split();
        let mut messages = Messages::new(reader);
        let Ok(Some(ToBank::Branch(index))) = messages.next().await else { return };
        let to = sender(writer);
        {
            let mut state = self.state();
            let first = if state.running { FromBank::Go } else { FromBank::Pause };
            let _ = to.send(first);
            let Some(branch) = state.branches.get_mut(index) else { return };
            branch.to = Some(to.clone());
        }
        while let Ok(Some(message)) = messages.next().await {
            self.state().on_message(index, &message, &to);
            self.0.changed.notify_waiters();
        }
        let mut state = self.state();
        // The next process may have connected already.
        if state.branches[index].to.as_ref().is_some_and(|known| known.same_channel(&to)) {
            state.branches[index].to = None;
            state.branches[index].status = None;
        }
        drop(state);
        self.0.changed.notify_waiters();
    }

    /// Lets all branches request the lock, or none.
    pub(super) fn run(&self, running: bool) {
        let mut state = self.state();
        state.running = running;
        for to in state.branches.iter().filter_map(|branch| branch.to.as_ref()) {
            let _ = to.send(if running { FromBank::Go } else { FromBank::Pause });
        }
    }

    /// Waits until one of these branches has acquired the lock, and keeps it in its critical
    /// section.
    pub(super) async fn catch(&self, branches: Vec<usize>, patience: Duration) -> Result<usize> {
        let (caught, catch) = oneshot::channel();
        self.state().trap = Some(Trap { branches, caught });
        let caught = timeout(patience, catch).await;
        Ok(caught.context("no branch has acquired the lock")??)
    }

    /// Waits until this is so.
    pub(super) async fn until(
        &self,
        what: &str,
        patience: Duration,
        mut condition: impl FnMut(&mut State) -> bool,
    ) -> Result<()> {
        let waited = async {
            loop {
                // Registered before the look, so that no change is missed.
                let changed = self.0.changed.notified();
                if condition(&mut self.state()) {
                    return;
                }
                changed.await;
            }
        };
        if timeout(patience, waited).await.is_err() {
            let state = self.state();
            let status = |branch: &Branch| match &branch.status {
                Some(status) => format!("view {} {:?}", status.view, status.suspended),
                None => "not running".to_owned(),
            };
            let branches: Vec<_> = state.branches.iter().map(status).collect();
            bail!("{what}: not within {patience:?}; the branches: {}", branches.join(", "));
        }
        Ok(())
    }

    /// Begins a measurement of grants and pauses.
    pub(super) fn measure(&self) -> Instant {
        let now = Instant::now();
        let mut state = self.state();
        state.grants = Grants { last: now, longest: Duration::ZERO, first: None };
        for branch in &mut state.branches {
            branch.own_pause = Duration::ZERO;
            branch.lost_at = None;
        }
        now
    }
}

impl State {
    fn on_message(&mut self, index: usize, message: &ToBank, to: &mpsc::UnboundedSender<FromBank>) {
        let reply = match *message {
            ToBank::Branch(_) => None,
            ToBank::Status(ref status) => {
                let branch = &mut self.branches[index];
                let pause = Duration::from_millis(status.own_pause_ms);
                branch.own_pause = branch.own_pause.max(pause);
                branch.status = Some(status.clone());
                None
            }
            ToBank::Begin { token, accounts } => self.on_begin(index, token, accounts),
            ToBank::Write { token, accounts, balances } => {
                Some(match self.ledger.write(token, accounts, balances) {
                    Ok(()) => {
                        self.branches[index].transfers += 1;
                        FromBank::Written { token }
                    }
                    Err(_) => self.refuse(index, token),
                })
            }
            ToBank::Lost { token } => {
                self.branches[index].lost_at = Some(Instant::now());
                self.ledger.give_up(token);
                None
            }
        };
        if let Some(reply) = reply {
            let _ = to.send(reply);
        }
    }

    fn on_begin(&mut self, index: usize, token: u64, accounts: [usize; 2]) -> Option<FromBank> {
        let Ok(balances) = self.ledger.begin(index, token, accounts) else {
            return Some(self.refuse(index, token));
        };
        self.grants.granted(Instant::now());
        self.last_holder = Some(index);
        match self.trap.take() {
            Some(trap) if trap.branches.contains(&index) => {
                let _ = trap.caught.send(index);
                None
            }
            trap => {
                self.trap = trap;
                Some(FromBank::Balances { token, balances })
            }
        }
    }

    /// A message with an old fencing token: only a process that was paused may send one.
    fn refuse(&mut self, index: usize, token: u64) -> FromBank {
        let branch = &mut self.branches[index];
        branch.refused += 1;
        if !branch.paused {
            let text = format!("branch {index} used fencing token {token} after a greater one");
            self.violations.push(text);
        }
        FromBank::Refused { token }
    }

    /// The greatest view number that a branch has reported.
    pub(super) fn view(&self) -> u64 {
        let statuses = self.branches.iter().filter_map(|branch| branch.status.as_ref());
        statuses.map(|status| status.view).max().unwrap_or(0)
    }

    /// Whether exactly these branches are the members of one view, and grant locks.
    pub(super) fn are_in_view(&self, members: &[usize], names: &[String]) -> bool {
        let wanted: Vec<_> = members.iter().map(|&index| &names[index]).collect();
        members.iter().all(|&index| {
            self.branches[index].status.as_ref().is_some_and(|status| {
                status.suspended.is_none() && status.members.iter().eq(wanted.iter().copied())
            })
        })
    }

    /// The consensus leader, if most branches agree on it.
    pub(super) fn leader(&self, names: &[String]) -> Option<usize> {
        let counted = |index: usize| {
            let leads = |branch: &&Branch| {
                let status = branch.status.as_ref();
                status.is_some_and(|status| status.leader.as_ref() == names.get(index))
            };
            self.branches.iter().filter(leads).count()
        };
        let leader = (0..self.branches.len()).max_by_key(|&index| counted(index))?;
        (counted(leader) * 2 > self.branches.len()).then_some(leader)
    }
}
