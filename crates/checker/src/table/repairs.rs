//! The repairs: a crash at any point, with both elections, and with the restart of the crashed
//! process; and the negative controls, which show where a repair is not enough.
//!
//! As in the table of controls, algorithms are named here: how large a system may be so that all of
//! them take minutes is a finding of this checker.

use mutua_algorithms::{
    About, Claim, Kind, Links, Mutex, NodeId, Setup, SpecialRepair, Structure, registry,
    repairs::ElectionName,
};

use super::{Row, controls::control, plain};
use crate::system::{Detector, Faults, Repair, System, Timers};

/// Every process exchanges messages with all others for an entry: the largest searches.
const LARGE: [&str; 3] = ["lamport", "ricart-agrawala", "bakery"];

/// The smallest searches: more processes and more crashes fit.
const SMALL: [&str; 3] = ["raymond", "naimi-trehel", "neilsen-mizuno"];

/// One row for each algorithm, kind of repair and election.
pub(super) fn rows() -> Vec<Row> {
    let mutexes = registry::ALGORITHMS.iter().filter(|about| about.kind == Kind::Mutex);
    let mut rows = Vec::new();
    for about in mutexes.filter(|about| !about.control) {
        let most = contenders(about);
        let (bully, ring) = (generic(ElectionName::Bully), generic(ElectionName::ChangRoberts));
        rows.push(Case::crash(bully).contenders(most).row(about));
        rows.push(Case::crash(ring).contenders(most).row(about));
        rows.push(Case::crash(bully).restart().fifo().contenders(1).row(about));
        let on_ring = about.structure == Structure::Ring;
        let most = if on_ring || LARGE.contains(&about.name) { 1 } else { 2 };
        rows.push(Case::crash(ring).restart().contenders(most).row(about));
        if SMALL.contains(&about.name) {
            rows.push(Case::crash(ring).crashes(2).row(about));
            rows.push(Case::crash(ring).nodes(4).contenders(2).row(about));
        }
        rows.extend(special(about));
    }
    rows
}

/// How many processes may contend where one crashes.
fn contenders(about: &About) -> u32 {
    match about.name {
        "bakery" => 1,
        "lamport" => 2,
        _ => 3,
    }
}

/// The algorithm's own repair. What goes round on a ring for ever makes the most states.
fn special(about: &About) -> Option<Row> {
    let repair = Repair { special: true, ..Repair::default() };
    match registry::visit_mutex(about.name, Special(about.name))? {
        SpecialRepair::None => None,
        SpecialRepair::CloseRing { .. } => {
            Some(Case::crash(repair).fifo().contenders(1).row(about))
        }
        SpecialRepair::TakeOut | SpecialRepair::Takeover => {
            let contenders = if about.name == "bakery" { 1 } else { 3 };
            Some(Case::crash(repair).contenders(contenders).row(about))
        }
    }
}

struct Special(&'static str);

impl registry::MutexVisitor for Special {
    type Output = SpecialRepair;

    fn visit<M: Mutex>(self) -> SpecialRepair {
        let start = Setup::new(3).of(self.0).start::<M>();
        M::special_repair(&start.expect("every algorithm runs with three processes"))
    }
}

fn generic(election: ElectionName) -> Repair {
    Repair { election, ..Repair::default() }
}

/// A system with a repair, one entry of each contender.
#[derive(Clone, Copy, Debug)]
struct Case {
    repair: Repair,
    nodes: u32,
    contenders: u32,
    crashes: u32,
    restarts: u32,
    fifo: bool,
}

impl Case {
    fn crash(repair: Repair) -> Self {
        Self { repair, nodes: 3, contenders: 3, crashes: 1, restarts: 0, fifo: false }
    }

    fn restart(self) -> Self {
        Self { restarts: 1, ..self }
    }

    fn crashes(self, crashes: u32) -> Self {
        Self { crashes, ..self }
    }

    fn nodes(self, nodes: u32) -> Self {
        Self { nodes, ..self }
    }

    fn contenders(self, contenders: u32) -> Self {
        Self { contenders, ..self }
    }

    /// With links that keep order, also where the algorithm needs none.
    fn fifo(self) -> Self {
        Self { fifo: true, ..self }
    }

    fn row(self, about: &About) -> Row {
        let mut task = plain(about, self.nodes, 1, &[]);
        task.properties = None;
        self.set(about, &mut task.system);
        Row::holds(self.title(), vec![task])
    }

    fn set(self, about: &About, system: &mut System) {
        system.repair = Some(self.repair);
        let (crashes, restarts) = (self.crashes, self.restarts);
        system.faults = Faults { crashes, restarts, ..Faults::default() };
        if about.options.iter().any(|option| option.key == "coordinator") {
            // A dedicated coordinator would be another process.
            system.setup.settings.set("coordinator", "member");
        }
        if self.contenders < self.nodes {
            system.contenders = Some((0..self.contenders).map(NodeId).collect());
        }
        if self.fifo {
            system.links = Some(Links::Fifo);
        }
    }

    fn title(self) -> String {
        let kind = match (self.repair.special, self.repair.election) {
            (true, _) => "special repair",
            (false, ElectionName::Bully) => "repair with bully",
            (false, ElectionName::ChangRoberts) => "repair with chang-roberts",
            (false, ElectionName::Invitation) => "repair with invitation",
        };
        let mut title = format!("{kind}: {} processes", self.nodes);
        if self.contenders < self.nodes {
            title += &format!(", {} contend{}", self.contenders, plural_verb(self.contenders));
        }
        title += match self.crashes {
            1 => ", 1 crash",
            _ => ", 2 crashes",
        };
        if self.restarts > 0 {
            title += ", 1 restart";
        }
        if self.fifo {
            title += ", FIFO";
        }
        title
    }
}

fn plural_verb(count: u32) -> &'static str {
    if count == 1 { "s" } else { "" }
}

/// Repairs whose detector is wrong, or whose messages do not name their view.
pub(super) fn controls() -> Vec<Row> {
    let wrong = |election| Repair { detector: Detector::Timeout, ..generic(election) };
    let suspicion = |name, election, title| {
        control(name, 3, Claim::MutualExclusion, title, move |system| {
            system.repair = Some(wrong(election));
        })
    };
    vec![
        suspicion(
            "suzuki-kasami",
            ElectionName::Bully,
            "repair with bully: a partition, both sides elect",
        ),
        suspicion(
            "suzuki-kasami",
            ElectionName::ChangRoberts,
            "repair with chang-roberts: a partition, both sides elect",
        ),
        control(
            "central",
            3,
            Claim::Agreement,
            "repair with bully: a slow coordinator is reported, two coordinate",
            move |system| {
                system.setup.settings.set("coordinator", "member");
                system.repair = Some(wrong(ElectionName::Bully));
            },
        ),
        control(
            "le-lann",
            3,
            Claim::Agreement,
            "special repair: acknowledgements awaited too short, two tokens",
            |system| {
                system.repair = Some(Repair { special: true, ..Repair::default() });
                system.timers = Timers::Any;
            },
        ),
        control(
            "naimi-trehel",
            4,
            Claim::MutualExclusion,
            "repair with bully: messages without their view, an old token",
            |system| {
                system.repair = Some(Repair { without_views: true, ..Repair::default() });
                system.faults = Faults { crashes: 1, ..Faults::default() };
                system.contenders = Some(vec![NodeId(1), NodeId(2)]);
            },
        ),
    ]
}
