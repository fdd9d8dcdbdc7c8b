//! Space-time pictures: processes as lines, messages as arrows, time inside as bars.
//!
//! [`svg`] makes a self-contained picture of a trace, without scripts, that can be read on light
//! and on dark ground. Time goes from left to right, but not to scale: steps are as wide as what
//! happens in them needs, and long waits are cut short, so that everything can be read.

mod labels;
mod layout;
mod legend;
mod paint;
mod scene;
mod ways;
mod words;

use crate::{Event, Header};

/// A longer trace is drawn up to here; nobody could look at more.
const MOST_EVENTS: usize = 3_000;

/// The picture of a trace.
pub fn svg(header: &Header, events: &[Event]) -> String {
    let shown = &events[..events.len().min(MOST_EVENTS)];
    let scene = scene::Scene::new(header, shown);
    let layout = layout::Layout::new(header, &scene);
    paint::paint(header, &scene, &layout, events.len() - shown.len())
}
