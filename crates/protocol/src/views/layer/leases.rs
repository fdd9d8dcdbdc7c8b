//! Asks, answers, and the words about incarnations that are removed.

use std::time::Duration;

use super::{Instance, Message, Moment, Stage, ViewLayer, ViewNumber};
use crate::views::{Ask, Row};

impl ViewLayer {
    /// Asks all voters for the lease.
    pub(super) fn ask(&mut self, now: Moment) {
        let number = self.lease.ask(now, &self.settings);
        self.seen = self.detector.sees(now, &self.settings);
        let ask = Ask {
            number,
            view: self.view.as_ref().map_or(ViewNumber(0), |view| view.number),
            known: self.state.version(),
            sees: self.seen.clone(),
            floor: self.floor,
            stage: self.reported_stage(now),
            newest: self.settings.levels.newest,
        };
        let mut voters = self.directory().voters();
        // One that shall vote may lead before the directory calls it a voter. If nobody asked it,
        // it would know of nobody, and propose no view.
        voters.extend(self.directory().wanted_voters());
        voters.extend(self.view.iter().flat_map(|view| view.voters.iter().copied()));
        // A voter that is removed may lead until the view without it has begun, and decides that.
        voters.extend(self.state.views().flat_map(|view| view.voters.iter().copied()));
        for voter in voters {
            self.send(voter, Message::Ask(ask.clone()));
        }
    }

    /// A voter hears of a node, and answers it unless a later view is persisted here.
    pub(super) fn on_ask(&mut self, now: Moment, from: Instance, ask: Ask) {
        let Ask { sees, floor, view, stage, newest, .. } = ask.clone();
        let row = Row { instance: from, sees, floor, view, stage, newest };
        let known = self.state.version();
        let Some(voter) = &mut self.voter else { return };
        self.policy.heard(now, &self.settings, row);
        let Ask { number, view, .. } = ask;
        let answers = voter.answer(now, &self.settings, from, view);
        if answers {
            let incarnation = from.incarnation;
            self.send(from.member, Message::Answer { incarnation, view, number });
        }
        if ask.known < known {
            self.send(from.member, Message::Decided(Box::new(self.state.clone())));
        }
    }

    /// What is said again and again until it has had its effect.
    pub(super) fn repeat(&mut self, now: Moment) {
        self.tell_gone(now);
        self.tell_left(now);
        self.repeat_report(now);
        self.repeat_records();
    }

    /// A voter reports to the coordinator of the last view when it last answered those it removes.
    /// The view is applied here: this voter answers none of them in an earlier view again.
    fn tell_gone(&mut self, now: Moment) {
        let (Some(voter), Some(view)) = (&self.voter, self.state.last()) else { return };
        if self.state.begun() >= view.number {
            return;
        }
        let age = |gone: Instance| (gone, voter.age(now, &self.settings, gone));
        let ages: Vec<_> = self.state.removed(view).into_keys().map(age).collect();
        let (to, view) = (view.coordinator().member, view.number);
        if !ages.is_empty() {
            self.send(to, Message::Gone { view, ages });
        }
    }

    pub(super) fn on_gone(
        &mut self,
        now: Moment,
        from: Instance,
        view: ViewNumber,
        ages: &[(Instance, Duration)],
    ) {
        let current = self.view.as_ref().is_some_and(|known| known.number == view);
        if let Some(coordinator) = self.coordinator.as_mut().filter(|_| current) {
            for &(gone, age) in ages {
                coordinator.wait().gone(now, &self.settings, from.member, gone, age);
            }
        }
    }

    /// A node that was removed says so when nothing is held here any more.
    fn tell_left(&mut self, now: Moment) {
        let Some(last) = self.state.last() else { return };
        let quiet = self.stopped || now >= self.lease.good_until();
        if self.view.is_none() && quiet && self.state.begun() < last.number {
            let (to, below) = (last.coordinator().member, last.number);
            self.send(to, Message::Left { below });
        }
    }

    pub(super) fn on_left(&mut self, now: Moment, from: Instance, below: ViewNumber) {
        let current = self.view.as_ref().is_some_and(|view| view.number <= below);
        if let Some(coordinator) = self.coordinator.as_mut().filter(|_| current) {
            coordinator.wait().left(now, from);
        }
    }

    /// The stage as it is reported to the leader: a coordinator that waits says for how long.
    fn reported_stage(&self, now: Moment) -> Stage {
        if self.leaving {
            return Stage::Leaving;
        }
        match self.coordinator_waits(now) {
            Some(left) if self.stage == Stage::Reported => Stage::Waiting { left },
            Some(_) | None => self.stage,
        }
    }
}
