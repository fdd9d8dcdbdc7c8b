//! Labels along arrows, placed where they cover the least.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    layout::{CHARACTER, Point, length, text_width},
    ways::Way,
};

/// The labels and arrows so far, by squares of the picture, so that only near ones are compared.
#[derive(Debug, Default)]
pub(super) struct Labels {
    ways: Vec<Way>,
    taken: BTreeMap<Square, Vec<Point>>,
    /// The arrows through each square or near it, by their numbers.
    crossing: BTreeMap<Square, Vec<usize>>,
}

/// A square of the picture: its column and its row.
type Square = (i64, i64);

/// The width of a square.
const SIDE: f64 = 32.0;

/// A label with its position: the middle of its baseline, rotated by degrees.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) at: Point,
    pub(super) degrees: f64,
    pub(super) text: String,
}

/// What a label at some position would cover: less is better, and other labels are the worst.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
struct Cost {
    words: usize,
    arrows: usize,
}

/// The distance of a label from its arrow.
const LIFT: f64 = 4.0;

/// The height of a letter.
const HEIGHT: f64 = 9.0;

/// The distance between letters, from middle to middle.
const NEAR: f64 = 8.5;

/// The positions of a label along its arrow, the best first.
const SPOTS: [f64; 17] =
    [0.5, 0.4, 0.6, 0.3, 0.7, 0.22, 0.78, 0.45, 0.55, 0.35, 0.65, 0.26, 0.74, 0.15, 0.85, 0.1, 0.9];

impl Labels {
    /// The arrows, without labels yet.
    pub(super) fn new(ways: Vec<Way>) -> Self {
        let mut crossing: BTreeMap<Square, Vec<usize>> = BTreeMap::new();
        for (number, way) in ways.iter().enumerate() {
            for square in squares(way) {
                crossing.entry(square).or_default().push(number);
            }
        }
        Self { ways, taken: BTreeMap::new(), crossing }
    }

    /// Places horizontal text of this width at the first of these positions where it covers the
    /// least.
    pub(super) fn take(&mut self, places: &[Point], width: f64) -> Point {
        let places = places.iter().map(|&at| (at, points(at, 0.0, width, 0.0)));
        let best = self.best(places, |(_, points)| points, None);
        let (_, (at, points)) = best.expect("there is a place for every mark");
        points.into_iter().for_each(|point| self.take_point(point));
        at
    }

    /// Adds a sign at this point.
    pub(super) fn take_point(&mut self, at: Point) {
        self.taken.entry(square(at)).or_default().push(at);
    }

    /// The best position along the arrow of this number for the longest text that fits it, covers
    /// no other label, and crosses other arrows in at most so many letters; none if there is no
    /// such position.
    pub(super) fn place(
        &mut self,
        arrow: usize,
        texts: &[String],
        most_crossed: usize,
    ) -> Option<Placed> {
        let length = self.ways[arrow].length();
        let fits = |text: &&String| text_width(text) < length - 20.0;
        let mut fitting: Vec<_> = texts.iter().filter(fits).collect();
        if fitting.is_empty() {
            fitting.extend(texts.last());
        }
        let mut places = fitting.into_iter().filter_map(|text| self.place_of(arrow, text));
        let is_good = |cost: Cost| cost.words == 0 && cost.arrows <= most_crossed;
        let (_, placed, points) = places.find(|&(cost, ..)| is_good(cost))?;
        points.into_iter().for_each(|point| self.take_point(point));
        Some(placed)
    }

    /// The best position for a text, and how much it covers there.
    fn place_of(&self, arrow: usize, text: &str) -> Option<(Cost, Placed, Vec<Point>)> {
        let way = self.ways[arrow];
        let (length, half) = (way.length(), text_width(text) / 2.0);
        let fits = |spot: &&f64| **spot * length > half && (1.0 - **spot) * length > half;
        let places = SPOTS.iter().filter(fits).chain([&0.5]).flat_map(|&spot| {
            let (on, angle) = way.at(spot);
            // Above the arrow, or below it.
            [-LIFT, LIFT + HEIGHT].map(|lift| {
                let at = Point { x: on.x - angle.sin() * lift, y: on.y + angle.cos() * lift };
                (at, angle, points(at, angle, 2.0 * half, -half))
            })
        });
        let best = self.best(places, |(_, _, points)| points, Some(arrow));
        let (cost, (at, angle, points)) = best?;
        Some((cost, Placed { at, degrees: angle.to_degrees(), text: text.to_owned() }, points))
    }

    /// The first of these places where a label covers the least, except its own arrow.
    fn best<T>(
        &self,
        places: impl Iterator<Item = T>,
        points: impl Fn(&T) -> &[Point],
        own: Option<usize>,
    ) -> Option<(Cost, T)> {
        let mut best: Option<(Cost, T)> = None;
        for place in places {
            let limit = best.as_ref().map(|(cost, _)| *cost);
            let Some(cost) = self.cost_below(limit, points(&place), own) else { continue };
            best = Some((cost, place));
            // Nothing is better than to cover nothing, which is usually the first place.
            if cost == Cost::default() {
                break;
            }
        }
        best
    }

    /// How much a label at these points would cover, if that is less than the limit.
    fn cost_below(&self, limit: Option<Cost>, words: &[Point], own: Option<usize>) -> Option<Cost> {
        let mut cost = Cost::default();
        for &point in words {
            if limit.is_some_and(|limit| cost >= limit) {
                return None;
            }
            let here = square(point);
            let taken = around(here).filter_map(|square| self.taken.get(&square)).flatten();
            let near = |taken: &&Point| length(taken.x - point.x, taken.y - point.y) < NEAR;
            cost.words += taken.filter(near).count();
            let arrows = self.crossing.get(&here).into_iter().flatten();
            let others = arrows.filter(|&&way| Some(way) != own);
            cost.arrows +=
                others.filter(|&&way| self.ways[way].distance(point) < HEIGHT / 2.0).count();
        }
        limit.is_none_or(|limit| cost < limit).then_some(cost)
    }
}

fn square(point: Point) -> Square {
    ((point.x / SIDE).floor() as i64, (point.y / SIDE).floor() as i64)
}

/// A square and its neighbours.
fn around((column, row): Square) -> impl Iterator<Item = Square> {
    let rows = move |column| (row - 1..=row + 1).map(move |row| (column, row));
    (column - 1..=column + 1).flat_map(rows)
}

/// The squares in which an arrow may touch a letter.
fn squares(way: &Way) -> BTreeSet<Square> {
    let steps = (way.length() / HEIGHT).ceil().max(1.0) as u32;
    let points = (0..=steps).map(|step| way.roughly_at(f64::from(step) / f64::from(steps)));
    let reach = [(-HEIGHT, -HEIGHT), (-HEIGHT, HEIGHT), (HEIGHT, -HEIGHT), (HEIGHT, HEIGHT)];
    let corners = points.flat_map(|Point { x, y }| {
        reach.map(|(right, down)| square(Point { x: x + right, y: y + down }))
    });
    corners.collect()
}

/// Points that cover a text, in the middle of its letters.
fn points(at: Point, angle: f64, width: f64, offset: f64) -> Vec<Point> {
    let count = (width / CHARACTER).ceil().max(1.0) as usize;
    let lift = HEIGHT / 2.0;
    let point = |place: usize| {
        let along = offset + (place as f64 + 0.5) * CHARACTER;
        Point {
            x: at.x + along * angle.cos() + lift * angle.sin(),
            y: at.y + along * angle.sin() - lift * angle.cos(),
        }
    };
    (0..count).map(point).collect()
}
