//! `mutua demo failover --measure N`: the same faults again and again, each in a new cluster.

use std::{collections::BTreeSet, process::ExitCode, time::Duration};

use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use tokio::time::sleep;

use super::{
    Failover,
    faults::{Fault, Outcome},
    result::millis,
};

/// Transfers run for so long before a fault.
const BEFORE: Duration = Duration::from_millis(700);

/// All outcomes of one fault.
#[derive(Debug, Serialize)]
struct Measured {
    fault: Fault,
    samples: usize,
    /// The longest time without a grant, each of them in order.
    gap_ms: Vec<u64>,
    other_locks_ms: Vec<u64>,
    /// How long after it was resumed a paused holder reported that it had lost the lock.
    lost_after_resume_ms: Vec<u64>,
}

impl Measured {
    fn of(fault: Fault, outcomes: &[Outcome]) -> Self {
        let sorted = |value: fn(&Outcome) -> u64| {
            let mut values: Vec<_> = outcomes.iter().map(value).collect();
            values.sort_unstable();
            values
        };
        let mut lost: Vec<_> =
            outcomes.iter().filter_map(|outcome| outcome.lost_after_resume_ms).collect();
        lost.sort_unstable();
        Self {
            fault,
            samples: outcomes.len(),
            gap_ms: sorted(|outcome| outcome.longest_gap_ms),
            other_locks_ms: sorted(|outcome| outcome.other_locks_ms),
            lost_after_resume_ms: lost,
        }
    }
}

/// Measures all faults, so many times each.
pub(super) async fn run(
    samples: usize,
    faults: &[Fault],
    view_lease: Duration,
    json: bool,
) -> Result<ExitCode> {
    let mut all = Vec::new();
    let mut right = true;
    for &fault in faults {
        let mut outcomes = Vec::new();
        for sample in 1..=samples {
            let (outcome, is_right) = once(fault, view_lease).await?;
            let (gap, title) = (millis(outcome.longest_gap_ms), fault.title());
            eprintln!("{title}, {sample} of {samples}: longest gap {gap}");
            right &= is_right;
            outcomes.push(outcome);
        }
        all.push(Measured::of(fault, &outcomes));
    }
    if json {
        println!("{}", serde_json::to_string_pretty(&all)?);
    } else {
        print!("{}", table(&all));
    }
    if !right {
        eprintln!("mutua: a sum was wrong, or an old fencing token was used");
    }
    Ok(if right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// One fault in a new cluster, until the other nodes have gone on.
async fn once(fault: Fault, view_lease: Duration) -> Result<(Outcome, bool)> {
    let mut failover = Failover::start(view_lease).await?;
    failover.bank.run(true);
    sleep(BEFORE).await;
    let mut struck = failover.strike(fault, &BTreeSet::new()).await?;
    failover.await_recovery(&struck).await?;
    // The last pause of the nodes' own locks comes with their next reports.
    sleep(view_lease / 2).await;
    let mut outcome = failover.outcome(&struck);
    if fault == Fault::HolderPaused {
        failover.repair(&mut struck).await?;
        outcome.lost_after_resume_ms = failover.outcome(&struck).lost_after_resume_ms;
    }
    Ok((outcome, failover.result(Vec::new()).is_right()))
}

fn table(all: &[Measured]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let header = ["fault", "samples", "gap: least", "median", "greatest"];
    table.set_header(header.into_iter().chain(["other locks: least", "median", "greatest"]));
    for one in all {
        let mut row = vec![one.fault.title().to_owned(), one.samples.to_string()];
        for values in [&one.gap_ms, &one.other_locks_ms] {
            let at = |index: usize| values.get(index).copied().map(millis).unwrap_or_default();
            row.extend([at(0), at(values.len() / 2), at(values.len().saturating_sub(1))]);
        }
        table.add_row(row);
    }
    for column in 1..8 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text: String = table.lines().map(|line| line.trim_end().to_owned() + "\n").collect();
    for one in all.iter().filter(|one| !one.lost_after_resume_ms.is_empty()) {
        let values = &one.lost_after_resume_ms;
        let (least, greatest) = (values[0], values[values.len() - 1]);
        let median = values[values.len() / 2];
        text += &format!(
            "{}: it reports the loss {least}, {median}, {greatest} ms (least, median, greatest) \
             after it was resumed\n",
            one.fault.title()
        );
    }
    text
}
