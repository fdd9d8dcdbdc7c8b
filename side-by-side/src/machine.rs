//! Figures of the kernel: time, processor time, memory, load.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since boot, the same for all processes.
pub(crate) fn now() -> u64 {
    read(ClockId::Boottime)
}

/// Processor time of this process so far, in nanoseconds.
pub(crate) fn cpu_ns() -> u64 {
    read(ClockId::ProcessCPUTime)
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Memory of a process that is in RAM; 0 if it is gone.
pub(crate) fn resident_kib(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("VmRSS:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

/// Memory of processes, what they share counted once: the sum of proportional shares.
pub(crate) fn shares_kib(pids: &BTreeSet<u32>) -> u64 {
    pids.iter().map(|pid| share_kib(*pid)).sum()
}

fn share_kib(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("Pss:"));
    let share = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    share.unwrap_or_else(|| resident_kib(pid))
}

/// Processes and all their descendants that live now.
pub(crate) fn family(roots: &[u32]) -> BTreeSet<u32> {
    let parents = parents();
    let mut family: BTreeSet<u32> = roots.iter().copied().collect();
    loop {
        let before = family.len();
        let children = parents.iter().filter(|(_, parent)| family.contains(parent));
        let children: Vec<u32> = children.map(|(child, _)| *child).collect();
        family.extend(children);
        if family.len() == before {
            return family;
        }
    }
}

fn parents() -> BTreeMap<u32, u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| Some((pid, parent(pid)?))).collect()
}

fn parent(pid: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in brackets, may contain anything.
    let (_, rest) = text.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

/// Processor time of processes so far, in nanoseconds, threads that ended not counted.
pub(crate) fn busy_ns(pids: &BTreeSet<u32>) -> BTreeMap<u32, u64> {
    let one = |pid: &u32| {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let times = tasks.filter_map(|task| {
            let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<u64>().ok()
        });
        (*pid, times.sum())
    };
    pids.iter().map(one).collect()
}

/// Runnable processes on average over the last minute, five and fifteen.
pub(crate) fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

/// Processor, cores, memory and kernel, in a line.
pub(crate) fn describe() -> String {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find(|line| line.starts_with("model name"));
    let model = model.and_then(|line| line.split_once(": ")).map_or("unknown", |(_, name)| name);
    let cores = cpus.lines().filter(|line| line.starts_with("processor")).count();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = memory.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let gib = kib.unwrap_or(0) >> 20;
    format!("{cores} cores ({model}), {gib} GiB, Linux {}", kernel.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_a_family_memory_and_time() {
        let me = std::process::id();
        let family = family(&[me]);
        assert!(family.contains(&me));
        assert!(resident_kib(me) > 0);
        assert!(busy_ns(&family)[&me] > 0);
        assert!(now() > 0 && cpu_ns() > 0);
    }
}
