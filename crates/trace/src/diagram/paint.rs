//! The picture itself.

use std::fmt::Write;

use super::{
    labels::Labels,
    layout::{CHARACTER, Layout, Point, Way, text_width},
    legend,
    scene::{Arrow, End, Mark, MarkKind, Scene, Span, SpanKind, Style},
};
use crate::{Header, Unit};

/// How far an arrow that passes other lines bows.
const BOW: f64 = 16.0;

const STYLE: &str = include_str!("style.css");

/// Draws everything; `left_out` events are not in the scene.
pub(super) fn paint(header: &Header, scene: &Scene, layout: &Layout, left_out: usize) -> String {
    let mut painter = Painter { layout, out: String::new() };
    painter.open(header);
    painter.title(header, left_out);
    painter.axis(header.unit);
    painter.violations(scene);
    for &who in &scene.rows {
        painter.line(&header.name(who), layout.y(who));
    }
    for span in &scene.spans {
        painter.span(span);
    }
    painter.clashes(scene);
    for span in &scene.spans {
        painter.fence(span, &scene.marks);
    }
    painter.arrows(scene);
    for mark in &scene.marks {
        painter.mark(mark);
    }
    painter.legend(scene);
    painter.out.push_str("</svg>\n");
    painter.out
}

/// The size of a title that fits, and how wide a character of it is on average, in units of it.
const TITLE_SIZE: f64 = 18.0;
const TITLE_WIDTH: f64 = 0.65;

struct Painter<'a> {
    layout: &'a Layout,
    out: String,
}

impl Painter<'_> {
    fn put(&mut self, element: std::fmt::Arguments<'_>) {
        self.out.write_fmt(element).expect("writing to a string never fails");
        self.out.push('\n');
    }

    fn open(&mut self, header: &Header) {
        let Layout { width, height, .. } = *self.layout;
        self.put(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\">"
        ));
        self.put(format_args!("<title>{}</title>", escape(&title(header))));
        self.put(format_args!("<style>{STYLE}</style>"));
        self.put(format_args!("<rect class=\"ground\" width=\"100%\" height=\"100%\"/>"));
    }

    fn title(&mut self, header: &Header, left_out: usize) {
        let title = title(header);
        let size = self.title_size(&title);
        self.put(format_args!(
            "<text class=\"title\" x=\"20\" y=\"28\"{size}>{}</text>",
            escape(&title)
        ));
        let mut subtitle = header.settings.to_string();
        if left_out > 0 {
            let comma = if subtitle.is_empty() { "" } else { "; " };
            subtitle += &format!("{comma}the last {left_out} events are left out");
        }
        self.put(format_args!(
            "<text class=\"small\" x=\"20\" y=\"46\">{}</text>",
            escape(&subtitle)
        ));
    }

    /// A long title, such as a whole command, is written smaller, so that it ends in the picture.
    fn title_size(&self, title: &str) -> String {
        let room = self.layout.width - 40.0;
        let size = room / (title.chars().count() as f64 * TITLE_WIDTH);
        if size >= TITLE_SIZE {
            return String::new();
        }
        format!(" style=\"font-size:{:.1}px\"", size.max(6.0))
    }

    fn axis(&mut self, unit: Unit) {
        let (top, bottom) = (self.layout.top - 34.0, self.layout.bottom + 18.0);
        let last = self.layout.columns().last().map_or(0, |(at, _)| at);
        let scale = Scale::of(unit, last);
        let mut free = 0.0;
        for (at, x) in self.layout.columns() {
            self.put(format_args!(
                "<path class=\"tick\" d=\"M{x:.1} {:.1}V{bottom:.1}\"/>",
                top + 6.0
            ));
            let text = scale.text(at);
            let half = text_width(&text) / 2.0;
            if x - half > free {
                self.put(format_args!(
                    "<text class=\"time\" x=\"{x:.1}\" y=\"{top:.1}\">{text}</text>"
                ));
                free = x + half + 6.0;
            }
        }
        self.put(format_args!(
            "<text class=\"small\" x=\"20\" y=\"{top:.1}\">{}</text>",
            scale.word
        ));
    }

    fn violations(&mut self, scene: &Scene) {
        let mut below = self.layout.bottom + 32.0;
        for violation in &scene.violations {
            let x = self.layout.x(violation.at);
            let (top, bottom) = (self.layout.top - 26.0, below - 12.0);
            self.put(format_args!(
                "<line class=\"violation\" x1=\"{x:.1}\" y1=\"{top:.1}\" x2=\"{x:.1}\" \
                 y2=\"{bottom:.1}\"/>"
            ));
            let text = violation.text();
            let half = text_width(&text) / 2.0 + 20.0;
            self.put(format_args!(
                "<text class=\"violated\" x=\"{:.1}\" y=\"{below:.1}\">{}</text>",
                x.clamp(half, (self.layout.width - half).max(half)),
                escape(&text)
            ));
            below += 15.0;
        }
    }

    fn line(&mut self, name: &str, y: f64) {
        let Layout { left, right, .. } = *self.layout;
        self.put(format_args!(
            "<text class=\"name\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            left - 8.0,
            y + 4.5,
            escape(name)
        ));
        self.put(format_args!("<path class=\"process\" d=\"M{left:.1} {y:.1}H{right:.1}\"/>"));
    }

    fn span(&mut self, span: &Span) {
        let y = self.layout.y(span.who);
        let (from, to) = self.reach(span);
        let (class, half) = match span.kind {
            SpanKind::Waiting => ("waiting", 3.0),
            SpanKind::Inside | SpanKind::Privileged => ("inside", 7.0),
            SpanKind::Down => ("down", 1.5),
        };
        let (width, height) = ((to - from).max(3.0), 2.0 * half);
        self.put(format_args!(
            "<rect class=\"{class}\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{width:.1}\" \
             height=\"{height:.1}\"/>",
            y - half
        ));
        if span.kind == SpanKind::Down {
            self.put(format_args!("<path class=\"gone\" d=\"M{from:.1} {y:.1}H{to:.1}\"/>"));
        }
    }

    fn reach(&self, span: &Span) -> (f64, f64) {
        // Who is inside or down from the beginning was so before; who waits has asked.
        let from_before = span.from == 0 && span.kind != SpanKind::Waiting;
        let from = if from_before { self.layout.left } else { self.layout.x(span.from) };
        (from, span.to.map_or(self.layout.right, |to| self.layout.x(to)))
    }

    fn fence(&mut self, span: &Span, marks: &[Mark]) {
        let y = self.layout.y(span.who);
        let (from, to) = self.reach(span);
        if let Some(x) = self.room(span, from, to, marks) {
            self.put(format_args!(
                "<text class=\"fence\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
                y + 3.8,
                escape(&span.label)
            ));
        }
    }

    /// Where two are inside at once, their bars are red.
    fn clashes(&mut self, scene: &Scene) {
        for (who, from, to) in scene.clashes() {
            let (from, y) = (self.layout.x(from), self.layout.y(who));
            let to = to.map_or(self.layout.right, |to| self.layout.x(to));
            self.put(format_args!(
                "<rect class=\"clash\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"14\"/>",
                y - 7.0,
                (to - from).max(3.0)
            ));
        }
    }

    /// The middle of the widest piece of a bar with nothing on it, if its label fits there.
    fn room(&self, span: &Span, from: f64, to: f64, marks: &[Mark]) -> Option<f64> {
        let own = marks.iter().filter(|mark| mark.who == span.who);
        let mut stops: Vec<_> = own.map(|mark| self.layout.x(mark.at)).collect();
        stops.extend([from, to]);
        stops.retain(|x| (from..=to).contains(x));
        stops.sort_by(f64::total_cmp);
        let pieces = stops.windows(2).map(|ends| (ends[1] - ends[0], (ends[0] + ends[1]) / 2.0));
        let (width, middle) = pieces.max_by(|a, b| a.0.total_cmp(&b.0))?;
        let need = CHARACTER * span.label.chars().count() as f64 + 4.0;
        (!span.label.is_empty() && need < width).then_some(middle)
    }

    fn arrows(&mut self, scene: &Scene) {
        let mut ways: Vec<Way> = Vec::new();
        for arrow in &scene.arrows {
            ways.push(self.way(arrow, scene, &ways));
        }
        let mut labels = Labels::new(ways.clone(), self.layout.crowded);
        for mark in &scene.marks {
            labels.take(self.mark_label_at(mark), &mark.label);
            labels.take_point(self.layout.point(mark.who, mark.at));
        }
        for (arrow, way) in scene.arrows.iter().zip(&ways) {
            self.arrow(arrow, way);
        }
        for (number, arrow) in scene.arrows.iter().enumerate() {
            let Some(label) = labels.place(number, &arrow.labels) else { continue };
            let Point { x, y } = label.at;
            self.put(format_args!(
                "<text class=\"label {}\" transform=\"translate({x:.1} {y:.1}) \
                 rotate({:.1})\">{}</text>",
                class(arrow),
                label.degrees,
                escape(&label.text)
            ));
        }
    }

    /// Where an arrow goes. One that is lost ends before its receiver, one that is under way goes
    /// on beyond the last event.
    fn way(&self, arrow: &Arrow, scene: &Scene, earlier: &[Way]) -> Way {
        let from = self.layout.point(arrow.from, arrow.sent);
        let towards = self.layout.y(arrow.to);
        let part = |x: f64, part: f64| Point { x, y: from.y + (towards - from.y) * part };
        let to = match arrow.end {
            End::Received(at) => self.layout.point(arrow.to, at),
            End::Lost(at) => part(self.layout.x(at), 0.8),
            End::InFlight => part(self.layout.right, 0.75),
        };
        if self.layout.lines_between(arrow.from, arrow.to) == 0 {
            return Way::new(from, to, 0.0);
        }
        // Of the two bows, the one that keeps farther from what happens on the lines it passes.
        let clear = |way: &Way| {
            let passed = scene.marks.iter().map(|mark| self.layout.point(mark.who, mark.at));
            let (low, high) = (from.y.min(to.y), from.y.max(to.y));
            let between = passed.filter(|mark| low < mark.y && mark.y < high);
            between.map(|mark| way.distance(mark)).fold(BOW, f64::min)
        };
        // In a crowd also the one that keeps farther from other arrows, which may need more bow.
        let apart = |way: &Way| {
            let points = [0.25, 0.5, 0.75].map(|part| way.at(part).0);
            let nearest = |other: &Way| points.map(|point| other.distance(point)).into_iter();
            earlier.iter().flat_map(nearest).fold(BOW, f64::min)
        };
        let bows: &[f64] =
            if self.layout.crowded { &[BOW, -BOW, 3.0 * BOW, -3.0 * BOW] } else { &[BOW, -BOW] };
        let room =
            |way: &Way| 3.0 * clear(way) + if self.layout.crowded { apart(way) } else { 0.0 };
        let ways = bows.iter().map(|&bow| Way::new(from, to, bow)).map(|way| (room(&way), way));
        let first = (f64::NEG_INFINITY, Way::new(from, to, BOW));
        ways.fold(first, |best, way| if way.0 > best.0 { way } else { best }).1
    }

    fn arrow(&mut self, arrow: &Arrow, way: &Way) {
        let class = class(arrow);
        let Way { from, over, to } = *way;
        self.put(format_args!(
            "<path class=\"message {class}\" d=\"M{:.1} {:.1}Q{:.1} {:.1} {:.1} {:.1}\"/>",
            from.x, from.y, over.x, over.y, to.x, to.y
        ));
        match arrow.end {
            End::Received(_) => self.head(class, to, way.at(1.0).1),
            End::Lost(_) => self.cross(to, 5.0),
            End::InFlight => {}
        }
    }

    fn head(&mut self, class: &str, to: Point, angle: f64) {
        let wing = |turn: f64| {
            let (sin, cos) = (angle + turn).sin_cos();
            format!("{:.1},{:.1}", to.x - 9.0 * cos, to.y - 9.0 * sin)
        };
        self.put(format_args!(
            "<polygon class=\"head {class}\" points=\"{:.1},{:.1} {} {}\"/>",
            to.x,
            to.y,
            wing(0.36),
            wing(-0.36)
        ));
    }

    fn cross(&mut self, Point { x, y }: Point, arm: f64) {
        self.put(format_args!(
            "<path class=\"cross\" d=\"M{:.1} {:.1}l{d:.1} {d:.1}m0 -{d:.1}l-{d:.1} {d:.1}\"/>",
            x - arm,
            y - arm,
            d = 2.0 * arm
        ));
    }

    fn mark_label_at(&self, mark: &Mark) -> Point {
        let Point { x, y } = self.layout.point(mark.who, mark.at);
        // What a request sends goes off to the right, so its clock stands on the left.
        let left = match mark.kind {
            MarkKind::Request => 6.0 + CHARACTER * mark.label.chars().count() as f64,
            MarkKind::Plain | MarkKind::Crash => -4.0,
        };
        Point { x: x - left, y: y - 9.0 }
    }

    fn mark(&mut self, mark: &Mark) {
        let at = self.layout.point(mark.who, mark.at);
        let (class, radius) = match mark.kind {
            MarkKind::Request => ("request", 5.0),
            MarkKind::Plain | MarkKind::Crash => ("event", 3.0),
        };
        if mark.kind == MarkKind::Crash {
            self.cross(at, 7.0);
        }
        self.put(format_args!(
            "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius}\"><title>{}</title>\
             </circle>",
            at.x,
            at.y,
            escape(&mark.title)
        ));
        if !mark.label.is_empty() {
            let Point { x, y } = self.mark_label_at(mark);
            self.put(format_args!(
                "<text class=\"mark\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>",
                escape(&mark.label)
            ));
        }
    }

    fn legend(&mut self, scene: &Scene) {
        let mut y = self.layout.legend;
        for line in legend::lines(scene, self.layout.width) {
            let mut x = 20.0;
            for entry @ (sign, words) in line {
                self.put(format_args!(
                    "<g transform=\"translate({x:.1} {y:.1})\">{sign}<text class=\"small\" \
                     x=\"24\">{words}</text></g>"
                ));
                x += legend::entry_width(entry);
            }
            y += 20.0;
        }
    }
}

/// How times are written: in the largest unit that still tells them apart.
struct Scale {
    divisor: u64,
    word: &'static str,
}

impl Scale {
    fn of(unit: Unit, last: u64) -> Self {
        let larger: &[(u64, &'static str)] = match unit {
            Unit::Step => &[],
            Unit::Nanoseconds => &[(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")],
            Unit::Microseconds => &[(1_000_000, "s"), (1_000, "ms")],
            Unit::Milliseconds => &[(1_000, "s")],
        };
        let fits = larger.iter().find(|(divisor, _)| last / divisor >= 10);
        let &(divisor, word) = fits.unwrap_or(&(1, unit.word()));
        Self { divisor, word }
    }

    fn text(&self, at: u64) -> String {
        if self.divisor == 1 {
            return at.to_string();
        }
        let text = format!("{:.2}", at as f64 / self.divisor as f64);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

fn title(header: &Header) -> String {
    if header.title.is_empty() { header.algorithm.clone() } else { header.title.clone() }
}

fn class(arrow: &Arrow) -> &'static str {
    match (arrow.end, arrow.style) {
        (End::Lost(_), _) => "lost",
        (End::InFlight, _) => "flying",
        (End::Received(_), Style::Plain) => "plain",
        (End::Received(_), Style::Lazy) => "lazy",
        (End::Received(_), Style::Tell) => "tell",
    }
}

fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            // XML knows no other control characters.
            c if c.is_control() && c != '\n' && c != '\t' => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}
