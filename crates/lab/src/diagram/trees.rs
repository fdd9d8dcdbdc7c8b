//! The trees that an algorithm runs on: that of the start, and those that repairs hang again.

use mutua_algorithms::{NodeId, Setup, Topology, Tree};

use super::{Hung, Structure};
use crate::{Event, Header, Message, What};

/// The tree of a system and the trees of the views that these events start; none if the algorithm
/// has no tree.
pub fn trees(setup: &Setup, header: &Header, events: &[Event]) -> Option<Structure> {
    let about = mutua_algorithms::registry::about(&header.algorithm)?;
    if about.structure != mutua_algorithms::Structure::Tree {
        return None;
    }
    let all: Vec<_> = (0..setup.nodes).map(NodeId).collect();
    let edges = edges(&setup.topology, &all)?;
    let mut trees = vec![Hung { view: None, edges, root: setup.holder }];
    for event in events {
        if let What::Send { message, .. } | What::Multicast { message, .. } = &event.what
            && let Some(tree) = of_view(setup, header, message)
            && !trees.contains(&tree)
        {
            trees.push(tree);
        }
    }
    if trees.len() > 1 {
        trees[0].view = Some("0".to_owned());
    }
    Some(Structure::Trees(trees))
}

/// The tree of the view that a message starts.
fn of_view(setup: &Setup, header: &Header, message: &Message) -> Option<Hung> {
    if message.kind != "view" {
        return None;
    }
    let id = |name: &str| {
        let place = header.processes.iter().position(|process| process == name);
        place.map(NodeId::from)
    };
    let field = |name: &str| message.fields.get(name);
    let members = field("members")?.trim_start_matches('[').trim_end_matches(']');
    let members: Option<Vec<_>> = members.split(", ").map(id).collect();
    let members = members?;
    // Given edges have no form for fewer processes.
    let nodes = Setup { nodes: u32::try_from(members.len()).ok()?, ..setup.clone() };
    let edges =
        edges(&setup.topology, &members).or_else(|| edges(&nodes.fallback().topology, &members))?;
    let (view, root) = (field("view").map(str::to_owned), id(field("holder")?)?);
    Some(Hung { view, edges, root })
}

/// The edges of a tree of this form among these processes.
fn edges(form: &Topology, members: &[NodeId]) -> Option<Vec<(NodeId, NodeId)>> {
    let nodes = u32::try_from(members.len()).ok()?;
    let tree = Tree::new(form, nodes).ok()?;
    let upwards = |node: NodeId| {
        let higher = tree.neighbours(node).filter(move |other| *other > node);
        higher.map(move |other| (members[node.index()], members[other.index()]))
    };
    Some((0..nodes).map(NodeId).flat_map(upwards).collect())
}
