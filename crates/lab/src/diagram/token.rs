//! The token: the processes that have it.
//!
//! A process that shows its variable `token` says so itself. Of others the messages do: they have
//! the token from the message that brings it to the one that hands it on. A crash loses it, and so
//! does a process that suspends the algorithm for a view change, unless it is in the critical
//! section: the view that follows names its holder.

use std::collections::{BTreeMap, BTreeSet};

use mutua_algorithms::NodeId;

use super::scene::{Span, SpanKind};
use crate::{Event, Header, Message, What};

/// A kind of message that hands the token over.
pub(crate) const TOKEN: &str = "token";

/// A kind of message that starts a view.
const VIEW: &str = "view";

/// The value of a variable that has none: that of the view, while the algorithm is suspended.
const NONE: &str = "-";

/// The token as the events of a trace show it, one after the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Tokens {
    /// Since when a process has it.
    since: BTreeMap<NodeId, u64>,
    /// The processes that have had it: one that sends a token which no message brought has had it
    /// from the beginning.
    had: BTreeSet<NodeId>,
    /// The processes that show whether they have it.
    shown: BTreeSet<NodeId>,
    /// When a token last arrived at each.
    arrived: BTreeMap<NodeId, u64>,
    /// The processes in the critical section.
    in_cs: BTreeSet<NodeId>,
    /// The view of each process, in a run with a repair.
    views: BTreeMap<NodeId, String>,
    spans: Vec<Span>,
}

impl Tokens {
    /// Takes notice of an event.
    pub(super) fn event(&mut self, header: &Header, event: &Event) {
        let (who, at) = (event.who, event.at);
        if let Some(view) = event.state.get(VIEW) {
            self.views.insert(who, view.to_owned());
            // A process in the critical section stays there, and is the holder in the next view.
            if view == NONE && !self.in_cs.contains(&who) {
                self.loses(who, at);
            }
        }
        self.enters_or_exits(event);
        if let Some(has) = event.state.get(TOKEN) {
            self.shown.insert(who);
            if has == "true" { self.gets(who, at) } else { self.loses(who, at) }
        }
        if !self.shown.contains(&who) && is_at(header, event) {
            self.gets(who, at);
        }
        match &event.what {
            What::Receive { message, .. } if message.kind == TOKEN => {
                self.arrived.insert(who, at);
                if !self.shown.contains(&who) && self.is_of_its_view(who, message) {
                    self.gets(who, at);
                }
            }
            What::Receive { message, .. } | What::Multicast { message, .. }
                if message.kind == VIEW =>
            {
                self.view(header, event, message);
            }
            What::Send { message, .. } if message.kind == VIEW => self.view(header, event, message),
            // A ring that closes over a gap passes a token again, which has been passed before.
            What::Send { message, .. }
                if message.kind == TOKEN && message.fields.get("again").is_none() =>
            {
                self.hands_on(who, at);
            }
            What::Crash => self.loses(who, at),
            _ => {}
        }
    }

    fn enters_or_exits(&mut self, event: &Event) {
        let who = event.who;
        match event.what {
            What::Enter { .. } | What::Start { in_cs: true } => {
                self.in_cs.insert(who);
            }
            What::Exit | What::Crash => {
                self.in_cs.remove(&who);
                // While the algorithm is suspended, no process can get it from this one.
                if self.views.get(&who).is_some_and(|view| view == NONE) {
                    self.loses(who, event.at);
                }
            }
            _ => {}
        }
    }

    /// All periods in which a process has it.
    pub(super) fn finish(mut self) -> Vec<Span> {
        let open = self.since.into_iter().map(|(who, from)| span(who, from, None));
        self.spans.extend(open);
        self.spans
    }

    /// Drops the periods that have ended.
    pub(super) fn forget_ended(&mut self) {
        self.spans.clear();
    }

    /// A process starts a view, or gets it.
    fn view(&mut self, header: &Header, event: &Event, view: &Message) {
        let is_holder = view.fields.get("holder") == Some(&header.name_for(event.who, event.who));
        let has_it = is_holder && has_a_token(header) && !self.shown.contains(&event.who);
        if has_it && self.is_of_its_view(event.who, view) {
            self.gets(event.who, event.at);
        }
    }

    /// Whether a message belongs to the view in which its receiver is; a token of another one is
    /// void.
    fn is_of_its_view(&self, who: NodeId, message: &Message) -> bool {
        match (self.views.get(&who), message.fields.get(VIEW)) {
            (Some(ours), Some(theirs)) => ours == theirs,
            (Some(_), None) | (None, _) => true,
        }
    }

    fn gets(&mut self, who: NodeId, at: u64) {
        self.since.entry(who).or_insert(at);
        self.had.insert(who);
    }

    fn loses(&mut self, who: NodeId, at: u64) {
        if let Some(from) = self.since.remove(&who) {
            self.spans.push(span(who, from, Some(at)));
        }
    }

    fn hands_on(&mut self, who: NodeId, at: u64) {
        let passes = self.arrived.get(&who) == Some(&at);
        if self.since.contains_key(&who) {
            self.loses(who, at);
        } else if passes {
            // It has passed the token on in the event that brought it.
            self.spans.push(span(who, at, Some(at)));
        } else if !self.had.contains(&who) {
            self.spans.push(span(who, 0, Some(at)));
        }
        self.had.insert(who);
    }
}

fn span(who: NodeId, from: u64, to: Option<u64>) -> Span {
    Span { who, kind: SpanKind::Token, from, to, label: String::new() }
}

/// The process with whose crash the token was lost: it had it last, and no process has it now.
pub(crate) fn token_lost_with(header: &Header, events: &[Event]) -> Option<NodeId> {
    let mut tokens = Tokens::default();
    events.iter().for_each(|event| tokens.event(header, event));
    let spans = tokens.finish();
    if spans.iter().any(|span| span.to.is_none()) {
        return None;
    }
    let last = spans.iter().max_by_key(|span| span.to)?;
    let crashes = events.iter().filter(|event| event.what == What::Crash);
    let mut at_its_end = crashes.filter(|event| (event.who, Some(event.at)) == (last.who, last.to));
    at_its_end.next().map(|event| event.who)
}

/// Whether an event shows the token at its process: it is in the critical section, or its first
/// state has the token under the paper's name.
fn is_at(header: &Header, event: &Event) -> bool {
    let state = |name: &str| event.state.get(name);
    let shows = match event.what {
        What::Enter { .. } | What::Start { in_cs: true } => true,
        // LN is part of Suzuki and Kasami's token, and T of Ricart and Agrawala's.
        What::Start { in_cs: false } => {
            let me = header.name_for(event.who, event.who);
            state("LN").is_some()
                || state("T").is_some()
                || state("HOLDER") == Some(me.as_ref())
                || state("HOLDING") == Some("true")
        }
        _ => false,
    };
    shows && has_a_token(header)
}

/// Whether the algorithm has a token: every view has a holder, which is the first process to enter
/// in other algorithms.
fn has_a_token(header: &Header) -> bool {
    let about = mutua_algorithms::registry::about(&header.algorithm);
    about.is_some_and(|about| about.family == "token")
}
