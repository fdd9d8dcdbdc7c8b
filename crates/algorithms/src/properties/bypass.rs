//! Bounded bypass, exactly: once a request has reached every process it was sent to, every other
//! process enters at most once before it. What another process forwards for a request is no message
//! of the request: the count begins before it arrives. Where a request draws a ticket after that,
//! as in the Bakery, bypasses are counted from the ticket.

use std::collections::VecDeque;

use crate::NodeId;

/// Judges bounded bypass.
///
/// A request that has spread remembers how many entries there were until then, a process the number
/// of its last entry. A process that enters has bypassed twice if its last entry comes after the
/// oldest such request of another: one comparison, whatever N.
#[derive(Clone, Debug)]
pub struct Bypass {
    nodes: Vec<Node>,
    /// Requests that have reached every process and may still wait, the oldest first.
    waiting: VecDeque<Spread>,
    /// The request that a message under way belongs to, by its slot.
    carried: Vec<Option<Request>>,
    entries: u64,
    /// The process that requests just now: what it sends is its request.
    requesting: Option<NodeId>,
    /// Whether requests draw tickets.
    tickets: bool,
}

/// The request with this number of this process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Request {
    node: NodeId,
    number: u32,
}

#[derive(Clone, Copy, Debug)]
struct Spread {
    request: Request,
    /// How many entries there were before it had reached every process.
    after: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Node {
    /// The number of its last request.
    requests: u32,
    waits: bool,
    /// It has no ticket yet, and needs one.
    lacks_ticket: bool,
    /// How many messages of that request are under way.
    under_way: u32,
    /// How many entries there were up to its own last one, this one included.
    entered: u64,
}

impl Bypass {
    /// Before the first request.
    pub fn new(processes: usize) -> Self {
        Self {
            nodes: vec![Node::default(); processes],
            waiting: VecDeque::new(),
            carried: Vec::new(),
            entries: 0,
            requesting: None,
            tickets: false,
        }
    }

    /// The same where requests draw tickets: each is reported by [`draw`](Self::draw).
    #[must_use]
    pub fn with_tickets(self, tickets: bool) -> Self {
        Self { tickets, ..self }
    }

    /// A process has a ticket for its request; may be called again while it has it.
    #[inline]
    pub fn draw(&mut self, node: NodeId) {
        if std::mem::take(&mut self.nodes[node.index()].lacks_ticket) {
            self.look_whether_spread(node);
        }
    }

    /// A process requests; what it sends until [`requested`](Self::requested) is its request.
    #[inline]
    pub fn request(&mut self, node: NodeId) {
        let state = &mut self.nodes[node.index()];
        state.requests = state.requests.wrapping_add(1);
        (state.waits, state.under_way, state.lacks_ticket) = (true, 0, self.tickets);
        self.requesting = Some(node);
    }

    /// Everything that a process sends for its request is under way. A message that was lost at
    /// once never arrives, and then the request never has reached every process.
    #[inline]
    pub fn requested(&mut self, node: NodeId) {
        self.requesting = None;
        self.look_whether_spread(node);
    }

    /// A message that a process sends is lost at once.
    #[inline]
    pub fn lose(&mut self, from: NodeId) {
        if self.requesting == Some(from) {
            self.nodes[from.index()].under_way += 1;
        }
    }

    /// A process sends a message, known by this slot.
    #[inline]
    pub fn send(&mut self, from: NodeId, slot: usize) {
        if self.carried.len() <= slot {
            self.carried.resize(slot + 1, None);
        }
        self.carried[slot] = (self.requesting == Some(from)).then(|| {
            let state = &mut self.nodes[from.index()];
            state.under_way += 1;
            Request { node: from, number: state.requests }
        });
    }

    /// The message of this slot arrives.
    #[inline]
    pub fn receive(&mut self, slot: usize) {
        let Some(request) = self.carried.get_mut(slot).and_then(Option::take) else { return };
        let state = &mut self.nodes[request.node.index()];
        if state.waits && state.requests == request.number {
            state.under_way -= 1;
            self.look_whether_spread(request.node);
        }
    }

    /// A process enters; returns a process that it bypasses for the second time.
    #[inline]
    pub fn enter(&mut self, node: NodeId) -> Option<NodeId> {
        self.nodes[node.index()].waits = false;
        while self.waiting.front().is_some_and(|oldest| !self.still_waits(oldest.request)) {
            self.waiting.pop_front();
        }
        self.entries += 1;
        let last = std::mem::replace(&mut self.nodes[node.index()].entered, self.entries);
        self.waiting.front().filter(|oldest| last > oldest.after).map(|oldest| oldest.request.node)
    }

    /// A process crashes and waits no more.
    #[inline]
    pub fn crash(&mut self, node: NodeId) {
        self.nodes[node.index()].waits = false;
    }

    fn look_whether_spread(&mut self, node: NodeId) {
        let state = self.nodes[node.index()];
        let is_spread = state.waits && state.under_way == 0 && !state.lacks_ticket;
        if is_spread && self.requesting != Some(node) {
            let request = Request { node, number: state.requests };
            self.waiting.push_back(Spread { request, after: self.entries });
        }
    }

    fn still_waits(&self, request: Request) -> bool {
        let state = &self.nodes[request.node.index()];
        state.waits && state.requests == request.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeId = NodeId(0);
    const B: NodeId = NodeId(1);

    /// Requests with one message, in slot 0.
    fn request(bypass: &mut Bypass, node: NodeId) {
        bypass.request(node);
        bypass.send(node, 0);
        bypass.requested(node);
    }

    fn enter_at_once(bypass: &mut Bypass, node: NodeId) -> Option<NodeId> {
        bypass.request(node);
        bypass.requested(node);
        bypass.enter(node)
    }

    #[test]
    fn the_second_entry_past_a_request_that_has_arrived_is_one_too_many() {
        let mut bypass = Bypass::new(2);
        request(&mut bypass, A);
        // The request is under way: these do not count.
        assert_eq!(enter_at_once(&mut bypass, B), None);
        assert_eq!(enter_at_once(&mut bypass, B), None);
        bypass.receive(0);
        assert_eq!(enter_at_once(&mut bypass, B), None);
        assert_eq!(enter_at_once(&mut bypass, B), Some(A));
        assert_eq!(bypass.enter(A), None);
        assert_eq!(enter_at_once(&mut bypass, B), None);
    }

    #[test]
    fn bypasses_are_counted_from_the_ticket() {
        let mut bypass = Bypass::new(2).with_tickets(true);
        request(&mut bypass, A);
        bypass.receive(0);
        // Without a ticket no entry counts.
        for _ in 0..3 {
            bypass.request(B);
            bypass.requested(B);
            bypass.draw(B);
            assert_eq!(bypass.enter(B), None);
        }
        bypass.draw(A);
        bypass.draw(A);
        assert_eq!(enter_at_once(&mut bypass, B), None);
        assert_eq!(enter_at_once(&mut bypass, B), Some(A));
    }

    #[test]
    fn a_lost_request_has_never_arrived_and_a_crashed_process_is_not_bypassed() {
        let mut bypass = Bypass::new(2);
        bypass.request(A);
        bypass.lose(A);
        bypass.requested(A);
        for _ in 0..3 {
            assert_eq!(enter_at_once(&mut bypass, B), None);
        }
        bypass.crash(A);
        request(&mut bypass, A);
        bypass.receive(0);
        bypass.crash(A);
        for _ in 0..3 {
            assert_eq!(enter_at_once(&mut bypass, B), None);
        }
    }
}
