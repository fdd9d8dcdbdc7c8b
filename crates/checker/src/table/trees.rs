//! Every tree.

use mutua_algorithms::{About, NodeId, Topology};

use super::{Checked, Row, plain};

/// An algorithm on all trees of up to so many processes.
pub(super) fn row(about: &About, largest: u32) -> Row {
    let trees: Vec<_> =
        (2..=largest).flat_map(|nodes| trees(nodes).into_iter().map(move |t| (nodes, t))).collect();
    let title = format!("all {} trees of up to {largest} processes", trees.len());
    let tasks = trees.into_iter().map(|(nodes, edges)| {
        let mut task = plain(about, nodes, 1, &about.claims_checked(true));
        task.system.setup.topology = Topology::Edges(edges);
        task
    });
    Row::holds(title, tasks.collect())
}

/// All trees over so many processes, each by its Prüfer sequence: n^(n-2) of them.
fn trees(nodes: u32) -> Vec<Vec<(NodeId, NodeId)>> {
    let length = nodes.saturating_sub(2);
    (0..nodes.pow(length)).map(|number| tree(nodes, number)).collect()
}

fn tree(nodes: u32, mut number: u32) -> Vec<(NodeId, NodeId)> {
    let digit = |_| {
        let digit = number % nodes;
        number /= nodes;
        digit
    };
    let sequence: Vec<u32> = (0..nodes.saturating_sub(2)).map(digit).collect();
    let mut degree = vec![1_u32; nodes as usize];
    for &inner in &sequence {
        degree[inner as usize] += 1;
    }
    let mut edges = Vec::new();
    for inner in sequence {
        let leaf = degree.iter().position(|&degree| degree == 1).expect("a tree has leaves");
        edges.push((NodeId::from(leaf), NodeId(inner)));
        degree[leaf] = 0;
        degree[inner as usize] -= 1;
    }
    let last: Vec<_> = (0..nodes).filter(|&node| degree[node as usize] == 1).map(NodeId).collect();
    edges.push((last[0], last[1]));
    edges
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn there_are_as_many_trees_as_cayley_counts_and_all_differ() {
        for (nodes, count) in [(2, 1), (3, 3), (4, 16), (5, 125)] {
            let normal = |edges: Vec<(NodeId, NodeId)>| -> BTreeSet<_> {
                edges.into_iter().map(|(a, b)| (a.min(b), a.max(b))).collect()
            };
            let distinct: BTreeSet<_> = trees(nodes).into_iter().map(normal).collect();
            assert_eq!(distinct.len(), count);
            assert!(distinct.iter().all(|edges| edges.len() as u32 == nodes - 1));
        }
    }
}
