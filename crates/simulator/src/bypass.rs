//! Bounded bypass, exactly: once a request has reached everyone it was sent to, every other process
//! enters at most once before it.
//!
//! A request that has spread remembers how many entries there were until then, a process the number
//! of its last entry. Who enters has bypassed twice if its last entry comes after the oldest such
//! request of another: one comparison, whatever N.

use std::collections::VecDeque;

use mutua_algorithms::NodeId;

/// What is known of requests that spread, wait, and are passed.
#[derive(Debug)]
pub(crate) struct Bypass {
    nodes: Vec<Node>,
    /// Requests that have reached everyone and may still wait, the oldest first.
    waiting: VecDeque<Spread>,
    /// Whose request a message under way belongs to, by its place in the wheel.
    carried: Vec<Option<Request>>,
    entries: u64,
    /// Who asks just now: what it sends is its request.
    asking: Option<NodeId>,
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
    /// How many entries there were before it had reached everyone.
    after: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Node {
    /// The number of its last request.
    asked: u32,
    waits: bool,
    /// How many messages of that request are under way.
    under_way: u32,
    /// How many entries there were up to its own last one, this one included.
    entered: u64,
}

impl Bypass {
    pub(crate) fn new(processes: usize) -> Self {
        Self {
            nodes: vec![Node::default(); processes],
            waiting: VecDeque::new(),
            carried: Vec::new(),
            entries: 0,
            asking: None,
        }
    }

    /// It asks; what it sends until [`has_asked`](Self::has_asked) is its request.
    pub(crate) fn asks(&mut self, node: NodeId) {
        let state = &mut self.nodes[node.index()];
        state.asked = state.asked.wrapping_add(1);
        (state.waits, state.under_way) = (true, 0);
        self.asking = Some(node);
    }

    /// What it had to send to ask is under way. A message that was lost at once never arrives, and
    /// then the request never has reached everyone.
    pub(crate) fn has_asked(&mut self, node: NodeId) {
        self.asking = None;
        self.look_whether_spread(node);
    }

    /// A message of this process is lost on its way.
    pub(crate) fn loses(&mut self, from: NodeId) {
        if self.asking == Some(from) {
            self.nodes[from.index()].under_way += 1;
        }
    }

    /// A message of this process is put at a place in the wheel.
    pub(crate) fn sends(&mut self, from: NodeId, place: usize) {
        if self.carried.len() <= place {
            self.carried.resize(place + 1, None);
        }
        self.carried[place] = (self.asking == Some(from)).then(|| {
            let state = &mut self.nodes[from.index()];
            state.under_way += 1;
            Request { node: from, number: state.asked }
        });
    }

    /// The message of this place arrives.
    pub(crate) fn receives(&mut self, place: usize) {
        let Some(request) = self.carried.get_mut(place).and_then(Option::take) else { return };
        let state = &mut self.nodes[request.node.index()];
        if state.waits && state.asked == request.number {
            state.under_way -= 1;
            self.look_whether_spread(request.node);
        }
    }

    /// It enters; somebody whom it passes for the second time.
    pub(crate) fn enters(&mut self, node: NodeId) -> Option<NodeId> {
        self.nodes[node.index()].waits = false;
        while self.waiting.front().is_some_and(|oldest| !self.still_waits(oldest.request)) {
            self.waiting.pop_front();
        }
        self.entries += 1;
        let last = std::mem::replace(&mut self.nodes[node.index()].entered, self.entries);
        self.waiting.front().filter(|oldest| last > oldest.after).map(|oldest| oldest.request.node)
    }

    /// It is down and waits no more.
    pub(crate) fn closes(&mut self, node: NodeId) {
        self.nodes[node.index()].waits = false;
    }

    fn look_whether_spread(&mut self, node: NodeId) {
        let state = self.nodes[node.index()];
        if state.waits && state.under_way == 0 && self.asking != Some(node) {
            let request = Request { node, number: state.asked };
            self.waiting.push_back(Spread { request, after: self.entries });
        }
    }

    fn still_waits(&self, request: Request) -> bool {
        let state = &self.nodes[request.node.index()];
        state.waits && state.asked == request.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeId = NodeId(0);
    const B: NodeId = NodeId(1);

    /// Asks with one message, at place 0.
    fn ask(bypass: &mut Bypass, node: NodeId) {
        bypass.asks(node);
        bypass.sends(node, 0);
        bypass.has_asked(node);
    }

    fn enter_at_once(bypass: &mut Bypass, node: NodeId) -> Option<NodeId> {
        bypass.asks(node);
        bypass.has_asked(node);
        bypass.enters(node)
    }

    #[test]
    fn the_second_entry_past_a_request_that_has_arrived_is_one_too_many() {
        let mut bypass = Bypass::new(2);
        ask(&mut bypass, A);
        // The request is under way: these do not count.
        assert_eq!(enter_at_once(&mut bypass, B), None);
        assert_eq!(enter_at_once(&mut bypass, B), None);
        bypass.receives(0);
        assert_eq!(enter_at_once(&mut bypass, B), None);
        assert_eq!(enter_at_once(&mut bypass, B), Some(A));
        assert_eq!(bypass.enters(A), None);
        assert_eq!(enter_at_once(&mut bypass, B), None);
    }

    #[test]
    fn a_lost_request_has_never_arrived_and_who_is_down_is_not_passed() {
        let mut bypass = Bypass::new(2);
        bypass.asks(A);
        bypass.loses(A);
        bypass.has_asked(A);
        for _ in 0..3 {
            assert_eq!(enter_at_once(&mut bypass, B), None);
        }
        bypass.closes(A);
        ask(&mut bypass, A);
        bypass.receives(0);
        bypass.closes(A);
        for _ in 0..3 {
            assert_eq!(enter_at_once(&mut bypass, B), None);
        }
    }
}
