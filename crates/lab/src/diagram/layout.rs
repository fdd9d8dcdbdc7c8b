//! Positions: columns for times, rows for processes.

use std::collections::{BTreeMap, BTreeSet};

use mutua_algorithms::NodeId;

use super::{
    Drawing,
    axis::Scale,
    bundle::Bundles,
    inset::Inset,
    scene::{Arrow, End, MarkKind, Scene, Span, SpanKind},
};
use crate::{Header, Unit};

/// The approximate width of a character: fonts are not measured.
pub(super) const CHARACTER: f64 = 6.3;

/// The approximate width of a text.
pub(super) fn text_width(text: &str) -> f64 {
    CHARACTER * text.chars().count() as f64
}

/// The approximate width of the label of a mark, which is bold: names of variables are often in
/// capitals, which are wider than other letters.
pub(super) fn mark_width(label: &str) -> f64 {
    let wide = label.chars().filter(|c| c.is_uppercase() || *c == '=').count();
    1.15 * text_width(label) + CAPITAL * wide as f64
}

/// The width of a bold capital beyond that of other letters.
const CAPITAL: f64 = 2.0;

/// A long title, such as a whole command, is written in a smaller size, down to this one; then the
/// picture is made wider.
const TITLE_SMALL: f64 = 12.0;
const WIDEST_TITLE: f64 = 1200.0;

/// The width of the title in this size: its characters are wider than others.
pub(super) fn title_width(header: &Header, size: f64) -> f64 {
    0.65 * size * header.heading().chars().count() as f64
}

/// A point of the picture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// The length of a line. The root is exact everywhere, while `hypot` differs in its last bit from
/// one platform to another, and the page's module must draw what the server draws.
pub(super) fn length(dx: f64, dy: f64) -> f64 {
    (dx * dx + dy * dy).sqrt()
}

/// The positions of one row of the picture: as many steps as fit its width.
#[derive(Debug)]
pub(super) struct Layout {
    columns: BTreeMap<u64, f64>,
    rows: BTreeMap<NodeId, f64>,
    /// The ends of the processes' lines.
    pub(super) left: f64,
    pub(super) right: f64,
    /// The first and the last line.
    pub(super) top: f64,
    pub(super) bottom: f64,
    /// The height of the axis above the first line: the labels of bundles are between them.
    pub(super) head: f64,
    /// The messages that are too many for labels of their own.
    pub(super) bundles: Bundles,
    /// Whether many messages are in flight at once.
    pub(super) crowded: bool,
    /// The times after which the axis is shorter than elsewhere.
    pub(super) shortened: BTreeSet<u64>,
}

/// The whole picture: a scene and its positions for each row, one below the other.
#[derive(Debug)]
pub(super) struct Sheet {
    pub(super) rows: Vec<(Scene, Layout)>,
    pub(super) width: f64,
    /// The first line of the legend.
    pub(super) legend: f64,
    /// Whether time is to scale.
    pub(super) linear: bool,
    /// The unit of the times, the same in all rows.
    pub(super) scale: Scale,
}

/// The height above the first line of each row, for the axis, and of the title.
const ABOVE: f64 = 58.0;
const TITLE: f64 = 46.0;

impl Sheet {
    pub(super) fn new(header: &Header, scene: &Scene, drawing: &Drawing) -> Self {
        let names = scene.rows.iter().map(|&who| header.name(who).chars().count());
        let left = 30.0 + 8.0 * names.max().unwrap_or(0) as f64;
        let widest = drawing.width.max(NARROWEST);
        let strip = Strip::new(header, scene, drawing, widest - left - AFTER);
        let mut rows: Vec<(Scene, Layout)> = Vec::new();
        let captions = drawing.caption_lines().len() as f64;
        let mut above = TITLE + 15.0 * captions;
        for times in strip.fold(widest - left - AFTER - BEFORE) {
            let part = match times {
                Some((first, last)) => scene.cut(first, last),
                None => scene.clone(),
            };
            let layout = Layout::new(&part, &strip, left, above + ABOVE);
            above = layout.bottom + 15.0 * below(&part) as f64 + 30.0;
            rows.push((part, layout));
        }
        let right = rows.iter().map(|(_, layout)| layout.right).fold(0.0, f64::max);
        // The title, what is below it, the violations and the legend must fit too.
        let title = (title_width(header, TITLE_SMALL) + 40.0).min(WIDEST_TITLE);
        let sentences = scene.violations.iter().map(|violation| text_width(&violation.text()));
        let deadlock = scene.deadlock.iter().map(|one| 1.2 * text_width(&one.sentence));
        let captions = drawing.caption_lines().into_iter().chain([header.settings.to_string()]);
        let captions: Vec<_> = captions.map(|line| text_width(&line)).collect();
        let inset = drawing.structure.as_ref().map(|one| Inset::new(header, one).size().0);
        let least = (right + 24.0).max(560.0).max(title).max(inset.unwrap_or(0.0));
        let texts = sentences.chain(deadlock).chain(captions);
        let width = texts.fold(least, |width, text| width.max(text + 60.0));
        let scale = Scale::of(header.unit, scene.times.last().copied().unwrap_or(0));
        Self { rows, width, legend: above + 18.0, linear: drawing.linear, scale }
    }
}

/// How many lines of text are below the lines of the processes.
fn below(scene: &Scene) -> usize {
    scene.violations.len() + usize::from(scene.deadlock.is_some())
}

/// The narrowest picture that can be asked for.
const NARROWEST: f64 = 400.0;

/// The room right of the last column, and left of the first one of a row that is not the first.
const AFTER: f64 = 120.0;
const BEFORE: f64 = 46.0;

/// The room right of the processes' lines, for the end of a label.
pub(super) const AFTER_LINES: f64 = 20.0;

/// The room that the label of a mark in the last column needs of the lines.
fn mark_room(label: &str) -> f64 {
    if label.is_empty() { 0.0 } else { mark_width(label) + 5.0 - AFTER_LINES }
}

/// The times whose labels are longer than the usual room right of the last column, and how much.
fn long_labels(scene: &Scene) -> BTreeMap<u64, f64> {
    let mut longer: BTreeMap<u64, f64> = BTreeMap::new();
    for mark in scene.marks.iter().filter(|mark| mark.kind != MarkKind::Request) {
        let room = longer.entry(mark.at).or_default();
        *room = room.max(mark_room(&mark.label) - AFTER);
    }
    longer
}

/// The height of the axis above the first line, and of one line of labels of bundles.
const HEAD: f64 = 34.0;
pub(super) const BUNDLE_LABEL: f64 = 15.0;

impl Layout {
    /// A row whose axis and lines begin below `top`.
    fn new(scene: &Scene, strip: &Strip, left: f64, top: f64) -> Self {
        let bundles = Bundles::of(scene);
        let labels = BUNDLE_LABEL * bundles.lines() as f64;
        let (top, head) = (top + labels, HEAD + labels);
        let first = scene.times.first().copied().unwrap_or(0);
        let whole = scene.arrows.iter().all(Arrow::begins_here);
        let lead = if whole { first_gap(scene) } else { first_gap(scene).max(BEFORE) };
        let shift = strip.columns.get(&first).map_or(0.0, |x| left + lead - x);
        let columns: BTreeMap<_, _> = scene
            .times
            .iter()
            .filter_map(|at| strip.columns.get(at).map(|x| (*at, x + shift)))
            .collect();
        let last = columns.values().copied().fold(left, f64::max);
        let right = last + if scene.goes_on() { AFTER } else { AFTER / 2.0 };
        let labels = scene.marks.iter().filter_map(|mark| {
            let x = columns.get(&mark.at)?;
            (mark.kind != MarkKind::Request).then(|| x + mark_room(&mark.label))
        });
        let right = labels.fold(right, f64::max);
        let lines = scene.rows.iter().enumerate();
        let rows: BTreeMap<_, _> =
            lines.map(|(row, &who)| (who, top + strip.gap * row as f64)).collect();
        let bottom = rows.values().copied().fold(top, f64::max);
        let (crowded, shortened) = (strip.crowded, strip.shortened.clone());
        Self { columns, rows, left, right, top, bottom, head, bundles, crowded, shortened }
    }

    /// The column of a time; a time at which nothing is drawn gets that of the next one.
    pub(super) fn x(&self, at: u64) -> f64 {
        if self.columns.first_key_value().is_some_and(|(&first, _)| at < first) {
            return self.left;
        }
        self.columns.range(at..).next().map_or(self.right, |(_, &x)| x)
    }

    pub(super) fn y(&self, who: NodeId) -> f64 {
        self.rows.get(&who).copied().unwrap_or(self.bottom)
    }

    /// The distance between the lines of two neighbours.
    pub(super) fn gap(&self) -> f64 {
        let lines = self.rows.len().saturating_sub(1).max(1);
        (self.bottom - self.top) / lines as f64
    }

    /// How many lines are between those of two processes.
    pub(super) fn lines_between(&self, a: NodeId, b: NodeId) -> usize {
        let (low, high) = (a.min(b), a.max(b));
        self.rows.range(low..high).count().saturating_sub(1)
    }

    pub(super) fn point(&self, who: NodeId, at: u64) -> Point {
        Point { x: self.x(at), y: self.y(who) }
    }

    /// The ends of a span.
    pub(super) fn reach(&self, span: &Span) -> (f64, f64) {
        // A span from the beginning began before the picture; a waiting process has a request.
        let waits = matches!(span.kind, SpanKind::Waiting | SpanKind::Stuck);
        let from_before = span.from == 0 && !waits;
        let from = if from_before { self.left } else { self.x(span.from) };
        (from, span.to.map_or(self.right, |to| self.x(to)))
    }

    pub(super) fn columns(&self) -> impl Iterator<Item = (u64, f64)> + '_ {
        self.columns.iter().map(|(&at, &x)| (at, x))
    }
}

impl Scene {
    /// Whether an arrow goes beyond the last column.
    fn goes_on(&self) -> bool {
        self.is_in_flight_at_the_end() || self.arrows.iter().any(|arrow| !arrow.ends_here())
    }
}

/// All columns on one line, before it is folded into rows.
struct Strip {
    columns: BTreeMap<u64, f64>,
    gap: f64,
    crowded: bool,
    shortened: BTreeSet<u64>,
    /// The times that need more room than others if they are the last of a row.
    long: BTreeMap<u64, f64>,
}

impl Strip {
    /// A linear strip has no gap that is wider than `room`.
    fn new(header: &Header, scene: &Scene, drawing: &Drawing, room: f64) -> Self {
        let crowded = is_crowded(scene);
        let (gap, long) = (row_gap(scene, crowded), long_labels(scene));
        if drawing.linear && header.unit != Unit::Step {
            let columns = linear_columns(scene, room);
            return Self { columns, gap, crowded, shortened: BTreeSet::new(), long };
        }
        let (columns, shortened) = columns(header, scene, gap, crowded);
        Self { columns, gap, crowded, shortened, long }
    }

    /// The first and the last time of each row; one row without times if nothing is drawn. All rows
    /// are about as wide as each other.
    fn fold(&self, room: f64) -> Vec<Option<(u64, u64)>> {
        let whole = self.columns.values().copied().fold(0.0, f64::max);
        let widths = self.columns.values().zip(self.columns.values().skip(1)).map(|(a, b)| b - a);
        let widest = widths.fold(0.0, f64::max);
        let room = room.min(whole / (whole / room).ceil().max(1.0) + widest);
        let mut rows: Vec<(u64, u64)> = Vec::new();
        let mut begin = 0.0;
        for (&at, &x) in &self.columns {
            let long = self.long.get(&at).copied().unwrap_or(0.0);
            match rows.last_mut() {
                Some(row) if x + long - begin <= room => row.1 = at,
                Some(_) | None => {
                    rows.push((at, at));
                    begin = x;
                }
            }
        }
        match rows.as_slice() {
            [] | [_] => vec![None],
            rows => rows.iter().copied().map(Some).collect(),
        }
    }
}

/// Columns in proportion to time: a message of median latency is as wide as usual, or less if a gap
/// would not fit.
fn linear_columns(scene: &Scene, room: f64) -> BTreeMap<u64, f64> {
    let times: Vec<_> = scene.times.iter().copied().collect();
    let gaps = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64);
    let widest = gaps.fold(1.0, f64::max);
    let scale = (LATENCY / usual_latency(scene)).min(room / 2.0 / widest);
    let first = times.first().copied().unwrap_or(0);
    times.into_iter().map(|at| (at, (at - first) as f64 * scale)).collect()
}

fn row_gap(scene: &Scene, crowded: bool) -> f64 {
    match scene.rows.len() {
        0..=4 => 96.0,
        5..=8 if crowded => 96.0,
        5..=8 => 74.0,
        _ => 56.0,
    }
}

/// The width of the labels left of the first column: clocks of requests, which are long on real
/// nodes.
fn first_gap(scene: &Scene) -> f64 {
    let first = scene.times.first();
    let requests = scene.marks.iter().filter(|mark| mark.kind == MarkKind::Request);
    let widths = requests.filter(|mark| Some(&mark.at) == first);
    widths.map(|mark| mark_width(&mark.label) + 12.0).fold(24.0, f64::max)
}

/// So many messages in flight at once need more room to be distinguished.
const CROWD: usize = 8;

/// Whether more messages are in flight at once than can be distinguished in the usual room.
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

/// The columns of all times, as far apart as their labels need, and the times after which a wait is
/// drawn shorter than in proportion.
fn columns(
    header: &Header,
    scene: &Scene,
    gap: f64,
    crowded: bool,
) -> (BTreeMap<u64, f64>, BTreeSet<u64>) {
    let (needs, apart) = (needs(scene, gap), apart(scene));
    let crowds = if crowded { crowds(scene, gap) } else { BTreeMap::new() };
    let step = if crowded { 80.0 } else { 50.0 };
    let usual = usual_latency(scene);
    let (mut columns, mut shortened) = (BTreeMap::new(), BTreeSet::new());
    let mut x = 0.0;
    let mut last: Option<u64> = None;
    for &at in &scene.times {
        if let Some(before) = last {
            let in_proportion = (at - before) as f64 / usual * LATENCY;
            let wide = match header.unit {
                Unit::Step => step,
                Unit::Nanoseconds | Unit::Microseconds | Unit::Milliseconds => {
                    in_proportion.clamp(16.0, 120.0)
                }
            };
            let need = needs.get(&before).copied().unwrap_or(0.0);
            let crowd = crowds.get(&before).copied().unwrap_or(0.0);
            let wide = wide.max(need.min(WIDEST_MARK)).max(crowd.min(WIDEST_CROWD));
            if header.unit != Unit::Step && in_proportion > 1.5 * wide {
                shortened.insert(before);
            }
            x += wide;
        }
        for &(before, wide) in apart.get(&at).into_iter().flatten() {
            let other = columns.get(&before).copied().unwrap_or(0.0);
            x = f64::max(x, other + wide);
        }
        columns.insert(at, x);
        last = Some(at);
    }
    (columns, shortened)
}

/// The width of an arrow of median latency.
const LATENCY: f64 = 96.0;

/// The greatest widths of a column, for the labels of arrows and of marks.
const WIDEST: f64 = 136.0;
const WIDEST_MARK: f64 = 260.0;
const WIDEST_CROWD: f64 = 480.0;

/// Labels can cover this share of the area between the first line and the last and still be read
/// among their arrows.
const COVERED: f64 = 0.1;

/// The height of a label with its margin.
const LABEL_HEIGHT: f64 = 14.0;

/// How wide the column of each time must be for the labels of the messages in flight then.
fn crowds(scene: &Scene, gap: f64) -> BTreeMap<u64, f64> {
    let ground = COVERED * gap * scene.rows.len().saturating_sub(1).max(1) as f64;
    let mut crowds: BTreeMap<u64, f64> = BTreeMap::new();
    let bundles = Bundles::of(scene);
    for arrow in scene.arrows.iter().filter(|arrow| !bundles.has(arrow)) {
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

/// How wide the column of each time must be, for labels that end in the next one.
fn needs(scene: &Scene, gap: f64) -> BTreeMap<u64, f64> {
    let mut needs: BTreeMap<u64, f64> = BTreeMap::new();
    let mut need = |at: u64, wide: f64| {
        let known = needs.entry(at).or_default();
        *known = known.max(wide);
    };
    for mark in scene.marks.iter().filter(|mark| mark.kind == MarkKind::Request) {
        // A request's clock stands on its left.
        let before = scene.times.range(..mark.at).next_back().copied().unwrap_or(0);
        need(before, mark_width(&mark.label) + 12.0);
    }
    for arrow in &scene.arrows {
        // A message that arrives in the next column needs an arrow as long as its label.
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

/// For each time the earlier times from which it must be apart, and how far: the label of a mark
/// ends before the next mark of its process. Labels of others are on other lines.
fn apart(scene: &Scene) -> BTreeMap<u64, Vec<(u64, f64)>> {
    let mut apart: BTreeMap<u64, Vec<(u64, f64)>> = BTreeMap::new();
    let mut last: BTreeMap<NodeId, (u64, f64)> = BTreeMap::new();
    for mark in &scene.marks {
        let space = if mark.label.is_empty() { 0.0 } else { 12.0 };
        let wide = (mark_width(&mark.label) + space).min(WIDEST_MARK);
        let (left, right) = match mark.kind {
            MarkKind::Request => (wide, 0.0),
            MarkKind::Plain | MarkKind::Crash => (0.0, wide),
        };
        if let Some((at, before)) = last.insert(mark.who, (mark.at, right))
            && before + left > 0.0
        {
            apart.entry(mark.at).or_default().push((at, before + left));
        }
    }
    // The labels of bundles stand above the lines, one behind the other.
    let bundles = Bundles::of(scene).all;
    let mut last: BTreeMap<usize, (u64, f64)> = BTreeMap::new();
    for bundle in bundles {
        let wide = (mark_width(&bundle.label(scene)) + 12.0).min(WIDEST_MARK);
        if let Some(before) = last.insert(bundle.place, (bundle.sent, wide)) {
            apart.entry(bundle.sent).or_default().push(before);
        }
    }
    apart
}

/// The median latency of messages.
fn usual_latency(scene: &Scene) -> f64 {
    let latency = |arrow: &Arrow| match arrow.end {
        End::Received(at) => Some((at - arrow.sent) as f64),
        End::Lost(_) | End::InFlight => None,
    };
    let mut latencies: Vec<_> = scene.arrows.iter().filter_map(latency).collect();
    latencies.sort_by(f64::total_cmp);
    latencies.get(latencies.len() / 2).copied().unwrap_or(1.0).max(1.0)
}
