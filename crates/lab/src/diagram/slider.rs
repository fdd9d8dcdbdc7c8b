//! A diagram as one HTML file in which a slider goes through the steps.

use mutua_algorithms::Time;
use serde::Serialize;

use super::{Drawing, axis::Scale, layout::Sheet};
use crate::{Event, Header, Unit, What, describe, svg::escape};

const PAGE: &str = include_str!("slider.html");

/// The page's data: the steps, and where each ends in the picture.
#[derive(Debug, Serialize)]
struct Data<'a> {
    processes: &'a [String],
    steps: Vec<Step<'a>>,
    rows: Vec<Row>,
}

/// One step.
#[derive(Debug, Serialize)]
struct Step<'a> {
    at: u64,
    /// Its time with the unit; empty for the steps of a script, which have none.
    time: String,
    /// The remarks of the script before it.
    captions: Vec<&'a str>,
    /// What happened, a line each.
    text: String,
    /// The variables that it changed: process, variable, value.
    changes: Vec<(usize, &'a str, String)>,
    /// The processes that crash, which lose their variables.
    crashed: Vec<usize>,
    /// The processes that restart.
    restarted: Vec<usize>,
}

/// One row of the picture: its area, and the column of each step.
#[derive(Debug, Serialize)]
struct Row {
    top: f64,
    bottom: f64,
    right: f64,
    columns: Vec<(u64, f64)>,
}

/// The page of a picture that has been drawn.
pub(super) fn page(
    header: &Header,
    events: &[Event],
    drawing: &Drawing,
    sheet: &Sheet,
    svg: &str,
) -> String {
    let data = Data {
        processes: &header.processes,
        steps: steps(header, events, drawing),
        rows: sheet
            .rows
            .iter()
            .map(|(_, layout)| Row {
                top: layout.top - layout.head + 4.0,
                bottom: layout.bottom + 20.0,
                right: layout.right + 4.0,
                columns: layout.columns().collect(),
            })
            .collect(),
    };
    // Numbers and texts only: this cannot fail.
    let data = serde_json::to_string(&data).unwrap_or_default().replace("</", "<\\/");
    let parts = PAGE.replace("@TITLE@", &escape(header.heading()));
    let (before, after) = parts.split_once("@PICTURE@").expect("the page has a picture");
    let (between, after) = after.split_once("@DATA@").expect("the page has data");
    format!("{before}{svg}{between}{data}{after}")
}

fn steps<'a>(header: &Header, events: &'a [Event], drawing: &'a Drawing) -> Vec<Step<'a>> {
    let mut steps: Vec<Step<'a>> = Vec::new();
    let scale = Scale::of(header.unit, events.last().map_or(0, |event| event.at));
    let mut begin = 0;
    while begin < events.len() {
        let at = events[begin].at;
        let count = events[begin..].iter().take_while(|event| event.at == at).count();
        let these = &events[begin..begin + count];
        let text = match at {
            0 => describe::trace(header, these),
            _ => describe::these(header, these),
        };
        let captions = drawing.remarks.iter().filter(|(before, _)| *before == at);
        let captions = captions.map(|(_, text)| text.as_str()).collect();
        let who = |what: &What| {
            let these = these.iter().filter(|event| event.what == *what);
            these.map(|event| event.who.index()).collect()
        };
        let (crashed, restarted) = (who(&What::Crash), who(&What::Restart));
        let time = match header.unit {
            Unit::Step => String::new(),
            _ => format!("{} {}", scale.text(at), scale.word),
        };
        let changes = changes(these);
        // The number of nanoseconds at the beginning of the text says less than the time does.
        let text = match text.trim_start().strip_prefix(&at.to_string()) {
            Some(rest) if !time.is_empty() => format!("{time}{rest}"),
            Some(_) | None => text,
        };
        steps.push(Step { at, time, captions, text, changes, crashed, restarted });
        begin += count;
    }
    steps
}

fn changes(events: &[Event]) -> Vec<(usize, &str, String)> {
    let mut changes = Vec::new();
    for event in events {
        let who = event.who.index();
        let clock = event.clock.map(|clock| (who, "clock", Time::from_number(clock).to_string()));
        changes.extend(clock);
        changes.extend(event.state.iter().map(|(name, value)| (who, name, value.to_owned())));
    }
    changes
}
