//! `--trace FILE` and `--diagram FILE`: what happens, as lines and as a picture.

use std::{cell::RefCell, fs, fs::File, io::BufWriter, rc::Rc};

use anyhow::{Context, Result};
use mutua_algorithms::Start;
use mutua_simulator::Recorder;
use mutua_trace::{Event, Header, Unit, WriteError, Writer, diagram};

use super::Arguments;

/// A picture shows the first few thousand events; what is kept for it is bounded.
const KEPT: usize = 50_000;

/// Where the events of a run go.
pub(super) struct Recording {
    trace: Option<String>,
    diagram: Option<String>,
    /// The command that repeats the run.
    command: String,
    written: Rc<RefCell<Written>>,
}

#[derive(Default)]
struct Written {
    /// The file, before the header is known.
    file: Option<File>,
    writer: Option<Writer<BufWriter<File>>>,
    failure: Option<WriteError>,
    header: Option<Header>,
    /// The beginning of the run, if a picture is wanted.
    kept: Option<Vec<Event>>,
}

impl Recording {
    /// Opens the files, before anything is simulated for nothing; none if none is wanted.
    pub(super) fn new(arguments: &Arguments, command: String) -> Result<Option<Self>> {
        let (trace, diagram) = (arguments.trace.clone(), arguments.diagram.clone());
        if trace.is_none() && diagram.is_none() {
            return Ok(None);
        }
        let create =
            |name: &String| File::create(name).with_context(|| format!("cannot write to `{name}`"));
        let written = Written {
            file: trace.as_ref().map(create).transpose()?,
            kept: diagram.as_ref().map(create).transpose()?.map(|_| Vec::new()),
            ..Written::default()
        };
        Ok(Some(Self { trace, diagram, command, written: Rc::new(RefCell::new(written)) }))
    }

    /// A recorder that hands everything here. What goes wrong is told by [`finish`](Self::finish).
    pub(super) fn recorder(&self, algorithm: &str, start: &Start) -> Recorder {
        let names = Header::default_names(start);
        let mut header = Header::new(algorithm, start, names, Unit::Nanoseconds);
        header.title = self.command.clone();
        self.written.borrow_mut().begin(&header);
        let written = Rc::clone(&self.written);
        Recorder::new(header, move |event| written.borrow_mut().write(event))
    }

    /// Closes the files, or says why they are not complete.
    pub(super) fn finish(self) -> Result<()> {
        let written = self.written.take();
        if let Some(name) = &self.trace {
            let finished = match (written.failure, written.writer) {
                (Some(error), _) => Err(error),
                (None, Some(writer)) => writer.finish().map(drop),
                (None, None) => Ok(()),
            };
            finished.with_context(|| format!("the trace in `{name}` is not complete"))?;
        }
        if let (Some(name), Some(header), Some(events)) =
            (&self.diagram, &written.header, &written.kept)
        {
            fs::write(name, diagram::svg(header, events))
                .with_context(|| format!("cannot write the picture `{name}`"))?;
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
            kept.push(event);
        }
    }
}
