//! Limits the log of refused connections: a client that retries gets few lines.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use mutua_protocol::Moment;

/// The same reason from the same host is logged this often at most.
const AGAIN: Duration = Duration::from_secs(60);

/// The most lines in that time, for all hosts.
const LINES: usize = 10;

/// The refusals that were logged not long ago. The same reason from the same host is logged once a
/// minute, and ten lines a minute in all.
#[derive(Debug, Default)]
pub struct RefusalLog {
    logged: BTreeMap<String, Moment>,
    /// Refusals since the last line that were not logged.
    left_out: u64,
}

impl RefusalLog {
    /// The line to log of a refused connection, if it is time for one.
    pub fn line(&mut self, now: Moment, from: SocketAddr, why: &str) -> Option<String> {
        self.logged.retain(|_, at| now.since(*at) < AGAIN);
        let key = format!("{} {why}", from.ip());
        if self.logged.contains_key(&key) || self.logged.len() >= LINES {
            self.left_out += 1;
            return None;
        }
        self.logged.insert(key, now);
        let left_out = match std::mem::take(&mut self.left_out) {
            0 => String::new(),
            count => format!(" ({count} more refusals since the last line)"),
        };
        Some(format!("a connection from {from} is refused: {why}{left_out}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_logged_by_host_and_reason_and_few_in_all() {
        let mut log = RefusalLog::default();
        let from = |host: u8, port| SocketAddr::from(([10, 0, 0, host], port));
        assert!(log.line(Moment::ZERO, from(1, 1), "why").is_some());
        assert_eq!(log.line(Moment::ZERO, from(1, 2), "why"), None);
        assert!(log.line(Moment::ZERO, from(1, 3), "another reason").is_some());
        let lines = (2..=255).filter_map(|host| log.line(Moment::ZERO, from(host, 1), "why"));
        assert_eq!(lines.count(), LINES - 2);
        let line = log.line(Moment::ZERO.after(AGAIN), from(1, 4), "why").expect("a minute later");
        assert!(line.contains("246 more"), "{line}");
    }
}
