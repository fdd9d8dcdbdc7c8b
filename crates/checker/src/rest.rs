//! Properties that are violated where nothing more has to happen.

use mutua_algorithms::{Claim, Kind};

use crate::{
    ids::LocalId,
    model::{Properties, bit},
    step::Stepper,
};

/// The properties that are violated if everything stays as it is for ever: a process still waits,
/// or an election has ended with two opinions.
pub(crate) fn violated_at_rest(stepper: &mut Stepper<'_>, state: &[u32]) -> Properties {
    let model = stepper.model();
    let locals = &state[..model.processes];
    let looks: Vec<_> = locals.iter().map(|&local| stepper.look(LocalId(local))).collect();
    let waiting = looks.iter().any(|look| look.waiting);
    let begun = looks.iter().any(|look| look.begun);
    let mut known = looks.iter().filter(|look| !look.down).map(|look| look.coordinator);
    let first = known.next();
    let differ = known.any(|other| Some(other) != first);
    match model.about.kind {
        Kind::Mutex if waiting => bit(Claim::DeadlockFree) | bit(Claim::Liveness),
        Kind::Election if waiting && begun => bit(Claim::Termination),
        Kind::Election if differ && begun => bit(Claim::Agreement),
        Kind::Mutex | Kind::Election => 0,
    }
}
