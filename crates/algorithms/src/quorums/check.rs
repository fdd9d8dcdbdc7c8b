//! Whether quorums have their properties.

use std::{cmp::Ordering, fmt};

use super::Quorums;
use crate::NodeId;

/// A property of quorums that is violated, with the processes concerned.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum QuorumViolation {
    /// The quorums of these two have no process in common.
    Disjoint(NodeId, NodeId),
    /// This process is not in its own quorum.
    NotInOwn(NodeId),
    /// The quorums of these two differ in size: the smallest and the largest.
    Size(NodeId, NodeId),
    /// These two are in different numbers of quorums: the fewest and the most.
    Duty(NodeId, NodeId),
}

impl fmt::Display for QuorumViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disjoint(a, b) => {
                write!(f, "the quorums of processes {a} and {b} do not meet: both could enter")
            }
            Self::NotInOwn(node) => write!(f, "process {node} is not in its own quorum"),
            Self::Size(small, large) => {
                write!(f, "the quorum of process {small} is smaller than that of process {large}")
            }
            Self::Duty(few, many) => {
                write!(f, "process {few} is in fewer quorums than process {many}")
            }
        }
    }
}

impl Quorums {
    /// Whether any two quorums meet; if not, the first two that do not.
    pub fn check_intersection(&self) -> Result<(), QuorumViolation> {
        self.disjoint().next().map_or(Ok(()), Err)
    }

    /// Every violation: first what makes the quorums unsafe (each process that is not in its own,
    /// each pair that does not meet), then what makes them unfair (one pair at most for the sizes,
    /// and one for the duties).
    pub fn violations(&self) -> Vec<QuorumViolation> {
        let all = || (0..self.nodes()).map(NodeId);
        let not_in_own = all().filter(|&node| !self.contains(node, node));
        let mut violations: Vec<_> = not_in_own.map(QuorumViolation::NotInOwn).collect();
        violations.extend(self.disjoint());
        let sizes: Vec<_> = all().map(|node| self.of(node).len()).collect();
        violations
            .extend(extremes(&sizes).map(|(small, large)| QuorumViolation::Size(small, large)));
        let mut duties = vec![0; self.of.len()];
        for member in self.of.iter().flatten() {
            duties[member.index()] += 1;
        }
        violations.extend(extremes(&duties).map(|(few, many)| QuorumViolation::Duty(few, many)));
        violations
    }

    fn disjoint(&self) -> impl Iterator<Item = QuorumViolation> + '_ {
        let all = (0..self.nodes()).map(NodeId);
        let pairs = all.flat_map(|a| (0..a.0).map(move |b| (NodeId(b), a)));
        pairs
            .filter(|&(a, b)| !meet(self.of(a), self.of(b)))
            .map(|(a, b)| QuorumViolation::Disjoint(a, b))
    }
}

/// Whether two sorted sets have a member in common.
fn meet(mut a: &[NodeId], mut b: &[NodeId]) -> bool {
    while let ([first_a, rest_a @ ..], [first_b, rest_b @ ..]) = (a, b) {
        match first_a.cmp(first_b) {
            Ordering::Less => a = rest_a,
            Ordering::Greater => b = rest_b,
            Ordering::Equal => return true,
        }
    }
    false
}

/// The first process with the least count and the first with the most, if these differ.
fn extremes(counts: &[usize]) -> Option<(NodeId, NodeId)> {
    let least = counts.iter().min()?;
    let most = counts.iter().max()?;
    let first = |count| counts.iter().position(|other| other == count).map(NodeId::from);
    if least == most { None } else { Some((first(least)?, first(most)?)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quorums(sets: &[&[u32]]) -> Quorums {
        let sets = sets.iter().map(|set| set.iter().copied().map(NodeId).collect()).collect();
        Quorums::from_sets(sets).unwrap()
    }

    #[test]
    fn good_quorums_have_no_fault_in_whatever_order_they_were_given() {
        let good = quorums(&[&[1, 0, 1], &[2, 1], &[0, 2]]);
        assert_eq!(good.of(NodeId(0)), [0, 1].map(NodeId));
        assert_eq!(good.check_intersection(), Ok(()));
        assert_eq!(good.violations(), []);
    }

    #[test]
    fn the_pair_that_does_not_meet_is_named() {
        let disjoint = quorums(&[&[0, 1], &[0, 1], &[1, 2], &[2, 3]]);
        let violation = disjoint.check_intersection().unwrap_err();
        assert_eq!(violation, QuorumViolation::Disjoint(NodeId(0), NodeId(3)));
        assert_eq!(
            violation.to_string(),
            "the quorums of processes 0 and 3 do not meet: both could enter"
        );
        let expected =
            [(0, 3), (1, 3)].map(|(a, b)| QuorumViolation::Disjoint(NodeId(a), NodeId(b)));
        assert_eq!(disjoint.violations()[..2], expected);
    }

    #[test]
    fn the_other_properties_are_checked_too() {
        let violations = quorums(&[&[0, 1, 2], &[0], &[0, 2]]).violations();
        assert_eq!(
            violations,
            [
                QuorumViolation::NotInOwn(NodeId(1)),
                QuorumViolation::Size(NodeId(1), NodeId(0)),
                QuorumViolation::Duty(NodeId(1), NodeId(0)),
            ]
        );
    }

    #[test]
    fn a_member_that_does_not_exist_is_refused() {
        let refusal = Quorums::from_sets(vec![vec![NodeId(0)], vec![NodeId(2)]]).unwrap_err();
        assert!(refusal.to_string().contains("the quorum of process 1 has process 2"));
    }
}
