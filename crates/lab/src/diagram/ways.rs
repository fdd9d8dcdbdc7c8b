//! The paths of the messages' arrows.

use std::collections::BTreeMap;

use super::{
    layout::{Layout, Point, length},
    scene::{Arrow, End, Scene},
};

/// The bow of an arrow that passes other lines.
const BOW: f64 = 16.0;

/// The distance between the bows of arrows with the same ends, so that each has room for its label.
const FAN: f64 = 28.0;

/// Of two bows that have as much room but for rounding, the first is taken.
const TIE: f64 = 1e-6;

/// How far to the right a message is drawn that is lost when it is sent.
const STUB: f64 = 54.0;

/// The distance of the cross of a lost message from the line of its receiver: beside the bars on
/// that line, and between it and the next one, so that the cross belongs to no other process.
const SHORT_OF: f64 = 17.0;

/// The path of an arrow: straight to a neighbouring line; past other lines in a slight bow, so that
/// it does not seem to touch their marks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub(super) from: Point,
    pub(super) to: Point,
    /// The control point of the quadratic curve.
    pub(super) over: Point,
}

impl Way {
    /// The path from one point to another with this bow.
    pub(super) fn new(from: Point, to: Point, bow: f64) -> Self {
        let (dx, dy) = (to.x - from.x, to.y - from.y);
        let length = length(dx, dy).max(1.0);
        let over = Point {
            x: (from.x + to.x) / 2.0 - dy / length * bow,
            y: (from.y + to.y) / 2.0 + dx / length * bow,
        };
        Self { from, to, over }
    }

    pub(super) fn length(&self) -> f64 {
        length(self.to.x - self.from.x, self.to.y - self.from.y)
    }

    /// The point at this share of the path, from 0 to 1, and the direction there.
    pub(super) fn at(&self, part: f64) -> (Point, f64) {
        let Self { from, to, over } = *self;
        let rest = 1.0 - part;
        let between =
            |a: f64, b: f64, c: f64| rest * rest * a + 2.0 * rest * part * b + part * part * c;
        let slope = |a: f64, b: f64, c: f64| 2.0 * rest * (b - a) + 2.0 * part * (c - b);
        let point = Point { x: between(from.x, over.x, to.x), y: between(from.y, over.y, to.y) };
        let angle = slope(from.y, over.y, to.y).atan2(slope(from.x, over.x, to.x));
        (point, angle)
    }

    /// The distance of a point from it, its bow taken as two straight pieces.
    pub(super) fn distance(&self, point: Point) -> f64 {
        let (middle, _) = self.at(0.5);
        straight(point, self.from, middle).min(straight(point, middle, self.to))
    }

    /// The point at this share of the path, its bow taken as two straight pieces.
    pub(super) fn roughly_at(&self, part: f64) -> Point {
        let (middle, _) = self.at(0.5);
        let (a, b, part) = match part < 0.5 {
            true => (self.from, middle, 2.0 * part),
            false => (middle, self.to, 2.0 * part - 1.0),
        };
        Point { x: a.x + (b.x - a.x) * part, y: a.y + (b.y - a.y) * part }
    }
}

fn straight(point: Point, a: Point, b: Point) -> f64 {
    let (dx, dy) = (b.x - a.x, b.y - a.y);
    let squared = dx * dx + dy * dy;
    let along = if squared == 0.0 {
        0.0
    } else {
        (((point.x - a.x) * dx + (point.y - a.y) * dy) / squared).clamp(0.0, 1.0)
    };
    length(point.x - a.x - along * dx, point.y - a.y - along * dy)
}

/// The paths of all arrows, in their order.
pub(super) fn all(scene: &Scene, layout: &Layout) -> Vec<Way> {
    let key = |arrow: &Arrow| (arrow.from, arrow.to, arrow.sent, arrow.end);
    let mut alike: BTreeMap<_, usize> = BTreeMap::new();
    for arrow in &scene.arrows {
        *alike.entry(key(arrow)).or_default() += 1;
    }
    let mut drawn: BTreeMap<_, usize> = BTreeMap::new();
    let mut ways = Ways { scene, layout, drawn: Vec::new() };
    for arrow in &scene.arrows {
        let (alike, place) = (alike[&key(arrow)], drawn.entry(key(arrow)).or_default());
        let aside = FAN * (*place as f64 - (alike - 1) as f64 / 2.0);
        *place += 1;
        let way = ways.of(arrow, (alike > 1).then_some(aside));
        ways.drawn.push(way);
    }
    ways.drawn
}

struct Ways<'a> {
    scene: &'a Scene,
    layout: &'a Layout,
    drawn: Vec<Way>,
}

impl Ways<'_> {
    /// The path of an arrow; `aside` is its offset among arrows with the same ends.
    fn of(&self, arrow: &Arrow, aside: Option<f64>) -> Way {
        let (from, to) = (self.beginning(arrow), self.end(arrow));
        if !arrow.begins_here() || !arrow.ends_here() {
            return Way::new(from, to, aside.unwrap_or(0.0) / 2.0);
        }
        if self.layout.lines_between(arrow.from, arrow.to) == 0 {
            return Way::new(from, to, aside.unwrap_or(0.0));
        }
        // In a crowded picture a greater bow may be needed to keep away from others.
        let crowd = self.layout.crowded || aside.is_some();
        let bows: &[f64] = if crowd { &[BOW, -BOW, 3.0 * BOW, -3.0 * BOW] } else { &[BOW, -BOW] };
        let room = |way: &Way| 3.0 * self.clear(way) + self.apart(way);
        let ways = bows.iter().map(|&bow| Way::new(from, to, bow)).map(|way| (room(&way), way));
        let first = (f64::NEG_INFINITY, Way::new(from, to, BOW));
        ways.fold(first, |best, way| if way.0 > best.0 + TIE { way } else { best }).1
    }

    /// The point at this share of the way between the lines of an arrow's processes.
    fn between(&self, arrow: &Arrow, x: f64, share: f64) -> Point {
        let (from, to) = (self.layout.y(arrow.from), self.layout.y(arrow.to));
        Point { x, y: from + (to - from) * share }
    }

    /// Where an arrow begins: at the left end of the lines, if it was sent in a row before.
    fn beginning(&self, arrow: &Arrow) -> Point {
        match arrow.begins_here() {
            true => self.layout.point(arrow.from, arrow.sent),
            false => self.between(arrow, self.layout.left, arrow.part.0),
        }
    }

    /// Where an arrow ends: that of a lost message before its receiver, that of a message in flight
    /// beyond the last event.
    fn end(&self, arrow: &Arrow) -> Point {
        if !arrow.ends_here() {
            return self.between(arrow, self.layout.right, arrow.part.1);
        }
        let from = self.layout.point(arrow.from, arrow.sent);
        let towards = self.layout.y(arrow.to);
        let part = |x: f64, part: f64| Point { x, y: from.y + (towards - from.y) * part };
        let short_of = |x: f64| Point { x, y: towards - SHORT_OF.copysign(towards - from.y) };
        match arrow.end {
            End::Received(at) => self.layout.point(arrow.to, at),
            End::Lost(at) if at == arrow.sent => short_of(from.x + STUB),
            End::Lost(at) => short_of(self.layout.x(at)),
            End::InFlight => part(self.layout.right, arrow.part.0.mul_add(0.25, 0.75)),
        }
    }

    /// The distance of a path from the marks on the lines that it passes.
    fn clear(&self, way: &Way) -> f64 {
        let passed = self.scene.marks.iter().map(|mark| self.layout.point(mark.who, mark.at));
        let (low, high) = (way.from.y.min(way.to.y), way.from.y.max(way.to.y));
        let (begin, end) = (way.from.x - 4.0 * BOW, way.to.x + 4.0 * BOW);
        let near = passed.filter(|mark| begin < mark.x && mark.x < end);
        let between = near.filter(|mark| low < mark.y && mark.y < high);
        between.map(|mark| way.distance(mark)).fold(BOW, f64::min)
    }

    /// The distance of a path from those before it.
    fn apart(&self, way: &Way) -> f64 {
        let points = [0.25, 0.5, 0.75].map(|part| way.at(part).0);
        let nearest = |other: &Way| points.map(|point| other.distance(point)).into_iter();
        let (begin, end) = (way.from.x - 4.0 * BOW, way.to.x + 4.0 * BOW);
        let near = self.drawn.iter().filter(|other| other.to.x > begin && other.from.x < end);
        near.flat_map(nearest).fold(BOW, f64::min)
    }
}
