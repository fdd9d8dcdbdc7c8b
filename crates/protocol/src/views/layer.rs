//! The view layer of one node: all parts put together.
//!
//! Every call takes the time, which never goes back. After each call the shell does what
//! [`take_effects`](ViewLayer::take_effects) says, and calls [`tick`](ViewLayer::tick) at
//! [`wake_at`](ViewLayer::wake_at).

mod change;
mod leases;
mod recording;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use super::{
    Applied, Command, Coordinator, DecidedState, DecidedView, Detector, Directory, Host, Instance,
    Keeper, LeaseChange, LeaseRules, Levels, MemberId, MemberLease, Message, Policy, Quarantine,
    Record, Report, Stage, ViewEffect, ViewNumber, ViewSettings, VoterLease,
};
use crate::Moment;

/// What a node finds on its disk when it starts.
#[derive(Clone, Debug, Default)]
pub struct Persisted {
    /// The state of its latest snapshot, or the state that a new cluster or member starts with.
    pub snapshot: DecidedState,
    /// The place of the last command in the snapshot.
    pub index: u64,
    /// The log behind it, by place. How much of it is committed it does not know yet.
    pub log: BTreeMap<u64, Command>,
}

/// The view layer of one node.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct ViewLayer {
    me: Instance,
    settings: ViewSettings,
    state: DecidedState,
    /// The directory as this member knew it before it started: later than that of `state` until its
    /// log is decided again. It tells where the voters are, and nothing else.
    known: Directory,
    /// The number of commands that this node's engine has decided. A member that is yet to vote has
    /// a state from the voters, which may be ahead of its engine.
    engine_version: u64,
    /// Set if this node runs a consensus engine.
    voter: Option<VoterLease>,
    leads: bool,
    policy: Policy,
    detector: Detector,
    linked: BTreeSet<Instance>,
    lease: MemberLease,
    next_ask: Moment,
    next_review: Moment,
    /// Whom the last ask said it sees.
    seen: BTreeSet<Instance>,
    /// The view that this node is in or joins.
    view: Option<DecidedView>,
    stage: Stage,
    last_begun: ViewNumber,
    /// An epoch that the fencing tokens known here are at most of.
    floor: u32,
    /// The report to the view, when it was made, and up to which version the coordinator has it.
    report: Option<Report>,
    reported: Moment,
    noted: u64,
    coordinator: Option<Coordinator>,
    quarantine: Quarantine,
    leaving: bool,
    /// Removed, and whether the shell says that nothing is held any more.
    stopped: bool,
    keeper: Keeper,
    /// The host and the number of the last record of each lock that this keeper got in the view.
    last_kept: BTreeMap<Vec<u8>, (Instance, u64)>,
    host: Host,
    /// Records whose TTL is not decided yet.
    unlogged: Vec<Record>,
    inbox: VecDeque<Message>,
    effects: Vec<ViewEffect>,
}

impl ViewLayer {
    /// A node that starts now. `engine` says whether it runs a consensus engine.
    pub fn new(
        now: Moment,
        me: Instance,
        settings: ViewSettings,
        persisted: Persisted,
        engine: bool,
    ) -> Self {
        let Persisted { snapshot, log, .. } = persisted;
        let voter = engine.then(|| {
            let mut voter = VoterLease::new(now, snapshot.last_number());
            for (&index, command) in &log {
                voter.appended(index, command);
            }
            voter
        });
        Self {
            me,
            settings,
            known: Directory::default(),
            engine_version: snapshot.version(),
            state: snapshot,
            voter,
            leads: false,
            policy: Policy::new(now),
            detector: Detector::default(),
            linked: BTreeSet::new(),
            lease: MemberLease::default(),
            next_ask: now,
            next_review: now,
            seen: BTreeSet::new(),
            view: None,
            stage: Stage::Out,
            last_begun: ViewNumber::default(),
            floor: 0,
            report: None,
            reported: Moment::ZERO,
            noted: 0,
            coordinator: None,
            quarantine: Quarantine::default(),
            leaving: false,
            stopped: false,
            keeper: Keeper::default(),
            last_kept: BTreeMap::new(),
            host: Host::default(),
            unlogged: Vec::new(),
            inbox: VecDeque::new(),
            effects: Vec::new(),
        }
    }

    /// The members as this node knew them when it stopped.
    pub fn set_known(&mut self, known: Directory) {
        self.known = known;
    }

    /// An engine runs at this node from now on; its state before its log is of this version.
    pub fn start_voting(&mut self, now: Moment, version: u64) {
        if self.voter.is_none() {
            self.voter = Some(VoterLease::new(now, self.state.last_number()));
            self.engine_version = version;
        }
    }

    /// No engine runs at this node any more. To be called only when its answers do not
    /// [count](DecidedState::counts).
    pub fn stop_voting(&mut self) {
        self.voter = None;
        self.leads = false;
    }

    /// Whether an engine runs at this node.
    pub fn is_voting(&self) -> bool {
        self.voter.is_some()
    }

    /// The latest directory that this node knows.
    pub fn directory(&self) -> &Directory {
        let decided = self.state.directory();
        if self.known.version() > decided.version() { &self.known } else { decided }
    }

    /// The levels that this node can use.
    pub fn levels(&self) -> Levels {
        self.settings.levels
    }

    /// How long a view lease lasts.
    pub fn lease_time(&self) -> Duration {
        self.settings.lease
    }

    /// Fencing tokens up to this epoch are known here; the next view's is above it.
    pub fn raise_floor(&mut self, epoch: u32) {
        self.floor = self.floor.max(epoch);
    }

    /// What is to be done, in order.
    pub fn take_effects(&mut self) -> Vec<ViewEffect> {
        std::mem::take(&mut self.effects)
    }

    /// The persisted log has this command at this place. Only where an engine runs; to be called
    /// before the engine acknowledges it.
    pub fn appended(&mut self, index: u64, command: &Command) {
        if let Some(voter) = &mut self.voter {
            voter.appended(index, command);
        }
    }

    /// The persisted log ends before this place.
    pub fn truncated(&mut self, from: u64) {
        if let Some(voter) = &mut self.voter {
            voter.truncated(from);
        }
    }

    /// A snapshot has taken the place of the log up to this place, if that is known.
    pub fn snapshot_installed(&mut self, now: Moment, index: Option<u64>, state: DecidedState) {
        if let Some(voter) = &mut self.voter {
            voter.snapshot_installed(index, state.last_number());
        }
        self.advance(now);
        self.engine_version = state.version();
        self.adopt(now, state);
        self.settle(now);
    }

    /// The command at this place is decided: each once in a life, in order, after it was appended.
    pub fn decided(&mut self, now: Moment, index: u64, command: &Command) {
        self.advance(now);
        self.engine_version += 1;
        let before = self.state.last().cloned();
        let applied = match self.engine_version > self.state.version() {
            true => self.state.apply(command),
            false => Applied::Nothing,
        };
        if let Some(voter) = &mut self.voter {
            voter.applied(index, self.state.last_number());
        }
        match applied {
            Applied::View => self.on_view_decided(now, before.as_ref()),
            Applied::Changed => self.refresh_coordinator(),
            Applied::Nothing => {}
        }
        self.settle(now);
    }

    /// Takes over a later state than the known one.
    fn adopt(&mut self, now: Moment, state: DecidedState) {
        if state.version() <= self.state.version() {
            return;
        }
        let before = std::mem::replace(&mut self.state, state).last().cloned();
        if self.state.last_number() > before.as_ref().map_or(ViewNumber(0), |view| view.number) {
            self.on_view_decided(now, before.as_ref());
        } else {
            self.refresh_coordinator();
        }
    }

    fn refresh_coordinator(&mut self) {
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.refresh(&self.state);
        }
    }

    fn on_view_decided(&mut self, now: Moment, before: Option<&DecidedView>) {
        let last = self.state.last().expect("just decided");
        let gone = |before: &DecidedView| {
            before.everybody().difference(&last.everybody()).copied().collect()
        };
        self.policy.decided(now, &before.map(gone).unwrap_or_default());
        self.follow(now);
    }

    /// Whether this node's engine leads.
    pub fn leads(&mut self, now: Moment, leads: bool) {
        self.advance(now);
        self.leads = leads;
        if !leads {
            self.policy.set_engine_voters(None);
        }
        self.settle(now);
    }

    /// The voters of the consensus engine, at its leader: the level of the protocol rises only when
    /// all of them can use it.
    pub fn set_engine_voters(&mut self, voters: BTreeSet<MemberId>) {
        self.policy.set_engine_voters(self.leads.then_some(voters));
    }

    /// Something has arrived from this incarnation.
    pub fn heard(&mut self, now: Moment, from: Instance) {
        self.advance(now);
        self.detector.heard(now, &self.settings, from);
        self.settle(now);
    }

    /// Messages can be exchanged with this incarnation, and with no earlier one of its member.
    pub fn link_up(&mut self, now: Moment, with: Instance) {
        self.advance(now);
        self.linked.retain(|known| known.member != with.member);
        self.linked.insert(with);
        self.settle(now);
    }

    /// What was sent to this incarnation may be lost.
    pub fn link_down(&mut self, with: Instance) {
        self.linked.remove(&with);
    }

    /// Wants to be in no view from now on.
    pub fn leave(&mut self, now: Moment) {
        self.advance(now);
        self.leaving = true;
        self.next_ask = now;
        self.settle(now);
    }

    /// Whether the others have begun a view without this node.
    pub fn is_out(&self) -> bool {
        let last = self.state.last();
        self.view.is_none() && last.is_some_and(|last| self.state.begun() >= last.number)
    }

    /// Nothing is held here any more, and nothing is renewed. Only after a [`ViewEffect::Leave`]
    /// that removed this node.
    pub fn stopped(&mut self, now: Moment) {
        self.advance(now);
        if self.view.is_none() && !self.stopped {
            self.stopped = true;
            // The others wait for this word.
            self.next_ask = now;
        }
        self.settle(now);
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Moment) {
        self.advance(now);
        if now >= self.next_ask {
            // A node that leaves wants to know soon that the others go on without it.
            let divisor = if self.leaving { 8 } else { 1 };
            self.next_ask = now.after(self.settings.ask_every() / divisor);
            self.ask(now);
            self.repeat(now);
        }
        self.settle(now);
    }

    /// When to call [`tick`](Self::tick) at the latest.
    pub fn wake_at(&self) -> Moment {
        let lease = self.lease.wake_at(&self.settings);
        let coordinator = self.coordinator_wakes();
        self.next_ask.min(lease).min(coordinator)
    }

    /// A message has arrived from this incarnation.
    pub fn receive(&mut self, now: Moment, from: Instance, message: Message) {
        self.advance(now);
        self.detector.heard(now, &self.settings, from);
        self.on_message(now, from, message);
        self.settle(now);
    }

    fn on_message(&mut self, now: Moment, from: Instance, message: Message) {
        match message {
            Message::Ask(ask) => self.on_ask(now, from, ask),
            Message::Answer { incarnation, view, number } => {
                if incarnation == self.me.incarnation {
                    self.lease.answered(now, &self.settings, from.member, view, number);
                    self.notice_lease(now);
                }
            }
            Message::Gone { view, ages } => self.on_gone(now, from, view, &ages),
            Message::Left { below } => self.on_left(now, from, below),
            Message::Decided(state) => {
                // A voter must have in its log what it acts on, as long as its answers count. Where
                // they do not, in no view that may still matter, it can undo nothing: it is yet to
                // vote, or has been removed.
                if self.voter.is_none() || !state.counts(self.me.member) {
                    self.adopt(now, *state);
                }
            }
            Message::Report(report) => self.on_report(now, from, *report),
            Message::Noted { view, version, quarantine } => {
                self.on_noted(now, view, version, quarantine);
            }
            Message::Poll { view } => self.on_poll(now, from, view),
            Message::Begin(plan) => self.on_begin(*plan),
            Message::Keep { view, records } => self.on_keep(from, view, records),
            Message::Kept { view, incarnation, numbers } => {
                if incarnation == self.me.incarnation {
                    self.on_kept(from, view, &numbers);
                }
            }
            Message::Over { view, over } => self.on_over(from, view, &over),
        }
    }

    /// What must be handled before anything else at this time: the lease's end.
    fn advance(&mut self, now: Moment) {
        self.notice_lease(now);
    }

    fn notice_lease(&mut self, now: Moment) {
        match self.lease.notice(now, &self.settings) {
            Some(LeaseChange::Lapsed { until }) => self.effects.push(ViewEffect::Lapsed { until }),
            Some(LeaseChange::Returned) => self.effects.push(ViewEffect::Returned),
            None => {}
        }
    }

    /// Does all that can be done without news: messages to itself, the next step of a view change,
    /// proposals.
    fn settle(&mut self, now: Moment) {
        loop {
            while let Some(message) = self.inbox.pop_front() {
                self.on_message(now, self.me, message);
            }
            self.want_report();
            self.try_begin(now);
            if self.inbox.is_empty() {
                break;
            }
        }
        if self.detector.sees(now, &self.settings) != self.seen {
            self.next_ask = self.next_ask.min(now);
        }
        if self.leads && now >= self.next_review {
            // Often enough: what it judges by comes with asks.
            self.next_review = now.after(self.settings.ask_every() / 8);
            let policy = &mut self.policy;
            let command = policy.propose(now, &self.settings, &self.state);
            self.effects.extend(command.map(ViewEffect::Propose));
        }
    }

    fn send(&mut self, to: MemberId, message: Message) {
        if to == self.me.member {
            self.inbox.push_back(message);
        } else {
            self.effects.push(ViewEffect::Send { to, message });
        }
    }

    /// This node.
    pub fn me(&self) -> Instance {
        self.me
    }

    /// What is decided, as far as this node knows.
    pub fn state(&self) -> &DecidedState {
        &self.state
    }

    /// The view that this node is in or joins.
    pub fn view(&self) -> Option<&DecidedView> {
        self.view.as_ref()
    }

    /// How far it is there.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// The view that it has begun and not left.
    pub fn begun(&self) -> Option<&DecidedView> {
        self.view.as_ref().filter(|_| self.stage == Stage::Begun)
    }

    /// Whether this node may grant a lock now.
    pub fn may_grant(&self, now: Moment) -> bool {
        let member = self.begun().is_some_and(|view| view.members.contains(&self.me));
        member && self.lease.is_good(now, &self.settings)
    }

    /// When granting stops unless the lease is renewed; the first moment while it has lapsed, and
    /// from when on a later view is known: what was held before is reported to it.
    pub fn grants_until(&self, now: Moment) -> Moment {
        if self.settings.rules.lease == LeaseRules::GrantAfterLapse {
            Moment::NEVER
        } else if self.begun().is_some() && self.lease.is_good(now, &self.settings) {
            self.lease.stop_at(&self.settings)
        } else {
            Moment::ZERO
        }
    }

    /// Whether this node exchanges messages with a majority of the voters, itself included.
    pub fn sees_majority(&self, now: Moment) -> bool {
        let voters = self.directory().voters();
        let seen = self.detector.sees(now, &self.settings);
        let is_seen = |voter: &&MemberId| {
            **voter == self.me.member || seen.iter().any(|one| one.member == **voter)
        };
        voters.iter().filter(is_seen).count() >= super::majority(voters.len())
    }

    /// The members that something has arrived from lately.
    pub fn sees(&self, now: Moment) -> impl Iterator<Item = MemberId> {
        self.detector.sees(now, &self.settings).into_iter().map(|one| one.member)
    }

    /// The number of records that this node keeps.
    pub fn records(&self) -> usize {
        self.keeper.records().count()
    }

    /// The members that report to this voter, and the incarnations that each receives messages
    /// from.
    pub fn reach(&self, now: Moment) -> impl Iterator<Item = (MemberId, &BTreeSet<Instance>)> {
        self.policy.reach(now, &self.settings)
    }

    /// Whether this node may renew the session of a client outside its process now. Between two
    /// views it may, unless one of them was decided without it: that one may have begun, with a
    /// custodian that frees the lock when it receives no renewal.
    pub fn may_renew(&self, now: Moment) -> bool {
        let hosts = self.begun().is_some() || self.is_in_all_since_begun();
        self.view.is_some() && hosts && self.lease.is_good(now, &self.settings)
    }

    /// Whether this node is a member of all views decided since the last one that it has begun.
    fn is_in_all_since_begun(&self) -> bool {
        let mut since = self.state.views().filter(|view| view.number > self.last_begun);
        self.state.begun() <= self.last_begun && since.all(|view| view.members.contains(&self.me))
    }

    /// The end of the lease: what guards in the process hold is held until then.
    pub fn good_until(&self) -> Moment {
        self.lease.good_until()
    }
}
