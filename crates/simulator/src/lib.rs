//! Simulation of the algorithms: discrete events in virtual time, the same for the same seed.
//!
//! A [`Plan`] describes a run: a system, a [`Network`], a [`Workload`]. A [`Simulation`] of one
//! algorithm runs it and returns a [`Report`]; [`simulate`] chooses the algorithm by name. The
//! state machines are those that run between real machines; nothing is re-implemented here.

mod app_messages;
mod batches;
mod checks;
mod distribution;
mod election;
mod election_theory;
mod event;
mod hash;
mod histogram;
mod measures;
mod network;
mod percentiles;
mod random;
mod recorder;
mod repair;
mod report;
mod ring;
mod saturation;
mod sections;
mod shares;
mod shrink;
mod simulation;
mod size;
mod statistics;
mod theory;
mod wheel;
mod workload;
mod world;

pub use checks::Violation;
pub use distribution::Distribution;
pub use election::{ElectionPlan, ElectionReport, ElectionRun};
pub use election_theory::{ElectionTheory, election_theory};
pub use hash::combined;
pub use histogram::{Histogram, Quantiles};
pub use mutua_algorithms::Meaning;
pub use network::{Latency, Network, Outage, Partition, Regions, RegionsError};
pub use percentiles::{Percentiles, PercentilesError};
pub use random::Random;
pub use recorder::Recorder;
pub use repair::{
    ByPurpose, Cause, Change, ChosenCrash, Detector, HitCrash, RepairPlan, RepairReport, Repaired,
    Victim,
};
pub use report::{NodeReport, Report};
pub use ring::{RingPlan, RingReport, settle};
pub use sections::Sections;
pub use shrink::{Shrunk, shrink};
pub use simulation::{Plan, Simulation};
pub use size::Sizes;
pub use statistics::Interval;
pub use theory::{Expected, Theory, TheoryLoad, theory, theory_of};
pub use wheel::Wheel;
pub use workload::{Load, ScriptedRequest, Who, Workload};

use mutua_algorithms::{Election, Mutex, Start, StartError, registry};

/// Makes the recorder of a run from the algorithm's name and the system's start.
pub type MakeRecorder<'a> = &'a dyn Fn(&'static str, &Start) -> Recorder;

/// Simulates the mutual exclusion algorithm of this name from the beginning to the end; none if
/// no such algorithm is known.
pub fn simulate(name: &str, plan: &Plan) -> Option<Result<Report, StartError>> {
    simulate_watched(name, plan, None, &mut |_, _| {})
}

/// The same, recorded and with progress reports: `progress` gets the share that is done and the
/// number of events so far, first when the system has been built, then every 2^18 events.
pub fn simulate_watched(
    name: &str,
    plan: &Plan,
    recorder: Option<MakeRecorder<'_>>,
    progress: &mut dyn FnMut(f64, u64),
) -> Option<Result<Report, StartError>> {
    let plan = Plan { setup: plan.setup.clone().of(name), ..plan.clone() };
    registry::visit_mutex(name, Simulate { plan, recorder, progress })
}

/// Simulates the election of this name from the beginning to the end; none if no such algorithm is
/// known.
pub fn elect(
    name: &str,
    plan: &ElectionPlan,
    recorder: Option<MakeRecorder<'_>>,
) -> Option<Result<ElectionReport, StartError>> {
    registry::visit_election(name, Elect { plan, recorder })
}

/// Simulates the mutual exclusion algorithm of this name with the generic repair from the beginning
/// to the end; none if no such algorithm is known.
pub fn simulate_repaired(
    name: &str,
    plan: &RepairPlan,
    recorder: Option<MakeRecorder<'_>>,
) -> Option<Result<RepairReport, StartError>> {
    let mut plan = plan.clone();
    plan.plan.setup = plan.plan.setup.of(name);
    registry::visit_mutex(name, SimulateRepaired { plan, recorder })
}

/// Events between two reports of progress.
const SLICE: u64 = 1 << 18;

struct Simulate<'a> {
    plan: Plan,
    recorder: Option<MakeRecorder<'a>>,
    progress: &'a mut dyn FnMut(f64, u64),
}

impl registry::MutexVisitor for Simulate<'_> {
    type Output = Result<Report, StartError>;

    fn visit<M: Mutex>(self) -> Self::Output {
        let mut simulation = Simulation::<M>::with_recorder(self.plan, |start| {
            self.recorder.map(|make| make(start.about().name, start))
        })?;
        (self.progress)(0.0, 0);
        let mut before = simulation.moment();
        while simulation.run(SLICE) {
            (self.progress)(simulation.progress(), simulation.events());
            if let Some(error) = simulation.takes_for_ever(before) {
                return Err(error);
            }
            before = simulation.moment();
        }
        simulation.error().map_or_else(|| Ok(simulation.report()), Err)
    }
}

struct Elect<'a> {
    plan: &'a ElectionPlan,
    recorder: Option<MakeRecorder<'a>>,
}

impl registry::ElectionVisitor for Elect<'_> {
    type Output = Result<ElectionReport, StartError>;

    fn visit<E: Election>(self) -> Self::Output {
        let run = ElectionRun::<E>::new(self.plan.clone(), |start| {
            self.recorder.map(|make| make(E::ABOUT.name, start))
        })?;
        Ok(run.run_to_end())
    }
}

struct SimulateRepaired<'a> {
    plan: RepairPlan,
    recorder: Option<MakeRecorder<'a>>,
}

impl registry::MutexVisitor for SimulateRepaired<'_> {
    type Output = Result<RepairReport, StartError>;

    fn visit<M: Mutex>(self) -> Self::Output {
        repair::run::<M>(self.plan, |start| {
            self.recorder.map(|make| make(start.about().name, start))
        })
    }
}
