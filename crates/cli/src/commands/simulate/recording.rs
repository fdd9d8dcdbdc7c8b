//! `--trace FILE` and `--diagram FILE`: the events of a run, as lines and as a diagram.

use std::{cell::RefCell, fs::File, io::BufWriter, path::PathBuf, rc::Rc};

use anyhow::{Context, Result};
use mutua_algorithms::{NodeId, Setup, Start};
use mutua_lab::diagram::{self, Drawing};
use mutua_simulator::{Partition, Recorder};
use mutua_trace::{Event, Header, Unit, What, WriteError, Writer};

use super::{
    Arguments,
    kept::{Kept, Part},
};
use crate::{output, picture::PictureArguments};

/// The files to which the events of a run are written.
pub(super) struct Recording {
    trace: Option<PathBuf>,
    picture: PictureArguments,
    /// The command that repeats the run.
    command: String,
    /// How many critical sections there are.
    sections: u32,
    /// The partitions of the network, which a diagram marks.
    partitions: Vec<Partition>,
    written: Rc<RefCell<Written>>,
}

#[derive(Default)]
struct Written {
    /// The file of the trace, which is created when the run begins.
    trace: Option<PathBuf>,
    writer: Option<Writer<BufWriter<File>>>,
    failure: Option<anyhow::Error>,
    header: Option<Header>,
    /// What a diagram shows.
    kept: Option<Kept>,
    /// How many entries a diagram shows, and how many there were.
    shown: Option<u64>,
    entries: u64,
    /// The index of the first event after those entries.
    end: Option<usize>,
    /// The times that a diagram shows, unless an option gives others.
    times: Option<(u64, u64)>,
    /// The system whose tree a diagram shows, and those of later views.
    trees_of: Option<Setup>,
}

/// What a diagram shows if no option says so.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shown {
    /// The whole run, as far as there is room.
    Whole,
    /// The beginning with so many entries, since after the last measured one others still enter;
    /// but all if a property is violated.
    Entries(u64),
    /// The first repair and what follows it; [`Recording::show_only`] gives the times.
    Repair,
}

impl Recording {
    /// Checks the files before the simulation, so that an error costs no time; none without
    /// options. None of them is created before there is something to write.
    pub(super) fn new(
        arguments: &Arguments,
        command: String,
        shown: Shown,
    ) -> Result<Option<Self>> {
        arguments.picture.check(Unit::Nanoseconds)?;
        let trace = arguments.trace.as_ref().map(PathBuf::from);
        let picture = arguments.picture.clone();
        if trace.is_none() && picture.diagram.is_none() {
            return Ok(None);
        }
        trace.iter().chain(&picture.diagram).try_for_each(|file| output::check(file))?;
        let part = match (picture.times(), shown) {
            (Some((first, last)), _) => Part::Times(first, last),
            (None, Shown::Repair) => Part::Repair,
            (None, Shown::Whole | Shown::Entries(_)) => Part::Beginning,
        };
        let written = Written {
            trace: trace.clone(),
            kept: picture.diagram.is_some().then(|| Kept::new(part)),
            shown: match shown {
                Shown::Entries(shown) if part == Part::Beginning => Some(shown),
                Shown::Entries(_) | Shown::Whole | Shown::Repair => None,
            },
            ..Written::default()
        };
        let sections = arguments.sections.map_or(1, |sections| sections.count);
        let written = Rc::new(RefCell::new(written));
        let partitions = arguments.network.partition.clone();
        Ok(Some(Self { trace, picture, command, sections, partitions, written }))
    }

    /// A recorder that writes to these files. [`finish`](Self::finish) reports errors.
    pub(super) fn recorder(&self, algorithm: &str, start: &Start) -> Recorder {
        let names = Header::names_in_sections(start, self.sections);
        let mut header = Header::new(algorithm, start, names, Unit::Nanoseconds);
        header.title = self.command.clone();
        self.written.borrow_mut().begin(&header);
        let written = Rc::clone(&self.written);
        Recorder::new(header, move |event| written.borrow_mut().write(event))
    }

    /// Lets the diagram show these times only, the first and the last included, unless an option
    /// gives others; nanoseconds.
    pub(super) fn show_only(&self, times: (u64, u64)) {
        self.written.borrow_mut().times = Some(times);
    }

    /// Lets the diagram show the tree of this system, if it has one, and those of the views that
    /// follow.
    pub(super) fn show_trees_of(&self, setup: &Setup) {
        let is_readable = setup.nodes <= diagram::MOST_DRAWN;
        self.written.borrow_mut().trees_of = is_readable.then(|| setup.clone());
    }

    /// Closes the files, or returns why they are incomplete.
    pub(super) fn finish(self) -> Result<()> {
        let written = self.written.take();
        if let Some(name) = &self.trace {
            let finished = match (written.failure, written.writer) {
                (Some(error), _) => Err(error),
                (None, Some(writer)) => writer.finish().map(drop).map_err(WriteError::into),
                (None, None) => Ok(()),
            };
            finished.with_context(|| format!("the trace in `{}` is incomplete", name.display()))?;
        }
        if let (Some(header), Some(kept)) = (&written.header, written.kept) {
            let range = kept.range;
            let (history, events) = kept.finish();
            let violated = events.iter().any(|event| matches!(event.what, What::Violation { .. }));
            let end = written.end.filter(|_| !violated).unwrap_or(events.len());
            let is_there = |&(first, last): &(u64, u64)| {
                events.iter().any(|event| (first..=last).contains(&event.at))
            };
            let steps = written.times.filter(is_there);
            let last = steps.map_or(u64::MAX, |(_, last)| last);
            let until = events.partition_point(|event| event.at <= last);
            let trees = |setup: &Setup| diagram::trees(setup, header, &events[..until]);
            let structure = written.trees_of.as_ref().and_then(trees);
            let drawing = Drawing { steps, history, structure, ..Drawing::default() };
            let mut events = events;
            events.truncate(end);
            self.partitions.iter().for_each(|one| mark_partition(header, one, &mut events));
            self.picture.write_part(header, &events, range, drawing)?;
        }
        Ok(())
    }
}

/// Adds to the events of a diagram that processes are cut off from others, and when that ends: the
/// messages that are lost then would have no reason to see.
fn mark_partition(header: &Header, partition: &Partition, events: &mut Vec<Event>) {
    let all = (0..header.processes.len()).map(NodeId::from);
    let (group, others): (Vec<_>, Vec<_>) = all.partition(|&who| partition.group.contains(who));
    let others: Vec<_> = others.into_iter().map(|who| header.name(who)).collect();
    let others = if others.len() > NAMED { "the others".to_owned() } else { others.join(", ") };
    for (at, words) in [(partition.from, "cut off from"), (partition.until, "reaches again")] {
        let is_shown = events.first().is_some_and(|first| first.at <= at)
            && events.last().is_some_and(|last| at <= last.at);
        if is_shown {
            let place = events.partition_point(|event| event.at < at);
            let text = format!("{words} {others}");
            let note =
                |&who: &NodeId| Event::new(at, who, What::Note { text: text.clone().into() });
            events.splice(place..place, group.iter().map(note));
        }
    }
}

/// So many processes on the other side of a partition are named.
const NAMED: usize = 4;

impl Written {
    fn begin(&mut self, header: &Header) {
        self.header = Some(header.clone());
        if let Some(file) = &self.trace {
            let opened = File::create(file).map_err(anyhow::Error::from);
            let writer = |file| Ok(Writer::new(BufWriter::new(file), header.clone())?);
            match opened.and_then(writer) {
                Ok(writer) => self.writer = Some(writer),
                Err(error) => self.failure = Some(error),
            }
        }
    }

    fn write(&mut self, event: Event) {
        if let Some(writer) = &mut self.writer
            && self.failure.is_none()
        {
            self.failure = writer.write(&event).err().map(anyhow::Error::from);
        }
        if let (Some(kept), Some(header)) = (&mut self.kept, &self.header) {
            if matches!(event.what, What::Enter { .. }) {
                self.entries += 1;
                let is_past = self.shown.is_some_and(|shown| self.entries > shown);
                self.end = self.end.or(is_past.then(|| kept.len()));
            }
            kept.add(header, &event);
        }
    }
}
