//! The graph of a small system's states, as DOT for Graphviz and as SVG: rows by the distance from
//! the start, so that every shortest run goes down.

use mutua_algorithms::Fields;
use mutua_checker::{Graph, GraphState, GraphStep, name_of};

use crate::svg::{Picture, escape};

/// Larger graphs cannot be read as a picture.
pub const MOST_DRAWN: u64 = 400;

/// Larger graphs are no use in a file either.
pub const MOST_WRITTEN: u64 = 50_000;

/// The graph for Graphviz: states with all variables, steps as sentences.
pub fn dot(title: &str, graph: &Graph) -> String {
    let mut text = format!(
        "digraph states {{\n  label=\"{}\";\n  node [shape=box, style=rounded];\n",
        quoted(title)
    );
    for (place, state) in graph.states.iter().enumerate() {
        let colour = if state.violation { ", color=red" } else { "" };
        let label = quoted(&lines(state, true).join("\n"));
        text += &format!("  s{place} [label=\"{label}\"{colour}];\n");
    }
    for GraphStep { from, to, sentence } in &graph.steps {
        text += &format!("  s{from} -> s{to} [label=\"{}\"];\n", quoted(sentence));
    }
    text + "}\n"
}

fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// A state in lines: a process each, and the messages in flight.
fn lines(state: &GraphState, whole: bool) -> Vec<String> {
    let processes = state.processes.iter().enumerate();
    let mut lines: Vec<_> = processes.map(|(at, fields)| process(at, fields, whole)).collect();
    let messages = state.messages.iter();
    lines.extend(messages.map(|(kind, from, to)| format!("{kind} {from} > {to}")));
    lines
}

fn process(at: usize, fields: &Fields, whole: bool) -> String {
    let shown = fields.iter().filter(|(name, _)| whole || *name == "phase");
    let values = shown.map(|(name, value)| match *name {
        "phase" => value.render(&name_of),
        name => format!("{name}={}", value.render(&name_of)),
    });
    format!("P{at} {}", values.collect::<Vec<_>>().join(", "))
}

const WIDTH: f64 = 118.0;
const LINE: f64 = 13.0;
const GAP: f64 = 22.0;
const ROW_GAP: f64 = 46.0;
const TOP: f64 = 74.0;
/// Phases by colour: a process in the critical section, one that waits, all others.
const IN_CS: &str = "#d98200";
const WAITS: &str = "#0072b2";
const OTHER: &str = "#1c2430";
const VIOLATION: &str = "#c0252d";

/// A state's box.
#[derive(Clone, Copy, Debug, Default)]
struct Placed {
    x: f64,
    y: f64,
    height: f64,
}

/// The graph as a picture.
pub fn svg(title: &str, graph: &Graph) -> String {
    let rows = rows(graph);
    let widest = rows.iter().map(Vec::len).max().unwrap_or(1) as f64;
    let least = 40.0 + 8.0 * title.chars().count() as f64;
    let width = (widest * (WIDTH + GAP) + GAP).max(least).max(560.0);
    let mut places = vec![Placed::default(); graph.states.len()];
    let mut y = TOP;
    for row in &rows {
        let used = row.len() as f64 * (WIDTH + GAP) - GAP;
        let heights = row.iter().map(|&state| box_height(&graph.states[state]));
        let tallest = heights.fold(0.0, f64::max);
        for (place, &state) in row.iter().enumerate() {
            let x = (width - used) / 2.0 + place as f64 * (WIDTH + GAP);
            places[state] = Placed { x, y, height: box_height(&graph.states[state]) };
        }
        y += tallest + ROW_GAP;
    }
    let mut picture = Picture::new(width, y, 10, title);
    head(&mut picture, title, graph);
    for step in &graph.steps {
        edge(&mut picture, graph, &places, step);
    }
    for (state, placed) in graph.states.iter().zip(&places) {
        state_box(&mut picture, state, *placed);
    }
    picture.finish()
}

fn head(picture: &mut Picture, title: &str, graph: &Graph) {
    picture.put(
        "<defs><marker id=\"to\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" \
         markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#5b6472\"/></marker>\
         </defs>",
    );
    picture.put(format_args!(
        "<text x=\"20\" y=\"26\" font-size=\"14\" font-weight=\"bold\">{}</text>",
        escape(title)
    ));
    let (states, steps) = (graph.states.len(), graph.steps.len());
    picture.put(format_args!(
        "<text x=\"20\" y=\"46\" fill=\"#5b6472\">{states} states, {steps} steps; rows by the \
         distance from the start; dashed: a step to the same row or back; orange: in the critical \
         section; blue: waits; red box: a violation</text>"
    ));
}

/// The states of each depth, each near those that lead to it.
fn rows(graph: &Graph) -> Vec<Vec<usize>> {
    let deepest = graph.states.iter().map(|state| state.depth).max().unwrap_or(0);
    let mut rows = vec![Vec::new(); deepest + 1];
    for (place, state) in graph.states.iter().enumerate() {
        rows[state.depth].push(place);
    }
    let mut at = vec![0.0; graph.states.len()];
    for row in &mut rows {
        let mut keys: Vec<_> = row
            .iter()
            .map(|&state| (mean(before(graph, state).map(|from| at[from])), state))
            .collect();
        keys.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let middle = keys.len() as f64 / 2.0;
        *row = keys.iter().map(|&(_, state)| state).collect();
        for (place, &(_, state)) in keys.iter().enumerate() {
            at[state] = place as f64 + 0.5 - middle;
        }
    }
    rows
}

/// The states of the row above that lead here.
fn before(graph: &Graph, state: usize) -> impl Iterator<Item = usize> + '_ {
    let depth = graph.states[state].depth;
    let steps = graph.steps.iter().filter(move |step| step.to == state);
    steps.map(|step| step.from).filter(move |&from| graph.states[from].depth + 1 == depth)
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values {
        sum += value;
        count += 1.0;
    }
    if count == 0.0 { 0.0 } else { sum / count }
}

fn box_height(state: &GraphState) -> f64 {
    10.0 + LINE * lines(state, false).len() as f64
}

fn edge(picture: &mut Picture, graph: &Graph, places: &[Placed], step: &GraphStep) {
    let (from, to) = (places[step.from], places[step.to]);
    let (x1, x2) = (from.x + WIDTH / 2.0, to.x + WIDTH / 2.0);
    let tip = escape(&step.sentence);
    if graph.states[step.to].depth == graph.states[step.from].depth + 1 {
        let (y1, y2) = (from.y + from.height, to.y - 2.0);
        picture.put(format_args!(
            "<path d=\"M{x1:.0} {y1:.0}L{x2:.0} {y2:.0}\" stroke=\"#5b6472\" fill=\"none\" \
             marker-end=\"url(#to)\"><title>{tip}</title></path>"
        ));
    } else {
        // Out of the side, round, and into the side.
        let (x1, x2) = (from.x + WIDTH, to.x + WIDTH + 2.0);
        let (y1, y2) = (from.y + from.height / 2.0, to.y + to.height / 2.0);
        let bend = x1.max(x2) + GAP;
        picture.put(format_args!(
            "<path d=\"M{x1:.0} {y1:.0}C{bend:.0} {y1:.0} {bend:.0} {y2:.0} {x2:.0} {y2:.0}\" \
             stroke=\"#5b6472\" fill=\"none\" stroke-dasharray=\"4 3\" marker-end=\"url(#to)\">\
             <title>{tip}</title></path>"
        ));
    }
}

fn state_box(picture: &mut Picture, state: &GraphState, placed: Placed) {
    let Placed { x, y, height } = placed;
    let (colour, stroke) = if state.violation { (VIOLATION, 2.5) } else { ("#5b6472", 1.0) };
    picture.put(format_args!(
        "<g><title>{}</title><rect x=\"{x:.0}\" y=\"{y:.0}\" width=\"{WIDTH}\" \
         height=\"{height:.0}\" rx=\"5\" fill=\"#fff\" stroke=\"{colour}\" \
         stroke-width=\"{stroke}\"/>",
        escape(&lines(state, true).join("\n"))
    ));
    for (line, text) in lines(state, false).iter().enumerate() {
        let colour = match text {
            text if text.ends_with(" in_cs") => IN_CS,
            text if text.ends_with(" requesting") => WAITS,
            _ => OTHER,
        };
        let down = y + 16.0 + LINE * line as f64;
        picture.put(format_args!(
            "<text x=\"{:.0}\" y=\"{down:.0}\" fill=\"{colour}\">{}</text>",
            x + 8.0,
            escape(text)
        ));
    }
    picture.put("</g>");
}

#[cfg(test)]
mod tests {
    use mutua_algorithms::{NodeId, Setup};
    use mutua_checker::{Limits, NoClock, Reduction, System, Task, graph};

    use super::*;

    fn graph_of(name: &str, nodes: u32, contenders: u32) -> Graph {
        let mut system = System::new(Setup::new(nodes), 1);
        system.contenders = Some((0..contenders).map(NodeId).collect());
        let task = Task {
            name: name.to_owned(),
            system,
            properties: None,
            reduction: Reduction::None,
            limits: Limits::default(),
            first: false,
            walks: None,
            invariants: Vec::new(),
        };
        graph(&task, MOST_DRAWN, &mut NoClock).expect("a small system")
    }

    /// The states are those of the pinned count, and every step but the first leads on from one.
    #[test]
    fn a_graph_has_every_state_and_every_step_once() {
        let graph = graph_of("ricart-agrawala", 2, 2);
        assert_eq!(graph.states.len(), 35);
        assert!(graph.states.iter().all(|state| !state.violation));
        let reached = (1..35).all(|state| graph.steps.iter().any(|step| step.to == state));
        assert!(reached);
        let dot = dot("two", &graph);
        assert_eq!(dot.matches(" -> ").count(), graph.steps.len());
        assert_eq!(svg("two", &graph).matches("marker-end").count(), graph.steps.len());
    }

    #[test]
    fn a_deadlock_is_marked() {
        let graph = graph_of("majority", 2, 2);
        let stuck = graph.states.iter().filter(|state| state.violation).count();
        assert_eq!(stuck, 1, "each has its own vote");
        assert!(dot("", &graph).contains("color=red"));
    }
}
