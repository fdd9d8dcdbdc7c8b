//! `--repair`, `--election` and `--detector`: the repair after crashes, of `check` and `simulate`.

use clap::{
    ValueEnum,
    builder::{PossibleValuesParser, TypedValueParser},
};
use mutua_algorithms::repairs::{self, ElectionName};
use mutua_simulator::Detector;

use crate::durations;

/// The repair after crashes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum RepairArgument {
    /// No repair: a crash shows its damage.
    #[default]
    None,
    /// The survivors elect a leader and start the algorithm anew.
    Generic,
    /// The algorithm's own repair where it has one and that suffices; else as generic.
    Special,
    /// As generic, but messages do not name their view: a negative control.
    GenericWithoutViews,
}

/// A repair of `simulate`, which has no negative control; its refusal names the others.
pub(crate) fn simulated(text: &str) -> Result<RepairArgument, String> {
    RepairArgument::from_str(text, false)
        .map_err(|_| format!("unknown repair `{text}`: use none, generic or special"))
}

/// The help of `--repair`, with the algorithms that have a special one.
pub(crate) fn repair_help(more: &str) -> String {
    let names: Vec<_> = repairs::with_special().map(|about| about.name).collect();
    format!(
        "Repair after crashes: none; generic (the survivors elect a leader and start the algorithm \
         anew); or special, the algorithm's own repair where it has one and that suffices, else \
         as generic. These have one: {}. {more}",
        names.join(", ")
    )
}

/// Elections by their names.
pub(crate) fn elections() -> impl TypedValueParser<Value = ElectionName> {
    let names = ElectionName::ALL.iter().map(|election| election.name());
    PossibleValuesParser::new(names).try_map(|name| name.parse::<ElectionName>())
}

/// `perfect:DELAY`, the delay of the reports, or `timeout:TIME`, the silence after which a process
/// is reported.
pub(crate) fn detector(text: &str) -> Result<Detector, String> {
    let wrong = || {
        format!("invalid detector `{text}`: use perfect:DELAY or timeout:TIME, as in perfect:5ms")
    };
    match text.split_once(':') {
        Some(("perfect", delay)) => {
            durations::distribution(delay).map(Detector::Perfect).map_err(|_| wrong())
        }
        Some(("timeout", time)) => {
            durations::nanoseconds(time).map(Detector::Timeout).map_err(|_| wrong())
        }
        Some(_) | None => Err(wrong()),
    }
}
