//! Paths in a binary tree: D. Agrawal and A. El Abbadi, "An efficient and fault-tolerant solution
//! for distributed mutual exclusion", ACM TOCS 9(1), 1991.
//!
//! The quorum of a process is a path from the root to a leaf through it. All paths share the root,
//! so any two meet; they are the smallest quorums here, and the root bears the duty for it. (While
//! processes fail, the paper replaces a process that is down by paths below both its children. Here
//! quorums are fixed and a new view builds new ones.)
//!
//! An inner process has the choice of the leaf. It takes the leftmost one in its right subtree:
//! no two inner processes take the same, so every leaf serves itself and at most one other.

use super::nearest;
use crate::StartError;

/// The size of the quorums: the number of levels.
pub(super) fn size(nodes: u32) -> Result<u32, StartError> {
    if nodes & nodes.wrapping_add(1) == 0 {
        return Ok(nodes.count_ones());
    }
    let sizes = (1..=32).map(|levels| (1_u64 << levels) - 1);
    Err(StartError::new(format!(
        "tree quorums need 2^k - 1 processes, {nodes} is not such a number; {}",
        nearest(nodes, sizes)
    )))
}

pub(super) fn quorum(me: u32, nodes: u32) -> impl Iterator<Item = u32> {
    let up = std::iter::successors(Some(me), |&node| (node > 0).then(|| (node - 1) / 2));
    let left = move |&node: &u32| node.checked_mul(2)?.checked_add(1).filter(|&left| left < nodes);
    // The right child stands after the left one, so it exists if that does.
    let right = left(&me).map(|left| left + 1);
    up.chain(std::iter::successors(right, left))
}

#[cfg(test)]
mod tests {
    use crate::{NodeId, QuorumKind, QuorumViolation, Quorums};

    fn paths(nodes: u32) -> Quorums {
        Quorums::new(QuorumKind::Tree, nodes).unwrap()
    }

    #[test]
    fn a_quorum_is_a_path_from_the_root_to_a_leaf_through_the_process() {
        assert_eq!(paths(15).of(NodeId(4)), [0, 1, 4, 10].map(NodeId));
        assert_eq!(paths(15).of(NodeId(0)), [0, 2, 5, 11].map(NodeId));
        assert_eq!(paths(15).of(NodeId(13)), [0, 2, 6, 13].map(NodeId));
        assert_eq!(paths(1).of(NodeId(0)), [NodeId(0)]);
    }

    #[test]
    fn paths_meet_and_are_equally_long_and_only_their_duty_differs() {
        for levels in 2..=8 {
            let quorums = paths((1 << levels) - 1);
            assert_eq!(quorums.of(NodeId(0)).len(), levels);
            let violations = quorums.violations();
            assert!(matches!(violations[..], [QuorumViolation::Duty(..)]), "{violations:?}");
        }
    }

    #[test]
    fn no_leaf_serves_more_than_itself_and_one_other() {
        let quorums = paths(127);
        for leaf in 63..127 {
            let serves = (0..127).filter(|&me| quorums.contains(NodeId(me), NodeId(leaf))).count();
            assert_eq!(serves, if leaf == 63 { 1 } else { 2 });
        }
    }

    #[test]
    fn other_numbers_are_refused_with_the_nearest_that_are_not() {
        let refusal = |nodes| Quorums::new(QuorumKind::Tree, nodes).unwrap_err().to_string();
        assert!(refusal(8).ends_with("the nearest are 7 and 15"), "{}", refusal(8));
        assert!(refusal(2).ends_with("the nearest are 1 and 3"), "{}", refusal(2));
    }
}
