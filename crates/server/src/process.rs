//! Figures of this process, under the names that dashboards know.

use std::{fmt::Write, fs};

/// Clock ticks a second in `/proc`; the kernel's constant on all platforms of Linux.
const TICKS: f64 = 100.0;

/// The figures as OpenMetrics; what cannot be read is left out.
pub(crate) fn figures() -> String {
    let mut text = String::new();
    let mut figure = |name: &str, kind: &str, suffix: &str, help: &str, value: Option<f64>| {
        let Some(value) = value else { return };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP {name} {help}.\n# TYPE {name} {kind}");
        let _ = writeln!(text, "{name}{suffix} {value}");
    };
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The fields after the command's name, which may have spaces.
    let stat: Vec<_> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let field = |number: usize| stat.get(number - 3)?.parse::<f64>().ok();
    let cpu = field(14).zip(field(15)).map(|(user, system)| (user + system) / TICKS);
    figure("process_cpu_seconds", "counter", "_total", "Processor time of the process", cpu);
    let started = field(22).zip(booted_at()).map(|(ticks, boot)| boot + ticks / TICKS);
    let help = "Start of the process in seconds since 1970";
    figure("process_start_time_seconds", "gauge", "", help, started);
    let resident = fs::read_to_string("/proc/self/statm").ok();
    let pages = resident.and_then(|text| text.split(' ').nth(1)?.parse::<f64>().ok());
    let bytes = pages.map(|pages| pages * rustix::param::page_size() as f64);
    figure("process_resident_memory_bytes", "gauge", "", "Resident memory in bytes", bytes);
    let open = fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count() as f64);
    figure("process_open_fds", "gauge", "", "Open file descriptors", open);
    text
}

/// When the machine started, in seconds since 1970.
fn booted_at() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}
