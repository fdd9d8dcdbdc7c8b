//! The result of a run: a table, or JSON.

use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use super::faults::Outcome;

/// What a run has shown.
#[derive(Clone, Debug, Serialize)]
pub(super) struct RunResult {
    pub(super) nodes: usize,
    pub(super) view_lease_ms: u64,
    pub(super) seconds: f64,
    pub(super) transfers: u64,
    pub(super) sum: i64,
    pub(super) expected_sum: i64,
    /// Late writes of paused branches, which the bank refused by their fencing tokens.
    pub(super) refused_writes: u64,
    pub(super) violations: Vec<String>,
    pub(super) faults: Vec<Outcome>,
}

impl RunResult {
    pub(super) fn is_right(&self) -> bool {
        self.sum == self.expected_sum && self.violations.is_empty()
    }

    /// The table at the end, and the sum.
    pub(super) fn text(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header([
            "fault",
            "nodes",
            "longest gap",
            "other locks",
            "view changes",
            "holder knew before",
            "after it was resumed",
        ]);
        for outcome in &self.faults {
            table.add_row([
                outcome.fault.title().to_owned(),
                outcome.nodes.join(", "),
                millis(outcome.longest_gap_ms),
                millis(outcome.other_locks_ms),
                outcome.view_changes.to_string(),
                outcome.lost_before_ms.map(|ms| format!("{ms} ms")).unwrap_or_default(),
                outcome.lost_after_resume_ms.map(|ms| format!("{ms} ms")).unwrap_or_default(),
            ]);
        }
        for column in 2..7 {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let mut text: String =
            table.lines().map(|line| line.trim_end().to_owned() + "\n").collect();
        text += &format!(
            "\n{} transfers in {:.1} s on {} nodes, view lease {}\n",
            self.transfers,
            self.seconds,
            self.nodes,
            millis(self.view_lease_ms)
        );
        let right = if self.sum == self.expected_sum { "right" } else { "WRONG" };
        text += &format!("sum of the accounts {} of {}: {right}\n", self.sum, self.expected_sum);
        for violation in &self.violations {
            text += &format!("violation: {violation}\n");
        }
        text
    }
}

/// Milliseconds as seconds.
pub(super) fn millis(millis: u64) -> String {
    seconds(Duration::from_millis(millis))
}

/// A time in seconds, with two digits.
pub(super) fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}
