//! Views that consensus decides: the node drives its [`ViewLayer`] and does what it wants done.
//!
//! The layer (`views/`) knows members by their ids for good; the links here are numbered by the
//! members' places in the directory, which `membership.rs` follows. This module feeds the layer
//! with links, messages, time and what the consensus engine reports, and takes its effects: the
//! node leaves its view, reports, begins the next one from the plan, and stops granting while its
//! view lease has lapsed.
//!
//! A link is not reset when a member is excluded: the frames that wait for it are dropped, and it
//! is sent their last number (`Frame::Skip`). So the numbering goes on, and neither end can take a
//! message of a later view for one that was dropped.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use mutua_algorithms::Time;

use super::{Protocol, ProtocolConfig, Timer, ViewState, rules::DecidedRules};
use crate::{
    Effect, Level, LockId, Member, Moment, Ticket, WireError,
    view::{Name, View},
    views::{
        Claim, Command, Contents, DecidedState, DecidedView, Directory, Hold, Incarnation,
        Instance, MemberId, Message, Persisted, Plan, ViewEffect, ViewLayer, ViewNumber,
        ViewSettings,
    },
};

/// Where a node's views come from.
#[derive(Clone, Debug)]
pub enum ViewSource {
    /// The list of members is fixed, and a view needs all of them.
    FixedList,
    /// Consensus decides views, each of members that reach each other. The node's incarnation must
    /// be greater than all earlier ones of its member.
    Decided {
        /// The cluster's id.
        cluster: u64,
        /// This member's id.
        member: MemberId,
        /// The members as this node knew them when it stopped; empty if it knows none.
        known: Directory,
        /// Times of the view layer.
        settings: ViewSettings,
        /// The state on disk.
        persisted: Box<Persisted>,
        /// Whether this node runs a consensus engine.
        engine: bool,
    },
    /// Consensus is to decide views, and the members' ids are not known yet: until
    /// [`Protocol::follow`] there is no view.
    Unknown {
        /// The pause between two heartbeats.
        heartbeat: Duration,
    },
}

impl ViewSource {
    /// Whether consensus decides views.
    pub(super) fn is_decided(&self) -> bool {
        !matches!(self, Self::FixedList)
    }
}

/// The view layer of a node.
#[derive(Debug)]
pub(super) struct Layered {
    pub(super) layer: ViewLayer,
    pub(super) rules: DecidedRules,
    /// The members by their places.
    pub(super) ids: Vec<Option<MemberId>>,
    heartbeat: Duration,
    /// The time of the next [`Timer::Layer`].
    wake: Moment,
    /// The layer wants a report.
    pub(super) report_due: bool,
    /// Clocks start above this in the next view: its epoch is above the present view's.
    later: Time,
    /// The members of the view that was decided last, as it was logged.
    pub(super) logged: Vec<Member>,
    /// Whether this process is in that view.
    pub(super) logged_with_me: bool,
    /// Locks that clients of lost nodes have reclaimed at this node, until the next view begins.
    pub(super) claims: BTreeMap<Vec<u8>, Claim>,
}

impl Layered {
    pub(super) fn new(now: Moment, config: &mut ProtocolConfig) -> Option<Box<Self>> {
        let ViewSource::Decided { member, known, settings, persisted, engine, .. } =
            &mut config.views
        else {
            return None;
        };
        let me = Instance { member: *member, incarnation: Incarnation(config.incarnation) };
        let persisted = std::mem::take(&mut **persisted);
        let mut layer = ViewLayer::new(now, me, settings.clone(), persisted, *engine);
        layer.raise_floor(config.epoch);
        layer.set_known(std::mem::take(known));
        Some(Box::new(Self {
            layer,
            rules: DecidedRules::new(Arc::clone(&config.plan)),
            ids: Vec::new(),
            heartbeat: settings.heartbeat,
            wake: Moment::NEVER,
            report_due: false,
            logged: Vec::new(),
            logged_with_me: false,
            later: Time::ZERO,
            claims: BTreeMap::new(),
        }))
    }

    /// The link of a member.
    pub(super) fn member(&self, id: MemberId) -> Option<Member> {
        let index = self.ids.iter().position(|&known| known == Some(id))?;
        u32::try_from(index).ok().map(Member)
    }

    pub(super) fn members(&self, view: &DecidedView) -> Vec<Member> {
        let mut members: Vec<_> =
            view.members.iter().filter_map(|one| self.member(one.member)).collect();
        members.sort_unstable();
        members
    }
}

/// Inputs of the consensus engine, and what the driver wants to know. Nothing happens with the
/// fixed list.
impl Protocol {
    /// The persisted log has this command at this place. To be called before the engine
    /// acknowledges it to its leader.
    pub fn appended(&mut self, index: u64, command: &Command) {
        if let Some(layered) = &mut self.layered {
            layered.layer.appended(index, command);
        }
    }

    /// The persisted log ends before this place.
    pub fn truncated(&mut self, from: u64) {
        if let Some(layered) = &mut self.layered {
            layered.layer.truncated(from);
        }
    }

    /// A snapshot has replaced the log up to this place, if that is known.
    pub fn snapshot_installed(&mut self, now: Moment, index: Option<u64>, state: DecidedState) {
        self.with_layer(now, |layer| layer.snapshot_installed(now, index, state));
    }

    /// The command at this place is decided: each once, in order, after it was appended.
    pub fn decided(&mut self, now: Moment, index: u64, command: &Command) {
        self.with_layer(now, |layer| layer.decided(now, index, command));
    }

    /// Whether this node's engine leads.
    pub fn leads(&mut self, now: Moment, leads: bool) {
        self.with_layer(now, |layer| layer.leads(now, leads));
    }

    /// Shows why this node is in no view yet.
    pub fn await_views(&mut self, why: String) {
        if let ViewState::Apart { why: known } = &mut self.view_state
            && !self.held_back
        {
            *known = why;
        }
    }

    /// The members that this node has received something from lately.
    pub fn sees(&self, now: Moment) -> impl Iterator<Item = MemberId> {
        self.view_layer().into_iter().flat_map(move |layer| layer.sees(now))
    }

    /// Whether this node exchanges messages with a majority of the voters, itself included.
    pub fn sees_majority(&self, now: Moment) -> bool {
        self.view_layer().is_some_and(|layer| layer.sees_majority(now))
    }

    /// Takes part in no view from now on: the node stops in order.
    pub fn retire(&mut self, now: Moment) {
        self.with_layer(now, |layer| layer.leave(now));
    }

    /// Whether the others have begun a view without this node. Until then it may be needed: as the
    /// leader, which alone knows that the view is decided, and for its word that nothing is held.
    pub fn is_out(&self) -> bool {
        self.view_layer().is_some_and(ViewLayer::is_out)
    }

    /// When granting stops unless the view lease is renewed; the first moment while nothing is
    /// granted. Never with the fixed list while there is a view.
    pub fn good_until(&self) -> Moment {
        match &self.view_state {
            ViewState::In(view) => view.good_until,
            ViewState::Writing(_) | ViewState::Apart { .. } => Moment::ZERO,
        }
    }

    /// When this ticket's hold ends at the latest unless the view lease is renewed; `None` if it
    /// does not hold the lock.
    pub fn holds_until(&self, lock: LockId, ticket: Ticket) -> Option<Moment> {
        let holder = self.table.get(lock)?.holder.as_ref()?;
        let lease = self.layered.as_ref().map_or(Moment::NEVER, |one| one.layer.good_until());
        (holder.ticket == ticket).then_some(holder.ends.min(lease))
    }

    /// The view layer, where consensus decides views.
    pub fn view_layer(&self) -> Option<&ViewLayer> {
        self.layered.as_ref().map(|layered| &layered.layer)
    }
}

/// The layer's inputs.
impl Protocol {
    pub(super) fn with_layer(&mut self, now: Moment, call: impl FnOnce(&mut ViewLayer)) {
        let Some(layered) = &mut self.layered else { return };
        let state = layered.layer.state();
        let (before, version) = (state.last_number(), state.version());
        call(&mut layered.layer);
        let state = layered.layer.state();
        let changed = state.version() != version;
        if changed {
            self.sync_rules();
        }
        if self.last_decided() > before {
            self.log_decision();
        }
        self.take_view_effects(now);
        if changed {
            self.sync_members(now);
        }
    }

    pub(super) fn start_layer(&mut self, now: Moment) {
        self.sync_rules();
        self.with_layer(now, |layer| layer.tick(now));
    }

    fn last_decided(&self) -> ViewNumber {
        self.view_layer().map(|layer| layer.state().last_number()).unwrap_or_default()
    }

    pub(super) fn tick_layer(&mut self, now: Moment) {
        if let Some(layered) = &mut self.layered {
            layered.wake = Moment::NEVER;
            layered.layer.tick(now);
            self.report_if_due(now);
            self.take_view_effects(now);
        }
    }

    /// Lets the layer go on as soon as the driver gives the time.
    pub(super) fn wake_layer(&mut self) {
        if self.layered.is_some() {
            self.set_timer(Moment::ZERO, Timer::Layer);
        }
    }

    pub(super) fn instance(&mut self, peer: Member) -> Option<Instance> {
        let incarnation = Incarnation(self.link(peer).incarnation());
        let member = (*self.layered.as_ref()?.ids.get(peer.index())?)?;
        Some(Instance { member, incarnation })
    }

    /// Messages can be exchanged with the incarnation of a member that is connected now.
    pub(super) fn on_linked(&mut self, now: Moment, peer: Member) {
        if let Some(instance) = self.instance(peer) {
            self.with_layer(now, |layer| {
                layer.link_up(now, instance);
                layer.heard(now, instance);
            });
        }
    }

    /// Bytes have arrived, for the first time in a while.
    pub(super) fn on_heard(&mut self, now: Moment, peer: Member) {
        let heartbeat = self.layered.as_ref().map(|layered| layered.heartbeat);
        self.link(peer).next_heard =
            heartbeat.map_or(Moment::NEVER, |heartbeat| now.after(heartbeat / 2));
        if let Some(instance) = self.instance(peer) {
            self.with_layer(now, |layer| layer.heard(now, instance));
        }
    }

    /// Messages to a member, or from it, may be lost: it has restarted, or its end of the link.
    pub(super) fn on_link_lost(&mut self, peer: Member, earlier: u64) {
        let Some(instance) = self.instance(peer) else { return };
        let before = Instance { incarnation: Incarnation(earlier), ..instance };
        if let Some(layered) = &mut self.layered {
            layered.layer.link_down(before);
        }
        if before != instance {
            self.view_change.early.drop_from(peer);
        } else if self.is_member(peer) {
            let why = format!("the link to {} has lost messages", self.name(peer));
            self.end_view(&why);
        }
    }

    /// A message of another member's view layer has arrived.
    pub(super) fn on_layer_message(
        &mut self,
        now: Moment,
        from: Member,
        bytes: &[u8],
    ) -> Result<(), WireError> {
        let Some(instance) = self.instance(from) else { return Ok(()) };
        let message: Message = match postcard::take_from_bytes(bytes) {
            Ok((message, [])) => message,
            Ok(_) | Err(_) => return Err(WireError::Garbled),
        };
        self.counted.answered(now, from, &message);
        self.with_layer(now, |layer| layer.receive(now, instance, message));
        Ok(())
    }

    /// The next view's epoch must be above this one.
    pub(super) fn raise_floor(&mut self, epoch: u32) {
        if let Some(layered) = &mut self.layered {
            layered.layer.raise_floor(epoch);
        }
    }

    /// Keeps a clock for the next view that is of a later epoch than the present one: messages with
    /// such a clock would be ignored. Returns whether it is.
    pub(super) fn raise_later(&mut self, time: Time) -> bool {
        let epoch = self.epoch_of_view().unwrap_or(0);
        let Some(layered) = &mut self.layered else { return false };
        let later = time.epoch() > epoch;
        if later {
            layered.later = layered.later.max(time);
            layered.layer.raise_floor(time.epoch());
        }
        later
    }

    /// The members of the view to come, as far as it is known; else all.
    pub(super) fn next_members(&self) -> Vec<Member> {
        let layered = self.layered.as_ref();
        let decided = layered.and_then(|one| Some(one.members(one.layer.view()?)));
        decided.unwrap_or_else(|| self.peers().collect())
    }
}

/// The layer's effects.
impl Protocol {
    pub(super) fn take_view_effects(&mut self, now: Moment) {
        loop {
            let Some(layered) = &mut self.layered else { return };
            let effects = layered.layer.take_effects();
            if effects.is_empty() {
                break;
            }
            for effect in effects {
                self.on_view_effect(now, effect);
            }
        }
        self.note_lease(now);
        let Some(layered) = &mut self.layered else { return };
        let mut wake = layered.layer.wake_at();
        if wake <= now {
            wake = now.after(Duration::from_millis(1));
        }
        if wake < layered.wake {
            layered.wake = wake;
            self.set_timer(wake, Timer::Layer);
        }
    }

    /// Grants look at the view's copy of the lease.
    fn note_lease(&mut self, now: Moment) {
        if let (Some(layered), ViewState::In(view)) = (&self.layered, &mut self.view_state) {
            view.good_until = layered.layer.grants_until(now);
        }
    }

    fn on_view_effect(&mut self, now: Moment, effect: ViewEffect) {
        match effect {
            ViewEffect::Send { to, message } => self.send_layer(now, to, &message),
            ViewEffect::Propose(command) => self.effects.push(Effect::Propose { command }),
            ViewEffect::Leave { removed, until, .. } => self.on_leave(now, removed, until),
            ViewEffect::Report { .. } => {
                if let Some(layered) = &mut self.layered {
                    layered.report_due = true;
                }
                self.report_if_due(now);
            }
            ViewEffect::Begin(plan) => self.begin_plan(now, &plan),
            ViewEffect::Lapsed { until } => {
                self.note_lease(now);
                if self.is_in_view() {
                    self.log(Level::Warning, super::LAPSED);
                }
                self.lose_holds(now, until);
            }
            ViewEffect::Returned => {
                self.note_lease(now);
                self.settle_all(now);
                self.record_again(now);
            }
            ViewEffect::Recorded(record) => self.on_recorded(now, &record),
        }
    }

    /// Sends a message to a member's view layer if it is connected.
    fn send_layer(&mut self, now: Moment, to: MemberId, message: &Message) {
        self.counted.asked(now, message);
        let Some(peer) = self.layered.as_ref().and_then(|one| one.member(to)) else { return };
        let link = self.links.get_mut(peer.index()).and_then(Option::as_mut);
        if let Some(link) = link.filter(|link| link.is_up()) {
            link.send_control(&postcard::to_allocvec(message).expect("plain data"));
            self.ready.insert(peer);
        }
    }

    /// Leaves the view for the next one decided. Its messages of earlier views are of no use.
    fn on_leave(&mut self, now: Moment, removed: bool, until: Moment) {
        let why = if removed {
            "a view without this node is decided"
        } else {
            "the next view is decided and has not begun"
        };
        self.leave_quietly(why);
        self.view_state = ViewState::Apart { why: why.to_owned() };
        let Some(layered) = &mut self.layered else { return };
        layered.report_due = false;
        layered.claims.clear();
        let next = layered.layer.view().cloned();
        if let Some(next) = &next {
            self.view_change.left = self.view_change.left.max(next.epoch - 1);
            self.view_change.early.drop_before(next.epoch);
        }
        for peer in self.peers() {
            let instance = self.instance(peer);
            let stays = |next: &DecidedView| instance.is_some_and(|one| next.concerns(one));
            if !self.link(peer).is_up() || !next.as_ref().is_some_and(stays) {
                self.link(peer).skip();
                self.give_up_calls_to(peer);
                self.ready.insert(peer);
            }
        }
        if removed {
            self.lose_holds(now, until);
            self.end_holds(now);
        }
    }

    /// Reports what this node holds and waits for, if its layer wants it.
    pub(super) fn report_if_due(&mut self, now: Moment) {
        if self.held_back || !self.layered.as_ref().is_some_and(|layered| layered.report_due) {
            return;
        }
        let Some(layered) = &self.layered else { return };
        if layered.unfollowed_rules().is_some() {
            // Without its report the view goes on without this node.
            return;
        }
        self.end_holds(now);
        let mut floor = self.epoch.max(self.floor.epoch());
        let mut contents = Contents::default();
        for (_, entry) in self.table.iter() {
            if let Some(holder) = &entry.holder {
                floor = floor.max(holder.fence.0.epoch());
                let hold = Hold { token: holder.fence, client: holder.client().cloned() };
                contents.held.insert(entry.name.to_vec(), hold);
            }
            if let Some(since) = entry.oldest() {
                contents.waiting.insert(entry.name.to_vec(), now.since(since));
            }
        }
        let Some(layered) = &mut self.layered else { return };
        layered.report_due = false;
        contents.claims.clone_from(&layered.claims);
        contents.leases_left = self.leases_until.map(|until| until.since(now));
        contents.floor = floor.max(layered.later.epoch());
        layered.layer.report(now, contents);
    }

    /// Begins a view from its plan.
    fn begin_plan(&mut self, now: Moment, plan: &Plan) {
        let Some(layered) = &self.layered else { return };
        let begun = layered.layer.begun().filter(|view| view.number == plan.view).cloned();
        let Some(view) = begun else { return };
        let (me, later) = (layered.layer.me(), layered.later);
        if !view.members.contains(&me) {
            let why = "this node is a witness: it votes and keeps records, and holds no locks";
            self.view_state = ViewState::Apart { why: why.to_owned() };
            return;
        }
        if view.epoch <= self.epoch.max(self.floor.epoch()) || later.epoch() >= view.epoch {
            // The coordinator has this node's report, so it knows better; a bug, and no view.
            let why = format!("epoch {} cannot follow epoch {}", view.epoch, self.epoch);
            self.log(Level::Warning, why.clone());
            self.view_state = ViewState::Apart { why };
            return self.raise_floor(view.epoch);
        }
        let next = installed(layered, &view, plan, me.member);
        if let Err(why) = self.follow_rules(&view) {
            // Not reached: it has reported.
            self.view_state = ViewState::Apart { why };
            return;
        }
        self.floor = self.floor.max(later);
        self.end_holds_except(plan, me);
        self.take_custody(now, plan, me);
        self.epoch = view.epoch;
        // Not waited for: the decided log remembers it. It is for a return to the fixed list.
        self.effects.push(Effect::Write { epoch: view.epoch });
        self.leave_quietly("the next view begins");
        self.begin_in(now, next);
        self.record_again(now);
    }

    fn begin_in(&mut self, now: Moment, mut view: View) {
        if let Some(layered) = &self.layered {
            view.good_until = layered.layer.grants_until(now);
        }
        self.begin(now, view);
    }
}

/// The view as this node installs it. A free lock starts at the longest waiter, which enters
/// without a message; the clocks of the others start at their ranks.
fn installed(layered: &Layered, view: &DecidedView, plan: &Plan, me: MemberId) -> View {
    let mut held: HashMap<Name, Member> = HashMap::new();
    for (name, holder) in &plan.held {
        if let Some(member) = layered.member(holder.member.member) {
            held.insert(name.as_slice().into(), member);
        }
    }
    let mut ranks = HashMap::new();
    for (name, waiting) in &plan.waiting {
        let rank = waiting.iter().position(|&id| id == me).unwrap_or(waiting.len());
        ranks.insert(name.as_slice().into(), rank as u64);
        if let Some(first) = waiting.first().and_then(|&id| layered.member(id)) {
            held.entry(name.as_slice().into()).or_insert(first);
        }
    }
    let mut next = View::new(view.number.0, view.epoch, layered.members(view), held);
    next.ranks = ranks;
    next
}
