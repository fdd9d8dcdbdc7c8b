//! The structure that an algorithm runs on, below the legend: its tree, or the quorums of the
//! processes that request.

use mutua_algorithms::NodeId;

use super::{Hung, Structure, layout::text_width, style::look};
use crate::{
    Header,
    svg::{escape, put},
};

/// The distance between two levels of a tree, and between two nodes of a level.
const LEVEL: f64 = 46.0;
const SLOT: f64 = 24.0;

/// The side of a cell of quorums.
const CELL: f64 = 24.0;

/// The height of the name of one of several trees.
const NAME: f64 = 18.0;

/// The room above, for the title, and below.
const ABOVE: f64 = 34.0;
const BELOW: f64 = 18.0;

/// A structure with its positions.
#[derive(Debug)]
pub(super) enum Inset<'a> {
    Trees(Vec<PlacedTree<'a>>),
    Quorums { of: &'a [(NodeId, Vec<NodeId>)], nodes: u32, cell: f64 },
}

/// A tree with the places of its nodes.
#[derive(Debug)]
pub(super) struct PlacedTree<'a> {
    tree: &'a Hung,
    title: String,
    /// The height of its title.
    above: f64,
    nodes: Vec<Placed>,
}

impl PlacedTree<'_> {
    /// Its width and height, with that of its title.
    fn size(&self) -> (f64, f64) {
        let most = |of: fn(&Placed) -> f64| self.nodes.iter().map(of).fold(0.0, f64::max);
        (most(|node| node.x) + 40.0, most(|node| node.y) + 14.0 + self.above)
    }
}

/// A node of a tree with its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    node: NodeId,
    x: f64,
    y: f64,
}

impl<'a> Inset<'a> {
    pub(super) fn new(header: &Header, structure: &'a Structure) -> Self {
        let names = (0..header.processes.len()).map(|node| header.name(NodeId::from(node)));
        let widest = names.map(|name| text_width(&name)).fold(0.0, f64::max);
        match structure {
            Structure::Trees(trees) => {
                Self::Trees(trees.iter().map(|tree| placed(tree, widest + SLOT)).collect())
            }
            Structure::Quorums(of) => {
                let nodes = u32::try_from(header.processes.len()).unwrap_or(u32::MAX);
                Self::Quorums { of, nodes, cell: CELL.max(widest + 6.0) }
            }
        }
    }

    /// Its width and height.
    pub(super) fn size(&self) -> (f64, f64) {
        let (width, height) = match self {
            Self::Trees(trees) => {
                let sizes = trees.iter().map(PlacedTree::size);
                sizes.fold((0.0, 0.0), |(wide, tall), (w, t)| (wide + w, f64::max(tall, t)))
            }
            Self::Quorums { of, nodes, cell } => {
                let (columns, rows) = square(*nodes);
                let wide = f64::from(columns) * cell;
                (of.len() as f64 * (wide + 30.0), f64::from(rows) * CELL + 18.0)
            }
        };
        (width.max(220.0).max(text_width(self.title())) + 40.0, ABOVE + height + BELOW)
    }

    fn title(&self) -> &'static str {
        match self {
            Self::Trees(trees) if trees.len() == 1 => "the tree, its root at the start in yellow",
            Self::Trees(_) => "the tree in each view, its root at first in yellow",
            Self::Quorums { .. } => "the quorums (blue) of processes that request (yellow)",
        }
    }

    pub(super) fn paint(&self, out: &mut String, header: &Header, top: f64) {
        title(out, 20.0, top, self.title());
        match self {
            Self::Trees(trees) => {
                let mut left = 20.0;
                for tree in trees {
                    title(out, left, top + 22.0, &tree.title);
                    paint_tree(out, header, tree, (left + 4.0, top + ABOVE + 14.0 + tree.above));
                    left += tree.size().0;
                }
            }
            Self::Quorums { of, nodes, cell } => {
                for (number, (who, members)) in of.iter().enumerate() {
                    let wide = f64::from(square(*nodes).0) * cell + 30.0;
                    let at = (24.0 + number as f64 * wide, top + ABOVE);
                    quorum(out, header, at, *cell, (*who, members));
                }
            }
        }
    }
}

fn title(out: &mut String, left: f64, top: f64, words: &str) {
    if words.is_empty() {
        return;
    }
    let (y, words) = (top + 12.0, escape(words));
    put(out, format_args!("<text {} x=\"{left:.1}\" y=\"{y:.1}\">{words}</text>", look("small")));
}

/// A tree with the places of its nodes, in slots of this width.
fn placed(tree: &Hung, slot: f64) -> PlacedTree<'_> {
    let mut nodes = Vec::new();
    place(&tree.edges, tree.root, None, 0.0, slot, &mut 0.0, &mut nodes);
    // A tree without a view is the only one and needs no name.
    let title = tree.view.as_ref().map_or_else(String::new, |view| format!("view {view}"));
    let above = if title.is_empty() { 0.0 } else { NAME };
    PlacedTree { tree, title, above, nodes }
}

/// Places a node in the middle of its children, and leaves side by side.
fn place(
    edges: &[(NodeId, NodeId)],
    node: NodeId,
    parent: Option<NodeId>,
    y: f64,
    slot: f64,
    free: &mut f64,
    placed: &mut Vec<Placed>,
) -> f64 {
    let other = |&(a, b): &(NodeId, NodeId)| match node {
        _ if a == node => Some(b),
        _ if b == node => Some(a),
        _ => None,
    };
    let children: Vec<_> =
        edges.iter().filter_map(other).filter(|&child| Some(child) != parent).collect();
    let mut places = Vec::new();
    for child in children {
        places.push(place(edges, child, Some(node), y + LEVEL, slot, free, placed));
    }
    let x = match (places.first(), places.last()) {
        (Some(first), Some(last)) => f64::midpoint(*first, *last),
        _ => {
            *free += slot;
            *free - slot / 2.0
        }
    };
    placed.push(Placed { node, x, y });
    x
}

fn paint_tree(out: &mut String, header: &Header, tree: &PlacedTree<'_>, at: (f64, f64)) {
    let PlacedTree { tree: Hung { edges, root, .. }, nodes, .. } = tree;
    let (left, top) = at;
    let at = |node: NodeId| nodes.iter().find(|placed| placed.node == node);
    for (a, b) in edges {
        let (Some(a), Some(b)) = (at(*a), at(*b)) else { continue };
        put(
            out,
            format_args!(
                "<path {} d=\"M{:.1} {:.1}L{:.1} {:.1}\"/>",
                look("process"),
                left + a.x,
                top + a.y,
                left + b.x,
                top + b.y
            ),
        );
    }
    for &Placed { node, x, y } in nodes {
        let name = header.name(node);
        let (x, y, half) = (left + x, top + y, text_width(&name).max(14.0) / 2.0 + 5.0);
        let class = if node == *root { "token" } else { "box" };
        put(
            out,
            format_args!(
                "<rect {} x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"22\" rx=\"10\"/>",
                look(class),
                x - half,
                y - 11.0,
                2.0 * half
            ),
        );
        write_name(out, x, y + 4.0, &name);
    }
}

/// One quorum, in a square of all processes.
fn quorum(
    out: &mut String,
    header: &Header,
    (left, top): (f64, f64),
    cell: f64,
    (who, members): (NodeId, &[NodeId]),
) {
    let small = look("small");
    let words = escape(&format!("quorum of {}", header.name(who)));
    put(out, format_args!("<text {small} x=\"{left:.1}\" y=\"{:.1}\">{words}</text>", top + 10.0));
    let nodes = u32::try_from(header.processes.len()).unwrap_or(u32::MAX);
    let (columns, _) = square(nodes);
    for node in (0..nodes).map(NodeId) {
        let (column, row) = (node.0 % columns, node.0 / columns);
        let (x, y) = (left + f64::from(column) * cell, top + 18.0 + f64::from(row) * CELL);
        let class = match members.contains(&node) {
            true if node == who => "token",
            true => "member",
            false => "box",
        };
        put(
            out,
            format_args!(
                "<rect {} x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                look(class),
                cell - 2.0,
                CELL - 2.0
            ),
        );
        write_name(out, x + cell / 2.0 - 1.0, y + 15.0, &header.name(node));
    }
}

fn write_name(out: &mut String, x: f64, y: f64, name: &str) {
    let (look, name) = (look("boxed"), escape(name));
    put(out, format_args!("<text {look} x=\"{x:.1}\" y=\"{y:.1}\">{name}</text>"));
}

/// The columns and rows of the smallest square for so many.
fn square(nodes: u32) -> (u32, u32) {
    let side = nodes.isqrt() + u32::from(nodes.isqrt().pow(2) < nodes);
    (side.max(1), nodes.div_ceil(side.max(1)))
}
