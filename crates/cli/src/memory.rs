//! The memory that this process uses, and how much more it can have.

use std::{fs, path::Path};

use rustix::process::{Resource, getrlimit};

/// The bytes that can be allocated: what the machine has available, within the limits of the
/// control groups and of the process. Without any figure there is no limit.
pub(crate) fn available() -> u64 {
    let limits = [in_the_machine(), in_the_groups(), in_the_process()];
    limits.into_iter().flatten().min().unwrap_or(u64::MAX)
}

/// The bytes of this process that are in memory.
pub(crate) fn resident() -> u64 {
    used(1).unwrap_or(0)
}

const PAGE: u64 = 4096;

/// A field of `/proc/self/statm`, in bytes: 0 is the address space, 1 what is in memory, 5 data.
fn used(field: usize) -> Option<u64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let pages = text.split_whitespace().nth(field)?.parse::<u64>().ok()?;
    Some(pages * PAGE)
}

fn in_the_machine() -> Option<u64> {
    Some(figure(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")? * 1024)
}

/// The number behind a word at the beginning of a line.
fn figure(text: &str, name: &str) -> Option<u64> {
    let words = text.lines().map(str::split_whitespace);
    let mut found = words.filter_map(|mut words| (words.next()? == name).then(|| words.next())?);
    found.next()?.parse().ok()
}

/// The least that the control group of this process and those around it have left. (Version 2.)
fn in_the_groups() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let root = Path::new("/sys/fs/cgroup");
    let around = Path::new(own).ancestors();
    around.filter_map(|group| left_in(&root.join(group))).min()
}

fn left_in(group: &Path) -> Option<u64> {
    let read = |file| fs::read_to_string(group.join(file)).ok();
    let most: u64 = read("memory.max")?.trim().parse().ok()?;
    let now: u64 = read("memory.current")?.trim().parse().ok()?;
    // Files that are kept in memory make room.
    let files = read("memory.stat").and_then(|text| figure(&text, "file")).unwrap_or(0);
    Some(most.saturating_sub(now.saturating_sub(files)))
}

fn in_the_process() -> Option<u64> {
    let left = |resource, field| {
        let most = getrlimit(resource).current?;
        Some(most.saturating_sub(used(field)?))
    };
    [left(Resource::As, 0), left(Resource::Data, 5)].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_found_by_its_name() {
        let text = "MemTotal:  100 kB\nMemAvailable:   42 kB\n";
        assert_eq!(figure(text, "MemAvailable:"), Some(42));
        assert_eq!(figure(text, "Mem"), None);
        assert!(resident() > PAGE && available() > PAGE);
    }
}
