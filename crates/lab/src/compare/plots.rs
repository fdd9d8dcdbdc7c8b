//! The plots of a comparison and their contents.

mod captions;
mod of_elections;
mod of_repairs;

use mutua_algorithms::{About, registry};
use mutua_simulator::{Expected, Theory, TheoryLoad};

use super::{
    Comparison, Situation,
    grid::{Cell, CellLoad, Figures, Stat},
    results::Row,
};
use crate::{
    plot::{Axis, Marker, Plot, Point, Series, Span, Style},
    words::number,
};

/// A plot with its place on the page.
pub(super) struct Shown {
    pub(super) file: String,
    /// The index of the situation that it belongs to; elections and repairs belong to none.
    pub(super) situation: Option<usize>,
    pub(super) plot: Plot,
    pub(super) caption: String,
}

pub(super) fn all(comparison: &Comparison) -> Vec<Shown> {
    let mut plots = Vec::new();
    for situation in 0..comparison.situations.len() {
        if !comparison.mutexes.is_empty() {
            plots.extend(against_size(comparison, situation));
            plots.extend(against_load(comparison, situation));
        }
    }
    if !comparison.elections.is_empty() {
        plots.extend(of_elections::all(&comparison.elections));
    }
    if !comparison.repairs.is_empty() {
        plots.extend(of_repairs::all(&comparison.repairs));
    }
    plots
}

fn against_size(comparison: &Comparison, situation: usize) -> Vec<Shown> {
    let make = |file: &str, load, measure: Measure| {
        let (x, y) = (size_axis(comparison), axis(measure));
        let one = |about: &&'static About| Series {
            name: about.name.to_owned(),
            style: style(about),
            theory: formulas(comparison, situation, about, load, measure),
            measured: points(
                comparison,
                situation,
                about,
                |row_load, nodes| (row_load == load).then_some(f64::from(nodes)),
                measure,
            ),
            joined: false,
        };
        let (series, left_out) = measure.fitting(visible(comparison.mutexes.iter().map(one)));
        let theory =
            |about: &About, nodes, load| theory_of(comparison, situation, about, nodes, load);
        let caption = captions::of(file, &series, &theory) + &left_out;
        let title = title_against_size(file).to_owned();
        let file = name_of(comparison, file, situation);
        let plot = Plot { title, x, y, series };
        Shown { file, situation: Some(situation), plot, caption }
    };
    AGAINST_SIZE.map(|(file, load, measure)| make(file, load, measure)).into()
}

/// The plots against the number of processes: file, load and measure.
const AGAINST_SIZE: [(&str, CellLoad, Measure); 4] = [
    ("messages-light", CellLoad::Light, Measure::Messages),
    ("messages-saturated", CellLoad::Saturated, Measure::Messages),
    ("client-delay", CellLoad::Light, Measure::ClientDelay),
    ("sync-delay", CellLoad::Saturated, Measure::SyncDelay),
];

fn title_against_size(file: &str) -> &'static str {
    match file {
        "messages-light" => "Messages per entry, one request at a time",
        "messages-saturated" => "Messages per entry, every process always requesting",
        "client-delay" => "Client delay: from request to entry without contention",
        _ => "Synchronization delay: from one exit to the next entry",
    }
}

fn against_load(comparison: &Comparison, situation: usize) -> Vec<Shown> {
    let make = |file: &str, title: &str, measure: Measure| {
        let (x, y) = (load_axis(comparison), axis(measure));
        let one = |about: &&'static About| Series {
            name: about.name.to_owned(),
            style: style(about),
            theory: Vec::new(),
            measured: points(
                comparison,
                situation,
                about,
                |load, nodes| match load {
                    CellLoad::Offered(share) if nodes == comparison.at => Some(share),
                    CellLoad::Offered(_) | CellLoad::Light | CellLoad::Saturated => None,
                },
                measure,
            ),
            joined: true,
        };
        let (series, left_out) = measure.fitting(visible(comparison.mutexes.iter().map(one)));
        let title = format!("{title}, {} processes", comparison.at);
        let caption = captions::of(file, &series, &|_, _, _| Theory::default())
            + &left_out
            + &measure.spread(&series);
        let file = name_of(comparison, file, situation);
        Shown { file, situation: Some(situation), plot: Plot { title, x, y, series }, caption }
    };
    vec![
        make("response-load", "Response time against load", Measure::Response),
        make("response-p99-load", "Response time, 99th percentile", Measure::ResponseP99),
        make("sync-load", "Synchronization delay against load", Measure::SyncDelay),
        make("messages-load", "Messages per entry against load", Measure::Messages),
        make("throughput-load", "Throughput against load", Measure::Throughput),
        make(
            "bypass-load",
            "Most entries by others between a request and its entry",
            Measure::Bypass,
        ),
        make("jain-load", "Jain's index of fairness", Measure::Jain),
    ]
}

/// The measure that is plotted.
#[derive(Clone, Copy)]
enum Measure {
    Messages,
    ClientDelay,
    SyncDelay,
    Response,
    ResponseP99,
    Throughput,
    Bypass,
    Jain,
}

impl Measure {
    fn of(self, figures: &Figures) -> Option<Stat> {
        match self {
            Self::Messages => figures.messages,
            Self::ClientDelay => figures.client_delay,
            Self::SyncDelay => figures.sync_delay,
            Self::Response => figures.response.mean,
            Self::ResponseP99 => figures.response.p99,
            Self::Throughput => figures.throughput,
            Self::Bypass => figures.bypass(),
            Self::Jain => figures.jain,
        }
    }

    /// The formula's value, for the measures that have one.
    fn formula(self, theory: Theory) -> Option<Expected> {
        match self {
            Self::Messages => theory.messages,
            Self::ClientDelay => theory.client_delay,
            Self::SyncDelay => theory.sync_delay,
            Self::Response | Self::ResponseP99 | Self::Throughput | Self::Bypass | Self::Jain => {
                None
            }
        }
    }

    /// A sentence if all series are nearly the same.
    fn spread(self, series: &[Series]) -> String {
        let values = series.iter().flat_map(|one| &one.measured).map(|point| point.y);
        let lowest = values.fold(1.0, f64::min);
        match self {
            Self::Jain if lowest > 0.97 => {
                format!(" All lie within {:.4} of 1: no process starves.", 1.0 - lowest)
            }
            _ => String::new(),
        }
    }

    /// The series without those that would compress all others, and sentences about them.
    fn fitting(self, series: Vec<Series>) -> (Vec<Series>, String) {
        if !matches!(self, Self::SyncDelay | Self::Response | Self::ResponseP99) {
            return (series, String::new());
        }
        let ends = |one: &Series| {
            let values = one.measured.iter().map(|point| point.y);
            values.fold((f64::MAX, 0.0f64), |(low, high), value| (low.min(value), high.max(value)))
        };
        let mut highs: Vec<_> = series.iter().map(|one| ends(one).1).collect();
        highs.sort_by(f64::total_cmp);
        let usual = highs.get(highs.len() / 2).copied().unwrap_or(0.0);
        let (kept, out): (Vec<_>, Vec<_>) =
            series.into_iter().partition(|one| ends(one).1 <= FAR * usual);
        let words = out.iter().map(|one| {
            let (low, high) = ends(one);
            format!(
                " Left out, since it would compress the scale: {}, {} to {} T.",
                one.name,
                number(low),
                number(high)
            )
        });
        let words = words.collect();
        (kept, words)
    }
}

/// A series that rises to so many times the median of all is left out of the plots of delays.
const FAR: f64 = 8.0;

fn axis(measure: Measure) -> Axis {
    let proportional = |label, span| Axis { label, span, ticks: Vec::new() };
    match measure {
        Measure::Messages => free("messages per entry"),
        Measure::ClientDelay => free("client delay, T"),
        Measure::SyncDelay => free("synchronization delay, T"),
        Measure::Response => free("mean response time, T"),
        Measure::ResponseP99 => free("99 % respond within, T"),
        Measure::Throughput => proportional("entries per second", Span::FromZero),
        Measure::Bypass => free("entries by others"),
        Measure::Jain => proportional("Jain's index", Span::FromZero),
    }
}

fn free(label: &'static str) -> Axis {
    Axis { label, span: Span::Log, ticks: Vec::new() }
}

fn size_axis(comparison: &Comparison) -> Axis {
    let sizes = comparison.rows.iter().filter(|row| row.cell.load.theory().is_some());
    let ticks = ticks(sizes.map(|row| f64::from(row.cell.nodes)));
    Axis { label: "processes N", span: Span::Log, ticks }
}

fn load_axis(comparison: &Comparison) -> Axis {
    let loads = comparison.rows.iter().filter_map(|row| match row.cell.load {
        CellLoad::Offered(share) => Some(share),
        CellLoad::Light | CellLoad::Saturated => None,
    });
    Axis { label: "offered load", span: Span::Log, ticks: ticks(loads) }
}

/// Every measured value, without those too near to the one before to be read.
fn ticks(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    let mut ticks: Vec<f64> = Vec::new();
    for value in values {
        if ticks.last().is_none_or(|last| value >= last * 1.2) {
            ticks.push(value);
        }
    }
    ticks
}

/// The measured points of one algorithm; `place` gives a cell's value on the axis, if it belongs
/// there.
fn points(
    comparison: &Comparison,
    situation: usize,
    about: &About,
    place: impl Fn(CellLoad, u32) -> Option<f64>,
    measure: Measure,
) -> Vec<Point> {
    let Situation { hold, latency } = &comparison.situations[situation];
    let rows = comparison.rows.iter().filter(|row| {
        row.cell.algorithm == about.name && row.cell.hold == *hold && row.cell.latency == *latency
    });
    let point = |row: &Row| {
        let (x, stat) = (place(row.cell.load, row.cell.nodes)?, measure.of(&row.figures)?);
        Some(Point { x, y: stat.mean, half_width: stat.half_width })
    };
    let mut points: Vec<_> = rows.filter_map(point).filter(|point| point.y > 0.0).collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    points
}

/// The formulas of a system in a situation, where what they assume holds there.
fn theory_of(
    comparison: &Comparison,
    situation: usize,
    about: &About,
    nodes: u32,
    load: CellLoad,
) -> Theory {
    let Situation { hold, latency } = comparison.situations[situation].clone();
    let (algorithm, clients) = (about.name.to_owned(), comparison.clients());
    Cell { algorithm, nodes, load, hold, latency, clients }.theory()
}

/// The formula's values between the smallest and the largest system.
fn formulas(
    comparison: &Comparison,
    situation: usize,
    about: &About,
    load: CellLoad,
    measure: Measure,
) -> Vec<(f64, f64)> {
    sizes(comparison)
        .into_iter()
        .filter_map(|nodes| {
            let theory = theory_of(comparison, situation, about, nodes, load);
            measure.formula(theory).map(|expected| (f64::from(nodes), expected.value))
        })
        .filter(|(_, value)| *value > 0.0)
        .collect()
}

/// The sizes that were measured, and some between them.
fn sizes(comparison: &Comparison) -> Vec<u32> {
    let measured = comparison.rows.iter().filter(|row| row.figures.refused.is_none());
    let nodes = || measured.clone().map(|row| row.cell.nodes);
    between(nodes().min(), nodes().max())
}

/// Sizes at about equal distances on a logarithmic axis.
fn between(low: Option<u32>, high: Option<u32>) -> Vec<u32> {
    let (Some(low), Some(high)) = (low, high) else { return Vec::new() };
    let ratio = f64::from(high) / f64::from(low);
    let step = |number| f64::from(low) * ratio.powf(f64::from(number) / 24.0);
    let mut sizes: Vec<_> = (0..=24).map(|number| step(number).round() as u32).collect();
    sizes.dedup();
    sizes
}

fn visible(series: impl Iterator<Item = Series>) -> Vec<Series> {
    series.filter(|one| !one.measured.is_empty()).collect()
}

/// The name of a plot's file, with hold time and latency if there are several situations.
fn name_of(comparison: &Comparison, file: &str, situation: usize) -> String {
    if comparison.situations.len() == 1 {
        return file.to_owned();
    }
    let Situation { hold, latency } = &comparison.situations[situation];
    let plain = |text: &str| {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '.';
        text.chars().map(|one| if is_plain(one) { one } else { '-' }).collect::<String>()
    };
    format!("{file}-hold-{}-latency-{}", plain(hold), plain(latency))
}

/// Whether a plot is one of repairs.
pub(super) fn is_of_repairs(shown: &Shown) -> bool {
    of_repairs::FILES.contains(&shown.file.as_str())
}

/// Whether a file may be a plot of an earlier comparison.
pub(super) fn is_plot(file: &str) -> bool {
    let Some(name) = file.strip_suffix(".svg") else { return false };
    let files = captions::FILES.iter().chain(&of_repairs::FILES);
    let known = files.filter_map(|plot| name.strip_prefix(plot));
    known.into_iter().any(|rest| match rest.strip_prefix('-') {
        None => rest.is_empty(),
        Some(rest) => rest.starts_with("hold-"),
    })
}

/// Colours that differ on white, also with most colour vision deficiencies; the markers
/// help.
const COLORS: [&str; 18] = [
    "#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#e67700", "#0b8a9b", "#8c564b", "#d6409f",
    "#556b2f", "#5f6b7a", "#a67c00", "#003f88", "#a3123a", "#00695c", "#6d4c41", "#6a1b9a",
    "#1b5e20", "#bf360c",
];

fn style(about: &About) -> Style {
    let place = registry::ALGORITHMS.iter().position(|known| known.name == about.name);
    let marker = match about.family {
        "token" => Marker::Square,
        "quorum" => Marker::Triangle,
        "permission" => Marker::Circle,
        _ => Marker::Diamond,
    };
    Style { color: COLORS[place.unwrap_or(0) % COLORS.len()], marker }
}

/// The name of a load of the formulas in tables.
pub(super) fn load_name(load: TheoryLoad) -> &'static str {
    match load {
        TheoryLoad::Light => "light",
        TheoryLoad::Saturated => "saturated",
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Effort, *};

    /// A comparison of Ricart and Agrawala's algorithm and Raymond's in this situation, with one
    /// figure everywhere.
    fn comparison(hold: &str, latency: &str) -> Comparison {
        let mutexes: Vec<_> = ["ricart-agrawala", "raymond"]
            .iter()
            .filter_map(|name| registry::about(name))
            .collect();
        let situation = Situation { hold: hold.to_owned(), latency: latency.to_owned() };
        let grid = super::super::Grid {
            named: mutexes.clone(),
            sizes: vec![3, 10],
            at: 3,
            loads: vec![0.5],
            situations: vec![situation],
            clients: super::super::Clients::default(),
        };
        let (effort, stat) = (Effort::default(), Some(Stat { mean: 2.0, half_width: None }));
        let figures = Figures {
            messages: stat,
            client_delay: stat,
            sync_delay: stat,
            jain: stat,
            ..Figures::default()
        };
        let row = |cell| Row { cell, effort, version: String::new(), figures: figures.clone() };
        Comparison {
            rows: grid.cells().into_iter().map(row).collect(),
            mutexes,
            elections: Vec::new(),
            repairs: Vec::new(),
            situations: grid.situations,
            at: grid.at,
            effort,
        }
    }

    /// The plots against the number of processes in which formulas are drawn.
    fn drawn(hold: &str, latency: &str) -> Vec<String> {
        let is_against_size = |shown: &Shown| AGAINST_SIZE.iter().any(|it| it.0 == shown.file);
        let has_lines = |shown: &Shown| {
            let has_lines = shown.plot.series.iter().any(|one| !one.theory.is_empty());
            assert_eq!(shown.caption.contains("Lines are"), has_lines, "{}", shown.caption);
            has_lines
        };
        let plots = all(&comparison(hold, latency)).into_iter();
        let plots = plots.filter(|shown| is_against_size(shown) && has_lines(shown));
        plots.map(|shown| shown.file).collect()
    }

    #[test]
    fn formulas_are_drawn_where_what_they_assume_holds() {
        assert_eq!(drawn("1ms", "1ms").len(), AGAINST_SIZE.len());
        assert_eq!(drawn("0ms", "1ms"), ["messages-light", "client-delay"]);
        assert!(drawn("1ms", "exp:1ms").is_empty());
    }
}
