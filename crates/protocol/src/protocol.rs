//! The node itself: its state, its timers and its status.

mod calls;
mod clients;
mod decided;
mod decider;
mod figures;
mod fixed_list;
mod holds;
mod idle_cleanup;
mod locks;
mod membership;
mod peers;
mod reclaim;
mod records;
mod refusals;
mod rules;
mod tracing;
mod tries;
mod view_status;
mod views;

#[cfg(test)]
mod strange_peers;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use mutua_algorithms::Time;

use crate::{
    Effect, Level, Limits, LinkStatus, LockId, Member, Moment, Plan, Ticket, link::Link,
    machine::Posts, status::milliseconds, table::Table, view::View,
};

pub use calls::{CallId, Caller, MAX_CALL};
pub use decided::ViewSource;
pub use figures::Figures;
pub(crate) use locks::CLOCK_BROKEN;
pub(crate) use peers::Kept;
pub use peers::Rejected;
pub use records::ClientHold;
pub use rules::{decode as decode_rules, encode as encode_rules};

/// The configuration of a node.
#[derive(Clone, Debug)]
pub struct ProtocolConfig {
    /// The cluster's name.
    pub cluster: String,
    /// The members' names, in the order of the list or by place, for logs and statuses.
    pub names: Vec<String>,
    /// This member.
    pub me: Member,
    /// The rules, the same at every member.
    pub plan: Arc<Plan>,
    /// Differs from the number of every other incarnation of this member; not 0.
    pub incarnation: u64,
    /// The epoch on disk, 0 if there is none.
    pub epoch: u32,
    /// Limits and times.
    pub limits: Limits,
    /// Where views come from.
    pub views: ViewSource,
}

/// The reason that no lock is granted while the view lease has lapsed.
const LAPSED: &str = "the view lease has lapsed: too few voters acknowledge it";

/// A node without its I/O.
///
/// Every call takes the time, which never goes back. After each call the driver carries out the
/// effects of [`take_effects`](Self::take_effects), writes to the peers in
/// [`take_ready`](Self::take_ready), and calls [`tick`](Self::tick) at [`wake_at`](Self::wake_at).
pub struct Protocol {
    config: ProtocolConfig,
    table: Table,
    /// One for each other member, by its index or place, and `None` at this member's and at those
    /// of former members.
    links: Vec<Option<Link>>,
    /// Peers with bytes to write.
    ready: BTreeSet<Member>,
    view_state: ViewState,
    view_change: views::ViewChange,
    decider: fixed_list::FixedList,
    /// Where consensus decides views: the view layer, in place of the decider.
    layered: Option<Box<decided::Layered>>,
    /// Whether it keeps out of views, so that clients can reclaim what they hold.
    held_back: bool,
    /// What earlier incarnations of this member granted is held until then at the latest, if its
    /// disk says so.
    leases_until: Option<Moment>,
    /// The peers that refuse this process, since another process runs as this member.
    conflicts: BTreeMap<Member, String>,
    /// When a conflict was last logged.
    conflict_logged: Option<Moment>,
    /// The highest epoch that this node knows or has on disk.
    epoch: u32,
    /// The highest clock of a name that was cleaned up: a clock that starts anew starts here.
    floor: Time,
    /// Queries to the members for clients that try.
    queries: BTreeMap<u64, tries::Query>,
    /// Calls of the driver without a reply yet, and the member that was called.
    calls: BTreeMap<u64, Member>,
    /// The number of calls of each member without a reply of the driver yet.
    called: BTreeMap<Member, usize>,
    cleanup: idle_cleanup::IdleCleanup,
    /// The traces that are wanted.
    tracers: Vec<tracing::Tracer>,
    timers: BTreeSet<(Moment, Timer)>,
    /// The time of the first timer.
    wake_at: Moment,
    /// The time of [`Timer::Beat`].
    next_beat: Moment,
    /// Numbers tickets, queries and calls.
    numbers: u64,
    effects: Vec<Effect>,
    /// The machines' messages, empty between calls.
    posts: Posts,
    /// Figures for monitors.
    counted: figures::Counted,
}

/// The view that this node is in, if any.
enum ViewState {
    /// It is in none: no lock is granted.
    Apart {
        /// The reason, for the status.
        why: String,
    },
    /// The next view is decided, and its epoch is being written.
    Writing(View),
    /// It is in this view.
    In(View),
}

/// A task for later. One that is no longer needed does nothing.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Timer {
    /// Send heartbeats, and disconnect peers that are silent.
    Beat,
    /// This member's link may have been down for `lost_after`.
    Lost(Member),
    /// Lazy messages of this lock are due.
    Lazy(LockId),
    /// A client of this node may still wait for a lock that moves by itself.
    Nudge(LockId),
    /// Query again whether a lock that a client tries is free.
    Query(u64),
    /// Look for names to clean up.
    Cleanup,
    /// The view layer has something to do.
    Layer,
    /// The holds of a lapsed view lease end.
    HoldsEnd,
}

impl Protocol {
    /// A node that starts now and is not connected yet.
    pub fn new(now: Moment, config: ProtocolConfig) -> Self {
        let mut config = config;
        let layered = decided::Layered::new(now, &mut config);
        let me = config.me;
        let link = |index| (Member(index) != me).then(|| Link::new(now));
        let mut protocol = Self {
            links: match config.views.is_decided() {
                true => Vec::new(),
                false => (0..config.plan.members()).map(link).collect(),
            },
            table: Table::default(),
            ready: BTreeSet::new(),
            view_state: ViewState::Apart { why: "the node has just started".to_owned() },
            view_change: views::ViewChange::default(),
            decider: fixed_list::FixedList::default(),
            layered,
            held_back: false,
            leases_until: None,
            conflicts: BTreeMap::new(),
            conflict_logged: None,
            epoch: config.epoch,
            floor: Time::ZERO,
            queries: BTreeMap::new(),
            calls: BTreeMap::new(),
            called: BTreeMap::new(),
            cleanup: idle_cleanup::IdleCleanup::default(),
            tracers: Vec::new(),
            timers: BTreeSet::new(),
            wake_at: Moment::NEVER,
            next_beat: Moment::NEVER,
            numbers: 0,
            effects: Vec::new(),
            posts: Posts::default(),
            counted: figures::Counted::default(),
            config,
        };
        protocol.sync_members(now);
        if protocol.links.len() > 1 || protocol.config.views.is_decided() {
            protocol.set_next_beat(now);
        }
        protocol.set_timer(now.after(protocol.config.limits.idle_after), Timer::Cleanup);
        protocol.propose_view();
        protocol.start_layer(now);
        protocol
    }

    /// Limits and times are these from now on; timers that run keep their times.
    pub fn set_limits(&mut self, limits: Limits) {
        self.config.limits = limits;
    }

    /// This member.
    pub fn me(&self) -> Member {
        self.config.me
    }

    /// The effects to carry out, in order.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Whether [`take_effects`](Self::take_effects) or [`take_ready`](Self::take_ready) has
    /// something.
    pub fn has_news(&self) -> bool {
        !self.effects.is_empty() || !self.ready.is_empty()
    }

    /// The peers with bytes to write.
    pub fn take_ready(&mut self) -> BTreeSet<Member> {
        std::mem::take(&mut self.ready)
    }

    /// When to call [`tick`](Self::tick) at the latest.
    pub fn wake_at(&self) -> Moment {
        self.wake_at
    }

    /// Does what is due at this time.
    pub fn tick(&mut self, now: Moment) {
        while let Some(&(at, timer)) = self.timers.first()
            && at <= now
        {
            self.timers.pop_first();
            match timer {
                Timer::Beat => self.beat(now),
                Timer::Lost(member) => self.on_long_silence(now, member),
                Timer::Lazy(lock) => self.send_lazies(now, lock),
                Timer::Nudge(lock) => self.nudge_again(now, lock),
                Timer::Query(id) => self.query_again(now, id),
                Timer::Cleanup => self.start_cleanup(now),
                Timer::Layer => {
                    self.tick_layer(now);
                    self.beat_if_soon(now);
                }
                Timer::HoldsEnd => self.on_holds_end(now),
            }
        }
        self.wake_at = self.timers.first().map_or(Moment::NEVER, |&(at, _)| at);
    }

    fn set_timer(&mut self, at: Moment, timer: Timer) {
        self.timers.insert((at, timer));
        self.wake_at = self.wake_at.min(at);
    }

    fn log(&mut self, level: Level, text: impl Into<String>) {
        self.effects.push(Effect::Log { level, text: text.into() });
    }

    fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn next_ticket(&mut self) -> Ticket {
        Ticket(self.next_number())
    }

    /// The other members, each with a link.
    fn peers(&self) -> impl Iterator<Item = Member> + use<> {
        let linked = self.links.iter().zip((0..).map(Member));
        let peers: Vec<_> =
            linked.filter(|(link, _)| link.is_some()).map(|(_, member)| member).collect();
        peers.into_iter()
    }

    /// The members of the view, this one included; none without a view.
    pub fn members(&self) -> &[Member] {
        match &self.view_state {
            ViewState::In(view) | ViewState::Writing(view) => &view.members,
            ViewState::Apart { .. } => &[],
        }
    }

    fn is_member(&self, member: Member) -> bool {
        self.members().binary_search(&member).is_ok()
    }

    /// The other members of the view.
    fn others(&self) -> Vec<Member> {
        let me = self.config.me;
        self.members().iter().copied().filter(|&member| member != me).collect()
    }

    fn link(&mut self, peer: Member) -> &mut Link {
        self.links[peer.index()].as_mut().expect("a link to another member")
    }

    /// The first member of the view that this node is not connected to.
    fn unlinked(&self) -> Option<Member> {
        self.all_unlinked(self.members()).next()
    }

    /// The name of a member.
    fn name(&self, member: Member) -> &str {
        self.config.names.get(member.index()).map_or("unknown", String::as_str)
    }

    pub(crate) fn cluster(&self) -> &str {
        &self.config.cluster
    }

    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    pub(crate) fn algorithm(&self, rule: u16) -> &'static str {
        self.config.plan.rule(rule).about.name
    }

    pub(crate) fn home(&self, name: &[u8]) -> Option<Member> {
        match &self.view_state {
            ViewState::In(view) => Some(view.home(name)),
            ViewState::Writing(_) | ViewState::Apart { .. } => None,
        }
    }

    /// The epoch of the view this node is in, if it is in one.
    pub fn epoch(&self) -> Option<u32> {
        match &self.view_state {
            ViewState::In(view) => Some(view.epoch),
            ViewState::Writing(_) | ViewState::Apart { .. } => None,
        }
    }

    /// The highest epoch that this node knows or has on disk.
    pub fn known_epoch(&self) -> u32 {
        self.epoch
    }

    /// Why no lock is granted, if none is.
    pub fn stopped(&self) -> Option<String> {
        self.why_stopped(None)
    }

    /// The same, with the time that is left now where that is known.
    pub(crate) fn why_stopped(&self, now: Option<Moment>) -> Option<String> {
        let why = match &self.view_state {
            ViewState::In(view) if view.good_until > Moment::ZERO => return None,
            ViewState::In(_) => LAPSED,
            ViewState::Writing(_) => "the epoch of the next view is being written",
            ViewState::Apart { why } => why,
        };
        if let Some((&peer, conflict)) = self.conflicts.first_key_value() {
            let (me, peer) = (self.name(self.config.me), self.name(peer));
            return Some(format!(
                "{conflict} ({me}), and {peer} refuses this one; stop one of them"
            ));
        }
        let needed = self.next_members();
        let why = match &self.view_state {
            ViewState::Apart { .. } if !self.held_back => self.joining(now),
            _ => None,
        }
        .unwrap_or_else(|| why.to_owned());
        // The reason may name one of them already.
        let is_named = |name: &&str| why.starts_with(&format!("not connected to {name} "));
        let unlinked = self.all_unlinked(&needed).map(|member| self.name(member));
        let unlinked: Vec<_> = unlinked.filter(|name| !is_named(name)).collect();
        Some(match unlinked.as_slice() {
            [] => why,
            unlinked => format!("{why}; not connected to {}", unlinked.join(", ")),
        })
    }

    pub(crate) fn link_statuses(&self, now: Moment) -> Vec<LinkStatus> {
        let status = |member: Member| {
            let link = self.links[member.index()].as_ref().expect("a link to another member");
            LinkStatus {
                member,
                up: link.is_up(),
                for_ms: milliseconds(now, link.since),
                backlog: link.backlog().0,
            }
        };
        self.peers().map(status).collect()
    }

    fn all_unlinked(&self, members: &[Member]) -> impl Iterator<Item = Member> {
        let link = |one: &Member| self.links.get(one.index()).and_then(Option::as_ref);
        let is_down = move |one: &Member| link(one).is_some_and(|at| !at.is_up());
        members.iter().copied().filter(is_down)
    }
}
