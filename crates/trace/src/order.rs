//! Which requests happened before which: what EM3 speaks of.

use mutua_algorithms::NodeId;

/// How many requests of each process one knows of, directly or through others.
pub(crate) type Past = Vec<u32>;

/// Follows happens-before through requests and messages, and sees when it is not kept.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    knows: Vec<Past>,
    waiting: Vec<Option<Past>>,
}

impl Order {
    pub(crate) fn new(processes: usize) -> Self {
        Self { knows: vec![vec![0; processes]; processes], waiting: vec![None; processes] }
    }

    pub(crate) fn request(&mut self, who: NodeId) {
        let who = who.index();
        self.waiting[who] = Some(self.knows[who].clone());
        self.knows[who][who] += 1;
    }

    /// What goes with a message.
    pub(crate) fn past(&self, who: NodeId) -> Past {
        self.knows[who.index()].clone()
    }

    pub(crate) fn receive(&mut self, who: NodeId, past: &Past) {
        for (known, sent) in self.knows[who.index()].iter_mut().zip(past) {
            *known = (*known).max(*sent);
        }
    }

    /// Somebody enters; says who still waits although its request happened before this one.
    pub(crate) fn enter(&mut self, who: NodeId) -> Option<NodeId> {
        let mine = self.waiting[who.index()].take()?;
        let passed_over = |other: usize| {
            // A process waits for its last request only.
            self.waiting[other].is_some() && mine[other] == self.knows[other][other]
        };
        (0..self.waiting.len()).find(|&other| passed_over(other)).map(NodeId::from)
    }

    /// A process has stopped; it waits no more.
    pub(crate) fn forget(&mut self, who: NodeId) {
        self.waiting[who.index()] = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeId = NodeId(0);
    const B: NodeId = NodeId(1);
    const C: NodeId = NodeId(2);

    #[test]
    fn who_heard_of_a_request_through_others_may_not_go_before_it() {
        let mut order = Order::new(3);
        order.request(A);
        let told = order.past(A);
        order.receive(B, &told);
        let passed_on = order.past(B);
        order.receive(C, &passed_on);
        order.request(C);
        assert_eq!(order.enter(C), Some(A));
        assert_eq!(order.enter(A), None);
    }

    #[test]
    fn requests_that_know_nothing_of_each_other_go_in_any_order() {
        let mut order = Order::new(3);
        order.request(A);
        order.request(B);
        assert_eq!(order.enter(B), None);
    }

    #[test]
    fn only_a_request_that_still_waits_is_passed_over() {
        let mut order = Order::new(3);
        order.request(A);
        let first = order.past(A);
        assert_eq!(order.enter(A), None);
        order.request(A);
        order.receive(B, &first);
        order.request(B);
        assert_eq!(order.enter(B), None, "the first request was granted, the second is unknown");
    }
}
