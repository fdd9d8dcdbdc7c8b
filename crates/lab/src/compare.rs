//! Algorithms compared over a grid of sizes and loads: the cells, their measurement, and the page,
//! plots and tables of the results.

mod clients;
mod csv;
mod elections;
mod grid;
mod html;
mod plots;
mod repairs;
mod results;

use mutua_algorithms::{About, Kind, Setup, registry};

use crate::{
    size::{self, TooLarge},
    words::number,
};

pub use self::{
    clients::{Apart, Arrivals, Clients, Requesters},
    elections::{Case, ElectionCell, ElectionFigures, ElectionRow, LARGEST as LARGEST_ELECTION},
    grid::{Cell, CellLoad, Effort, Figures, Quantities, Stat},
    repairs::{RepairCell, RepairFigures, RepairRow},
    results::{Measured, OnEvents, Row, RowOf, Task, in_order, measure, missing, read},
};

/// The grid to measure.
#[derive(Clone, Debug)]
pub struct Grid {
    /// The algorithms; all but the negative controls, if none is named.
    pub named: Vec<&'static About>,
    /// How many processes, for the plots against N.
    pub sizes: Vec<u32>,
    /// How many processes, for the plots against the load.
    pub at: u32,
    /// Offered loads: the share of the time that all processes together would spend in the critical
    /// section if none had to wait.
    pub loads: Vec<f64>,
    /// The situations, each with its own plots.
    pub situations: Vec<Situation>,
    /// The clients and their regions, the same everywhere.
    pub clients: Clients,
}

/// A hold time and a latency, both as [`crate::durations::distribution`] reads them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Situation {
    /// The hold time.
    pub hold: String,
    /// The latency of messages.
    pub latency: String,
}

impl Grid {
    /// The algorithms for mutual exclusion; none if only elections are named.
    pub fn mutexes(&self) -> Vec<&'static About> {
        let elections = self.named.iter().filter(|about| about.kind == Kind::Election).count();
        if elections > 0 && elections == self.named.len() {
            return Vec::new();
        }
        grid::mutexes(&self.named)
    }

    /// The cells: all systems under all loads.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        let mutexes = self.mutexes();
        for Situation { hold, latency } in &self.situations {
            for about in &mutexes {
                let mut add = |nodes, load| {
                    let (hold, latency) = (hold.clone(), latency.clone());
                    let algorithm = about.name.to_owned();
                    let clients = self.clients.clone();
                    cells.push(Cell { algorithm, nodes, load, hold, latency, clients });
                };
                for &nodes in &self.sizes {
                    add(nodes, CellLoad::Light);
                    if self.clients.can_saturate() {
                        add(nodes, CellLoad::Saturated);
                    }
                }
                self.loads.iter().for_each(|&load| add(self.at, CellLoad::Offered(load)));
            }
        }
        cells
    }

    /// A size that fits into so many bytes with none of the algorithms for mutual exclusion, of the
    /// one that needs least.
    pub fn too_large(&self, memory: u64) -> Option<TooLarge> {
        let mutexes = self.mutexes();
        let against_size = self.sizes.iter().map(|&nodes| (nodes, CellLoad::Light));
        let against_load = self.loads.first().map(|&load| (self.at, CellLoad::Offered(load)));
        against_size.chain(against_load).find_map(|(nodes, load)| {
            let setup = Setup::new(nodes);
            let refused =
                mutexes.iter().map(|about| size::check(about, &setup, load.run(), memory));
            let refused: Option<Vec<_>> = refused.map(Result::err).collect();
            refused?.into_iter().max_by_key(|large| large.most)
        })
    }

    /// All elections, the highest process being down.
    pub fn elections(&self) -> Vec<ElectionCell> {
        elections::cells(&self.named, &self.sizes)
    }

    /// The repairs of all systems after a crash.
    pub fn repairs(&self) -> Vec<RepairCell> {
        repairs::cells(&self.mutexes(), &self.sizes)
    }
}

/// The contents of the page.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The algorithms for mutual exclusion.
    pub mutexes: Vec<&'static About>,
    /// Their figures.
    pub rows: Vec<Row>,
    /// The figures of elections.
    pub elections: Vec<ElectionRow>,
    /// The figures of repairs.
    pub repairs: Vec<RepairRow>,
    /// The situations, each with its own plots.
    pub situations: Vec<Situation>,
    /// How many processes, for the plots against the load.
    pub at: u32,
    /// The effort with which all cells were measured.
    pub effort: Effort,
}

impl Comparison {
    /// The clients and their regions, the same in all cells.
    pub fn clients(&self) -> Clients {
        self.rows.first().map(|row| row.cell.clients.clone()).unwrap_or_default()
    }

    /// How many violations there were, of the negative controls or of all other algorithms.
    pub fn violations(&self, by_controls: bool) -> u64 {
        let of = |about: &&&About| about.control == by_controls;
        registry::ALGORITHMS.iter().filter(of).map(|about| self.violations_of(about.name)).sum()
    }

    /// The cells that have no figures because they have not settled, and the effort that would
    /// settle them, as a sentence without its end.
    pub fn unsettled(&self) -> Option<String> {
        let rows = self.rows.iter().filter(|row| row.figures.unsettled.is_some());
        let rows: Vec<_> = rows.collect();
        let most = rows.iter().filter_map(|row| row.figures.unsettled).max()?;
        let cells: Vec<_> = rows.iter().map(|row| &row.cell).collect();
        let (cells, events) = (html::by_algorithm(&cells), number(most as f64));
        let allowed = most.saturating_mul(2);
        Some(format!(
            "Not settled, and so without figures: {cells}. A warm-up takes up to about {events} \
             events a run there: allow it with --warm-up-events {allowed}"
        ))
    }

    fn violations_of(&self, name: &str) -> u64 {
        let rows = self.rows.iter().filter(|row| row.cell.algorithm == name);
        let elections = self.elections.iter().filter(|row| row.cell.algorithm == name);
        let repairs = self.repairs.iter().filter(|row| row.cell.algorithm == name);
        rows.map(|row| row.figures.violations).sum::<u64>()
            + elections.map(|row| row.figures.violations.len() as u64).sum::<u64>()
            + repairs.map(|row| row.figures.violations.len() as u64).sum::<u64>()
    }

    /// The comparison as files, by name: the page, which is self-contained, the tables as
    /// comma-separated values, and every plot.
    pub fn files(&self) -> Vec<(String, String)> {
        let plots = plots::all(self);
        let mut files = vec![(PAGE.to_owned(), html::page(self, &plots))];
        if !self.mutexes.is_empty() {
            files.push((TABLES[0].to_owned(), csv::table(&self.rows)));
            files.push((TABLES[2].to_owned(), csv::observations(&self.rows)));
        }
        if !self.elections.is_empty() {
            files.push((TABLES[1].to_owned(), csv::elections(&self.elections)));
        }
        if !self.repairs.is_empty() {
            files.push((TABLES[3].to_owned(), csv::repairs(&self.repairs)));
        }
        files.extend(plots.iter().map(|plot| (format!("{}.svg", plot.file), plot.plot.svg())));
        files
    }
}

/// The file of the page.
pub const PAGE: &str = "report.html";

const TABLES: [&str; 4] = ["results.csv", "elections.csv", "observations.csv", "repairs.csv"];

/// Whether an earlier comparison may have written a file of this name that a new one does not.
pub fn is_file_of_comparison(name: &str) -> bool {
    plots::is_plot(name) || TABLES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::InTurn;

    fn grid(named: &[&str]) -> Grid {
        let situation = Situation { hold: "1ms".to_owned(), latency: "1ms".to_owned() };
        Grid {
            named: named.iter().filter_map(|name| registry::about(name)).collect(),
            sizes: vec![2, 3],
            at: 3,
            loads: vec![0.5],
            situations: vec![situation],
            clients: Clients::default(),
        }
    }

    #[test]
    fn a_comparison_needs_no_threads_and_no_files() {
        let grid = grid(&["central"]);
        let effort = Effort { entries: 20, runs: 2, max_events: 10_000, ..Effort::default() };
        let cells = grid.cells();
        assert_eq!(cells.len(), 5);
        let mut rows = Vec::new();
        let never = measure(&cells, effort, &InTurn, &|_| (), |row| {
            rows.push(row);
            Ok::<_, std::convert::Infallible>(())
        });
        never.expect("nothing fails");
        let comparison = Comparison {
            mutexes: grid.mutexes(),
            rows: in_order(&cells, &rows),
            elections: Vec::new(),
            repairs: Vec::new(),
            situations: grid.situations.clone(),
            at: grid.at,
            effort,
        };
        let files = comparison.files();
        assert!(files[0].1.contains("Mutual exclusion compared"));
        assert!(files.iter().all(|(name, _)| name == PAGE || is_file_of_comparison(name)));
        let tidy = &files.iter().find(|(name, _)| name == "observations.csv").expect("a table").1;
        let mut lines = tidy.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let header = lines.next().expect("a header");
        let lines: Vec<_> = lines.collect();
        assert!(lines.len() > cells.len() && lines.iter().all(|line| line.len() == header.len()));
        // The central algorithm sends three messages per entry, as in theory; a contender is its
        // own coordinator in none of these systems.
        let light = lines.iter().find(|line| line[2] == "light" && line[6] == "messages_per_entry");
        let light = light.expect("messages at light load");
        assert_eq!((light[3], light[4], light[5]), ("0", "0.001", "0.001"));
        assert_eq!((light[7], light[9], light[10]), ("3", "3", "measured"));
        let offered = lines.iter().find(|line| line[3] == "0.5").expect("a row of offered load");
        assert_eq!(offered[9], "", "no formula at that load");
        assert_eq!(comparison.violations(false), 0);
    }

    #[test]
    fn known_rows_are_not_missing_and_rows_of_another_effort_are() {
        let cells = grid(&["central"]).cells();
        let effort = Effort { entries: 20, runs: 1, max_events: 10_000, ..Effort::default() };
        let mut lines = String::new();
        let written = measure(&cells[..2], effort, &InTurn, &|_| (), |row| {
            serde_json::to_string(&row).map(|line| lines += &format!("{line}\n"))
        });
        written.expect("rows are JSON");
        let known = read::<Cell>(lines.as_bytes(), &effort);
        assert_eq!((known.len(), missing(&cells, &known).len()), (2, 3));
        let cut = read::<Cell>(&lines.as_bytes()[..lines.len() - 40], &effort);
        assert_eq!(missing(&cells, &cut).len(), 4);
        assert!(read::<Cell>(lines.as_bytes(), &Effort { seed: 2, ..effort }).is_empty());
    }

    #[test]
    fn a_size_that_fits_with_no_algorithm_is_found_before_it_is_made() {
        let huge = |named: &[&str]| Grid { sizes: vec![3, 4_000_000_000], ..grid(named) };
        let large = huge(&["lamport", "raymond"]).too_large(8 << 30).expect("nothing fits");
        assert_eq!((large.algorithm, large.nodes), ("raymond", 4_000_000_000));
        let at = Grid { at: 4_000_000_000, ..grid(&["raymond"]) };
        assert!(at.too_large(8 << 30).is_some());
        // A large system of Lamport's algorithm alone is noted in the report.
        let some = Grid { sizes: vec![100_000], ..grid(&["lamport", "raymond"]) };
        assert_eq!(some.too_large(8 << 30), None);
        assert_eq!(huge(&["bully"]).too_large(8 << 30), None);
    }

    #[test]
    fn a_refused_row_is_written_without_its_formulas_and_measured_again() {
        let mut cell = grid(&["raymond"]).cells().remove(0);
        // Raymond's formula is evaluated on a tree of all processes.
        cell.nodes = 4_000_000_000;
        let figures = cell.measure(&Effort::default(), 8 << 30, &|_| ());
        assert!(figures.refused.is_some(), "{figures:?}");
        let (effort, version) = (Effort::default(), env!("CARGO_PKG_VERSION").to_owned());
        let row = Row { cell, effort, version, figures };
        let line = serde_json::to_string(&row).expect("a row is JSON");
        assert!(read::<Cell>(line.as_bytes(), &effort).is_empty());
        let files = Comparison {
            mutexes: grid(&["raymond"]).mutexes(),
            rows: vec![row],
            elections: Vec::new(),
            repairs: Vec::new(),
            situations: grid(&[]).situations,
            at: 3,
            effort,
        }
        .files();
        assert!(files.iter().any(|(_, text)| text.contains("needs about")));
    }

    #[test]
    fn only_elections_are_compared_where_only_they_are_named() {
        assert!(grid(&["bully"]).mutexes().is_empty());
        assert_eq!(grid(&["bully"]).elections().len(), 2 * Case::ALL.len());
        assert_eq!(grid(&["bully", "central"]).cells().len(), 5);
    }
}
