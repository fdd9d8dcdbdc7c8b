use super::*;
use crate::{
    FencingToken, Setup,
    mutexes::{Central, Lamport, LeLann, NaimiTrehel, NeilsenMizuno, RicartAgrawala, SuzukiKasami},
    repairs::ElectionName,
    self_stabilizing::Dijkstra,
};

type Sent<M> = (NodeId, NodeId, Time, RepairMessage<<M as Mutex>::Message>);
type Three = SomeOf<NaimiTrehel>;

/// Processes, by default three, process 0 with the token; their messages wait in `sent`.
struct SomeOf<M: Mutex> {
    processes: Vec<Generic<M>>,
    sent: Vec<Sent<M>>,
    tokens: Vec<FencingToken>,
}

impl<M: Mutex> SomeOf<M> {
    fn new() -> Self {
        Self::of(&Setup::new(3))
    }

    fn of(setup: &Setup) -> Self {
        let plan = Plan::new::<M>(setup, ElectionName::ChangRoberts);
        let plan = Shared::new(plan.expect("a plan"));
        let processes = (0..setup.nodes).map(|me| Generic::new(NodeId(me), &plan)).collect();
        Self { processes, sent: Vec::new(), tokens: Vec::new() }
    }

    fn call(&mut self, me: u32, event: impl FnOnce(&mut Generic<M>, &mut Outbox<M::Message>)) {
        let mut out = Outbox::new();
        let process = &mut self.processes[me as usize];
        event(process, &mut out);
        let time = process.time();
        let (from, sent, tokens) = (NodeId(me), &mut self.sent, &mut self.tokens);
        out.drain(|effect| match effect {
            super::super::Effect::Send { to, message, .. } => sent.push((from, to, time, message)),
            super::super::Effect::Multicast { to, message } => {
                sent.extend(to.iter().map(|&to| (from, to, time, message.clone())));
            }
            super::super::Effect::Enter { token } => tokens.push(token),
            _ => {}
        });
    }

    /// Delivers the messages that fit, and those that follow from them, but to the process that is
    /// down.
    fn deliver(&mut self, down: u32, fits: impl Fn(&Sent<M>) -> bool) {
        while let Some(index) = self.sent.iter().position(&fits) {
            let (from, to, time, message) = self.sent.remove(index);
            if to.0 != down {
                self.call(to.0, |process, out| process.receive(from, time, message, out));
            }
        }
    }
}

#[test]
fn a_lost_token_is_made_anew_once_and_pending_requests_keep_their_order() {
    let mut three = Three::new();
    three.call(0, |process, out| process.request(out));
    three.call(1, |process, out| process.request(out));
    three.call(2, |process, out| process.request(out));
    // Process 0 crashes in the critical section, with the token.
    three.sent.clear();
    for me in [1, 2] {
        three.call(me, |process, out| process.crashed(NodeId(0), out));
    }
    three.deliver(0, |_| true);
    assert_eq!(three.processes[1].phase(), Phase::InCs, "the older request");
    assert_eq!(three.processes[2].phase(), Phase::Requesting);
    assert_eq!(three.processes[1].view(), three.processes[2].view());
    assert_eq!(three.processes[1].view(), Some((1, Some(NodeId(2)))));
    three.call(1, |process, out| process.release(out));
    three.deliver(0, |_| true);
    assert_eq!(three.processes[2].phase(), Phase::InCs);
    assert!(three.tokens.is_sorted_by(|one, next| one < next), "{:?}", three.tokens);
    assert_eq!(three.tokens[1].0.epoch(), 1, "the view is the epoch");
}

#[test]
fn a_client_in_the_critical_section_stays_in_it_and_may_leave_during_the_repair() {
    let mut three = Three::new();
    three.call(0, |process, out| process.request(out));
    three.call(1, |process, out| process.request(out));
    for me in [0, 1] {
        three.call(me, |process, out| process.crashed(NodeId(2), out));
    }
    assert_eq!(three.processes[0].phase(), Phase::InCs);
    three.deliver(2, |(_, to, ..)| *to != NodeId(0));
    three.call(0, |process, out| process.release(out));
    three.deliver(2, |_| true);
    assert_eq!(three.processes[1].phase(), Phase::InCs);
    assert_eq!(three.tokens.len(), 2);
}

#[test]
fn a_message_of_an_older_view_is_dropped() {
    let mut three = Three::new();
    three.call(1, |process, out| process.request(out));
    let old = three.sent.clone();
    assert_eq!(old.len(), 1, "the request to the holder");
    three.sent.clear();
    for me in [0, 1] {
        three.call(me, |process, out| process.crashed(NodeId(2), out));
    }
    three.deliver(2, |_| true);
    let before = three.processes[0].clone();
    let (from, _, time, message) = old[0].clone();
    three.call(0, |process, out| process.receive(from, time, message, out));
    assert_eq!(three.processes[0].variables(), before.variables());
    assert!(three.sent.is_empty());
}

#[test]
fn a_message_of_the_next_view_waits_until_that_begins() {
    let mut three = Three::new();
    three.call(0, |process, out| process.request(out));
    three.call(1, |process, out| process.request(out));
    for me in [0, 1] {
        three.call(me, |process, out| process.crashed(NodeId(2), out));
    }
    // The request of process 1 in the new view overtakes the view.
    three.deliver(2, |(.., message)| !matches!(message, RepairMessage::View(_)));
    assert_eq!(three.processes[0].view(), None);
    assert_eq!(three.processes[1].view(), Some((1, Some(NodeId(1)))));
    assert_eq!(three.sent.len(), 1, "the view");
    three.deliver(2, |_| true);
    three.call(0, |process, out| process.release(out));
    three.deliver(2, |_| true);
    assert_eq!(three.processes[1].phase(), Phase::InCs);
}

/// An idle token leaves a ring's process at once; but not that of the oldest request, whose client
/// would wait for a whole round then.
fn oldest_enters_first_on_a_ring<M: Mutex>() {
    let mut three = SomeOf::<M>::new();
    // Process 2 requests before process 1, and process 0 crashes with the token.
    three.call(2, |process, out| process.request(out));
    three.call(1, |process, out| process.observe(NodeId(2), Time::new(0, 5), out));
    three.call(1, |process, out| process.request(out));
    three.sent.clear();
    for me in [1, 2] {
        three.call(me, |process, out| process.crashed(NodeId(0), out));
    }
    while three.tokens.is_empty() && !three.sent.is_empty() {
        let (from, to, time, message) = three.sent.remove(0);
        if to != NodeId(0) {
            three.call(to.0, |process, out| process.receive(from, time, message, out));
        }
    }
    assert_eq!(three.processes[2].phase(), Phase::InCs, "{:?}", three.processes);
}

#[test]
fn on_a_ring_the_oldest_request_enters_first_in_the_next_view() {
    oldest_enters_first_on_a_ring::<LeLann>();
    oldest_enters_first_on_a_ring::<Dijkstra>();
}

/// Processes 4, 2, 3 and 1 request in this order; then process 0 crashes in the critical section.
/// The survivors enter in the order of their requests, whichever link is slow.
fn old_order_is_kept<M: Mutex>(setup: Setup) {
    for newest_first in [false, true] {
        let mut five = SomeOf::<M>::of(&Setup { in_cs: true, ..setup.clone() });
        for (at, me) in (1..).zip([4, 2, 3, 1]) {
            five.call(me, |process, out| process.observe(NodeId(0), Time::new(0, 10 * at), out));
            five.call(me, |process, out| process.request(out));
        }
        five.sent.clear();
        for me in 1..5 {
            five.call(me, |process, out| process.crashed(NodeId(0), out));
        }
        let mut entries = Vec::new();
        while !five.sent.is_empty() {
            // Links keep the order of their messages.
            let last = if newest_first { five.sent.len() - 1 } else { 0 };
            let (from, to, ..) = five.sent[last];
            let is_on_link = |sent: &Sent<M>| (sent.0, sent.1) == (from, to);
            let first = five.sent.iter().position(is_on_link).unwrap_or(last);
            let (_, _, time, message) = five.sent.remove(first);
            if to != NodeId(0) {
                five.call(to.0, |process, out| process.receive(from, time, message, out));
            }
            for me in 1..5 {
                if five.processes[me as usize].phase() == Phase::InCs {
                    entries.push(me);
                    five.call(me, |process, out| process.release(out));
                }
            }
        }
        assert_eq!(entries, [4, 2, 3, 1], "{}, newest first: {newest_first}", M::ABOUT.name);
    }
}

#[test]
fn pending_requests_are_granted_in_their_old_order() {
    old_order_is_kept::<Central>(Setup::new(5).with("coordinator", "member"));
    old_order_is_kept::<SuzukiKasami>(Setup::new(5));
    old_order_is_kept::<NaimiTrehel>(Setup::new(5));
    old_order_is_kept::<NeilsenMizuno>(Setup::new(5));
    old_order_is_kept::<Lamport>(Setup::new(5));
    old_order_is_kept::<RicartAgrawala>(Setup::new(5));
}
