//! Where things are: columns for times, rows for processes.

use std::collections::BTreeMap;

use mutua_algorithms::NodeId;

use super::scene::{Arrow, End, MarkKind, Scene, Span, SpanKind};
use crate::{Header, Unit};

/// How wide a character is, about; no font is asked.
pub(super) const CHARACTER: f64 = 6.3;

/// How wide a text is, about.
pub(super) fn text_width(text: &str) -> f64 {
    CHARACTER * text.chars().count() as f64
}

/// A title that is long, such as a whole command, is written in a smaller size, down to this, for
/// which a picture is made wider than it would be.
const TITLE_SMALL: f64 = 12.0;
const WIDEST_TITLE: f64 = 1200.0;

/// How wide the title is in this size: a character of it is wider than others.
pub(super) fn title_width(header: &Header, size: f64) -> f64 {
    0.65 * size * header.heading().chars().count() as f64
}

/// A point of the picture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

#[derive(Debug)]
pub(super) struct Layout {
    columns: BTreeMap<u64, f64>,
    rows: BTreeMap<NodeId, f64>,
    pub(super) width: f64,
    /// Where the lines of the processes begin and end.
    pub(super) left: f64,
    pub(super) right: f64,
    /// The first and the last line.
    pub(super) top: f64,
    pub(super) bottom: f64,
    /// The first line of the legend.
    pub(super) legend: f64,
    /// Whether many messages are under way at once.
    pub(super) crowded: bool,
}

impl Layout {
    pub(super) fn new(header: &Header, scene: &Scene) -> Self {
        let names = scene.rows.iter().map(|&who| header.name(who).chars().count());
        let left = 30.0 + 8.0 * names.max().unwrap_or(0) as f64;
        let crowded = is_crowded(scene);
        let (top, gap) = (104.0, row_gap(scene, crowded));
        let columns = columns(header, scene, gap, crowded, left + first_gap(scene));
        let last = columns.values().copied().fold(left, f64::max);
        let right = last + if scene.is_under_way_at_the_end() { 120.0 } else { 60.0 };
        let rows: BTreeMap<_, _> = scene
            .rows
            .iter()
            .enumerate()
            .map(|(row, &who)| (who, top + gap * row as f64))
            .collect();
        let bottom = rows.values().copied().fold(top, f64::max);
        // What stands below must fit too.
        let violations = scene.violations.iter().map(|violation| text_width(&violation.text()));
        let title = (title_width(header, TITLE_SMALL) + 40.0).min(WIDEST_TITLE);
        let least = (right + 24.0).max(560.0).max(title);
        let width = violations.fold(least, |width, text| width.max(text + 60.0));
        let below = 26.0 + 15.0 * scene.violations.len() as f64;
        let legend = bottom + below + 22.0;
        Self { columns, rows, width, left, right, top, bottom, legend, crowded }
    }

    /// The column of a time; times at which nothing is drawn are put before the next.
    pub(super) fn x(&self, at: u64) -> f64 {
        self.columns.range(at..).next().map_or(self.right, |(_, &x)| x)
    }

    pub(super) fn y(&self, who: NodeId) -> f64 {
        self.rows.get(&who).copied().unwrap_or(self.bottom)
    }

    /// How many lines lie between those of two processes.
    pub(super) fn lines_between(&self, a: NodeId, b: NodeId) -> usize {
        let (low, high) = (a.min(b), a.max(b));
        self.rows.range(low..high).count().saturating_sub(1)
    }

    pub(super) fn point(&self, who: NodeId, at: u64) -> Point {
        Point { x: self.x(at), y: self.y(who) }
    }

    /// Where a span begins and ends.
    pub(super) fn reach(&self, span: &Span) -> (f64, f64) {
        // Who is inside or down from the beginning was so before; who waits has asked.
        let from_before = span.from == 0 && span.kind != SpanKind::Waiting;
        let from = if from_before { self.left } else { self.x(span.from) };
        (from, span.to.map_or(self.right, |to| self.x(to)))
    }

    pub(super) fn columns(&self) -> impl Iterator<Item = (u64, f64)> + '_ {
        self.columns.iter().map(|(&at, &x)| (at, x))
    }
}

fn row_gap(scene: &Scene, crowded: bool) -> f64 {
    match scene.rows.len() {
        0..=4 => 96.0,
        5..=8 if crowded => 96.0,
        5..=8 => 74.0,
        _ => 56.0,
    }
}

/// What stands to the left of the first column: the clocks of requests there, which are long on
/// real nodes.
fn first_gap(scene: &Scene) -> f64 {
    let first = scene.times.first();
    let requests = scene.marks.iter().filter(|mark| mark.kind == MarkKind::Request);
    let widths = requests.filter(|mark| Some(&mark.at) == first);
    widths.map(|mark| text_width(&mark.label) + 12.0).fold(24.0, f64::max)
}

/// So many messages under way at once need more room to be told apart.
const CROWD: usize = 8;

/// Whether more messages are under way at once than can be told apart in the usual room.
fn is_crowded(scene: &Scene) -> bool {
    let under_way = |at: u64| {
        let crosses = |arrow: &&Arrow| {
            arrow.sent <= at
                && match arrow.end {
                    End::Received(end) | End::Lost(end) => at < end,
                    End::InFlight => true,
                }
        };
        scene.arrows.iter().filter(crosses).count()
    };
    scene.times.iter().any(|&at| under_way(at) >= CROWD)
}

/// Every time gets its column, as far from the last one as what is written there needs.
fn columns(
    header: &Header,
    scene: &Scene,
    gap: f64,
    crowded: bool,
    first: f64,
) -> BTreeMap<u64, f64> {
    let needs = needs(scene, gap);
    let crowds = if crowded { crowds(scene, gap) } else { BTreeMap::new() };
    let step = if crowded { 80.0 } else { 50.0 };
    let usual = usual_latency(scene);
    let mut columns = BTreeMap::new();
    let mut x = first;
    let mut last: Option<u64> = None;
    for &at in &scene.times {
        if let Some(before) = last {
            let wide = match header.unit {
                Unit::Step => step,
                Unit::Nanoseconds | Unit::Microseconds | Unit::Milliseconds => {
                    ((at - before) as f64 / usual * LATENCY).clamp(16.0, 120.0)
                }
            };
            let need = needs.get(&before).copied().unwrap_or(0.0);
            let crowd = crowds.get(&before).copied().unwrap_or(0.0);
            x += wide.max(need.min(WIDEST_MARK)).max(crowd.min(WIDEST_CROWD));
        }
        columns.insert(at, x);
        last = Some(at);
    }
    columns
}

/// How wide a message's way is that takes as long as usual.
const LATENCY: f64 = 96.0;

/// No column is wider, for what is written on arrows and on lines.
const WIDEST: f64 = 136.0;
const WIDEST_MARK: f64 = 200.0;
const WIDEST_CROWD: f64 = 480.0;

/// Of the ground between the first line and the last, labels can cover this share and still be
/// told apart among their arrows.
const COVERED: f64 = 0.1;

/// How high a label is, with what keeps it from others.
const LABEL_HEIGHT: f64 = 14.0;

/// How wide the column of each time must be for the labels of the messages under way then.
fn crowds(scene: &Scene, gap: f64) -> BTreeMap<u64, f64> {
    let ground = COVERED * gap * scene.rows.len().saturating_sub(1).max(1) as f64;
    let mut crowds: BTreeMap<u64, f64> = BTreeMap::new();
    for arrow in &scene.arrows {
        let label = arrow.labels.last().map_or(0.0, |text| text_width(text) + 8.0) * LABEL_HEIGHT;
        let end = match arrow.end {
            End::Received(at) | End::Lost(at) => at.max(arrow.sent + 1),
            End::InFlight => u64::MAX,
        };
        let passed = scene.times.range(arrow.sent..end).count() as f64;
        for &at in scene.times.range(arrow.sent..end) {
            *crowds.entry(at).or_default() += label / passed / ground;
        }
    }
    crowds
}

/// How wide the column of each time must be.
fn needs(scene: &Scene, gap: f64) -> BTreeMap<u64, f64> {
    let mut needs: BTreeMap<u64, f64> = BTreeMap::new();
    let mut need = |at: u64, wide: f64| {
        let known = needs.entry(at).or_default();
        *known = known.max(wide);
    };
    let mut written: BTreeMap<u64, f64> = BTreeMap::new();
    for mark in &scene.marks {
        let wide = text_width(&mark.label) + 12.0;
        match mark.kind {
            // A request's clock stands on its left, beside what is written in the column before.
            MarkKind::Request => {
                let before = scene.times.range(..mark.at).next_back().copied().unwrap_or(0);
                need(before, wide + written.get(&before).copied().unwrap_or(0.0));
            }
            MarkKind::Plain | MarkKind::Crash => {
                need(mark.at, wide);
                written.insert(mark.at, wide);
            }
        }
    }
    for arrow in &scene.arrows {
        // One that arrives in the next column: it is long enough for what is to be written on it.
        let next = scene.times.range(arrow.sent + 1..).next();
        if next.copied().map(End::Received) == Some(arrow.end) {
            let wide = |text: &String| {
                let length = text_width(text) + 22.0;
                (length * length - gap * gap).max(0.0).sqrt()
            };
            let best = arrow.labels.iter().map(wide).find(|&wide| wide <= WIDEST);
            need(arrow.sent, best.unwrap_or(0.0));
        }
    }
    needs
}

/// How long a message takes, usually: the median.
fn usual_latency(scene: &Scene) -> f64 {
    let latency = |arrow: &Arrow| match arrow.end {
        End::Received(at) => Some((at - arrow.sent) as f64),
        End::Lost(_) | End::InFlight => None,
    };
    let mut latencies: Vec<_> = scene.arrows.iter().filter_map(latency).collect();
    latencies.sort_by(f64::total_cmp);
    latencies.get(latencies.len() / 2).copied().unwrap_or(1.0).max(1.0)
}
