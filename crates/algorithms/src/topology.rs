//! Spanning trees: for every process its neighbours, and the way to every other process.
//!
//! A tree is built once and shared by all processes of a system. It takes 28 bytes per process, so
//! that a million of them fit beside their states.

mod parents;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{NodeId, Renaming, StartError, UnknownName};

/// The shape of a tree.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub enum Topology {
    /// One behind the other.
    Line,
    /// Process 0 in the middle.
    Star,
    /// Balanced, two children each.
    Binary,
    /// Balanced, so many children each.
    Kary(u32),
    /// These edges.
    Edges(Vec<(NodeId, NodeId)>),
}

impl Topology {
    /// The shapes that have a name, as they are written.
    pub const SHAPES: [&'static str; 4] = ["line", "star", "binary", "kary:K"];

    /// The shape's name, as it is written everywhere. That of edges does not list them,
    /// so it is not read again.
    pub fn name(&self) -> Cow<'static, str> {
        match self {
            Self::Line => "line".into(),
            Self::Star => "star".into(),
            Self::Binary => "binary".into(),
            Self::Kary(children) => format!("kary:{children}").into(),
            Self::Edges(_) => "edges".into(),
        }
    }
}

impl FromStr for Topology {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let shapes = [Self::Line, Self::Star, Self::Binary];
        let children = name.strip_prefix("kary:").and_then(|children| children.parse().ok());
        let kary = children.filter(|&children| children > 0).map(Self::Kary);
        shapes.into_iter().find(|shape| shape.name() == name).or(kary).ok_or_else(|| UnknownName {
            what: "topology",
            name: name.to_owned(),
            known: vec!["line", "star", "binary", "kary:K with K at least 1"],
        })
    }
}

/// A spanning tree, rooted at process 0.
///
/// Ways are found by numbering the processes in preorder: the subtree of a process is an interval
/// of numbers, so its children's intervals show behind which of them a process is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Tree {
    /// The root is its own parent.
    parent: Vec<NodeId>,
    depth: Vec<u32>,
    /// Places in preorder.
    preorder: Vec<u32>,
    /// How many processes are in the subtree.
    size: Vec<u32>,
    /// The top of the heavy path that the process is on. Every way up changes the path at most
    /// log N times, which makes distances cheap on a line too.
    top: Vec<NodeId>,
    /// The children of all processes one after the other, each one's in ascending order.
    children: Vec<NodeId>,
    /// Where in `children` those of a process begin; one more than there are processes.
    first_child: Vec<u32>,
    diameter: u32,
}

impl Tree {
    /// A tree of this shape over so many processes.
    pub fn new(topology: &Topology, nodes: u32) -> Result<Self, StartError> {
        if nodes == 0 {
            return Err(StartError::new("a tree of 0 processes; give at least 1"));
        }
        let parent = match topology {
            Topology::Line => parents::balanced(1, nodes),
            Topology::Star => parents::balanced(nodes, nodes),
            Topology::Binary => parents::balanced(2, nodes),
            Topology::Kary(0) => {
                return Err(StartError::new("a tree with 0 children each; give at least 1"));
            }
            Topology::Kary(children) => parents::balanced(*children, nodes),
            Topology::Edges(edges) => parents::of_edges(edges, nodes)?,
        };
        Ok(Self::from_parents(parent))
    }

    /// How many processes there are.
    pub fn nodes(&self) -> u32 {
        NodeId::from(self.parent.len()).0
    }

    /// The neighbours of a process: its parent, then its children in ascending order.
    pub fn neighbours(&self, node: NodeId) -> impl Iterator<Item = NodeId> + Clone + '_ {
        self.parent_of(node).into_iter().chain(self.children(node).iter().copied())
    }

    /// How many neighbours a process has.
    pub fn degree(&self, node: NodeId) -> u32 {
        let children = NodeId::from(self.children(node).len()).0;
        children + u32::from(node != ROOT)
    }

    /// The index of `other` among the neighbours of `node`, from 0, if it is one.
    pub fn neighbour_index(&self, node: NodeId, other: NodeId) -> Option<u32> {
        if other.0 >= self.nodes() || other == node {
            None
        } else if self.parent[node.index()] == other {
            Some(0)
        } else {
            let index = self.children(node).binary_search(&other).ok()?;
            Some(NodeId::from(index).0 + u32::from(node != ROOT))
        }
    }

    /// Whether an edge joins the two; a process that is not in the tree has none.
    pub fn are_adjacent(&self, a: NodeId, b: NodeId) -> bool {
        let is_parent = |child: NodeId, parent: NodeId| {
            child != ROOT && self.parent.get(child.index()) == Some(&parent)
        };
        is_parent(a, b) || is_parent(b, a)
    }

    /// The neighbour of `from` on the way to `to`; `from` itself if that is where it leads.
    pub fn next_hop(&self, from: NodeId, to: NodeId) -> NodeId {
        if from == to {
            return from;
        }
        if !self.is_below(to, from) {
            return self.parent[from.index()];
        }
        let children = self.children(from);
        let index = self.preorder[to.index()];
        let later = children.partition_point(|child| self.preorder[child.index()] <= index);
        children[later - 1]
    }

    /// How many edges are between the two.
    pub fn distance(&self, a: NodeId, b: NodeId) -> u32 {
        let meeting = self.meeting(a, b);
        self.depth[a.index()] + self.depth[b.index()] - 2 * self.depth[meeting.index()]
    }

    /// The greatest distance there is.
    pub fn diameter(&self) -> u32 {
        self.diameter
    }

    /// Whether the same are neighbours under their new names.
    pub(crate) fn is_kept_by(&self, renaming: &Renaming) -> bool {
        let nodes = (0..self.nodes()).map(NodeId).filter(|&node| node != ROOT);
        let mut edges = nodes.map(|node| (node, self.parent[node.index()]));
        edges.all(|(a, b)| self.are_adjacent(renaming.of(a), renaming.of(b)))
    }

    fn parent_of(&self, node: NodeId) -> Option<NodeId> {
        (node != ROOT).then(|| self.parent[node.index()])
    }

    fn children(&self, node: NodeId) -> &[NodeId] {
        let start = self.first_child[node.index()] as usize;
        let end = self.first_child[node.index() + 1] as usize;
        &self.children[start..end]
    }

    /// Whether `node` is `top` or in the subtree of it.
    fn is_below(&self, node: NodeId, top: NodeId) -> bool {
        let first = self.preorder[top.index()];
        (first..first + self.size[top.index()]).contains(&self.preorder[node.index()])
    }

    /// The highest process on the way from one to the other.
    fn meeting(&self, mut a: NodeId, mut b: NodeId) -> NodeId {
        loop {
            let (top_a, top_b) = (self.top[a.index()], self.top[b.index()]);
            if top_a == top_b {
                return if self.depth[a.index()] <= self.depth[b.index()] { a } else { b };
            }
            if self.depth[top_a.index()] >= self.depth[top_b.index()] {
                a = self.parent[top_a.index()];
            } else {
                b = self.parent[top_b.index()];
            }
        }
    }
}

const ROOT: NodeId = NodeId(0);

// How a tree is made of its parents.
impl Tree {
    fn from_parents(parent: Vec<NodeId>) -> Self {
        let nodes = parent.len();
        let (children, first_child) = children_of(&parent);
        let mut tree = Self {
            parent,
            depth: vec![0; nodes],
            preorder: vec![0; nodes],
            size: vec![1; nodes],
            top: vec![ROOT; nodes],
            children,
            first_child,
            diameter: 0,
        };
        let order = tree.parents_first();
        tree.measure_upwards(&order);
        tree.measure_downwards(&order);
        tree
    }

    /// All processes, each after its parent.
    fn parents_first(&self) -> Vec<NodeId> {
        let mut order = Vec::with_capacity(self.parent.len());
        order.push(ROOT);
        let mut next = 0;
        while let Some(&node) = order.get(next) {
            order.extend_from_slice(self.children(node));
            next += 1;
        }
        order
    }

    /// Sizes, and the diameter: the longest way has a highest process, where the two deepest of its
    /// subtrees meet.
    fn measure_upwards(&mut self, order: &[NodeId]) {
        let mut height = vec![0_u32; order.len()];
        for &node in order.iter().skip(1).rev() {
            let (child, parent) = (node.index(), self.parent[node.index()].index());
            self.size[parent] += self.size[child];
            self.diameter = self.diameter.max(height[parent] + height[child] + 1);
            height[parent] = height[parent].max(height[child] + 1);
        }
    }

    /// Depths, positions in preorder and the tops of the heavy paths.
    fn measure_downwards(&mut self, order: &[NodeId]) {
        for &node in order {
            let range = self.first_child[node.index()] as usize
                ..self.first_child[node.index() + 1] as usize;
            let heavy = range.clone().max_by_key(|&at| self.size[self.children[at].index()]);
            let mut index = self.preorder[node.index()] + 1;
            for at in range {
                let child = self.children[at];
                self.depth[child.index()] = self.depth[node.index()] + 1;
                self.preorder[child.index()] = index;
                index += self.size[child.index()];
                let on_path = heavy == Some(at);
                self.top[child.index()] = if on_path { self.top[node.index()] } else { child };
            }
        }
    }
}

/// The children of all, one after the other, and where each one's begin.
fn children_of(parent: &[NodeId]) -> (Vec<NodeId>, Vec<u32>) {
    let mut first = vec![0_u32; parent.len() + 1];
    for above in &parent[1..] {
        first[above.index() + 1] += 1;
    }
    for at in 1..first.len() {
        first[at] += first[at - 1];
    }
    let mut free = first.clone();
    let mut children = vec![ROOT; parent.len() - 1];
    for (child, above) in parent.iter().enumerate().skip(1) {
        children[free[above.index()] as usize] = NodeId::from(child);
        free[above.index()] += 1;
    }
    (children, first)
}
