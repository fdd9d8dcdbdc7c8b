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

/// A formula and its measure.
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
        // At a thousand a ring's token makes millions of steps; 5,000 entries still leave a mean
        // with a standard error of 0.8 %.
        TheoryLoad::Light if is_random && nodes >= 1000 => {
            (Workload::light(nodes, T as f64, hold), 1000, 5)
        }
        TheoryLoad::Light if is_random => (Workload::light(nodes, T as f64, hold), 3000, 5),
        TheoryLoad::Light if nodes >= 1000 => (Workload::light(nodes, T as f64, hold), 40, 1),
        TheoryLoad::Light => (Workload::light(nodes, T as f64, hold), 300, 1),
        // Whole rounds, so that the coordinator's own entries come in their proportion.
        TheoryLoad::Saturated if nodes >= 1000 => (Workload::saturated(hold), nodes.into(), 1),
        TheoryLoad::Saturated => (Workload::saturated(hold), 4 * u64::from(nodes), 1),
    };
    let network = Network::new(Distribution::Constant(T));
    let mut plan = Plan::new(setup.clone(), network, workload, entries);
    if nodes >= 1000 && !is_random {
        // After one round the processes are in the order that remains.
        plan.warm_up = Some(u64::from(nodes) * u64::from(load == TheoryLoad::Saturated));
    }
    if RINGS.contains(&name) {
        // A token circulates from the first step on: there is nothing to settle.
        plan.warm_up = Some(10);
    }
    let run = |seed| {
        plan.seed = seed;
        simulate(name, &plan).expect("a registered name").expect("a system that can start")
    };
    (1..=seeds).map(run).collect()
}

/// Compares every formula for a system with the measurement.
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
    for name in ["bakery", "bakery-naive"] {
        sizes_and_loads(name, |setup| setup.settings.set("registers", "push"));
    }
    for sets in ["ricart-agrawala", "maekawa", "central"] {
        sizes_and_loads("sanders", |setup| setup.settings.set("sets", sets));
    }
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
    for (kind, sizes) in [
        (QuorumKind::Plane, [7, 13, 31]),
        (QuorumKind::Tree, [3, 7, 31]),
        (QuorumKind::Majority, [5, 10, 31]),
    ] {
        for nodes in sizes {
            let mut setup = Setup::new(nodes);
            setup.quorums = kind;
            for load in LOADS {
                compare("maekawa", &setup, load);
            }
        }
    }
}

#[test]
fn a_thousand_processes_cost_what_theory_says() {
    let setup = Setup::new(1000);
    for name in SATURATED_THOUSANDS {
        compare(name, &setup, TheoryLoad::Saturated);
    }
    for name in LIGHT_THOUSANDS {
        compare(name, &setup, TheoryLoad::Light);
    }
}

/// A test of its own, so that it runs in parallel with the others: it takes the longest.
#[test]
fn rings_of_a_thousand_at_light_load_cost_what_theory_says() {
    for name in RINGS {
        compare(name, &Setup::new(1000), TheoryLoad::Light);
    }
}

/// All but the Bakery, which polls, and the algorithms whose every entry takes N^2 steps.
const SATURATED_THOUSANDS: [&str; 12] = [
    "central",
    "le-lann",
    "dijkstra",
    "lamport",
    "ricart-agrawala",
    "carvalho-roucairol",
    "suzuki-kasami",
    "ricart-agrawala-token",
    "maekawa",
    "raymond",
    "neilsen-mizuno",
    "naimi-trehel",
];

const RINGS: [&str; 2] = ["le-lann", "dijkstra"];

/// All but the rings and two negative controls, which at light load cost what their originals do.
const LIGHT_THOUSANDS: [&str; 13] = [
    "suzuki-kasami",
    "ricart-agrawala-token",
    "carvalho-roucairol",
    "maekawa",
    "central",
    "lamport",
    "ricart-agrawala",
    "sanders",
    "majority",
    "bakery",
    "raymond",
    "neilsen-mizuno",
    "naimi-trehel",
];

/// The figures for ten processes, light and saturated, worked out by hand: messages, messages with
/// a multicast counted once, and the delay at that load (client or synchronization).
type ByHand = (&'static str, [Option<f64>; 3], [Option<f64>; 3]);

const NONE: [Option<f64>; 3] = [None; 3];

const fn all(messages: f64, multicasts: f64, delay: f64) -> [Option<f64>; 3] {
    [Some(messages), Some(multicasts), Some(delay)]
}

/// H_9, and the mean distance on the binary tree of ten: five edges part one process from the rest,
/// the others 2, 3, 3 and 6; s of them give 2 s (10 - s) of the 100 ordered pairs.
const H9: f64 = 7129.0 / 2520.0;
const BINARY_OF_TEN: f64 =
    2.0 * (5.0 * 1.0 * 9.0 + 2.0 * 8.0 + 2.0 * 3.0 * 7.0 + 6.0 * 4.0) / 100.0;

#[test]
fn every_formula_gives_the_figures_worked_out_by_hand() {
    // K of the ten quorums of the grid of 3 and 4 columns: 5.2 on average.
    let k = 5.2;
    let rows: [ByHand; 15] = [
        ("central", all(3.0, 3.0, 2.0), all(3.0, 3.0, 2.0)),
        ("le-lann", [None, None, Some(5.0)], all(1.0, 1.0, 1.0)),
        ("dijkstra", [None, None, Some(5.0)], all(1.0, 1.0, 1.0)),
        ("lamport", all(27.0, 11.0, 2.0), all(27.0, 11.0, 1.0)),
        ("ricart-agrawala", all(18.0, 10.0, 2.0), all(18.0, 10.0, 1.0)),
        ("carvalho-roucairol", all(9.0, 5.4, 1.8), all(18.0, 10.0, 1.0)),
        ("suzuki-kasami", all(9.0, 1.8, 1.8), all(10.0, 2.0, 1.0)),
        ("ricart-agrawala-token", all(9.0, 1.8, 1.8), all(10.0, 2.0, 1.0)),
        ("maekawa", all(3.0 * (k - 1.0), k + 1.0, 2.0), all(4.0 * (k - 1.0), 2.0 * k, 2.0)),
        ("majority", all(27.0, 11.0, 2.0), NONE),
        ("sanders", all(18.0, 10.0, 2.0), all(18.0, 10.0, 1.0)),
        ("bakery", all(54.0, 46.0, 38.0), NONE),
        ("naimi-trehel", all(H9, H9, H9), all(4.0, 4.0, 1.0)),
        (
            "raymond",
            all(2.0 * BINARY_OF_TEN, 2.0 * BINARY_OF_TEN, 2.0 * BINARY_OF_TEN),
            all(3.6, 3.6, 1.8),
        ),
        (
            "neilsen-mizuno",
            all(BINARY_OF_TEN + 0.9, BINARY_OF_TEN + 0.9, BINARY_OF_TEN + 0.9),
            all(3.0, 3.0, 1.0),
        ),
    ];
    for (name, light, saturated) in rows {
        let setup = Setup::new(10);
        for (load, by_hand) in LOADS.into_iter().zip([light, saturated]) {
            let theory = theory(name, &setup, load);
            let delay = match load {
                TheoryLoad::Light => &theory.client_delay,
                TheoryLoad::Saturated => &theory.sync_delay,
            };
            let found = [&theory.messages, &theory.multicasts, delay];
            for (found, by_hand) in found.into_iter().zip(by_hand) {
                let found = found.as_ref().map(|expected| expected.value);
                let near = match (found, by_hand) {
                    (Some(found), Some(by_hand)) => (found - by_hand).abs() < 1e-9,
                    (found, by_hand) => found == by_hand,
                };
                assert!(near, "{name}, {load:?}: {found:?}, by hand {by_hand:?}");
            }
        }
    }
}

/// S4 counts the messages to enter and those to exit separately.
#[test]
fn messages_to_exit_are_those_of_the_release() {
    for (name, at_light_load, saturated) in [
        ("central", 1.0, 1.0),
        ("lamport", 8.0, 8.0),
        // Replies that were deferred until the exit let others enter.
        ("ricart-agrawala", 0.0, 8.0),
        // The process that exits is a voter too, which grants the next request.
        ("maekawa", 4.0, 5.0),
        ("naimi-trehel", 0.0, 1.0),
    ] {
        let setup = Setup::new(9);
        for (load, expected) in
            [(TheoryLoad::Light, at_light_load), (TheoryLoad::Saturated, saturated)]
        {
            let theory = theory(name, &setup, load);
            let report = &runs(name, &setup, load, &theory)[0];
            assert_eq!(report.messages_at_exits, expected, "{name}, {load:?}");
        }
    }
}
