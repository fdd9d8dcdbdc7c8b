//! `--trace FILE` and `--diagram FILE`: the events of a run, as lines and as a diagram.

use std::{cell::RefCell, fs::File, io::BufWriter, path::Path, rc::Rc};

use anyhow::{Context, Result};
use mutua_algorithms::Start;
use mutua_lab::diagram::Drawing;
use mutua_simulator::Recorder;
use mutua_trace::{Event, Header, Unit, What, WriteError, Writer};

use super::Arguments;
use crate::picture::PictureArguments;

/// A diagram shows the first few thousand events; the number kept for it is bounded.
const KEPT: usize = 50_000;

/// The files to which the events of a run are written.
pub(super) struct Recording {
    trace: Option<String>,
    picture: PictureArguments,
    /// The command that repeats the run.
    command: String,
    /// How many critical sections there are.
    sections: u32,
    written: Rc<RefCell<Written>>,
}

#[derive(Default)]
struct Written {
    /// The file, before the header is known.
    file: Option<File>,
    writer: Option<Writer<BufWriter<File>>>,
    failure: Option<WriteError>,
    header: Option<Header>,
    /// The beginning of the run, for a diagram.
    kept: Option<Vec<Event>>,
    /// How many entries a diagram shows, and how many there were.
    shown: Option<u64>,
    entries: u64,
    /// The index of the first event after those entries.
    end: Option<usize>,
}

impl Recording {
    /// Opens the files before the simulation, so that an error costs no time; none without options.
    /// A diagram ends after so many entries, since after the last measured one others still enter;
    /// but it shows all if a property is violated.
    pub(super) fn new(
        arguments: &Arguments,
        command: String,
        shown: Option<u64>,
    ) -> Result<Option<Self>> {
        arguments.picture.check(Unit::Nanoseconds)?;
        let (trace, picture) = (arguments.trace.clone(), arguments.picture.clone());
        if trace.is_none() && picture.diagram.is_none() {
            return Ok(None);
        }
        let create = |name: &Path| {
            File::create(name).with_context(|| format!("cannot write to `{}`", name.display()))
        };
        let diagram = picture.diagram.as_deref().map(create).transpose()?;
        let written = Written {
            file: trace.as_deref().map(Path::new).map(create).transpose()?,
            kept: diagram.map(|_| Vec::new()),
            shown,
            ..Written::default()
        };
        let sections = arguments.sections.map_or(1, |sections| sections.count);
        let written = Rc::new(RefCell::new(written));
        Ok(Some(Self { trace, picture, command, sections, written }))
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

    /// Lets the diagram show these times only, if it has any event of them; nanoseconds.
    pub(super) fn show_only(&self, times: std::ops::RangeInclusive<u64>) {
        if let Some(kept) = &mut self.written.borrow_mut().kept
            && kept.iter().any(|event| times.contains(&event.at))
        {
            kept.retain(|event| times.contains(&event.at));
        }
    }

    /// Closes the files, or returns why they are incomplete.
    pub(super) fn finish(self) -> Result<()> {
        let written = self.written.take();
        if let Some(name) = &self.trace {
            let finished = match (written.failure, written.writer) {
                (Some(error), _) => Err(error),
                (None, Some(writer)) => writer.finish().map(drop),
                (None, None) => Ok(()),
            };
            finished.with_context(|| format!("the trace in `{name}` is incomplete"))?;
        }
        if let (Some(header), Some(events)) = (&written.header, &written.kept) {
            let violated = events.iter().any(|event| matches!(event.what, What::Violation { .. }));
            let end = written.end.filter(|_| !violated).unwrap_or(events.len());
            self.picture.write(header, &events[..end], Drawing::default())?;
        }
        Ok(())
    }
}

impl Written {
    fn begin(&mut self, header: &Header) {
        self.header = Some(header.clone());
        if let Some(file) = self.file.take() {
            match Writer::new(BufWriter::new(file), header.clone()) {
                Ok(writer) => self.writer = Some(writer),
                Err(error) => self.failure = Some(error),
            }
        }
    }

    fn write(&mut self, event: Event) {
        if let Some(writer) = &mut self.writer
            && self.failure.is_none()
        {
            self.failure = writer.write(&event).err();
        }
        if let Some(kept) = self.kept.as_mut().filter(|kept| kept.len() < KEPT) {
            if matches!(event.what, What::Enter { .. }) {
                self.entries += 1;
                let is_past = self.shown.is_some_and(|shown| self.entries > shown);
                self.end = self.end.or(is_past.then_some(kept.len()));
            }
            kept.push(event);
        }
    }
}
