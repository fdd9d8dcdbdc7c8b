//! The plots of elections.

use mutua_algorithms::registry;
use mutua_simulator::{ElectionTheory, Expected, Theory};

use super::{
    super::elections::{Case, ElectionCell, ElectionRow},
    COLORS, Shown, between, captions, free, ticks, visible,
};
use crate::plot::{Axis, Marker, Plot, Point, Series, Span, Style};

pub(super) fn all(rows: &[ElectionRow]) -> Vec<Shown> {
    let make = |file: &str, title: &str, y, of: ElectionMeasure, formula: ElectionFormula| {
        let mut series = Vec::new();
        for (index, about) in registry::ALGORITHMS.iter().enumerate() {
            for (number, case) in Case::ALL.into_iter().enumerate() {
                let wanted =
                    |row: &&ElectionRow| row.cell.algorithm == about.name && row.cell.case == case;
                let measured: Vec<_> = rows
                    .iter()
                    .filter(wanted)
                    .filter_map(|row| Some(Point { x: size(row), y: of(row)?, half_width: None }))
                    .collect();
                let marker = [Marker::Circle, Marker::Square, Marker::Triangle][number];
                let color = COLORS[(index * 3 + number) % COLORS.len()];
                let name = format!("{}, {}", about.name, case.name());
                let style = Style { color, marker };
                let theory = law(rows, |nodes| {
                    let algorithm = about.name.to_owned();
                    formula(ElectionCell { algorithm, nodes, case }.theory())
                });
                let joined = theory.is_empty();
                series.push(Series { name, style, theory, measured, joined });
            }
        }
        let x = Axis { label: "processes N", span: Span::Log, ticks: ticks(rows.iter().map(size)) };
        let series = visible(series.into_iter());
        let caption = captions::of(file, &series, &|_, _, _| Theory::default());
        let plot = Plot { title: title.to_owned(), x, y, series };
        Shown { file: file.to_owned(), situation: None, plot, caption }
    };
    vec![
        make(
            "election-messages",
            "Messages per election, the highest process being down",
            free("messages"),
            |row| row.figures.messages.map(|messages| messages as f64),
            |theory| theory.messages,
        ),
        make(
            "election-turnaround",
            "Turn-around time of an election",
            free("turn-around, T"),
            |row| row.figures.turnaround,
            |theory| theory.turnaround,
        ),
    ]
}

type ElectionMeasure = fn(&ElectionRow) -> Option<f64>;
type ElectionFormula = fn(ElectionTheory) -> Option<Expected>;

/// A formula between the smallest and the largest system of an election.
fn law(rows: &[ElectionRow], formula: impl Fn(u32) -> Option<Expected>) -> Vec<(f64, f64)> {
    let nodes = || rows.iter().map(|row| row.cell.nodes);
    let sizes = between(nodes().min(), nodes().max());
    sizes.into_iter().filter_map(|n| Some((f64::from(n), formula(n)?.value))).collect()
}

fn size(row: &ElectionRow) -> f64 {
    f64::from(row.cell.nodes)
}
