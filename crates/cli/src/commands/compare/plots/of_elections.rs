//! The plots of elections, and the formulas behind them.

use mutua_algorithms::registry;

use super::{
    super::elections::{Case, ElectionRow},
    COLORS, Shown, between, free, ticks, visible,
};
use crate::plot::{Axis, Marker, Plot, Series, Span, Style};

pub(super) fn all(rows: &[ElectionRow]) -> Vec<Shown> {
    let make =
        |file: &str, title: &str, y, of: ElectionMeasure, formula: ElectionFormula, caption| {
            let mut series = Vec::new();
            for (place, about) in registry::ALGORITHMS.iter().enumerate() {
                for (number, case) in Case::ALL.into_iter().enumerate() {
                    let wanted =
                        |row: &&ElectionRow| row.algorithm == about.name && row.case == case;
                    let measured: Vec<_> = rows
                        .iter()
                        .filter(wanted)
                        .filter_map(|row| Some((f64::from(row.nodes), of(row)?)))
                        .collect();
                    let marker = [Marker::Circle, Marker::Square, Marker::Triangle][number];
                    let color = COLORS[(place * 3 + number) % COLORS.len()];
                    let name = format!("{}, {}", about.name, short(case));
                    let style = Style { color, marker };
                    let theory = law(rows, |nodes| formula(about.name, case, nodes));
                    let joined = theory.is_empty();
                    series.push(Series { name, style, theory, measured, joined });
                }
            }
            let x =
                Axis { label: "processes N", span: Span::Log, ticks: ticks(rows.iter().map(size)) };
            let plot = Plot { title: title.to_owned(), x, y, series: visible(series.into_iter()) };
            let caption: &str = caption;
            Shown { file: file.to_owned(), situation: None, plot, caption: caption.to_owned() }
        };
    vec![
        make(
            "election-messages",
            "Messages per election, the highest process being down",
            free("messages"),
            |row| row.report.as_ref().ok().map(|report| report.messages as f64),
            messages_of_election,
            "Thin lines are formulas, points are measured. The bully needs N-1 messages if the \
             second highest starts and N^2-N-1 if the lowest does. The ring is closed over the \
             dead one: 2N-2 if the one that wins starts, 3N-4 if the one behind it does or if all \
             start in ascending order. The invitation election has no formula; its points are \
             joined.",
        ),
        make(
            "election-turnaround",
            "Turn-around time of an election",
            free("turn-around, T"),
            |row| row.report.as_ref().ok().and_then(|report| report.turnaround),
            turnaround_of_election,
            "The ring goes round two to three times: 2N-3 or 3N-5 messages one after the other. \
             The bully waits for its timeouts and is done, whatever the number.",
        ),
    ]
}

type ElectionMeasure = fn(&ElectionRow) -> Option<f64>;
type ElectionFormula = fn(&str, Case, f64) -> Option<f64>;

/// Messages of an election among N processes of which the highest is down.
fn messages_of_election(algorithm: &str, case: Case, n: f64) -> Option<f64> {
    match (algorithm, case) {
        ("chang-roberts", Case::NextStarts) => Some(2.0 * n - 2.0),
        ("chang-roberts", Case::LowestStarts | Case::AllStart) => Some(3.0 * n - 4.0),
        ("bully", Case::NextStarts) => Some(n - 1.0),
        ("bully", Case::LowestStarts | Case::AllStart) => Some(n * n - n - 1.0),
        _ => None,
    }
}

/// How long it takes on the ring, in T; elsewhere it depends on the timeouts.
fn turnaround_of_election(algorithm: &str, case: Case, n: f64) -> Option<f64> {
    match (algorithm, case) {
        ("chang-roberts", Case::LowestStarts) => Some(3.0 * n - 5.0),
        ("chang-roberts", Case::NextStarts | Case::AllStart) => Some(2.0 * n - 3.0),
        _ => None,
    }
}

/// A formula between the smallest and the largest system of an election.
fn law(rows: &[ElectionRow], formula: impl Fn(f64) -> Option<f64>) -> Vec<(f64, f64)> {
    let nodes = || rows.iter().map(|row| row.nodes);
    let sizes = between(nodes().min(), nodes().max());
    sizes.into_iter().map(f64::from).filter_map(|n| Some((n, formula(n)?))).collect()
}

fn short(case: Case) -> &'static str {
    match case {
        Case::LowestStarts => "lowest",
        Case::NextStarts => "next",
        Case::AllStart => "all",
    }
}

fn size(row: &ElectionRow) -> f64 {
    f64::from(row.nodes)
}
