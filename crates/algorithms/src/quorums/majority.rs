//! Majorities: oneself and the next processes round the ring, as many as are more than half.

pub(super) fn size(nodes: u32) -> u32 {
    nodes / 2 + 1
}

pub(super) fn quorum(me: u32, nodes: u32) -> impl Iterator<Item = u32> {
    (0..size(nodes)).map(move |step| ring_step(me, step, nodes))
}

fn ring_step(me: u32, step: u32, nodes: u32) -> u32 {
    // Written so that it does not overflow for any number of processes.
    if step < nodes - me { me + step } else { step - (nodes - me) }
}

#[cfg(test)]
mod tests {
    use crate::{NodeId, QuorumKind, Quorums};

    #[test]
    fn majorities_have_every_property_for_any_number_of_processes() {
        for nodes in 1..=60 {
            let quorums = Quorums::new(QuorumKind::Majority, nodes).unwrap();
            assert_eq!(quorums.violations(), [], "{nodes} processes");
            assert_eq!(quorums.of(NodeId(0)).len() as u32, (nodes + 1).div_ceil(2).max(1));
        }
    }

    #[test]
    fn a_majority_begins_with_oneself_and_goes_round() {
        let quorums = Quorums::new(QuorumKind::Majority, 5).unwrap();
        assert_eq!(quorums.of(NodeId(1)), [1, 2, 3].map(NodeId));
        assert_eq!(quorums.of(NodeId(4)), [0, 1, 4].map(NodeId));
    }
}
