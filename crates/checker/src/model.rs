//! A system ready to be explored, whatever its algorithm.

use std::sync::{Mutex as Lock, MutexGuard};

use mutua_algorithms::{
    About, Claim, Election, Kind, Links, Mutex, NodeId, Outbox, Process, Shared, Start, registry,
    repairs::Plan,
};

use crate::{
    actor::{Actor, Client, Elector, Reaction},
    budget::budget,
    catalogue::{AtStart, Catalogue, CatalogueOf, Rules},
    evidence::CheckError,
    ghost::Ghost,
    invariant::{Invariant, Structure},
    repairing::Repairing,
    symmetry::{self, Symmetry},
    system::{Detector, Repair, System, Timers},
};

// The unit tests have a build of this crate of their own. With a type for each algorithm it takes
// two minutes; the handlers are the same with one type for all.
#[cfg(test)]
use mutua_algorithms::registry::visit_any as visit_mutex;
#[cfg(not(test))]
use mutua_algorithms::registry::visit_mutex;

/// A set of properties.
pub(crate) type Properties = u64;

/// The bit of a property in a set.
pub(crate) fn bit(claim: Claim) -> Properties {
    1 << (claim as u16)
}

/// The most invariants of one search: so many bits are left.
pub(crate) const MOST_INVARIANTS: usize = 48;

/// The bit of an invariant, by its place.
pub(crate) fn invariant_bit(place: usize) -> Properties {
    1 << (PANIC.trailing_zeros() as usize + 1 + place)
}

/// The bits of a set, one by one.
pub(crate) fn each(properties: Properties) -> impl Iterator<Item = Properties> {
    (0..Properties::BITS).map(|index| 1 << index).filter(move |&bit| properties & bit != 0)
}

/// The bit for code that panicked.
pub(crate) const PANIC: Properties = 1 << 15;

/// The most processes that can be searched: sets of them are 16-bit words, and all of them are one
/// less than a power of two.
pub const MOST_PROCESSES: usize = 15;

/// The start of a system, and the catalogue of its situations.
///
/// A state is an array of numbers: for each process its situation, for each the outbox with what it
/// has sent and what has not arrived, and last, where something can go wrong, how much of it may.
pub(crate) struct Model {
    pub(crate) about: &'static About,
    pub(crate) processes: usize,
    pub(crate) start: Vec<u32>,
    pub(crate) ghost: Ghost,
    pub(crate) timers: Timers,
    /// When crashes are reported to a repair.
    pub(crate) detector: Detector,
    /// Whether there is a repair, whose views set the clocks.
    pub(crate) repaired: bool,
    /// Whether a state is one with all that differ from it by a shift of all clocks.
    pub(crate) shift: bool,
    /// The renamings of processes that change nothing; a state is one with all that they make of
    /// it.
    pub(crate) symmetries: Vec<Symmetry>,
    /// Whether of steps that commute some orders are left out.
    pub(crate) partial_order: bool,
    /// Whether every step but the first in a fixed order costs delays.
    pub(crate) delayed: bool,
    /// Whether the last number of a state is a budget.
    pub(crate) has_budget: bool,
    /// Whether only the highest that is up can be the right coordinator.
    pub(crate) highest_wins: bool,
    /// Judged in every state.
    pub(crate) invariants: Vec<Invariant>,
    /// The tree and the quorums, for invariants.
    pub(crate) structure: Structure,
    catalogue: Lock<Box<dyn Catalogue>>,
}

/// How a model is built from a system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Build {
    pub(crate) ghost: Ghost,
    /// Merge states that differ by a shift of all clocks.
    pub(crate) shift: bool,
    /// Merge states that differ by names, where names decide nothing.
    pub(crate) symmetry: bool,
    /// Leave out orders of steps that commute.
    pub(crate) partial_order: bool,
    /// How often a step may be put off, if that is limited.
    pub(crate) delays: Option<u32>,
    /// The process at which a message of the application may arrive. ([`Ghost::Stamps`].)
    pub(crate) hearer: Option<NodeId>,
}

impl Build {
    /// Every state counts.
    pub(crate) fn plain(ghost: Ghost) -> Self {
        Self {
            ghost,
            shift: false,
            symmetry: false,
            partial_order: false,
            delays: None,
            hearer: None,
        }
    }
}

impl Model {
    /// The model of a system of the algorithm with this name.
    pub(crate) fn new(name: &str, system: &System, build: Build) -> Result<Self, CheckError> {
        let system = &System { setup: system.setup.clone().of(name), ..system.clone() };
        let made = visit_mutex(name, OfMutex { system, build })
            .or_else(|| registry::visit_election(name, OfElection { system, build }));
        made.unwrap_or_else(|| Err(CheckError::UnknownAlgorithm { name: name.to_owned() }))
    }

    /// The model of a mutual exclusion algorithm, in the registry or not.
    pub(crate) fn of_mutex<M: Mutex>(system: &System, build: Build) -> Result<Self, CheckError> {
        let start = system.setup.start::<M>()?;
        let mut out = Outbox::new();
        let actors = start.all().map(|me| {
            let mut process = Process::<M>::new(me, &start);
            process.begin(&mut out);
            let client = Client::new(process, system.entries_of(me));
            let client = match build.ghost {
                Ghost::Stamps => client.noting(build.hearer == Some(me)),
                Ghost::None | Ghost::Fencing | Ghost::Ordering | Ghost::Bypass => client,
            };
            (client, Reaction::drain(&mut out).sends)
        });
        let mut model = Self::of(system, build, &start, actors.collect())?;
        // Where delays are counted the order of ids decides what is put off.
        if build.symmetry && build.delays.is_none() {
            let alike = |a: NodeId, b: NodeId| system.entries_of(a) == system.entries_of(b);
            model.symmetries = symmetry::group(model.processes, |renaming| {
                start.all().all(|node| alike(node, renaming.of(node)))
                    && M::is_symmetric(&start, renaming)
            });
            model.keep_start();
        }
        // One of the two is enough: which orders are left out may depend on which state stands for
        // its renamings, and the count would depend on which worker is faster.
        model.partial_order &= model.symmetries.is_empty();
        Ok(model)
    }

    /// The model of a mutual exclusion algorithm with a repair. Ids decide the election, and timers
    /// wait for all links, so only clocks are reduced.
    fn of_repair<M: Mutex>(
        system: &System,
        build: Build,
        repair: Repair,
    ) -> Result<Self, CheckError> {
        let plan = Plan::new::<M>(&system.setup, repair.election)?;
        let plan = if repair.without_views { plan.without_view_numbers() } else { plan };
        let plan = if repair.special { plan.with_special() } else { plan };
        let plan = Shared::new(plan);
        // With bounds on transmission a detector is as good as an acknowledgement.
        let acknowledged = system.timers == Timers::Any;
        let actors = plan.start().all().map(|me| {
            let entries = system.entries_of(me);
            let mut actor = Repairing::<M>::new(me, &plan, entries, acknowledged);
            let sends = actor.begin();
            (actor, sends)
        });
        let build = Build { symmetry: false, partial_order: false, ..build };
        Self::of(system, build, plan.start(), actors.collect())
    }

    /// The catalogue, for what no worker has looked up yet.
    pub(crate) fn catalogue(&self) -> MutexGuard<'_, Box<dyn Catalogue>> {
        self.catalogue.lock().expect("no worker panics while it has the catalogue")
    }

    /// Whether some states stand for several.
    pub(crate) fn is_reduced(&self) -> bool {
        self.shift || self.partial_order || !self.symmetries.is_empty()
    }

    /// How states are merged and steps left out, in words.
    pub(crate) fn reductions(&self) -> Vec<String> {
        let mut words = Vec::new();
        if self.shift {
            words.push("shifts of all clocks".to_owned());
        }
        if !self.symmetries.is_empty() {
            words.push(format!("symmetry ({} renamings)", self.symmetries.len() + 1));
        }
        if self.partial_order {
            words.push("orders of steps that commute".to_owned());
        }
        words
    }

    /// Keeps the renamings that map the start to itself: they are a group too.
    fn keep_start(&mut self) {
        let mut symmetries = std::mem::take(&mut self.symmetries);
        symmetries.retain(|symmetry| symmetry.rename(self, &self.start) == self.start);
        self.symmetries = symmetries;
    }

    pub(crate) fn width(&self) -> usize {
        self.start.len()
    }

    fn of<A: Actor>(
        system: &System,
        build: Build,
        start: &Start,
        actors: Vec<AtStart<A>>,
    ) -> Result<Self, CheckError> {
        let about = start.about();
        let processes = actors.len();
        assert!(processes <= MOST_PROCESSES, "a system is judged before its processes are made");
        let app_messages = if build.ghost == Ghost::Ordering { system.app_messages } else { 0 };
        let links = system.links(about);
        let rules = Rules {
            links,
            // The order of pending requests decides how the next view of a repair starts.
            stamps: about.uses_stamps || system.repair.is_some(),
            ghost: build.ghost,
            app_messages: app_messages > 0,
            crashes: system.faults.crashes + system.faults.restarts > 0,
            duplicates: system.faults.duplicates > 0,
            in_cs: start.in_cs(),
        };
        let mut catalogue = CatalogueOf::new(rules, actors);
        let (locals, outboxes) = catalogue.start();
        let mut state: Vec<u32> = locals.iter().map(|local| local.0).collect();
        state.extend(outboxes.iter().map(|outbox| outbox.0));
        let has_budget = app_messages > 0 || !system.faults.is_none() || build.delays.is_some();
        if has_budget {
            state.push(budget(system.faults, app_messages, build.delays.unwrap_or(0))?);
        }
        Ok(Self {
            about,
            processes,
            start: state,
            ghost: build.ghost,
            timers: system.timers,
            detector: system.repair.map_or(Detector::Perfect, |repair| repair.detector),
            repaired: system.repair.is_some(),
            shift: build.shift && (about.uses_stamps || system.repair.is_some()),
            symmetries: Vec::new(),
            // Only where an event at one process does not depend on the others: a timer waits for
            // all links.
            partial_order: build.partial_order
                && links == Links::Fifo
                && about.kind == Kind::Mutex
                && build.delays.is_none(),
            delayed: build.delays.is_some(),
            has_budget,
            highest_wins: true,
            invariants: Vec::new(),
            structure: Structure::of(about, start),
            catalogue: Lock::new(Box::new(catalogue)),
        })
    }
}

struct OfMutex<'a> {
    system: &'a System,
    build: Build,
}

impl registry::MutexVisitor for OfMutex<'_> {
    type Output = Result<Model, CheckError>;

    fn visit<M: Mutex>(self) -> Self::Output {
        match self.system.repair {
            Some(repair) => Model::of_repair::<M>(self.system, self.build, repair),
            None => Model::of_mutex::<M>(self.system, self.build),
        }
    }
}

struct OfElection<'a> {
    system: &'a System,
    build: Build,
}

impl registry::ElectionVisitor for OfElection<'_> {
    type Output = Result<Model, CheckError>;

    fn visit<E: Election>(self) -> Self::Output {
        let start = self.system.setup.start_election::<E>()?;
        let actors = start.all().map(|me| {
            let machine = E::new(me, &start);
            let down = start.is_crashed(me);
            (Elector::new(machine, self.system.entries_of(me), down), Vec::new())
        });
        let mut model = Model::of(self.system, self.build, &start, actors.collect())?;
        model.highest_wins = E::takes_over(&start) || self.system.faults.restarts == 0;
        Ok(model)
    }
}
