//! The parents that make a tree, process 0 being the root and its own parent.

use crate::{NodeId, StartError};

/// A tree filled level by level, so many children each.
pub(super) fn balanced(children: u32, nodes: u32) -> Vec<NodeId> {
    (0..nodes).map(|node| NodeId(node.saturating_sub(1) / children)).collect()
}

/// The tree that these edges make, or why they make none.
pub(super) fn of_edges(edges: &[(NodeId, NodeId)], nodes: u32) -> Result<Vec<NodeId>, StartError> {
    refuse_cycles(edges, nodes)?;
    let neighbours = Neighbours::new(edges, nodes);
    let mut parent: Vec<Option<NodeId>> = vec![None; nodes as usize];
    parent[0] = Some(NodeId(0));
    let mut reached = vec![NodeId(0)];
    while let Some(node) = reached.pop() {
        for &neighbour in neighbours.of(node) {
            if parent[neighbour.index()].is_none() {
                parent[neighbour.index()] = Some(node);
                reached.push(neighbour);
            }
        }
    }
    let reached = |(node, parent): (usize, Option<NodeId>)| {
        parent.ok_or_else(|| {
            StartError::new(format!(
                "the edges do not form a tree: process {node} is not reached from process 0; a \
                 tree over {nodes} processes has {} edges, not {}",
                nodes - 1,
                edges.len()
            ))
        })
    };
    parent.into_iter().enumerate().map(reached).collect()
}

/// Edges that exist and close no cycle; found by joining the parts that they connect.
fn refuse_cycles(edges: &[(NodeId, NodeId)], nodes: u32) -> Result<(), StartError> {
    let mut part: Vec<u32> = (0..nodes).collect();
    for &(a, b) in edges {
        let refuse = |why: String| {
            Err(StartError::new(format!("the edges do not form a tree: the edge {a}-{b} {why}")))
        };
        if let Some(stranger) = [a, b].into_iter().find(|node| node.0 >= nodes) {
            return refuse(format!(
                "leads to process {stranger}, but the processes are 0 to {}",
                nodes - 1
            ));
        }
        if a == b {
            return refuse("leads from a process to itself".to_owned());
        }
        let (part_a, part_b) = (part_of(&mut part, a), part_of(&mut part, b));
        if part_a == part_b {
            return refuse(format!("closes a cycle: {a} and {b} were connected without it"));
        }
        part[part_a as usize] = part_b;
    }
    Ok(())
}

/// The representative of the part that `node` is in. Halving the way keeps the next search short.
fn part_of(part: &mut [u32], node: NodeId) -> u32 {
    let mut at = node.0;
    while part[at as usize] != at {
        part[at as usize] = part[part[at as usize] as usize];
        at = part[at as usize];
    }
    at
}

/// Both directions of every edge, by process.
struct Neighbours {
    all: Vec<NodeId>,
    first: Vec<u32>,
}

impl Neighbours {
    fn new(edges: &[(NodeId, NodeId)], nodes: u32) -> Self {
        let both = || edges.iter().flat_map(|&(a, b)| [(a, b), (b, a)]);
        let mut first = vec![0_u32; nodes as usize + 1];
        for (node, _) in both() {
            first[node.index() + 1] += 1;
        }
        for at in 1..first.len() {
            first[at] += first[at - 1];
        }
        let mut free = first.clone();
        let mut all = vec![NodeId(0); 2 * edges.len()];
        for (node, neighbour) in both() {
            all[free[node.index()] as usize] = neighbour;
            free[node.index()] += 1;
        }
        Self { all, first }
    }

    fn of(&self, node: NodeId) -> &[NodeId] {
        let start = self.first[node.index()] as usize;
        &self.all[start..self.first[node.index() + 1] as usize]
    }
}
