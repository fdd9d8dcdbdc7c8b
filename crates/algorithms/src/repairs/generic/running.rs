//! The algorithm in a view: its calls, and the way of its messages to the members.

use super::{Client, Early, Generic, Stage, special::Local};
use crate::{
    Effect, FencingToken, Mutex, NodeId, Process, Start, Time, Timer,
    outbox::Kept,
    repairs::{Outbox, Plan, RepairMessage, outbox::Own},
};

/// The algorithm in a view. Its processes are numbered by their position among the members.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Running<M: Mutex> {
    pub(super) process: Process<M>,
    pub(super) members: Vec<NodeId>,
    /// The number of the view.
    pub(super) number: u32,
    /// The process that started the view; none in the first one.
    pub(super) leader: Option<NodeId>,
    /// The coordinator, if the algorithm has one.
    pub(super) coordinator: Option<NodeId>,
    /// What the special repair knows.
    pub(super) local: Local<M>,
}

impl<M: Mutex> Running<M> {
    /// The first view.
    pub(super) fn new(
        process: Process<M>,
        members: Vec<NodeId>,
        plan: &Plan,
        start: &Start,
    ) -> Self {
        let local = Local::new(plan.special::<M>(), &members, start);
        let has_coordinator = start.settings().get("coordinator").is_some();
        let coordinator = members.get(start.coordinator().index()).filter(|_| has_coordinator);
        let coordinator = coordinator.copied();
        Self { process, members, number: 0, leader: None, coordinator, local }
    }

    /// The id of a process within the view.
    pub(super) fn position(&self, node: NodeId) -> Option<NodeId> {
        self.members.binary_search(&node).ok().map(NodeId::from)
    }

    /// The algorithm is suspended: no acknowledgement is awaited any more.
    pub(super) fn stop_waiting<A>(&mut self, out: &mut Outbox<A>) {
        if let Local::Ring(ring) = &mut self.local
            && ring.awaited.take().is_some()
        {
            out.own(Own::CancelTimer(Timer::Acknowledgement));
        }
    }

    pub(super) fn map_times(&mut self, map: &mut dyn FnMut(&mut Time)) {
        self.process.map_times(map);
        self.local.map_times(map);
    }
}

impl<M: Mutex> Generic<M> {
    /// A message of this view, from a member that is up.
    pub(super) fn handle(&mut self, early: Early<M::Message>, out: &mut Outbox<M::Message>) {
        let Early { from, sent, message, .. } = early;
        match message {
            RepairMessage::Algorithm { message, .. } => {
                let Stage::Running(running) = &self.stage else { return };
                let Some(position) = running.position(from) else {
                    return out.nonsense(from, "a message from no member of the view");
                };
                self.run(out, |process, out| {
                    process.receive(position, sent, message, out);
                });
            }
            RepairMessage::Ring { changes, hop, again, message, .. } => {
                self.rise_above(sent);
                self.learn(&changes, out);
                self.on_pass(from, (sent, hop), again, message, out);
            }
            RepairMessage::Acknowledge { hop, .. } => self.on_acknowledge(from, hop, out),
            RepairMessage::Claim { changes, arbiter, claim, .. } => {
                self.rise_above(sent);
                self.learn(&changes, out);
                self.on_claim(from, arbiter, claim, out);
            }
            RepairMessage::StandIn { from: of, to, message, .. } => {
                self.rise_above(sent);
                self.on_stand_in(from, (of, to), sent, message, out);
            }
            RepairMessage::Election { .. } | RepairMessage::Report(_) | RepairMessage::View(_) => {
                unreachable!("it belongs to a view change")
            }
        }
    }

    /// Calls the algorithm, if it runs, and adds its effects.
    pub(super) fn run(
        &mut self,
        out: &mut Outbox<M::Message>,
        call: impl FnOnce(&mut Process<M>, &mut crate::Outbox<M::Message>),
    ) {
        let Stage::Running(running) = &mut self.stage else { return };
        call(&mut running.process, &mut out.algorithm);
        self.carry_out(self.me, out);
        self.settle(out);
    }

    /// Adds the effects of a call of the algorithm: of its process here, or of the process whose
    /// part is taken over here.
    pub(super) fn carry_out(&mut self, of: NodeId, out: &mut Outbox<M::Message>) {
        let Stage::Running(running) = &mut self.stage else { return };
        let Running { process, members, number, local, .. } = &mut **running;
        let time = process.time();
        let changes = &self.changes;
        let all_up = changes.view() == *number && !matches!(local, Local::Ring(_));
        let named = self.plan.named(*number);
        let route = Route { me: self.me, of, view: *number, named, changes, members };
        let Outbox { buffer, algorithm } = out;
        algorithm.drain(|effect| match effect {
            Effect::Send { to, message, lazy } => {
                let sent = local.route(&route, members[to.index()], message);
                if let Some((to, message)) = sent {
                    buffer.effects.push(Kept::Send { to, message, lazy });
                }
            }
            Effect::Multicast { to, message } if all_up => {
                let message = RepairMessage::Algorithm { view: named, message };
                buffer.multicast(to.iter().map(|to| members[to.index()]), message);
            }
            Effect::Multicast { to, message } => {
                let plain = RepairMessage::Algorithm { view: named, message: message.clone() };
                let mut up = Vec::new();
                for &to in to {
                    match local.route(&route, members[to.index()], message.clone()) {
                        Some((to, routed)) if routed == plain => up.push(to),
                        Some((to, message)) => {
                            buffer.effects.push(Kept::Send { to, message, lazy: false });
                        }
                        None => {}
                    }
                }
                buffer.multicast(up, plain);
            }
            Effect::Enter => {
                self.client = Client::InCs;
                buffer.effects.push(Kept::Own(Own::Enter(FencingToken(time))));
            }
            Effect::Nonsense { from, why } => buffer.nonsense(members[from.index()], why),
        });
        if let Local::Ring(ring) = local {
            ring.await_acknowledgement(out);
        }
    }
}

/// Where a message of the algorithm comes from.
pub(super) struct Route<'a> {
    pub(super) me: NodeId,
    /// The process whose message it is: `me`, or one whose part is taken over here.
    pub(super) of: NodeId,
    pub(super) view: u32,
    /// The view as the algorithm's messages name it.
    pub(super) named: Option<u32>,
    pub(super) changes: &'a crate::repairs::Changes,
    pub(super) members: &'a [NodeId],
}
