//! The lines of a projective plane: N = q^2 + q + 1 quorums of q + 1, any two of which share
//! exactly one member. No quorums that meet, are of one size and bear equal duty are smaller.
//!
//! The plane is built as Singer did (Transactions of the AMS 43, 1938). The points are the powers
//! of a well chosen x of the field of q^3 elements, up to factors of the field of q. They are a
//! cycle of N, and multiplying by x moves every line to another. So all lines are one line, D,
//! shifted round: process i's quorum is i + D, and since 0 is in D, i is in its own quorum.

use super::{
    field::{Field, prime_power},
    nearest,
};
use crate::{NodeId, StartError};

/// The size of the quorums, q + 1.
pub(super) fn size(nodes: u32) -> Result<u32, StartError> {
    let order = nodes.isqrt();
    let fits = points(order) == u64::from(nodes) && prime_power(order).is_some();
    if fits {
        return Ok(order + 1);
    }
    let orders = (2..).filter(|&order| prime_power(order).is_some());
    Err(StartError::new(format!(
        "a projective plane has q^2 + q + 1 points, q a power of a prime; {nodes} is not such a \
         number; {}",
        nearest(nodes, orders.map(points))
    )))
}

/// How many points the plane over the field of this order has.
fn points(order: u32) -> u64 {
    let order = u64::from(order);
    order * order + order + 1
}

/// The quorums from the plane of this order, not sorted.
pub(super) fn quorums(order: u32) -> Vec<Vec<NodeId>> {
    let field = Field::new(order).expect("the order was checked");
    let nodes = u32::try_from(points(order)).expect("the number of processes was checked");
    let line = difference_set(&field, nodes);
    let shifted = |me: u32| line.iter().map(move |index| NodeId((me + index) % nodes)).collect();
    (0..nodes).map(shifted).collect()
}

/// The positions, in the cycle of powers, of the points on the line through 1 and x. Any other
/// number mod N is the difference of exactly one pair of them.
fn difference_set(field: &Field, nodes: u32) -> Vec<u32> {
    let order = field.order();
    let cubics = (0..order).flat_map(|a| {
        (0..order).flat_map(move |b| (1..order).map(move |c| Extension { field, cube: [c, b, a] }))
    });
    cubics
        .filter_map(|extension| extension.line_if_x_generates(nodes))
        .next()
        .expect("there is a primitive polynomial of every degree")
}

/// The remainder of polynomials over a field when x^3 is replaced by a lower polynomial, its
/// coefficients from the constant on. It is the field of q^3 elements if x generates all points.
struct Extension<'a> {
    field: &'a Field,
    cube: [u32; 3],
}

impl Extension<'_> {
    /// Walks the powers of x until one is a mere factor. Only if that takes N steps are they all
    /// points, each once; in no extension that is not a field are there so many.
    fn line_if_x_generates(&self, nodes: u32) -> Option<Vec<u32>> {
        let mut line = vec![0];
        let mut power = [0, 1, 0];
        for index in 1..nodes {
            match power {
                [_, 0, 0] => return None,
                [_, _, 0] => line.push(index),
                _ => {}
            }
            power = self.times_x(power);
        }
        matches!(power, [_, 0, 0]).then_some(line)
    }

    fn times_x(&self, [constant, linear, square]: [u32; 3]) -> [u32; 3] {
        let lower = |index: usize, moved| {
            self.field.sum(moved, self.field.product(square, self.cube[index]))
        };
        [lower(0, 0), lower(1, constant), lower(2, linear)]
    }
}

#[cfg(test)]
mod tests {
    use crate::{NodeId, QuorumKind, Quorums};

    fn plane(nodes: u32) -> Quorums {
        Quorums::new(QuorumKind::Plane, nodes).unwrap()
    }

    #[test]
    fn planes_have_every_property_and_their_lines_meet_in_one_point() {
        for order in [2, 3, 4, 5, 7, 8, 9, 11, 13, 16_u32] {
            let nodes = order * order + order + 1;
            let quorums = plane(nodes);
            assert_eq!(quorums.violations(), [], "order {order}");
            assert_eq!(quorums.of(NodeId(0)).len() as u32, order + 1);
            for other in (1..nodes).map(NodeId) {
                let line = quorums.of(NodeId(0)).iter();
                let common = line.filter(|&&point| quorums.contains(other, point)).count();
                assert_eq!(common, 1, "order {order}, lines 0 and {other}");
            }
        }
    }

    #[test]
    fn the_plane_of_seven_is_a_shifted_line() {
        let quorums = plane(7);
        let line = quorums.of(NodeId(0));
        assert!(line.contains(&NodeId(0)) && line.contains(&NodeId(1)), "{line:?}");
        let mut shifted: Vec<_> = line.iter().map(|point| NodeId((point.0 + 3) % 7)).collect();
        shifted.sort_unstable();
        assert_eq!(quorums.of(NodeId(3)), shifted);
    }

    #[test]
    fn other_numbers_are_refused_with_the_nearest_that_are_not() {
        let refusal = |nodes| Quorums::new(QuorumKind::Plane, nodes).unwrap_err().to_string();
        assert!(refusal(10).ends_with("the nearest are 7 and 13"), "{}", refusal(10));
        // 6^2 + 6 + 1, and 6 is not a power of a prime.
        assert!(refusal(43).ends_with("the nearest are 31 and 57"), "{}", refusal(43));
        assert!(refusal(3).ends_with("the nearest is 7"), "{}", refusal(3));
    }
}
