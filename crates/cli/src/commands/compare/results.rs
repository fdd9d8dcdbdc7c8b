//! The results on disk, so that a comparison can go on where it was stopped; and measuring what is
//! missing, on all cores.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
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
    let Ok(bytes) = fs::read(file) else { return Vec::new() };
    let lines = bytes.split(|&byte| byte == b'\n');
    let rows = lines.filter_map(|line| serde_json::from_slice::<Row>(line).ok());
    rows.filter(|row| row.version == VERSION && row.effort == *effort).collect()
}

fn measure(cells: &[Cell], effort: Effort, file: &Path) -> Result<Vec<Row>> {
    let mut file =
        append_to(file).with_context(|| format!("cannot write to `{}`", file.display()))?;
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
    let style = ProgressStyle::with_template("{wide_bar} {pos} of {len} cells, {msg}, {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

#[cfg(test)]
mod tests {
    use super::{super::grid::CellLoad, *};

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
        all(cells.clone(), effort, &file).expect("they are measured");
        let whole = fs::read_to_string(&file).expect("a file");
        assert_eq!(lines(&whole), 3);
        fs::write(&file, &whole[..whole.len() - 40]).expect("it can be cut");
        assert_eq!(read(&file, &effort).len(), 2);
        assert_eq!(all(cells.clone(), effort, &file).expect("one is measured").len(), 3);
        assert_eq!(read(&file, &effort).len(), 3);
        assert_eq!(lines(&fs::read_to_string(&file).expect("a file")), 4);
        all(cells, effort, &file).expect("nothing is missing");
        assert_eq!(lines(&fs::read_to_string(&file).expect("a file")), 4);
    }
}
