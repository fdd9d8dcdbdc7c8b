//! The picture itself.

use std::fmt::Write;

use super::{
    layout::{Layout, Point, text_width, title_width},
    legend,
    scene::{Arrow, End, Mark, MarkKind, Scene, Span, SpanKind, Style},
    ways::Way,
    words::{Placed, Words},
};
use crate::{Header, Unit};

const STYLE: &str = include_str!("style.css");

/// Draws everything; `left_out` events are not in the scene.
pub(super) fn paint(header: &Header, scene: &Scene, layout: &Layout, left_out: usize) -> String {
    let words = Words::new(scene, layout);
    let legend = legend::lines(scene, &words, layout.width);
    let mut painter = Painter { layout, out: String::new() };
    painter.open(header, layout.legend + LINE * legend.len() as f64);
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
    for (span, fence) in scene.spans.iter().zip(&words.fences) {
        painter.fence(&span.label, *fence);
    }
    painter.arrows(header, scene, &words);
    for (mark, label) in scene.marks.iter().zip(&words.marks) {
        painter.mark(mark, *label);
    }
    painter.legend(&legend);
    painter.out.push_str("</svg>\n");
    painter.out
}

/// How high a line of the legend is.
const LINE: f64 = 20.0;

/// The size of a title that fits.
const TITLE_SIZE: f64 = 18.0;

struct Painter<'a> {
    layout: &'a Layout,
    out: String,
}

impl Painter<'_> {
    fn put(&mut self, element: std::fmt::Arguments<'_>) {
        self.out.write_fmt(element).expect("writing to a string never fails");
        self.out.push('\n');
    }

    fn open(&mut self, header: &Header, height: f64) {
        let width = self.layout.width;
        self.put(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\">"
        ));
        self.put(format_args!("<title>{}</title>", escape(header.heading())));
        self.put(format_args!("<style>{STYLE}</style>"));
        self.put(format_args!("<rect class=\"ground\" width=\"100%\" height=\"100%\"/>"));
    }

    fn title(&mut self, header: &Header, left_out: usize) {
        let (title, size) = (header.heading(), self.title_size(header));
        self.put(format_args!(
            "<text class=\"title\" x=\"20\" y=\"28\"{size}>{}</text>",
            escape(title)
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
    fn title_size(&self, header: &Header) -> String {
        let size = (self.layout.width - 40.0) / title_width(header, 1.0).max(1.0);
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
        let (from, to) = self.layout.reach(span);
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

    fn fence(&mut self, label: &str, at: Option<Point>) {
        let Some(Point { x, y }) = at else { return };
        let label = escape(label);
        self.put(format_args!("<text class=\"fence\" x=\"{x:.1}\" y=\"{y:.1}\">{label}</text>"));
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

    fn arrows(&mut self, header: &Header, scene: &Scene, words: &Words) {
        let drawn = || scene.arrows.iter().zip(&words.labels);
        for ((arrow, label), way) in drawn().zip(&words.ways) {
            let whole = arrow.labels.first().map_or("", String::as_str);
            let shown = label.as_ref().map_or("", |label| label.text.as_str());
            let title = if shown == whole { String::new() } else { of_arrow(header, arrow, whole) };
            self.arrow(arrow, way, &title);
        }
        for (arrow, label) in drawn() {
            let Some(Placed { at: Point { x, y }, degrees, text }) = label else { continue };
            self.put(format_args!(
                "<text class=\"label {}\" transform=\"translate({x:.1} {y:.1}) \
                 rotate({degrees:.1})\">{}</text>",
                class(arrow),
                escape(text)
            ));
        }
    }

    fn arrow(&mut self, arrow: &Arrow, way: &Way, title: &str) {
        let class = class(arrow);
        let Way { from, over, to } = *way;
        let end = if title.is_empty() {
            "/>".to_owned()
        } else {
            format!("><title>{}</title></path>", escape(title))
        };
        self.put(format_args!(
            "<path class=\"message {class}\" d=\"M{:.1} {:.1}Q{:.1} {:.1} {:.1} {:.1}\"{end}",
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

    fn mark(&mut self, mark: &Mark, label: Point) {
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
            let Point { x, y } = label;
            self.put(format_args!(
                "<text class=\"mark\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>",
                escape(&mark.label)
            ));
        }
    }

    fn legend(&mut self, lines: &[Vec<legend::Entry>]) {
        let mut y = self.layout.legend;
        for line in lines {
            let mut x = 20.0;
            for &entry @ (sign, words) in line {
                self.put(format_args!(
                    "<g transform=\"translate({x:.1} {y:.1})\">{sign}<text class=\"small\" \
                     x=\"24\">{words}</text></g>"
                ));
                x += legend::entry_width(entry);
            }
            y += LINE;
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

/// A message, for who points at it.
fn of_arrow(header: &Header, arrow: &Arrow, text: &str) -> String {
    format!("{text} from {} to {}", header.name(arrow.from), header.name(arrow.to))
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
