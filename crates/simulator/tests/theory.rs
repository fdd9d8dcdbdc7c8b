//! Every formula against the measurement, at constant latency: exact where the formula is exact,
//! else within 2 % over five seeds.

use mutua_algorithms::{Kind, QuorumKind, Setup, Topology, registry};
use mutua_simulator::{
    Distribution, Expected, Interval, Meaning, Network, Plan, Report, Theory, TheoryLoad, Workload,
    simulate, theory,
};

const T: u64 = 1_000_000;
const SIZES: [u32; 5] = [3, 5, 10, 31, 100];
const LOADS: [TheoryLoad; 2] = [TheoryLoad::Light, TheoryLoad::Saturated];

/// A formula and the measure it speaks of.
type Row = (&'static str, fn(&Theory) -> Option<&Expected>, fn(&Report) -> Option<f64>);

const ROWS: [Row; 4] = [
    ("messages", |theory| theory.messages.as_ref(), |report| Some(report.messages_per_entry)),
    ("multicasts", |theory| theory.multicasts.as_ref(), |report| Some(report.multicasts_per_entry)),
    ("client delay", |theory| theory.client_delay.as_ref(), |report| report.client_delay),
    ("sync delay", |theory| theory.sync_delay.as_ref(), |report| report.sync_delay),
];

fn runs(name: &str, setup: &Setup, load: TheoryLoad, theory: &Theory) -> Vec<Report> {
    let is_random = ROWS.iter().any(|(_, expected, _)| {
        expected(theory).is_some_and(|expected| expected.meaning == Meaning::Mean)
    });
    let (hold, nodes) = (Distribution::Constant(T), setup.nodes);
    let (workload, entries, seeds) = match load {
        TheoryLoad::Light if is_random => (Workload::light(nodes, T as f64, hold), 3000, 5),
        TheoryLoad::Light => (Workload::light(nodes, T as f64, hold), 300, 1),
        // Whole rounds, so that the coordinator's own entries come in their proportion.
        TheoryLoad::Saturated => (Workload::saturated(hold), 4 * u64::from(nodes), 1),
    };
    let network = Network::new(Distribution::Constant(T));
    let mut plan = Plan::new(setup.clone(), network, workload, entries);
    let run = |seed| {
        plan.seed = seed;
        simulate(name, &plan).expect("a registered name").expect("a system that can start")
    };
    (1..=seeds).map(run).collect()
}

/// Compares all that theory says of a system with what is measured.
fn compare(name: &str, setup: &Setup, load: TheoryLoad) {
    let theory = theory(name, setup, load);
    if ROWS.iter().all(|(_, expected, _)| expected(&theory).is_none()) {
        return;
    }
    let reports = runs(name, setup, load, &theory);
    let system = format!("{name}, {} processes, {load:?}", setup.nodes);
    for report in &reports {
        assert_eq!(report.violations, [], "{system}");
        assert_eq!(report.nonsense, 0, "{system}");
    }
    for (what, expected, measured) in ROWS {
        let Some(expected) = expected(&theory) else { continue };
        let samples: Vec<_> = reports.iter().filter_map(measured).collect();
        let found = Interval::of(&samples).unwrap_or_else(|| panic!("{system}: no {what}"));
        let deviation = expected.deviation(found.mean).abs();
        let allowed = match expected.meaning {
            Meaning::Exact | Meaning::Bound => 1e-9,
            Meaning::Mean => 0.02,
        };
        assert!(deviation <= allowed, "{system}: {what} {found:?}, theory {expected:?}");
    }
}

fn sizes_and_loads(name: &str, change: impl Fn(&mut Setup)) {
    for load in LOADS {
        for nodes in SIZES {
            let mut setup = Setup::new(nodes);
            change(&mut setup);
            compare(name, &setup, load);
        }
    }
}

#[test]
fn every_algorithm_costs_what_theory_says() {
    for about in registry::ALGORITHMS.iter().filter(|about| about.kind == Kind::Mutex) {
        sizes_and_loads(about.name, |_| {});
    }
}

#[test]
fn variants_cost_what_theory_says() {
    sizes_and_loads("central", |setup| setup.settings.set("coordinator", "member"));
    sizes_and_loads("central", |setup| setup.settings.set("refusal", "denied"));
    sizes_and_loads("central", |setup| {
        setup.settings.set("coordinator", "member");
        setup.settings.set("refusal", "denied");
    });
    sizes_and_loads("maekawa", |setup| setup.settings.set("resolution", "reject"));
    sizes_and_loads("bakery", |setup| setup.settings.set("registers", "push"));
}

#[test]
fn trees_of_any_shape_cost_what_theory_says() {
    for topology in [Topology::Line, Topology::Star, Topology::Kary(4)] {
        for name in ["raymond", "neilsen-mizuno"] {
            sizes_and_loads(name, |setup| setup.topology = topology.clone());
        }
    }
}

#[test]
fn quorums_of_any_kind_cost_what_theory_says() {
    for (kind, sizes) in [(QuorumKind::Plane, [7, 13, 31]), (QuorumKind::Tree, [3, 7, 31])] {
        for nodes in sizes {
            let mut setup = Setup::new(nodes);
            setup.quorums = kind;
            compare("maekawa", &setup, TheoryLoad::Light);
        }
    }
}

#[test]
fn a_thousand_processes_cost_what_theory_says() {
    let setup = Setup::new(1000);
    for name in ["central", "le-lann", "raymond", "neilsen-mizuno", "naimi-trehel"] {
        compare(name, &setup, TheoryLoad::Saturated);
    }
    for name in ["central", "raymond", "neilsen-mizuno", "naimi-trehel", "ricart-agrawala"] {
        compare(name, &setup, TheoryLoad::Light);
    }
}
