//! EM3, exactly: is a request ever granted after one that it happened before?
//!
//! Every process keeps the number of the last request of each that it can know of, messages carry
//! these numbers, and receipt takes the greater ones: a vector clock of requests. A request
//! happened before another if the later one's process knew of it when it asked.

use mutua_algorithms::NodeId;

/// What every process and every message under way knows of requests.
#[derive(Debug)]
pub(crate) struct Ordering {
    processes: usize,
    /// How often each has asked.
    asked: Vec<u32>,
    /// Whether its last request still waits.
    open: Vec<bool>,
    /// A row per process: what it knows.
    known: Vec<u32>,
    /// A row per process: what it knew when it last asked.
    known_at_request: Vec<u32>,
    /// A row per place in the wheel: what the message there carries.
    carried: Vec<u32>,
}

impl Ordering {
    pub(crate) fn new(processes: usize) -> Self {
        let square = vec![0; processes * processes];
        Self {
            processes,
            asked: vec![0; processes],
            open: vec![false; processes],
            known: square.clone(),
            known_at_request: square,
            carried: Vec::new(),
        }
    }

    pub(crate) fn asks(&mut self, node: NodeId) {
        let row = self.row(node.index());
        self.known_at_request[row.clone()].copy_from_slice(&self.known[row.clone()]);
        self.asked[node.index()] += 1;
        self.open[node.index()] = true;
        self.known[row.start + node.index()] = self.asked[node.index()];
    }

    /// Its request is granted; a request that happened before it and still waits.
    pub(crate) fn enters(&mut self, node: NodeId) -> Option<NodeId> {
        self.open[node.index()] = false;
        let known = &self.known_at_request[self.row(node.index())];
        let waits = |&other: &usize| self.open[other] && known[other] == self.asked[other];
        (0..self.processes).find(waits).map(NodeId::from)
    }

    /// It is down and waits no more.
    pub(crate) fn closes(&mut self, node: NodeId) {
        self.open[node.index()] = false;
    }

    /// A message of this process is put at a place in the wheel.
    pub(crate) fn sends(&mut self, from: NodeId, place: usize) {
        let (target, row) = (self.row(place), self.row(from.index()));
        if self.carried.len() < target.end {
            self.carried.resize(target.end, 0);
        }
        self.carried[target].copy_from_slice(&self.known[row]);
    }

    /// The message of this place arrives.
    pub(crate) fn receives(&mut self, to: NodeId, place: usize) {
        let (source, row) = (self.row(place), self.row(to.index()));
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

    #[test]
    fn only_a_known_open_request_is_overtaken() {
        let [a, b, c] = [0, 1, 2].map(NodeId);
        let mut ordering = Ordering::new(3);
        ordering.asks(a);
        ordering.asks(c);
        ordering.sends(a, 0);
        ordering.receives(b, 0);
        ordering.asks(b);
        // Nothing has told b of c's request; a's still waits.
        assert_eq!(ordering.enters(b), Some(a));
        assert_eq!(ordering.enters(a), None);
        ordering.asks(b);
        assert_eq!(ordering.enters(b), None);
    }
}
