//! Reporting what happens, to people and to programs.

use std::{
    fs::File,
    io::{IsTerminal, Write},
    os::fd::AsRawFd,
    time::Duration,
};

use anyhow::Result;
use mutua_client::{Scope, proto::v1};
use rustix::{
    fs::OFlags,
    process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open},
};
use serde_json::{Value, json};

use super::Plan;
use crate::{
    commands::locks::{
        ago, entry_json, fencing_token_json, holder_text, of_another_version, plain,
    },
    exit::usage,
};

/// Writes events to standard error, and as JSON to the status descriptor.
pub(super) struct Report {
    name: String,
    /// The value of a candidate.
    value: Option<String>,
    scope: Scope,
    status: Option<File>,
    json: bool,
    verbose: bool,
    quiet: bool,
    /// Whether standard error is a terminal: then a wait is reported.
    interactive: bool,
    /// Why grants are suspended, as it was reported last.
    suspended: Option<String>,
    /// Whether something unusual was reported, so that its end is too.
    noted: bool,
}

impl Report {
    pub(super) fn new(plan: &Plan) -> Result<Self> {
        let status = plan.status_fd.map(open).transpose()?;
        Ok(Self {
            name: plan.name.clone(),
            value: plan.value.clone(),
            scope: Scope::default(),
            status,
            json: plan.json,
            verbose: plan.verbose,
            quiet: plan.quiet,
            interactive: std::io::stderr().is_terminal(),
            suspended: None,
            noted: false,
        })
    }

    pub(super) fn version(&mut self, version: &str) {
        let text = of_another_version(version).filter(|_| version != "etcd" && !self.quiet);
        if let Some(text) = text {
            self.write(&text);
        }
    }

    /// All events from now on are about a lock of this scope.
    pub(super) fn scope(&mut self, scope: &Scope) {
        self.scope = scope.clone();
    }

    pub(super) fn waiting(&mut self, waiting: &v1::Waiting) {
        let holder = waiting.holder.as_ref();
        self.event(json!({
            "event": "waiting", "name": self.name, "ahead": waiting.position,
            "waiting_at_other_nodes": waiting.waiting_at_peers, "holder": holder.map(entry_json),
            "suspended": waiting.suspended, "scope": self.scope.word(),
            "cluster": self.scope.cluster(),
        }));
        self.suspended = Some(waiting.suspended.clone()).filter(|why| !why.is_empty());
        if let Some(why) = self.suspended.as_ref().filter(|_| !self.quiet) {
            let text = format!("waiting for {}: grants are suspended: {why}", self.name);
            self.noted = true;
            return self.write(&text);
        }
        if self.json || !(self.verbose || (self.interactive && !self.quiet)) {
            return;
        }
        let held = match holder {
            Some(holder) => format!("held by {} for {}", holder_text(holder), ago(holder.for_ms)),
            None => "not held yet".to_owned(),
        };
        let position = match waiting.position {
            0 => "you are next".to_owned(),
            ahead => format!("{ahead} ahead of you"),
        };
        let position = match waiting.waiting_at_peers {
            0 => position,
            1 => format!("{position} at this node, 1 waiting at another"),
            others => format!("{position} at this node, {others} waiting at others"),
        };
        self.write(&format!("waiting for {}: {held}; {position}", self.name));
    }

    pub(super) fn acquired(&mut self, fence: u64, waited: Duration) {
        let waited = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        self.event(json!({
            "event": "acquired", "name": self.name, "fencing_token": fencing_token_json(fence),
            "waited_ms": waited, "value": self.value,
            "scope": self.scope.word(), "cluster": self.scope.cluster(),
        }));
        if (self.verbose || self.noted) && !self.json {
            let (name, waited, scope) = (&self.name, ago(waited), &self.scope);
            let done = match self.value {
                Some(_) => format!("elected leader of {name}"),
                None => format!("{name} acquired"),
            };
            self.write(&format!("{done} after {waited}, fencing token {fence}, scope {scope}"));
        }
    }

    /// The request is refused; `unavailable` if it is not known that another client is the reason.
    pub(super) fn refused(&mut self, refused: &v1::Refused, unavailable: bool) {
        let holder = refused.holder.as_ref();
        let suspended = self.suspended.take().filter(|_| unavailable);
        let reason = match &suspended {
            Some(why) => format!("grants are suspended: {why}"),
            None => refused.text.clone(),
        };
        self.event(json!({
            "event": "not-acquired", "name": self.name, "reason": reason,
            "holder": holder.map(entry_json),
            "scope": self.scope.word(), "cluster": self.scope.cluster(),
        }));
        let busy = matches!(refused.reason(), v1::Reason::Busy | v1::Reason::Timeout);
        if self.json || (busy && !self.verbose && !unavailable) {
            return;
        }
        let held = holder.map(|holder| format!("held by {}", holder_text(holder)));
        let why = match (held, refused.reason()) {
            (None, _) => reason,
            (Some(held), v1::Reason::Busy) => held,
            (Some(held), _) => format!("{reason}; {held}"),
        };
        let not = match self.value {
            Some(_) => format!("not elected leader of {}", self.name),
            None => format!("{} not acquired", self.name),
        };
        self.write(&format!("{not}: {why}"));
    }

    /// The connection was lost while the lock is held, and a node knows the client again: its own
    /// after a restart, or one that has taken its hold over.
    pub(super) fn reconnected(&mut self) {
        self.event(json!({ "event": "reconnected", "name": self.name }));
        if (self.verbose || self.noted) && !self.json {
            self.noted = false;
            self.write(&format!("{}: still held; reconnected to a node", self.name));
        }
    }

    pub(super) fn lost(&mut self, name: &str, why: &str) {
        self.event(json!({ "event": "lost", "name": name, "reason": why }));
        if !self.json {
            let what = match self.value {
                Some(_) => format!("the leadership of {name}"),
                None => name.to_owned(),
            };
            self.write(&format!("{what} is lost: {why}"));
        }
    }

    pub(super) fn ended(&mut self, code: i32, signal: Option<i32>) {
        self.event(json!({ "event": "ended", "code": code, "signal": signal }));
    }

    pub(super) fn released(&mut self) {
        self.event(json!({ "event": "released", "name": self.name }));
        if self.verbose && !self.json {
            self.write(&match self.value {
                Some(_) => format!("resigned as leader of {}", self.name),
                None => format!("{} released", self.name),
            });
        }
    }

    pub(super) fn not_released(&self) {
        let what = if self.value.is_some() { "leadership" } else { "lock" };
        self.write(&format!("the {what} could not be released; it is free when its lease expires"));
    }

    pub(super) fn note(&mut self, text: &str) {
        if !self.quiet {
            self.noted = true;
            self.write(&format!("{}: {text}", self.name));
        }
    }

    pub(super) fn write(&self, text: &str) {
        if self.json {
            eprintln!("{}", json!({ "event": "note", "text": text }));
        } else {
            // Names, owners, commands and reasons come from other users.
            eprintln!("mutua: {}", plain(text));
        }
    }

    /// The descriptor that events are written to.
    pub(super) fn status(&self) -> Option<i32> {
        self.status.as_ref().map(AsRawFd::as_raw_fd)
    }

    pub(super) fn close_status(&mut self) {
        self.status = None;
    }

    fn event(&mut self, event: Value) {
        if self.json {
            eprintln!("{event}");
        }
        if let Some(status) = &mut self.status {
            // The reader may have exited.
            let _ = writeln!(status, "{event}");
        }
    }
}

/// Opens one of our descriptors by its number.
fn open(number: u32) -> Result<File> {
    let wrong = |why: &str| {
        usage(format!("--status-fd {number} is not open for writing: {why}; 3>FILE opens 3"))
    };
    let file = duplicate(number).map_err(|error| wrong(&error.to_string()))?;
    let mode = rustix::fs::fcntl_getfl(&file)? & OFlags::RWMODE;
    if mode == OFlags::RDONLY {
        return Err(wrong("it is open for reading only"));
    }
    // The command does not inherit it: its reader would wait for every process that the command
    // starts. Standard output and error stay open.
    if let Some(number) = i32::try_from(number).ok().filter(|&number| number > 2) {
        nix::unistd::close(number)?;
    }
    Ok(file)
}

/// Duplicates a descriptor: the same open file description, of a file, a pipe or a socket.
pub(super) fn duplicate(number: u32) -> rustix::io::Result<File> {
    let number = i32::try_from(number).map_err(|_| rustix::io::Errno::BADF)?;
    let process = pidfd_open(getpid(), PidfdFlags::empty())?;
    if process.as_raw_fd() == number {
        // It was free until now.
        return Err(rustix::io::Errno::BADF);
    }
    pidfd_getfd(process, number, PidfdGetfdFlags::empty()).map(File::from)
}
