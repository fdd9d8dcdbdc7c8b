//! What is to be seen in a trace, before it has a place.

use std::collections::{BTreeMap, BTreeSet};

use mutua_algorithms::{NodeId, Time};

use crate::{Event, Header, Message, What, describe};

/// Everything that a picture shows, in the trace's own time.
#[derive(Debug, Default)]
pub(super) struct Scene {
    /// Who takes part in anything; those who never do have no line.
    pub(super) rows: Vec<NodeId>,
    /// When anything happens.
    pub(super) times: BTreeSet<u64>,
    pub(super) arrows: Vec<Arrow>,
    pub(super) spans: Vec<Span>,
    pub(super) marks: Vec<Mark>,
    /// The first violation of each property: when, which, and what was seen.
    pub(super) violations: Vec<Violation>,
    /// Whether clocks are of views, as those of nodes are.
    pub(super) has_views: bool,
}

/// A property that turned out not to hold.
#[derive(Debug)]
pub(super) struct Violation {
    pub(super) at: u64,
    pub(super) property: String,
    pub(super) why: String,
    /// How often it was violated after that.
    pub(super) again: usize,
}

impl Violation {
    pub(super) fn text(&self) -> String {
        let again = match self.again {
            0 => String::new(),
            again => format!(" (and {again} more)"),
        };
        format!("{} violated by {}{again}", self.property, self.why)
    }
}

/// A message on its way.
#[derive(Debug)]
pub(super) struct Arrow {
    pub(super) from: NodeId,
    pub(super) to: NodeId,
    pub(super) sent: u64,
    pub(super) end: End,
    pub(super) style: Style,
    /// What to write on it: the first that fits, so the longest first.
    pub(super) labels: Vec<String>,
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum End {
    Received(u64),
    Lost(u64),
    InFlight,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Style {
    Plain,
    /// It only keeps things going.
    Lazy,
    /// It is the application's.
    Tell,
}

/// A process is in some condition for a while.
#[derive(Debug)]
pub(super) struct Span {
    pub(super) who: NodeId,
    pub(super) kind: SpanKind,
    pub(super) from: u64,
    /// None: to the end of the picture.
    pub(super) to: Option<u64>,
    pub(super) label: String,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum SpanKind {
    Waiting,
    Inside,
    /// Under a daemon, who is privileged may be inside.
    Privileged,
    Down,
}

/// Something at one point of a process's line.
#[derive(Debug)]
pub(super) struct Mark {
    pub(super) who: NodeId,
    pub(super) at: u64,
    pub(super) kind: MarkKind,
    pub(super) label: String,
    /// What the event was and what it changed, for who points at it.
    pub(super) title: String,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum MarkKind {
    Request,
    Crash,
    Plain,
}

impl Scene {
    /// When two are inside at once, who they are: of each such pair, from when to when.
    pub(super) fn clashes(&self) -> Vec<(NodeId, u64, Option<u64>)> {
        let inside: Vec<_> =
            self.spans.iter().filter(|span| span.kind == SpanKind::Inside).collect();
        let mut clashes = Vec::new();
        for (place, one) in inside.iter().enumerate() {
            for other in &inside[..place] {
                let from = one.from.max(other.from);
                let to = one.to.map_or(other.to, |to| Some(other.to.map_or(to, |end| end.min(to))));
                if one.who != other.who && to.is_none_or(|to| from < to) {
                    clashes.extend([one.who, other.who].map(|who| (who, from, to)));
                }
            }
        }
        clashes
    }

    /// Whether a message has not arrived when the trace ends.
    pub(super) fn is_under_way_at_the_end(&self) -> bool {
        self.arrows.iter().any(|arrow| arrow.end == End::InFlight)
    }

    pub(super) fn new(header: &Header, events: &[Event]) -> Self {
        let mut builder = Builder::new(header);
        for event in events {
            builder.event(event);
        }
        builder.finish()
    }
}

/// A delivery: who sent it, which one, to whom.
type Delivery = (NodeId, u64, NodeId);

struct Builder<'a> {
    header: &'a Header,
    scene: Scene,
    /// Arrows that are still in flight, by delivery; several if it was duplicated.
    in_flight: BTreeMap<Delivery, Vec<usize>>,
    /// The span that each process is in now, by its place in the scene.
    open: BTreeMap<(NodeId, u8), usize>,
    seen: BTreeSet<NodeId>,
}

impl<'a> Builder<'a> {
    fn new(header: &'a Header) -> Self {
        Self {
            header,
            scene: Scene::default(),
            in_flight: BTreeMap::new(),
            open: BTreeMap::new(),
            seen: BTreeSet::new(),
        }
    }

    // tidy: one dispatch over all kinds of events.
    fn event(&mut self, event: &Event) {
        let (who, at) = (event.who, event.at);
        match &event.what {
            What::Start { inside: false } => {
                if event.clock.is_some() || event.state.get("flag").is_none() {
                    return;
                }
                self.flag(event);
            }
            What::Start { inside: true } => self.begin(who, SpanKind::Inside, at, String::new()),
            What::Request => {
                let clock = event.clock.map(|clock| self.clock(clock)).unwrap_or_default();
                self.begin(who, SpanKind::Waiting, at, String::new());
                self.mark(event, MarkKind::Request, clock);
            }
            What::Enter { fence } => {
                let label = format!("fence {}", self.clock(*fence));
                self.end(who, SpanKind::Waiting, at);
                self.begin(who, SpanKind::Inside, at, label);
            }
            What::Exit => {
                self.end(who, SpanKind::Inside, at);
                self.mark(event, MarkKind::Plain, String::new());
            }
            What::Receive { from, message } => self.receive(event, *from, message.id),
            What::Heard { from, id } => self.receive(event, *from, *id),
            What::Send { to, message, lazy } => {
                let style = if *lazy { Style::Lazy } else { Style::Plain };
                self.send(event, *to, message.id, labels(message), style);
            }
            What::Multicast { to, message } => {
                for &to in to {
                    self.send(event, to, message.id, labels(message), Style::Plain);
                }
            }
            What::Tell { to, id } => {
                self.send(event, *to, *id, vec!["tells".to_owned()], Style::Tell);
                self.mark(event, MarkKind::Plain, String::new());
            }
            What::Drop { to, message } => self.lose(event, *to, message),
            What::Duplicate { to, message } => self.duplicate(event, *to, message),
            What::Crash => self.crash(event),
            What::Restart => {
                self.end(who, SpanKind::Down, at);
                self.mark(event, MarkKind::Plain, "back".to_owned());
            }
            What::Move => self.flag(event),
            What::Election => self.mark(event, MarkKind::Plain, "election".to_owned()),
            What::Timeout { timer } => {
                self.mark(event, MarkKind::Plain, format!("{} timed out", timer.word()));
            }
            What::Elected { coordinator } => {
                let name = self.header.name(*coordinator);
                self.mark(event, MarkKind::Plain, format!("elects {name}"));
            }
            What::Nonsense { .. } => {
                self.mark(event, MarkKind::Plain, "nonsense".to_owned());
            }
            What::Violation { property, why } => self.violation(event, property, why),
            What::Note { text } if event.state.is_empty() => {
                self.mark(event, MarkKind::Plain, text.to_string());
            }
            What::Note { .. } => self.privilege(event),
            What::Timer { .. } | What::Cancel { .. } => return,
        }
        self.see(who, at);
    }

    /// A clock as one reads it: as one number it is too long.
    fn clock(&mut self, number: u64) -> String {
        let time = Time::from_number(number);
        self.scene.has_views |= time.epoch() > 0;
        time.to_string()
    }

    fn crash(&mut self, event: &Event) {
        let (who, at) = (event.who, event.at);
        self.end(who, SpanKind::Waiting, at);
        self.end(who, SpanKind::Inside, at);
        self.begin(who, SpanKind::Down, at, String::new());
        self.mark(event, MarkKind::Crash, String::new());
    }

    /// Dijkstra's ring under a daemon: the flag that a process has now.
    fn flag(&mut self, event: &Event) {
        let flag = event.state.get("flag").unwrap_or("").to_owned();
        self.mark(event, MarkKind::Plain, flag);
        self.privilege(event);
    }

    fn privilege(&mut self, event: &Event) {
        match event.state.get("privileged") {
            Some("true") => self.begin(event.who, SpanKind::Privileged, event.at, String::new()),
            Some(_) => self.end(event.who, SpanKind::Privileged, event.at),
            None => {}
        }
    }

    fn violation(&mut self, event: &Event, property: &str, why: &str) {
        let known = self.scene.violations.iter_mut().find(|known| known.property == property);
        if let Some(known) = known {
            known.again += 1;
            return;
        }
        let why = format!("{}: {why}", self.header.name(event.who));
        let property = property.to_owned();
        self.scene.violations.push(Violation { at: event.at, property, why, again: 0 });
    }

    fn see(&mut self, who: NodeId, at: u64) {
        self.seen.insert(who);
        self.scene.times.insert(at);
    }

    fn send(&mut self, event: &Event, to: NodeId, id: u64, labels: Vec<String>, style: Style) {
        let (from, sent) = (event.who, event.at);
        let arrow = Arrow { from, to, sent, end: End::InFlight, style, labels };
        self.in_flight.entry((from, id, to)).or_default().push(self.scene.arrows.len());
        self.scene.arrows.push(arrow);
        self.seen.insert(to);
    }

    fn receive(&mut self, event: &Event, from: NodeId, id: u64) {
        self.arrive(from, id, event.who, End::Received(event.at));
        self.mark(event, MarkKind::Plain, String::new());
    }

    fn lose(&mut self, event: &Event, to: NodeId, message: &Message) {
        self.arrive(event.who, message.id, to, End::Lost(event.at));
    }

    /// The oldest arrow of this delivery ends. One whose sending was not seen is not drawn.
    fn arrive(&mut self, from: NodeId, id: u64, to: NodeId, end: End) {
        let Some(arrows) = self.in_flight.get_mut(&(from, id, to)) else { return };
        if !arrows.is_empty() {
            let place = arrows.remove(0);
            self.scene.arrows[place].end = end;
        }
    }

    fn duplicate(&mut self, event: &Event, to: NodeId, message: &Message) {
        let labels = vec![format!("{} again", message.kind)];
        self.send(event, to, message.id, labels, Style::Plain);
    }

    fn mark(&mut self, event: &Event, kind: MarkKind, label: String) {
        let name = self.header.name(event.who);
        let verb = describe::verb(self.header, &event.what);
        let state = if event.state.is_empty() { "" } else { "\n" };
        let title = format!("{}: {name} {verb}{state}{}", event.at, event.state);
        // What follows at once is told in the same place.
        if let Some(last) = self.scene.marks.last_mut()
            && (last.who, last.at) == (event.who, event.at)
        {
            let comma = if last.label.is_empty() || label.is_empty() { "" } else { ", " };
            last.label += &format!("{comma}{label}");
            last.title += &format!("\n{title}");
            if kind != MarkKind::Plain {
                last.kind = kind;
            }
            return;
        }
        self.scene.marks.push(Mark { who: event.who, at: event.at, kind, label, title });
    }

    fn begin(&mut self, who: NodeId, kind: SpanKind, from: u64, label: String) {
        self.open.insert((who, kind as u8), self.scene.spans.len());
        self.scene.spans.push(Span { who, kind, from, to: None, label });
    }

    fn end(&mut self, who: NodeId, kind: SpanKind, at: u64) {
        if let Some(place) = self.open.remove(&(who, kind as u8)) {
            self.scene.spans[place].to = Some(at);
        }
    }

    fn finish(mut self) -> Scene {
        let processes = (0..self.header.processes.len()).map(NodeId::from);
        // In a small system even who does nothing is drawn.
        let all = self.header.processes.len() <= 8;
        self.scene.rows = processes.filter(|who| all || self.seen.contains(who)).collect();
        self.scene
    }
}

/// What may be written on a message, the longest first.
fn labels(message: &Message) -> Vec<String> {
    let kind = message.kind.to_string();
    if message.fields.is_empty() {
        return vec![kind];
    }
    let values: Vec<_> = message.fields.iter().map(|(_, value)| value).collect();
    vec![describe::shown(message), format!("{kind} {}", values.join(" ")), kind]
}
