//! Plots as SVG: lines for theory, points for measurement, names at the ends of the lines.
//!
//! Written by hand: it needs striped lines for series that cover each other, names beside the ends
//! of lines, and SVG whose text stays the same.

mod bars;
mod overlap;
mod timeline;

use self::overlap::{Endpoint, Striped, side_by_side, stripes};
pub use self::{
    bars::{Bar, Bars},
    timeline::{Hold, Panel, Timeline},
};
use crate::{
    svg::{Picture, escape},
    words::number,
};

/// A plot of several series over the same axes.
#[derive(Clone, Debug)]
pub struct Plot {
    /// Its title.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The series.
    pub series: Vec<Series>,
}

/// An axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Its measure, with the unit.
    pub label: &'static str,
    /// Its scale.
    pub span: Span,
    /// The values to label; none leaves the choice to the plot.
    pub ticks: Vec<f64>,
}

/// The scale of an axis.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Span {
    /// Equal ratios are equal distances.
    Log,
    /// Equal differences are equal distances, from 0 on.
    FromZero,
}

/// A series, drawn in one colour.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name, at the end of its line.
    pub name: String,
    /// Its colour, and the shape of its points.
    pub style: Style,
    /// The values of the formula, drawn as a thin line.
    pub theory: Vec<(f64, f64)>,
    /// The measured points.
    pub measured: Vec<Point>,
    /// Whether the points are joined.
    pub joined: bool,
}

/// A measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The value on the horizontal axis.
    pub x: f64,
    /// The value on the vertical axis.
    pub y: f64,
    /// The half width of its interval, drawn as a whisker if it is longer than the point.
    pub half_width: Option<f64>,
}

/// Colour and shape of the points.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// As SVG writes it.
    pub color: &'static str,
    /// The shape.
    pub marker: Marker,
}

/// The shape of a point: one for each family of algorithms.
#[derive(Clone, Copy, Debug)]
pub enum Marker {
    /// A disc.
    Circle,
    /// A square.
    Square,
    /// A triangle that points upwards.
    Triangle,
    /// A square that stands on a corner.
    Diamond,
}

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 500.0;
const LEFT: f64 = 70.0;
/// The room for names beside the plot is at least this, and more for long ones.
const RIGHT: f64 = 190.0;
const TOP: f64 = 46.0;
const BOTTOM: f64 = 58.0;
/// The distance of the first and the last point from the edges, since points may be drawn beside
/// them.
const INSET: f64 = 26.0;
/// The smallest distance between names at the right.
const NAME_HEIGHT: f64 = 17.0;
/// The approximate width of a letter.
const LETTER: f64 = 7.2;
/// A whisker shorter than this would hide behind its point.
const WHISKER: f64 = 5.0;

/// Maps values of one axis to places in the picture.
struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    span: Span,
}

impl Scale {
    fn new(values: impl Iterator<Item = f64>, span: Span, from: f64, to: f64) -> Self {
        let log = span == Span::Log;
        let usable = values.filter(|value| value.is_finite() && (!log || *value > 0.0));
        let (low, high) = usable
            .fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
        let (low, high) = if low > high { (1.0, 10.0) } else { (low, high) };
        let (low, high) = match span {
            Span::Log => (low / 1.15, high * 1.15),
            Span::FromZero => (0.0, high * 1.06),
        };
        let high = if high > low { high } else { low + 1.0 };
        Self { low, high, from, to, span }
    }

    fn place(&self, value: f64) -> f64 {
        let share = if self.span == Span::Log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share.clamp(-0.02, 1.02) * (self.to - self.from)
    }

    /// The values of grid lines, and whether they are labelled.
    fn ticks(&self) -> Vec<(f64, bool)> {
        if self.span != Span::Log {
            return self.even_ticks();
        }
        let decades = (self.low.log10().floor() as i32)..=(self.high.log10().ceil() as i32);
        let few = self.high / self.low < 50.0;
        let ticks = decades.flat_map(|decade| {
            (1..10).map(move |digit| {
                let labelled = digit == 1 || (few && matches!(digit, 2 | 3 | 5));
                (f64::from(digit) * 10f64.powi(decade), labelled)
            })
        });
        let ticks: Vec<_> =
            ticks.filter(|(value, _)| (self.low..=self.high).contains(value)).collect();
        // Below a factor of about three, round numbers at equal differences are better.
        if ticks.iter().filter(|(_, labelled)| *labelled).count() < 3 {
            return self.even_ticks();
        }
        ticks
    }

    fn even_ticks(&self) -> Vec<(f64, bool)> {
        let step = self.step();
        let (first, last) = ((self.low / step).ceil() as i64, (self.high / step).floor() as i64);
        (first..=last).map(|tick| (tick as f64 * step, true)).collect()
    }

    fn step(&self) -> f64 {
        round_step((self.high - self.low) / 6.0)
    }
}

fn round_step(rough: f64) -> f64 {
    let decade = 10f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * decade);
    steps.into_iter().find(|step| *step >= rough).unwrap_or(rough)
}

impl Plot {
    /// The plot as one SVG element.
    pub fn svg(&self) -> String {
        let all = |of: fn(&(f64, f64)) -> f64| {
            let points = |one: &Series| one.places().chain(one.theory.clone()).collect::<Vec<_>>();
            self.series.iter().flat_map(points).map(move |point| of(&point))
        };
        let (left, right) = (LEFT + INSET, self.right() - INSET);
        let x = Scale::new(all(|point| point.0), self.x.span, left, right);
        let y = Scale::new(all(|point| point.1), self.y.span, HEIGHT - BOTTOM, TOP);
        let mut svg = Picture::new(WIDTH, HEIGHT, 14, &self.title);
        svg.put(format_args!(
            "<text x=\"{LEFT}\" y=\"24\" font-size=\"17\" font-weight=\"600\" fill=\"#222\">{}\
             </text>",
            escape(&self.title)
        ));
        self.axes(&mut svg, &x, &y);
        self.draw(&mut svg, &x, &y);
        self.names(&mut svg, &x, &y);
        svg.finish()
    }

    /// The right end of the plot, where the names begin.
    fn right(&self) -> f64 {
        let longest = self.series.iter().map(|one| one.name.chars().count()).max().unwrap_or(0);
        WIDTH - RIGHT.max(36.0 + LETTER * longest as f64)
    }

    fn axes(&self, svg: &mut Picture, x: &Scale, y: &Scale) {
        let (bottom, right) = (HEIGHT - BOTTOM, self.right());
        for (value, labelled) in self.x.ticks(x) {
            let at = x.place(value);
            let color = if labelled { "#dcdcdc" } else { "#f2f2f2" };
            svg.put(format_args!(r#"<path d="M{at:.1} {TOP}V{bottom}" stroke="{color}"/>"#));
            if labelled {
                let text = format!(
                    r##"<text x="{at:.1}" y="{:.1}" text-anchor="middle" fill="#555">{}</text>"##,
                    bottom + 18.0,
                    number(value)
                );
                svg.put(text);
            }
        }
        for (value, labelled) in self.y.ticks(y) {
            let at = y.place(value);
            let color = if labelled { "#dcdcdc" } else { "#f2f2f2" };
            svg.put(format_args!(r#"<path d="M{LEFT} {at:.1}H{right}" stroke="{color}"/>"#));
            if labelled {
                let text = format!(
                    r##"<text x="{:.1}" y="{:.1}" text-anchor="end" fill="#555">{}</text>"##,
                    LEFT - 8.0,
                    at + 4.5,
                    number(value)
                );
                svg.put(text);
            }
        }
        svg.put(format_args!(
                r##"<path d="M{LEFT} {TOP}V{bottom}H{right}" fill="none" stroke="#888"/><text x="{:.1}" y="{:.1}" text-anchor="middle" fill="#222">{}</text><text transform="translate(13 {:.1}) rotate(-90)" text-anchor="middle" fill="#222">{}</text>"##,
                f64::midpoint(LEFT, right),
                HEIGHT - 14.0,
                self.x.label,
                f64::midpoint(TOP, bottom),
                self.y.label
            ),
        );
    }

    fn draw(&self, svg: &mut Picture, x: &Scale, y: &Scale) {
        let place = |point: &(f64, f64)| (x.place(point.0), y.place(point.1));
        let places = |points: &[(f64, f64)]| points.iter().map(place).collect::<Vec<_>>();
        let measured: Vec<_> =
            self.series.iter().map(|one| places(&one.places().collect::<Vec<_>>())).collect();
        let theory: Vec<_> = self.series.iter().map(|one| places(&one.theory)).collect();
        let (theory, joined) = (stripes(&theory), stripes(&measured));
        let points = side_by_side(&measured);
        for (number, one) in self.series.iter().enumerate() {
            svg.put(format_args!(r#"<g class="series" data-name="{}">"#, escape(&one.name)));
            one.lines(svg, &theory[number], r#"stroke-width="1.4" stroke-opacity="0.65""#);
            if one.joined {
                one.lines(svg, &joined[number], r#"stroke-width="1.8""#);
            }
            for (at, point) in points[number].iter().zip(&one.measured) {
                one.whisker(svg, at.0, point, y);
            }
            for point in &points[number] {
                svg.put(one.style.marker.draw(point.0, point.1, one.style.color));
            }
            svg.put(format_args!("</g>"));
        }
    }

    /// The names at the right, each as near to its line's end as the others let it.
    fn names(&self, svg: &mut Picture, x: &Scale, y: &Scale) {
        let mut ends: Vec<_> = self
            .series
            .iter()
            .filter_map(|one| Some((one, one.end()?)))
            .map(|(one, end)| (one, x.place(end.0), y.place(end.1)))
            .collect();
        ends.sort_by(|a, b| a.2.total_cmp(&b.2));
        let mut places: Vec<f64> = Vec::new();
        for (_, _, wanted) in &ends {
            let free = places.last().map_or(TOP, |last| last + NAME_HEIGHT);
            places.push(wanted.max(free));
        }
        // Names below the bottom push the others up.
        let mut limit = HEIGHT - BOTTOM + 6.0;
        for place in places.iter_mut().rev() {
            *place = place.min(limit);
            limit = *place - NAME_HEIGHT;
        }
        for ((one, from_x, from_y), place) in ends.iter().zip(places) {
            let (name, color) = (escape(&one.name), one.style.color);
            let right = self.right();
            svg.put(format_args!(
                    r#"<g class="series" data-name="{name}"><path d="M{from_x:.1} {from_y:.1}L{:.1} {place:.1}" stroke="{color}" stroke-opacity="0.4" stroke-dasharray="2 2" fill="none"/>"#,
                    right + 14.0
                ),
            );
            svg.put(one.style.marker.draw(right + 19.0, place, color));
            svg.put(format_args!(
                r#"<text x="{:.1}" y="{:.1}" fill="{color}">{name}</text></g>"#,
                right + 28.0,
                place + 4.5
            ));
        }
    }
}

impl Axis {
    fn ticks(&self, scale: &Scale) -> Vec<(f64, bool)> {
        match self.ticks.as_slice() {
            [] => scale.ticks(),
            given => given.iter().map(|&value| (value, true)).collect(),
        }
    }
}

impl Series {
    fn end(&self) -> Option<(f64, f64)> {
        self.places().last().or(self.theory.last().copied())
    }

    /// The measured points without their intervals.
    fn places(&self) -> impl Iterator<Item = (f64, f64)> {
        self.measured.iter().map(|point| (point.x, point.y))
    }

    /// The whiskers of the intervals.
    fn whisker(&self, svg: &mut Picture, x: f64, point: &Point, y: &Scale) {
        let Some(half_width) = point.half_width else { return };
        let low = y.place((point.y - half_width).max(y.low));
        let high = y.place((point.y + half_width).min(y.high));
        if low - high < 2.0 * WHISKER {
            return;
        }
        let (left, right, color) = (x - 3.0, x + 3.0, self.style.color);
        svg.put(format_args!(
                r#"<path class="whisker" d="M{left:.1} {high:.1}H{right:.1}M{x:.1} {high:.1}V{low:.1}M{left:.1} {low:.1}H{right:.1}" stroke="{color}" stroke-width="1.3" fill="none"/>"#
            ),
        );
    }

    fn lines(&self, svg: &mut Picture, parts: &[Striped], pen: &str) {
        for part in parts {
            let (path, color, dashes) = (path(&part.corners), self.style.color, part.dashes());
            svg.put(format_args!(
                r#"<path d="M{path}" fill="none" stroke="{color}" {pen}{dashes}/>"#
            ));
        }
    }
}

fn path(corners: &[Endpoint]) -> String {
    let places = corners.iter().map(|(x, y)| format!("{x:.1} {y:.1}"));
    places.collect::<Vec<_>>().join("L")
}

impl Marker {
    fn draw(self, x: f64, y: f64, color: &str) -> String {
        let shape = match self {
            Self::Circle => {
                return format!(
                    r##"<circle cx="{x:.1}" cy="{y:.1}" r="4" fill="{color}" stroke="#fff"/>"##
                );
            }
            Self::Square => [(-3.6, -3.6), (3.6, -3.6), (3.6, 3.6), (-3.6, 3.6)].to_vec(),
            Self::Triangle => [(0.0, -4.8), (4.6, 3.4), (-4.6, 3.4)].to_vec(),
            Self::Diamond => [(0.0, -5.2), (4.6, 0.0), (0.0, 5.2), (-4.6, 0.0)].to_vec(),
        };
        let corners: Vec<_> =
            shape.iter().map(|(dx, dy)| format!("{:.1} {:.1}", x + dx, y + dy)).collect();
        format!(r##"<path d="M{}Z" fill="{color}" stroke="#fff"/>"##, corners.join("L"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_scales_put_decades_at_equal_distances() {
        let scale = Scale::new([1.0, 10.0, 100.0].into_iter(), Span::Log, 0.0, 100.0);
        let places = [1.0, 10.0, 100.0].map(|value| scale.place(value));
        assert!((places[1] - places[0] - (places[2] - places[1])).abs() < 1e-9);
        assert!(scale.ticks().iter().filter(|(_, labelled)| *labelled).count() >= 3);
    }

    #[test]
    fn names_do_not_cover_each_other() {
        let style = Style { color: "#000", marker: Marker::Circle };
        let series = (0..20).map(|number| Series {
            name: format!("s{number}"),
            style,
            theory: Vec::new(),
            measured: vec![point(1.0, 5.0, None), point(2.0, 5.0, None)],
            joined: true,
        });
        let axis = |label| Axis { label, span: Span::FromZero, ticks: Vec::new() };
        let plot = Plot {
            title: "a < b".to_owned(),
            x: axis("x"),
            y: axis("y"),
            series: series.collect(),
        };
        let svg = plot.svg();
        assert!(svg.contains("a &lt; b"));
        let label = |line: &&str| line.contains("</text></g>");
        let mut places: Vec<f64> = svg
            .lines()
            .filter(label)
            .map(|line| line.split("y=\"").nth(1).unwrap().split('"').next().unwrap())
            .map(|place| place.parse().unwrap())
            .collect();
        places.sort_by(f64::total_cmp);
        assert_eq!(places.len(), 20);
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= NAME_HEIGHT - 0.2));
    }

    fn point(x: f64, y: f64, half_width: Option<f64>) -> Point {
        Point { x, y, half_width }
    }

    #[test]
    fn a_narrow_logarithmic_axis_has_ticks_enough() {
        for (low, high) in [(3.5, 4.6), (1.0, 1.3), (19.0, 31.0), (0.9, 2.0)] {
            let scale = Scale::new([low, high].into_iter(), Span::Log, 0.0, 100.0);
            let labelled = scale.ticks().iter().filter(|(_, labelled)| *labelled).count();
            assert!((3..=9).contains(&labelled), "{low} to {high}: {labelled}");
        }
    }

    #[test]
    fn an_interval_is_a_whisker_where_it_can_be_seen() {
        let style = Style { color: "#000", marker: Marker::Circle };
        let measured = vec![point(1.0, 5.0, Some(2.0)), point(2.0, 5.0, Some(0.001))];
        let (name, theory) = ("s".to_owned(), Vec::new());
        let axis = |label| Axis { label, span: Span::FromZero, ticks: Vec::new() };
        let series = vec![Series { name, style, theory, measured, joined: true }];
        let plot = Plot { title: String::new(), x: axis("x"), y: axis("y"), series };
        assert_eq!(plot.svg().matches("whisker").count(), 1);
    }
}
