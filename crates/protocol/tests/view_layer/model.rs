//! The lease and begin rules, without locks, in every interleaving: breadth first over the
//! production structs.
//!
//! Three voters A, B and C; A is also the member X of view 1 whose lease is at stake, and B
//! coordinates view 2, which removes it. Time is discrete; in a tick each clock moves at its own
//! rate, within the drift bound. View 2 is decided at any time: it is in the logs of B and C, and
//! applied there at any later time. One voter may crash and restart once, with its log and without
//! its memory and its commit index; A's link to one voter is cut from the start or not. Messages
//! take any number of ticks up to a bound, or are lost. Violated is: view 2 has begun, and X's
//! lease is not over.

use std::{collections::BTreeSet, time::Duration};

use mutua_protocol::{
    Moment,
    views::{
        BeginWait, Command, DecidedState, DecidedView, Directory, DirectoryChange, Instance,
        LeaseRules, MemberId, MemberLease, Role, Rules, ViewNumber, ViewSettings, VoterLease,
    },
};

use super::{
    events::entry,
    search::{Found, search},
};

/// A tick of real time; clocks move by one more or less at the drift bound.
const TICK: u64 = 10;

/// Messages take at most so many ticks.
const SLOWEST: u64 = 1;

/// L in ticks, drift 10 %.
const LEASE: u64 = 2;

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
enum Word {
    Ask { voter: usize, number: u64 },
    Answer { voter: usize, number: u64 },
    Gone { voter: usize, age: Duration },
}

#[derive(Clone, Eq, Hash, PartialEq)]
struct State {
    /// Real ticks since the start.
    now: u64,
    /// X's lease; it asks every tick.
    lease: MemberLease,
    voters: [VoterLease; 3],
    /// Whether view 2 is in the log, and whether it is applied in this life.
    logged: [bool; 3],
    applied: [bool; 3],
    wait: Option<BeginWait>,
    begun: bool,
    crashed: bool,
    /// Words under way, and until when they arrive.
    words: BTreeSet<(Word, u64)>,
}

struct Model {
    settings: ViewSettings,
    first: DecidedView,
    second: DecidedView,
    decided: DecidedState,
    /// How fast the clocks of A, B and C are: per tick.
    rates: [u64; 3],
    /// The voter that A does not reach.
    cut: Option<usize>,
    end: u64,
}

const X: Instance =
    Instance { member: MemberId(1), incarnation: mutua_protocol::views::Incarnation(1) };

impl Model {
    fn new(lease: LeaseRules, rates: [u64; 3], cut: Option<usize>, end: u64) -> Self {
        let settings = ViewSettings {
            lease: Duration::from_nanos(LEASE * TICK),
            drift: 100_000,
            rules: Rules { lease, ..Rules::default() },
            ..ViewSettings::default()
        };
        let mut directory = Directory::default();
        for id in 1..=3 {
            directory.apply(&DirectoryChange::Add(MemberId(id), entry(Role::Voter)));
        }
        let all: BTreeSet<_> = (1..=3).map(|id| Instance::new(id, 1)).collect();
        let first = DecidedView {
            number: ViewNumber(1),
            epoch: 1,
            members: all.clone(),
            keepers: all.clone(),
            voters: (1..=3).map(MemberId).collect(),
            rules: 0,
            level: 0,
        };
        let rest: BTreeSet<_> = all.into_iter().filter(|one| *one != X).collect();
        let second = DecidedView {
            number: ViewNumber(2),
            epoch: 2,
            members: rest.clone(),
            keepers: rest,
            ..first.clone()
        };
        let mut decided = DecidedState::new(directory);
        decided.apply(&Command::View(first.clone()));
        decided.apply(&Command::View(second.clone()));
        Self { settings, first, second, decided, rates, cut, end }
    }

    fn clock(&self, voter: usize, now: u64) -> Moment {
        Moment::from_nanos(1000 + now * self.rates[voter])
    }

    fn start(&self) -> State {
        let voter = |voter| {
            let mut lease = VoterLease::new(self.clock(voter, 0), ViewNumber(0));
            lease.appended(1, &Command::View(self.first.clone()));
            lease.applied(1, ViewNumber(1));
            lease
        };
        let mut lease = MemberLease::default();
        lease.enter(&self.first);
        State {
            now: 0,
            lease,
            voters: [voter(0), voter(1), voter(2)],
            logged: [false; 3],
            applied: [true; 3],
            wait: None,
            begun: false,
            crashed: false,
            words: BTreeSet::new(),
        }
    }

    /// All that can happen next.
    fn next(&self, state: &State) -> Vec<State> {
        let mut all = Vec::new();
        self.pass_time(state, &mut all);
        for word in &state.words {
            // It arrives now; or, when time passes, later or never.
            let mut next = state.clone();
            next.words.remove(word);
            self.arrive(&mut next, &word.0);
            all.push(next);
        }
        if !state.logged[1] {
            // Decided: a majority of the logs has it.
            let mut next = state.clone();
            for voter in [1, 2] {
                next.logged[voter] = true;
                next.applied[voter] = false;
                next.voters[voter].appended(2, &Command::View(self.second.clone()));
            }
            all.push(next);
        }
        for voter in [1, 2] {
            if state.logged[voter] && !state.applied[voter] {
                let mut next = state.clone();
                next.applied[voter] = true;
                next.voters[voter].applied(2, ViewNumber(2));
                if voter == 1 && next.wait.is_none() {
                    next.wait = Some(BeginWait::new(&self.decided, &self.second));
                }
                all.push(next);
            }
            if !state.crashed && voter == 2 {
                let mut next = state.clone();
                next.crashed = true;
                // It has its log, and does not know how much of it is committed.
                let mut restarted = VoterLease::new(self.clock(voter, state.now), ViewNumber(0));
                restarted.appended(1, &Command::View(self.first.clone()));
                if state.logged[voter] {
                    restarted.appended(2, &Command::View(self.second.clone()));
                }
                next.voters[voter] = restarted;
                next.applied[voter] = false;
                all.push(next);
            }
        }
        if !state.begun
            && let Some(wait) = &state.wait
            && let Some(at) = wait.over_at(&self.settings)
            && at <= self.clock(1, state.now)
        {
            let mut next = state.clone();
            next.begun = true;
            all.push(next);
        }
        all
    }

    /// A tick: X asks, voters that have applied view 2 report; what is too late is lost.
    fn pass_time(&self, state: &State, all: &mut Vec<State>) {
        if state.now == self.end {
            return;
        }
        let mut next = state.clone();
        next.now += 1;
        next.words.retain(|(_, until)| *until >= next.now);
        let x_now = self.clock(0, next.now);
        next.lease.notice(x_now, &self.settings);
        let number = next.lease.ask(x_now, &self.settings);
        for voter in 0..3 {
            let word = Word::Ask { voter, number };
            match voter {
                // Its own answer is there at once.
                0 => self.arrive(&mut next, &word),
                _ if self.cut == Some(voter) => {}
                _ => {
                    next.words.insert((word, next.now + SLOWEST));
                }
            }
            if next.applied[voter] && next.logged[voter] && next.wait.is_some() {
                let now = self.clock(voter, next.now);
                let age = next.voters[voter].age(now, &self.settings, X);
                let word = Word::Gone { voter, age };
                if voter == 1 {
                    self.arrive(&mut next, &word);
                } else if !next.words.iter().any(|(word, _)| matches!(word, Word::Gone { .. })) {
                    next.words.insert((word, next.now + SLOWEST));
                }
            }
        }
        all.push(next);
    }

    fn arrive(&self, state: &mut State, word: &Word) {
        match *word {
            Word::Ask { voter, number } => {
                let now = self.clock(voter, state.now);
                if state.voters[voter].answer(now, &self.settings, X, ViewNumber(1)) {
                    let answer = Word::Answer { voter, number };
                    if voter == 0 {
                        self.arrive(state, &answer);
                    } else {
                        state.words.insert((answer, state.now + SLOWEST));
                    }
                }
            }
            Word::Answer { voter, number } => {
                let now = self.clock(0, state.now);
                let voter = MemberId(voter as u64 + 1);
                state.lease.answered(now, &self.settings, voter, ViewNumber(1), number);
            }
            Word::Gone { voter, age } => {
                let now = self.clock(1, state.now);
                let voter = MemberId(voter as u64 + 1);
                if let Some(wait) = &mut state.wait {
                    wait.gone(now, &self.settings, voter, X, age);
                }
            }
        }
    }

    /// Whether X still has its lease although view 2 has begun.
    fn is_violated(&self, state: &State) -> bool {
        state.begun && self.clock(0, state.now) < state.lease.good_until()
    }

    /// Searches all states.
    fn search(&self) -> Found {
        let violated = "the view has begun, and the lease of the removed one is not over";
        search(
            self.start(),
            |state| self.next(state),
            |state| self.is_violated(state).then_some(violated),
        )
    }
}

/// A search: how fast the clocks are, the voter that X does not reach, and how many ticks.
type Search = ([u64; 3], Option<usize>, u64);

/// X's clock is slow, the others' fast: the hardest case for the rule.
const HARDEST: [u64; 3] = [TICK - 1, TICK + 1, TICK + 1];

/// In the gate.
const SEARCHES: [Search; 3] = [(HARDEST, Some(1), 5), (HARDEST, Some(2), 4), (HARDEST, None, 2)];

/// The states of these searches.
const STATES: [usize; 3] = [47_467, 15_806, 13_845];

/// Run by hand, in a release build.
const LONG_SEARCHES: [Search; 6] = [
    (HARDEST, Some(1), 6),
    (HARDEST, Some(2), 6),
    (HARDEST, None, 3),
    ([TICK; 3], Some(1), 6),
    ([TICK + 1, TICK - 1, TICK], Some(1), 6),
    ([TICK + 1, TICK - 1, TICK], Some(2), 5),
];

fn found(lease: LeaseRules, searches: &[Search]) -> bool {
    searches.iter().any(|&(rates, cut, end)| {
        let found = Model::new(lease, rates, cut, end).search();
        println!("{lease:?} {rates:?} {cut:?} {end}: {found:?}");
        found.violation.is_some()
    })
}

#[test]
fn a_view_begins_only_when_the_lease_of_the_removed_one_is_over() {
    // Millions of states: for a release build, by hand.
    let further: &[Search] =
        if std::env::var_os("MUTUA_DEEP").is_some() { &LONG_SEARCHES } else { &[] };
    for ((rates, cut, end), states) in SEARCHES.into_iter().zip(STATES) {
        let found = Model::new(LeaseRules::Right, rates, cut, end).search();
        assert_eq!(found, Found { states, violation: None }, "{cut:?} {end}");
    }
    assert!(!found(LeaseRules::Right, further));
}

#[test]
fn the_search_finds_every_broken_lease_rule() {
    for lease in [
        LeaseRules::StopAtApplied,
        LeaseRules::CountFromReceipt,
        LeaseRules::UnknownAgeIsLong,
        LeaseRules::OneVotersWord,
        LeaseRules::HalfTheVotes,
    ] {
        assert!(found(lease, &SEARCHES), "{lease:?} is not found");
    }
}
