//! Traces of locks: written to a file, or kept for a while for those who follow a lock.

use std::{
    collections::VecDeque,
    fs::File,
    io::BufWriter,
    path::PathBuf,
    sync::mpsc::{Receiver, Sender, channel},
    time::Duration,
};

use mutua_protocol::{Moment, TraceLine};
use mutua_trace::{Event, Header, WriteError, Writer};
use tokio::task::JoinSet;

use crate::{StartError, driver::Driver};

/// The trace to write.
#[derive(Clone, Debug)]
pub struct TraceConfig {
    /// The file; its content is replaced.
    pub file: PathBuf,
    /// The name of the lock; without one, the first that is used.
    pub lock: Option<Vec<u8>>,
}

/// The most locks that are followed at the same time.
pub(crate) const MOST_FOLLOWED: usize = 8;
/// The most events that are kept of a lock that is followed.
const MOST_KEPT: usize = 8_192;
/// A lock that nobody asks for is followed for so long.
const KEPT_FOR: Duration = Duration::from_secs(30);

/// Where the lines of a trace go.
pub(crate) enum Sink {
    /// To the task that writes the file.
    File(Sender<TraceLine>),
    /// Into memory, for those who follow the lock.
    Kept(Box<Followed>),
}

/// The last events of a lock at this node.
pub(crate) struct Followed {
    pub(crate) lock: Box<[u8]>,
    asked: Moment,
    header: Option<Header>,
    /// The number of the first event that is kept; the first one of all is 0.
    first: u64,
    events: VecDeque<Event>,
}

/// Some of the last events of a lock at this node.
#[derive(Clone, Debug, Default)]
pub struct Traced {
    /// The first line of the trace; empty while the lock's process was not used.
    pub header: String,
    /// The other lines, in order.
    pub events: Vec<String>,
    /// The number of the event after the last of these.
    pub next: u64,
    /// How many events before them are no longer kept.
    pub missed: u64,
}

impl Sink {
    pub(crate) fn take(&mut self, line: TraceLine) {
        match (self, line) {
            // The receiver has logged the error that ended it.
            (Self::File(file), line) => drop(file.send(line)),
            (Self::Kept(kept), TraceLine::Header(header)) => kept.header = Some(header),
            (Self::Kept(kept), TraceLine::Event(event)) => {
                if kept.events.len() >= MOST_KEPT {
                    kept.events.pop_front();
                    kept.first += 1;
                }
                kept.events.push_back(event);
            }
        }
    }

    pub(crate) fn followed(&self) -> Option<&Followed> {
        match self {
            Self::Kept(followed) => Some(followed),
            Self::File(_) => None,
        }
    }

    pub(crate) fn followed_mut(&mut self) -> Option<&mut Followed> {
        match self {
            Self::Kept(followed) => Some(followed),
            Self::File(_) => None,
        }
    }
}

impl Followed {
    pub(crate) fn new(now: Moment, lock: &[u8]) -> Self {
        Self { lock: lock.into(), asked: now, header: None, first: 0, events: VecDeque::new() }
    }

    pub(crate) fn is_old(&self, now: Moment) -> bool {
        now.since(self.asked) > KEPT_FOR
    }

    /// At most `most` events from this number on.
    pub(crate) fn read(&mut self, now: Moment, from: u64, most: usize) -> Traced {
        self.asked = now;
        let end = self.first + self.events.len() as u64;
        // A number beyond the end is of an earlier process of this member.
        let wanted = if from > end { 0 } else { from };
        let begin = wanted.max(self.first);
        let skip = (begin - self.first) as usize;
        // Only an event of an unknown process cannot be written, and there is none.
        let lines = self.lines(self.events.iter().skip(skip).take(most)).unwrap_or_default();
        let lines = String::from_utf8_lossy(&lines);
        let mut lines: Vec<_> = lines.lines().map(str::to_owned).collect();
        let header = if lines.is_empty() { String::new() } else { lines.remove(0) };
        Traced { header, next: begin + lines.len() as u64, missed: begin - wanted, events: lines }
    }

    fn lines<'a>(&self, events: impl Iterator<Item = &'a Event>) -> Result<Vec<u8>, WriteError> {
        let Some(header) = &self.header else { return Ok(Vec::new()) };
        let mut writer = Writer::new(Vec::new(), header.clone())?;
        for event in events {
            writer.write(event)?;
        }
        writer.finish()
    }
}

/// Begins to write; ends with the node.
pub(crate) fn spawn(
    tasks: &mut JoinSet<()>,
    driver: &std::sync::Arc<Driver>,
    config: &TraceConfig,
) -> Result<(), StartError> {
    let path = config.file.clone();
    let file =
        File::create(&path).map_err(|error| StartError::Trace { path: path.clone(), error })?;
    let (sender, lines) = channel();
    driver.call(|core, now| core.trace(now, config.lock.as_deref(), Sink::File(sender)));
    tasks.spawn_blocking(move || {
        if let Err(error) = write(file, &lines) {
            tracing::warn!("{}: {error}; the trace ends here", path.display());
        }
    });
    Ok(())
}

fn write(file: File, lines: &Receiver<TraceLine>) -> Result<(), WriteError> {
    let mut file = Some(BufWriter::new(file));
    let mut writer = None;
    while let Ok(line) = lines.recv() {
        for line in [line].into_iter().chain(lines.try_iter()) {
            match (line, &mut writer) {
                (TraceLine::Header(header), None) => {
                    writer = file.take().map(|file| Writer::new(file, header)).transpose()?;
                }
                (TraceLine::Event(event), Some(writer)) => writer.write(&event)?,
                // A header comes once, and first.
                (TraceLine::Header(_), Some(_)) | (TraceLine::Event(_), None) => {}
            }
        }
        if let Some(writer) = &mut writer {
            writer.flush()?;
        }
    }
    Ok(())
}
