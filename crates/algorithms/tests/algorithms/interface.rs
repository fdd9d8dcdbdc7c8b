//! What the traits promise drivers and the checker, asked of every algorithm in a small system.

use mutua_algorithms::{
    Election, ElectionOutbox, Kind, Mutex, NodeId, Outbox, Phase, Process, Renaming, Setup,
    SpecialRepair, Start,
    registry::{self, ElectionVisitor, MutexVisitor},
};

use crate::support::setups::variants;

/// A check of an algorithm by the start of one of its variants.
trait Check {
    fn check<M: Mutex>(start: &Start);
}

struct Visit<C>(Setup, std::marker::PhantomData<C>);

impl<C: Check> MutexVisitor for Visit<C> {
    type Output = ();

    fn visit<M: Mutex>(self) {
        C::check::<M>(&self.0.start::<M>().expect("every variant suits four processes"));
    }
}

/// Checks every variant of every algorithm, with four processes.
fn check_all<C: Check>() {
    for about in registry::ALGORITHMS.iter().filter(|about| about.kind == Kind::Mutex) {
        for settings in variants(about) {
            let setup = Setup { settings, ..Setup::new(4) };
            registry::visit_mutex(about.name, Visit(setup, std::marker::PhantomData::<C>));
        }
    }
}

/// A process of a system in which nothing has happened, after its client's request.
fn requesting<M: Mutex>(me: NodeId, start: &Start) -> Process<M> {
    let mut process = Process::new(me, start);
    process.request(&mut Outbox::new());
    process
}

struct Tickets;

impl Check for Tickets {
    fn check<M: Mutex>(start: &Start) {
        // Process 0 may enter at once.
        let process = requesting::<M>(NodeId(3), start);
        assert_eq!(process.machine().phase(), Phase::Requesting);
        let draws = M::draws_ticket(start);
        assert_eq!(process.machine().has_ticket(), !draws, "{}", start.about().name);
    }
}

#[test]
fn a_request_that_has_reached_none_has_a_ticket_just_where_none_are_drawn() {
    check_all::<Tickets>();
}

struct Symmetry;

impl Check for Symmetry {
    fn check<M: Mutex>(start: &Start) {
        for renaming in renamings().filter(|renaming| M::is_symmetric(start, renaming)) {
            let what = || format!("{} under {renaming:?}", start.about().name);
            for old in (0..4).map(NodeId) {
                let new = renaming.of(old);
                let mut idle = Process::<M>::new(old, start);
                idle.rename(&renaming);
                assert_eq!(idle, Process::new(new, start), "{}", what());
                let mut busy = requesting::<M>(old, start);
                busy.rename(&renaming);
                assert_eq!(busy, requesting(new, start), "{}", what());
            }
        }
    }
}

/// Every swap of two of four processes, and the step of all to the next name.
fn renamings() -> impl Iterator<Item = Renaming> {
    let swap = |a: usize, b: usize| {
        let mut names: Vec<_> = (0..4).map(NodeId).collect();
        names.swap(a, b);
        names
    };
    let swaps = (0..4).flat_map(move |b| (0..b).map(move |a| swap(a, b)));
    let round = vec![NodeId(1), NodeId(2), NodeId(3), NodeId(0)];
    swaps.chain([round]).map(|names| Renaming::new(names).expect("a permutation"))
}

#[test]
fn where_names_do_not_matter_a_renamed_process_is_the_one_of_the_new_name() {
    check_all::<Symmetry>();
}

struct Arbiters;

impl Check for Arbiters {
    fn check<M: Mutex>(start: &Start) {
        let mut machine = requesting::<M>(NodeId(3), start).machine().clone();
        let arbiters: Vec<_> =
            start.all().filter(|&arbiter| machine.requests_of(NodeId(3), arbiter)).collect();
        let is_taken_over = M::special_repair(start) == SpecialRepair::Takeover;
        assert_eq!(!arbiters.is_empty(), is_taken_over, "{}", start.about().name);
        for arbiter in start.all() {
            assert_eq!(machine.stand_in(arbiter).is_some(), is_taken_over);
            assert_eq!(machine.claim_at(arbiter).is_some(), is_taken_over);
        }
    }
}

#[test]
fn arbiters_are_requested_of_just_where_their_part_can_be_taken_over() {
    check_all::<Arbiters>();
}

/// The coordinator that the only process knows after its restart.
struct RestartAlone;

impl ElectionVisitor for RestartAlone {
    type Output = Option<NodeId>;

    fn visit<E: Election>(self) -> Option<NodeId> {
        let start = Setup::new(1).start_election::<E>().expect("any number suits");
        let mut process = E::new(NodeId(0), &start);
        process.restart(&mut ElectionOutbox::new());
        process.coordinator()
    }
}

#[test]
fn a_process_that_restarts_alone_elects_itself() {
    for about in registry::ALGORITHMS.iter().filter(|about| about.kind == Kind::Election) {
        let elected = registry::visit_election(about.name, RestartAlone);
        assert_eq!(elected, Some(Some(NodeId(0))), "{}", about.name);
    }
}

/// Whether a process that restarts takes over from a lower coordinator.
struct TakesOver(Setup);

impl ElectionVisitor for TakesOver {
    type Output = bool;

    fn visit<E: Election>(self) -> bool {
        E::takes_over(&self.0.start_election::<E>().expect("any number suits"))
    }
}

#[test]
fn a_lower_coordinator_may_stay_only_where_an_option_says_so() {
    for about in registry::ALGORITHMS.iter().filter(|about| about.kind == Kind::Election) {
        for settings in variants(about) {
            let may_stay = settings.get("takeover") == Some("no");
            let setup = Setup { settings, ..Setup::new(4) };
            let takes_over = registry::visit_election(about.name, TakesOver(setup));
            assert_eq!(takes_over, Some(!may_stay), "{}", about.name);
        }
    }
}
