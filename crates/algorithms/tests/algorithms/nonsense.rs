//! Arbitrary messages into one process of every algorithm: it does not panic, and what it reports
//! as nonsense has changed nothing.

use std::{collections::BTreeSet, fmt::Debug, thread};

use mutua_algorithms::{
    Effect, Election, ElectionEffect, ElectionOutbox, Kind, Links, Mutex, NodeId, Outbox, Phase,
    Process, Setup, Start, Timer,
    registry::{self, ElectionVisitor, MutexVisitor},
    split_mix::Dice,
};

use crate::support::{
    garbage::{Garbage, check_message, sender, time},
    setups::{Case, variants},
};

const SEEDS: u64 = 200;
const EVENTS: usize = 300;

/// Prints the case if it panics.
struct Guard<'a>(&'a Case);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the case was {}", self.0);
        }
    }
}

/// The effects of the messages to one process.
#[derive(Debug, Default)]
struct Tally {
    received: u32,
    nonsense: u32,
    entries: u32,
}

/// The effects of one event, counted.
#[derive(Debug, Default, Eq, PartialEq)]
struct Effects {
    nonsense: u32,
    others: u32,
}

fn drain<M: Debug>(out: &mut Outbox<M>) -> Effects {
    let mut effects = Effects::default();
    out.drain(|effect| match effect {
        Effect::Nonsense { .. } => effects.nonsense += 1,
        Effect::Send { .. } | Effect::Multicast { .. } | Effect::Enter => effects.others += 1,
    });
    effects
}

fn drain_election<M: Debug>(out: &mut ElectionOutbox<M>) -> Effects {
    let mut effects = Effects::default();
    out.drain(|effect| match effect {
        ElectionEffect::Nonsense { .. } => effects.nonsense += 1,
        ElectionEffect::Send { .. }
        | ElectionEffect::Multicast { .. }
        | ElectionEffect::Elected { .. }
        | ElectionEffect::SetTimer { .. }
        | ElectionEffect::CancelTimer { .. } => effects.others += 1,
    });
    effects
}

struct FuzzMutex<'a>(&'a Case, &'a mut Tally);

impl MutexVisitor for FuzzMutex<'_> {
    type Output = ();

    fn visit<M: Mutex>(self) {
        let Self(case, tally) = self;
        let _guard = Guard(case);
        let mut dice = Dice(case.seed);
        let setup = case.setup::<M>(&mut dice);
        let start = case.start::<M>(&setup);
        let me = NodeId::from(dice.index(start.processes() as usize));
        let honest = honest_messages::<M>(me, &start, &mut dice);
        let garbage = Garbage::new(honest, start.processes());
        let mut victim = Process::<M>::new(me, &start);
        let mut out = Outbox::new();
        victim.begin(&mut out);
        drain(&mut out);
        for _ in 0..EVENTS {
            match (victim.machine().phase(), dice.index(8)) {
                (Phase::Idle, 0) if me.0 < start.contenders() => {
                    victim.request(&mut out);
                    drain(&mut out);
                }
                (Phase::InCs, 0..2) => {
                    tally.entries += 1;
                    victim.release(&mut out);
                    drain(&mut out);
                }
                (_, 7) => {
                    victim.observe(sender(start.processes(), &mut dice), time(&mut dice), &mut out);
                    drain(&mut out);
                }
                _ => receive(&mut victim, &garbage, &start, &mut dice, tally),
            }
            let _ = victim.machine().variables();
            let _ = victim.machine().waits_for();
            let _ = (victim.machine().would_enter_at_once(), victim.machine().is_at_start(&start));
        }
    }
}

fn receive<M: Mutex>(
    victim: &mut Process<M>,
    garbage: &Garbage<M::Message>,
    start: &Start,
    dice: &mut Dice,
    tally: &mut Tally,
) {
    let Some((from, message)) = garbage.message(dice) else { return };
    check_message(&message);
    let before = victim.machine().clone();
    let mut out = Outbox::new();
    victim.receive(from, time(dice), message.clone(), &mut out);
    tally.received += 1;
    let effects = drain(&mut out);
    if effects.nonsense > 0 {
        tally.nonsense += 1;
        let what = format!("{message:?} from {from} was nonsense");
        assert_eq!(effects, Effects { nonsense: 1, others: 0 }, "{what}, yet had effects");
        assert_eq!(&before, victim.machine(), "{what}, yet changed something");
    }
    if from.0 >= start.processes() || from == victim.id() {
        assert_eq!(effects.nonsense, 1, "{message:?} from {from} was taken for sense");
    }
}

/// Messages of a run in which all behave, with their senders: those to this process, twice, and
/// all others.
fn honest_messages<M: Mutex>(
    me: NodeId,
    start: &Start,
    dice: &mut Dice,
) -> Vec<(NodeId, M::Message)> {
    let mut processes: Vec<_> = start.all().map(|me| Process::<M>::new(me, start)).collect();
    let (mut sent, mut next) = (Vec::new(), 0);
    for step in 0..processes.len() + 200 {
        let mut out = Outbox::new();
        let (mut at, choice) = (dice.index(processes.len()), dice.index(4));
        if let Some(process) = processes.get_mut(step) {
            at = step;
            process.begin(&mut out);
        } else if choice == 0 && processes[at].machine().phase() == Phase::InCs {
            processes[at].release(&mut out);
        } else if choice == 1
            && at < start.contenders() as usize
            && processes[at].machine().phase() == Phase::Idle
        {
            processes[at].request(&mut out);
        } else if let Some((from, to, time, message)) = sent.get(next).cloned() {
            let to: NodeId = to;
            next += 1;
            at = to.index();
            processes[at].receive(from, time, message, &mut out);
        }
        let (from, time) = (NodeId::from(at), processes[at].time());
        out.drain(|effect| match effect {
            Effect::Send { to, message, .. } => sent.push((from, to, time, message)),
            Effect::Multicast { to, message } => {
                sent.extend(to.iter().map(|&to| (from, to, time, message.clone())));
            }
            _ => {}
        });
    }
    let times = |to: NodeId| if to == me { 2 } else { 1 };
    let messages = sent
        .into_iter()
        .flat_map(|(from, to, _, message)| std::iter::repeat_n((from, message), times(to)));
    messages.collect()
}

#[test]
fn no_message_upsets_a_mutual_exclusion_algorithm() {
    for about in registry::ALGORITHMS.iter().filter(|about| about.kind == Kind::Mutex) {
        let mut tally = Tally::default();
        for settings in variants(about) {
            for seed in 0..SEEDS {
                let settings = settings.clone();
                let case = Case { name: about.name, settings, links: Links::Any, seed };
                registry::visit_mutex(about.name, FuzzMutex(&case, &mut tally));
            }
        }
        println!("{}: {tally:?}", about.name);
        assert!(tally.nonsense > 0 && tally.nonsense < tally.received, "{}", about.name);
        assert!(tally.entries > 0, "{}", about.name);
    }
}

struct FuzzElection<'a>(&'a Case, &'a mut Tally);

impl ElectionVisitor for FuzzElection<'_> {
    type Output = ();

    fn visit<E: Election>(self) {
        let Self(case, tally) = self;
        let _guard = Guard(case);
        let mut dice = Dice(case.seed);
        let nodes = case.size(&mut dice);
        let mut setup = Setup::new(nodes);
        setup.settings = case.settings.clone();
        let start = setup.start_election::<E>().expect("any number suits");
        let me = NodeId::from(dice.index(nodes as usize));
        let mut victim = E::new(me, &start);
        let garbage = Garbage::new(Vec::new(), nodes);
        let mut timers = BTreeSet::new();
        for _ in 0..EVENTS {
            let mut out = ElectionOutbox::new();
            match (dice.index(16), timers.first().copied()) {
                (0, _) => victim.start(&mut out),
                (1, _) => {
                    timers.clear();
                    victim = E::new(me, &start);
                    victim.restart(&mut out);
                }
                (2..4, Some(timer)) => {
                    timers.remove(&timer);
                    victim.timeout(timer, &mut out);
                }
                _ => {
                    let Some((from, message)) = garbage.message(&mut dice) else { continue };
                    check_message(&message);
                    tally.received += 1;
                    deliver(&mut victim, me, from, message, nodes, &mut out);
                }
            }
            tally.nonsense += keep_timers(&mut timers, &mut out);
            let _ = (victim.coordinator(), victim.takes_part(), victim.variables());
        }
    }
}

/// Delivers a message to a process that elects, and looks whether nonsense has changed anything.
fn deliver<E: Election>(
    victim: &mut E,
    me: NodeId,
    from: NodeId,
    message: E::Message,
    nodes: u32,
    out: &mut ElectionOutbox<E::Message>,
) {
    let before = victim.clone();
    let mut shadow = victim.clone();
    let mut shadow_out = ElectionOutbox::new();
    shadow.receive(from, message.clone(), &mut shadow_out);
    let effects = drain_election(&mut shadow_out);
    if effects.nonsense > 0 {
        let what = format!("{message:?} from {from} was nonsense");
        assert_eq!(effects, Effects { nonsense: 1, others: 0 }, "{what}, yet had effects");
        assert_eq!(before, shadow, "{what}, yet changed something");
    } else {
        assert!(from.0 < nodes && from != me, "{message:?} from {from} was taken for sense");
    }
    victim.receive(from, message, out);
}

fn keep_timers<M>(timers: &mut BTreeSet<Timer>, out: &mut ElectionOutbox<M>) -> u32 {
    let mut nonsense = 0;
    out.drain(|effect| match effect {
        ElectionEffect::SetTimer { timer, .. } => {
            timers.insert(timer);
        }
        ElectionEffect::CancelTimer { timer } => {
            timers.remove(&timer);
        }
        ElectionEffect::Nonsense { .. } => nonsense += 1,
        ElectionEffect::Send { .. }
        | ElectionEffect::Multicast { .. }
        | ElectionEffect::Elected { .. } => {}
    });
    nonsense
}

#[test]
fn no_message_upsets_an_election() {
    for about in registry::ALGORITHMS.iter().filter(|about| about.kind == Kind::Election) {
        let mut tally = Tally::default();
        for settings in variants(about) {
            for seed in 0..SEEDS {
                let settings = settings.clone();
                let case = Case { name: about.name, settings, links: Links::Any, seed };
                registry::visit_election(about.name, FuzzElection(&case, &mut tally));
            }
        }
        println!("{}: {tally:?}", about.name);
        assert!(tally.nonsense > 0 && tally.nonsense < tally.received, "{}", about.name);
    }
}
