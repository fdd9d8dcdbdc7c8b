use super::*;
use crate::QuorumKind;

fn sets(sets: &[(&[u32], &[u32])]) -> Result<SetsOf, SetsError> {
    let nodes = |set: &[u32]| set.iter().copied().map(NodeId).collect();
    let (request, inform) =
        sets.iter().map(|(request, inform)| (nodes(request), nodes(inform))).unzip();
    SetsOf::new(request, inform)
}

#[test]
fn the_special_cases_exclude_any_two_processes() {
    for nodes in 1..=20 {
        assert_eq!(SetsOf::ricart_agrawala(nodes).unwrap().check(), Ok(()));
        assert_eq!(SetsOf::central(nodes, NodeId(nodes / 2)).unwrap().check(), Ok(()));
        for kind in [QuorumKind::Grid, QuorumKind::Majority] {
            let quorums = Quorums::new(kind, nodes).unwrap();
            assert_eq!(SetsOf::maekawa(&quorums).unwrap().check(), Ok(()));
        }
    }
}

#[test]
fn the_pair_that_is_not_excluded_is_named() {
    // 0 and 1 meet at 0, 0 and 2 request of each other, 1 and 2 do neither.
    let disjoint = sets(&[(&[0, 2], &[0]), (&[0, 1, 2], &[0, 1]), (&[0, 2], &[2])]).unwrap();
    let error = disjoint.check().unwrap_err();
    assert_eq!(error, SetsError::Apart(NodeId(1), NodeId(2)));
    assert!(
        error
            .to_string()
            .starts_with("processes 1 and 2 could be in the critical section together")
    );
}

#[test]
fn sets_of_a_wrong_form_are_not_built() {
    assert_eq!(sets(&[(&[0], &[])]), Err(SetsError::NotInOwn(NodeId(0))));
    let unrequested = sets(&[(&[0], &[0]), (&[1], &[0, 1])]);
    assert_eq!(unrequested, Err(SetsError::NotRequested(NodeId(1), NodeId(0))));
    assert_eq!(sets(&[(&[0, 1], &[0])]), Err(SetsError::Stranger(NodeId(0), NodeId(1))));
}

#[test]
fn no_process_waits_for_another_than_the_coordinator() {
    let central = SetsOf::central(4, NodeId(0)).unwrap();
    assert!(!central.can_wait_for_others(NodeId(2), NodeId(0)));
    assert!(central.can_wait_for_others(NodeId(2), NodeId(2)));
    assert!(!central.is_counted_by_others(NodeId(2), NodeId(0)));
    assert!(central.is_counted_by_others(NodeId(2), NodeId(2)), "the coordinator does");
    assert!(central.is_counted_by_others(NodeId(2), NodeId(3)), "the coordinator does");
    let grid = SetsOf::maekawa(&Quorums::new(QuorumKind::Grid, 4).unwrap()).unwrap();
    assert!(grid.can_wait_for_others(NodeId(2), NodeId(0)));
    assert!(grid.is_counted_by_others(NodeId(2), NodeId(0)));
}

#[test]
fn request_sets_that_fill_the_memory_are_refused_before_they_are_built() {
    // The square of 11586 is the first above 2^27.
    let refusal = SetsOf::ricart_agrawala(11_586).err().map(|error| error.to_string());
    let expected = "11586 request sets of all processes";
    assert!(refusal.is_some_and(|refusal| refusal.starts_with(expected)));
}
