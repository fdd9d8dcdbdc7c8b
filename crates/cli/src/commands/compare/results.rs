//! The results on disk, so that a comparison can go on where it was stopped; and measuring what is
//! missing, on all cores.

use std::{
    fmt,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use anyhow::{Context, Result};
use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};
use mutua_lab::compare::{self, Effort, RowOf, Task};

use crate::{parallel::AllCores, words::number};

/// The results of all cells, in order: read from the file, or measured and appended to it.
pub(super) fn all<T: Task>(cells: &[T], effort: Effort, file: &Path) -> Result<Vec<RowOf<T>>> {
    let mut rows = read::<T>(file, &effort);
    let missing = compare::missing(cells, &rows);
    if missing.len() < cells.len() {
        let known = cells.len() - missing.len();
        eprintln!("{known} of {} cells were measured before", cells.len());
    }
    if !missing.is_empty() {
        rows.extend(measure(&missing, effort, file)?);
    }
    Ok(compare::in_order(cells, &rows))
}

fn read<T: Task>(file: &Path, effort: &Effort) -> Vec<RowOf<T>> {
    fs::read(file).map_or_else(|_| Vec::new(), |lines| compare::read::<T>(&lines, effort))
}

fn measure<T: Task>(cells: &[T], effort: Effort, file: &Path) -> Result<Vec<RowOf<T>>> {
    let mut file =
        append_to(file).with_context(|| format!("cannot write to `{}`", file.display()))?;
    let bar = progress_bar(cells.len());
    let mut rows = Vec::new();
    let events = AtomicU64::new(0);
    let watch = |more: u64| {
        let so_far = events.fetch_add(more, Ordering::Relaxed) + more;
        bar.set_message(format!(", {} events", number(so_far as f64)));
    };
    compare::measure(cells, effort, &AllCores, &watch, |row| -> Result<()> {
        writeln!(file, "{}", serde_json::to_string(&row)?)?;
        let so_far = number(events.load(Ordering::Relaxed) as f64);
        bar.set_message(format!(", {}, {so_far} events", row.cell.title()));
        bar.inc(1);
        rows.push(row);
        Ok(())
    })?;
    bar.finish_and_clear();
    Ok(rows)
}

/// Opens the file for appending. After a truncated line the next one starts on a new line, or it
/// would be lost too.
fn append_to(file: &Path) -> io::Result<File> {
    let is_cut = fs::read(file).is_ok_and(|bytes| bytes.last().is_some_and(|&last| last != b'\n'));
    let mut file = OpenOptions::new().create(true).append(true).open(file)?;
    if is_cut {
        writeln!(file)?;
    }
    Ok(file)
}

fn progress_bar(cells: usize) -> ProgressBar {
    let bar = ProgressBar::new(cells as u64);
    let style = ProgressStyle::with_template("{wide_bar} {pos} of {len} cells{msg}{left}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.set_style(style.with_key("left", |state: &ProgressState, text: &mut dyn fmt::Write| {
        // There is no estimate before the first cell is measured.
        let _ = text.write_str(&remaining(state.pos(), state.eta()));
    }));
    bar
}

/// The remaining time, once there is an estimate.
fn remaining(done: u64, left: Duration) -> String {
    match done {
        0 => String::new(),
        _ => format!(", {} left", HumanDuration(left)),
    }
}

#[cfg(test)]
mod tests {
    use mutua_lab::compare::{Cell, CellLoad};

    use super::*;

    #[test]
    fn the_remaining_time_is_not_shown_before_the_first_cell() {
        assert_eq!(remaining(0, Duration::ZERO), "");
        assert_eq!(remaining(3, Duration::from_secs(5)), ", 5 seconds left");
    }

    #[test]
    fn a_truncated_line_loses_one_cell_and_no_other() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("results.jsonl");
        let effort = Effort { entries: 20, runs: 1, max_events: 10_000, ..Effort::default() };
        let cell = |nodes| Cell {
            algorithm: "central".to_owned(),
            nodes,
            load: CellLoad::Light,
            hold: "1ms".to_owned(),
            latency: "1ms".to_owned(),
            clients: Default::default(),
        };
        let cells: Vec<_> = [2, 3, 4].map(cell).into();
        let lines = |text: &str| text.lines().count();
        all(&cells, effort, &file).expect("they are measured");
        let whole = fs::read_to_string(&file).expect("a file");
        assert_eq!(lines(&whole), 3);
        fs::write(&file, &whole[..whole.len() - 40]).expect("it can be cut");
        assert_eq!(read::<Cell>(&file, &effort).len(), 2);
        assert_eq!(all(&cells, effort, &file).expect("one is measured").len(), 3);
        assert_eq!(read::<Cell>(&file, &effort).len(), 3);
        assert_eq!(lines(&fs::read_to_string(&file).expect("a file")), 4);
        all(&cells, effort, &file).expect("nothing is missing");
        assert_eq!(lines(&fs::read_to_string(&file).expect("a file")), 4);
    }
}
