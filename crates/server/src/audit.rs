//! The audit log: a JSON line for each grant, release and loss.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use mutua_node::Moment;
use serde_json::{Map, Value, json};

use crate::{leases::Name, proto::v1};

/// The audit log of a node. One that cannot be written is reported once and stops nothing: locks
/// would otherwise depend on a full disk.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    file: Option<File>,
    has_failed: bool,
    /// The grants that are not released yet, by fencing token.
    held: HashMap<u64, (Name, Moment)>,
}

impl Audit {
    /// Appends to this file; without one nothing is written.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened.
    pub(crate) fn open(path: Option<&Path>) -> io::Result<Self> {
        let mut options = File::options();
        options.create(true).append(true).mode(0o640);
        let file = path.map(|path| options.open(path)).transpose()?;
        Ok(Self { file, ..Self::default() })
    }

    /// Whether anything is written.
    pub(crate) fn is_on(&self) -> bool {
        self.file.is_some()
    }

    /// A client was granted a lock.
    pub(crate) fn granted(
        &mut self,
        now: Moment,
        (name, token): (&Name, u64),
        waited: Duration,
        holder: Option<&v1::Client>,
    ) {
        let mut line = Map::new();
        line.insert("waited_ms".to_owned(), json!(millis(waited)));
        if let Some(client) = holder {
            line.insert("owner".to_owned(), json!(client.owner));
            line.insert("identity".to_owned(), json!(client.identity));
            line.insert("host".to_owned(), json!(client.host));
            line.insert("pid".to_owned(), json!(client.pid));
            line.insert("command".to_owned(), json!(client.command));
        }
        self.held.insert(token, (Name::clone(name), now));
        self.write("granted", name, token, line);
    }

    /// A holder has lost its lock: its lease expired, or the lock was broken.
    pub(crate) fn lost(&mut self, name: &Name, token: u64, reason: &str) {
        let mut line = Map::new();
        line.insert("reason".to_owned(), json!(reason));
        self.write("lost", name, token, line);
    }

    /// A lock is free again, after a release or a loss.
    pub(crate) fn ended(&mut self, now: Moment, token: u64) {
        let Some((name, since)) = self.held.remove(&token) else { return };
        let mut line = Map::new();
        line.insert("held_ms".to_owned(), json!(millis(now.since(since))));
        self.write("released", &name, token, line);
    }

    fn write(&mut self, event: &str, name: &Name, token: u64, mut line: Map<String, Value>) {
        let Some(file) = &mut self.file else { return };
        line.insert("event".to_owned(), json!(event));
        line.insert("name".to_owned(), json!(String::from_utf8_lossy(name)));
        // A text, as everywhere: it may be greater than what a number of JSON holds exactly.
        line.insert("fencing_token".to_owned(), json!(token.to_string()));
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        line.insert("unix_ms".to_owned(), json!(millis(time)));
        let text = format!("{}\n", Value::Object(line));
        // In one piece, so that lines of a file that is rotated stay whole.
        if let Err(error) = file.write_all(text.as_bytes())
            && !std::mem::replace(&mut self.has_failed, true)
        {
            tracing::error!("the audit log cannot be written, and has gaps from now on: {error}");
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
