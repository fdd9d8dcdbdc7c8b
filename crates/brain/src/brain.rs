//! The node itself: what it is told, and what it wants done.

mod calls;
mod claims;
mod clients;
mod forget;
mod locks;
mod peers;
mod refusals;
mod tracing;
mod tries;
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
pub(crate) use locks::CLOCK_BROKEN;
pub(crate) use peers::Kept;
pub use peers::Rejected;

/// What a node is when it starts.
#[derive(Clone, Debug)]
pub struct Seat {
    /// The cluster's name.
    pub cluster: String,
    /// The members' names, in the order of the list: for whoever reads what the node says.
    pub names: Vec<String>,
    /// Which member this is.
    pub me: Member,
    /// The rules, which are the same at every member.
    pub plan: Arc<Plan>,
    /// A number that no other life of this member has or had; not 0.
    pub incarnation: u64,
    /// The epoch on its disk, 0 if there is none.
    pub epoch: u32,
    /// Limits and times.
    pub limits: Limits,
}

/// A node without its I/O.
///
/// Every call takes the time, which never goes back. After each call the shell does what
/// [`take_effects`](Self::take_effects) says, writes to the peers in
/// [`take_ready`](Self::take_ready), and calls [`tick`](Self::tick) at
/// [`wake_at`](Self::wake_at).
pub struct Brain {
    seat: Seat,
    table: Table,
    /// One for each other member; our own place is empty.
    links: Vec<Option<Link>>,
    /// Peers for whom there is something to write.
    ready: BTreeSet<Member>,
    standing: Standing,
    council: views::Council,
    /// Whether it keeps out of views, for those to claim who may still be inside.
    held_back: bool,
    /// The highest epoch that this node has heard of or has on disk.
    epoch: u32,
    /// The highest clock of a name that was forgotten: a clock that starts anew starts here.
    floor: Time,
    /// Questions to the members for those who try.
    asks: BTreeMap<u64, tries::Asking>,
    /// Questions of the shell's that are not answered yet, and whom they went to.
    calls: BTreeMap<u64, Member>,
    /// How many questions of each member the shell has not answered yet.
    called: BTreeMap<Member, usize>,
    forgetting: forget::Forgetting,
    /// Whoever wants to see what happens to a lock.
    tracer: Option<tracing::Tracer>,
    timers: BTreeSet<(Moment, Timer)>,
    /// The first of them.
    wake_at: Moment,
    /// Counts tickets and questions.
    numbers: u64,
    effects: Vec<Effect>,
    /// Where machines put their messages, empty between calls.
    posts: Posts,
}

/// How this node stands to views.
enum Standing {
    /// It is in none: nothing new is granted.
    Apart {
        /// Why.
        why: String,
    },
    /// It knows the next one and writes its epoch.
    Writing(View),
    /// It is in this one.
    In(View),
}

/// What to look after when its time comes. One that is no longer needed does no harm.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Timer {
    /// Is everybody still there?
    Beat,
    /// This member's link may have been down for too long.
    Lost(Member),
    /// Lazy messages of this lock are due.
    Lazy(LockId),
    /// Somebody here may still wait for a lock that moves by itself.
    Nudge(LockId),
    /// Is a lock that somebody tries still free?
    Ask(u64),
    /// Names may be there to forget.
    Forget,
}

impl Brain {
    /// A node that starts now, with nobody else met yet.
    pub fn new(now: Moment, seat: Seat) -> Self {
        let me = seat.me;
        let link = |index| (Member(index) != me).then(|| Link::new(now));
        let mut brain = Self {
            links: (0..seat.plan.members()).map(link).collect(),
            table: Table::default(),
            ready: BTreeSet::new(),
            standing: Standing::Apart { why: "the node has just started".to_owned() },
            council: views::Council::default(),
            held_back: false,
            epoch: seat.epoch,
            floor: Time::ZERO,
            asks: BTreeMap::new(),
            calls: BTreeMap::new(),
            called: BTreeMap::new(),
            forgetting: forget::Forgetting::default(),
            tracer: None,
            timers: BTreeSet::new(),
            wake_at: Moment::NEVER,
            numbers: 0,
            effects: Vec::new(),
            posts: Posts::default(),
            seat,
        };
        if brain.links.len() > 1 {
            brain.set_timer(now.after(brain.seat.limits.heartbeat), Timer::Beat);
        }
        brain.set_timer(now.after(brain.seat.limits.forget_after), Timer::Forget);
        brain.review();
        brain
    }

    /// Which member this is.
    pub fn me(&self) -> Member {
        self.seat.me
    }

    /// What is to be done, in order.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Whether [`take_effects`](Self::take_effects) or [`take_ready`](Self::take_ready) has
    /// something.
    pub fn has_news(&self) -> bool {
        !self.effects.is_empty() || !self.ready.is_empty()
    }

    /// The peers for whom there is something to write.
    pub fn take_ready(&mut self) -> BTreeSet<Member> {
        std::mem::take(&mut self.ready)
    }

    /// When to call [`tick`](Self::tick) at the latest.
    pub fn wake_at(&self) -> Moment {
        self.wake_at
    }

    /// Time has passed.
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
                Timer::Ask(id) => self.ask_again(now, id),
                Timer::Forget => self.forget_some(now),
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

    /// The other members.
    fn others(&self) -> impl Iterator<Item = Member> + use<> {
        let me = self.seat.me;
        (0..self.seat.plan.members()).map(Member).filter(move |&member| member != me)
    }

    fn link(&mut self, peer: Member) -> &mut Link {
        self.links[peer.index()].as_mut().expect("a link to another member")
    }

    /// The first member whose link is down.
    fn missing(&self) -> Option<Member> {
        self.missing_all().next()
    }

    /// What a member is called.
    fn name(&self, member: Member) -> &str {
        self.seat.names.get(member.index()).map_or("a stranger", String::as_str)
    }

    pub(crate) fn cluster(&self) -> &str {
        &self.seat.cluster
    }

    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    pub(crate) fn algorithm(&self, rule: u16) -> &'static str {
        self.seat.plan.rule(rule).about.name
    }

    pub(crate) fn home(&self, name: &[u8]) -> Option<Member> {
        match &self.standing {
            Standing::In(view) => Some(view.home(name)),
            Standing::Writing(_) | Standing::Apart { .. } => None,
        }
    }

    /// The epoch of the view this node is in, if it is in one.
    pub fn epoch(&self) -> Option<u32> {
        match &self.standing {
            Standing::In(view) => Some(view.epoch),
            Standing::Writing(_) | Standing::Apart { .. } => None,
        }
    }

    /// Why nothing new is granted, if that is so.
    pub fn stopped(&self) -> Option<String> {
        let why = match &self.standing {
            Standing::In(_) => return None,
            Standing::Writing(_) => "the epoch of the next view is being written",
            Standing::Apart { why } => why,
        };
        let missing: Vec<_> = self.missing_all().map(|member| self.name(member)).collect();
        Some(match missing.as_slice() {
            [] => why.to_owned(),
            missing => format!("{why}; not connected to {}", missing.join(", ")),
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
        self.others().map(status).collect()
    }

    fn missing_all(&self) -> impl Iterator<Item = Member> {
        self.others().filter(|peer| !self.links[peer.index()].as_ref().is_some_and(Link::is_up))
    }
}
