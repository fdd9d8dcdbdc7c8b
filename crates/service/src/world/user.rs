//! Users: somebody who wants a lock, runs a command with it, and wants the next one.

use std::time::Duration;

use super::{Event, FAULTS, NAMES, Stream, World};
use crate::{
    Moment,
    client::{
        self, Wish,
        session::{Effect, Next, Session},
    },
    proto::v1::{self, reply::Answer},
};

/// What a user is to its command.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Command {
    #[default]
    None,
    Runs,
    /// It has been told to end.
    Lost,
}

#[derive(Default)]
pub(super) struct User {
    session: Option<Session>,
    /// Counts its wishes, and what it wants now.
    pub(super) wish: u64,
    name: usize,
    guarded: bool,
    /// Its stream, if there is one.
    stream: Option<usize>,
    id: i64,
    command: Command,
    good_until: Moment,
    wake: Moment,
    /// Until when it is stopped.
    pub(super) stopped: Moment,
    done: bool,
}

impl User {
    pub(super) fn is_inside(&self, now: Moment, name: usize) -> bool {
        self.command != Command::None && self.name == name && now < self.good_until
    }

    /// A guard whose user is dead is not stopped.
    pub(super) fn lives(&self) -> bool {
        self.session.is_some()
    }

    pub(super) fn is_done(&self) -> bool {
        self.done && self.command == Command::None
    }
}

impl World {
    pub(super) fn user_wishes(&mut self, user: usize) {
        let one = &mut self.users[user];
        one.session = None;
        if self.now > FAULTS.after(Duration::from_secs(20)) {
            one.done = true;
            return;
        }
        one.wish += 1;
        one.name = usize::from(self.dice.one_in(4));
        one.guarded = !self.dice.one_in(3);
        (one.stream, one.id, one.wake) = (None, 0, Moment::NEVER);
        let wait = match self.dice.below(4) {
            0 => Some(Duration::ZERO),
            1 => Some(self.dice.millis(3000)),
            _ => None,
        };
        let wish = Wish {
            name: NAMES[one.name].to_vec(),
            wait,
            // Mostly alike, as defaults are.
            ttl: Duration::from_millis([500, 2000, 2000, 6000][self.dice.below(4) as usize]),
            client: v1::Client::default(),
            guarded: one.guarded,
            place: None,
        };
        self.users[user].session = Some(Session::new(self.now, wish));
        self.user_looks_for_the_node(user);
    }

    fn user_looks_for_the_node(&mut self, user: usize) {
        let wish = self.users[user].wish;
        let wait = Duration::from_millis(1) + self.dice.latency();
        self.after(wait, Event::UserConnects { user, wish });
        self.user_plays(user);
    }

    pub(super) fn user_connects(&mut self, user: usize, wish: u64) {
        if self.session_of(user, wish).is_none() {
            return;
        }
        let (now, life) = (self.now, self.life);
        if self.node.is_none() {
            // Who finds no node starts it, and looks again.
            return self.user_looks_for_the_node(user);
        }
        let stream = self.streams.len();
        self.users[user].stream = Some(stream);
        self.streams.push(Stream {
            user,
            wish,
            life,
            last: [now; 2],
            broken: false,
            cut: [false; 2],
        });
        if self.now < FAULTS && self.dice.one_in(8) {
            self.later(20, Event::Breaks { stream });
        }
        let next = session_of(&mut self.users[user].session).attached(now);
        self.user_goes_on(user, next);
    }

    pub(super) fn user_hears(&mut self, stream: usize, answer: Option<Answer>) {
        let Stream { user, wish, .. } = self.streams[stream];
        if self.users[user].stream != Some(stream) || self.session_of(user, wish).is_none() {
            return;
        }
        if self.streams[stream].cut[1] && answer.is_some() {
            return;
        }
        let now = self.now;
        let session = session_of(&mut self.users[user].session);
        let next = match answer {
            Some(answer) => session.heard(now, answer),
            None => Some(session.broken(now, "closed".to_owned())),
        };
        self.user_goes_on(user, next);
    }

    pub(super) fn user_wakes(&mut self, user: usize, wish: u64) {
        if self.session_of(user, wish).is_none() {
            return;
        }
        let now = self.now;
        let one = &mut self.users[user];
        one.wake = Moment::NEVER;
        let next = session_of(&mut one.session).tick(now);
        self.user_goes_on(user, next);
    }

    /// Its command has ended.
    pub(super) fn user_leaves(&mut self, user: usize, wish: u64) {
        if self.users[user].wish != wish {
            return;
        }
        self.users[user].command = Command::None;
        self.note(format!("user {user} leaves"));
        if self.session_of(user, wish).is_some() {
            let next = session_of(&mut self.users[user].session).leave();
            self.user_goes_on(user, next);
        }
    }

    /// The process is killed. Its guard ends the command in time, if it has one.
    pub(super) fn user_dies(&mut self, user: usize) {
        let one = &mut self.users[user];
        if one.session.take().is_none() {
            return;
        }
        one.stopped = Moment::ZERO;
        let (stream, id, guarded) = (one.stream.take(), one.id, one.guarded);
        let runs = one.command != Command::None;
        self.note(format!("user {user} dies"));
        self.counts.deaths += 1;
        if let Some(stream) = stream {
            self.break_stream(stream);
        }
        if !(guarded && runs) {
            self.users[user].command = Command::None;
            return self.later(3000, Event::UserWishes { user });
        }
        let rest = self.users[user].good_until.since(self.now);
        let wait = rest.min(self.dice.millis(1000));
        let wish = self.users[user].wish;
        self.after(wait, Event::UserLeaves { user, wish });
        self.after(wait, Event::UserWishes { user });
        if !self.dice.one_in(4) {
            let wait = wait + self.dice.latency();
            self.after(wait, Event::GuardSaysGoodbye { session: id });
        }
    }

    fn session_of(&mut self, user: usize, wish: u64) -> Option<()> {
        let one = &self.users[user];
        one.session.as_ref().filter(|_| one.wish == wish).map(|_| ())
    }

    fn user_goes_on(&mut self, user: usize, next: Option<Next>) {
        self.user_plays(user);
        let Some(next) = next else { return };
        if let Some(stream) = self.users[user].stream.take() {
            self.break_stream(stream);
        }
        match next {
            Next::Done => {
                self.users[user].session = None;
                if self.users[user].command != Command::None {
                    self.fails(&format!("user {user} has heard the last word and is inside"));
                }
                self.later(3000, Event::UserWishes { user });
            }
            Next::Again => {
                self.counts.again += 1;
                self.user_looks_for_the_node(user);
            }
            Next::WaitToLeave => {}
        }
    }

    fn user_plays(&mut self, user: usize) {
        let stream = self.users[user].stream;
        for effect in session_of(&mut self.users[user].session).take_effects() {
            match (effect, stream) {
                (Effect::Ask(ask), Some(stream)) => self.send_to_node(stream, Some(ask)),
                (Effect::Ask(ask), None) => self.fails(&format!("{ask:?} is said to nobody")),
                (Effect::Tell(event), _) => self.user_learns(user, event),
            }
        }
        let wake = session_of(&mut self.users[user].session).wake_at();
        if wake < self.users[user].wake {
            let wish = self.users[user].wish;
            self.users[user].wake = wake;
            let wait = wake.since(self.now);
            self.after(wait, Event::UserWakes { user, wish });
        }
    }

    fn user_learns(&mut self, user: usize, event: client::Event) {
        use client::Event::{GoodUntil, Granted, Left, Lost, Note, Opened, Refused, Unreachable};
        self.note(format!("user {user} learns {event:?}"));
        let (now, wish) = (self.now, self.users[user].wish);
        let one = &mut self.users[user];
        match event {
            Opened { session, .. } => one.id = session,
            GoodUntil(_) | Granted { .. } if one.command == Command::Lost => {
                self.fails(&format!("user {user} has lost the lock and learns {event:?}"));
            }
            GoodUntil(until) => one.good_until = until,
            Granted { fence, .. } => {
                one.command = Command::Runs;
                let last = std::mem::replace(&mut self.told[one.name], fence);
                if last >= fence {
                    self.fails(&format!("user {user} is inside with {fence} after {last}"));
                }
                self.counts.entries += 1;
                self.later(4000, Event::UserLeaves { user, wish });
            }
            Lost(_) if one.command == Command::Runs => {
                one.command = Command::Lost;
                let rest = one.good_until.since(now);
                let wait = rest.min(self.dice.millis(6000));
                self.counts.losses += 1;
                self.after(wait, Event::UserLeaves { user, wish });
            }
            Lost(_) => self.fails(&format!("user {user} has lost what it never had")),
            Refused(_) => self.after(Duration::ZERO, Event::UserLeaves { user, wish }),
            Left | Unreachable(_) | Note(_) | client::Event::Waiting(_) => {}
        }
    }
}

/// Who has events has a session.
fn session_of(session: &mut Option<Session>) -> &mut Session {
    session.as_mut().expect("it has a session")
}
