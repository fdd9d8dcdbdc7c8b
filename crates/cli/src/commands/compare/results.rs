//! The results on disk, so that a comparison can go on where it was stopped; and measuring what is
//! missing, on all cores.

use std::{
    fmt,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::Path,
    time::Duration,
};

use anyhow::{Context, Result};
use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::grid::{Cell, Effort, Figures};
use crate::parallel;

/// Something that can be measured by itself.
pub(super) trait Task: Clone + DeserializeOwned + PartialEq + Serialize + Sync {
    /// What it shows.
    type Figures: Clone + DeserializeOwned + Send + Serialize;

    fn measure(&self, effort: &Effort) -> Self::Figures;

    /// What it is, for whoever watches.
    fn title(&self) -> String;
}

/// A cell with what it has shown: a line of the file.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Measured<C, F> {
    pub(super) cell: C,
    pub(super) effort: Effort,
    /// The version that measured it; another one may measure something else.
    pub(super) version: String,
    pub(super) figures: F,
}

/// A cell of the grid of systems and loads.
pub(super) type Row = Measured<Cell, Figures>;

type RowOf<T> = Measured<T, <T as Task>::Figures>;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What is known of every cell, in order: read from the file, or measured and added to it.
pub(super) fn all<T: Task>(cells: &[T], effort: Effort, file: &Path) -> Result<Vec<RowOf<T>>> {
    let known = read::<T>(file, &effort);
    let missing: Vec<_> =
        cells.iter().filter(|cell| !known.iter().any(|row| row.cell == **cell)).cloned().collect();
    if missing.len() < cells.len() {
        let known = cells.len() - missing.len();
        eprintln!("{known} of {} cells are known from before", cells.len());
    }
    let mut rows = known;
    if !missing.is_empty() {
        rows.extend(measure(&missing, effort, file)?);
    }
    let row_of = |cell: &T| rows.iter().find(|row| row.cell == *cell).cloned();
    Ok(cells.iter().filter_map(row_of).collect())
}

/// Lines that do not fit (a line cut in the middle, another version) are measured anew.
fn read<T: Task>(file: &Path, effort: &Effort) -> Vec<RowOf<T>> {
    let Ok(bytes) = fs::read(file) else { return Vec::new() };
    let lines = bytes.split(|&byte| byte == b'\n');
    let rows = lines.filter_map(|line| serde_json::from_slice::<RowOf<T>>(line).ok());
    rows.filter(|row| row.version == VERSION && row.effort == *effort).collect()
}

fn measure<T: Task>(cells: &[T], effort: Effort, file: &Path) -> Result<Vec<RowOf<T>>> {
    let mut file =
        append_to(file).with_context(|| format!("cannot write to `{}`", file.display()))?;
    let bar = progress_bar(cells.len());
    let mut rows = Vec::new();
    parallel::each(
        cells,
        |cell| cell.measure(&effort),
        |cell, figures| {
            let version = VERSION.to_owned();
            let row = Measured { cell: cell.clone(), effort, version, figures };
            writeln!(file, "{}", serde_json::to_string(&row)?)?;
            bar.set_message(format!(", {}", cell.title()));
            bar.inc(1);
            rows.push(row);
            Ok(())
        },
    )?;
    bar.finish_and_clear();
    Ok(rows)
}

/// Opens the file for more lines. After one that was cut in the middle the next begins anew, or it
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
        // Nobody knows how long it takes before the first one is done.
        let _ = text.write_str(&remaining(state.pos(), state.eta()));
    }));
    bar
}

/// The time that is left, once it can be told.
fn remaining(done: u64, left: Duration) -> String {
    match done {
        0 => String::new(),
        _ => format!(", {} left", HumanDuration(left)),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::grid::CellLoad, *};

    #[test]
    fn how_long_it_takes_is_not_told_before_anything_is_done() {
        assert_eq!(remaining(0, Duration::ZERO), "");
        assert_eq!(remaining(3, Duration::from_secs(5)), ", 5 seconds left");
    }

    #[test]
    fn a_line_that_was_cut_costs_one_cell_and_no_other() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("results.jsonl");
        let effort = Effort { entries: 20, runs: 1, seed: 1, max_events: 10_000 };
        let cell = |nodes| Cell {
            algorithm: "central".to_owned(),
            nodes,
            load: CellLoad::Light,
            hold: "1ms".to_owned(),
            latency: "1ms".to_owned(),
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
