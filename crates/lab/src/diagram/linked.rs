//! A diagram whose elements name what they show, for a page that links them with other views.

use super::{Drawing, Picture, scene::End};
use crate::{Event, Header};

/// A diagram and the positions in it.
#[derive(Clone, Debug)]
pub(crate) struct Linked {
    /// The picture. An element of a message has `data-m`, a mark of an event `data-e`, each the
    /// key of [`message_key`] or `PROCESS-TIME`.
    pub(crate) svg: String,
    /// The column of each time.
    pub(crate) columns: Vec<(u64, f64)>,
    /// The keys of the messages.
    pub(crate) arrows: Vec<Link>,
    /// The kinds of messages, in the order of their colours.
    pub(crate) kinds: Vec<String>,
}

/// A message of a diagram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) sent: u64,
    pub(crate) end: Option<u64>,
}

impl Link {
    /// The key of the message in `data-m`.
    pub(crate) fn key(&self) -> String {
        let end = self.end.map_or_else(String::new, |end| end.to_string());
        format!("{}-{}-{}-{end}", self.from, self.to, self.sent)
    }
}

/// Draws a trace like [`svg`](super::svg), in one row, since the page scrolls it.
pub(crate) fn linked(header: &Header, events: &[Event]) -> Linked {
    let events = &events[..events.len().min(super::MOST_EVENTS)];
    let drawing = Drawing { width: f64::INFINITY, ..Drawing::default() };
    let Picture { svg, sheet, words, .. } = Picture::new(header, events, &drawing);
    let (Some((scene, layout)), Some(words)) = (sheet.rows.first(), words.first()) else {
        return Linked { svg, columns: Vec::new(), arrows: Vec::new(), kinds: Vec::new() };
    };
    let arrows: Vec<_> = scene
        .arrows
        .iter()
        .map(|arrow| Link {
            from: arrow.from.index(),
            to: arrow.to.index(),
            sent: arrow.sent,
            end: match arrow.end {
                End::Received(at) | End::Lost(at) => Some(at),
                End::InFlight => None,
            },
        })
        .collect();
    let keys: Vec<_> = arrows.iter().map(|link| format!("data-m=\"{}\"", link.key())).collect();
    let labelled = keys.iter().zip(&words.labels).filter(|(_, label)| label.is_some());
    let labelled: Vec<_> = labelled.map(|(key, _)| key.clone()).collect();
    let marks = scene.marks.iter();
    let marks: Vec<_> =
        marks.map(|mark| format!("data-e=\"{}-{}\"", mark.who.index(), mark.at)).collect();
    let svg = tagged(&svg, &["<path class=\"message "], &keys);
    let svg = tagged(&svg, &["<text class=\"label "], &labelled);
    let svg = tagged(&svg, &["<circle class=\"event\" ", "<circle class=\"request\" "], &marks);
    Linked { svg, columns: layout.columns().collect(), arrows, kinds: scene.kinds.clone() }
}

/// The picture with an attribute in each of the elements that begin so, in their order. The legend
/// comes last and has such elements too, so there may be more of them; if there are fewer, the
/// picture is left as it is.
fn tagged(svg: &str, beginnings: &[&str], attributes: &[String]) -> String {
    let mut places: Vec<_> = beginnings
        .iter()
        .flat_map(|beginning| svg.match_indices(beginning).map(|(at, _)| at))
        .collect();
    places.sort_unstable();
    if places.len() < attributes.len() {
        return svg.to_owned();
    }
    let mut out = String::with_capacity(svg.len() + 24 * attributes.len());
    let mut written = 0;
    for (place, attribute) in places.into_iter().zip(attributes) {
        let name_end = place + svg[place..].find(' ').unwrap_or(0);
        out.push_str(&svg[written..=name_end]);
        out.push_str(attribute);
        out.push(' ');
        written = name_end + 1;
    }
    out.push_str(&svg[written..]);
    out
}
