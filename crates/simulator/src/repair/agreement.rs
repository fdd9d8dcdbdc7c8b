//! Agreement of the survivors, judged as the checker does: all processes of a view have it from
//! the same leader, and at most one process is in the critical section or would enter at once.

use std::collections::BTreeMap;

use mutua_algorithms::NodeId;

/// The number of a view, and the process that started it; none of the first one.
type View = (u32, Option<NodeId>);

/// The processes that have the token, and the views of all.
#[derive(Debug)]
pub(super) struct Agreement {
    known: Vec<Known>,
    tokens: usize,
    /// How many processes are in each view.
    views: BTreeMap<View, usize>,
}

/// What is known of a process.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    token: bool,
    view: Option<View>,
}

impl Agreement {
    /// That of so many processes.
    pub(super) fn new(processes: usize) -> Self {
        Self { known: vec![Known::default(); processes], tokens: 0, views: BTreeMap::new() }
    }

    /// A process has handled an event, and has the token or not, in this view. Returns the
    /// disagreement that begins with it, as a sentence without its end.
    pub(super) fn handled(
        &mut self,
        who: NodeId,
        token: bool,
        view: Option<View>,
    ) -> Option<String> {
        let before = std::mem::replace(&mut self.known[who.index()], Known { token, view });
        self.tokens = self.tokens - usize::from(before.token) + usize::from(token);
        if before.view != view {
            self.leave(before.view);
            if let Some(view) = view {
                *self.views.entry(view).or_default() += 1;
                let other = self.other_leader(view);
                if other.is_some() {
                    return other;
                }
            }
        }
        (token && !before.token && self.tokens == 2).then(|| self.second_token(who))
    }

    /// A process crashes.
    pub(super) fn crashes(&mut self, who: NodeId) {
        let before = std::mem::take(&mut self.known[who.index()]);
        self.tokens -= usize::from(before.token);
        self.leave(before.view);
    }

    fn leave(&mut self, view: Option<View>) {
        let Some(view) = view else { return };
        if let Some(count) = self.views.get_mut(&view) {
            *count -= 1;
            if *count == 0 {
                self.views.remove(&view);
            }
        }
    }

    fn other_leader(&self, (number, leader): View) -> Option<String> {
        let same = (number, None)..(number + 1, None);
        let (&(_, other), _) = self.views.range(same).find(|((_, other), _)| *other != leader)?;
        let name = |leader: Option<NodeId>| leader.map_or("none".to_owned(), |one| one.to_string());
        let (other, leader) = (name(other), name(leader));
        Some(format!("view {number} was started by {other} and by {leader}"))
    }

    fn second_token(&self, who: NodeId) -> String {
        let others = self.known.iter().zip(0..).filter(|(known, _)| known.token);
        let mut others = others.map(|(_, other)| NodeId(other)).filter(|other| *other != who);
        let other = others.next().unwrap_or(who);
        format!("both {other} and {who} are in the critical section or would enter at once")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Option<View> = Some((1, Some(NodeId(0))));

    #[test]
    fn a_second_token_is_reported_once() {
        let mut agreement = Agreement::new(3);
        assert_eq!(agreement.handled(NodeId(0), true, FIRST), None);
        assert_eq!(agreement.handled(NodeId(0), true, FIRST), None);
        assert!(agreement.handled(NodeId(2), true, FIRST).is_some());
        assert_eq!(agreement.handled(NodeId(2), true, FIRST), None);
        agreement.crashes(NodeId(0));
        assert_eq!(agreement.handled(NodeId(2), false, FIRST), None);
        assert_eq!(agreement.handled(NodeId(1), true, FIRST), None);
    }

    #[test]
    fn a_view_has_one_leader_while_a_process_is_in_it() {
        let mut agreement = Agreement::new(3);
        let second = Some((1, Some(NodeId(1))));
        assert_eq!(agreement.handled(NodeId(0), false, FIRST), None);
        assert!(agreement.handled(NodeId(1), false, second).is_some());
        agreement.crashes(NodeId(0));
        assert_eq!(agreement.handled(NodeId(2), false, second), None);
    }
}
