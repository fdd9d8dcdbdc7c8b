//! The systems that are tried: every variant of an algorithm, with random sizes and structures.

use std::fmt;

use mutua_algorithms::{
    About, Links, Mutex, NodeId, QuorumKind, Settings, Setup, Start, Topology, split_mix::Dice,
};

/// Every combination of the named values of an algorithm's options.
pub(crate) fn variants(about: &About) -> Vec<Settings> {
    about.options.iter().fold(vec![Settings::default()], |known, choice| {
        let with = |settings: &Settings, value| {
            let mut settings = settings.clone();
            settings.set(choice.key, value);
            settings
        };
        let values = choice.values.iter();
        values.flat_map(|value| known.iter().map(|known| with(known, value.name))).collect()
    })
}

/// One run: all that happens in it follows from this.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) settings: Settings,
    pub(crate) links: Links,
    pub(crate) seed: u64,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        for (key, value) in self.settings.iter() {
            write!(f, " {key}={value}")?;
        }
        write!(f, ", links {:?}, seed {}", self.links, self.seed)
    }
}

impl Case {
    /// How many processes: mostly few, where the races are; sometimes many, up to 50.
    pub(crate) fn size(&self, dice: &mut Dice) -> u32 {
        match self.seed % 32 {
            31 => 50,
            30 => dice.within(20, 50),
            27..30 => dice.within(6, 20),
            _ => dice.within(1, 5),
        }
    }

    /// The system, begun in the critical section or idle; with a structure by the dice where one is
    /// needed.
    pub(crate) fn setup<M: Mutex>(&self, dice: &mut Dice) -> Setup {
        let nodes = self.size(dice);
        let mut setup = Setup::new(nodes);
        setup.settings = self.settings.clone();
        setup.holder = any_node(nodes, dice);
        setup.coordinator = any_node(nodes, dice);
        setup.in_cs = dice.one_in(2);
        setup.topology = topology(nodes, dice);
        let kinds = [QuorumKind::Grid, QuorumKind::Majority, QuorumKind::Tree, QuorumKind::Plane];
        setup.quorums = *dice.pick(&kinds);
        // Planes and trees are not to be had for every number; a grid is.
        if setup.start::<M>().is_err() {
            setup.quorums = QuorumKind::Grid;
        }
        setup
    }

    pub(crate) fn start<M: Mutex>(&self, setup: &Setup) -> Start {
        setup.start::<M>().unwrap_or_else(|error| panic!("{self}: {error}"))
    }
}

fn any_node(nodes: u32, dice: &mut Dice) -> NodeId {
    NodeId::from(dice.index(nodes as usize))
}

fn topology(nodes: u32, dice: &mut Dice) -> Topology {
    match dice.index(5) {
        0 => Topology::Line,
        1 => Topology::Star,
        2 => Topology::Binary,
        3 => Topology::Kary(3),
        _ => Topology::Edges(
            (1..nodes).map(|child| (any_node(child, dice), NodeId(child))).collect(),
        ),
    }
}
