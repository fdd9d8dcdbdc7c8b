//! Cells with their figures, and the measurement of those that are missing.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::grid::{Cell, Effort, Figures};
use crate::workers::Workers;

/// Called with the number of events simulated since the last call, by any worker.
pub type OnEvents<'a> = dyn Fn(u64) + Sync + 'a;

/// A cell that can be measured by itself.
pub trait Task: Clone + DeserializeOwned + PartialEq + Serialize + Sync {
    /// Its figures.
    type Figures: Clone + DeserializeOwned + Send + Serialize;

    /// Simulates it in at most so many bytes of memory.
    fn measure(&self, effort: &Effort, memory: u64, watch: &OnEvents<'_>) -> Self::Figures;

    /// Whether it was simulated. What was refused, for want of memory maybe, is tried again.
    fn is_measured(figures: &Self::Figures) -> bool;

    /// Its name in a progress report.
    fn title(&self) -> String;
}

/// A cell with its figures.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Measured<C, F> {
    /// The cell.
    pub cell: C,
    /// The effort with which it was measured.
    pub effort: Effort,
    /// The version that measured it; another version may measure something else.
    pub version: String,
    /// Its figures.
    pub figures: F,
}

/// A cell of the grid of systems and loads.
pub type Row = Measured<Cell, Figures>;

/// A task with its figures.
pub type RowOf<T> = Measured<T, <T as Task>::Figures>;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Reads rows, one a line in JSON, as `serde_json` writes them. A line that does not fit
/// (truncated, refused, of another version or another effort) is left out, so that its cell is
/// measured again.
pub fn read<T: Task>(lines: &[u8], effort: &Effort) -> Vec<RowOf<T>> {
    let lines = lines.split(|&byte| byte == b'\n');
    let rows = lines.filter_map(|line| serde_json::from_slice::<RowOf<T>>(line).ok());
    let counts = |row: &RowOf<T>| row.version == VERSION && T::is_measured(&row.figures);
    rows.filter(|row| row.effort == *effort && counts(row)).collect()
}

/// The cells without figures.
pub fn missing<T: Task>(cells: &[T], known: &[RowOf<T>]) -> Vec<T> {
    let is_missing = |cell: &&T| !known.iter().any(|row| row.cell == **cell);
    cells.iter().filter(is_missing).cloned().collect()
}

/// Measures cells and passes each row to `done` as soon as it is complete; `watch` gets the
/// progress in events, also of long runs.
pub fn measure<T: Task, E>(
    cells: &[T],
    effort: Effort,
    workers: &impl Workers,
    watch: &OnEvents<'_>,
    mut done: impl FnMut(RowOf<T>) -> Result<(), E>,
) -> Result<(), E> {
    let memory = workers.memory();
    workers.each(
        cells,
        |cell| cell.measure(&effort, memory, watch),
        |cell, figures| {
            let version = VERSION.to_owned();
            done(Measured { cell: cell.clone(), effort, version, figures })
        },
    )
}

/// The rows of these cells, in the order of the cells.
pub fn in_order<T: Task>(cells: &[T], rows: &[RowOf<T>]) -> Vec<RowOf<T>> {
    let row_of = |cell: &T| rows.iter().find(|row| row.cell == *cell).cloned();
    cells.iter().filter_map(row_of).collect()
}
