//! Wrong reductions: a violation that only they find gives no verdict.

use mutua_algorithms::{Renaming, Setup, Topology, registry};

use super::*;
use crate::host::NoClock;

/// A star of three of Raymond's algorithm: the two at its ends can be exchanged.
fn task() -> Task {
    Task {
        name: "raymond".to_owned(),
        system: System::new(Setup { topology: Topology::Star, ..Setup::new(3) }, 1),
        properties: Some(vec![Claim::MutualExclusion, Claim::DeadlockFree, Claim::Liveness]),
        reduction: Reduction::All,
        limits: Limits { threads: 1, ..Limits::default() },
        first: false,
        walks: None,
        invariants: Vec::new(),
    }
}

/// Checks the star by a reduction that exchanges the two and leaves their names as they were.
fn check_with_a_lie(task: &Task) -> Result<Report, CheckError> {
    let make = |build: Build| {
        let mut model = Model::new(&task.name, &task.system, build)?;
        for symmetry in &mut model.symmetries {
            let names = (0..model.processes).map(NodeId::from).collect();
            symmetry.renaming = Renaming::new(names).expect("a permutation");
        }
        Ok(model)
    };
    let about = registry::about(&task.name).expect("it is in the registry");
    let report = Report::default();
    Checker { task, about, make: &make, host: &mut NoClock, report, spent: 0.0 }.check()
}

#[test]
fn a_violation_that_only_a_wrong_reduction_finds_gives_no_verdict() {
    assert!(check(&task(), &mut NoClock).is_ok_and(|report| !report.is_violated()));
    let error = check_with_a_lie(&task()).expect_err("a contradiction");
    let CheckError::Contradiction { algorithm, property, how } = &error else {
        panic!("another error: {error}")
    };
    assert_eq!((algorithm.as_str(), property.as_str()), ("raymond", "deadlock-free"));
    assert_eq!(how, "by merging symmetry (2 renamings)");
    let text = error.to_string();
    assert!(text.contains("bug of the checker") && text.contains("report this"), "{text}");
}

/// With fewer steps than all, but as many as the invalid run had.
#[test]
fn a_depth_that_was_searched_in_full_is_enough_to_contradict() {
    let mut task = task();
    let depths = (1..20).map(|depth| {
        task.limits.depth = Some(depth);
        check_with_a_lie(&task).map(|report| report.is_violated())
    });
    let depths: Vec<_> = depths.collect();
    assert_eq!(depths[0], Ok(false), "nothing is found in one step");
    assert!(depths.iter().any(Result::is_err), "{depths:?}");
    assert!(!depths.contains(&Ok(true)), "{depths:?}");
}

/// Judges the entries of a system by timestamps, whatever the algorithm claims.
fn found_by_stamps(name: &str, system: &System) -> u64 {
    let build = Build { shift: true, ..Build::plain(Ghost::Stamps) };
    let model = Model::new(name, system, build).expect("a plain system");
    let wanted = Wanted { properties: PANIC | bit(Claim::Ordering), first: true };
    let reached = search(&model, wanted, &Limits::default(), &mut NoClock);
    reached.found.iter().fold(0, |all, found| all | found.property)
}

#[test]
fn timestamps_find_entries_out_of_their_order_and_messages_that_carry_no_clock() {
    let lamport = System::new(Setup::new(3), 1);
    assert_eq!(found_by_stamps("lamport", &lamport), 0);
    // A voter grants what arrives first.
    assert_eq!(found_by_stamps("maekawa", &System::new(Setup::new(4), 1)), bit(Claim::Ordering));
    let mut plain = System::new(Setup::new(2), 1);
    plain.setup.settings.set("replies", "plain");
    assert_eq!(found_by_stamps("ricart-agrawala", &plain), PANIC);
}

/// The ghost and the timestamps agree, and the timestamps need fewer states.
#[test]
fn ordering_is_decided_by_timestamps_where_it_is_claimed() {
    for name in ["lamport", "ricart-agrawala"] {
        let of = |reduction| {
            let (name, properties) = (name.to_owned(), Some(vec![Claim::Ordering]));
            let system = System::new(Setup::new(2), 2);
            let report =
                check(&Task { name, system, properties, reduction, ..task() }, &mut NoClock);
            report.expect("a plain system")
        };
        let (ghost, stamps) = (of(Reduction::None), of(Reduction::All));
        let holds = |report: &Report| report.verdicts[0].holds;
        assert_eq!((holds(&ghost), holds(&stamps)), (Some(true), Some(true)));
        assert!(stamps.searches[0].states < ghost.searches[0].states / 4, "{stamps:?}");
        let by_stamps = |report: &Report| format!("{report:?}").contains("timestamps");
        assert!(by_stamps(&stamps) && !by_stamps(&ghost));
    }
}
