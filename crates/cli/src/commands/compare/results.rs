//! The results on disk, so that a comparison can go on where it was stopped; and measuring what is
//! missing, on all cores.

use std::{
    fs::{File, OpenOptions},
    io::{BufRead, BufReader, Write},
    path::Path,
};

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};

use super::grid::{Cell, Effort, Figures};
use crate::parallel;

/// A cell with what it has shown: a line of the file.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Row {
    pub(super) cell: Cell,
    pub(super) effort: Effort,
    /// The version that measured it; another one may measure something else.
    pub(super) version: String,
    pub(super) figures: Figures,
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What is known of every cell, in order: read from the file, or measured and added to it.
pub(super) fn all(cells: Vec<Cell>, effort: Effort, file: &Path) -> Result<Vec<Row>> {
    let known = read(file, &effort);
    let missing: Vec<_> =
        cells.iter().filter(|cell| !known.iter().any(|row| row.cell == **cell)).cloned().collect();
    if missing.len() < cells.len() {
        eprintln!("{} of {} cells are known from before", cells.len() - missing.len(), cells.len());
    }
    let mut rows = known;
    rows.extend(measure(&missing, effort, file)?);
    let row_of = |cell: &Cell| rows.iter().find(|row| row.cell == *cell).cloned();
    Ok(cells.iter().filter_map(row_of).collect())
}

/// Lines that do not fit (a line cut in the middle, another version) are measured anew.
fn read(file: &Path, effort: &Effort) -> Vec<Row> {
    let Ok(file) = File::open(file) else { return Vec::new() };
    let lines = BufReader::new(file).lines().map_while(Result::ok);
    let rows = lines.filter_map(|line| serde_json::from_str::<Row>(&line).ok());
    rows.filter(|row| row.version == VERSION && row.effort == *effort).collect()
}

fn measure(cells: &[Cell], effort: Effort, file: &Path) -> Result<Vec<Row>> {
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(file)
        .with_context(|| format!("cannot write to `{}`", file.display()))?;
    let bar = progress_bar(cells.len());
    let mut rows = Vec::new();
    parallel::each(
        cells,
        |cell| cell.measure(&effort),
        |cell, figures| {
            let version = VERSION.to_owned();
            let row = Row { cell: cell.clone(), effort, version, figures };
            writeln!(file, "{}", serde_json::to_string(&row)?)?;
            bar.set_message(format!("{} of {}", cell.algorithm, cell.nodes));
            bar.inc(1);
            rows.push(row);
            Ok(())
        },
    )?;
    bar.finish_and_clear();
    Ok(rows)
}

fn progress_bar(cells: usize) -> ProgressBar {
    let bar = ProgressBar::new(cells as u64);
    let style = ProgressStyle::with_template("{wide_bar} {pos} of {len} cells, {msg}, {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}
