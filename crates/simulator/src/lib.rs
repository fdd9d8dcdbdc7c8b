//! Simulation of the algorithms: discrete events in virtual time, the same for the same seed.
//!
//! A [`Plan`] says what to simulate: a system, a [`Network`], a [`Workload`]. A [`Simulation`] of
//! one algorithm plays it and gives a [`Report`]; [`simulate`] chooses the algorithm by name. The
//! state machines are those that run between real machines; nothing is re-implemented here.

mod checks;
mod distribution;
mod election;
mod hash;
mod histogram;
mod measures;
mod network;
mod ordering;
mod random;
mod recorder;
mod report;
mod shrink;
mod simulation;
mod statistics;
mod theory;
mod wheel;
mod workload;
mod world;

pub use checks::Violation;
pub use distribution::Distribution;
pub use election::{ElectionPlan, ElectionReport, ElectionRun};
pub use histogram::{Histogram, Quantiles};
pub use network::{Latency, Network, Outage, Partition, Regions};
pub use random::Random;
pub use recorder::Recorder;
pub use report::{NodeReport, Report};
pub use shrink::{Shrunk, shrink};
pub use simulation::{Plan, Simulation};
pub use statistics::Interval;
pub use theory::{Expected, Meaning, Theory, TheoryLoad, theory};
pub use wheel::Wheel;
pub use workload::{Load, Who, Wish, Workload};

use mutua_algorithms::{Election, Mutex, StartError, registry};

/// Simulates the mutual exclusion algorithm of this name from the beginning to the end; none if
/// there is no such algorithm.
pub fn simulate(name: &str, plan: &Plan) -> Option<Result<Report, StartError>> {
    registry::visit_mutex(name, Simulate { plan })
}

struct Simulate<'a> {
    plan: &'a Plan,
}

impl registry::MutexVisitor for Simulate<'_> {
    type Output = Result<Report, StartError>;

    fn visit<M: Mutex>(self) -> Self::Output {
        Ok(Simulation::<M>::new(self.plan.clone())?.run_to_end())
    }
}

/// Simulates the election of this name from the beginning to the end; none if there is no such
/// algorithm.
pub fn elect(name: &str, plan: &ElectionPlan) -> Option<Result<ElectionReport, StartError>> {
    registry::visit_election(name, Elect { plan })
}

struct Elect<'a> {
    plan: &'a ElectionPlan,
}

impl registry::ElectionVisitor for Elect<'_> {
    type Output = Result<ElectionReport, StartError>;

    fn visit<E: Election>(self) -> Self::Output {
        Ok(ElectionRun::<E>::new(self.plan.clone(), |_| None)?.run_to_end())
    }
}
