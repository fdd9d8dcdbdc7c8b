//! Bars along the time, one row for each participant, red where two bars overlap.

use crate::svg::{Picture, escape};

const WIDTH: f64 = 760.0;
const LEFT: f64 = 80.0;
const ROW: f64 = 26.0;
const HEAD: f64 = 34.0;
const FOOT: f64 = 46.0;

/// Several runs, one below the other. Red is where two bars of a run overlap.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// The title of the picture.
    pub title: String,
    /// The names of the rows, which all runs share.
    pub rows: Vec<String>,
    /// The runs.
    pub panels: Vec<Panel>,
    /// Explains the bars, below each run.
    pub caption: String,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Its title.
    pub title: String,
    /// Its bars.
    pub holds: Vec<Hold>,
}

/// A bar, such as the time for which a process holds a lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Hold {
    /// The row, from 0.
    pub row: usize,
    /// Its begin, in nanoseconds.
    pub from: u64,
    /// Its end, in nanoseconds.
    pub to: u64,
}

impl Hold {
    /// The period in which both last, if they overlap.
    pub fn overlap(&self, other: &Self) -> Option<(u64, u64)> {
        let (start, end) = (self.from.max(other.from), self.to.min(other.to));
        (start < end).then_some((start, end))
    }
}

impl Panel {
    /// From the first begin to the last end.
    fn span(&self) -> (u64, u64) {
        let from = self.holds.iter().map(|hold| hold.from).min().unwrap_or(0);
        let to = self.holds.iter().map(|hold| hold.to).max().unwrap_or(1);
        (from, to.max(from + 1))
    }
}

impl Timeline {
    /// The timeline as one SVG element.
    pub fn svg(&self) -> String {
        let panel_height = HEAD + ROW * self.rows.len() as f64 + FOOT;
        let height = panel_height * self.panels.len() as f64;
        let mut svg = Picture::new(LEFT + WIDTH + 20.0, height, 13, &self.title);
        svg.put("");
        for (index, panel) in self.panels.iter().enumerate() {
            let top = panel_height * index as f64;
            svg.put(format_args!(
                "<text x=\"8\" y=\"{}\" font-weight=\"bold\">{}</text>",
                top + 22.0,
                escape(&panel.title)
            ));
            self.rows(&mut svg, top + HEAD);
            bars(&mut svg, panel, top + HEAD);
            self.foot(&mut svg, panel, top + HEAD + ROW * self.rows.len() as f64 + 18.0);
        }
        svg.finish()
    }

    fn rows(&self, svg: &mut Picture, top: f64) {
        for (row, name) in self.rows.iter().enumerate() {
            let y = top + ROW * row as f64;
            let (text, line) = (y + 15.0, y + 11.0);
            svg.put(format_args!("<text x=\"8\" y=\"{text}\">{}</text>", escape(name)));
            svg.put(format_args!(
                "<path d=\"M{LEFT} {line}h{WIDTH}\" stroke=\"#ccc\" stroke-width=\"1\"/>"
            ));
        }
    }

    fn foot(&self, svg: &mut Picture, panel: &Panel, y: f64) {
        let (from, to) = panel.span();
        let millis = (to - from) as f64 / 1e6;
        svg.put(format_args!(
            "<text x=\"{LEFT}\" y=\"{y}\" fill=\"#555\">0 ms</text>\
             <text x=\"{}\" y=\"{y}\" fill=\"#555\" text-anchor=\"end\">{millis:.0} ms</text>\
             <text x=\"{}\" y=\"{y}\" fill=\"#555\" text-anchor=\"middle\">{}</text>",
            LEFT + WIDTH,
            LEFT + WIDTH / 2.0,
            escape(&self.caption)
        ));
    }
}

fn bars(svg: &mut Picture, panel: &Panel, top: f64) {
    let (first, last) = panel.span();
    let x = |time: u64| LEFT + WIDTH * (time - first) as f64 / (last - first) as f64;
    let mut bar = |hold: &Hold, from: u64, to: u64, color: &str| {
        let (x, y, width) = (x(from), top + ROW * hold.row as f64, (x(to) - x(from)).max(0.5));
        svg.put(format_args!(
            "<rect x=\"{x:.2}\" y=\"{y}\" width=\"{width:.2}\" height=\"20\" fill=\"{color}\"/>"
        ));
    };
    for hold in &panel.holds {
        bar(hold, hold.from, hold.to, "#3a76b0");
    }
    for (index, one) in panel.holds.iter().enumerate() {
        for other in &panel.holds[index + 1..] {
            if let Some((start, end)) = one.overlap(other) {
                bar(one, start, end, "#d0392b");
                bar(other, start, end, "#d0392b");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(holds: Vec<Hold>) -> String {
        let rows = vec!["one".to_owned(), "two".to_owned()];
        let panels = vec![Panel { title: "a < b".to_owned(), holds }];
        Timeline { title: String::new(), rows, panels, caption: String::new() }.svg()
    }

    #[test]
    fn only_what_overlaps_is_red() {
        let hold = |row, from, to| Hold { row, from, to };
        let apart = draw(vec![hold(0, 0, 50), hold(1, 50, 100)]);
        assert!(!apart.contains("#d0392b"), "{apart}");
        let together = draw(vec![hold(0, 0, 60), hold(1, 40, 100)]);
        assert_eq!(together.matches("#d0392b").count(), 2, "{together}");
        assert!(together.contains("a &lt; b"));
    }
}
