//! The candidates: every algorithm that fits, on every structure that suits the situation.

use mutua_algorithms::{
    About, Claim, Kind, Links, NodeId, QuorumKind, Quorums, Setup, Structure, Topology, registry,
};
use mutua_simulator::Who;
use serde::Serialize;

use super::{Situation, rank::RankError, repaired};
use crate::size::{self, Run, TooLarge};

/// An algorithm on a structure.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The algorithm.
    pub about: &'static About,
    /// The choices beside the algorithm: a tree, quorums, the place of the coordinator.
    pub variant: String,
    /// The system to simulate.
    pub setup: Setup,
}

/// An algorithm that does not fit the situation.
#[derive(Clone, Debug, Serialize)]
pub struct Excluded {
    /// The algorithm.
    pub algorithm: &'static str,
    /// The reason, as a part of a sentence.
    pub why: String,
    /// Whether it is a negative control.
    #[serde(skip)]
    pub is_control: bool,
}

/// All candidates, and the algorithms that are excluded.
/// All of them are measured in at most so many bytes of memory.
pub(super) fn all(
    situation: &Situation,
    memory: u64,
) -> Result<(Vec<Candidate>, Vec<Excluded>), RankError> {
    let (mut candidates, mut excluded) = (Vec::new(), Vec::new());
    let mut too_large: Option<TooLarge> = None;
    for about in registry::ALGORITHMS.iter().copied().filter(|about| about.kind == Kind::Mutex) {
        match unfit(about, situation) {
            Some(why) => excluded.push(Excluded::new(about, why)),
            // Trees and quorums of too many processes are not even made.
            None => match situation.fits(about, memory) {
                Ok(()) => candidates.extend(variants(about, situation)),
                Err(large) => {
                    let why = format!("{} processes do not fit into memory", situation.nodes);
                    excluded.push(Excluded::new(about, why));
                    if too_large.as_ref().is_none_or(|known| known.most < large.most) {
                        too_large = Some(large);
                    }
                }
            },
        }
    }
    match too_large {
        Some(large) if candidates.is_empty() => Err(RankError::TooLarge(large)),
        _ if candidates.is_empty() => Err(RankError::NoneFits),
        _ => Ok((candidates, excluded)),
    }
}

impl Situation {
    /// Whether an algorithm on its usual structure fits into so many bytes, also with the repair of
    /// a crash where there is one.
    fn fits(&self, about: &About, memory: u64) -> Result<(), TooLarge> {
        let senders = if let Who::Hot(count) = self.workload.who { count } else { u32::MAX };
        let setup = Setup::new(self.nodes);
        size::check(about, &setup, Run::Plain { sections: 1, senders }, memory)?;
        match self.has_repairs() {
            true => size::check(about, &setup, repaired::RUN, memory),
            false => Ok(()),
        }
    }
}

impl Excluded {
    fn new(about: &About, why: String) -> Self {
        Self { algorithm: about.name, why, is_control: about.control }
    }
}

impl Candidate {
    /// The algorithm and, if there are several variants, the variant.
    pub fn title(&self) -> String {
        match self.variant.as_str() {
            "" => self.about.name.to_owned(),
            variant => format!("{} ({variant})", self.about.name),
        }
    }

    /// The rule in a node's configuration that selects it. Nodes have no dedicated coordinator.
    pub fn rule(&self) -> String {
        let mut rule = format!("[[locks]]\nnames = \"*\"\nalgorithm = \"{}\"\n", self.about.name);
        let settings = self.setup.settings.iter().filter(|(key, _)| *key != "coordinator");
        let settings: Vec<_> =
            settings.map(|(key, value)| format!("{key} = \"{value}\"")).collect();
        if !settings.is_empty() {
            rule += &format!("with = {{ {} }}\n", settings.join(", "));
        }
        match (self.about.structure, &self.setup.topology) {
            (Structure::Tree, Topology::Edges(edges)) => {
                let edges: Vec<_> = edges.iter().map(|(a, b)| format!("[{a}, {b}]")).collect();
                rule += &format!("topology = [{}]\n", edges.join(", "));
            }
            (Structure::Tree, shape) => rule += &format!("topology = \"{}\"\n", shape.name()),
            (Structure::Quorums, _) => {
                rule += &format!("quorums = \"{}\"\n", self.setup.quorums.name());
            }
            (Structure::Complete | Structure::Ring | Structure::Sets, _) => {}
        }
        rule
    }
}

fn unfit(about: &About, situation: &Situation) -> Option<String> {
    if about.control {
        return Some("a negative control".to_owned());
    }
    if situation.ordered && !about.claims.contains(&Claim::Ordering) {
        return Some(format!("it does not claim ordering: {}", about.order));
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
            .map(|(name, topology)| make(&name, Setup { topology, ..plain() }))
            .collect(),
        Structure::Quorums => quorums(situation.nodes)
            .into_iter()
            .map(|quorums| make(quorums.name(), Setup { quorums, ..plain() }))
            .collect(),
        Structure::Complete if takes_a_coordinator(about) => {
            coordinators(situation).into_iter().map(|(name, setup)| make(&name, setup)).collect()
        }
        Structure::Complete | Structure::Ring | Structure::Sets => vec![make("", plain())],
    }
}

/// The trees to try. Over several regions, a hub in each region keeps traffic local.
fn trees(situation: &Situation) -> Vec<(String, Topology)> {
    let (star, binary) = (Topology::Star, Topology::Binary);
    let mut trees =
        vec![(star.name().into_owned(), star), (format!("{} tree", binary.name()), binary)];
    if situation.has_regions() {
        let name = format!("a {} in every region", Topology::Star.name());
        trees.push((name, Topology::Edges(hubs(situation))));
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

fn quorums(nodes: u32) -> Vec<QuorumKind> {
    let kinds = [QuorumKind::Grid, QuorumKind::Plane, QuorumKind::Tree];
    kinds.into_iter().filter(|&kind| Quorums::new(kind, nodes).is_ok()).collect()
}

fn takes_a_coordinator(about: &About) -> bool {
    about.options.iter().any(|option| option.key == "coordinator")
}

/// The coordinators to try: a contender or a dedicated one; over several regions, one of each.
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
            ("a contender as coordinator".to_owned(), member(0)),
        ];
    }
    let hubs = (1..).zip(situation.hubs());
    hubs.map(|(number, hub)| (format!("coordinator in region {number}"), member(hub))).collect()
}
