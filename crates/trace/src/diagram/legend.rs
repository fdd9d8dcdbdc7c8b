//! What the signs mean.

use super::{
    layout::text_width,
    scene::{End, Scene, SpanKind, Style},
    words::Words,
};

/// A sign and its meaning.
pub(super) type Entry = (&'static str, &'static str);

const CROSS: &str = "<path class=\"cross\" d=\"M4 -9l10 10m0 -10l-10 10\"/>";

/// The signs that are in the picture, in lines that fit it.
pub(super) fn lines(scene: &Scene, words: &Words, width: f64) -> Vec<Vec<Entry>> {
    let mut lines: Vec<Vec<Entry>> = vec![Vec::new()];
    let mut x = 20.0;
    for entry in entries(scene, words) {
        let wide = entry_width(entry);
        if x + wide > width && x > 20.0 {
            lines.push(Vec::new());
            x = 20.0;
        }
        x += wide;
        lines.last_mut().expect("there is a line").push(entry);
    }
    lines
}

/// How much room an entry takes.
pub(super) fn entry_width((_, words): Entry) -> f64 {
    44.0 + text_width(words)
}

fn entries(scene: &Scene, words: &Words) -> Vec<Entry> {
    let has = |kind| scene.spans.iter().any(|span| span.kind == kind);
    let style = |style| scene.arrows.iter().any(|arrow| arrow.style == style);
    let lost = scene.arrows.iter().any(|arrow| matches!(arrow.end, End::Lost(_)));
    let bare = words.labels.iter().any(Option::is_none);
    let all = [
        (
            has(SpanKind::Waiting),
            "<rect class=\"waiting\" y=\"-7\" width=\"18\" height=\"6\"/>",
            "waits, since a request with this clock",
        ),
        (
            has(SpanKind::Inside),
            "<rect class=\"inside\" y=\"-11\" width=\"18\" height=\"14\"/>",
            "inside",
        ),
        (
            !scene.clashes().is_empty(),
            "<rect class=\"clash\" y=\"-11\" width=\"18\" height=\"14\"/>",
            "two at once",
        ),
        (
            has(SpanKind::Privileged),
            "<rect class=\"inside\" y=\"-11\" width=\"18\" height=\"14\"/>",
            "privileged; numbers are flags",
        ),
        (
            style(Style::Lazy),
            "<path class=\"message lazy\" d=\"M0 -4h18\"/>",
            "only keeps things going",
        ),
        (
            style(Style::Tell),
            "<path class=\"message tell\" d=\"M0 -4h18\"/>",
            "a message of the application",
        ),
        (
            scene.is_under_way_at_the_end(),
            "<path class=\"message flying\" d=\"M0 -4h18\"/>",
            "still under way",
        ),
        (
            bare,
            "<path class=\"message plain\" d=\"M0 -4h18\"/>",
            "without words: what its sender tells others then, or no room; point at it",
        ),
        (
            scene.has_views,
            "<text class=\"mark\" x=\"-2\">v.n</text>",
            "clock and fence: the count n in view v, as one number v * 2^40 + n",
        ),
        (lost, CROSS, "lost"),
        (has(SpanKind::Down), CROSS, "crashed"),
    ];
    all.into_iter().filter(|(there, ..)| *there).map(|(_, sign, words)| (sign, words)).collect()
}
