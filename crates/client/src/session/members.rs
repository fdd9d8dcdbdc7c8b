//! The members of a cluster that a session can go on at.
//!
//! A session starts at the client's own node. When that node is lost, another member serves the
//! session: the client tries them in turn until one does, or until its lease has expired.

/// The endpoints of the other members, and the next one to try.
#[derive(Debug, Default)]
pub(crate) struct Members {
    endpoints: Vec<String>,
    /// Where the session was last seen to be served, to be tried first.
    preferred: Vec<String>,
    /// 0 is the client's own node.
    next: usize,
}

impl Members {
    /// Whether there is another member.
    pub(crate) fn is_empty(&self) -> bool {
        self.endpoints.is_empty() && self.preferred.is_empty()
    }

    /// The endpoints that were learned.
    pub(crate) fn known(&self) -> &[String] {
        &self.endpoints
    }

    /// These are the other members, as the node that serves the session reports them.
    pub(crate) fn learn(&mut self, endpoints: Vec<String>) {
        for endpoint in endpoints {
            if !self.endpoints.contains(&endpoint) {
                self.endpoints.push(endpoint);
            }
        }
    }

    /// The session is served there.
    pub(crate) fn prefer(&mut self, mut endpoints: Vec<String>) {
        endpoints.reverse();
        self.preferred = endpoints;
    }

    /// A connection has failed or ended: the next one is tried.
    pub(crate) fn failed(&mut self) {
        if self.preferred.is_empty() {
            self.next = (self.next + 1) % (self.endpoints.len() + 1);
        }
    }

    /// The endpoint to connect to; `None` for the client's own node.
    pub(crate) fn choose(&mut self) -> Option<String> {
        if let Some(preferred) = self.preferred.pop() {
            let known = self.endpoints.iter().position(|one| *one == preferred);
            self.next = known.map_or(self.next, |index| index + 1);
            return Some(preferred);
        }
        self.next.checked_sub(1).and_then(|index| self.endpoints.get(index).cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::Members;

    #[test]
    fn members_are_tried_in_turn_and_the_serving_one_first() {
        let mut members = Members::default();
        assert!(members.is_empty());
        assert_eq!(members.choose(), None);
        members.failed();
        assert_eq!(members.choose(), None, "there is no other");
        members.learn(vec!["b".to_owned(), "c".to_owned()]);
        members.learn(vec!["c".to_owned()]);
        let mut tried = Vec::new();
        for _ in 0..4 {
            members.failed();
            tried.push(members.choose());
        }
        let [b, c] = ["b", "c"].map(|name| Some(name.to_owned()));
        assert_eq!(tried, [b.clone(), c.clone(), None, b.clone()]);
        members.prefer(vec!["c".to_owned(), "d".to_owned()]);
        members.failed();
        assert_eq!(members.choose(), c);
        members.failed();
        assert_eq!(members.choose(), Some("d".to_owned()));
        members.failed();
        assert_eq!(members.choose(), None, "after c comes the own node");
    }
}
