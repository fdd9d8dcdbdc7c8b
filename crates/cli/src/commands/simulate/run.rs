//! Runs a plan with all its seeds, with a progress bar and a trace if they are wanted.

use std::{
    cell::RefCell,
    fs::File,
    io::{BufWriter, IsTerminal},
    rc::Rc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use mutua_algorithms::{About, Mutex, Start, registry};
use mutua_simulator::{Plan, Recorder, Report, Simulation};
use mutua_trace::{Event, Header, Unit, WriteError, Writer};

use super::{Arguments, Outcome};
use crate::exit::usage;

/// Events between two looks at the clock.
const SLICE: u64 = 1 << 18;

pub(super) fn all_seeds(
    arguments: &Arguments,
    about: &'static About,
    plan: &Plan,
) -> Result<Outcome> {
    let mut outcome = Outcome::new(about, plan, super::theory_load(plan));
    for number in 0..arguments.runs {
        let seed = plan.seed + number;
        let plan = Plan { seed, ..plan.clone() };
        // The trace is that of the first seed.
        let trace = arguments.trace.as_deref().filter(|_| number == 0);
        let run = One { plan, trace };
        let (report, time) = registry::visit_mutex(about.name, run).context("no such mutex")??;
        outcome.add(report, time);
    }
    Ok(outcome)
}

struct One<'a> {
    plan: Plan,
    trace: Option<&'a str>,
}

impl registry::MutexVisitor for One<'_> {
    type Output = Result<(Report, Duration)>;

    fn visit<M: Mutex>(self) -> Self::Output {
        let trace = self.trace.map(TraceFile::new).transpose()?;
        let simulation = Simulation::<M>::with_recorder(self.plan, |start| {
            trace.as_ref().map(|trace| trace.recorder(M::ABOUT.name, start))
        });
        let mut simulation = simulation.map_err(|error| usage(error.to_string()))?;
        let begin = Instant::now();
        let bar = Bar::new();
        while simulation.run(SLICE) {
            bar.show(simulation.progress(), simulation.events(), begin.elapsed());
        }
        bar.clear();
        let time = begin.elapsed();
        let report = simulation.report();
        drop(simulation);
        trace.map_or(Ok(()), TraceFile::finish)?;
        Ok((report, time))
    }
}

/// Where the events of a run go.
#[derive(Clone)]
pub(super) struct TraceFile {
    name: String,
    shared: Rc<RefCell<Option<Result<Writer<BufWriter<File>>, WriteError>>>>,
    file: Rc<RefCell<Option<File>>>,
}

impl TraceFile {
    pub(super) fn new(name: &str) -> Result<Self> {
        let file = File::create(name).with_context(|| format!("cannot write to `{name}`"))?;
        Ok(Self {
            name: name.to_owned(),
            shared: Rc::default(),
            file: Rc::new(RefCell::new(Some(file))),
        })
    }

    /// A recorder that writes to the file. What goes wrong is told by [`finish`](Self::finish).
    pub(super) fn recorder(&self, algorithm: &str, start: &Start) -> Recorder {
        let header = Header::new(algorithm, start, Header::default_names(start), Unit::Nanoseconds);
        if let Some(file) = self.file.take() {
            let writer = Writer::new(BufWriter::new(file), header.clone());
            *self.shared.borrow_mut() = Some(writer);
        }
        let shared = Rc::clone(&self.shared);
        Recorder::new(header, move |event: Event| {
            let mut shared = shared.borrow_mut();
            if let Some(Ok(writer)) = &mut *shared
                && let Err(error) = writer.write(&event)
            {
                *shared = Some(Err(error));
            }
        })
    }

    pub(super) fn finish(self) -> Result<()> {
        let written = match self.shared.take() {
            None => Ok(()),
            Some(Ok(writer)) => writer.finish().map(drop),
            Some(Err(error)) => Err(error),
        };
        written.with_context(|| format!("the trace in `{}` is not complete", self.name))
    }
}

/// How far a long run has come, on a terminal.
pub(crate) struct Bar(ProgressBar);

/// What is shorter needs no bar.
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
