//! Merging states and leaving out orders of steps changes no verdict: every algorithm and control,
//! every variant, links of both kinds, faults and timers, with and without.
//!
//! Systems that are too large here are compared by `mutua check --all --deep`.

use std::collections::BTreeMap;

use mutua_algorithms::{About, Kind, Links, Setup, registry};
use mutua_checker::{
    Faults, Limits, NoClock, Reduction, Report, Search, System, Task, Timers, check, checkable,
};

/// More states than this are for the deep table.
const MOST: u64 = 30_000;

/// An algorithm as it is, and each of its variants.
fn setups(about: &About, nodes: u32) -> Vec<Setup> {
    let mut setups = vec![Setup::new(nodes)];
    for choice in about.options.iter().filter(|choice| choice.key != "daemon") {
        for variant in &choice.values[1..] {
            let mut setup = Setup::new(nodes);
            setup.settings.set(choice.key, variant.name);
            setups.push(setup);
        }
    }
    setups
}

fn faults(kind: Kind) -> Vec<Faults> {
    let none = Faults::default();
    let mut faults = vec![none, Faults { crashes: 1, ..none }, Faults { losses: 1, ..none }];
    match kind {
        Kind::Mutex => faults.push(Faults { duplicates: 1, ..none }),
        Kind::Election => faults.push(Faults { crashes: 1, restarts: 1, ..none }),
    }
    faults
}

fn systems(about: &About) -> Vec<System> {
    let mut systems = Vec::new();
    for (nodes, entries) in [(2, 1), (2, 2), (3, 1)] {
        for setup in setups(about, nodes) {
            for links in [Links::Fifo, Links::Any] {
                for faults in faults(about.kind) {
                    for timers in [Timers::Bounded, Timers::Any] {
                        if about.kind == Kind::Mutex && timers == Timers::Any {
                            continue;
                        }
                        let mut system = System::new(setup.clone(), entries);
                        system.links = Some(links);
                        system.faults = faults;
                        system.timers = timers;
                        systems.push(system);
                    }
                }
            }
        }
    }
    systems
}

fn run(about: &About, system: &System, reduction: Reduction) -> Option<Report> {
    let task = Task {
        name: about.name.to_owned(),
        system: system.clone(),
        properties: Some(checkable(about.kind).to_vec()),
        reduction,
        limits: Limits { states: Some(MOST), threads: 1, ..Limits::default() },
        first: false,
        walks: None,
        invariants: Vec::new(),
    };
    // A variant that needs more than its name (a file of sets) does not start.
    check(&task, &mut NoClock).ok()
}

fn is_whole(report: &Report) -> bool {
    report.searches.iter().all(|search| !search.is_limited())
}

fn verdicts(report: &Report) -> Vec<(String, Option<bool>, Option<usize>)> {
    let steps = |verdict: &mutua_checker::Verdict| verdict.trail.as_ref().map(|t| t.steps.len());
    report
        .verdicts
        .iter()
        .map(|verdict| (verdict.name.to_string(), verdict.holds, steps(verdict)))
        .collect()
}

/// How many systems were compared, in how many a property is violated, and in how many the
/// reduction left something out; and how often each property was violated under each reduction.
#[derive(Debug, Default)]
struct Tally {
    compared: u32,
    violated: u32,
    smaller: u32,
    by: BTreeMap<(&'static str, String), u32>,
}

impl Tally {
    /// A comparison without violations would show little.
    fn assert_enough(&self) {
        assert!(self.compared > 200 && self.violated > 100 && self.smaller > 20, "{self:?}");
        for property in ["deadlock-free", "fencing", "ordering", "bounded-bypass"] {
            assert!(self.by.contains_key(&("orders", property.to_owned())), "{property}: {self:?}");
        }
        assert!(self.by.contains_key(&("symmetry", "deadlock-free".to_owned())), "{self:?}");
    }

    fn count(&mut self, report: &Report) {
        for verdict in report.verdicts.iter().filter(|verdict| verdict.holds == Some(false)) {
            let of_it = |search: &&Search| search.properties.contains(&verdict.name);
            for used in report.searches.iter().filter(of_it).flat_map(|s| &s.reductions) {
                let known = ["shifts", "symmetry", "orders"];
                for how in known.into_iter().filter(|how| used.starts_with(how)) {
                    *self.by.entry((how, verdict.name.to_string())).or_default() += 1;
                }
            }
        }
    }
}

fn compare(algorithms: impl Iterator<Item = &'static About>) -> Tally {
    let mut tally = Tally::default();
    for about in algorithms {
        for system in systems(about) {
            let Some(all) = run(about, &system, Reduction::None).filter(is_whole) else { continue };
            let merged = run(about, &system, Reduction::All).expect("it starts");
            assert_eq!(verdicts(&merged), verdicts(&all), "{}: {system:?}", about.name);
            tally.compared += 1;
            tally.violated += u32::from(all.is_violated());
            tally.count(&merged);
            let fewer = |(merged, all): (&Search, &Search)| {
                // A search that ends where it finds something may find it later: what is left out
                // may be the shortest way there.
                let whole = merged.stopped.is_none() && all.stopped.is_none();
                assert!(merged.states <= all.states || !whole, "{}: {system:?}", about.name);
                merged.states < all.states
            };
            tally.smaller += u32::from(merged.searches.iter().zip(&all.searches).any(fewer));
        }
    }
    tally
}

fn half(index: usize) -> impl Iterator<Item = &'static About> {
    let all = registry::ALGORITHMS.iter().copied().enumerate();
    all.filter(move |(other, _)| other % 2 == index).map(|(_, about)| about)
}

// Two tests, for two cores.

#[test]
fn no_verdict_is_lost_by_merging_in_one_half_of_the_algorithms() {
    let tally = compare(half(0));
    println!("{tally:?}");
    tally.assert_enough();
}

#[test]
fn no_verdict_is_lost_by_merging_in_the_other_half() {
    let tally = compare(half(1));
    println!("{tally:?}");
    tally.assert_enough();
}
