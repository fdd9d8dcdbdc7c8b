//! The other halves: the simulator against bare event queues, the checker against Stateright and
//! Spin on the same models.

#[path = "../../crates/checker/tests/checker/stateright/peers.rs"]
#[allow(unreachable_pub)]
mod peers;
mod queues;
mod spin;

use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use mutua_algorithms::{
    Claim, Mutex, Setup,
    mutexes::{Lamport, RicartAgrawala},
};
use mutua_checker::{Limits, NoClock, Reduction, System, Task, check};
use serde::{Deserialize, Serialize};
use stateright::{Checker, Model};

use crate::statistics::median;

/// What was measured.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Halves {
    pub(crate) simulator: Vec<Simulated>,
    pub(crate) checker: Vec<Checked>,
    /// From a Promela model to a program that checks it: Spin and gcc.
    pub(crate) spin_build_s: f64,
    pub(crate) load_before: String,
    pub(crate) load_after: String,
    pub(crate) errors: Vec<String>,
}

/// Events per second of a simulation, and of bare queues with as many events in them.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Simulated {
    pub(crate) algorithm: String,
    pub(crate) nodes: u32,
    pub(crate) load: String,
    pub(crate) events_per_s: f64,
    pub(crate) wheel_per_s: f64,
    pub(crate) heap_per_s: f64,
}

/// A model in a checker.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Checked {
    pub(crate) model: String,
    pub(crate) tool: String,
    pub(crate) states: u64,
    pub(crate) seconds: f64,
}

/// A model: the algorithm, and how often each of three processes enters.
#[derive(Clone, Copy, Debug)]
struct Case {
    algorithm: &'static str,
    entries: u8,
}

const CASES: [Case; 2] =
    [Case { algorithm: "lamport", entries: 1 }, Case { algorithm: "ricart-agrawala", entries: 2 }];

const NODES: u32 = 3;

/// Measures both halves.
pub(crate) fn measure(quick: bool) -> Halves {
    let mut halves = Halves { load_before: crate::machine::load(), ..Halves::default() };
    let rounds = if quick { 1 } else { 3 };
    halves.simulator = queues::measure(quick, rounds);
    match checkers(rounds) {
        Ok((checker, build)) => {
            halves.checker = checker;
            halves.spin_build_s = build;
        }
        Err(error) => halves.errors.push(format!("{error:#}")),
    }
    halves.load_after = crate::machine::load();
    halves
}

/// All tools on all models in turns, the median of each.
fn checkers(rounds: usize) -> Result<(Vec<Checked>, f64)> {
    let begun = Instant::now();
    let spins: Vec<_> = CASES
        .iter()
        .map(|case| spin::Program::build(case.algorithm, case.entries))
        .collect::<Result<_>>()?;
    let build = begun.elapsed().as_secs_f64() / CASES.len() as f64;
    let mut all = Vec::new();
    for (case, spin) in CASES.into_iter().zip(&spins) {
        let mut runs: [Vec<(u64, f64)>; 3] = Default::default();
        for _ in 0..rounds {
            runs[0].push(ours(case)?);
            runs[1].push(stateright(case)?);
            runs[2].push(spin.run()?);
        }
        let model = format!("{}, {NODES} processes, {} each", case.algorithm, case.entries);
        let states = runs[0][0].0;
        for (tool, runs) in ["Mutua", "Stateright", "Spin"].into_iter().zip(runs) {
            // Else they have not done the same.
            let same = runs.iter().all(|run| run.0 == states);
            ensure!(same, "{model}: Mutua found {states} states, {tool} {}", runs[0].0);
            let seconds = median(runs.iter().map(|run| run.1).collect()).context("no rounds")?;
            all.push(Checked { model: model.clone(), tool: tool.to_owned(), states, seconds });
        }
    }
    Ok((all, build))
}

fn ours(case: Case) -> Result<(u64, f64)> {
    let task = Task {
        name: case.algorithm.to_owned(),
        system: System::new(Setup::new(NODES), u32::from(case.entries)),
        properties: Some(vec![Claim::MutualExclusion]),
        reduction: Reduction::None,
        limits: Limits { threads: 1, ..Limits::default() },
        first: false,
        walks: None,
        invariants: Vec::new(),
    };
    let begun = Instant::now();
    let report = check(&task, &mut NoClock).map_err(|error| anyhow!("{error}"))?;
    let search = report.searches.first().context("no search")?;
    Ok((search.states, begun.elapsed().as_secs_f64()))
}

fn stateright(case: Case) -> Result<(u64, f64)> {
    match case.algorithm {
        "lamport" => stateright_of::<Lamport>(case.entries),
        _ => stateright_of::<RicartAgrawala>(case.entries),
    }
}

fn stateright_of<M: Mutex>(entries: u8) -> Result<(u64, f64)> {
    let begun = Instant::now();
    let done = peers::model::<M>(NODES, entries).checker().threads(1).spawn_bfs().join();
    done.assert_properties();
    Ok((u64::try_from(done.unique_state_count())?, begun.elapsed().as_secs_f64()))
}
