//! The positions of all labels, so that none covers another.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    bundle::Bundle,
    labels::Labels,
    layout::{AFTER_LINES, BUNDLE_LABEL, Layout, Point, mark_width, text_width},
    scene::{Mark, MarkKind, Scene, Span},
    ways::{self, Way},
};

pub(super) use super::labels::Placed;

/// The paths of messages, and the positions of all labels.
#[derive(Debug)]
pub(super) struct Words {
    /// The path of each arrow.
    pub(super) ways: Vec<Way>,
    /// The label of each arrow, if there is room for one.
    pub(super) labels: Vec<Option<Placed>>,
    /// The beginning of each mark's label.
    pub(super) marks: Vec<Point>,
    /// The middle of each span's label, if there is room for it.
    pub(super) fences: Vec<Option<Point>>,
    /// The beginning of the label of each bundle that is sent in this row, and its text.
    pub(super) bundles: Vec<(Point, Bundle)>,
}

impl Words {
    pub(super) fn new(scene: &Scene, layout: &Layout) -> Self {
        let ways = ways::all(scene, layout);
        let mut labels = Labels::new(ways.clone());
        let fences: Vec<_> = scene.spans.iter().map(|span| fence(span, scene, layout)).collect();
        for (span, at) in scene.spans.iter().zip(&fences) {
            if let &Some(Point { x, y }) = at {
                let width = text_width(&span.label);
                labels.take(&[Point { x: x - width / 2.0, y }], width);
            }
        }
        for mark in &scene.marks {
            labels.take_point(layout.point(mark.who, mark.at));
        }
        let marks = scene.marks.iter().map(|mark| match mark.label.as_str() {
            "" => layout.point(mark.who, mark.at),
            label => labels.take(&places(mark, layout), mark_width(label)),
        });
        let marks = marks.collect();
        let labels = on_arrows(scene, &ways, labels, layout);
        Self { ways, labels, marks, fences, bundles: bundles(scene, layout) }
    }
}

/// In a crowded picture a label that another arrow of the same event has too may cross other arrows
/// in at most so many of its letters.
const CROSSED: usize = 3;

/// In a crowded picture of so many equal messages from one event only one is labelled.
const FAN: usize = 6;

/// The labels of arrows. Of several equal messages from one event one is labelled first, while
/// there is room; and short arrows come before long ones, which have more room.
fn on_arrows(
    scene: &Scene,
    ways: &[Way],
    mut labels: Labels,
    layout: &Layout,
) -> Vec<Option<Placed>> {
    let is_single = |&number: &usize| !layout.bundles.has(&scene.arrows[number]);
    let mut order: Vec<_> = (0..ways.len()).filter(is_single).collect();
    order.sort_by(|&a, &b| ways[a].length().total_cmp(&ways[b].length()));
    let event = |number: usize| {
        let arrow = &scene.arrows[number];
        (arrow.from, arrow.sent, &arrow.labels)
    };
    let mut equal: BTreeMap<_, usize> = BTreeMap::new();
    order.iter().for_each(|&number| *equal.entry(event(number)).or_default() += 1);
    let mut labelled = BTreeSet::new();
    let is_first = |&number: &usize| labelled.insert(event(number));
    let (first, mut others): (Vec<_>, Vec<_>) = order.into_iter().partition(is_first);
    if layout.crowded {
        others.retain(|&number| equal[&event(number)] < FAN);
    }
    let mut placed: Vec<_> = scene.arrows.iter().map(|_| None).collect();
    let others_cross = if layout.crowded { CROSSED } else { usize::MAX };
    for (numbers, most_crossed) in [(first, usize::MAX), (others, others_cross)] {
        for number in numbers {
            placed[number] = labels.place(number, &scene.arrows[number].labels, most_crossed);
        }
    }
    placed
}

/// The labels of bundles stand above the first line, beginning where their messages are sent.
fn bundles(scene: &Scene, layout: &Layout) -> Vec<(Point, Bundle)> {
    let here = layout.bundles.all.iter().filter(|bundle| scene.times.contains(&bundle.sent));
    let label = |bundle: &Bundle| {
        let y = layout.top - layout.head + 22.0 + BUNDLE_LABEL * bundle.place as f64;
        (Point { x: layout.x(bundle.sent) + 4.0, y }, *bundle)
    };
    here.map(label).collect()
}

/// Lines of processes that have room for several labels between them.
const FAR_APART: f64 = 70.0;

/// The height of a line of labels.
const LINE: f64 = 13.0;

/// No label begins left of this.
const MARGIN: f64 = 4.0;

/// The possible beginnings of a mark's label, the best first.
fn places(mark: &Mark, layout: &Layout) -> Vec<Point> {
    let Point { x, y } = layout.point(mark.who, mark.at);
    let width = mark_width(&mark.label);
    let (left, right) = (x - 6.0 - width, x + 4.0);
    let (above, below) = (y - 9.0, y + 19.0);
    let x = match mark.kind {
        // The messages of a request leave to the right, so its clock stands on the left.
        MarkKind::Request => left,
        // Left of its event a label seems to tell what happened before: it stands there only where
        // the picture ends.
        MarkKind::Plain | MarkKind::Crash if right + width <= layout.right + AFTER_LINES => right,
        MarkKind::Plain | MarkKind::Crash => left.max(MARGIN),
    };
    // Between lines that are far apart there is more room.
    let far = layout.gap() >= FAR_APART;
    let mut heights = vec![above, below];
    heights.extend((far && y > layout.top).then_some(above - LINE));
    heights.extend((far && y < layout.bottom).then_some(below + LINE));
    heights.into_iter().map(|y| Point { x, y }).collect()
}

/// The middle of the widest free piece of a bar, if its label fits there.
fn fence(span: &Span, scene: &Scene, layout: &Layout) -> Option<Point> {
    let (from, to) = layout.reach(span);
    let own = scene.marks.iter().filter(|mark| mark.who == span.who);
    let mut stops: Vec<_> = own.map(|mark| layout.x(mark.at)).collect();
    stops.extend([from, to]);
    stops.retain(|x| (from..=to).contains(x));
    stops.sort_by(f64::total_cmp);
    let pieces = stops.windows(2).map(|ends| (ends[1] - ends[0], (ends[0] + ends[1]) / 2.0));
    let (width, x) = pieces.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let fits = !span.label.is_empty() && text_width(&span.label) + 4.0 < width;
    fits.then_some(Point { x, y: layout.y(span.who) + 3.8 })
}
