//! Traces in files: a header line, then an event a line.

use std::io::{self, BufRead, Write};

use mutua_algorithms::NodeId;

use crate::{Event, FORMAT, Header};

/// Writes a trace. Give it a buffered writer: it writes a line per event.
#[derive(Debug)]
pub struct Writer<W> {
    to: W,
    header: Header,
    last: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a trace with its header.
    pub fn new(mut to: W, header: Header) -> Result<Self, WriteError> {
        write_line(&mut to, &header)?;
        Ok(Self { to, header, last: 0 })
    }

    /// Writes an event.
    pub fn write(&mut self, event: &Event) -> Result<(), WriteError> {
        if event.at < self.last {
            return Err(WriteError::Backwards { at: event.at, last: self.last });
        }
        let names = &self.header.processes;
        let mut name = |node: NodeId| {
            names.get(node.index()).map(String::as_str).ok_or(WriteError::NoName { node })
        };
        let named = event.clone().map(&mut name)?;
        self.last = event.at;
        write_line(&mut self.to, &named)
    }

    /// The header that was written.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Flushes the writer below.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        Ok(self.to.flush()?)
    }

    /// Ends the trace and gives back what it was written to.
    pub fn finish(mut self) -> Result<W, WriteError> {
        self.to.flush()?;
        Ok(self.to)
    }
}

fn write_line(to: &mut impl Write, line: &impl serde::Serialize) -> Result<(), WriteError> {
    serde_json::to_writer(&mut *to, line).map_err(io::Error::from)?;
    to.write_all(b"\n")?;
    Ok(())
}

/// Why an event was not written. The lines before it were.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The writer below failed; the line may be there in part.
    #[error("cannot write the trace: {0}")]
    Io(#[from] io::Error),
    /// Nothing of the event was written; the driver must hand events over in order.
    #[error("an event at {at} after one at {last}; a trace goes forward in time")]
    Backwards {
        /// The time of the event.
        at: u64,
        /// The time of the event before it.
        last: u64,
    },
    /// Nothing of the event was written; the header must name every process.
    #[error("process {node} has no name in the header")]
    NoName {
        /// The process.
        node: NodeId,
    },
}

/// Reads a trace: the header at once, then an event at a time.
#[derive(Debug)]
pub struct Reader<R> {
    from: R,
    header: Header,
    /// The number of the line read last.
    line: usize,
    last: u64,
    text: String,
}

impl<R: BufRead> Reader<R> {
    /// Reads the header.
    pub fn new(mut from: R) -> Result<Self, ReadError> {
        let mut text = String::new();
        if from.read_line(&mut text).map_err(|error| ReadError::Io { line: 1, error })? == 0 {
            return Err(ReadError::Empty);
        }
        Ok(Self { from, header: parse_header(&text)?, line: 1, last: 0, text })
    }

    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Everything at once: header and all events.
    pub fn read_all(mut self) -> Result<(Header, Vec<Event>), ReadError> {
        let events = self.by_ref().collect::<Result<_, _>>()?;
        Ok((self.header, events))
    }

    fn read(&mut self) -> Result<Option<Event>, ReadError> {
        loop {
            self.text.clear();
            self.line += 1;
            let line = self.line;
            let read = self.from.read_line(&mut self.text);
            if read.map_err(|error| ReadError::Io { line, error })? == 0 {
                return Ok(None);
            }
            if !self.text.trim().is_empty() {
                return self.parse().map(Some);
            }
        }
    }

    fn parse(&mut self) -> Result<Event, ReadError> {
        let line = self.line;
        let bad = |why: String| ReadError::Line { line, why };
        let named: Event<String> =
            serde_json::from_str(&self.text).map_err(|error| bad(reason(&error)))?;
        let header = &self.header;
        let event = named.map(&mut |name: String| {
            header.process(&name).ok_or_else(|| {
                let known = header.processes.join(", ");
                bad(format!("the header names no process `{name}`; it names {known}"))
            })
        })?;
        if event.at < self.last {
            return Err(bad(format!("at {} after {}; time goes forward", event.at, self.last)));
        }
        self.last = event.at;
        Ok(event)
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Event, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

fn parse_header(text: &str) -> Result<Header, ReadError> {
    let bad = |why: String| ReadError::Line { line: 1, why };
    let line: serde_json::Value =
        serde_json::from_str(text).map_err(|error| bad(reason(&error)))?;
    // The version is looked at first: another one may have another header.
    match line.get("mutua-trace").map(serde_json::Value::as_u64) {
        None => {
            return Err(
                bad("invalid header of a trace: it has no member `mutua-trace`".to_owned()),
            );
        }
        Some(Some(format)) if format == u64::from(FORMAT) => {}
        Some(_) => {
            let found = &line["mutua-trace"];
            return Err(bad(format!("format {found}; this program reads format {FORMAT}")));
        }
    }
    let header: Header = serde_json::from_str(text).map_err(|error| bad(reason(&error)))?;
    for (index, name) in header.processes.iter().enumerate() {
        if header.processes[..index].contains(name) {
            return Err(bad(format!("two processes are called `{name}`")));
        }
    }
    Ok(header)
}

/// The parser's error without its own line number: it is always in the one line it was given.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((why, _)) if error.column() > 0 => format!("{why} (column {})", error.column()),
        Some((why, _)) => why.to_owned(),
        None => text,
    }
}

/// Why a trace cannot be read. What came before the line was read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// There is no first line.
    #[error("the trace is empty; its first line must be a header")]
    Empty,
    /// The reader below failed.
    #[error("line {line}: {error}")]
    Io {
        /// The line, from 1.
        line: usize,
        /// The error of the reader.
        error: io::Error,
    },
    /// The line is invalid.
    #[error("line {line}: {why}")]
    Line {
        /// The line, from 1.
        line: usize,
        /// The reason.
        why: String,
    },
}
