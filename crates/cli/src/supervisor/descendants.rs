//! Everything that a process has started, and everything that that has started.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write,
};

use rustix::{
    io::{Errno, Result},
    process::{
        Pid, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus, getpid, kill_process,
        kill_process_group, wait, waitid,
    },
};

/// A process that is not a zombie.
#[derive(Clone, Copy, Debug)]
struct Process {
    pid: Pid,
    parent: i32,
    group: i32,
}

/// The descendants that are left after all were killed once.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Left {
    None,
    /// They are exiting, or were just being created and are found the next time.
    Some,
    /// They run as another user.
    OtherUser,
}

/// The descendants of this process, except a local node that one of them has started.
#[derive(Debug, Default)]
pub(crate) struct Descendants {
    /// The ones that we may not signal, which was reported.
    untouchable: BTreeSet<i32>,
}

impl Descendants {
    /// Whether a signal is meant to end the command.
    pub(super) fn are_all_meant(signal: Signal) -> bool {
        [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT].contains(&signal)
    }

    /// Sends a signal to a process group, and one that is meant to end it also to all descendants
    /// that left the group.
    pub(crate) fn signal(&mut self, group: Pid, signal: Signal) {
        self.note(group, kill_process_group(group, signal));
        if !Self::are_all_meant(signal) {
            return;
        }
        // Processes below another supervisor get the signal from their own `mutua lock`.
        let others = |one: &Process| one.group != number(group) && !is(one.pid, super::ARGUMENT);
        let others: Vec<_> = below(|pid| is(pid, super::ARGUMENT)).filter(others).collect();
        for one in &others {
            self.note(one.pid, kill_process(one.pid, signal));
        }
        // A stopped process receives nothing else.
        signal_group(group, Signal::CONT);
        for one in others {
            let _ = kill_process(one.pid, Signal::CONT);
        }
    }

    /// Kills them all and reaps the dead. Call it again while some are left.
    pub(crate) fn kill(&mut self, mut dead: impl FnMut(Pid, WaitStatus)) -> Left {
        for one in below(|_| false) {
            self.note(one.pid, kill_process(one.pid, Signal::KILL));
        }
        reap(&mut dead);
        if none_left() {
            // Some may have died meanwhile.
            reap(dead);
            return Left::None;
        }
        let untouchable = |one: Process| self.untouchable.contains(&number(one.pid));
        if below(|_| false).all(untouchable) { Left::OtherUser } else { Left::Some }
    }

    /// Reports a process that cannot be signalled, once.
    fn note(&mut self, pid: Pid, sent: Result<()>) {
        if sent == Err(Errno::PERM) && self.untouchable.insert(number(pid)) {
            let name = fs::read_to_string(format!("/proc/{}/comm", number(pid)));
            let name = name.unwrap_or_default();
            // Standard error may be closed.
            let _ = writeln!(
                std::io::stderr(),
                "mutua: process {} ({}) cannot be signalled or killed: it runs as another user; \
                 the lock may be granted to another client while it runs",
                number(pid),
                name.trim_end(),
            );
        }
    }
}

/// Sends a signal to a process group. It may be gone already.
pub(crate) fn signal_group(group: Pid, signal: Signal) {
    let _ = kill_process_group(group, signal);
}

/// The processes of a group.
pub(crate) fn members(group: Pid) -> impl Iterator<Item = Pid> {
    processes().filter(move |one| one.group == number(group)).map(|one| one.pid)
}

/// Reaps children that have exited, and reports those and the ones that were stopped.
pub(crate) fn reap(mut changed: impl FnMut(Pid, WaitStatus)) {
    loop {
        match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            Ok(Some((pid, status))) => changed(pid, status),
            Err(Errno::INTR) => {}
            Ok(None) | Err(_) => return,
        }
    }
}

/// Whether this process has no descendant left.
pub(super) fn none_left() -> bool {
    // A process that was just being created, by one that exited at once, is our own child the
    // second time.
    let none = || below(|_| false).next().is_none();
    is_childless() || (is_proc_ours() && none() && none())
}

/// Whether a supervisor is left whose `mutua lock` was killed: it is ending its command.
pub(super) fn is_a_supervisor_left() -> bool {
    let own = number(getpid());
    !is_childless() && processes().any(|one| one.parent == own && is(one.pid, super::ARGUMENT))
}

/// A cheap test that is true after most commands.
fn is_childless() -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(waitid(WaitId::All, look), Err(Errno::CHILD))
}

/// The descendants, except those below the processes for which `is_end` holds.
fn below(is_end: impl Fn(Pid) -> bool) -> impl Iterator<Item = Process> {
    let mut children: BTreeMap<i32, Vec<Process>> = BTreeMap::new();
    for one in processes() {
        children.entry(one.parent).or_default().push(one);
    }
    let mut found = Vec::new();
    let mut open = vec![number(getpid())];
    while let Some(parent) = open.pop() {
        for one in children.remove(&parent).unwrap_or_default() {
            if is(one.pid, crate::local::ARGUMENT) {
                continue;
            }
            if !is_end(one.pid) {
                open.push(number(one.pid));
            }
            found.push(one);
        }
    }
    found.into_iter()
}

fn processes() -> impl Iterator<Item = Process> {
    let entries = is_proc_ours().then(|| fs::read_dir("/proc").ok()).into_iter().flatten();
    let entries = entries.flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(living)
}

/// Whether `/proc` shows the process ids of our own namespace. A process in a namespace of its own
/// may see that of another.
fn is_proc_ours() -> bool {
    let own = fs::read_link("/proc/self").ok();
    own.and_then(|own| own.to_str()?.parse().ok()) == Some(number(getpid()))
}

fn living(pid: i32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may have any characters.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    (state != "Z").then_some(Process { pid: Pid::from_raw(pid)?, parent, group })
}

/// Whether this is a process of mutua that was started with this argument.
fn is(pid: Pid, argument: &str) -> bool {
    let line = fs::read(format!("/proc/{}/cmdline", number(pid))).unwrap_or_default();
    line.split(|&byte| byte == 0).nth(1) == Some(argument.as_bytes())
}

fn number(pid: Pid) -> i32 {
    pid.as_raw_nonzero().get()
}
