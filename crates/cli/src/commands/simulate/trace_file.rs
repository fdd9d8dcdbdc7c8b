//! `--trace FILE`: what happens, an event a line.

use std::{cell::RefCell, fs::File, io::BufWriter, mem, rc::Rc};

use anyhow::{Context, Result};
use mutua_algorithms::Start;
use mutua_simulator::Recorder;
use mutua_trace::{Event, Header, Unit, WriteError, Writer};

/// Where the events of a run go.
pub(super) struct TraceFile {
    name: String,
    state: Rc<RefCell<State>>,
}

enum State {
    /// The file is there; the header is not known yet.
    Open(File),
    Writing(Writer<BufWriter<File>>),
    Failed(WriteError),
    Closed,
}

impl TraceFile {
    /// Opens the file, before anything is simulated for nothing.
    pub(super) fn new(name: &str) -> Result<Self> {
        let file = File::create(name).with_context(|| format!("cannot write to `{name}`"))?;
        Ok(Self { name: name.to_owned(), state: Rc::new(RefCell::new(State::Open(file))) })
    }

    /// A recorder that writes to the file. What goes wrong is told by [`finish`](Self::finish).
    pub(super) fn recorder(&self, algorithm: &str, start: &Start) -> Recorder {
        let header = Header::new(algorithm, start, Header::default_names(start), Unit::Nanoseconds);
        self.state.borrow_mut().begin(&header);
        let state = Rc::clone(&self.state);
        Recorder::new(header, move |event| state.borrow_mut().write(&event))
    }

    /// Closes the file, or says why it is not complete.
    pub(super) fn finish(self) -> Result<()> {
        let written = match mem::replace(&mut *self.state.borrow_mut(), State::Closed) {
            State::Writing(writer) => writer.finish().map(drop),
            State::Failed(error) => Err(error),
            State::Open(_) | State::Closed => Ok(()),
        };
        written.with_context(|| format!("the trace in `{}` is not complete", self.name))
    }
}

impl State {
    fn begin(&mut self, header: &Header) {
        if let Self::Open(file) = mem::replace(self, Self::Closed) {
            *self = match Writer::new(BufWriter::new(file), header.clone()) {
                Ok(writer) => Self::Writing(writer),
                Err(error) => Self::Failed(error),
            };
        }
    }

    fn write(&mut self, event: &Event) {
        if let Self::Writing(writer) = self
            && let Err(error) = writer.write(event)
        {
            *self = Self::Failed(error);
        }
    }
}
