//! Space-time diagrams: processes as lines, messages as arrows, critical sections as bars.
//!
//! [`svg`] draws a trace as a self-contained picture without scripts and without style sheets, and
//! [`html`] as a page with a slider for the steps. Time goes from left to right, and a picture that
//! would be too wide continues in a row below. Unless a [`Drawing`] asks for a linear axis, steps
//! are as wide as their labels need, and long waits are shortened and marked.

mod axis;
mod bundle;
mod cut;
mod glossary;
mod history;
mod inset;
mod labels;
mod layout;
mod legend;
mod linked;
mod paint;
mod remarks;
mod scene;
mod slider;
mod style;
mod token;
mod trees;
mod ways;
mod words;

pub use history::History;
pub(crate) use linked::linked;
pub use scene::is_drawn;
pub(crate) use token::{TOKEN, token_lost_with};
pub use trees::trees;

use mutua_algorithms::NodeId;

use self::{layout::Sheet, scene::Scene, words::Words};
use crate::{Event, Header};

/// What a legend adds to a sign whose text appears below the pointer: as printed nothing does.
pub const HOVER: &str = " (hover to read)";

/// The structure of a larger system could not be read.
pub const MOST_DRAWN: u32 = 40;

/// A longer trace is drawn up to here, since the picture would be too large to read.
const MOST_EVENTS: usize = 3_000;

/// How a trace is drawn.
#[derive(Clone, Debug)]
pub struct Drawing {
    /// The first and the last time that are drawn, in the unit of the trace; none for all.
    pub steps: Option<(u64, u64)>,
    /// Whether distances are in proportion to time. Steps of a script have no time.
    pub linear: bool,
    /// The width at which the picture continues in another row, before it is scaled.
    pub width: f64,
    /// The factor of the picture's size.
    pub scale: f64,
    /// Variables whose new values are written beside the events that change them.
    pub variables: Vec<String>,
    /// A sentence below the title.
    pub caption: String,
    /// Why no process goes on at the end, if none does.
    pub deadlock: Option<Deadlock>,
    /// The structure that the algorithm runs on, drawn below; none if there is none to see.
    pub structure: Option<Structure>,
    /// Whether the remarks are written below the picture.
    pub captions: bool,
    /// Remarks, for the page with the slider too, each with the time of the step that follows it.
    pub remarks: Vec<(u64, String)>,
    /// The state of the run before the first event that is given; empty at the beginning.
    pub history: History,
}

impl Default for Drawing {
    fn default() -> Self {
        Self {
            steps: None,
            linear: false,
            width: 1900.0,
            scale: 1.0,
            variables: Vec::new(),
            caption: String::new(),
            deadlock: None,
            structure: None,
            captions: false,
            remarks: Vec::new(),
            history: History::default(),
        }
    }
}

/// The structure that an algorithm runs on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Structure {
    /// A tree, and those that repairs have hung again after it.
    Trees(Vec<Hung>),
    /// The quorums of some processes.
    Quorums(Vec<(NodeId, Vec<NodeId>)>),
}

/// A tree of the processes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Hung {
    /// The number of the view that it belongs to; none for the tree of a system without views.
    pub view: Option<String>,
    /// Its edges.
    pub edges: Vec<(NodeId, NodeId)>,
    /// The process that has the token when the view starts.
    pub root: NodeId,
}

/// A deadlock at the end of a trace.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Deadlock {
    /// The reason, such as "deadlock: P1 waits for P2, which waits for P1".
    pub sentence: String,
    /// The processes that wait.
    pub waiting: Vec<NodeId>,
}

/// The longest line of a caption, in characters.
const CAPTION: usize = 110;

impl Drawing {
    /// The caption in lines.
    fn caption_lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for word in self.caption.split_whitespace() {
            match lines.last_mut() {
                Some(line) if line.len() + word.len() < CAPTION => {
                    line.push(' ');
                    line.push_str(word);
                }
                Some(_) | None => lines.push(word.to_owned()),
            }
        }
        lines
    }
}

/// Draws a trace as SVG.
pub fn svg(header: &Header, events: &[Event]) -> String {
    draw(header, events, &Drawing::default())
}

/// Draws a trace as SVG in this way.
pub fn draw(header: &Header, events: &[Event], drawing: &Drawing) -> String {
    Picture::new(header, events, drawing).svg
}

/// Draws a trace as an HTML page, self-contained, in which a slider goes through the steps.
pub fn html(header: &Header, events: &[Event], drawing: &Drawing) -> String {
    let picture = Picture::new(header, events, drawing);
    let (first, last) = drawing.steps.unwrap_or((0, u64::MAX));
    let is_shown = |event: &&Event| (first..=last).contains(&event.at);
    let shown: Vec<_> = events[..picture.shown].iter().filter(is_shown).cloned().collect();
    slider::page(header, &shown, drawing, &picture.sheet, &picture.svg)
}

struct Picture {
    svg: String,
    sheet: Sheet,
    /// The words of each row.
    words: Vec<Words>,
    /// How many of the events it shows.
    shown: usize,
}

impl Picture {
    fn new(header: &Header, events: &[Event], drawing: &Drawing) -> Self {
        // Steps are counted from the first that is wanted.
        let before = |at: u64| events.partition_point(|event| event.at < at);
        let first = drawing.steps.map_or(0, |(first, _)| before(first));
        let shown = events.len().min(first + MOST_EVENTS);
        let last = drawing.steps.map_or(events.len(), |(_, last)| before(last.saturating_add(1)));
        let mut scene = Scene::new(header, &drawing.history, &events[..shown], &drawing.variables);
        let is_whole = shown == events.len();
        if let Some(deadlock) = drawing.deadlock.clone().filter(|_| is_whole) {
            scene.stop(deadlock);
        }
        if let Some((first, last)) = drawing.steps {
            let part = scene.cut(first, last);
            scene = part.without_later_violations(last).without_idle_rows();
        }
        let sheet = Sheet::new(header, &scene, drawing);
        let left_out = last.saturating_sub(shown);
        let rows = sheet.rows.iter();
        let words: Vec<_> = rows.map(|(scene, layout)| Words::new(scene, layout)).collect();
        let svg = paint::paint(header, &scene, &sheet, &words, drawing, left_out);
        Self { svg, sheet, words, shown }
    }
}
