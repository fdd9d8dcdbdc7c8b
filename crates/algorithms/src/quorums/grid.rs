//! Rows and columns of a square (Maekawa 1985, section 7).
//!
//! A number that is not a square is filled up with formal members. There are two ways to go on:
//!
//! - `grid`: they would only ever agree, so they are left out of the quorums. Two quorums still
//!   meet, since only the last row can be short: of two processes in it each has the whole of it,
//!   and else the row that is not the last is full, so the other's column meets it in a real
//!   member. Quorums are smaller then, and of different sizes.
//! - `filled-grid`: a real process casts the vote of each formal member beside its own (Maekawa
//!   1985, section 3, for planes: any existing number takes the place of a missing one). Quorums
//!   are rows and columns of the whole square, so two of them meet in two places; K is 2n-1, but
//!   for those in which one process has two votes.

/// The side of the square.
fn side(nodes: u32) -> u32 {
    let root = nodes.isqrt();
    if root * root == nodes { root } else { root + 1 }
}

/// The size of the largest quorum.
pub(super) fn size(nodes: u32) -> u32 {
    let side = side(nodes);
    2 * side - 1
}

pub(super) fn quorum(me: u32, nodes: u32) -> impl Iterator<Item = u32> {
    let side = side(nodes);
    let first = me - me % side;
    let row = first..(first + side).min(nodes);
    let column = (me % side..nodes).step_by(side as usize).filter(move |&other| other != me);
    row.chain(column)
}

/// The same in the whole square: real processes stand in for the formal members, each for one at
/// most if there are enough of them. A process may occur twice.
pub(super) fn filled(me: u32, nodes: u32) -> impl Iterator<Item = u32> {
    let side = side(nodes);
    let first = me - me % side;
    let row = first..first + side;
    let column = (me % side..side * side).step_by(side as usize).filter(move |&other| other != me);
    let stand_in = move |member: u32| {
        // In the next column, since the member's own is in the same quorums as the member, and one
        // full row after the other.
        let (row, column) = ((member - nodes) % (nodes / side), (member + 1) % side);
        row * side + column
    };
    row.chain(column).map(move |member| if member < nodes { member } else { stand_in(member) })
}

#[cfg(test)]
mod tests {
    use crate::{NodeId, QuorumKind, Quorums};

    fn grid(nodes: u32) -> Quorums {
        Quorums::new(QuorumKind::Grid, nodes).unwrap()
    }

    #[test]
    fn any_number_of_processes_has_quorums_that_meet() {
        for nodes in 1..=200 {
            let quorums = grid(nodes);
            assert_eq!(quorums.check_intersection(), Ok(()), "{nodes} processes");
            assert!((0..nodes).all(|me| quorums.contains(NodeId(me), NodeId(me))));
        }
    }

    #[test]
    fn quorums_are_of_one_size_and_duty_if_no_row_is_short() {
        for nodes in 1..=200_u32 {
            let full = nodes.is_multiple_of(super::side(nodes));
            assert_eq!(grid(nodes).violations().is_empty(), full, "{nodes} processes");
        }
    }

    fn filled(nodes: u32) -> Quorums {
        Quorums::new(QuorumKind::FilledGrid, nodes).unwrap()
    }

    #[test]
    fn a_filled_grid_has_quorums_that_meet_and_are_as_large_as_those_of_the_square() {
        for nodes in 2..=200 {
            let quorums = filled(nodes);
            assert_eq!(quorums.check_intersection(), Ok(()), "{nodes} processes");
            assert!((0..nodes).all(|me| quorums.contains(NodeId(me), NodeId(me))));
            let whole = 2 * super::side(nodes) as usize - 1;
            let sizes = || (0..nodes).map(|me| quorums.of(NodeId(me)).len());
            assert!(sizes().all(|size| size <= whole), "{nodes} processes");
            // A formal member and the process that stands in for it are both in few quorums.
            let missing: usize = sizes().map(|size| whole - size).sum();
            let formal = super::side(nodes).pow(2) - nodes;
            assert!(missing <= 3 * formal as usize, "{nodes} processes: {missing} of {formal}");
        }
        assert_eq!(filled(9), grid(9));
    }

    #[test]
    fn a_real_process_stands_in_for_a_formal_member() {
        // 0 1 2 / 3 4 5 / 6 7 (8), whose vote 0 casts.
        assert_eq!(filled(8).of(NodeId(7)), [0, 1, 4, 6, 7].map(NodeId));
        assert_eq!(filled(8).of(NodeId(5)), [0, 2, 3, 4, 5].map(NodeId));
        assert_eq!(filled(8).of(NodeId(4)), [1, 3, 4, 5, 7].map(NodeId));
        // Process 2 has both 0 and the formal member in its quorum.
        assert_eq!(filled(8).of(NodeId(2)), [0, 1, 2, 5].map(NodeId));
    }

    #[test]
    fn a_quorum_is_row_and_column() {
        assert_eq!(grid(9).of(NodeId(4)), [1, 3, 4, 5, 7].map(NodeId));
        // 0 1 2 / 3 4 5 / 6 7
        assert_eq!(grid(8).of(NodeId(7)), [1, 4, 6, 7].map(NodeId));
        assert_eq!(grid(8).of(NodeId(5)), [2, 3, 4, 5].map(NodeId));
    }

    /// Numbered from 1, V_14 and V_6 meet in 2 and 18, V_3 and V_23 in 5 and 21.
    #[test]
    fn the_quorums_of_the_six_by_six_grid_meet_as_in_the_text() {
        let quorums = grid(36);
        let common = |a: u32, b: u32| -> Vec<u32> {
            let (a, b) = (NodeId(a - 1), NodeId(b - 1));
            let members = quorums.of(a).iter().filter(|&&member| quorums.contains(b, member));
            members.map(|member| member.0 + 1).collect()
        };
        assert_eq!(common(14, 6), [2, 18]);
        assert_eq!(common(3, 23), [5, 21]);
    }
}
