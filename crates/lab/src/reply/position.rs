//! A script as single steps, each with the state after it.

use std::{borrow::Cow, collections::BTreeMap};

use mutua_algorithms::{NodeId, Phase, Value};
use serde::Serialize;

use super::{
    bounds::{MOST_STEPS, Refused},
    finding::{Finding, finding},
};
use crate::{
    Message, Script, Values, What, Which, describe,
    script::{Command, Item, Line, Player},
};

/// A step of a script and the state after it; the first one is the start.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// The line that takes this step; empty at the start.
    pub line: String,
    /// The comments before it.
    pub comments: Vec<String>,
    /// The step in words: what a process handled and what it did.
    pub words: String,
    /// The process that handled the event.
    pub who: Option<usize>,
    /// The message that it received: its sender and number.
    pub received: Option<(usize, u64)>,
    /// The rows of the state table that this step changed; at the start, all.
    pub rows: BTreeMap<usize, Row>,
    /// The messages in flight after it, in order of sending.
    pub in_flight: Vec<Sent>,
    /// How many entries there were so far.
    pub entries: usize,
    /// A violation or a deadlock that this step caused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finding: Option<Finding>,
}

/// A process in the state table.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Row {
    /// `idle`, `requesting`, `in_cs`, `down`, or empty where there are no phases.
    pub phase: &'static str,
    /// The variables under the paper's names.
    pub variables: Values,
    /// The processes that it waits for.
    pub waits_for: Vec<usize>,
    /// Variables whose value is a process, such as HOLDER: name and process.
    pub points: Vec<(Cow<'static, str>, usize)>,
}

/// A message in flight.
#[derive(Clone, Debug, Serialize)]
pub struct Sent {
    /// Its number among the messages of its sender.
    pub id: u64,
    /// The sender.
    pub from: usize,
    /// The receiver.
    pub to: usize,
    /// The kind.
    pub kind: String,
    /// The kind and the contents.
    pub text: String,
    /// The step that sent it.
    pub sent: usize,
    /// It only keeps things going.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub lazy: bool,
}

/// A script that is being played, and its steps so far.
pub(super) struct Walk {
    pub(super) player: Box<dyn Player>,
    pub(super) steps: Vec<Step>,
    /// The commands of the steps, each of one event.
    pub(super) commands: Vec<Line>,
    rows: Vec<Row>,
    comments: Vec<String>,
    /// Where each message in flight was sent, by sender and number.
    sent: BTreeMap<(usize, u64), usize>,
}

impl Walk {
    /// At the start.
    pub(super) fn new(player: Box<dyn Player>) -> Self {
        let mut walk = Self {
            player,
            steps: Vec::new(),
            commands: Vec::new(),
            rows: Vec::new(),
            comments: Vec::new(),
            sent: BTreeMap::new(),
        };
        walk.push(String::new(), 0);
        walk
    }

    /// Takes the step of a line, or several where it delivers several messages.
    pub(super) fn take(&mut self, script: &Script, line: &Line) -> Result<(), Refused> {
        match &line.item {
            Item::Comment(words) => self.comments.push(words.clone()),
            Item::Expect(_) => {}
            Item::Command(Command::DeliverAll) => {
                while let Some(command) = self.next_delivery() {
                    self.act(script, command)?;
                }
            }
            Item::Command(Command::DeliverEvery { kind, from, to }) => {
                for command in self.matching(kind.as_deref(), *from, *to) {
                    self.act(script, command)?;
                }
            }
            Item::Command(command) => self.act(script, command.clone())?,
        }
        Ok(())
    }

    /// Takes one step.
    pub(super) fn act(&mut self, script: &Script, command: Command) -> Result<(), Refused> {
        let line = Line { number: 0, item: Item::Command(command.clone()) };
        let text = script.line_text(&line);
        if self.steps.len() > MOST_STEPS {
            return Err(Refused::Steps);
        }
        let before = self.player.events().len();
        self.player.act(&command).map_err(|why| Refused::Step { line: text.clone(), why })?;
        for comment in &self.comments {
            self.commands.push(Line { number: 0, item: Item::Comment(comment.clone()) });
        }
        self.commands.push(line);
        self.push(text, before);
        Ok(())
    }

    /// The comments after the last step.
    pub(super) fn last_comments(&mut self) -> Vec<String> {
        std::mem::take(&mut self.comments)
    }

    /// The delivery that `deliver all` takes next: the oldest message that is not lazy, or the one
    /// that must arrive before it on its link.
    fn next_delivery(&self) -> Option<Command> {
        let in_flight = self.player.in_flight();
        let oldest = (0..in_flight.len()).find(|&index| !self.player.is_lazy(index))?;
        let (from, to, _) = in_flight[oldest];
        let exact = delivery(&in_flight, oldest);
        let mut fork = self.player.copy();
        fork.drop_trace();
        if fork.act(&exact).is_ok() {
            return Some(exact);
        }
        let first = in_flight.iter().position(|(f, t, _)| (*f, *t) == (from, to))?;
        Some(delivery(&in_flight, first))
    }

    /// The deliveries that `deliver every` stands for, in order.
    fn matching(
        &self,
        kind: Option<&str>,
        from: Option<NodeId>,
        to: Option<NodeId>,
    ) -> Vec<Command> {
        let in_flight = self.player.in_flight();
        let meant = in_flight.iter().filter(|(f, t, message)| {
            from.is_none_or(|from| from == *f)
                && to.is_none_or(|to| to == *t)
                && kind.is_none_or(|kind| message.kind == kind)
        });
        let which = |message: &Message| match kind {
            Some(kind) => Which { kind: Some(kind.to_owned()), nth: 1 },
            None => Which { kind: Some(message.kind.to_string()), nth: 1 },
        };
        meant
            .map(|(from, to, message)| Command::Deliver {
                from: *from,
                to: *to,
                which: which(message),
            })
            .collect()
    }

    /// Records the state after a step, whose events begin at this index of the trace.
    fn push(&mut self, line: String, first_event: usize) {
        let (number, header) = (self.steps.len(), self.player.header().clone());
        let events = &self.player.events()[first_event..];
        let handled = events.first().filter(|_| number > 0);
        let received = handled.and_then(|event| match &event.what {
            What::Receive { from, message } => Some((from.index(), message.id)),
            What::Observed { from, id } => Some((from.index(), *id)),
            _ => None,
        });
        let who = handled.map(|event| event.who.index());
        let words = if number == 0 { String::new() } else { sentence(&header, events) };
        let finding = finding(self.player.as_ref(), events, self.steps.last());
        let rows = self.changed_rows();
        let in_flight = self.in_flight(number);
        let entries = self.player.entries().len();
        let comments = std::mem::take(&mut self.comments);
        self.steps.push(Step {
            line,
            comments,
            words,
            who,
            received,
            rows,
            in_flight,
            entries,
            finding,
        });
    }

    fn changed_rows(&mut self) -> BTreeMap<usize, Row> {
        let processes = self.player.header().processes.len();
        let rows: Vec<_> =
            (0..processes).map(|who| row(self.player.as_ref(), NodeId::from(who))).collect();
        let changed = rows.iter().enumerate().filter(|(who, row)| self.rows.get(*who) != Some(row));
        let changed = changed.map(|(who, row)| (who, row.clone())).collect();
        self.rows = rows;
        changed
    }

    fn in_flight(&mut self, number: usize) -> Vec<Sent> {
        let sent = &mut self.sent;
        let player = self.player.as_ref();
        let in_flight = player.in_flight().into_iter().enumerate();
        let shown = in_flight.map(|(index, (from, to, message))| Sent {
            id: message.id,
            from: from.index(),
            to: to.index(),
            kind: message.kind.to_string(),
            text: describe::shown(message),
            sent: *sent.entry((from.index(), message.id)).or_insert(number),
            lazy: player.is_lazy(index),
        });
        shown.collect()
    }
}

/// The command that delivers exactly this message.
pub(super) fn delivery(in_flight: &[(NodeId, NodeId, &Message)], index: usize) -> Command {
    let (from, to, message) = in_flight[index];
    let same = |other: &&(NodeId, NodeId, &Message)| {
        (other.0, other.1) == (from, to) && other.2.kind == message.kind
    };
    let nth = in_flight[..=index].iter().filter(same).count();
    Command::Deliver { from, to, which: Which { kind: Some(message.kind.to_string()), nth } }
}

fn row(player: &dyn Player, who: NodeId) -> Row {
    let header = player.header();
    let up = player.is_up(who);
    let fields = if up { player.variables(who) } else { Vec::new() };
    let points = fields.iter().filter_map(|(name, value)| match value {
        Value::Node(node) => Some((Cow::Borrowed(*name), node.index())),
        _ => None,
    });
    let phase = match (up, player.phase(who)) {
        (false, _) => "down",
        (true, Some(phase)) => phase.word(),
        (true, None) => "",
    };
    let waits = player.phase(who) == Some(Phase::Requesting);
    let waits_for = if waits { player.waits_for(who) } else { Vec::new() };
    Row {
        phase,
        points: points.collect(),
        variables: Values::render(&fields, &|node| header.name(node)),
        waits_for: waits_for.into_iter().map(|node| node.index()).collect(),
    }
}

/// The events of a step as one sentence: who did what.
pub(super) fn sentence(header: &crate::Header, events: &[crate::Event]) -> String {
    let Some(first) = events.first() else { return String::new() };
    let mut text = format!("{} {}", header.name(first.who), describe::verb(header, &first.what));
    for event in &events[1..] {
        let is_said = !matches!(event.what, What::Note { .. } | What::Violation { .. });
        if is_said {
            let name = if event.who == first.who {
                String::new()
            } else {
                format!("{} ", header.name(event.who))
            };
            text += &format!(", {name}{}", describe::verb(header, &event.what));
        }
    }
    text.push('.');
    text
}
