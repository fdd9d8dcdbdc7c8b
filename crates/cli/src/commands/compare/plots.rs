//! Which plots there are, and what is in them.

mod of_elections;

use mutua_algorithms::{About, Setup, registry};
use mutua_simulator::{Expected, Theory, TheoryLoad, theory};

use super::{
    Comparison,
    grid::{CellLoad, Figures, Stat},
};
use crate::plot::{Axis, Marker, Plot, Series, Span, Style, number};

/// A plot with its place on the page.
pub(super) struct Shown {
    pub(super) file: String,
    /// To which time inside and latency it belongs; elections belong to none.
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
    plots
}

fn against_size(comparison: &Comparison, situation: usize) -> Vec<Shown> {
    let make = |file: &str,
                title: &str,
                load,
                measure: Measure,
                formula: Formula,
                caption: &str| {
        let (x, y) = (size_axis(comparison), axis(measure));
        let one = |about: &&'static About| Series {
            name: about.name.to_owned(),
            style: style(about),
            theory: formulas(comparison, about, load, formula),
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
        let file = name_of(file, situation);
        let plot = Plot { title: title.to_owned(), x, y, series };
        Shown { file, situation: Some(situation), plot, caption: caption.to_owned() + &left_out }
    };
    vec![
        make(
            "messages-light",
            "Messages per entry, one request at a time",
            CellLoad::Light,
            Measure::Messages,
            |theory| theory.messages.as_ref(),
            "Lines are the formulas of the papers, points are measured. A token that never rests \
             has no line: what it costs depends on how long nobody asks.",
        ),
        make(
            "messages-saturated",
            "Messages per entry, everybody always wants in",
            CellLoad::Saturated,
            Measure::Messages,
            |theory| theory.messages.as_ref(),
            "The busier, the fewer messages on rings and trees: one message of the ring serves one \
             entry, and one request on a tree speaks for many. For Naimi-Trehel and Neilsen-Mizuno \
             the line is the bound that theory gives, 4 and 3. The Bakery polls while it waits.",
        ),
        make(
            "client-delay",
            "Client delay: from request to entry while nobody else wants in",
            CellLoad::Light,
            Measure::ClientDelay,
            |theory| theory.client_delay.as_ref(),
            "Asking everyone at once takes one round trip whatever the number; asking along a ring \
             or a tree takes the way.",
        ),
        make(
            "sync-delay",
            "Synchronization delay: from one exit to the next entry",
            CellLoad::Saturated,
            Measure::SyncDelay,
            |theory| theory.sync_delay.as_ref(),
            "One latency where the one who leaves tells the next one itself, two where a third \
             party stands between, such as a coordinator or a voter.",
        ),
    ]
}

fn against_load(comparison: &Comparison, situation: usize) -> Vec<Shown> {
    let make = |file: &str, title: &str, measure: Measure, caption: &str| {
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
        let file = name_of(file, situation);
        let caption = caption.to_owned() + &left_out;
        Shown { file, situation: Some(situation), plot: Plot { title, x, y, series }, caption }
    };
    vec![
        make(
            "waiting-load",
            "Waiting time against load",
            Measure::Waiting,
            "From request to entry. At a load of 1 all together would just fill the time if nobody \
             had to wait for messages; the delay from one to the next makes it full earlier.",
        ),
        make(
            "sync-load",
            "Synchronization delay against load",
            Measure::SyncDelay,
            "From one exit to the next entry while somebody waits.",
        ),
        make(
            "messages-load",
            "Messages per entry against load",
            Measure::Messages,
            "Where permissions or tokens stay with who used them last, load changes the cost.",
        ),
        make(
            "throughput-load",
            "Throughput against load",
            Measure::Throughput,
            "Entries per second. The ceiling is one per time inside and synchronization delay.",
        ),
        make(
            "bypass-load",
            "Most entries by others between a request and its entry",
            Measure::Bypass,
            "Fairness at its worst: how often others went first. With N processes that each wait \
             for their turn it is N-1.",
        ),
        make(
            "jain-load",
            "Jain's index of fairness",
            Measure::Jain,
            "1: all got in equally often. The axis shows only the range that was measured.",
        ),
    ]
}

/// What is plotted.
#[derive(Clone, Copy)]
enum Measure {
    Messages,
    ClientDelay,
    SyncDelay,
    Waiting,
    Throughput,
    Bypass,
    Jain,
}

type Formula = fn(&Theory) -> Option<&Expected>;

impl Measure {
    fn of(self, figures: &Figures) -> Option<f64> {
        let mean = |stat: Option<Stat>| stat.map(|stat| stat.mean);
        match self {
            Self::Messages => mean(figures.messages),
            Self::ClientDelay => mean(figures.client_delay),
            Self::SyncDelay => mean(figures.sync_delay),
            Self::Waiting => mean(figures.waiting),
            Self::Throughput => mean(figures.throughput),
            Self::Bypass => (figures.jain.is_some()).then_some(figures.max_bypass as f64),
            Self::Jain => mean(figures.jain),
        }
    }

    /// The series without those that would press all others together, and words about them.
    fn fitting(self, series: Vec<Series>) -> (Vec<Series>, String) {
        if !matches!(self, Self::SyncDelay | Self::Waiting) {
            return (series, String::new());
        }
        let ends = |one: &Series| {
            let values = one.measured.iter().map(|point| point.1);
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
                " Left out, because it would press the rest together: {}, {} to {} T.",
                one.name,
                number(low),
                number(high)
            )
        });
        let words = words.collect();
        (kept, words)
    }
}

/// A series that rises to so many times of what is usual gets no place in the plots of delays.
const FAR: f64 = 8.0;

fn axis(measure: Measure) -> Axis {
    let proportional = |label, span| Axis { label, span, ticks: Vec::new() };
    match measure {
        Measure::Messages => free("messages per entry"),
        Measure::ClientDelay => free("client delay, T"),
        Measure::SyncDelay => free("synchronization delay, T"),
        Measure::Waiting => free("mean waiting time, T"),
        Measure::Throughput => proportional("entries per second", Span::FromZero),
        Measure::Bypass => free("entries by others"),
        Measure::Jain => proportional("Jain's index", Span::Fitted),
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

/// Every value that was measured, but not nearer to the one before than can be read.
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

/// What was measured of one algorithm, `place` saying where on the axis a cell belongs.
fn points(
    comparison: &Comparison,
    situation: usize,
    about: &About,
    place: impl Fn(CellLoad, u32) -> Option<f64>,
    measure: Measure,
) -> Vec<(f64, f64)> {
    let (hold, latency) = &comparison.situations[situation];
    let rows = comparison.rows.iter().filter(|row| {
        row.cell.algorithm == about.name && row.cell.hold == *hold && row.cell.latency == *latency
    });
    let mut points: Vec<_> = rows
        .filter_map(|row| Some((place(row.cell.load, row.cell.nodes)?, measure.of(&row.figures)?)))
        .filter(|(_, value)| *value > 0.0)
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

/// What theory says between the smallest and the largest system.
fn formulas(
    comparison: &Comparison,
    about: &About,
    load: CellLoad,
    formula: Formula,
) -> Vec<(f64, f64)> {
    let Some(load) = load.theory() else { return Vec::new() };
    sizes(comparison)
        .into_iter()
        .filter_map(|nodes| {
            let said = theory(about.name, &Setup::new(nodes), load);
            formula(&said).map(|expected| (f64::from(nodes), expected.value))
        })
        .filter(|(_, value)| *value > 0.0)
        .collect()
}

fn sizes(comparison: &Comparison) -> Vec<u32> {
    let nodes = || comparison.rows.iter().map(|row| row.cell.nodes);
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

fn name_of(file: &str, situation: usize) -> String {
    if situation == 0 { file.to_owned() } else { format!("{file}-{}", situation + 1) }
}

/// Told apart on white, also by most who do not see all colours; the shape helps.
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

/// The theory load has a name of its own in the tables.
pub(super) fn load_name(load: TheoryLoad) -> &'static str {
    match load {
        TheoryLoad::Light => "light",
        TheoryLoad::Saturated => "saturated",
    }
}
