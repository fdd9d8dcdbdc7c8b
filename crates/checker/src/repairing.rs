//! A process with a repair as the search sees it: its client, its crash and restart, the
//! reports of the failure detector and the election's timers.

use mutua_algorithms::{
    Fields, Mutex, NodeId, Phase, Renaming, Shared, Time, Timer,
    repairs::{Effect, Generic, Outbox, Plan, RepairMessage},
};

use crate::actor::{Actor, DOWN, Event, Look, Reaction, TIMERS, timer_bit};

/// A process of a mutual exclusion algorithm with a repair, and its client.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Repairing<M: Mutex> {
    me: NodeId,
    plan: Shared<Plan>,
    /// None while it is down.
    process: Option<Generic<M>>,
    /// Whether a ring's passes are acknowledged. Acknowledgements only detect a crash, which the
    /// detector reports as well, and those in flight have no bound.
    acknowledged: bool,
    entries_left: u8,
    /// Its crashes and restarts.
    changes: u8,
    /// The timers that run, one bit each.
    timers: u8,
}

impl<M: Mutex> Repairing<M> {
    /// A process at the start.
    pub(crate) fn new(me: NodeId, plan: &Shared<Plan>, entries: u8, acknowledged: bool) -> Self {
        Self {
            me,
            plan: plan.clone(),
            process: Some(Generic::new(me, plan)),
            acknowledged,
            entries_left: entries,
            changes: 0,
            timers: 0,
        }
    }

    /// Begins; the first messages.
    pub(crate) fn begin(&mut self) -> Vec<(NodeId, RepairMessage<M::Message>)> {
        let mut out = Outbox::new();
        if let Some(process) = &mut self.process {
            process.begin(&mut out);
        }
        self.react(&mut out).sends
    }
}

impl<M: Mutex> Actor for Repairing<M> {
    type Message = RepairMessage<M::Message>;
    type Outbox = Outbox<M::Message>;

    fn events(&self, menu: &mut Vec<Event>) {
        let Some(process) = &self.process else { return menu.push(Event::Restart) };
        match process.phase() {
            Phase::Idle if self.entries_left > 0 => menu.push(Event::Request),
            Phase::InCs => menu.push(Event::Release),
            Phase::Idle | Phase::Requesting => {}
        }
        // Which of these reports can come now depends on the other processes; see `step.rs`.
        for node in self.plan.start().others(self.me) {
            let known = process.changes().of(node).unwrap_or(0);
            menu.push(Event::Report(node, known as u8 + 1));
        }
        let armed = TIMERS.into_iter().filter(|&timer| self.timers & timer_bit(timer) != 0);
        menu.extend(armed.map(Event::Timeout));
        menu.push(Event::Crash);
    }

    fn happen(&mut self, event: Event, out: &mut Self::Outbox) {
        if event == Event::Restart {
            self.changes += 1;
            let changes = u32::from(self.changes);
            let mut process = Generic::restarted(self.me, &self.plan, changes);
            process.begin(out);
            self.process = Some(process);
            return;
        }
        let Some(process) = &mut self.process else { return };
        match event {
            Event::Request => {
                self.entries_left -= 1;
                process.request(out);
            }
            Event::Release => process.release(out),
            Event::Report(node, changes) => process.report(node, changes.into(), out),
            Event::Timeout(timer) => {
                self.timers &= !timer_bit(timer);
                process.timeout(timer, out);
            }
            Event::Crash => {
                self.process = None;
                self.timers = 0;
                self.changes += 1;
            }
            Event::AppSend(_) | Event::Restart => {}
            Event::Start => unreachable!("a repair starts its elections by itself"),
        }
    }

    fn receive(
        &mut self,
        from: NodeId,
        sent: Time,
        message: Option<Self::Message>,
        out: &mut Self::Outbox,
    ) {
        let Some(process) = &mut self.process else { return };
        match message {
            Some(message) => process.receive(from, sent, message, out),
            None => process.observe(from, sent, out),
        }
    }

    fn react(&mut self, out: &mut Self::Outbox) -> Reaction<Self::Message> {
        let mut reaction = Reaction::default();
        out.drain(|effect| match effect {
            Effect::Send { message: RepairMessage::Acknowledge { .. }, .. }
            | Effect::SetTimer { timer: Timer::Acknowledgement, .. }
                if !self.acknowledged => {}
            Effect::Send { to, message, .. } => reaction.sends.push((to, message)),
            Effect::Multicast { to, message } => reaction.multicast(to, &message),
            Effect::Enter { .. } => reaction.entered = true,
            // Its fencing tokens are of a later epoch than those of the crashed process.
            Effect::StartView { .. } | Effect::GoOn { .. } => reaction.starts_view = true,
            Effect::Resume { .. } => reaction.resumed = true,
            Effect::SetTimer { timer, .. } => self.timers |= timer_bit(timer),
            Effect::CancelTimer { timer } => self.timers &= !timer_bit(timer),
            Effect::Suspend | Effect::TakeOver { .. } | Effect::Nonsense { .. } => {}
        });
        reaction
    }

    fn time(&self) -> Time {
        self.process.as_ref().map_or(Time::ZERO, Generic::time)
    }

    fn carries_clock(&self, message: Option<&Self::Message>) -> bool {
        self.process.as_ref().is_none_or(|process| process.carries_clock(message))
    }

    /// A process that crashes in the critical section is in it no longer: what it wrote is the
    /// fencing token's business.
    fn look(&self) -> Look {
        let changes = self.changes;
        let Some(process) = &self.process else {
            return Look { down: true, changes, ..Look::default() };
        };
        let view = process.view();
        Look {
            // A repair that never ends keeps every later request waiting.
            waiting: process.phase() == Phase::Requesting || view.is_none(),
            ticket: true,
            in_cs: process.phase() == Phase::InCs,
            changes,
            view,
            token: process.has_token(),
            // A special repair raises the epoch within the view. A process that is suspended may
            // come into the view of the changes that it knows.
            settled: process.changes().view() + u32::from(view.is_some()),
            ..Look::default()
        }
    }

    fn variables(&self) -> Fields {
        let Some(process) = &self.process else { return vec![DOWN] };
        let mut fields = vec![("phase", process.phase().word().into())];
        fields.extend(process.variables());
        fields
    }

    fn map_times(&mut self, map: &mut dyn FnMut(&mut Time)) {
        if let Some(process) = &mut self.process {
            process.map_times(map);
        }
    }

    fn rename(&mut self, _renaming: &Renaming) {
        unreachable!("the ids decide the election")
    }
}
