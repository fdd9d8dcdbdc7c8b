//! The remarks of a script, written below its picture, each with the steps that it is about.

use super::{Drawing, layout::text_width, scene::Scene, style::look};
use crate::svg::{escape, put};

/// The height of a line.
const LINE: f64 = 16.0;

/// The room for the numbers of steps.
const STEPS: f64 = 54.0;

/// The remarks in lines: the steps before the first line of each.
#[derive(Debug, Default)]
pub(super) struct Remarks(Vec<(String, String)>);

impl Remarks {
    /// The remarks on the steps that are drawn, in lines of this width.
    pub(super) fn new(drawing: &Drawing, scene: &Scene, width: f64) -> Self {
        let (Some(&first), Some(&last)) = (scene.times.first(), scene.times.last()) else {
            return Self::default();
        };
        let mut remarks: Vec<(u64, String)> = Vec::new();
        for (at, text) in drawing.remarks.iter().filter(|_| drawing.captions) {
            match remarks.last_mut() {
                // The lines of one comment, or comments with no step between them.
                Some((same, before)) if same == at => *before = format!("{before} {text}"),
                Some(_) | None => remarks.push((*at, text.clone())),
            }
        }
        let ends = remarks.iter().skip(1).map(|(at, _)| at - 1).chain([last]);
        let ranges = remarks.iter().zip(ends).map(|((from, text), to)| (*from, to, text));
        let mut lines = Vec::new();
        for (from, to, text) in ranges.filter(|&(from, to, _)| to >= first && from <= last) {
            let (from, to) = (from.max(first), to.min(last));
            let steps = if from == to { from.to_string() } else { format!("{from}-{to}") };
            let texts = wrapped(text, width - STEPS);
            let steps = std::iter::once(steps).chain(std::iter::repeat(String::new()));
            lines.extend(steps.zip(texts));
        }
        Self(lines)
    }

    pub(super) fn height(&self) -> f64 {
        LINE * self.0.len() as f64 + if self.0.is_empty() { 0.0 } else { LINE }
    }

    pub(super) fn paint(&self, out: &mut String, x: f64, top: f64) {
        let (number, words) = (look("mark"), look("small"));
        for ((steps, text), line) in self.0.iter().zip(1u32..) {
            let y = top + LINE * f64::from(line) - 4.0;
            if !steps.is_empty() {
                put(out, format_args!("<text {number} x=\"{x:.1}\" y=\"{y:.1}\">{steps}</text>"));
            }
            let (right, text) = (x + STEPS, escape(text));
            put(out, format_args!("<text {words} x=\"{right:.1}\" y=\"{y:.1}\">{text}</text>"));
        }
    }
}

/// A text in lines of this width.
fn wrapped(text: &str, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if text_width(line) + text_width(word) < width => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) | None => lines.push(word.to_owned()),
        }
    }
    lines
}
