//! Simulation of the algorithms: discrete events in virtual time, the same for the same seed.
//!
//! A [`Plan`] says what to simulate: a system, a [`Network`], a [`Workload`]. A [`Simulation`] of
//! one algorithm plays it and gives a [`Report`]; [`simulate`] chooses the algorithm by name. The
//! state machines are those that run between real machines; nothing is re-implemented here.

mod batches;
mod bypass;
mod checks;
mod distribution;
mod election;
mod election_theory;
mod hash;
mod histogram;
mod measures;
mod network;
mod ordering;
mod random;
mod recorder;
mod report;
mod ring;
mod shrink;
mod simulation;
mod statistics;
mod tells;
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
pub use network::{Latency, Network, Outage, Partition, Regions};
pub use random::Random;
pub use recorder::Recorder;
pub use report::{NodeReport, Report};
pub use ring::{RingPlan, RingReport, settle};
pub use shrink::{Shrunk, shrink};
pub use simulation::{Plan, Simulation};
pub use statistics::Interval;
pub use theory::{Expected, Meaning, Theory, TheoryLoad, theory};
pub use wheel::Wheel;
pub use workload::{Load, Who, Wish, Workload};

use mutua_algorithms::{Election, Mutex, Start, StartError, registry};

/// Makes the one who writes a run down, from the algorithm's name and how the system starts.
pub type MakeRecorder<'a> = &'a dyn Fn(&'static str, &Start) -> Recorder;

/// Simulates the mutual exclusion algorithm of this name from the beginning to the end; none if
/// there is no such algorithm.
pub fn simulate(name: &str, plan: &Plan) -> Option<Result<Report, StartError>> {
    simulate_watched(name, plan, None, &mut |_, _| {})
}

/// The same, written down by a recorder and watched by `progress`, which is told when the system is
/// there, and then now and then, which share is done and how many events there were.
pub fn simulate_watched(
    name: &str,
    plan: &Plan,
    recorder: Option<MakeRecorder<'_>>,
    progress: &mut dyn FnMut(f64, u64),
) -> Option<Result<Report, StartError>> {
    registry::visit_mutex(name, Simulate { plan, recorder, progress })
}

/// Simulates the election of this name from the beginning to the end; none if there is no such
/// algorithm.
pub fn elect(
    name: &str,
    plan: &ElectionPlan,
    recorder: Option<MakeRecorder<'_>>,
) -> Option<Result<ElectionReport, StartError>> {
    registry::visit_election(name, Elect { plan, recorder })
}

/// Events between two reports of progress.
const SLICE: u64 = 1 << 18;

struct Simulate<'a> {
    plan: &'a Plan,
    recorder: Option<MakeRecorder<'a>>,
    progress: &'a mut dyn FnMut(f64, u64),
}

impl registry::MutexVisitor for Simulate<'_> {
    type Output = Result<Report, StartError>;

    fn visit<M: Mutex>(self) -> Self::Output {
        let mut simulation = Simulation::<M>::with_recorder(self.plan.clone(), |start| {
            self.recorder.map(|make| make(M::ABOUT.name, start))
        })?;
        (self.progress)(0.0, 0);
        while simulation.run(SLICE) {
            (self.progress)(simulation.progress(), simulation.events());
        }
        Ok(simulation.report())
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
