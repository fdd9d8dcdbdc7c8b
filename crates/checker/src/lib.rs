//! Every interleaving of a small system, on the state machines that run in production.

mod actor;
mod budget;
mod catalogue;
mod ghost;
mod intern;
mod limits;
mod model;
mod search;
mod step;
mod store;
mod system;

pub use actor::Event;
pub use limits::{Limits, Progress, Stop};
pub use system::{Faults, System, Timers};

/// tmp
pub fn tmp(name: &str, system: &System, limits: &Limits, reduced: bool) -> String {
    use mutua_algorithms::Claim;
    let m = model::Model::new(name, system, model::Build { ghost: ghost::Ghost::None, reduced })
        .unwrap();
    let w = search::Wanted {
        properties: model::bit(Claim::Safety) | model::bit(Claim::DeadlockFree),
        first: false,
    };
    let r = search::search(&m, w, limits, &mut |_| ());
    format!(
        "states {} steps {} depth {} s {:.3} rate {:.0}/s bytes/state {:.1} found {:?} stop {:?} sizes {:?}",
        r.states(), r.steps, r.depths.len() - 1, r.seconds, r.states() as f64 / r.seconds,
        r.bytes() as f64 / r.states() as f64, r.found, r.stopped, m.catalogue().sizes()
    )
}
