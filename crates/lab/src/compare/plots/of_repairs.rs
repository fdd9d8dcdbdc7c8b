//! The plots of repairs.

use mutua_algorithms::{About, registry};

use super::{super::repairs::RepairRow, Shown, between, free, style, ticks, visible};
use crate::plot::{Axis, Marker, Plot, Point, Series, Span, Style};

/// Messages and time of each algorithm's own repair, with the orders that the texts name.
pub(super) fn all(rows: &[RepairRow]) -> Vec<Shown> {
    let make = |file: &str, title: &str, y, of: Measure, laws: &[Law], caption: &str| {
        let one = |about: &&'static About| {
            let own = |row: &&RepairRow| row.cell.algorithm == about.name && row.cell.special;
            let points = rows.iter().filter(own).filter_map(|row| {
                let (x, y) = (f64::from(row.cell.nodes), of(row)?);
                // A logarithmic axis has no zero.
                (y > 0.0).then_some(Point { x, y, half_width: None })
            });
            let (name, measured) = (about.name.to_owned(), points.collect());
            Series { name, style: style(about), theory: Vec::new(), measured, joined: true }
        };
        let mut series = visible(registry::ALGORITHMS.iter().map(one));
        series.extend(laws.iter().map(|&(name, color, law)| Series {
            name: name.to_owned(),
            style: Style { color, marker: Marker::Circle },
            theory: sizes(rows).into_iter().map(|n| (n, law(n))).collect(),
            measured: Vec::new(),
            joined: false,
        }));
        let label = "processes N";
        let x = Axis { label, span: Span::Log, ticks: ticks(rows.iter().map(size)) };
        let plot = Plot { title: title.to_owned(), x, y, series };
        Shown { file: file.to_owned(), situation: None, plot, caption: caption.to_owned() }
    };
    vec![
        make(
            FILES[0],
            "Messages of a repair after one crash",
            free("messages"),
            |row| row.figures.messages().map(|messages| messages as f64),
            &[
                ("5n-3, n = N-1: O(N)", "#333333", |n| 5.0 * (n - 1.0) - 3.0),
                ("2 sqrt(N) - 2: O(sqrt N)", "#999999", |n| 2.0 * n.sqrt() - 2.0),
            ],
            MESSAGES,
        ),
        make(
            FILES[1],
            "Time of a repair, from the first report to the last survivor that goes on",
            free("time, T"),
            |row| row.figures.time,
            &[("2n+1, n = N-1: O(N)", "#333333", |n| 2.0 * (n - 1.0) + 1.0)],
            TIME,
        ),
    ]
}

/// The names of the files.
pub(super) const FILES: [&str; 2] = ["repair-messages", "repair-time"];

type Measure = fn(&RepairRow) -> Option<f64>;
/// Name, colour and formula of a line.
type Law = (&'static str, &'static str, fn(f64) -> f64);

const MESSAGES: &str = "\
    Each algorithm with its own repair where it has one, else with an election on a ring and a \
    view change; one process crashes at light load (of the central algorithm, its coordinator). \
    Algorithms whose survivors go on without a message are not shown: a logarithmic axis has no \
    zero.";

const TIME: &str = "\
    The same runs. The survivors of a special repair go on when the crash is reported to them, \
    or when the part of the lost process is taken over; a view change takes as long as the \
    election on the ring. Times of zero are not shown.";

fn sizes(rows: &[RepairRow]) -> Vec<f64> {
    let nodes = || rows.iter().map(|row| row.cell.nodes);
    between(nodes().min(), nodes().max()).into_iter().map(f64::from).collect()
}

fn size(row: &RepairRow) -> f64 {
    f64::from(row.cell.nodes)
}
