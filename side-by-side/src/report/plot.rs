//! Bars on a logarithmic scale, drawn by hand.

use super::{
    number,
    summary::{Row, Summary},
    targets,
    text::escape,
};

const WIDTH: f64 = 880.0;
const LEFT: f64 = 272.0;
const RIGHT: f64 = 80.0;
const TOP: f64 = 56.0;
const STEP: f64 = 22.0;

/// What a plot shows, and of whom.
struct Plot {
    file: &'static str,
    title: &'static str,
    of: fn(&Row) -> Option<f64>,
    /// Whether more is better.
    more: bool,
}

const PLOTS: [Plot; 4] = [
    Plot {
        file: "handovers.svg",
        title: "Hand-overs per second, 3 contenders, nothing done inside (more is better)",
        of: targets::handovers_of_three,
        more: true,
    },
    Plot {
        file: "handovers-64.svg",
        title: "Hand-overs per second, 64 contenders (more is better)",
        of: |row| row.empty.get(&64).map(|figures| figures.handovers_per_s),
        more: true,
    },
    Plot {
        file: "delay.svg",
        title: "Microseconds from release to the next one's entry, 120 ms inside (less is better)",
        of: targets::delay_of_three,
        more: false,
    },
    Plot {
        file: "again.svg",
        title: "Microseconds to lock and unlock, alone, again and again (less is better)",
        of: targets::pair,
        more: false,
    },
];

/// The names of the plots' files.
pub(super) fn files() -> impl Iterator<Item = &'static str> {
    PLOTS.iter().map(|plot| plot.file)
}

/// All plots with the names of their files.
pub(super) fn all(summary: &Summary) -> Vec<(&'static str, String)> {
    PLOTS.iter().map(|plot| (plot.file, draw(plot, &summary.rows))).collect()
}

fn draw(plot: &Plot, rows: &[Row]) -> String {
    let figure = |row: &Row| (plot.of)(row).filter(|value| *value > 0.0);
    let mut bars: Vec<(&Row, f64)> =
        rows.iter().filter_map(|row| Some((row, figure(row)?))).collect();
    bars.sort_by(|a, b| if plot.more { b.1.total_cmp(&a.1) } else { a.1.total_cmp(&b.1) });
    let height = TOP + STEP * bars.len() as f64 + 16.0;
    let least = bars.iter().map(|bar| bar.1).fold(f64::INFINITY, f64::min);
    let most = bars.iter().map(|bar| bar.1).fold(0.0, f64::max);
    // A whole decade below the least, so that its bar can be seen.
    let from = least.log10().floor() - if least.log10().fract() < 0.1 { 1.0 } else { 0.0 };
    let to = most.log10().ceil().max(from + 1.0);
    let x = |value: f64| LEFT + (value.log10() - from) / (to - from) * (WIDTH - LEFT - RIGHT);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"13\" role=\"img\">\n\
         <title>{title}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"8\" y=\"20\" font-weight=\"600\" fill=\"#1c2430\">{title}</text>\n",
        title = escape(plot.title)
    );
    let mut decade = from;
    while decade <= to && !bars.is_empty() {
        let (at, label) = (x(10_f64.powf(decade)), number(10_f64.powf(decade)));
        svg += &format!(
            "<line x1=\"{at:.1}\" y1=\"{:.1}\" x2=\"{at:.1}\" y2=\"{:.1}\" stroke=\"#d5dae1\"/>\n\
             <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#5b6675\" \
             font-size=\"11\">{label}</text>\n",
            TOP - 6.0,
            height - 10.0,
            TOP - 12.0
        );
        decade += 1.0;
    }
    for (place, (row, value)) in bars.into_iter().enumerate() {
        svg += &bar(row, value, TOP + STEP * place as f64, x(value));
    }
    svg + "</svg>\n"
}

fn bar(row: &Row, value: f64, y: f64, end: f64) -> String {
    let kind = &row.system.kind;
    let colour = match (kind.is_mutua(), kind.is_limit()) {
        (true, _) => "#1f6feb",
        (_, true) => "#b8bfc9",
        _ => "#d97b29",
    };
    let (middle, width) = (y + 13.0, (end - LEFT).max(1.0));
    format!(
        "<text x=\"{:.1}\" y=\"{middle:.1}\" text-anchor=\"end\" fill=\"#1c2430\">{}</text>\n\
         <rect x=\"{LEFT}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"15\" fill=\"{colour}\"/>\n\
         <text x=\"{:.1}\" y=\"{middle:.1}\" fill=\"#1c2430\">{}</text>\n",
        LEFT - 8.0,
        escape(&row.title),
        y + 1.0,
        end + 6.0,
        number(value)
    )
}
