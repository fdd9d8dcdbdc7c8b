//! The plots of the report.

use mutua_lab::plot::{Bar, Bars};

use super::{
    number,
    summary::{Row, Summary},
    targets,
};

/// One bar for each system.
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
        title: "Hand-overs per second, 3 contenders, hold time zero (more is better)",
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
        title: "Microseconds from a release to the next grant, held for 120 ms (less is better)",
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
    let bar = |row: &Row| {
        let value = (plot.of)(row).filter(|value| *value > 0.0)?;
        Some(Bar { name: row.title.clone(), value, color: color(row) })
    };
    let mut bars: Vec<_> = rows.iter().filter_map(bar).collect();
    bars.sort_by(|a, b| {
        let order = a.value.total_cmp(&b.value);
        if plot.more { order.reverse() } else { order }
    });
    Bars { title: plot.title.to_owned(), bars, number }.svg()
}

fn color(row: &Row) -> &'static str {
    let kind = &row.system.kind;
    match (kind.is_mutua(), kind.is_limit()) {
        (true, _) => "#1f6feb",
        (_, true) => "#b8bfc9",
        _ => "#d97b29",
    }
}
