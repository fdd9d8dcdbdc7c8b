//! Telling the user, and programs, what happens.

use std::{
    fs::File,
    io::{IsTerminal, Write},
    os::fd::AsRawFd,
    time::Duration,
};

use anyhow::Result;
use mutua_service::proto::v1;
use rustix::{
    fs::OFlags,
    process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open},
};
use serde_json::{Value, json};

use super::Plan;
use crate::{
    commands::locks::{ago, entry_json, of_another_version, plain, token_json, who},
    exit::usage,
};

/// Says things where they are wanted.
pub(super) struct Report {
    name: String,
    status: Option<File>,
    json: bool,
    verbose: bool,
    quiet: bool,
    /// Whether somebody watches, who wants to know whom they wait for.
    watched: bool,
    stopped: bool,
}

impl Report {
    pub(super) fn new(plan: &Plan) -> Result<Self> {
        let status = plan.status_fd.map(open).transpose()?;
        Ok(Self {
            name: plan.name.clone(),
            status,
            json: plan.json,
            verbose: plan.verbose,
            quiet: plan.quiet,
            watched: std::io::stderr().is_terminal(),
            stopped: false,
        })
    }

    pub(super) fn version(&mut self, version: &str) {
        let text = of_another_version(version).filter(|_| version != "etcd" && !self.quiet);
        if let Some(text) = text {
            self.say(&text);
        }
    }

    pub(super) fn waiting(&mut self, waiting: &v1::Waiting) {
        let holder = waiting.holder.as_ref();
        self.event(json!({
            "event": "waiting", "name": self.name, "before": waiting.place,
            "elsewhere": waiting.elsewhere, "holder": holder.map(entry_json),
            "stopped": waiting.stopped,
        }));
        if !waiting.stopped.is_empty() && !self.quiet {
            self.stopped = true;
            return self.say(&format!("waiting for {}: {}", self.name, waiting.stopped));
        }
        if self.json || !(self.verbose || (self.watched && !self.quiet)) {
            return;
        }
        let inside = match holder {
            Some(holder) => format!("inside is {} since {}", who(holder), ago(holder.for_ms)),
            None => "nobody is inside yet".to_owned(),
        };
        let line = match waiting.place {
            0 => "next in line".to_owned(),
            before => format!("{before} before us"),
        };
        let line = match waiting.elsewhere {
            0 => line,
            1 => format!("{line} at this node, 1 waits at another"),
            others => format!("{line} at this node, {others} wait at others"),
        };
        self.say(&format!("waiting for {}: {inside}; {line}", self.name));
    }

    pub(super) fn acquired(&mut self, fence: u64, waited: Duration) {
        let waited = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        self.event(json!({
            "event": "acquired", "name": self.name, "token": token_json(fence), "waited_ms": waited,
        }));
        if (self.verbose || self.stopped) && !self.json {
            self.say(&format!("{} acquired after {}, token {fence}", self.name, ago(waited)));
        }
    }

    pub(super) fn refused(&mut self, refused: &v1::Refused) {
        let holder = refused.holder.as_ref();
        self.event(json!({
            "event": "not-acquired", "name": self.name, "reason": refused.text,
            "holder": holder.map(entry_json),
        }));
        let busy = matches!(refused.reason(), v1::Reason::Busy | v1::Reason::Timeout);
        if self.json || (busy && !self.verbose) {
            return;
        }
        let inside = holder.map(|holder| format!("; inside is {}", who(holder)));
        let inside = inside.unwrap_or_default();
        self.say(&format!("{} not acquired: {}{inside}", self.name, refused.text));
    }

    pub(super) fn lost(&mut self, name: &str, why: &str) {
        self.event(json!({ "event": "lost", "name": name, "reason": why }));
        if !self.json {
            self.say(&format!("{name} is lost: {why}"));
        }
    }

    pub(super) fn ended(&mut self, code: i32, signal: Option<i32>) {
        self.event(json!({ "event": "ended", "code": code, "signal": signal }));
    }

    pub(super) fn released(&mut self) {
        self.event(json!({ "event": "released", "name": self.name }));
        if self.verbose && !self.json {
            self.say(&format!("{} released", self.name));
        }
    }

    pub(super) fn note(&mut self, text: &str) {
        if !self.quiet {
            self.say(text);
        }
    }

    pub(super) fn say(&self, text: &str) {
        if self.json {
            eprintln!("{}", json!({ "event": "note", "text": text }));
        } else {
            // Names, owners, commands and reasons are others' words.
            eprintln!("mutua: {}", plain(text));
        }
    }

    fn event(&mut self, event: Value) {
        if self.json {
            eprintln!("{event}");
        }
        if let Some(status) = &mut self.status {
            // Whoever wanted to know may be gone.
            let _ = writeln!(status, "{event}");
        }
    }
}

/// A descriptor of ours by its number.
fn open(number: u32) -> Result<File> {
    let wrong = |why: &str| {
        usage(format!("--status-fd {number} is not open for writing: {why}; 3>FILE opens 3"))
    };
    let file = duplicate(number).map_err(|error| wrong(&error.to_string()))?;
    let mode = rustix::fs::fcntl_getfl(&file)? & OFlags::RWMODE;
    if mode == OFlags::RDONLY {
        return Err(wrong("it is for reading only"));
    }
    // The command does not get it: whoever reads it would wait for all that the command starts.
    // Standard output and error stay.
    if let Some(number) = i32::try_from(number).ok().filter(|&number| number > 2) {
        nix::unistd::close(number)?;
    }
    Ok(file)
}

/// A duplicate, so that it is the very same, be it a file, a pipe or a socket.
fn duplicate(number: u32) -> rustix::io::Result<File> {
    let number = i32::try_from(number).map_err(|_| rustix::io::Errno::BADF)?;
    let process = pidfd_open(getpid(), PidfdFlags::empty())?;
    if process.as_raw_fd() == number {
        // It was free until now.
        return Err(rustix::io::Errno::BADF);
    }
    pidfd_getfd(process, number, PidfdGetfdFlags::empty()).map(File::from)
}
