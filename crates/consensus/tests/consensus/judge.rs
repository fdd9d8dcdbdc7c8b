//! What must hold in every run, checked at every report of an engine:
//!
//! - No two voters report different commands as decided at one index.
//! - When a command is decided, a majority of voters has reported it as appended, or has installed
//!   a snapshot with it, and has not reported since that it is gone.
//! - What a voter has reported as appended is still there after a crash, unless it was truncated.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use mutua_consensus::{StateMachine, VoterId, Watcher};

/// A command of the tests: a number that no other has.
pub(crate) fn command(number: u64) -> Vec<u8> {
    number.to_le_bytes().to_vec()
}

fn number(command: &[u8]) -> u64 {
    u64::from_le_bytes(command.try_into().expect("a command is eight bytes"))
}

/// Sees the reports of all voters. Clones are the same judge.
#[derive(Clone, Default)]
pub(crate) struct Judge(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    voters: BTreeMap<VoterId, Record>,
    decided: BTreeMap<u64, u64>,
    /// How many voters are a majority; 0 while voters change.
    majority: usize,
    /// A panic in a report would only end the engine.
    violations: Vec<String>,
}

/// What one voter has reported.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    /// In its snapshot.
    pub(crate) snapshot: BTreeSet<u64>,
    /// In its log, by index.
    pub(crate) log: BTreeMap<u64, u64>,
    pub(crate) decided: Vec<u64>,
    pub(crate) snapshots_installed: usize,
    pub(crate) truncated: usize,
    pub(crate) leads: bool,
    /// What it held before it was started again.
    before: BTreeSet<u64>,
}

impl Record {
    fn holds(&self, number: u64) -> bool {
        self.snapshot.contains(&number) || self.log.values().any(|it| *it == number)
    }

    fn held(&self) -> BTreeSet<u64> {
        self.snapshot.iter().chain(self.log.values()).copied().collect()
    }
}

impl Judge {
    pub(crate) fn set_majority(&self, majority: usize) {
        self.0.lock().unwrap().majority = majority;
    }

    /// A watcher for a voter that starts.
    pub(crate) fn watcher(&self, voter: VoterId) -> Box<dyn Watcher> {
        let mut state = self.0.lock().unwrap();
        let before = state.voters.get(&voter).map(Record::held).unwrap_or_default();
        state.voters.insert(voter, Record { before, ..Record::default() });
        Box::new(Reporter { voter, judge: self.clone() })
    }

    /// Compare what a voter held before it was started again with what it has reported now.
    /// Returns what is gone, none of which was decided.
    pub(crate) fn lost_at_restart(&self, voter: VoterId) -> BTreeSet<u64> {
        let state = self.0.lock().unwrap();
        let record = &state.voters[&voter];
        let lost: BTreeSet<u64> = record.before.difference(&record.held()).copied().collect();
        let decided: BTreeSet<u64> = state.decided.values().copied().collect();
        assert!(lost.is_disjoint(&decided), "voter {voter} lost {lost:?}, which was decided");
        lost
    }

    pub(crate) fn record(&self, voter: VoterId) -> Record {
        self.0.lock().unwrap().voters[&voter].clone()
    }

    pub(crate) fn is_decided(&self, number: u64) -> bool {
        self.0.lock().unwrap().decided.values().any(|it| *it == number)
    }

    /// All decided commands, in their order.
    pub(crate) fn decided(&self) -> Vec<u64> {
        self.0.lock().unwrap().decided.values().copied().collect()
    }

    /// Fail if anything was violated.
    pub(crate) fn assert_right(&self) {
        let state = self.0.lock().unwrap();
        assert!(state.violations.is_empty(), "{:?}", state.violations);
    }

    /// Forget a voter whose disk is gone.
    pub(crate) fn wipe(&self, voter: VoterId) {
        self.0.lock().unwrap().voters.remove(&voter);
    }
}

struct Reporter {
    voter: VoterId,
    judge: Judge,
}

impl Reporter {
    fn record<T>(&self, change: impl FnOnce(&mut Record) -> T) -> T {
        let mut state = self.judge.0.lock().unwrap();
        change(state.voters.get_mut(&self.voter).expect("the voter has started"))
    }
}

impl Watcher for Reporter {
    fn appended(&mut self, index: u64, command: &[u8]) {
        self.record(|record| record.log.insert(index, number(command)));
    }

    fn truncated(&mut self, since: u64) {
        self.record(|record| {
            record.log.split_off(&since);
            record.truncated += 1;
        });
    }

    fn snapshot_installed(&mut self, state: &[u8]) {
        self.record(|record| {
            record.snapshot = List::read(state).into_iter().collect();
            record.snapshots_installed += 1;
        });
    }

    fn decided(&mut self, index: u64, command: &[u8]) {
        let command = number(command);
        let mut state = self.judge.0.lock().unwrap();
        let first = *state.decided.entry(index).or_insert(command);
        if first != command {
            state.violations.push(format!("{first} and {command} are decided at {index}"));
        }
        let holders = state.voters.values().filter(|record| record.holds(command)).count();
        if holders < state.majority {
            state.violations.push(format!("{command} is decided, but only {holders} have it"));
        }
        state.voters.get_mut(&self.voter).expect("the voter has started").decided.push(command);
    }

    fn leads(&mut self, leads: bool) {
        self.record(|record| record.leads = leads);
    }
}

/// The state machine of the tests: all commands, in order.
#[derive(Clone, Default)]
pub(crate) struct List(pub(crate) Arc<Mutex<Vec<u64>>>);

impl List {
    fn read(state: &[u8]) -> Vec<u64> {
        state.chunks(8).map(number).collect()
    }
}

impl StateMachine for List {
    fn apply(&mut self, command: &[u8]) {
        self.0.lock().unwrap().push(number(command));
    }

    fn snapshot(&self) -> Vec<u8> {
        self.0.lock().unwrap().iter().flat_map(|it| it.to_le_bytes()).collect()
    }

    fn restore(&mut self, state: &[u8]) {
        *self.0.lock().unwrap() = List::read(state);
    }
}
