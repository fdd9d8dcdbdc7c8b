//! E1 and E2 of every election on schedules drawn at random, with processes that are down from the
//! beginning, crash and restart, and, for the invitation algorithm, a network that divides.

use mutua_algorithms::{
    Claim, Election, Kind, Links, NodeId, Settings, Setup, Structure,
    elections::{Bully, Invitation},
    registry::{self, ElectionVisitor},
    split_mix::Dice,
};

use crate::support::{
    electorate::Electorate,
    setups::{Case, variants},
    violation::Violation,
};

/// Some of N processes are down; some of the others start; all that are up learn the same.
struct Elect<'a>(&'a Case, &'a [Claim]);

impl ElectionVisitor for Elect<'_> {
    type Output = Result<(), Violation>;

    fn visit<E: Election>(self) -> Self::Output {
        let Self(case, claims) = self;
        let mut dice = Dice(case.seed);
        let mut electorate = electorate::<E>(case, claims, &mut dice);
        for _ in 0..case.seed % 3 + 1 {
            let starter = electorate.any_alive();
            electorate.start(starter)?;
        }
        electorate.run_until(Electorate::agree)
    }
}

/// A system with some processes down, at least one up.
fn electorate<'a, E: Election>(
    case: &Case,
    claims: &'a [Claim],
    dice: &'a mut Dice,
) -> Electorate<'a, E> {
    let mut setup = Setup::new(case.size(dice));
    setup.settings = case.settings.clone();
    let lives = dice.index(setup.nodes as usize);
    let others = (0..setup.nodes as usize).filter(|&node| node != lives);
    setup.crashed = others.filter(|_| dice.one_in(3)).map(NodeId::from).collect();
    let start = setup.start_election::<E>().expect("any number suits");
    Electorate::new(start, claims, case.links, dice)
}

/// Every variant of every election on links that it stands, on 256 seeds.
fn for_every_case(mut run: impl FnMut(&Case, &[Claim]) -> Result<(), Violation>) {
    for about in registry::ALGORITHMS.iter().filter(|about| about.kind == Kind::Election) {
        let orders: &[Links] = match about.links {
            Links::Any => &[Links::Fifo, Links::Any],
            Links::Fifo => &[Links::Fifo],
        };
        for settings in variants(about) {
            let claims = about.claims_with(&settings);
            for (&links, seed) in orders.iter().flat_map(|links| (0..256).map(move |s| (links, s)))
            {
                let case = Case { name: about.name, settings: settings.clone(), links, seed };
                run(&case, &claims).unwrap_or_else(|violation| panic!("{case}: {violation}"));
            }
        }
    }
}

#[test]
fn all_that_are_up_elect_the_same_and_the_right_one() {
    for_every_case(|case, claims| {
        registry::visit_election(case.name, Elect(case, claims)).expect("from the registry")
    });
}

/// The coordinator crashes and a process suspects it; one that was down restarts. (A ring would
/// have to be closed anew.)
struct ComeAndGo<'a>(&'a Case);

impl ElectionVisitor for ComeAndGo<'_> {
    type Output = Result<(), Violation>;

    fn visit<E: Election>(self) -> Self::Output {
        // Until a higher one that has restarted has taken over, the coordinator is not the highest.
        let claims = [Claim::Termination];
        let mut dice = Dice(self.0.seed);
        let mut electorate = electorate::<E>(self.0, &claims, &mut dice);
        let starter = electorate.any_alive();
        electorate.start(starter)?;
        electorate.run_until(Electorate::agree)?;
        let coordinator = electorate.coordinator(starter).expect("all have agreed");
        if electorate.up().len() > 1 {
            electorate.crash(coordinator);
            let witness = electorate.any_alive();
            electorate.start(witness)?;
            electorate.run_until(Electorate::agree)?;
            electorate.restart(coordinator)?;
            electorate.run_until(Electorate::agree)?;
        }
        Ok(())
    }
}

#[test]
fn after_the_coordinators_end_and_its_return_all_agree_again() {
    for_every_case(|case, _| {
        if registry::about(case.name).is_some_and(|about| about.structure == Structure::Ring) {
            return Ok(());
        }
        registry::visit_election(case.name, ComeAndGo(case)).expect("from the registry")
    });
}

/// The coordinator after the highest of four has restarted.
fn coordinator_after_the_highest_is_back(takeover: &str) -> NodeId {
    let mut setup = Setup::new(4).with("takeover", takeover);
    setup.crashed = vec![NodeId(3)];
    let start = setup.start_election::<Bully>().expect("four suit");
    let mut dice = Dice(7);
    let mut electorate =
        Electorate::<Bully>::new(start, &[Claim::Termination], Links::Any, &mut dice);
    electorate.start(NodeId(0)).expect("nothing is violated");
    electorate.run_until(Electorate::agree).expect("all agree");
    assert_eq!(electorate.coordinator(NodeId(0)), Some(NodeId(2)));
    electorate.restart(NodeId(3)).expect("nothing is violated");
    electorate.run_until(Electorate::agree).expect("all agree");
    electorate.coordinator(NodeId(0)).expect("all have agreed")
}

#[test]
fn a_restarted_bully_takes_over_or_not_as_the_option_has_it() {
    assert_eq!(coordinator_after_the_highest_is_back("yes"), NodeId(3));
    assert_eq!(coordinator_after_the_highest_is_back("no"), NodeId(2));
}

#[test]
fn every_part_of_a_divided_network_gets_a_coordinator_and_they_merge_when_it_heals() {
    for seed in 0..100 {
        let mut dice = Dice(seed);
        let nodes = dice.within(2, 12);
        let parts: Vec<_> = (0..nodes).map(|_| dice.within(0, 2)).collect();
        let start = Setup::new(nodes).start_election::<Invitation>().expect("any number suits");
        let claims = [Claim::Termination];
        let mut electorate = Electorate::<Invitation>::new(start, &claims, Links::Any, &mut dice);
        let mut play = || {
            electorate.start(NodeId(0))?;
            electorate.run_until(Electorate::agree)?;
            electorate.part.copy_from_slice(&parts);
            electorate.run_until(Electorate::agree)?;
            electorate.part.fill(0);
            electorate.run_until(Electorate::agree)
        };
        play().unwrap_or_else(|violation: Violation| panic!("seed {seed}: {violation}"));
    }
}

#[test]
fn without_bounds_the_bully_elects_two() {
    // The same walk as above, but for the claim: a slow process is suspected.
    let mut setup = Setup::new(2);
    setup.settings = Settings::default();
    let start = setup.start_election::<Bully>().expect("two suit");
    let mut dice = Dice(1);
    let mut electorate =
        Electorate::<Bully>::new(start, &[Claim::Agreement], Links::Any, &mut dice);
    // While the link is cut, nothing from 1 arrives in time.
    electorate.part.copy_from_slice(&[0, 1]);
    electorate.start(NodeId(0)).expect("it only sends a question");
    let elected = electorate.run_until(|all| all.coordinator(NodeId(0)).is_some());
    assert_eq!(elected.expect_err("E1 fails").claim, Some(Claim::Agreement));
}
