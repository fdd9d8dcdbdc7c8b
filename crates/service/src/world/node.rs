//! The node: a desk, and locks that one at a time is let into.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use super::{Event, World};
use crate::{
    Moment,
    desk::{
        AskId, Desk, Effect, How, Name, Opening, Outcome, Patience, SessionId, Settings, WaitId,
    },
    proto::v1::{self, reply::Answer, request::Ask},
    server::memory::Record,
};

pub(super) struct Node {
    pub(super) desk: Desk,
    /// Who has been let in, and who waits for it.
    inside: BTreeMap<Name, AskId>,
    asked: VecDeque<(AskId, Name)>,
    /// The streams of sessions, and the sessions of streams.
    clients: BTreeMap<SessionId, Vec<usize>>,
    sessions: BTreeMap<usize, SessionId>,
    waiters: BTreeMap<WaitId, (u64, SessionId)>,
    wake: Moment,
}

impl World {
    pub(super) fn node_starts(&mut self) {
        if self.node.is_some() {
            return;
        }
        self.life += 1;
        let seed = u32::try_from(self.life).expect("few lives");
        let unclean = self.disk.quarantine(self.now);
        self.disk = Record::of_quarantine(self.now, unclean);
        self.note(format!("the node starts; leases of {unclean:?} may be out there"));
        self.node = Some(Node {
            desk: Desk::new(self.now, Settings::default(), unclean, seed),
            inside: BTreeMap::new(),
            asked: VecDeque::new(),
            clients: BTreeMap::new(),
            sessions: BTreeMap::new(),
            waiters: BTreeMap::new(),
            wake: Moment::NEVER,
        });
        self.settle();
        self.later(1000, Event::NodeForgets { life: self.life });
    }

    pub(super) fn node_dies(&mut self) {
        if self.node.take().is_none() {
            return;
        }
        self.note("the node dies".to_owned());
        let streams: Vec<_> = (0..self.streams.len())
            .filter(|&stream| self.streams[stream].life == self.life)
            .collect();
        for stream in streams {
            self.break_stream(stream);
        }
        self.later(2000, Event::NodeStarts);
    }

    fn node_of(&mut self, life: u64) -> Option<&mut Node> {
        self.node.as_mut().filter(|_| self.life == life)
    }

    pub(super) fn node_wakes(&mut self, life: u64) {
        let now = self.now;
        if let Some(node) = self.node_of(life) {
            node.wake = Moment::NEVER;
            node.desk.tick(now);
            self.settle();
        }
    }

    pub(super) fn node_forgets(&mut self, life: u64) {
        let now = self.now;
        if let Some(node) = self.node_of(life) {
            node.desk.forget_leases(now);
            self.settle();
            self.after(Duration::from_secs(1), Event::NodeForgets { life });
        }
    }

    /// One who waits for a lock that is free is let in.
    pub(super) fn node_answers(&mut self, life: u64) {
        let (now, fence) = (self.now, self.fence + 1);
        let Some(node) = self.node_of(life) else { return };
        let free = |(_, name): &(AskId, Name)| !node.inside.contains_key(name);
        let Some(index) = node.asked.iter().position(free) else { return };
        let (ask, name) = node.asked.remove(index).expect("just seen");
        node.inside.insert(name, ask);
        node.desk.granted(now, ask, fence);
        self.fence = fence;
        self.settle();
    }

    pub(super) fn node_hears(&mut self, stream: usize, ask: Option<Ask>) {
        let now = self.now;
        let life = self.streams[stream].life;
        let cut = self.streams[stream].cut[0];
        let Some(node) = self.node_of(life) else { return };
        let session = node.sessions.get(&stream).copied();
        match (ask, session) {
            (None, Some(session)) => {
                node.sessions.remove(&stream);
                let streams = node.clients.get_mut(&session);
                let last = streams.is_some_and(|streams| {
                    streams.retain(|other| *other != stream);
                    streams.is_empty()
                });
                if last {
                    node.clients.remove(&session);
                    node.desk.detach(now, session);
                }
            }
            (Some(_), _) if cut => {}
            (Some(Ask::Hello(hello)), None) => return self.node_welcomes(stream, hello),
            (Some(Ask::Acquire(v1::Acquire { id, name, wait_ms, .. })), Some(session)) => {
                let patience = match wait_ms {
                    None => Patience::Forever,
                    Some(0) => Patience::Try,
                    Some(wait) => Patience::Until(now.after(Duration::from_millis(wait))),
                };
                let wait = node.desk.acquire(now, session, &name, patience);
                node.waiters.insert(wait, (id, session));
            }
            (Some(Ask::Renew(v1::Renew { number })), Some(session)) => {
                let good_for = node.desk.renew(now, session).unwrap_or_default();
                let good_for_ms = millis(good_for);
                let renewed = Answer::Renewed(v1::Renewed { number, good_for_ms });
                self.tell(session, renewed);
            }
            (Some(Ask::Goodbye(_)), Some(session)) => drop(node.desk.close(now, session)),
            (other, _) => drop(other),
        }
        self.settle();
    }

    fn node_welcomes(&mut self, stream: usize, hello: v1::Hello) {
        let now = self.now;
        let node = self.node.as_mut().expect("it hears");
        let opening = Opening {
            ttl: Duration::from_millis(hello.ttl_ms),
            guarded: hello.guarded,
            ..Opening::default()
        };
        let come = node.desk.come(now, SessionId(hello.session), opening);
        let (session, ttl) = come.expect("a lease that can be");
        let claims = hello.claims.len() as u64;
        let refused = hello
            .claims
            .into_iter()
            .filter(|v1::Claim { name, fence }| !node.desk.claim(now, session, name, *fence));
        let welcome = v1::Welcome {
            session: session.0,
            good_for_ms: millis(ttl),
            refused: refused.collect(),
            ..Default::default()
        };
        node.clients.entry(session).or_default().push(stream);
        node.sessions.insert(stream, session);
        self.counts.claims += claims;
        self.counts.refused_claims += welcome.refused.len() as u64;
        self.send_to_user(stream, Some(Answer::Welcome(welcome)));
        self.settle();
    }

    pub(super) fn guard_says_goodbye(&mut self, session: i64) {
        let now = self.now;
        if let Some(node) = &mut self.node {
            node.desk.close(now, SessionId(session));
            self.settle();
        }
    }

    pub(super) fn breaks_a_lock(&mut self, name: &[u8]) {
        let now = self.now;
        let Some(node) = &mut self.node else { return };
        if let Some(rest) = node.desk.break_grant(now, name, None, "broken".to_owned()) {
            self.note(format!("{} is broken, others wait {rest:?}", name.escape_ascii()));
            self.counts.breaks += 1;
            self.settle();
        }
    }

    /// Tells a client that is connected.
    fn tell(&mut self, session: SessionId, answer: Answer) {
        let node = self.node.as_ref().expect("it tells");
        for stream in node.clients.get(&session).cloned().unwrap_or_default() {
            if !self.streams[stream].broken {
                self.send_to_user(stream, Some(answer.clone()));
            }
        }
    }

    /// Does what the desk wants done.
    fn settle(&mut self) {
        while let Some(node) = &mut self.node {
            let effects = node.desk.take_effects();
            if effects.is_empty() {
                break;
            }
            for effect in effects {
                self.play(effect);
            }
        }
        let Some(node) = &mut self.node else { return };
        let wake = node.desk.wake_at();
        if wake < node.wake {
            node.wake = wake;
            let wait = wake.since(self.now);
            self.after(wait, Event::NodeWakes { life: self.life });
        }
    }

    fn play(&mut self, effect: Effect) {
        let life = self.life;
        if !matches!(effect, Effect::Changed { .. }) {
            self.note(format!("  the node wants {effect:?}"));
        }
        let node = self.node.as_mut().expect("its effect");
        match effect {
            Effect::Ask { ask, name, how } => self.node_is_asked(ask, name, how),
            Effect::Drop { ask } => {
                node.inside.retain(|_, inside| *inside != ask);
                node.asked.retain(|asked| asked.0 != ask);
                self.later(5, Event::NodeAnswers { life });
            }
            Effect::Answer { wait, outcome } => self.node_answers_client(wait, outcome),
            Effect::Lost { session, name, fence, reason } => {
                let lost = v1::Lost { name: name.to_vec(), fence, reason };
                self.tell(session, Answer::Lost(lost));
            }
            Effect::Ended { session } => {
                self.tell(session, Answer::Farewell(v1::Farewell {}));
                self.node.as_mut().expect("its effect").clients.remove(&session);
            }
            Effect::Remember { longest } => self.disk = Record { longest, until: Moment::ZERO },
            Effect::Join | Effect::Changed { .. } => {}
        }
    }

    fn node_is_asked(&mut self, ask: AskId, name: Name, how: How) {
        let (now, life, next) = (self.now, self.life, self.fence + 1);
        let node = self.node.as_mut().expect("its effect");
        let free = !node.inside.contains_key(&name) && !node.asked.iter().any(|one| one.1 == name);
        match how {
            How::Try if !free => node.desk.refused(now, ask, None),
            How::Try | How::Claim(_) if free => {
                node.inside.insert(name, ask);
                node.desk.granted(now, ask, next);
                self.fence = next;
            }
            How::Try | How::Wait | How::Claim(_) => {
                node.asked.push_back((ask, name));
                self.later(5, Event::NodeAnswers { life });
            }
        }
    }

    fn node_answers_client(&mut self, wait: WaitId, outcome: Outcome) {
        let node = self.node.as_mut().expect("its effect");
        let Some((id, session)) = node.waiters.remove(&wait) else { return };
        let answer = match outcome {
            Outcome::Granted { fence, .. } | Outcome::Already { fence } => {
                Answer::Granted(v1::Granted { id, fence, ..Default::default() })
            }
            Outcome::NoSession => return,
            _ => Answer::Refused(v1::Refused { id, ..Default::default() }),
        };
        self.tell(session, answer);
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).expect("short")
}
