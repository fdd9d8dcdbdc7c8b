//! The steps that need no settings: decisions, leases, crashes, holds and the client.

use std::collections::BTreeSet;

use mutua_protocol::views::{Client, Command, DecidedView, MemberId, Record, Stage, ViewNumber};

use super::{Content, Held, HeldFor, NAME, Node, State, UNIT, Word, one};

pub(super) fn client() -> Client {
    Client { session: 7, ttl: UNIT, value: Vec::new() }
}

/// The view of the members that have a bit set, in these incarnations.
pub(super) fn view_of(number: u64, members: u64, incarnations: &[u64]) -> DecidedView {
    let all = incarnations.iter().enumerate();
    let members: BTreeSet<_> = all
        .filter(|(node, _)| members & (1 << node) != 0)
        .map(|(node, &incarnation)| one(node, incarnation))
        .collect();
    DecidedView {
        number: ViewNumber(number),
        epoch: 1,
        keepers: members.clone(),
        members,
        voters: (1..=incarnations.len() as u64).map(MemberId).collect(),
        rules: 0,
        level: 0,
    }
}

pub(super) fn decide(state: &mut State, members: u64) -> bool {
    let Some(rest) = state.left.views.checked_sub(1) else { return false };
    let incarnations: Vec<_> = state.nodes.iter().map(|node| node.incarnation).collect();
    let last = state.decided.last().expect("a view");
    let view = view_of(last.number.0 + 1, members, &incarnations);
    if last.members == view.members {
        return false;
    }
    state.left.views = rest;
    let command = Command::View(view);
    state.decided.apply(&command);
    state.log.push(command);
    true
}

pub(super) fn end_process_holds(node: &mut Node) {
    if matches!(&node.held, Some(held) if !matches!(held.held_for, HeldFor::Client { .. })) {
        node.held = None;
    }
}

/// Whether a view that the node has not learned of is decided without it.
pub(super) fn is_removed_later(state: &State, node: usize) -> bool {
    let (me, known) = (state.me(node), state.nodes[node].state.last_number());
    state.decided.views().any(|one| one.number > known && !one.concerns(me))
}

/// The lease of a node that a later view removes ends, before it has learned of that.
pub(super) fn lapse(state: &mut State, node: usize) -> bool {
    let removed = is_removed_later(state, node);
    let known = &mut state.nodes[node];
    if known.view.is_none() || known.lapsed || !removed {
        return false;
    }
    known.lapsed = true;
    end_process_holds(known);
    true
}

pub(super) fn crash(state: &mut State, node: usize) -> bool {
    let Some(rest) = state.left.crashes.checked_sub(1) else { return false };
    state.left.crashes = rest;
    let Node { incarnation, learned, state: decided, leases_until, .. } = state.nodes[node].clone();
    state.nodes[node] = Node {
        incarnation: incarnation + 1,
        learned,
        state: decided,
        leases_until,
        ..Node::default()
    };
    true
}

/// All keepers have the record: the client holds the lock, if its node may still grant.
pub(super) fn recorded(state: &mut State, node: usize, record: &Record) {
    let may = state.may_grant(node).is_some();
    let held = state.nodes[node].held.as_ref();
    let same = |held: &&Held| held.token == record.token && held.held_for == HeldFor::Recording;
    if held.filter(same).is_some() && may {
        state.enter(record.token);
        let expires = state.bound(node);
        let held_for = HeldFor::Client { expires };
        state.nodes[node].held = Some(Held { token: record.token, held_for });
        state.client = Some((record.token, expires));
    }
}

pub(super) fn drop_guard(state: &mut State, node: usize) -> bool {
    let guard = |held: &Held| held.held_for == HeldFor::Guard;
    state.nodes[node].held.as_ref().is_some_and(guard) && {
        let_go(state, node);
        true
    }
}

/// The lock is held here no more; in a view that has begun it is free.
pub(super) fn let_go(state: &mut State, node: usize) {
    let me = state.me(node);
    let held = state.nodes[node].held.take().expect("held");
    if held.held_for != HeldFor::Guard {
        state.nodes[node].host.over(NAME, held.token);
    }
    if let Some(view) = state.may_grant(node) {
        let lock = state.locks.get_mut(&view).expect("begun");
        if lock.holder == Some(me) {
            lock.holder = None;
        }
    }
    flush(state, node);
}

/// Tells the keepers of holds that are over.
pub(super) fn flush(state: &mut State, node: usize) {
    let Some(view) = state.nodes[node].view.clone() else { return };
    if state.nodes[node].stage != Stage::Begun {
        return;
    }
    let from = state.me(node);
    for (_, token) in state.nodes[node].host.take_over() {
        for &to in view.keepers.iter().filter(|&&to| to != from) {
            let content = Content::Over(token);
            state.send(Word { view: view.number, from, to, content });
        }
        if view.keepers.contains(&from) {
            state.nodes[node].keeper.drop(from, NAME, token);
        }
    }
}

pub(super) fn hosts(state: &State, node: usize) -> Option<u64> {
    let held = state.nodes[node].held.as_ref()?;
    let HeldFor::Client { expires } = held.held_for else { return None };
    Some(expires)
}

/// The client releases the lock at the node that serves it.
pub(super) fn release(state: &mut State, node: usize) -> bool {
    let Some((token, _)) = state.client else { return false };
    let same = state.nodes[node].held.as_ref().is_some_and(|held| held.token == token);
    if hosts(state, node).is_none() || !same {
        return false;
    }
    state.client = None;
    let_go(state, node);
    true
}

pub(super) fn renew(state: &mut State, node: usize) -> bool {
    let (Some((token, until)), Some(expires)) = (state.client, hosts(state, node)) else {
        return false;
    };
    let known = &state.nodes[node];
    let same = known.held.as_ref().is_some_and(|held| held.token == token);
    let news = until.max(expires) <= state.now || until.min(expires) < state.now + 1;
    // As `ViewLayer::may_renew` has it.
    let me = state.me(node);
    let contains =
        |view: &DecidedView| view.number <= known.last_begun || view.members.contains(&me);
    let hosts = known.stage == Stage::Begun || known.state.views().all(contains);
    let may = known.view.is_some() && !known.lapsed && hosts;
    if !may || !same || !news || expires <= state.now {
        return false;
    }
    let expires = state.bound(node);
    state.nodes[node].held = Some(Held { token, held_for: HeldFor::Client { expires } });
    state.client = Some((token, expires));
    true
}

/// The session has expired at its node.
pub(super) fn expire(state: &mut State, node: usize) -> bool {
    hosts(state, node).is_some_and(|expires| expires <= state.now) && {
        let_go(state, node);
        true
    }
}

pub(super) fn pass_unit(state: &mut State) -> bool {
    let Some(rest) = state.left.units.checked_sub(1) else { return false };
    state.left.units = rest;
    state.now += 1;
    state.client = state.client.filter(|(_, until)| *until > state.now);
    true
}
