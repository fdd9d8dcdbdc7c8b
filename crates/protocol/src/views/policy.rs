//! The leader's policy: which view to propose, and when. Nothing of it is needed for safety.
//!
//! All nodes send their asks to all voters, so each voter knows the same rows and a new leader
//! starts with them. A row says whom its sender hears from. Two reach each other if each hears from
//! the other. The target is the largest set of members that all reach each other; a member is left
//! out as soon as it is lost (the silence D is counted by its peers and by this voter), and taken
//! in when all links to it have been up for `add_after`.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{
    Command, DecidedState, DecidedView, Instance, LEVEL_OF_RULES, MemberId, Role, Stage,
    ViewNumber, ViewSettings,
    clique::{self, Edges},
    detector::Arrivals,
};
use crate::Moment;

/// Removals longer ago than this are forgiven.
const FORGIVEN_AFTER: Duration = Duration::from_secs(600);

/// A member that keeps being removed returns after at most so long.
const LONGEST_HOLD_DOWN: Duration = Duration::from_secs(60);

/// For so long after its start a voter may apply what was decided before it.
const REPLAY: Duration = Duration::from_secs(3);

/// What a node says of itself in an ask.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Row {
    /// The node.
    pub instance: Instance,
    /// The incarnations that it hears from.
    pub sees: BTreeSet<Instance>,
    /// An epoch that the next view's must be above.
    pub floor: u32,
    /// The view it is in or joins.
    pub view: ViewNumber,
    /// How far it is there.
    pub stage: Stage,
    /// The newest level that it can use.
    pub newest: u16,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Known {
    row: Row,
    arrivals: Arrivals,
    since: Moment,
}

/// What a voter needs to lead.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Policy {
    /// When this voter started. What it applies right after that was mostly decided long before.
    started: Moment,
    rows: BTreeMap<MemberId, Known>,
    /// Since when two reach each other, the lower one first.
    up_since: BTreeMap<(Instance, Instance), Moment>,
    removals: BTreeMap<MemberId, Vec<Moment>>,
    /// Until when a member that was removed stays out.
    held_down: BTreeMap<MemberId, Moment>,
    /// When this voter applied the last view.
    decided_at: Moment,
    proposed: Option<(Command, Moment)>,
    /// The voters of the consensus engine, once they are known to this leader.
    engine: Option<BTreeSet<MemberId>>,
    /// A view that did not begin in time, and who was late.
    late: Option<(ViewNumber, BTreeSet<Instance>)>,
}

impl Policy {
    /// The policy of a voter that starts now.
    pub fn new(now: Moment) -> Self {
        Self { started: now, ..Self::default() }
    }

    /// The voters of the consensus engine; none at a voter that does not lead.
    pub fn set_engine_voters(&mut self, voters: Option<BTreeSet<MemberId>>) {
        self.engine = voters;
    }

    /// A node has asked.
    pub fn heard(&mut self, now: Moment, settings: &ViewSettings, row: Row) {
        let id = row.instance.member;
        match self.rows.get_mut(&id) {
            Some(known) if known.row.instance.incarnation > row.instance.incarnation => return,
            Some(known) if known.row.instance == row.instance => {
                if !known.arrivals.is_fresh(now, settings, settings.ask_every()) {
                    known.since = now;
                }
                known.arrivals.note(now, settings.ask_every());
                known.row = row;
            }
            Some(_) | None => {
                self.rows.insert(id, Known { row, arrivals: Arrivals::new(now), since: now });
            }
        }
        self.note_links(now, settings);
    }

    /// A view was decided; `removed` are the incarnations of the view before that are not in it.
    pub fn decided(&mut self, now: Moment, removed: &BTreeSet<Instance>) {
        self.decided_at = now;
        self.late = None;
        if now.since(self.started) < REPLAY {
            // After a restart of all, nobody is to be kept out for what happened before.
            return;
        }
        for instance in removed {
            let leaving = self
                .rows
                .get(&instance.member)
                .is_some_and(|known| known.row.stage == Stage::Leaving);
            let past = self.removals.entry(instance.member).or_default();
            past.retain(|&at| now.since(at) < FORGIVEN_AFTER);
            if !leaving {
                past.push(now);
                let wait = Duration::from_secs(1 << past.len().min(6)).min(LONGEST_HOLD_DOWN);
                self.held_down.insert(instance.member, now.after(wait));
            }
        }
    }

    fn fresh(&self, now: Moment, settings: &ViewSettings) -> BTreeMap<Instance, &Known> {
        self.rows
            .values()
            .filter(|known| known.arrivals.is_fresh(now, settings, settings.ask_every()))
            .map(|known| (known.row.instance, known))
            .collect()
    }

    /// The members that asked lately, and the incarnations that each hears from.
    pub fn reach(
        &self,
        now: Moment,
        settings: &ViewSettings,
    ) -> impl Iterator<Item = (MemberId, &BTreeSet<Instance>)> {
        self.fresh(now, settings).into_iter().map(|(one, known)| (one.member, &known.row.sees))
    }

    fn note_links(&mut self, now: Moment, settings: &ViewSettings) {
        let mut up = BTreeMap::new();
        let fresh = self.fresh(now, settings);
        for (&one, a) in &fresh {
            for (&two, b) in fresh.range(one..).skip(1) {
                if a.row.sees.contains(&two) && b.row.sees.contains(&one) {
                    let since = self.up_since.get(&(one, two)).copied().unwrap_or(now);
                    up.insert((one, two), since);
                }
            }
        }
        self.up_since = up;
    }

    /// Whether a member of the last view no longer hears from this one, nor has it asked here for a
    /// while: it has most likely crashed, and the others have not noticed yet. Without this it
    /// could keep its place, and a survivor that noticed first would lose its own.
    fn is_doubted(
        &self,
        now: Moment,
        settings: &ViewSettings,
        last: &DecidedView,
        one: Instance,
    ) -> bool {
        let quiet = |known: &Known| known.arrivals.is_quiet(now, settings, settings.ask_every());
        let doubts = |known: &Known| {
            let other = known.row.instance;
            other != one && last.concerns(other) && !quiet(known) && !known.row.sees.contains(&one)
        };
        last.concerns(one)
            && self.rows.get(&one.member).is_some_and(quiet)
            && self.rows.values().any(doubts)
    }

    /// What to propose now, if anything.
    pub fn propose(
        &mut self,
        now: Moment,
        settings: &ViewSettings,
        state: &DecidedState,
    ) -> Option<Command> {
        self.note_links(now, settings);
        self.note_late(now, settings, state);
        let command = self
            .next_view(now, settings, state)
            .map(Command::View)
            .or_else(|| self.begun(state))?;
        if let Some((known, at)) = &self.proposed
            && *known == command
            && now.since(*at) < settings.propose_again()
        {
            return None;
        }
        self.proposed = Some((command.clone(), now));
        Some(command)
    }

    /// Whether all of a view say that they have begun it.
    fn has_begun(&self, view: &DecidedView) -> bool {
        view.everybody().iter().all(|&one| self.stage_in(view, one) == Some(Stage::Begun))
    }

    fn begun(&self, state: &DecidedState) -> Option<Command> {
        let last = state.last()?;
        let news = last.number > state.begun() && self.has_begun(last);
        news.then_some(Command::Begun(last.number))
    }

    fn stage_in(&self, view: &DecidedView, instance: Instance) -> Option<Stage> {
        let known = self.rows.get(&instance.member)?;
        (known.row.instance == instance && known.row.view == view.number).then_some(known.row.stage)
    }

    /// A view that does not begin in time is replaced by one without those that are late.
    fn note_late(&mut self, now: Moment, settings: &ViewSettings, state: &DecidedState) {
        let Some(last) = state.last() else { return };
        if state.begun() >= last.number || self.has_begun(last) {
            // It began after all, with those that were late.
            self.late = None;
            return;
        }
        let coordinator = last.coordinator();
        let mut deadline = self.decided_at.after(settings.stage_timeout);
        if !state.removed(last).is_empty() {
            deadline = deadline.after(settings.full_lease());
        }
        if let Some(Stage::Waiting { left }) = self.stage_in(last, coordinator) {
            deadline = deadline.max(now.after(left));
        }
        if now < deadline {
            return;
        }
        let stage = |one: Instance| self.stage_in(last, one);
        let everybody = last.everybody();
        let begins = everybody.iter().any(|&one| stage(one) == Some(Stage::Begun));
        let is_late = |one: &Instance| match stage(*one) {
            Some(Stage::Begun) => false,
            Some(Stage::Reported | Stage::Waiting { .. }) => begins,
            Some(Stage::Out | Stage::Joining | Stage::Leaving) | None => true,
        };
        let mut late: BTreeSet<_> = everybody.into_iter().filter(is_late).collect();
        if late.is_empty() {
            late.insert(coordinator);
        }
        // Without all of its members there is no view; but others may be taken in.
        if late.is_superset(&last.members) {
            late.clear();
        }
        self.late = Some((last.number, late));
        self.decided_at = now;
    }

    fn next_view(
        &self,
        now: Moment,
        settings: &ViewSettings,
        state: &DecidedState,
    ) -> Option<DecidedView> {
        let last = state.last();
        let present = last.map(|last| last.members.clone()).unwrap_or_default();
        let (members, keepers) = self.target(now, settings, state, &present)?;
        // Keepers too: the coordinator waits for a view above what any reporter knows of.
        let rows = members.union(&keepers).filter_map(|one| self.rows.get(&one.member));
        let floor = rows.map(|known| known.row.floor).max().unwrap_or(0);
        let voters = next_voters(state);
        let level = self.next_level(state);
        let rules = if level >= LEVEL_OF_RULES { state.rules_number() } else { 0 };
        let (number, epoch) =
            last.map_or((ViewNumber(1), 1), |last| (last.number.next(), last.epoch + 1));
        let next = DecidedView {
            number,
            epoch: epoch.max(floor + 1),
            members,
            keepers,
            voters,
            rules,
            level,
        };
        let Some(last) = last else { return Some(next) };
        let smaller = !next.everybody().is_superset(&last.everybody());
        let differs = next.members != last.members
            || next.keepers != last.keepers
            || next.voters != last.voters
            || (next.rules_number(), next.level) != (last.rules_number(), last.level);
        let settled = state.begun() >= last.number || self.has_begun(last) || self.late.is_some();
        (smaller || floor >= last.epoch || (differs && settled)).then_some(next)
    }

    /// The highest level that all members can use, never below the last one. Of a member that this
    /// voter has received nothing from it is not known, and the level stays. A former member counts
    /// as long as a view that may matter names it, or the engine needs its vote: the others refuse
    /// it once it does not understand the level.
    fn next_level(&self, state: &DecidedState) -> u16 {
        let mut all: BTreeSet<_> = state.directory().members().map(|(id, _)| id).collect();
        let last = match (state.last(), &self.engine) {
            (None, _) => 0,
            (Some(last), None) => return last.level,
            (Some(last), Some(engine)) => {
                all.extend(engine);
                last.level
            }
        };
        for view in state.views() {
            all.extend(view.everybody().into_iter().map(|one| one.member));
            all.extend(&view.voters);
        }
        let newest = |id: MemberId| Some(self.rows.get(&id)?.row.newest);
        let all: Option<Vec<_>> = all.into_iter().map(newest).collect();
        let common = all.and_then(|all| all.into_iter().min());
        common.map_or(last, |common| common.max(last))
    }

    /// Whether all members of the directory are here and reach each other.
    fn is_complete(&self, state: &DecidedState, fresh: &BTreeMap<Instance, &Known>) -> bool {
        let known = |one: &Instance| state.directory().role(one.member).is_some();
        let fresh: BTreeSet<_> = fresh.keys().copied().filter(known).collect();
        let all = fresh.len() == state.directory().members().count();
        let reach = |a: Instance, b: Instance| self.up_since.contains_key(&(a.min(b), a.max(b)));
        all && fresh.iter().all(|&a| fresh.iter().all(|&b| a == b || reach(a, b)))
    }

    /// The members and keepers that the next view should have.
    fn target(
        &self,
        now: Moment,
        settings: &ViewSettings,
        state: &DecidedState,
        present: &BTreeSet<Instance>,
    ) -> Option<(BTreeSet<Instance>, BTreeSet<Instance>)> {
        let fresh = self.fresh(now, settings);
        let role = |one: Instance| state.directory().role(one.member);
        let is_known = |one: Instance| state.last().is_some_and(|last| last.concerns(one));
        // At the first start, or after one of all, a view of some would have to wait for what the
        // others may have granted. So all are waited for, for a while.
        let restart = !fresh.keys().any(|&one| is_known(one));
        let complete = restart && self.is_complete(state, &fresh);
        let settle = match (restart, complete) {
            (true, true) => Duration::ZERO,
            (true, false) => settings.add_after + settings.stage_timeout,
            (false, _) => settings.add_after,
        };
        let late = self.late.as_ref().map(|(_, late)| late);
        let is_usable = |one: Instance, known: &Known| {
            let leaving = known.row.stage == Stage::Leaving;
            let down = self.held_down.get(&one.member).is_some_and(|&until| now < until);
            let settled = now.since(known.since) >= settle;
            let late = late.is_some_and(|late| late.contains(&one));
            let doubted =
                state.last().is_some_and(|last| self.is_doubted(now, settings, last, one));
            !leaving && !late && !doubted && (is_known(one) || (settled && !down))
        };
        let usable: Vec<_> = fresh
            .iter()
            .filter(|(one, known)| role(**one).is_some() && is_usable(**one, known))
            .map(|(&one, _)| one)
            .collect();
        let reach = |a: Instance, b: Instance| {
            let since = self.up_since.get(&(a.min(b), a.max(b)));
            let known = complete || (is_known(a) && is_known(b));
            since.is_some_and(|&since| known || now.since(since) >= settings.add_after)
        };
        let holds = |one: &&Instance| role(**one).is_some_and(Role::holds_locks);
        // One that returns links to the members one after the other. It must not take the place of
        // a member that it has not linked to yet.
        let patience = settings.add_after + settings.silence(settings.ask_every(), Duration::ZERO);
        let still_links = |one: Instance| {
            let new = fresh.get(&one).is_some_and(|known| now.since(known.since) < patience);
            let mut present = usable.iter().filter(holds).filter(|other| is_known(**other));
            new && !is_known(one) && present.any(|&other| !reach(one, other))
        };
        let usable: Vec<_> = usable.iter().copied().filter(|&one| !still_links(one)).collect();
        let edges: Edges = usable
            .iter()
            .filter(holds)
            .map(|&a| (a, usable.iter().filter(holds).copied().filter(|&b| reach(a, b)).collect()))
            .collect();
        let members = clique::largest(&edges, present);
        let keepers: BTreeSet<_> = usable
            .iter()
            .copied()
            .filter(|&one| role(one).is_some_and(Role::votes))
            .filter(|&one| members.iter().all(|&other| one == other || reach(one, other)))
            .collect();
        let possible = !members.is_empty() && !keepers.is_empty();
        possible.then_some((members, keepers))
    }
}

/// The voters of the next view: one change at a time, and none before the last has begun, so that a
/// majority of the earlier voters is there to say what it has answered.
fn next_voters(state: &DecidedState) -> BTreeSet<MemberId> {
    let wanted = state.directory().voters();
    let Some(last) = state.last() else { return wanted };
    let mut voters = last.voters.clone();
    if state.begun() >= last.number {
        // One that is no longer wanted is mostly lost: with another one beside it, those that are
        // left could be no majority.
        if let Some(&old) = last.voters.difference(&wanted).next() {
            voters.remove(&old);
        } else if let Some(&new) = wanted.difference(&voters).next() {
            voters.insert(new);
        }
    }
    voters
}
