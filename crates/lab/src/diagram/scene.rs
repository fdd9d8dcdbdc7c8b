//! The elements of a diagram, before they have positions.

use std::collections::{BTreeMap, BTreeSet};

use mutua_algorithms::{NodeId, Time};

use super::{
    Deadlock, History,
    token::{TOKEN, Tokens},
};
use crate::{APP, Event, Header, Message, What, describe};

/// All elements of a diagram, with the times of the trace.
#[derive(Clone, Debug, Default)]
pub(super) struct Scene {
    /// The processes with a line; in a large system those without events have none.
    pub(super) rows: Vec<NodeId>,
    /// The times of events.
    pub(super) times: BTreeSet<u64>,
    pub(super) arrows: Vec<Arrow>,
    pub(super) spans: Vec<Span>,
    pub(super) marks: Vec<Mark>,
    /// The first violation of each property.
    pub(super) violations: Vec<Violation>,
    /// Whether clocks contain view numbers, as those of nodes do.
    pub(super) has_views: bool,
    /// How many processes each critical section has.
    pub(super) of_a_section: usize,
    /// The kinds of messages, in the order of the first of each.
    pub(super) kinds: Vec<String>,
    /// Why no process goes on at the end, if none does.
    pub(super) deadlock: Option<Deadlock>,
}

/// The beginning of a label of a special repair, which the name of the crashed process follows.
pub(super) const GOES_ON: &str = "goes on without ";

/// In a system of at most so many processes those without events are drawn too.
const SMALL: usize = 8;

/// The first violation of a property.
#[derive(Clone, Debug)]
pub(super) struct Violation {
    pub(super) at: u64,
    pub(super) property: String,
    pub(super) why: String,
    /// The times of those after it.
    pub(super) again: Vec<u64>,
}

impl Violation {
    pub(super) fn text(&self) -> String {
        let again = match self.again.len() {
            0 => String::new(),
            again => format!(" (and {again} more in this picture)"),
        };
        format!("{} violated at {}{again}", self.property, self.why)
    }
}

/// A message.
#[derive(Clone, Debug)]
pub(super) struct Arrow {
    pub(super) from: NodeId,
    pub(super) to: NodeId,
    pub(super) sent: u64,
    pub(super) end: End,
    pub(super) style: Style,
    /// Its possible labels, the longest first: the first that fits is drawn.
    pub(super) labels: Vec<String>,
    /// The number of its kind; none for a message of the application.
    pub(super) kind: Option<usize>,
    /// Whether it hands the token over.
    pub(super) is_token: bool,
    /// The part of its way that is drawn, from 0 to 1: less than the whole in one of several rows.
    pub(super) part: (f64, f64),
}

impl Arrow {
    /// Whether its beginning is drawn.
    pub(super) fn begins_here(&self) -> bool {
        self.part.0 == 0.0
    }

    /// Whether a label has its values without their names.
    pub(super) fn is_short(&self, label: &str) -> bool {
        matches!(self.labels.as_slice(), [_, values, _] if values == label)
    }

    /// Whether its end is drawn.
    pub(super) fn ends_here(&self) -> bool {
        self.part.1 == 1.0
    }
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
    /// A lazy message.
    Lazy,
    /// A message of the application.
    App,
}

/// A period in which a process is in some condition.
#[derive(Clone, Debug)]
pub(super) struct Span {
    pub(super) who: NodeId,
    pub(super) kind: SpanKind,
    pub(super) from: u64,
    /// Its end; none for the end of the picture.
    pub(super) to: Option<u64>,
    pub(super) label: String,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum SpanKind {
    Waiting,
    InCs,
    /// Under a daemon, a privileged process may be in the critical section.
    Privileged,
    Down,
    /// It has the token.
    Token,
    /// It waits for ever.
    Stuck,
}

/// A mark at one point of a process's line.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    pub(super) who: NodeId,
    pub(super) at: u64,
    pub(super) kind: MarkKind,
    pub(super) label: String,
    /// The event and the variables that it changed, shown on hover.
    pub(super) title: String,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum MarkKind {
    Request,
    Crash,
    Plain,
}

impl Scene {
    /// The periods in which two processes are in the critical section at once, for each process of
    /// each such pair.
    pub(super) fn clashes(&self) -> Vec<(NodeId, u64, Option<u64>)> {
        let in_cs: Vec<_> = self.spans.iter().filter(|span| span.kind == SpanKind::InCs).collect();
        let mut clashes = Vec::new();
        for (index, one) in in_cs.iter().enumerate() {
            for other in &in_cs[..index] {
                let from = one.from.max(other.from);
                let to = one.to.map_or(other.to, |to| Some(other.to.map_or(to, |end| end.min(to))));
                let same = self.section(one.who) == self.section(other.who);
                if same && one.who != other.who && to.is_none_or(|to| from < to) {
                    clashes.extend([one.who, other.who].map(|who| (who, from, to)));
                }
            }
        }
        clashes
    }

    /// The critical section of a process.
    fn section(&self, who: NodeId) -> usize {
        who.index() / self.of_a_section.max(1)
    }

    /// Shows why no process goes on at the end: those that wait are as red as violations.
    pub(super) fn stop(&mut self, deadlock: Deadlock) {
        for span in &mut self.spans {
            let waits = span.kind == SpanKind::Waiting && span.to.is_none();
            if waits && deadlock.waiting.contains(&span.who) {
                span.kind = SpanKind::Stuck;
            }
        }
        self.deadlock = Some(deadlock);
    }

    /// Without the violations after the last time of the picture: a sentence counts those in it.
    pub(super) fn without_later_violations(mut self, last: u64) -> Self {
        self.violations.iter_mut().for_each(|one| one.again.retain(|&at| at <= last));
        self
    }

    /// Without the lines of processes of which nothing is drawn, in a large system.
    pub(super) fn without_idle_rows(mut self) -> Self {
        if self.rows.len() > SMALL {
            let spans = self.spans.iter().map(|span| span.who);
            let arrows = self.arrows.iter().flat_map(|arrow| [arrow.from, arrow.to]);
            let marks = self.marks.iter().map(|mark| mark.who);
            let seen: BTreeSet<_> = spans.chain(arrows).chain(marks).collect();
            self.rows.retain(|who| seen.contains(who));
        }
        self
    }

    /// Whether the crash of its process ends a period.
    pub(super) fn ends_in_crash(&self, span: &Span) -> bool {
        let is_its = |mark: &Mark| (mark.who, Some(mark.at)) == (span.who, span.to);
        let mut crashes = self.marks.iter().filter(|mark| mark.kind == MarkKind::Crash);
        span.kind != SpanKind::Down && crashes.any(is_its)
    }

    /// Whether a message is in flight when the trace ends.
    pub(super) fn is_in_flight_at_the_end(&self) -> bool {
        self.arrows.iter().any(|arrow| arrow.end == End::InFlight)
    }

    /// The elements of these events, and of those before them that have not ended; variables of
    /// these names are written beside the events that change them.
    pub(super) fn new(
        header: &Header,
        history: &History,
        events: &[Event],
        variables: &[String],
    ) -> Self {
        let mut builder = Builder::new(header, variables);
        builder.scene.kinds.clone_from(&history.kinds);
        history.open.iter().for_each(|event| builder.event(event));
        builder.tokens = history.tokens.clone();
        events.iter().for_each(|event| builder.event(event));
        builder.finish()
    }
}

/// A delivery: the sender, the message's number, the receiver.
type Delivery = (NodeId, u64, NodeId);

struct Builder<'a> {
    header: &'a Header,
    /// The names of the variables to write.
    variables: &'a [String],
    scene: Scene,
    /// Arrows that are still in flight, by delivery; several if it was duplicated.
    in_flight: BTreeMap<Delivery, Vec<usize>>,
    /// The open spans of each process, by their indexes in the scene.
    open: BTreeMap<(NodeId, u8), usize>,
    tokens: Tokens,
    seen: BTreeSet<NodeId>,
    /// The processes that have crashed; a report of another one is wrong.
    crashed: BTreeSet<NodeId>,
}

impl<'a> Builder<'a> {
    fn new(header: &'a Header, variables: &'a [String]) -> Self {
        Self {
            header,
            variables,
            scene: Scene::default(),
            in_flight: BTreeMap::new(),
            open: BTreeMap::new(),
            tokens: Tokens::default(),
            seen: BTreeSet::new(),
            crashed: BTreeSet::new(),
        }
    }

    // tidy: one dispatch over all kinds of events.
    fn event(&mut self, event: &Event) {
        let (who, at) = (event.who, event.at);
        self.tokens.event(self.header, event);
        if !is_drawn(event) {
            return;
        }
        match &event.what {
            What::Start { in_cs: false } => self.flag(event),
            What::Start { in_cs: true } => self.begin(who, SpanKind::InCs, at, String::new()),
            What::Request => {
                let clock = event.clock.map(|clock| self.clock(clock)).unwrap_or_default();
                self.begin(who, SpanKind::Waiting, at, String::new());
                self.mark(event, MarkKind::Request, clock);
            }
            What::Enter { fencing_token } => {
                let label = format!("fencing token {}", self.clock(*fencing_token));
                self.end(who, SpanKind::Waiting, at);
                self.begin(who, SpanKind::InCs, at, label);
            }
            What::Exit => {
                self.end(who, SpanKind::InCs, at);
                self.mark(event, MarkKind::Plain, String::new());
            }
            What::Receive { from, message } => self.receive(event, *from, message.id),
            What::Observed { from, id } => self.receive(event, *from, *id),
            What::Send { to, message, lazy } => {
                let style = if *lazy { Style::Lazy } else { Style::Plain };
                self.send(event, *to, message, labels(message), style);
            }
            What::Multicast { to, message } => {
                for &to in to {
                    self.send(event, to, message, labels(message), Style::Plain);
                }
            }
            What::AppSend { to, id } => {
                self.send_app_message(event, *to, *id);
                self.mark(event, MarkKind::Plain, String::new());
            }
            What::Drop { to, message } => self.lose(event, *to, message),
            What::Duplicate { to, message } => self.duplicate(event, *to, message),
            What::Crash => self.crash(event),
            What::Restart => {
                self.end(who, SpanKind::Down, at);
                self.mark(event, MarkKind::Plain, "restarts".to_owned());
            }
            What::Move => self.flag(event),
            What::Election => self.mark(event, MarkKind::Plain, "election".to_owned()),
            What::Timeout { timer } => {
                self.mark(event, MarkKind::Plain, format!("{} timed out", timer.word()));
            }
            What::Report { of, crashed } => {
                let name = self.header.name(*of);
                let label = match crashed {
                    false => format!("{name} is up"),
                    true if self.crashed.contains(of) => format!("{name} crashed"),
                    true => format!("suspects {name}, which is up"),
                };
                self.mark(event, MarkKind::Plain, label);
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
            What::Timer { .. } | What::Cancel { .. } => {}
        }
        self.see(who, at);
    }

    /// A clock as view and count, since one number would be too long.
    fn clock(&mut self, number: u64) -> String {
        let time = Time::from_number(number);
        self.scene.has_views |= time.epoch() > 0;
        time.to_string()
    }

    fn crash(&mut self, event: &Event) {
        let (who, at) = (event.who, event.at);
        self.end(who, SpanKind::Waiting, at);
        self.end(who, SpanKind::InCs, at);
        self.crashed.insert(who);
        self.begin(who, SpanKind::Down, at, String::new());
        self.mark(event, MarkKind::Crash, String::new());
    }

    /// A ring under a daemon: the present flag of a process.
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
            known.again.push(event.at);
            return;
        }
        let why = format!("{}: {why}", self.header.name(event.who));
        let property = property.to_owned();
        self.scene.violations.push(Violation { at: event.at, property, why, again: Vec::new() });
    }

    fn see(&mut self, who: NodeId, at: u64) {
        self.seen.insert(who);
        self.scene.times.insert(at);
    }

    fn send(
        &mut self,
        event: &Event,
        to: NodeId,
        message: &Message,
        labels: Vec<String>,
        style: Style,
    ) {
        let kinds = &mut self.scene.kinds;
        let known = kinds.iter().position(|known| *known == message.kind);
        let kind = known.unwrap_or(kinds.len());
        if known.is_none() {
            kinds.push(message.kind.to_string());
        }
        let is_token = message.kind == TOKEN;
        let (from, sent, end, part) = (event.who, event.at, End::InFlight, (0.0, 1.0));
        let arrow = Arrow { from, to, sent, end, style, labels, kind: Some(kind), is_token, part };
        self.add(message.id, arrow);
    }

    fn send_app_message(&mut self, event: &Event, to: NodeId, id: u64) {
        self.add(
            id,
            Arrow {
                from: event.who,
                to,
                sent: event.at,
                end: End::InFlight,
                style: Style::App,
                labels: vec![APP.to_owned()],
                kind: None,
                is_token: false,
                part: (0.0, 1.0),
            },
        );
    }

    fn add(&mut self, id: u64, arrow: Arrow) {
        let delivery = (arrow.from, id, arrow.to);
        self.in_flight.entry(delivery).or_default().push(self.scene.arrows.len());
        self.seen.insert(arrow.to);
        self.scene.arrows.push(arrow);
    }

    fn receive(&mut self, event: &Event, from: NodeId, id: u64) {
        self.arrive(from, id, event.who, End::Received(event.at));
        self.mark(event, MarkKind::Plain, String::new());
    }

    fn lose(&mut self, event: &Event, to: NodeId, message: &Message) {
        self.arrive(event.who, message.id, to, End::Lost(event.at));
    }

    /// The oldest arrow of this delivery ends. A message whose sending is not in the trace is not
    /// drawn.
    fn arrive(&mut self, from: NodeId, id: u64, to: NodeId, end: End) {
        let Some(arrows) = self.in_flight.get_mut(&(from, id, to)) else { return };
        if !arrows.is_empty() {
            let place = arrows.remove(0);
            self.scene.arrows[place].end = end;
        }
    }

    fn duplicate(&mut self, event: &Event, to: NodeId, message: &Message) {
        let labels = vec![format!("{} again", message.kind)];
        self.send(event, to, message, labels, Style::Plain);
    }

    /// The variables to write that an event changed.
    fn changed(&self, event: &Event) -> String {
        let shown = event.state.iter().filter(|(name, _)| self.variables.iter().any(|v| v == name));
        shown.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    }

    fn mark(&mut self, event: &Event, kind: MarkKind, label: String) {
        let changed = self.changed(event);
        let space = if label.is_empty() || changed.is_empty() { "" } else { " " };
        let label = format!("{label}{space}{changed}");
        let name = self.header.name(event.who);
        let verb = describe::verb(self.header, &event.what);
        let state = if event.state.is_empty() { "" } else { "\n" };
        let title = format!("{}: {name} {verb}{state}{}", event.at, event.state);
        // Several events of one process at the same time share a mark, also where other processes
        // have events between them.
        let mut now = self.scene.marks.iter_mut().rev().take_while(|mark| mark.at == event.at);
        if let Some(last) = now.find(|mark| mark.who == event.who) {
            // A process that goes on without another has the report of its crash.
            let without = label.strip_prefix(GOES_ON).map(|name| format!("{name} crashed"));
            if without.is_some_and(|report| report == last.label) {
                last.label.clear();
            }
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
        let all = self.header.processes.len() <= SMALL;
        self.scene.rows = processes.filter(|who| all || self.seen.contains(who)).collect();
        self.scene.spans.extend(self.tokens.finish());
        self.scene.of_a_section =
            self.header.processes.len() / self.header.sections.max(1) as usize;
        self.scene
    }
}

/// Whether an event has a place in a diagram: the start of a process has none unless it shows a
/// flag or its client is in the critical section, and timers only appear when they expire.
pub fn is_drawn(event: &Event) -> bool {
    match &event.what {
        What::Start { in_cs: false } => event.clock.is_none() && event.state.get("flag").is_some(),
        What::Timer { .. } | What::Cancel { .. } => false,
        _ => true,
    }
}

/// The possible labels of a message, the longest first.
fn labels(message: &Message) -> Vec<String> {
    let kind = message.kind.to_string();
    if message.fields.is_empty() {
        return vec![kind];
    }
    let values: Vec<_> = message.fields.iter().map(|(_, value)| value).collect();
    vec![describe::shown(message), format!("{kind} {}", values.join(" ")), kind]
}
