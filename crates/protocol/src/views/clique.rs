//! The largest set of members that all reach each other.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::Instance;

/// Who reaches whom, in both directions.
pub(super) type Edges = BTreeMap<Instance, BTreeSet<Instance>>;

/// Above this the search could take long, and a good set is enough.
const EXACT: usize = 20;

/// A largest set whose members all reach each other; of several the one with most members of
/// `present`, then the one with the lowest ids.
pub(super) fn largest(edges: &Edges, present: &BTreeSet<Instance>) -> BTreeSet<Instance> {
    let all: BTreeSet<_> = edges.keys().copied().collect();
    if all.len() > EXACT {
        return greedy(edges, present, all);
    }
    let mut best = BTreeSet::new();
    extend(edges, present, BTreeSet::new(), all, &mut best);
    best
}

/// Every clique that contains `chosen` and otherwise members of `open` only.
fn extend(
    edges: &Edges,
    present: &BTreeSet<Instance>,
    chosen: BTreeSet<Instance>,
    mut open: BTreeSet<Instance>,
    best: &mut BTreeSet<Instance>,
) {
    if open.is_empty() {
        if is_better(&chosen, best, present) {
            *best = chosen;
        }
        return;
    }
    while let Some(next) = open.pop_first() {
        if chosen.len() + open.len() + 1 < best.len() {
            return;
        }
        let mut with = chosen.clone();
        with.insert(next);
        let still = open.intersection(&edges[&next]).copied().collect();
        extend(edges, present, with, still, best);
        // A member that reaches all that are open is in every largest set of them.
        if open.is_subset(&edges[&next]) {
            return;
        }
    }
    if is_better(&chosen, best, present) {
        *best = chosen;
    }
}

fn is_better(
    one: &BTreeSet<Instance>,
    other: &BTreeSet<Instance>,
    present: &BTreeSet<Instance>,
) -> bool {
    let known = |set: &BTreeSet<Instance>| set.intersection(present).count();
    let one_key = (one.len(), known(one), Reverse(one));
    one_key > (other.len(), known(other), Reverse(other))
}

/// Gives up the one that reaches fewest until all reach each other.
fn greedy(
    edges: &Edges,
    present: &BTreeSet<Instance>,
    mut left: BTreeSet<Instance>,
) -> BTreeSet<Instance> {
    loop {
        let reach = |one: &Instance| edges[one].intersection(&left).count();
        let worst =
            left.iter().min_by_key(|one| (reach(one), present.contains(one), Reverse(**one)));
        match worst {
            Some(worst) if reach(worst) + 1 < left.len() => {
                let worst = *worst;
                left.remove(&worst);
            }
            Some(_) | None => return left,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(pairs: &[(u64, u64)], all: u64) -> Edges {
        let mut edges: Edges =
            (1..=all).map(|one| (Instance::new(one, 1), BTreeSet::new())).collect();
        for &(a, b) in pairs {
            let (a, b) = (Instance::new(a, 1), Instance::new(b, 1));
            edges.get_mut(&a).expect("known").insert(b);
            edges.get_mut(&b).expect("known").insert(a);
        }
        edges
    }

    fn ids(set: &BTreeSet<Instance>) -> Vec<u64> {
        set.iter().map(|one| one.member.0).collect()
    }

    #[test]
    fn a_bridge_costs_one_of_its_ends_its_place() {
        // 1 and 2 reach each other only through 3.
        let present: BTreeSet<_> = [2, 3].map(|one| Instance::new(one, 1)).into();
        let bridge = edges(&[(1, 3), (2, 3)], 3);
        assert_eq!(ids(&largest(&bridge, &present)), [2, 3], "present members stay");
        assert_eq!(ids(&largest(&bridge, &BTreeSet::new())), [1, 3], "then low ids");
    }

    #[test]
    fn the_exact_search_agrees_with_trying_all_sets() {
        let mut dice = 7;
        for _ in 0..300 {
            let mut pairs = Vec::new();
            for a in 1..=7 {
                for b in a + 1..=7 {
                    if !mutua_algorithms::split_mix::next(&mut dice).is_multiple_of(3) {
                        pairs.push((a, b));
                    }
                }
            }
            let edges = edges(&pairs, 7);
            let present: BTreeSet<_> = (1..=4).map(|one| Instance::new(one, 1)).collect();
            let all: Vec<_> = edges.keys().copied().collect();
            let mut best = BTreeSet::new();
            for bits in 1_u32..128 {
                let set: BTreeSet<_> = (0..7)
                    .filter(|place| bits & (1 << place) != 0)
                    .map(|place| all[place])
                    .collect();
                let reaches_rest =
                    |one: &Instance| set.iter().all(|two| one == two || edges[one].contains(two));
                if set.iter().all(reaches_rest) && is_better(&set, &best, &present) {
                    best = set;
                }
            }
            assert_eq!(largest(&edges, &present), best);
        }
    }
}
