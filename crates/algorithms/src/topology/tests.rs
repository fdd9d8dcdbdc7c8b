use std::collections::VecDeque;

use super::*;

/// Distances from `from`, by walking the edges: the dumb way that the tree is compared with.
fn distances(tree: &Tree, from: NodeId) -> Vec<u32> {
    let mut distance = vec![u32::MAX; tree.nodes() as usize];
    distance[from.index()] = 0;
    let mut queue = VecDeque::from([from]);
    while let Some(node) = queue.pop_front() {
        for next in tree.neighbours(node) {
            if distance[next.index()] == u32::MAX {
                distance[next.index()] = distance[node.index()] + 1;
                queue.push_back(next);
            }
        }
    }
    distance
}

fn agrees_with_a_walk(tree: &Tree) {
    let nodes = tree.nodes();
    let all: Vec<_> = (0..nodes).map(|node| distances(tree, NodeId(node))).collect();
    for from in (0..nodes).map(NodeId) {
        let neighbours: Vec<_> = tree.neighbours(from).collect();
        assert_eq!(neighbours.len(), tree.degree(from) as usize);
        for to in (0..nodes).map(NodeId) {
            let distance = all[from.index()][to.index()];
            assert_eq!(tree.distance(from, to), distance, "{from} to {to}");
            assert_eq!(tree.are_adjacent(from, to), distance == 1, "{from} to {to}");
            let index = neighbours.iter().position(|&neighbour| neighbour == to);
            assert_eq!(tree.neighbour_index(from, to), index.map(|index| NodeId::from(index).0));
            let hop = tree.next_hop(from, to);
            if from == to {
                assert_eq!(hop, from);
            } else {
                assert!(neighbours.contains(&hop), "{from} to {to} by {hop}");
                assert_eq!(all[hop.index()][to.index()] + 1, distance, "{from} to {to} by {hop}");
            }
        }
    }
    assert_eq!(tree.diameter(), all.iter().flatten().copied().max().unwrap_or(0));
}

#[test]
fn every_shape_agrees_with_a_walk_along_its_edges() {
    let shapes = [Topology::Line, Topology::Star, Topology::Binary, Topology::Kary(3)];
    for nodes in (1..=20).chain([63, 64, 65]) {
        for shape in &shapes {
            agrees_with_a_walk(&Tree::new(shape, nodes).unwrap());
        }
    }
}

#[test]
fn trees_of_shuffled_edges_agree_with_a_walk_along_their_edges() {
    // Process `names[i]` hangs below one of those before it, chosen by a linear congruence.
    let mut seed = 1_u64;
    let mut draw = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    for nodes in 2..40_usize {
        let mut names: Vec<_> = (0..nodes).map(NodeId::from).collect();
        for last in (1..nodes).rev() {
            names.swap(last, draw(last + 1));
        }
        let mut edges: Vec<_> = (1..nodes).map(|at| (names[at], names[draw(at)])).collect();
        edges.reverse();
        agrees_with_a_walk(&Tree::new(&Topology::Edges(edges), nodes as u32).unwrap());
    }
}

#[test]
fn shapes_have_the_edges_that_their_names_promise() {
    let neighbours = |shape: &Topology, node| {
        let tree = Tree::new(shape, 7).unwrap();
        tree.neighbours(NodeId(node)).map(|node| node.0).collect::<Vec<_>>()
    };
    assert_eq!(neighbours(&Topology::Line, 3), [2, 4]);
    assert_eq!(neighbours(&Topology::Star, 0), [1, 2, 3, 4, 5, 6]);
    assert_eq!(neighbours(&Topology::Binary, 2), [0, 5, 6]);
    assert_eq!(neighbours(&Topology::Kary(3), 1), [0, 4, 5, 6]);
    let diameter = |shape, nodes| Tree::new(&shape, nodes).unwrap().diameter();
    assert_eq!(diameter(Topology::Line, 7), 6);
    assert_eq!(diameter(Topology::Star, 7), 2);
    assert_eq!(diameter(Topology::Binary, 7), 4);
}

#[test]
fn edges_that_are_no_tree_are_refused_with_the_reason() {
    let refusal = |nodes, edges: &[(u32, u32)]| {
        let edges = edges.iter().map(|&(a, b)| (NodeId(a), NodeId(b))).collect();
        Tree::new(&Topology::Edges(edges), nodes).unwrap_err().to_string()
    };
    let cycle = refusal(4, &[(0, 1), (1, 2), (2, 0), (2, 3)]);
    assert!(cycle.contains("the edge 2-0 closes a cycle"), "{cycle}");
    let twice = refusal(3, &[(0, 1), (1, 0), (1, 2)]);
    assert!(twice.contains("the edge 1-0 closes a cycle"), "{twice}");
    let apart = refusal(4, &[(0, 1), (2, 3)]);
    assert!(apart.contains("process 2 is not reached from process 0"), "{apart}");
    let stranger = refusal(3, &[(0, 1), (1, 3)]);
    assert!(stranger.contains("the edge 1-3 leads to process 3"), "{stranger}");
    assert!(stranger.contains("0 to 2"), "{stranger}");
    let itself = refusal(3, &[(0, 1), (2, 2)]);
    assert!(itself.contains("the edge 2-2 leads from a process to itself"), "{itself}");
    assert!(Tree::new(&Topology::Kary(0), 3).is_err());
    assert!(Tree::new(&Topology::Edges(Vec::new()), 1).is_ok());
}

#[test]
fn an_unknown_process_is_adjacent_to_none() {
    let tree = Tree::new(&Topology::Star, 3).unwrap();
    assert!(!tree.are_adjacent(NodeId(0), NodeId(3)));
    assert!(!tree.are_adjacent(NodeId(7), NodeId(0)));
    assert!(!tree.are_adjacent(NodeId(0), NodeId(0)));
    assert_eq!(tree.neighbour_index(NodeId(0), NodeId(3)), None);
}

#[test]
fn a_line_of_a_million_is_crossed_without_walking_it() {
    let tree = Tree::new(&Topology::Line, 1_000_000).unwrap();
    let (middle, last) = (NodeId(500_000), NodeId(999_999));
    for _ in 0..100_000 {
        assert_eq!(tree.distance(middle, last), 499_999);
        assert_eq!(tree.next_hop(middle, last), NodeId(500_001));
    }
    assert_eq!(tree.diameter(), 999_999);
}

#[test]
fn only_a_renaming_that_keeps_all_neighbours_keeps_a_tree() {
    let line = Tree::new(&Topology::Line, 4).unwrap();
    let is_kept = |names: [u32; 4]| {
        line.is_kept_by(&Renaming::new(names.map(NodeId).to_vec()).expect("a permutation"))
    };
    assert!(is_kept([0, 1, 2, 3]));
    assert!(is_kept([3, 2, 1, 0]), "from the other end");
    assert!(!is_kept([1, 0, 2, 3]), "0 and 2 are no neighbours");
    assert!(!is_kept([1, 2, 3, 0]), "0 and 3 are no neighbours");
}
