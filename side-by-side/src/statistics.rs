//! From records to figures.

use serde::{Deserialize, Serialize};

use crate::spec::Record;

/// Figures of contenders, from one run.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Contended {
    /// Entries per second after an entry of another contender.
    pub(crate) handovers_per_s: f64,
    /// All entries per second.
    pub(crate) entries_per_s: f64,
    /// How many hand-overs there were.
    pub(crate) handovers: u64,
    /// From request to entry.
    pub(crate) wait_p50_us: f64,
    pub(crate) wait_p99_us: f64,
    pub(crate) wait_max_us: f64,
    /// From an exit to the entry of another contender.
    pub(crate) delay_p50_us: f64,
    pub(crate) delay_p99_us: f64,
    /// Jain's index over entries: 1 if all got the same, 1/n if one got all.
    pub(crate) fairness: f64,
    /// Processor time per hand-over.
    pub(crate) server_cpu_us: f64,
    pub(crate) client_cpu_us: f64,
    /// Entries while another contender was in the critical section, by the recorded times and by
    /// the holder file.
    pub(crate) violations: u64,
    /// Entries whose fencing token was not greater than the one before; none if there are no tokens.
    pub(crate) fence_violations: Option<u64>,
    /// Memory of a contender, in KiB.
    pub(crate) client_idle_kib: u64,
    pub(crate) client_loaded_kib: u64,
}

/// Figures of clients without contention, from one run.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Pairs {
    /// Lock and unlock, per second, of all together.
    pub(crate) per_s: f64,
    /// The time of one pair.
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
}

/// Figures of a run between `start` and `end`, one list of records for each contender.
pub(crate) fn contended(all: &[Vec<Record>], start: u64, end: u64) -> Contended {
    let mut entries: Vec<(usize, Record)> = Vec::new();
    for (who, records) in all.iter().enumerate() {
        entries.extend(records.iter().filter(|one| one.entered < end).map(|one| (who, *one)));
    }
    entries.sort_by_key(|(_, record)| record.entered);
    let seconds = end.saturating_sub(start) as f64 / 1e9;
    let (mut delays, mut violations, mut exited) = (Vec::new(), 0, 0);
    for pair in entries.windows(2) {
        let ((before, first), (after, second)) = (pair[0], pair[1]);
        // One contender may hold while several others enter and exit.
        exited = first.exited.max(exited);
        violations += u64::from(second.entered < exited);
        if before != after {
            delays.push(second.entered.saturating_sub(first.exited) as f64 / 1e3);
        }
    }
    let waits =
        entries.iter().map(|(_, one)| one.entered.saturating_sub(one.requested) as f64 / 1e3);
    let waits = sorted(waits.collect());
    let delays = sorted(delays);
    let counts: Vec<_> = (0..all.len())
        .map(|who| entries.iter().filter(|(entered, _)| *entered == who).count() as f64)
        .collect();
    Contended {
        handovers_per_s: delays.len() as f64 / seconds,
        entries_per_s: entries.len() as f64 / seconds,
        handovers: delays.len() as u64,
        wait_p50_us: quantile(&waits, 0.5),
        wait_p99_us: quantile(&waits, 0.99),
        wait_max_us: quantile(&waits, 1.0),
        delay_p50_us: quantile(&delays, 0.5),
        delay_p99_us: quantile(&delays, 0.99),
        fairness: jain(&counts),
        violations,
        fence_violations: fences(&entries),
        ..Contended::default()
    }
}

fn fences(entries: &[(usize, Record)]) -> Option<u64> {
    entries.iter().any(|(_, one)| one.fencing_token > 0).then(|| {
        let falls =
            entries.windows(2).filter(|pair| pair[1].1.fencing_token <= pair[0].1.fencing_token);
        falls.count() as u64
    })
}

pub(crate) fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

/// The value below or at which this share of them is; 0 if there are none.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

/// The middle one, or the mean of the two in the middle.
pub(crate) fn median(values: Vec<f64>) -> Option<f64> {
    let values = sorted(values);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        length if length % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

/// R. Jain's index of fairness.
pub(crate) fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares == 0.0 { 0.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stay(entered: u64, exited: u64, fencing_token: u64) -> Record {
        Record { requested: entered - 10_000, entered, exited, fencing_token }
    }

    #[test]
    fn an_entry_of_the_last_holder_is_not_a_hand_over() {
        let all = [
            vec![stay(20_000, 21_000, 1), stay(22_000, 23_000, 2), stay(60_000, 61_000, 4)],
            vec![stay(30_000, 31_000, 3)],
        ];
        let figures = contended(&all, 0, 1_000_000_000);
        assert_eq!(figures.handovers, 2);
        assert_eq!(figures.entries_per_s, 4.0);
        // From 23 to 30 and from 31 to 60 microseconds.
        assert_eq!((figures.delay_p50_us, figures.delay_p99_us), (7.0, 29.0));
        assert_eq!(figures.wait_p50_us, 10.0);
        assert_eq!((figures.violations, figures.fence_violations), (0, Some(0)));
    }

    #[test]
    fn an_overlap_is_found_and_so_is_a_token_that_does_not_grow() {
        let all = [vec![stay(20_000, 40_000, 7)], vec![stay(30_000, 50_000, 7)]];
        let figures = contended(&all, 0, 1_000_000_000);
        assert_eq!((figures.violations, figures.fence_violations), (1, Some(1)));
    }

    #[test]
    fn what_comes_after_the_end_does_not_count() {
        let all = [vec![stay(20_000, 40_000, 0)], vec![stay(30_000, 50_000, 0)]];
        let figures = contended(&all, 0, 25_000);
        assert_eq!((figures.violations, figures.handovers), (0, 0));
        assert_eq!(figures.fence_violations, None);
    }

    #[test]
    fn fairness_is_one_for_equals_and_a_share_for_one_alone() {
        assert_eq!(jain(&[5.0, 5.0, 5.0]), 1.0);
        assert_eq!(jain(&[9.0, 0.0, 0.0]), 1.0 / 3.0);
        assert_eq!(jain(&[]), 0.0);
    }

    #[test]
    fn quantiles_and_medians_of_few() {
        let values = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(quantile(&values, 0.5), 2.0);
        assert_eq!(quantile(&values, 0.99), 4.0);
        assert_eq!(quantile(&[], 0.5), 0.0);
        assert_eq!(median(values.to_vec()), Some(2.5));
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![]), None);
    }
}
