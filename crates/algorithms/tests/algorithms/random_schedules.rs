//! Every claim of every algorithm on schedules drawn at random, many seeds and up to 50 processes.
//!
//! A failure names its seed; `MUTUA_ALGORITHM=NAME MUTUA_SEEDS=FROM..TO` runs just these, or more.

use std::{env, ops::Range};

use mutua_algorithms::{
    Claim, Kind, Links, Mutex, Settings,
    registry::{self, MutexVisitor},
};

use crate::support::{
    setups::{Case, variants},
    violation::Violation,
    walk::{Outcome, walk},
};

/// Walks one case of the algorithm that the registry chooses.
struct Walk<'a>(&'a Case, &'a [Claim]);

impl MutexVisitor for Walk<'_> {
    type Output = Result<Outcome, Violation>;

    fn visit<M: Mutex>(self) -> Self::Output {
        walk::<M>(self.0, self.1)
    }
}

fn run(case: &Case, claims: &[Claim]) -> Result<Outcome, Violation> {
    registry::visit_mutex(case.name, Walk(case, claims)).expect("the name is from the registry")
}

fn seeds() -> Range<u64> {
    let given = env::var("MUTUA_SEEDS").ok();
    let parse = |text: &str| {
        let (from, to) = text.split_once("..")?;
        Some(from.parse().ok()?..to.parse().ok()?)
    };
    given.map_or(0..512, |text| parse(&text).expect("MUTUA_SEEDS is FROM..TO"))
}

/// Who waits here may not know for whom: another process has passed the request on, or the token
/// comes from a process that has not said where it is.
const PUZZLED: [&str; 5] =
    ["suzuki-kasami", "ricart-agrawala-token", "naimi-trehel", "neilsen-mizuno", "raymond"];

/// Runs every variant of every algorithm that stands such links.
fn every_claim_holds(links: Links) {
    let only = env::var("MUTUA_ALGORITHM").ok();
    let chosen = registry::ALGORITHMS.iter().filter(|about| {
        about.kind == Kind::Mutex
            && (links == Links::Fifo || about.links == Links::Any)
            && only.as_ref().is_none_or(|only| only == about.name)
    });
    for about in chosen {
        for settings in variants(about) {
            let claims = about.claims_with(&settings);
            let mut sum = Outcome::default();
            for seed in seeds() {
                let case = Case { name: about.name, settings: settings.clone(), links, seed };
                let outcome =
                    run(&case, &claims).unwrap_or_else(|violation| panic!("{case}: {violation}"));
                sum.processes = sum.processes.max(outcome.processes);
                sum.entries += outcome.entries;
                sum.deliveries += outcome.deliveries;
                sum.puzzled += outcome.puzzled;
                sum.replaced += outcome.replaced;
            }
            println!("{} {:?}: {sum:?}", about.name, settings.iter().collect::<Vec<_>>());
            assert!(sum.entries > 0 && sum.processes >= 50, "{}: nothing was tried", about.name);
            let knows = !PUZZLED.contains(&about.name);
            assert!(!knows || sum.puzzled == 0, "{}: it waits for nobody", about.name);
        }
    }
}

#[test]
fn every_claim_holds_on_links_that_keep_order() {
    every_claim_holds(Links::Fifo);
}

#[test]
fn every_claim_holds_on_links_that_reorder_where_they_may() {
    every_claim_holds(Links::Any);
}

/// Whether a claim that this variant does not make is refuted by the schedule of some seed: the
/// checks above can fail.
fn refuted(name: &'static str, option: Option<(&str, &str)>, links: Links, claim: Claim) -> bool {
    let mut settings = Settings::default();
    if let Some((key, value)) = option {
        settings.set(key, value);
    }
    (0..4_000).any(|seed| {
        let case = Case { name, settings: settings.clone(), links, seed };
        run(&case, &[claim]).is_err_and(|violation| violation.claim == Some(claim))
    })
}

#[test]
fn without_choice_the_bakery_lets_two_in() {
    assert!(refuted("bakery-naive", None, Links::Fifo, Claim::MutualExclusion));
    // Pushed on links that keep order, a number arrives before the acknowledgement for which the
    // other one waits: the maximum is as good as atomic.
    let push = Some(("registers", "push"));
    assert!(refuted("bakery-naive", push, Links::Any, Claim::MutualExclusion));
}

#[test]
fn on_links_that_reorder_lamport_lets_two_in() {
    assert!(refuted("lamport", None, Links::Any, Claim::MutualExclusion));
}

#[test]
fn with_plain_replies_ricart_agrawala_grants_out_of_order() {
    let plain = Some(("replies", "plain"));
    assert!(refuted("ricart-agrawala", plain, Links::Any, Claim::Ordering));
    assert!(refuted("ricart-agrawala", plain, Links::Any, Claim::Fencing));
}

#[test]
fn a_coordinator_and_a_ring_grant_out_of_order() {
    assert!(refuted("central", None, Links::Fifo, Claim::Ordering));
    assert!(refuted("le-lann", None, Links::Fifo, Claim::Ordering));
}

#[test]
fn votes_without_resolution_deadlock() {
    assert!(refuted("maekawa-basic", None, Links::Fifo, Claim::DeadlockFree));
    assert!(refuted("majority", None, Links::Fifo, Claim::DeadlockFree));
}

#[test]
fn without_either_correction_maekawa_deadlocks() {
    for corrections in ["no-failed", "no-late-answer"] {
        let option = Some(("corrections", corrections));
        assert!(refuted("maekawa", option, Links::Fifo, Claim::DeadlockFree), "{corrections}");
    }
}

#[test]
fn a_request_that_has_arrived_can_be_overtaken_twice_where_no_bound_is_claimed() {
    assert!(refuted("naimi-trehel", None, Links::Any, Claim::BoundedBypass));
}

#[test]
fn votes_that_are_never_taken_back_deadlock() {
    assert!(refuted("maekawa-basic", None, Links::Fifo, Claim::DeadlockFree));
    assert!(refuted("majority", None, Links::Fifo, Claim::DeadlockFree));
}
