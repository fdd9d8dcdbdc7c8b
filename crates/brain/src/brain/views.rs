//! Views, first form: the member list is fixed, and a view forms when all are there.
//!
//! The first member of the list takes the chair. When it is in no view and connected to all, it
//! gathers: everybody leaves the view it is in, and, once it is connected to all, reports the
//! highest epoch it knows and what it is inside. Nobody gets inside anything without a view, so a
//! report can only be too long by the time it is used, and whoever has left meanwhile leaves again
//! in the new view. With all reports in, the chair decides the next view, one epoch higher, and
//! each member installs it: it writes the epoch to disk, then starts every lock anew from who is
//! inside, and asks again for those who wait.
//!
//! A member that has lost another one, or sees it restarted, leaves the view and tells the others.
//! A message names the epoch it belongs to, so nothing of one view reaches another.
//!
//! With all members needed, the chair is no single point of failure that was not there before. A
//! consensus among members that decides views without the lost ones replaces `gather` and `decide`
//! and ends in [`Brain::install`] alike.

use std::collections::{BTreeMap, HashMap};

use super::{Brain, Standing, refusals::Early};
use crate::{
    Effect, Level, LockId, Member, Moment, Refusal,
    view::{Name, View},
    wire::Message,
};

/// Who takes the chair.
pub(super) const CHAIR: Member = Member(0);

/// How many bytes of names go into one message.
const PART: usize = 256 << 10;

/// An epoch has this many bits; see `Time`.
pub(super) const EPOCHS: u32 = 1 << 23;

/// What a node knows of the next view.
#[derive(Debug, Default)]
pub(super) struct Council {
    /// The epoch of the view that was left last.
    pub(super) left: u32,
    /// Messages of a view that is not installed here yet.
    pub(super) early: Early,
    /// The round that we have to report to.
    asked: Option<u64>,
    /// The round that we have reported to.
    pub(super) reported: Option<u64>,
    /// The next view's insides, as far as they have come.
    pub(super) held: HashMap<Name, Member>,
    chair: Chair,
}

/// What the chair has gathered.
#[derive(Debug, Default)]
struct Chair {
    round: u64,
    gathering: bool,
    /// Who has reported, and the epoch it knew.
    reports: BTreeMap<Member, u32>,
    inside: HashMap<Name, Member>,
}

#[cfg(test)]
impl Council {
    pub(super) fn chair_round(&self) -> u64 {
        self.chair.round
    }
}

impl Brain {
    /// Does what can be done about the next view: reports, or gathers.
    pub(super) fn review(&mut self) {
        let apart = matches!(self.standing, Standing::Apart { .. });
        if !apart || self.held_back || self.missing().is_some() {
            return;
        }
        if let Some(round) = self.council.asked.take() {
            self.council.reported = Some(round);
            self.report(round);
        }
        let chair = &mut self.council.chair;
        if self.seat.me == CHAIR && !chair.gathering {
            let round = chair.round + 1;
            *chair = Chair { round, gathering: true, ..Chair::default() };
            self.tell_all(&Message::Gather { round });
            self.decide_if_all_reported();
        }
    }

    pub(super) fn on_view_message(&mut self, from: Member, message: Message<'_>) {
        let current = self.council.chair.gathering.then_some(self.council.chair.round);
        match message {
            Message::Gather { round } if from == CHAIR => {
                self.leave_quietly("a new view is being formed");
                self.council.held.clear();
                self.council.asked = Some(round);
                self.review();
            }
            Message::Inside { round, names } if current == Some(round) => {
                for name in names {
                    self.note_inside(name.into(), from);
                }
            }
            Message::Report { round, epoch } if current == Some(round) => {
                self.council.chair.reports.insert(from, epoch);
                self.decide_if_all_reported();
            }
            Message::Held { round, names }
                if from == CHAIR && self.council.reported == Some(round) =>
            {
                let names = names.into_iter().map(|(member, name)| (name.into(), member));
                self.council.held.extend(names);
            }
            Message::Install { round, epoch }
                if from == CHAIR && self.council.reported == Some(round) =>
            {
                self.council.reported = None;
                let held = std::mem::take(&mut self.council.held);
                self.install(View::new(epoch, self.everybody(), held));
            }
            Message::Ended { epoch } if self.epoch_of_view() == Some(epoch) => {
                let why = format!("{} has left the view", self.name(from));
                self.leave(&why);
            }
            // A round or a view that is over, or one who does not take the chair.
            _ => {}
        }
    }

    /// The view that all have decided on: its epoch goes to disk, and then it begins.
    fn install(&mut self, view: View) {
        self.leave_quietly("the next view is there");
        let epoch = view.epoch;
        if epoch <= self.epoch || epoch >= EPOCHS {
            let why = format!("epoch {epoch} cannot follow epoch {}", self.epoch);
            self.log(Level::Warning, why.clone());
            self.standing = Standing::Apart { why };
            return;
        }
        self.epoch = epoch;
        self.standing = Standing::Writing(view);
        self.effects.push(Effect::Write { epoch });
    }

    /// The epoch is on disk for good.
    pub fn written(&mut self, now: Moment, epoch: u32) {
        if !matches!(&self.standing, Standing::Writing(view) if view.epoch == epoch) {
            return;
        }
        let apart = Standing::Apart { why: String::new() };
        let Standing::Writing(view) = std::mem::replace(&mut self.standing, apart) else {
            unreachable!("just looked");
        };
        let members = view.members.len();
        let held: Vec<_> = self.held_here(&view);
        self.standing = Standing::In(view);
        self.log(Level::Info, format!("view {epoch} of {members} members begins"));
        for lock in held {
            self.ensure_machine(now, lock);
        }
        for lock in self.table.ids() {
            self.settle(now, lock);
        }
        self.catch_up(now);
        for lock in self.table.ids() {
            self.table.drop_if_empty(lock);
        }
    }

    /// What this node is inside according to the view, whether or not its client has left since.
    fn held_here(&mut self, view: &View) -> Vec<LockId> {
        let me = self.seat.me;
        let mut names: Vec<_> =
            view.inside.iter().filter(|&(_, &member)| member == me).map(|(name, _)| name).collect();
        names.sort();
        let plan = &self.seat.plan;
        names.into_iter().map(|name| self.table.find_or_make(name, || plan.rule_of(name))).collect()
    }

    /// Leaves the view, tells the others, and looks for the next one.
    pub(super) fn leave(&mut self, why: &str) {
        let Some(epoch) = self.epoch_of_view() else { return };
        self.leave_quietly(why);
        self.tell_all(&Message::Ended { epoch });
        self.review();
    }

    /// Those inside stay inside, those who wait go on waiting, all else of the view is dropped.
    fn leave_quietly(&mut self, why: &str) {
        let Some(epoch) = self.epoch_of_view() else { return };
        self.council.left = epoch;
        self.standing = Standing::Apart { why: why.to_owned() };
        self.log(Level::Warning, format!("view {epoch} ends: {why}"));
        self.refuse_asks(&Refusal::NoView(why.to_owned()));
        self.forgetting = super::forget::Forgetting::default();
        for lock in self.table.ids() {
            self.table.entry(lock).leave_view();
            self.table.drop_if_empty(lock);
        }
    }

    /// A member is another one than before.
    pub(super) fn on_restart(&mut self, peer: Member) {
        // What it reported died with it; who has left the view hears it from there.
        self.council.chair.gathering = false;
        if peer == CHAIR {
            self.council.asked = None;
            self.council.reported = None;
            self.council.held.clear();
        }
        self.council.early.forget(peer);
        let why = format!("{} has restarted", self.name(peer));
        self.leave(&why);
    }

    /// A link has been down for long, if it is still the same silence.
    pub(super) fn on_long_silence(&mut self, now: Moment, peer: Member) {
        let lost_after = self.seat.limits.lost_after;
        let link = self.link(peer);
        if !link.is_up() && now.since(link.since) >= lost_after {
            let why = format!("{} is lost", self.name(peer));
            self.leave(&why);
        }
    }

    fn decide_if_all_reported(&mut self) {
        let chair = &self.council.chair;
        if !chair.gathering || chair.reports.len() + 1 < self.links.len() {
            return;
        }
        let epoch = 1 + chair.reports.values().copied().max().unwrap_or(0).max(self.epoch);
        let round = chair.round;
        for name in self.inside_here() {
            self.note_inside(name, self.seat.me);
        }
        let chair = &mut self.council.chair;
        chair.gathering = false;
        let inside = std::mem::take(&mut chair.inside);
        let mut held: Vec<_> = inside.iter().map(|(name, &member)| (member, &**name)).collect();
        held.sort_unstable();
        for part in parts(&held, |(_, name)| name.len()) {
            self.tell_all(&Message::Held { round, names: part.to_vec() });
        }
        self.tell_all(&Message::Install { round, epoch });
        self.install(View::new(epoch, self.everybody(), inside));
    }

    fn note_inside(&mut self, name: Name, member: Member) {
        let known = self.council.chair.inside.insert(name, member);
        if let Some(other) = known.filter(|&other| other != member) {
            // Every algorithm here is safe; still, the chair is the one place that would see it.
            let (one, other) = (self.name(other), self.name(member));
            let text = format!("{one} and {other} are both inside the same lock");
            self.log(Level::Warning, text);
        }
    }

    fn report(&mut self, round: u64) {
        let names = self.inside_here();
        let names: Vec<_> = names.iter().map(|name| &**name).collect();
        for part in parts(&names, |name| name.len()) {
            self.link(CHAIR).send(Message::Inside { round, names: part.to_vec() });
        }
        let epoch = self.epoch;
        self.link(CHAIR).send(Message::Report { round, epoch });
        self.ready.insert(CHAIR);
    }

    pub(super) fn inside_here(&self) -> Vec<Name> {
        let held = self.table.iter().filter(|(_, entry)| entry.holder.is_some());
        held.map(|(_, entry)| Name::clone(&entry.name)).collect()
    }

    fn tell_all(&mut self, message: &Message<'_>) {
        for peer in self.others() {
            self.link(peer).send(message.clone());
            self.ready.insert(peer);
        }
    }

    fn everybody(&self) -> Vec<Member> {
        (0..self.seat.plan.members()).map(Member).collect()
    }

    /// The epoch of the view we are in or about to be in.
    pub(super) fn epoch_of_view(&self) -> Option<u32> {
        match &self.standing {
            Standing::Apart { .. } => None,
            Standing::Writing(view) | Standing::In(view) => Some(view.epoch),
        }
    }
}

/// Cuts a list into parts that fit a message.
fn parts<T>(list: &[T], bytes: impl Fn(&T) -> usize) -> Vec<&[T]> {
    let mut parts = Vec::new();
    let (mut start, mut size) = (0, 0);
    for (place, item) in list.iter().enumerate() {
        size += bytes(item) + 8;
        if size > PART {
            parts.push(&list[start..place]);
            (start, size) = (place, bytes(item) + 8);
        }
    }
    if start < list.len() {
        parts.push(&list[start..]);
    }
    parts
}
