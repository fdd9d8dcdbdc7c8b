//! Runs a plan with all its seeds, with a progress bar and, if requested, a trace.

use std::{
    io::IsTerminal,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use mutua_algorithms::About;
use mutua_simulator::{Plan, simulate_watched};
use rustix::time::{ClockId, clock_gettime};

use super::{
    Arguments, Outcome,
    recording::{Recording, Shown},
    replay::{self, Short},
};
use crate::exit::usage;

pub(super) fn all_seeds(
    arguments: &Arguments,
    about: &'static About,
    plan: &Plan,
    runs: u64,
) -> Result<Outcome> {
    let mut outcome = Outcome::new(about, plan, super::theory_load(plan));
    let most = arguments.precision.map_or(runs, |_| MOST_RUNS);
    for number in 0..most {
        let seed = plan.seed.wrapping_add(number);
        let plan = Plan { seed, ..plan.clone() };
        // The trace is that of the first seed.
        let is_recorded = number == 0 && !arguments.shrink;
        let recording = if is_recorded {
            Recording::new(arguments, replay::title(), Shown::Entries(plan.entries))?
        } else {
            None
        };
        let bar = Bar::new();
        // The rate of events excludes the creation of the processes and the time of other programs.
        let (mut begin, mut worked_before) = (Instant::now(), processor_time());
        let mut progress = |share, events| match events {
            0 => (begin, worked_before) = (Instant::now(), processor_time()),
            _ => bar.show(share, events, begin.elapsed()),
        };
        let report = match &recording {
            None => simulate_watched(about.name, &plan, None, &mut progress),
            Some(recording) => {
                let make = |name, start: &_| recording.recorder(name, start);
                simulate_watched(about.name, &plan, Some(&make), &mut progress)
            }
        };
        let time = processor_time().saturating_sub(worked_before);
        bar.clear();
        let report = report.context("unknown mutual exclusion algorithm")?;
        outcome.add(report.map_err(|error| usage(error.to_string()))?, time);
        recording.map_or(Ok(()), Recording::finish)?;
        let enough = |precision| {
            let done = outcome.is_within(precision) || outcome.has_no_steady_state();
            number + 1 >= FEWEST_RUNS && done
        };
        if arguments.precision.is_some_and(enough) {
            break;
        }
    }
    Ok(outcome)
}

/// With `--precision`, at least and at most so many seeds are run: the interval of a few may be
/// narrow by chance.
const FEWEST_RUNS: u64 = 5;
const MOST_RUNS: u64 = 10_000;

/// Records a run after the others: the short one with a violation, else the failed or first one.
pub(super) fn record(
    arguments: &Arguments,
    about: &'static About,
    plan: &Plan,
    short: Option<&Short>,
) -> Result<()> {
    let title = short.map_or_else(replay::title, |short| short.command.clone());
    let recording = Recording::new(arguments, title, Shown::Entries(plan.entries))?;
    let Some(recording) = recording else { return Ok(()) };
    let make = |name, start: &_| recording.recorder(name, start);
    let report = simulate_watched(about.name, plan, Some(&make), &mut |_, _| ());
    let report = report.context("unknown mutual exclusion algorithm")?;
    report.map_err(|error| usage(error.to_string()))?;
    recording.finish()
}

/// The CPU time of this thread.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = time.tv_sec as f64 + time.tv_nsec as f64 / 1e9;
    Duration::from_secs_f64(seconds.max(0.0))
}

/// The progress of a long run, on a terminal.
pub(crate) struct Bar(ProgressBar);

/// Shorter runs have no progress bar.
const LONG: Duration = Duration::from_millis(700);

impl Bar {
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::with_draw_target(Some(1000), ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template("{wide_bar} {percent:>3} % {msg}, {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self(bar)
    }

    fn show(&self, share: f64, events: u64, elapsed: Duration) {
        if elapsed < LONG || !std::io::stderr().is_terminal() {
            return;
        }
        if self.0.is_hidden() {
            self.0.set_draw_target(ProgressDrawTarget::stderr_with_hz(5));
        }
        let rate = events as f64 / elapsed.as_secs_f64() / 1e6;
        self.0.set_message(format!("{rate:.1} M events/s"));
        self.0.set_position((share * 1000.0) as u64);
    }

    pub(crate) fn clear(&self) {
        self.0.finish_and_clear();
    }
}
