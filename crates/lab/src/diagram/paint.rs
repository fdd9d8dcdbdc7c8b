//! Writes the elements of a diagram as SVG.

use super::{
    Drawing,
    axis::Scale,
    inset::Inset,
    layout::{Layout, Point, Sheet, text_width, title_width},
    legend,
    remarks::Remarks,
    scene::{Arrow, End, Mark, MarkKind, Scene, Span, SpanKind, Style},
    style::{APP, EDGE, FONTS, Ink, RED, ink, look},
    ways::Way,
    words::{Placed, Words},
};
use crate::{
    Header, Unit,
    svg::{escape, put},
};

/// Draws everything, each row with its words; `left_out` events are not in the scene.
pub(super) fn paint(
    header: &Header,
    scene: &Scene,
    sheet: &Sheet,
    words: &[Words],
    drawing: &Drawing,
    left_out: usize,
) -> String {
    let rows = || sheet.rows.iter();
    let legend = legend::lines(header, scene, words, sheet);
    let mut out = String::new();
    let below = sheet.legend + LINE * legend.len() as f64;
    let inset = drawing.structure.as_ref().map(|structure| Inset::new(header, structure));
    let (side, tall) = inset.as_ref().map_or((0.0, 0.0), Inset::size);
    // Beside the structure, if there is room.
    let beside = inset.is_some() && sheet.width - side - 30.0 > WIDE_ENOUGH;
    let x = if beside { side + 30.0 } else { 20.0 };
    let remarks = Remarks::new(drawing, scene, sheet.width - x - 20.0);
    let height = match beside {
        true => below + tall.max(remarks.height()),
        false => below + tall + remarks.height(),
    };
    open(&mut out, header, sheet, drawing.scale, height);
    title(&mut out, header, sheet, drawing, left_out);
    for ((scene, layout), words) in rows().zip(words) {
        Painter { layout, scale: &sheet.scale, out: &mut out }.row(header, scene, words);
    }
    write_legend(&mut out, sheet.legend, &legend);
    if let Some(inset) = inset {
        inset.paint(&mut out, header, below);
    }
    remarks.paint(&mut out, x, if beside { below } else { below + tall });
    out.push_str("</svg>\n");
    out
}

/// The least width for remarks beside a structure.
const WIDE_ENOUGH: f64 = 500.0;

/// The height of a line of the legend.
const LINE: f64 = 20.0;

/// The size of a title that fits.
const TITLE_SIZE: f64 = 16.0;

fn open(out: &mut String, header: &Header, sheet: &Sheet, scale: f64, height: f64) {
    let width = sheet.width;
    put(
        out,
        format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0}\" height=\"{:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" font-family=\"{FONTS}\" \
             font-size=\"11\">",
            width * scale,
            height * scale
        ),
    );
    put(out, format_args!("<title>{}</title>", escape(header.heading())));
    let ground = look("ground");
    put(out, format_args!("<rect {ground} width=\"{width:.0}\" height=\"{height:.0}\"/>"));
}

fn title(out: &mut String, header: &Header, sheet: &Sheet, drawing: &Drawing, left_out: usize) {
    let title = escape(header.heading());
    // A long title, such as a whole command, is written smaller, so that it fits the picture.
    let size = (sheet.width - 40.0) / title_width(header, 1.0).max(1.0);
    let size = size.clamp(6.0, TITLE_SIZE);
    let look_of = look("title");
    put(
        out,
        format_args!("<text {look_of} x=\"20\" y=\"28\" font-size=\"{size:.1}\">{title}</text>"),
    );
    let mut subtitle = header.settings.to_string();
    if left_out > 0 {
        let comma = if subtitle.is_empty() { "" } else { "; " };
        subtitle += &format!("{comma}the last {left_out} events are left out");
    }
    let lines = std::iter::once(subtitle).chain(drawing.caption_lines());
    for (line, text) in lines.enumerate() {
        let (y, text) = (46.0 + 15.0 * line as f64, escape(&text));
        put(out, format_args!("<text {} x=\"20\" y=\"{y:.0}\">{text}</text>", look("small")));
    }
}

fn write_legend(out: &mut String, top: f64, lines: &[Vec<legend::Entry>]) {
    let mut y = top;
    let small = look("small");
    for line in lines {
        let mut x = 20.0;
        for entry in line {
            let legend::Entry { sign, words, wide } = entry;
            put(
                out,
                format_args!(
                    "<g transform=\"translate({x:.1} {y:.1})\">{sign}<text {small} \
                     x=\"{}\">{words}</text></g>",
                    wide + 6.0
                ),
            );
            x += legend::entry_width(entry);
        }
        y += LINE;
    }
}

/// The least width of a critical section: it is seen before the cross of a crash.
const INSTANT: f64 = 34.0;

/// The look of one of many messages: each can be followed, and together they do not hide others.
pub(super) const THIN: &str = "stroke-width=\"0.8\" stroke-opacity=\"0.45\"";

/// Paints one row.
struct Painter<'a> {
    layout: &'a Layout,
    scale: &'a Scale,
    out: &'a mut String,
}

impl Painter<'_> {
    fn row(&mut self, header: &Header, scene: &Scene, words: &Words) {
        self.axis(header.unit);
        self.violations(scene);
        for &who in &scene.rows {
            self.line(&header.name(who), self.layout.y(who));
        }
        // A bar at the instant of a crash lies on the line of the crashed process.
        let (down, up): (Vec<_>, Vec<_>) =
            scene.spans.iter().partition(|span| span.kind == SpanKind::Down);
        for span in down.into_iter().chain(up) {
            self.span(span, scene.ends_in_crash(span));
        }
        self.clashes(scene);
        self.deadlock(scene);
        for (span, fence) in scene.spans.iter().zip(&words.fences) {
            self.fence(&span.label, *fence);
        }
        self.arrows(header, scene, words);
        for (at, bundle) in &words.bundles {
            self.bundle(*at, &bundle.label(scene), ink(bundle.kind));
        }
        for (mark, label) in scene.marks.iter().zip(&words.marks) {
            self.mark(mark, *label);
        }
    }

    fn put(&mut self, element: std::fmt::Arguments<'_>) {
        put(self.out, element);
    }

    /// A text with a white edge behind it.
    fn edged(&mut self, place: &str, look: &str, text: &str) {
        let text = escape(text);
        let size = if look.contains("\"deadlock\"") { "font-size=\"13\"" } else { "" };
        let bold = if look.contains("bold") { "font-weight=\"bold\"" } else { "" };
        let middle = if look.contains("middle") { "text-anchor=\"middle\"" } else { "" };
        self.put(format_args!(
            "<text aria-hidden=\"true\" {EDGE} {size} {bold} {middle} {place}>{text}</text>"
        ));
        self.put(format_args!("<text {look} {place}>{text}</text>"));
    }

    fn axis(&mut self, unit: Unit) {
        let (top, bottom) = (self.layout.top - self.layout.head, self.layout.bottom + 18.0);
        let mut free = 0.0;
        let (tick, time) = (look("tick"), look("time"));
        for (at, x) in self.layout.columns() {
            self.put(format_args!("<path {tick} d=\"M{x:.1} {:.1}V{bottom:.1}\"/>", top + 6.0));
            let text = self.scale.text(at);
            let half = text_width(&text) / 2.0;
            if x - half > free {
                self.put(format_args!("<text {time} x=\"{x:.1}\" y=\"{top:.1}\">{text}</text>"));
                free = x + half + 6.0;
            }
        }
        if unit != Unit::Step {
            self.breaks(top + 6.0);
        }
        let small = look("small");
        let word = self.scale.word;
        self.put(format_args!("<text {small} x=\"20\" y=\"{top:.1}\">{word}</text>"));
    }

    /// The line of the axis, with a sign where a wait is drawn shorter than in proportion.
    fn breaks(&mut self, y: f64) {
        let columns: Vec<_> = self.layout.columns().collect();
        let Some(&(_, first)) = columns.first() else { return };
        let mut d = format!("M{first:.1} {y:.1}");
        for pair in columns.windows(2) {
            let ((before, from), (_, to)) = (pair[0], pair[1]);
            if self.layout.shortened.contains(&before) {
                let x = f64::midpoint(from, to);
                d += &format!("H{:.1}m-2 4l4 -8m2 8l4 -8m-2 4", x - 4.0);
            }
            d += &format!("H{to:.1}");
        }
        self.put(format_args!("<path {} d=\"{d}\"/>", look("axis")));
    }

    fn violations(&mut self, scene: &Scene) {
        let mut below = self.layout.bottom + 32.0;
        for violation in &scene.violations {
            let x = self.layout.x(violation.at);
            let (top, bottom) = (self.layout.top - self.layout.head + 8.0, below - 12.0);
            let line = look("violation");
            self.put(format_args!(
                "<line {line} data-at=\"{}\" x1=\"{x:.1}\" y1=\"{top:.1}\" x2=\"{x:.1}\" \
                 y2=\"{bottom:.1}\"/>",
                violation.at
            ));
            let text = violation.text();
            let half = text_width(&text) / 2.0 + 20.0;
            let right = self.layout.right.max(560.0) - half;
            let x = x.clamp(half, right.max(half));
            let place = format!("x=\"{x:.1}\" y=\"{below:.1}\" data-at=\"{}\"", violation.at);
            self.edged(&place, &look("violated"), &text);
            below += 15.0;
        }
    }

    fn deadlock(&mut self, scene: &Scene) {
        let Some(deadlock) = &scene.deadlock else { return };
        let y = self.layout.bottom + 34.0 + 15.0 * scene.violations.len() as f64;
        let at = scene.times.last().copied().unwrap_or(0);
        let place = format!("x=\"20\" y=\"{y:.1}\" data-at=\"{at}\"");
        self.edged(&place, &look("deadlock"), &deadlock.sentence);
    }

    fn line(&mut self, name: &str, y: f64) {
        let Layout { left, right, .. } = *self.layout;
        let (name, look_of) = (escape(name), look("name"));
        let (x, below) = (left - 8.0, y + 4.5);
        self.put(format_args!("<text {look_of} x=\"{x:.1}\" y=\"{below:.1}\">{name}</text>"));
        let process = look("process");
        self.put(format_args!("<path {process} d=\"M{left:.1} {y:.1}H{right:.1}\"/>"));
    }

    /// A period; whether the crash of its process ends it.
    fn span(&mut self, span: &Span, crashes: bool) {
        let y = self.layout.y(span.who);
        let (from, to) = self.layout.reach(span);
        let (class, top, height) = match span.kind {
            SpanKind::Waiting => ("waiting", -3.0, 6.0),
            SpanKind::Stuck => ("stuck", -3.0, 6.0),
            SpanKind::InCs | SpanKind::Privileged => ("in-cs", -7.0, 14.0),
            SpanKind::Down => ("down", -1.5, 3.0),
            SpanKind::Token => ("token", 8.5, 3.0),
        };
        let least = match span.kind {
            SpanKind::InCs | SpanKind::Privileged => INSTANT,
            SpanKind::Token => INSTANT / 3.0,
            SpanKind::Waiting | SpanKind::Stuck | SpanKind::Down => 3.0,
        };
        // What begins and ends at one instant is seen on both sides of it; but nothing is seen of a
        // process after its crash.
        let (from, width) = match to - from {
            width if width < 1.0 && crashes => (to - least, least),
            width if width < 1.0 => (f64::midpoint(from, to) - least / 2.0, least),
            width => (from, width),
        };
        self.put(format_args!(
            "<rect {} x=\"{from:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{height}\"/>",
            look(class),
            y + top
        ));
        if span.kind == SpanKind::Down {
            self.put(format_args!("<path {} d=\"M{from:.1} {y:.1}H{to:.1}\"/>", look("gone")));
        }
    }

    fn fence(&mut self, label: &str, at: Option<Point>) {
        let Some(Point { x, y }) = at else { return };
        let (label, fence) = (escape(label), look("fence"));
        self.put(format_args!("<text {fence} x=\"{x:.1}\" y=\"{y:.1}\">{label}</text>"));
    }

    /// Where two processes are in the critical section at once, their bars are red.
    fn clashes(&mut self, scene: &Scene) {
        for (who, from, to) in scene.clashes() {
            let (from, y) = (self.layout.x(from), self.layout.y(who) - 7.0);
            let to = to.map_or(self.layout.right, |to| self.layout.x(to));
            self.put(format_args!(
                "<rect {} x=\"{from:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"14\"/>",
                look("clash"),
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
            let place = format!("transform=\"translate({x:.1} {y:.1}) rotate({degrees:.1})\"");
            let colour = if matches!(arrow.end, End::Lost(_)) { RED } else { ink_of(arrow).text };
            let look = format!(
                "class=\"label {}\" fill=\"{colour}\" text-anchor=\"middle\"",
                class(arrow)
            );
            self.edged(&place, &look, text);
        }
    }

    /// The label of so many messages of one kind.
    fn bundle(&mut self, Point { x, y }: Point, label: &str, ink: &Ink) {
        let look = format!("class=\"bundle\" fill=\"{}\" font-weight=\"bold\"", ink.text);
        self.edged(&format!("x=\"{x:.1}\" y=\"{y:.1}\""), &look, label);
    }

    fn arrow(&mut self, arrow: &Arrow, way: &Way, title: &str) {
        let class = class(arrow);
        let Way { from, over, to } = *way;
        let end = if title.is_empty() {
            "/>".to_owned()
        } else {
            format!("><title>{}</title></path>", escape(title))
        };
        let (colour, dash) = stroke(arrow);
        let weight = if self.layout.bundles.has(arrow) { THIN } else { "stroke-width=\"1.5\"" };
        self.put(format_args!(
            "<path class=\"message {class}\" fill=\"none\" stroke=\"{colour}\" \
             {weight}{dash} d=\"M{:.1} {:.1}Q{:.1} {:.1} {:.1} {:.1}\"{end}",
            from.x, from.y, over.x, over.y, to.x, to.y
        ));
        if arrow.is_token {
            let Point { x, y } = way.at(0.5).0;
            let token = look("token");
            self.put(format_args!("<circle {token} cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\"/>"));
        }
        if !arrow.ends_here() {
            return;
        }
        match arrow.end {
            End::Received(_) if self.layout.bundles.has(arrow) => {}
            End::Received(_) => self.head(class, colour, to, way.at(1.0).1),
            End::Lost(_) if self.layout.bundles.has(arrow) => self.cross(to, 3.0),
            End::Lost(_) => self.cross(to, 5.0),
            End::InFlight => {}
        }
    }

    fn head(&mut self, class: &str, colour: &str, to: Point, angle: f64) {
        let wing = |turn: f64| {
            let (sin, cos) = (angle + turn).sin_cos();
            format!("{:.1},{:.1}", to.x - 9.0 * cos, to.y - 9.0 * sin)
        };
        self.put(format_args!(
            "<polygon class=\"head {class}\" fill=\"{colour}\" points=\"{:.1},{:.1} {} {}\"/>",
            to.x,
            to.y,
            wing(0.36),
            wing(-0.36)
        ));
    }

    fn cross(&mut self, at: Point, arm: f64) {
        self.cross_in("cross", at, arm);
    }

    fn cross_in(&mut self, class: &str, Point { x, y }: Point, arm: f64) {
        self.put(format_args!(
            "<path {} d=\"M{:.1} {:.1}l{d:.1} {d:.1}m0 -{d:.1}l-{d:.1} {d:.1}\"/>",
            look(class),
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
        self.put(format_args!(
            "<circle {} cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius}\"><title>{}</title></circle>",
            look(class),
            at.x,
            at.y,
            escape(&mark.title)
        ));
        if mark.kind == MarkKind::Crash {
            // Its white edge shows it on the bar of a critical section, too.
            self.cross_in("crossed", at, 7.5);
            self.cross(at, 7.0);
        }
        if !mark.label.is_empty() {
            let Point { x, y } = label;
            self.edged(&format!("x=\"{x:.1}\" y=\"{y:.1}\""), &look("mark"), &mark.label);
        }
    }
}

/// The text of a message, shown on hover.
fn of_arrow(header: &Header, arrow: &Arrow, text: &str) -> String {
    format!("{text} from {} to {}", header.name(arrow.from), header.name(arrow.to))
}

fn ink_of(arrow: &Arrow) -> &'static Ink {
    arrow.kind.map_or(&APP, ink)
}

/// The colour of an arrow, and its pattern as an attribute.
fn stroke(arrow: &Arrow) -> (&'static str, String) {
    let ink = ink_of(arrow);
    let (colour, dash) = match (arrow.end, arrow.style) {
        (End::Lost(_), _) => (RED, "5 4"),
        (End::InFlight, _) => (ink.line, "1 4"),
        (End::Received(_), Style::Lazy) => (ink.line, "5 4"),
        (End::Received(_), Style::Plain | Style::App) => (ink.line, ink.dash),
    };
    match dash {
        "" => (colour, String::new()),
        "1 4" => (colour, format!(" stroke-dasharray=\"{dash}\" stroke-linecap=\"round\"")),
        dash => (colour, format!(" stroke-dasharray=\"{dash}\"")),
    }
}

fn class(arrow: &Arrow) -> &'static str {
    match (arrow.end, arrow.style) {
        (End::Lost(_), _) => "lost",
        (End::InFlight, _) => "flying",
        (End::Received(_), Style::Plain) => "plain",
        (End::Received(_), Style::Lazy) => "lazy",
        (End::Received(_), Style::App) => "app",
    }
}
