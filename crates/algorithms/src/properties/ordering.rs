//! Ordering (EM3), exactly: a request is not granted before one that happened before it.

use crate::NodeId;

/// Judges ordering (EM3).
///
/// Every process keeps the number of the last request of each process that it can know of, messages
/// carry these numbers, and receipt takes the greater ones: a vector clock of requests. A request
/// happened before another if the later one's process knew of it when it requested.
#[derive(Clone, Debug)]
pub struct Ordering {
    processes: usize,
    /// The number of requests of each process.
    requests: Vec<u32>,
    /// Whether its last request still waits.
    open: Vec<bool>,
    /// A row per process: what it knows.
    known: Vec<u32>,
    /// A row per process: what it knew when it last requested.
    known_at_request: Vec<u32>,
    /// A row per slot: what its message carries.
    carried: Vec<u32>,
}

impl Ordering {
    /// Before the first request.
    pub fn new(processes: usize) -> Self {
        let square = vec![0; processes * processes];
        Self {
            processes,
            requests: vec![0; processes],
            open: vec![false; processes],
            known: square.clone(),
            known_at_request: square,
            carried: Vec::new(),
        }
    }

    /// A process requests the critical section.
    #[inline]
    pub fn request(&mut self, node: NodeId) {
        let row = self.row(node.index());
        self.known_at_request[row.clone()].copy_from_slice(&self.known[row.clone()]);
        self.requests[node.index()] += 1;
        self.open[node.index()] = true;
        self.known[row.start + node.index()] = self.requests[node.index()];
    }

    /// A process enters; returns a process that still waits although its request happened before.
    #[inline]
    pub fn enter(&mut self, node: NodeId) -> Option<NodeId> {
        self.open[node.index()] = false;
        let known = &self.known_at_request[self.row(node.index())];
        let waits = |&other: &usize| self.open[other] && known[other] == self.requests[other];
        (0..self.processes).find(waits).map(NodeId::from)
    }

    /// A process crashes and waits no more.
    #[inline]
    pub fn crash(&mut self, node: NodeId) {
        self.open[node.index()] = false;
    }

    /// A process sends a message, known by this slot.
    #[inline]
    pub fn send(&mut self, from: NodeId, slot: usize) {
        let (target, row) = (self.row(slot), self.row(from.index()));
        if self.carried.len() < target.end {
            self.carried.resize(target.end, 0);
        }
        self.carried[target].copy_from_slice(&self.known[row]);
    }

    /// The message of this slot arrives.
    #[inline]
    pub fn receive(&mut self, to: NodeId, slot: usize) {
        let (source, row) = (self.row(slot), self.row(to.index()));
        for (known, &carried) in self.known[row].iter_mut().zip(&self.carried[source]) {
            *known = (*known).max(carried);
        }
    }

    fn row(&self, number: usize) -> std::ops::Range<usize> {
        number * self.processes..(number + 1) * self.processes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeId = NodeId(0);
    const B: NodeId = NodeId(1);
    const C: NodeId = NodeId(2);

    #[test]
    fn only_a_known_open_request_is_overtaken() {
        let mut ordering = Ordering::new(3);
        ordering.request(A);
        ordering.request(C);
        ordering.send(A, 0);
        ordering.receive(B, 0);
        ordering.request(B);
        // No message has brought C's request to B; A's still waits.
        assert_eq!(ordering.enter(B), Some(A));
        assert_eq!(ordering.enter(A), None);
        ordering.request(B);
        assert_eq!(ordering.enter(B), None);
    }

    #[test]
    fn a_request_known_through_others_is_not_overtaken() {
        let mut ordering = Ordering::new(3);
        ordering.request(A);
        ordering.send(A, 0);
        ordering.receive(B, 0);
        ordering.send(B, 1);
        ordering.receive(C, 1);
        ordering.request(C);
        assert_eq!(ordering.enter(C), Some(A));
        assert_eq!(ordering.enter(A), None);
    }

    #[test]
    fn requests_that_do_not_know_of_each_other_are_granted_in_any_order() {
        let mut ordering = Ordering::new(3);
        ordering.request(A);
        ordering.request(B);
        assert_eq!(ordering.enter(B), None);
    }

    #[test]
    fn only_the_latest_request_of_a_process_can_be_overtaken() {
        let mut ordering = Ordering::new(3);
        ordering.request(A);
        ordering.send(A, 0);
        assert_eq!(ordering.enter(A), None);
        ordering.request(A);
        ordering.receive(B, 0);
        ordering.request(B);
        assert_eq!(ordering.enter(B), None, "the first was granted, the second is unknown to B");
    }
}
