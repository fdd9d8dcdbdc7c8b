//! Who stands for election: every algorithm that fits, on every structure that suits the situation.

use mutua_algorithms::{
    About, Claim, Kind, Links, NodeId, QuorumKind, Quorums, Setup, Structure, Topology, registry,
};
use serde::Serialize;

use super::Situation;
use crate::{parallel, size};

/// An algorithm on a structure.
pub(super) struct Candidate {
    pub(super) about: &'static About,
    /// What is chosen beside the algorithm: a tree, quorums, where the coordinator stands.
    pub(super) variant: String,
    pub(super) setup: Setup,
}

/// An algorithm that does not fit, and why.
#[derive(Serialize)]
pub(super) struct Excluded {
    pub(super) algorithm: &'static str,
    pub(super) why: String,
}

/// All candidates, and who is none.
pub(super) fn all(situation: &Situation) -> (Vec<Candidate>, Vec<Excluded>) {
    let (mut candidates, mut excluded) = (Vec::new(), Vec::new());
    for about in registry::ALGORITHMS.iter().copied().filter(|about| about.kind == Kind::Mutex) {
        match unfit(about, situation) {
            Some(why) => excluded.push(Excluded { algorithm: about.name, why }),
            None => {
                let all = variants(about, situation);
                let (large, fit): (Vec<_>, Vec<_>) = all.into_iter().partition(is_too_large);
                if fit.is_empty() && !large.is_empty() {
                    let why = format!("{} processes do not fit into memory", situation.nodes);
                    excluded.push(Excluded { algorithm: about.name, why });
                }
                candidates.extend(fit);
            }
        }
    }
    (candidates, excluded)
}

fn is_too_large(candidate: &Candidate) -> bool {
    size::refusal(candidate.about, &candidate.setup, parallel::workers()).is_some()
}

fn unfit(about: &About, situation: &Situation) -> Option<String> {
    if about.control {
        return Some("kept to be found broken".to_owned());
    }
    if situation.ordered && !about.claims.contains(&Claim::Ordering) {
        return Some(format!(
            "its order of entry is not that of the requests (EM3): {}",
            about.order
        ));
    }
    if !situation.network.fifo && about.links == Links::Fifo {
        return Some("needs links that keep the order of messages".to_owned());
    }
    None
}

fn variants(about: &'static About, situation: &Situation) -> Vec<Candidate> {
    let plain = || Setup::new(situation.nodes);
    let make = |variant: &str, setup| Candidate { about, variant: variant.to_owned(), setup };
    match about.structure {
        Structure::Tree => trees(situation)
            .into_iter()
            .map(|(name, topology)| make(name, Setup { topology, ..plain() }))
            .collect(),
        Structure::Quorums => quorums(situation.nodes)
            .into_iter()
            .map(|(name, quorums)| make(name, Setup { quorums, ..plain() }))
            .collect(),
        Structure::Complete if takes_a_coordinator(about) => {
            coordinators(situation).into_iter().map(|(name, setup)| make(&name, setup)).collect()
        }
        Structure::Complete | Structure::Ring | Structure::Sets => vec![make("", plain())],
    }
}

/// Raymond's and Neilsen-Mizuno's trees. Over regions, a hub in each keeps the traffic in it.
fn trees(situation: &Situation) -> Vec<(&'static str, Topology)> {
    let mut trees = vec![("star", Topology::Star), ("binary tree", Topology::Binary)];
    if situation.has_regions() {
        trees.push(("a star in every region", Topology::Edges(hubs(situation))));
    }
    trees
}

fn hubs(situation: &Situation) -> Vec<(NodeId, NodeId)> {
    let hubs = situation.hubs();
    let between = hubs.iter().skip(1).map(|&hub| (NodeId(hubs[0]), NodeId(hub)));
    let within = hubs.iter().zip(&situation.regions).flat_map(|(&hub, &size)| {
        (hub + 1..hub + size).map(move |node| (NodeId(hub), NodeId(node)))
    });
    between.chain(within).collect()
}

fn quorums(nodes: u32) -> Vec<(&'static str, QuorumKind)> {
    let kinds =
        [("grid", QuorumKind::Grid), ("plane", QuorumKind::Plane), ("tree", QuorumKind::Tree)];
    kinds.into_iter().filter(|(_, kind)| Quorums::new(*kind, nodes).is_ok()).collect()
}

fn takes_a_coordinator(about: &About) -> bool {
    about.options.iter().any(|option| option.key == "coordinator")
}

/// One of the contenders coordinates; over regions, one of each is tried.
fn coordinators(situation: &Situation) -> Vec<(String, Setup)> {
    let member = |node| {
        let mut setup = Setup::new(situation.nodes).with("coordinator", "member");
        setup.coordinator = NodeId(node);
        setup
    };
    if !situation.has_regions() {
        let dedicated = Setup::new(situation.nodes).with("coordinator", "dedicated");
        return vec![
            ("dedicated coordinator".to_owned(), dedicated),
            ("a contender coordinates".to_owned(), member(0)),
        ];
    }
    let hubs = (1..).zip(situation.hubs());
    hubs.map(|(number, hub)| (format!("coordinator in region {number}"), member(hub))).collect()
}
