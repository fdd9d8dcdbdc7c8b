//! The members of views: an algorithm knows its processes by their positions among them.

use std::collections::BTreeMap;

use mutua_algorithms::NodeId;

/// The views that each process has begun, and their members. In the first view, of the number 0,
/// all are members, and a position is an id.
#[derive(Clone, Debug, Default)]
pub struct Views {
    /// The latest views of each process, the last one at the end.
    of: BTreeMap<NodeId, Vec<(u32, Vec<NodeId>)>>,
}

/// So many views of a process are kept: messages of older ones have long arrived.
const KEPT: usize = 4;

impl Views {
    /// A process begins a view with these members, lowest first.
    pub fn begins(&mut self, who: NodeId, view: u32, members: impl IntoIterator<Item = NodeId>) {
        let views = self.of.entry(who).or_default();
        if views.len() == KEPT {
            views.remove(0);
        }
        views.push((view, members.into_iter().collect()));
    }

    /// The process at a position in a view of `from`: in the view of this number, or the last one
    /// if there is no number.
    pub fn member(&self, from: NodeId, view: Option<u32>, position: NodeId) -> NodeId {
        let Some(views) = self.of.get(&from) else { return position };
        let is_it = |(number, _): &&(u32, Vec<NodeId>)| view.is_none_or(|view| view == *number);
        let members = views.iter().rev().find(is_it).map(|(_, members)| members);
        members.and_then(|members| members.get(position.index()).copied()).unwrap_or(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_that_among_the_members_of_the_sender() {
        let mut views = Views::default();
        let (from, other) = (NodeId(3), NodeId(1));
        assert_eq!(views.member(from, Some(0), NodeId(1)), NodeId(1));
        views.begins(from, 1, [1, 2, 3].map(NodeId));
        views.begins(from, 2, [2, 3].map(NodeId));
        assert_eq!(views.member(from, Some(0), NodeId(1)), NodeId(1), "the first view has all");
        assert_eq!(views.member(from, Some(1), NodeId(0)), NodeId(1));
        assert_eq!(views.member(from, Some(2), NodeId(0)), NodeId(2));
        assert_eq!(views.member(from, None, NodeId(1)), NodeId(3));
        // In a partition another process has another view of the same number.
        views.begins(other, 2, [0, 1].map(NodeId));
        assert_eq!(views.member(other, Some(2), NodeId(0)), NodeId(0));
    }
}
