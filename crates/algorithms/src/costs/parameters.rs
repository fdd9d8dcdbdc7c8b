//! The quantities that formulas are written in.

use crate::{NodeId, Quorums, Setup, Tree};

use super::Costs;

/// The values of a formula's parameters; not a number where one is unknown.
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    /// `N`: the processes that contend.
    pub nodes: f64,
    /// `K`: the mean size of a quorum.
    pub quorum: f64,
    /// `mean distance`: over all ordered pairs of processes, each with itself included, since
    /// requester and holder are independent.
    pub distance: f64,
    /// `D`: the greatest distance on the tree.
    pub diameter: f64,
    /// `M`: the processes that are up. (Elections.)
    pub up: f64,
    /// `s`: the processes that are up and below the lowest that starts. (Elections.)
    pub below: f64,
}

impl Parameters {
    /// So many processes, and nothing else known.
    pub const fn new(nodes: f64) -> Self {
        let unknown = f64::NAN;
        Self {
            nodes,
            quorum: unknown,
            distance: unknown,
            diameter: unknown,
            up: unknown,
            below: unknown,
        }
    }

    /// The parameters of a system, as far as these costs mention them: quorums of many processes
    /// take long to make.
    pub fn of(setup: &Setup, costs: &Costs) -> Self {
        let mut parameters = Self::new(f64::from(setup.nodes));
        let formulas = costs.all().map(|cost| cost.formula());
        let mentions = |name| formulas.iter().flatten().any(|formula| formula.mentions(name));
        if mentions("K") {
            parameters.quorum = mean_quorum(setup).unwrap_or(f64::NAN);
        }
        if (mentions("mean distance") || mentions("D"))
            && let Ok(tree) = Tree::new(&setup.topology, setup.nodes)
        {
            parameters.distance = mean_distance(&tree, setup.nodes);
            parameters.diameter = diameter(&tree);
        }
        parameters
    }
}

fn mean_quorum(setup: &Setup) -> Option<f64> {
    let quorums = Quorums::new(setup.quorums, setup.nodes).ok()?;
    let sizes = (0..setup.nodes).map(|node| quorums.of(NodeId(node)).len());
    Some(sizes.sum::<usize>() as f64 / f64::from(setup.nodes))
}

fn mean_distance(tree: &Tree, nodes: u32) -> f64 {
    // Removing an edge parts the pairs that cross it: a sum over edges instead of over pairs.
    let n = u64::from(nodes);
    let mut below = vec![1u64; nodes as usize];
    let order = outwards(tree, NodeId(0));
    let mut crossings = 0;
    for &(node, parent) in order.iter().rev() {
        let size = below[node.index()];
        if let Some(parent) = parent {
            below[parent.index()] += size;
            crossings += 2 * size * (n - size);
        }
    }
    crossings as f64 / (n * n) as f64
}

/// The process that is farthest from any process is one end of a longest way.
fn diameter(tree: &Tree) -> f64 {
    let farthest = |from| outwards(tree, from).last().map_or(from, |&(node, _)| node);
    let one_end = farthest(NodeId(0));
    let order = outwards(tree, one_end);
    let mut depth = vec![0u32; order.len()];
    for &(node, parent) in &order {
        depth[node.index()] = parent.map_or(0, |parent| depth[parent.index()] + 1);
    }
    f64::from(depth.into_iter().max().unwrap_or(0))
}

/// Every process after the one through which it is reached, nearest first.
fn outwards(tree: &Tree, from: NodeId) -> Vec<(NodeId, Option<NodeId>)> {
    let mut order = vec![(from, None)];
    let mut next = 0;
    while let Some(&(node, parent)) = order.get(next) {
        let children = tree.neighbours(node).filter(|&other| Some(other) != parent);
        order.extend(children.map(|child| (child, Some(node))));
        next += 1;
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Topology;

    #[test]
    fn distances_on_a_line_and_a_star_are_the_textbook_ones() {
        let tree = |topology| Tree::new(&topology, 9).unwrap();
        let (line, star) = (tree(Topology::Line), tree(Topology::Star));
        // (N+1)/3 over distinct pairs; of N^2 pairs, N(N-1) are distinct.
        assert!((mean_distance(&line, 9) - 10.0 / 3.0 * 8.0 / 9.0).abs() < 1e-12);
        assert!((mean_distance(&star, 9) - 2.0 * 8.0 / 9.0 * 8.0 / 9.0).abs() < 1e-12);
        assert_eq!((diameter(&line), diameter(&star)), (8.0, 2.0));
        assert_eq!(diameter(&tree(Topology::Binary)), 5.0);
    }
}
