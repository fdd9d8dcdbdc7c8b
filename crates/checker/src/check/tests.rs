//! Wrong reductions: a violation that only they find gives no verdict.

use mutua_algorithms::{Renaming, Setup, Topology};

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
