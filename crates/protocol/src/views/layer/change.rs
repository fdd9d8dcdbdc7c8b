//! The change of view at one node: leaving, reporting, beginning.

use std::time::Duration;

use super::{Instance, Message, Moment, Report, Stage, ViewEffect, ViewLayer, ViewNumber};
use crate::views::{Blocked, Contents, Coordinator, Plan};

impl ViewLayer {
    /// Leaves the present view for the last one decided, or for none.
    pub(super) fn follow(&mut self, now: Moment) {
        let last = self.state.last().expect("a view was decided").clone();
        let concerns = last.concerns(self.me);
        let was = self.view.take();
        if let Some(was) = &was {
            let until = self.lease.good_until();
            self.effects.push(ViewEffect::Leave { view: was.number, removed: !concerns, until });
        }
        self.report = None;
        self.reported = Moment::ZERO;
        self.noted = 0;
        self.coordinator = None;
        self.host.leave_view();
        self.last_kept.clear();
        self.unlogged.clear();
        self.stopped = false;
        if concerns {
            self.lease.enter(&last);
            self.stage = Stage::Joining;
            if last.coordinator() == self.me {
                self.coordinator = Some(Coordinator::new(&self.state, &last));
            }
            self.view = Some(last);
        } else {
            self.lease.leave();
            self.stage = Stage::Out;
        }
        self.next_ask = now;
    }

    /// Wants the report when everybody in the view is linked and the lease is acknowledged in it:
    /// no message of the view can be lost, and the view's voters can tell when it ends.
    pub(super) fn want_report(&mut self) {
        let Some(view) = &self.view else { return };
        let linked = |one: &Instance| *one == self.me || self.linked.contains(one);
        let ready = self.lease.is_acknowledged() && view.everybody().iter().all(linked);
        if self.stage == Stage::Joining && ready {
            let view = view.number;
            self.stage = Stage::Reported;
            self.effects.push(ViewEffect::Report { view });
        }
    }

    /// What this node holds, and who waits: asked for by [`ViewEffect::Report`]. Called again
    /// before the view begins it takes the place of the first (a client has reclaimed something).
    ///
    /// A guard that was notified of its loss is still held until it is dropped, or its lease's end
    /// has passed.
    pub fn report(&mut self, now: Moment, contents: Contents) {
        self.advance(now);
        if let Some(view) = self.view.as_ref().filter(|_| self.stage == Stage::Reported) {
            let version = self.report.as_ref().map_or(1, |report| report.version + 1);
            self.floor = self.floor.max(contents.floor);
            let report = Report {
                view: view.number,
                version,
                last_begun: self.last_begun,
                contents: Contents { floor: self.floor, ..contents },
                records: self.keeper.records().cloned().collect(),
                quarantine: self.quarantine.left(now),
            };
            self.report = Some(report);
            self.reported = now;
            self.repeat_report(now);
        }
        self.settle(now);
    }

    /// Sends the report until the coordinator has it, and then asks whether the view has begun.
    pub(super) fn repeat_report(&mut self, now: Moment) {
        let (Some(view), Some(report)) = (&self.view, &self.report) else { return };
        let to = view.coordinator().member;
        let message = if self.noted < report.version {
            let mut report = report.clone();
            report.contents.age(now.since(self.reported));
            Message::Report(Box::new(report))
        } else {
            Message::Poll { view: view.number }
        };
        self.send(to, message);
    }

    pub(super) fn on_report(&mut self, now: Moment, from: Instance, report: Report) {
        let (view, version) = (report.view, report.version);
        let Some(coordinator) = &mut self.coordinator else { return };
        if coordinator.report(now, &self.settings, &self.state, from, report) {
            self.answer_reporter(now, from, view, version);
        }
    }

    pub(super) fn on_poll(&mut self, now: Moment, from: Instance, view: ViewNumber) {
        let current = self.view.as_ref().is_some_and(|known| known.number == view);
        if current && self.coordinator.as_ref().is_some_and(|one| one.has_report(from)) {
            // Version 0 confirms no report.
            self.answer_reporter(now, from, view, 0);
        }
    }

    fn answer_reporter(&mut self, now: Moment, to: Instance, view: ViewNumber, version: u64) {
        let Some(coordinator) = &self.coordinator else { return };
        let message = match coordinator.plan() {
            Some(plan) => Message::Begin(Box::new(plan.clone())),
            None => {
                let quarantine = coordinator.quarantine_left(now, &self.settings, &self.state);
                Message::Noted { view, version, quarantine }
            }
        };
        self.send(to.member, message);
    }

    pub(super) fn on_noted(
        &mut self,
        now: Moment,
        view: ViewNumber,
        version: u64,
        quarantine: Option<Duration>,
    ) {
        if self.view.as_ref().is_some_and(|known| known.number == view) {
            self.noted = self.noted.max(version);
            if let Some(left) = quarantine {
                self.quarantine.note(now, &self.settings, view, left);
            }
        }
    }

    /// The coordinator begins the view as soon as it may.
    pub(super) fn try_begin(&mut self, now: Moment) {
        let (Some(coordinator), Some(view)) = (&mut self.coordinator, &self.view) else { return };
        if !coordinator.try_begin(now, &self.settings, &self.state) {
            return;
        }
        let plan = coordinator.plan().expect("just made").clone();
        for one in view.everybody() {
            self.send(one.member, Message::Begin(Box::new(plan.clone())));
        }
    }

    /// The view begins here. A plan of a view that was left, or one to which this incarnation has
    /// not reported, is of no effect.
    pub(super) fn on_begin(&mut self, plan: Plan) {
        let current = self.view.as_ref().is_some_and(|view| view.number == plan.view);
        if !current || self.stage != Stage::Reported {
            return;
        }
        self.stage = Stage::Begun;
        self.last_begun = plan.view;
        self.report = None;
        self.reported = Moment::ZERO;
        self.quarantine.clear();
        self.keeper.begin(&plan.records);
        self.effects.push(ViewEffect::Begin(Box::new(plan)));
    }

    /// For how long the coordinator has to wait, when nothing else is missing.
    pub(super) fn coordinator_waits(&self, now: Moment) -> Option<Duration> {
        let coordinator = self.coordinator.as_ref().filter(|one| one.plan().is_none())?;
        match coordinator.blocked(now, &self.settings, &self.state) {
            Some(Blocked::Until(until)) => Some(until.since(now)),
            Some(Blocked::Report(_) | Blocked::Words | Blocked::Epoch) | None => None,
        }
    }

    /// How long the view that this node joins has to wait for leases of removed members or for lost
    /// records, as far as it knows.
    pub fn begins_in(&self, now: Moment) -> Option<Duration> {
        let reported = self.stage == Stage::Reported;
        let records = self.quarantine.left(now).map(|(_, left)| left);
        let waits = self.coordinator_waits(now).or(records);
        waits.filter(|left| reported && !left.is_zero())
    }

    /// Whether the view that this node joins waits for clients whose records are lost.
    pub fn waits_for_clients(&self) -> bool {
        self.stage == Stage::Reported && self.quarantine.is_known()
    }

    pub(super) fn coordinator_wakes(&self) -> Moment {
        let Some(coordinator) = self.coordinator.as_ref().filter(|one| one.plan().is_none()) else {
            return Moment::NEVER;
        };
        match coordinator.blocked(Moment::ZERO, &self.settings, &self.state) {
            Some(Blocked::Until(until)) => until,
            Some(Blocked::Report(_) | Blocked::Words | Blocked::Epoch) | None => Moment::NEVER,
        }
    }
}
