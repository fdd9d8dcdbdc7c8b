//! Everything that a process has started, and everything that that has started.

use std::{collections::BTreeMap, fs};

use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitOptions, getpid, kill_process, kill_process_group, wait},
};

/// Sends a signal to a process group. It may be gone already.
pub(crate) fn signal_group(group: Pid, signal: Signal) {
    let _ = kill_process_group(group, signal);
}

/// Kills all descendants of this process and takes in those that are dead. Says whether none is
/// left; if not, call it again soon: a process that is just being made is seen the next time.
pub(crate) fn end_all() -> bool {
    for pid in all() {
        let _ = kill_process(pid, Signal::KILL);
    }
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => return all().is_empty(),
            Err(Errno::INTR) => {}
            Err(_) => return true,
        }
    }
}

/// The descendants of this process that are alive, but for a node that one of them has started for
/// everybody.
fn all() -> Vec<Pid> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
        if let Some(parent) = living_parent(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut open = vec![getpid().as_raw_nonzero().get()];
    while let Some(parent) = open.pop() {
        for pid in children.remove(&parent).unwrap_or_default() {
            if !is_node(pid) {
                open.push(pid);
                found.extend(Pid::from_raw(pid));
            }
        }
    }
    found
}

/// The parent of a process that is no zombie.
fn living_parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may have any characters.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    (state != "Z").then_some(parent)
}

fn is_node(pid: i32) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|&byte| byte == 0).nth(1) == Some(crate::local::ARGUMENT.as_bytes())
}
