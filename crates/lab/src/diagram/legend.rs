//! The legend.

use mutua_algorithms::NodeId;

use super::{
    glossary,
    layout::{Sheet, mark_width, text_width},
    paint::THIN,
    scene::{End, Scene, SpanKind, Style},
    style::{APP, RED, ink, look},
    words::Words,
};
use crate::{Header, Unit, svg::escape};

/// A sign and its meaning.
pub(super) struct Entry {
    pub(super) sign: String,
    pub(super) words: String,
    /// The width of the sign.
    pub(super) wide: f64,
}

/// The width of most signs, and of a line that shows its pattern.
const WIDE: f64 = 18.0;
const WIDE_PATTERN: f64 = 40.0;

impl Entry {
    fn new(sign: String, words: String) -> Self {
        Self { sign, words, wide: WIDE }
    }
}

const CROSS: &str = "d=\"M4 -9l10 10m0 -10l-10 10\"";

/// The entries for the signs in the picture, in lines that fit its width.
pub(super) fn lines(
    header: &Header,
    scene: &Scene,
    words: &[Words],
    sheet: &Sheet,
) -> Vec<Vec<Entry>> {
    let mut lines: Vec<Vec<Entry>> = vec![Vec::new()];
    let mut x = 20.0;
    for entry in entries(header, scene, words, sheet) {
        let wide = entry_width(&entry);
        if x + wide > sheet.width && x > 20.0 {
            lines.push(Vec::new());
            x = 20.0;
        }
        x += wide;
        lines.last_mut().expect("there is a line").push(entry);
    }
    lines
}

/// The width of an entry.
pub(super) fn entry_width(entry: &Entry) -> f64 {
    26.0 + entry.wide + text_width(&entry.words)
}

fn entries(header: &Header, scene: &Scene, words: &[Words], sheet: &Sheet) -> Vec<Entry> {
    let mut entries = kinds(scene);
    entries.extend(states(scene));
    let style = |style| scene.arrows.iter().any(|arrow| arrow.style == style);
    let lost = lost(scene);
    let bundled = words.iter().any(|words| !words.bundles.is_empty());
    let bare = sheet.rows.iter().zip(words).any(|((scene, layout), words)| {
        let labels = scene.arrows.iter().zip(&words.labels);
        labels.into_iter().any(|(arrow, label)| label.is_none() && !layout.bundles.has(arrow))
    });
    let cross = || format!("<path {} {CROSS}/>", look("cross"));
    let more = [
        (style(Style::Lazy), line(ink(0).line, "5 4"), "lazy message"),
        (style(Style::App), line(APP.line, APP.dash), "application message"),
        (scene.is_in_flight_at_the_end(), line(ink(0).line, "1 4"), "in flight at the end"),
        (lost.is_some(), format!("{}{}", line(RED, "5 4"), cross()), lost.unwrap_or_default()),
        (
            scene.spans.iter().any(|span| span.kind == SpanKind::Down),
            format!(
                "<path {} d=\"M0 -9l10 10m0 -10l-10 10\"/><path {} d=\"M11 -4h10\"/>",
                look("cross"),
                look("gone")
            ),
            "crashed",
        ),
        (
            !scene.marks.is_empty(),
            format!("<circle {} cx=\"9\" cy=\"-4\" r=\"3\"/>", look("event")),
            "event (hover to read)",
        ),
        (
            bundled,
            format!(
                "<path d=\"M0 -7h18M0 -4h18M0 -1h18\" fill=\"none\" stroke=\"{}\" {THIN}/>",
                ink(0).line
            ),
            "many messages at once, as many as written above (hover to read)",
        ),
        (
            bare,
            line("#8a93a1", "none"),
            "no label: same as another from its sender, or no room (hover to read)",
        ),
        (
            has_short_labels(words, sheet),
            format!("<text {} x=\"-2\">a b</text>", look("small")),
            "values of a message without their names (hover to read)",
        ),
        (
            scene.has_views,
            format!("<text {} x=\"-2\">v.n</text>", look("mark")),
            "clock and fencing token: count n in epoch v, as one number v * 2^40 + n",
        ),
    ];
    let more = more.into_iter().chain(times(header, sheet)).filter(|(there, ..)| *there);
    entries.extend(more.map(|(_, sign, words)| Entry::new(sign, words.to_owned())));
    entries.extend(glossary::words(scene).into_iter().map(|(word, meaning)| Entry {
        sign: format!("<text {} x=\"0\">{word}</text>", look("mark")),
        words: meaning.to_owned(),
        wide: mark_width(word) + 2.0,
    }));
    entries
}

/// An arrow.
fn line(colour: &str, dash: &str) -> String {
    format!(
        "<path d=\"M0 -4h18\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" \
         stroke-dasharray=\"{dash}\"/>"
    )
}

/// What the axis says of time: whether it is there, its sign and its words.
fn times(header: &Header, sheet: &Sheet) -> [(bool, String, &'static str); 3] {
    let tick = |d: &str| format!("<path {} d=\"{d}\"/>", look("axis"));
    let timed = header.unit != Unit::Step;
    let shortened = sheet.rows.iter().any(|(_, layout)| !layout.shortened.is_empty());
    [
        (
            shortened,
            tick("M0 -4h7m-2 4l4 -8m2 8l4 -8m-2 4h7"),
            "time is not to scale: distances fit the labels; long waits, marked //, are shorter",
        ),
        (
            timed && !shortened && !sheet.linear,
            tick("M3 -12v15m12 -15v15"),
            "time is not to scale: distances fit the labels",
        ),
        (timed && sheet.linear, tick("M0 -4h18M3 -8v8m12 -8v8"), "time is to scale"),
    ]
}

/// Why messages are lost: none if no message is.
fn lost(scene: &Scene) -> Option<&'static str> {
    let is_down = |who: NodeId, at: u64| {
        let mut down = scene.spans.iter().filter(|span| span.kind == SpanKind::Down);
        down.any(|span| span.who == who && span.from <= at && span.to.is_none_or(|to| at <= to))
    };
    let mut lost = scene.arrows.iter().filter_map(|arrow| match arrow.end {
        End::Lost(at) => Some(is_down(arrow.to, at)),
        End::Received(_) | End::InFlight => None,
    });
    let first = lost.next()?;
    let to_crashed = first && lost.all(|to_crashed| to_crashed);
    Some(if to_crashed { "lost: its receiver has crashed" } else { "lost" })
}

/// Whether a message is labelled with its values only.
fn has_short_labels(words: &[Words], sheet: &Sheet) -> bool {
    sheet.rows.iter().zip(words).any(|((scene, _), words)| {
        let mut labels = scene.arrows.iter().zip(&words.labels);
        labels.any(|(arrow, label)| label.as_ref().is_some_and(|it| arrow.is_short(&it.text)))
    })
}

/// The kinds of messages, each in its colour, and the token.
fn kinds(scene: &Scene) -> Vec<Entry> {
    let used = |kind: usize| scene.arrows.iter().any(|arrow| arrow.kind == Some(kind));
    let kinds = scene.kinds.iter().enumerate().filter(|(kind, _)| used(*kind));
    let mut entries: Vec<Entry> = kinds
        .map(|(kind, name)| {
            let ink = ink(kind);
            let (wide, dash) = match ink.dash {
                "" => (WIDE, "none"),
                dash => (WIDE_PATTERN, dash),
            };
            let sign = format!(
                "<path d=\"M0 -4h{1}\" fill=\"none\" stroke=\"{0}\" stroke-width=\"1.5\" \
                 stroke-dasharray=\"{dash}\"/><path d=\"M{wide} -4l-8 -3v6z\" fill=\"{0}\"/>",
                ink.line,
                wide - 6.0,
            );
            Entry { sign, words: escape(name), wide }
        })
        .collect();
    if scene.spans.iter().any(|span| span.kind == SpanKind::Token) {
        let sign = format!(
            "<rect {0} x=\"0\" y=\"-3\" width=\"18\" height=\"3\"/><circle {0} cx=\"9\" cy=\"-6\" \
             r=\"4.5\"/>",
            look("token")
        );
        entries.push(Entry::new(sign, "token: on its way, and at a process".to_owned()));
    }
    entries
}

/// The states of processes.
fn states(scene: &Scene) -> Vec<Entry> {
    let has = |kind| scene.spans.iter().any(|span| span.kind == kind);
    let bar = |class: &str, half: u32| {
        let (y, height) = (-4 - i64::from(half), 2 * half);
        format!("<rect {} y=\"{y}\" width=\"18\" height=\"{height}\"/>", look(class))
    };
    let request = format!("<circle {} cx=\"4\" cy=\"-4\" r=\"4\"/>", look("request"));
    // The clock beside a request is explained once.
    let stuck = match has(SpanKind::Waiting) {
        true => "waiting for ever",
        false => "waiting for ever, since a request with this clock",
    };
    let all = [
        (
            has(SpanKind::Waiting),
            bar("waiting", 3) + &request,
            "waiting, since a request with this clock",
        ),
        (has(SpanKind::InCs), bar("in-cs", 7), "in the critical section"),
        (!scene.clashes().is_empty(), bar("clash", 7), "two in the critical section"),
        (has(SpanKind::Privileged), bar("in-cs", 7), "privileged; numbers are flags"),
        (has(SpanKind::Stuck), bar("stuck", 3) + &request, stuck),
    ];
    let there = all.into_iter().filter(|(there, ..)| *there);
    there.map(|(_, sign, words)| Entry::new(sign, words.to_owned())).collect()
}
