//! The traces of real nodes as steps, so that the page shows them in the views of a script.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use mutua_algorithms::{NodeId, Structure as Needs, registry};
use mutua_trace::Reader;

use super::{
    bounds::{MOST_PROCESSES, MOST_STEPS, Refused},
    finding::{Finding, Problem},
    played::{self, Played, Structure},
    position::{Row, Sent, Step, sentence},
};
use crate::{Event, Header, Message, Values, What, describe};

/// The traces of one run, each the text of a trace file, put together.
pub(super) fn trace(parts: &[String]) -> Result<Played, Refused> {
    let mut whole: Option<Header> = None;
    let mut events: Vec<Event> = Vec::new();
    for part in parts {
        let invalid = |error: mutua_trace::ReadError| Refused::Unsuited(error.to_string());
        let (header, more) =
            Reader::new(part.as_bytes()).and_then(Reader::read_all).map_err(invalid)?;
        let known = whole.get_or_insert_with(|| header.clone());
        if (&known.processes, &known.algorithm) != (&header.processes, &header.algorithm) {
            return Err(Refused::Unsuited("the traces are of different runs".to_owned()));
        }
        events.extend(more);
    }
    let header = whole.ok_or_else(|| Refused::Unsuited("no trace was given".to_owned()))?;
    if header.processes.len() > MOST_PROCESSES {
        return Err(Refused::Processes(header.processes.len()));
    }
    events.sort_by_key(|event| event.at);
    Ok(finish(&header, steps(&header, ordered(&events))?))
}

/// The message of a delivery: sender, number and receiver.
type Delivery = (NodeId, u64, NodeId);

fn sends(event: &Event) -> Vec<Delivery> {
    match &event.what {
        What::Send { to, message, .. } => vec![(event.who, message.id, *to)],
        What::Multicast { to, message } => {
            to.iter().map(|&to| (event.who, message.id, to)).collect()
        }
        _ => Vec::new(),
    }
}

/// The events in an order in which no message arrives before it is sent, as clocks of several
/// machines may say. Each process keeps its own order.
fn ordered(events: &[Event]) -> Vec<Event> {
    let mut pending: BTreeSet<Delivery> = events.iter().flat_map(sends).collect();
    let mut queues: BTreeMap<NodeId, VecDeque<&Event>> = BTreeMap::new();
    for event in events {
        queues.entry(event.who).or_default().push_back(event);
    }
    let mut out: Vec<Event> = Vec::with_capacity(events.len());
    while out.len() < events.len() {
        let heads = || queues.values().filter_map(|queue| queue.front().copied());
        let waits = |event: &&Event| match &event.what {
            What::Receive { from, message } => pending.contains(&(*from, message.id, event.who)),
            _ => false,
        };
        // A cycle would need a message that was sent after its answer.
        let free = heads().filter(|event| !waits(event)).min_by_key(|event| (event.at, event.who));
        let next = free.or_else(|| heads().min_by_key(|event| (event.at, event.who)));
        let Some(next) = next else { break };
        if let Some(queue) = queues.get_mut(&next.who) {
            queue.pop_front();
        }
        for delivery in sends(next) {
            pending.remove(&delivery);
        }
        out.push(next.clone());
    }
    out
}

/// Steps, and the events with their numbers instead of their times.
struct Told {
    steps: Vec<Step>,
    times: Vec<u64>,
    events: Vec<Event>,
}

fn steps(header: &Header, events: Vec<Event>) -> Result<Told, Refused> {
    let begins = |event: &Event| matches!(event.what, What::Start { .. });
    let first = events.first().map_or(0, |event| event.at);
    let opening = events.iter().take_while(|event| begins(event) && event.at == first).count();
    let mut state = State::new(header);
    let mut told = Told { steps: Vec::new(), times: Vec::new(), events: Vec::new() };
    let (start, rest) = events.split_at(opening);
    told.push(header, &mut state, start, first);
    let mut from = 0;
    while from < rest.len() {
        let head = &rest[from];
        let follows = |event: &&Event| {
            event.who == head.who && event.at == head.at && !describe::is_handled(&event.what)
        };
        let length = 1 + rest[from + 1..].iter().take_while(follows).count();
        if told.steps.len() > MOST_STEPS {
            return Err(Refused::Steps);
        }
        told.push(header, &mut state, &rest[from..from + length], head.at);
        from += length;
    }
    Ok(told)
}

impl Told {
    fn push(&mut self, header: &Header, state: &mut State, events: &[Event], at: u64) {
        let number = self.steps.len();
        let before = state.rows.clone();
        for event in events {
            state.take(header, event, number);
            self.events.push(Event { at: number as u64, ..event.clone() });
        }
        let handled = events.first().filter(|_| number > 0);
        let received = handled.and_then(|event| match &event.what {
            What::Receive { from, message } => {
                Some((from.index(), state.number(*from, message.id)))
            }
            _ => None,
        });
        let is_new = |who: &usize| number == 0 || before[*who] != state.rows[*who];
        let changed = (0..state.rows.len()).filter(is_new);
        self.times.push(at);
        self.steps.push(Step {
            line: String::new(),
            comments: Vec::new(),
            words: handled.map(|_| sentence(header, events)).unwrap_or_default(),
            who: handled.map(|event| event.who.index()),
            received,
            rows: changed.map(|who| (who, state.rows[who].clone())).collect(),
            in_flight: state.in_flight.clone(),
            entries: state.entries,
            finding: state.clash(header),
        });
    }
}

/// The state of all processes, as far as the traces say.
struct State {
    rows: Vec<Row>,
    values: Vec<Values>,
    in_flight: Vec<Sent>,
    /// Small numbers for those of the traces, which a page cannot read exactly.
    numbers: BTreeMap<(NodeId, u64), u64>,
    entries: usize,
}

impl State {
    fn new(header: &Header) -> Self {
        let row = Row {
            phase: "idle",
            variables: Values::default(),
            waits_for: Vec::new(),
            points: Vec::new(),
        };
        let processes = header.processes.len();
        Self {
            rows: vec![row; processes],
            values: vec![Values::default(); processes],
            in_flight: Vec::new(),
            numbers: BTreeMap::new(),
            entries: 0,
        }
    }

    fn number(&mut self, from: NodeId, id: u64) -> u64 {
        let next = self.numbers.len() as u64;
        *self.numbers.entry((from, id)).or_insert(next)
    }

    fn take(&mut self, header: &Header, event: &Event, step: usize) {
        let who = event.who.index();
        let phase = match &event.what {
            What::Start { in_cs } => {
                // A process that is made anew has no past, and gets no old message.
                self.values[who] = Values::default();
                self.in_flight.retain(|sent| sent.to != who);
                Some(if *in_cs { "in_cs" } else { "idle" })
            }
            What::Request => Some("requesting"),
            What::Enter { .. } => {
                self.entries += 1;
                Some("in_cs")
            }
            What::Exit | What::Restart => Some("idle"),
            What::Crash => {
                self.values[who] = Values::default();
                self.in_flight.retain(|sent| sent.to != who);
                Some("down")
            }
            What::Send { to, message, lazy } => {
                self.send(event.who, *to, message, *lazy, step);
                None
            }
            What::Multicast { to, message } => {
                to.iter().for_each(|&to| self.send(event.who, to, message, false, step));
                None
            }
            What::Receive { from, message } => {
                let id = self.number(*from, message.id);
                let is_it = |sent: &Sent| (sent.from, sent.id) == (from.index(), id);
                self.in_flight.retain(|sent| sent.to != who || !is_it(sent));
                None
            }
            _ => None,
        };
        self.rows[who].phase = phase.unwrap_or(self.rows[who].phase);
        self.set(header, who, &event.state);
    }

    fn send(&mut self, from: NodeId, to: NodeId, message: &Message, lazy: bool, step: usize) {
        let id = self.number(from, message.id);
        self.in_flight.push(Sent {
            id,
            from: from.index(),
            to: to.index(),
            kind: message.kind.to_string(),
            text: describe::shown(message),
            sent: step,
            lazy,
        });
    }

    fn set(&mut self, header: &Header, who: usize, changed: &Values) {
        for (name, value) in &changed.0 {
            match self.values[who].0.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) => known.clone_from(value),
                None => self.values[who].0.push((name.clone(), value.clone())),
            }
        }
        let row = &mut self.rows[who];
        row.variables.clone_from(&self.values[who]);
        let points = self.values[who].0.iter().filter_map(|(name, value)| {
            let process = header.process(value)?;
            Some((name.to_string().into(), process.index()))
        });
        row.points = points.collect();
    }

    /// Two processes in the critical section: what a lock must never show.
    fn clash(&self, header: &Header) -> Option<Finding> {
        let inner = self.rows.iter().enumerate().filter(|(_, row)| row.phase == "in_cs");
        let names: Vec<_> = inner.map(|(who, _)| header.name(NodeId::from(who))).collect();
        (names.len() > 1).then(|| Finding {
            problem: Problem::MutualExclusion,
            sentence: format!("{} are in the critical section at once.", names.join(" and ")),
            cycle: Vec::new(),
        })
    }
}

fn finish(header: &Header, told: Told) -> Played {
    let about = registry::about(&header.algorithm);
    let is_ring = about.is_some_and(|about| about.structure == Needs::Ring);
    Played {
        version: env!("CARGO_PKG_VERSION"),
        name: header.title.clone(),
        source: String::new(),
        shows: String::new(),
        algorithm: header.algorithm.clone(),
        title: about.map_or("", |about| about.title),
        processes: header.processes.clone(),
        structure: if is_ring { Structure::Ring } else { Structure::Complete },
        fifo: true,
        head: String::new(),
        choices: Vec::new(),
        diagram: played::draw(&Header { unit: crate::Unit::Step, ..header.clone() }, &told.events),
        hash: played::hash(&told.events),
        steps: told.steps,
        after: Vec::new(),
        left_out: Vec::new(),
        times: told.times,
    }
}
