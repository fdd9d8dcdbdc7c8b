//! Judging expressions in a state.

use std::{
    cmp::Ordering,
    collections::BTreeSet,
    sync::{Arc, atomic},
};

use mutua_algorithms::NodeId;

use super::{
    Invariant,
    item::{Item, KindError, LinkView, MessageView, ProcessView, Structure, find, named},
    parser::{Comparison, Expression, Function, Quantifier},
};
use crate::{
    catalogue::Words,
    ids::{Id, LocalId, OutboxId},
    known::put,
    model::Model,
};

/// Judges the invariants of a model; one for each worker, with its own copy of what it looked up.
pub(crate) struct Judge<'a> {
    model: &'a Model,
    processes: Vec<Option<Arc<ProcessView>>>,
    links: Vec<Option<Arc<LinkView>>>,
}

/// What was met while invariants were judged, by all workers.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    /// The premise of each invariant was true somewhere.
    premises: Vec<atomic::AtomicBool>,
}

impl Judged {
    pub(crate) fn new(invariants: usize) -> Self {
        Self { premises: (0..invariants).map(|_| atomic::AtomicBool::new(false)).collect() }
    }

    fn meet(&self, invariant: usize) {
        if let Some(premise) = self.premises.get(invariant) {
            premise.store(true, atomic::Ordering::Relaxed);
        }
    }

    /// Whether the premise of an invariant was met.
    pub(crate) fn is_met(&self, invariant: usize) -> bool {
        self.premises.get(invariant).is_some_and(|premise| premise.load(atomic::Ordering::Relaxed))
    }
}

impl<'a> Judge<'a> {
    pub(crate) fn new(model: &'a Model) -> Self {
        Self { model, processes: Vec::new(), links: Vec::new() }
    }

    /// The invariants that a state violates, by their places; or which one cannot be judged, and
    /// why.
    pub(crate) fn violated(
        &mut self,
        state: &[u32],
        judged: &Judged,
    ) -> Result<Vec<usize>, (usize, KindError)> {
        let (locals, rest) = state.split_at(self.model.processes);
        let processes = locals.iter().map(|&local| self.process(LocalId(local))).collect();
        let outboxes = rest[..self.model.processes].iter();
        let links = outboxes.map(|&outbox| self.link(OutboxId(outbox))).collect();
        let situation = Situation { processes, links, structure: &self.model.structure };
        let mut violated = Vec::new();
        for (place, invariant) in self.model.invariants.iter().enumerate() {
            let mut met = false;
            let mut scope = Scope { situation: &situation, bound: Vec::new(), met: &mut met };
            if !scope.flag(&invariant.body).map_err(|why| (place, why))? {
                violated.push(place);
            }
            if met {
                judged.meet(place);
            }
        }
        Ok(violated)
    }

    fn process(&mut self, local: LocalId) -> Arc<ProcessView> {
        if let Some(Some(known)) = self.processes.get(local.index()) {
            return known.clone();
        }
        let view = Arc::new(ProcessView(named(&self.model.catalogue().variables(local))));
        put(&mut self.processes, local, view.clone());
        view
    }

    /// The messages in flight from a process. An outbox that is empty may belong to any.
    fn link(&mut self, outbox: OutboxId) -> Arc<LinkView> {
        if let Some(Some(known)) = self.links.get(outbox.index()) {
            return known.clone();
        }
        let catalogue = self.model.catalogue();
        let mut messages = Vec::new();
        for (to, link) in catalogue.contents(outbox).into_iter().enumerate() {
            messages.extend(link.into_iter().map(|packet| {
                let Words { kind, from, fields } = catalogue.words(packet);
                Arc::new(MessageView { kind, from, to: to.into(), fields: named(&fields) })
            }));
        }
        drop(catalogue);
        let view = Arc::new(LinkView(messages));
        put(&mut self.links, outbox, view.clone());
        view
    }
}

impl Invariant {
    /// The variables of processes that it names.
    pub(crate) fn variables(&self) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        self.body.visit(&mut |part| match part {
            Expression::Member(of, name) if !matches!(**of, Expression::Call(..)) => {
                names.insert(name.as_str());
            }
            Expression::Reaches(_, name, _) => {
                names.insert(name.as_str());
            }
            _ => {}
        });
        names
    }

    /// The kinds of messages that it names, in `messages(KIND)` or beside `m.kind`.
    pub(crate) fn kinds(&self) -> BTreeSet<&str> {
        let is_kind = |part: &Expression| matches!(part, Expression::Member(_, of) if of == "kind");
        let mut kinds = BTreeSet::new();
        self.body.visit(&mut |part| match part {
            Expression::Messages(Some(kind), ..) => {
                kinds.insert(kind.as_str());
            }
            Expression::Compare(_, a, b) => {
                for (one, other) in [(a, b), (b, a)] {
                    if let (true, Expression::Literal(Item::Word(word))) = (is_kind(one), &**other)
                    {
                        kinds.insert(word);
                    }
                }
            }
            _ => {}
        });
        kinds
    }

    /// Whether it says something under a condition only.
    pub(crate) fn has_premise(&self) -> bool {
        let mut found = false;
        self.body.visit(&mut |part| found |= matches!(part, Expression::Implies(..)));
        found
    }
}

impl Expression {
    fn visit<'a>(&'a self, see: &mut dyn FnMut(&'a Expression)) {
        see(self);
        match self {
            Self::Literal(_) | Self::Bound(_) => {}
            Self::Member(a, _) | Self::Not(a) => a.visit(see),
            Self::Index(a, b)
            | Self::And(a, b)
            | Self::Or(a, b)
            | Self::Implies(a, b)
            | Self::Compare(_, a, b)
            | Self::Add(a, b)
            | Self::Subtract(a, b)
            | Self::Reaches(a, _, b) => {
                a.visit(see);
                b.visit(see);
            }
            Self::Each(_, over, body) => {
                over.iter().for_each(|over| over.visit(see));
                body.visit(see);
            }
            Self::Call(_, arguments) => arguments.iter().for_each(|one| one.visit(see)),
            Self::Messages(_, from, to) => {
                from.iter().chain(to).for_each(|end| end.visit(see));
            }
        }
    }
}

/// A state as expressions see it.
struct Situation<'a> {
    processes: Vec<Arc<ProcessView>>,
    links: Vec<Arc<LinkView>>,
    structure: &'a Structure,
}

/// A state with the names that are bound.
struct Scope<'a> {
    situation: &'a Situation<'a>,
    bound: Vec<Item>,
    /// A premise was true.
    met: &'a mut bool,
}

type Evaluated = Result<Item, KindError>;

impl Scope<'_> {
    fn flag(&mut self, expression: &Expression) -> Result<bool, KindError> {
        match self.item(expression)? {
            Item::Flag(flag) => Ok(flag),
            other => Err(needed("true or false", &other)),
        }
    }

    fn item(&mut self, expression: &Expression) -> Evaluated {
        Ok(match expression {
            Expression::Literal(item) => item.clone(),
            Expression::Bound(place) => self.bound[*place].clone(),
            Expression::Member(of, name) => self.member(of, name)?,
            Expression::Index(list, index) => self.index(list, index)?,
            Expression::Not(body) => Item::Flag(!self.flag(body)?),
            Expression::And(a, b) => Item::Flag(self.flag(a)? && self.flag(b)?),
            Expression::Or(a, b) => Item::Flag(self.flag(a)? || self.flag(b)?),
            Expression::Implies(a, b) => {
                let premise = self.flag(a)?;
                *self.met |= premise;
                Item::Flag(!premise || self.flag(b)?)
            }
            Expression::Compare(comparison, a, b) => {
                let (a, b) = (self.item(a)?, self.item(b)?);
                Item::Flag(compare(*comparison, &a, &b)?)
            }
            Expression::Add(a, b) => add(self.item(a)?, self.item(b)?, 1)?,
            Expression::Subtract(a, b) => add(self.item(a)?, self.item(b)?, -1)?,
            Expression::Each(quantifier, over, body) => {
                self.each(*quantifier, over.as_deref(), body)?
            }
            Expression::Call(function, arguments) => self.call(*function, arguments)?,
            Expression::Messages(kind, from, to) => {
                self.messages(kind.as_deref(), from.as_deref(), to.as_deref())?
            }
            Expression::Reaches(from, name, to) => self.reaches(from, name, to)?,
        })
    }

    fn member(&mut self, of: &Expression, name: &str) -> Evaluated {
        match (self.item(of)?, name) {
            (Item::None, _) => Ok(Item::None),
            (Item::Node(node), _) => Ok(self.variable(node, name)?),
            (Item::Stamp(stamp), "time") => Ok(Item::Time(stamp.time)),
            (Item::Stamp(stamp), "node") => Ok(Item::Node(stamp.node)),
            (Item::Message(message), _) => Ok(part(&message, name)),
            (other, _) => Err(KindError::NoMember(other.kind(), name.to_owned())),
        }
    }

    fn variable(&self, node: NodeId, name: &str) -> Evaluated {
        let Some(process) = self.situation.processes.get(node.index()) else {
            let last = self.situation.processes.len() - 1;
            return Err(KindError::UnknownProcess { unknown: node, last });
        };
        Ok(find(&process.0, name).cloned().unwrap_or(Item::None))
    }

    fn index(&mut self, list: &Expression, index: &Expression) -> Evaluated {
        let items = match self.item(list)? {
            Item::None => return Ok(Item::None),
            Item::List(items) => items,
            other => return Err(KindError::NoItems(other.kind())),
        };
        let place = match self.item(index)? {
            Item::Node(node) => Some(node.index()),
            Item::Number(number) => usize::try_from(number).ok(),
            other => return Err(KindError::NoPlace(other.kind())),
        };
        Ok(place.and_then(|place| items.get(place).cloned()).unwrap_or(Item::None))
    }

    fn each(
        &mut self,
        quantifier: Quantifier,
        over: Option<&Expression>,
        body: &Expression,
    ) -> Evaluated {
        let items = match over {
            Some(over) => self.list(over)?,
            None => (0..self.situation.processes.len()).map(|at| Item::Node(at.into())).collect(),
        };
        let mut count = 0;
        for item in items.iter() {
            self.bound.push(item.clone());
            let found = self.flag(body);
            self.bound.pop();
            match (quantifier, found?) {
                (Quantifier::All, false) => return Ok(Item::Flag(false)),
                (Quantifier::Some, true) => return Ok(Item::Flag(true)),
                (_, found) => count += i64::from(found),
            }
        }
        Ok(match quantifier {
            Quantifier::All => Item::Flag(true),
            Quantifier::Some => Item::Flag(false),
            Quantifier::Count => Item::Number(count),
        })
    }

    /// The items of a list; none has no items.
    fn list(&mut self, expression: &Expression) -> Result<Arc<[Item]>, KindError> {
        match self.item(expression)? {
            Item::List(items) => Ok(items),
            Item::None => Ok(Arc::new([])),
            other => Err(needed("a list", &other)),
        }
    }

    fn node(&mut self, expression: &Expression) -> Result<NodeId, KindError> {
        match self.item(expression)? {
            Item::Node(node) => Ok(node),
            other => Err(needed("a process", &other)),
        }
    }

    fn call(&mut self, function: Function, arguments: &[Expression]) -> Evaluated {
        let structure = self.situation.structure;
        Ok(match (function, arguments) {
            (Function::Size, [list]) => Item::Number(self.list(list)?.len() as i64),
            (Function::First, [list]) => self.list(list)?.first().cloned().unwrap_or(Item::None),
            (Function::Neighbours, [node]) => {
                let node = self.node(node)?;
                let found = structure.neighbours.get(node.index());
                found.cloned().ok_or(KindError::NoStructure("tree, so no neighbours"))?
            }
            (Function::Quorum, [node]) => {
                let node = self.node(node)?;
                let found = structure.quorums.get(node.index());
                found.cloned().ok_or(KindError::NoStructure("quorums"))?
            }
            _ => Item::Number(self.situation.processes.len() as i64),
        })
    }

    fn messages(
        &mut self,
        kind: Option<&str>,
        from: Option<&Expression>,
        to: Option<&Expression>,
    ) -> Evaluated {
        let from = from.map(|from| self.node(from)).transpose()?;
        let to = to.map(|to| self.node(to)).transpose()?;
        let all = self.situation.links.iter().flat_map(|link| &link.0);
        let wanted = all.filter(|message| {
            kind.is_none_or(|kind| message.kind == kind)
                && from.is_none_or(|from| message.from == from)
                && to.is_none_or(|to| message.to == to)
        });
        Ok(Item::List(wanted.cloned().map(Item::Message).collect()))
    }

    fn reaches(&mut self, from: &Expression, name: &str, to: &Expression) -> Evaluated {
        let (mut here, to) = (self.node(from)?, self.node(to)?);
        for _ in 0..=self.situation.processes.len() {
            if here == to {
                return Ok(Item::Flag(true));
            }
            match self.variable(here, name)? {
                Item::Node(next) => here = next,
                Item::None => break,
                other => {
                    let (variable, found) = (name.to_owned(), other.kind());
                    return Err(KindError::NoProcess { variable, found });
                }
            }
        }
        Ok(Item::Flag(false))
    }
}

fn needed(needed: &'static str, found: &Item) -> KindError {
    KindError::Needed { needed, found: found.kind() }
}

fn part(message: &MessageView, name: &str) -> Item {
    match name {
        "kind" => Item::word(message.kind),
        "from" => Item::Node(message.from),
        "to" => Item::Node(message.to),
        name => find(&message.fields, name).cloned().unwrap_or(Item::None),
    }
}

fn compare(comparison: Comparison, a: &Item, b: &Item) -> Result<bool, KindError> {
    Ok(match comparison {
        Comparison::Equal => a.equals(b)?,
        Comparison::Unequal => !a.equals(b)?,
        Comparison::Less => a.order(b)? == Ordering::Less,
        Comparison::AtMost => a.order(b)? != Ordering::Greater,
        Comparison::Greater => a.order(b)? == Ordering::Greater,
        Comparison::AtLeast => a.order(b)? != Ordering::Less,
        Comparison::In => match b {
            Item::None => false,
            Item::List(items) => {
                let mut found = false;
                for item in items.iter() {
                    found |= a.equals(item)?;
                }
                found
            }
            other => return Err(needed("a list behind `in`", other)),
        },
    })
}

fn add(a: Item, b: Item, sign: i64) -> Evaluated {
    match (a, b) {
        (Item::Number(a), Item::Number(b)) => Ok(Item::Number(a.saturating_add(sign * b))),
        (a, b) => Err(KindError::NoSum(a.kind(), b.kind())),
    }
}
