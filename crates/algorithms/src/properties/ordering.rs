//! Ordering (EM3), exactly: a request is not granted before one that happened before it.

use crate::NodeId;

/// Judges ordering (EM3).
///
/// Every process keeps the number of the last request of each process that it can know of, messages
/// carry these numbers, and receipt takes the greater ones: a vector clock of requests. A request
/// happened before another if the later one's process knew of it when it requested.
///
/// A row ends at the last process of which a request is known: in a large system with few requests
/// most rows are empty.
#[derive(Clone, Debug)]
pub struct Ordering {
    /// The number of requests of each process.
    requests: Vec<u32>,
    /// Whether its last request still waits.
    open: Vec<bool>,
    /// A row per process: what it knows.
    known: Vec<Vec<u32>>,
    /// A row per process: what it knew when it last requested.
    known_at_request: Vec<Vec<u32>>,
    /// A row per slot: what its message carries.
    carried: Vec<Vec<u32>>,
}

impl Ordering {
    /// Before the first request.
    pub fn new(processes: usize) -> Self {
        Self {
            requests: vec![0; processes],
            open: vec![false; processes],
            known: vec![Vec::new(); processes],
            known_at_request: vec![Vec::new(); processes],
            carried: Vec::new(),
        }
    }

    /// A process requests the critical section.
    #[inline]
    pub fn request(&mut self, node: NodeId) {
        let index = node.index();
        let known = &mut self.known[index];
        self.known_at_request[index].clone_from(known);
        self.requests[index] += 1;
        self.open[index] = true;
        if known.len() <= index {
            known.resize(index + 1, 0);
        }
        known[index] = self.requests[index];
    }

    /// A process enters; returns a process that still waits although its request happened before.
    #[inline]
    pub fn enter(&mut self, node: NodeId) -> Option<NodeId> {
        self.open[node.index()] = false;
        let known = &self.known_at_request[node.index()];
        let all = known.iter().zip(&self.requests).zip(&self.open);
        let mut waits = all.map(|((known, last), &open)| open && known == last);
        waits.position(|waits| waits).map(NodeId::from)
    }

    /// A process crashes and waits no more.
    #[inline]
    pub fn crash(&mut self, node: NodeId) {
        self.open[node.index()] = false;
    }

    /// A process sends a message, known by this slot.
    #[inline]
    pub fn send(&mut self, from: NodeId, slot: usize) {
        if self.carried.len() <= slot {
            self.carried.resize(slot + 1, Vec::new());
        }
        self.carried[slot].clone_from(&self.known[from.index()]);
    }

    /// The message of this slot arrives.
    #[inline]
    pub fn receive(&mut self, to: NodeId, slot: usize) {
        let (known, carried) = (&mut self.known[to.index()], &self.carried[slot]);
        if known.len() < carried.len() {
            known.resize(carried.len(), 0);
        }
        for (known, &carried) in known.iter_mut().zip(carried) {
            *known = (*known).max(carried);
        }
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

    #[test]
    fn a_large_system_with_few_requests_takes_little_memory() {
        let mut ordering = Ordering::new(1_000_000);
        ordering.request(A);
        ordering.send(A, 0);
        ordering.receive(NodeId(999_999), 0);
        ordering.request(NodeId(999_999));
        assert_eq!(ordering.enter(NodeId(999_999)), Some(A));
    }
}
