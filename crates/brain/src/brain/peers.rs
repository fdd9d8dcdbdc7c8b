//! Peers: connections come and go, messages arrive.

use std::sync::Arc;

use super::{Brain, Seat, Standing, Timer};
use crate::{
    Connection, Effect, Hello, Level, Member, Moment, WireError,
    link::Greeting,
    wire::{Frame, Message},
};

/// Why a hello is refused. Nothing was changed; the connection should be closed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejected {
    /// Somebody of another cluster.
    #[error("it is of cluster `{theirs}`, this node of `{ours}`")]
    Cluster {
        /// Its cluster.
        theirs: String,
        /// Ours.
        ours: String,
    },
    /// It takes itself or us for somebody else.
    #[error("it says that it is member {from} and that this is member {to}; this is member {me}")]
    Member {
        /// Who it says it is.
        from: Member,
        /// Whom it wants.
        to: Member,
        /// Who this is.
        me: Member,
    },
    /// Its members or rules are not ours.
    #[error("its members or lock rules differ from this node's; they must be the same everywhere")]
    Plan,
    /// What it says of earlier messages cannot be.
    #[error(transparent)]
    Wire(#[from] WireError),
}

impl Brain {
    /// What to say first on a new connection to this member.
    pub fn hello(&mut self, to: Member) -> Vec<u8> {
        let (plan, cluster) = (self.seat.plan.digest(), self.seat.cluster.clone());
        let (from, incarnation) = (self.seat.me, self.seat.incarnation);
        let link = self.link(to);
        let (knows, received) = (link.life(), link.received());
        Hello { cluster, plan, from, to, incarnation, knows, received }.encode()
    }

    /// Somebody has said hello on a connection; an earlier one to the same member is over.
    pub fn connected(
        &mut self,
        now: Moment,
        connection: Connection,
        hello: &Hello,
    ) -> Result<Member, Rejected> {
        self.check(hello)?;
        let (peer, life) = (hello.from, self.seat.incarnation);
        let old = self.link(peer).connection;
        let greeting = self.link(peer).connect(now, connection, hello, life)?;
        if let Some(connection) = old {
            self.effects.push(Effect::Close { peer, connection });
        }
        self.ready.insert(peer);
        let text = format!("{} is connected", self.name(peer));
        self.log(Level::Info, text);
        if greeting == Greeting::Restarted {
            self.give_up_calls_to(peer);
            self.on_restart(peer);
        }
        self.review();
        Ok(peer)
    }

    fn check(&self, hello: &Hello) -> Result<(), Rejected> {
        let Seat { me, cluster, plan, .. } = &self.seat;
        if hello.cluster != *cluster {
            let (theirs, ours) = (hello.cluster.clone(), cluster.clone());
            return Err(Rejected::Cluster { theirs, ours });
        }
        let (from, to) = (hello.from, hello.to);
        if to != *me || from == *me || from.0 >= plan.members() {
            return Err(Rejected::Member { from, to, me: *me });
        }
        if hello.plan != plan.digest() {
            return Err(Rejected::Plan);
        }
        Ok(())
    }

    /// A connection is over. An older one than the present one does not matter.
    pub fn disconnected(&mut self, now: Moment, peer: Member, connection: Connection) {
        if self.link(peer).connection != Some(connection) {
            return;
        }
        self.link(peer).disconnect(now);
        let text = format!("the connection to {} is gone", self.name(peer));
        self.log(Level::Info, text);
        self.set_timer(now.after(self.seat.limits.lost_after), Timer::Lost(peer));
        self.refuse_asks_of(peer);
        self.give_up_calls_to(peer);
    }

    /// What to write to this connection now, appended to `buffer`. Says whether there was anything.
    pub fn output(&mut self, peer: Member, connection: Connection, buffer: &mut Vec<u8>) -> bool {
        let link = self.link(peer);
        link.connection == Some(connection) && link.output(buffer)
    }

    /// Bytes have arrived.
    pub fn received(&mut self, now: Moment, peer: Member, connection: Connection, bytes: &[u8]) {
        if self.link(peer).connection != Some(connection) {
            return;
        }
        let (mut decoder, tag) = self.link(peer).input(now, bytes);
        let mut result = Ok(());
        while let Some(frame) = decoder.next(tag).transpose() {
            result = frame.and_then(|frame| self.on_frame(now, peer, frame));
            if result.is_err() {
                break;
            }
        }
        self.link(peer).finish_input(decoder);
        if let Err(error) = result {
            let text = format!("{}: {error}; disconnected", self.name(peer));
            self.log(Level::Warning, text);
            self.effects.push(Effect::Close { peer, connection });
            self.disconnected(now, peer, connection);
        } else if self.link(peer).has_output() {
            self.ready.insert(peer);
        }
    }

    fn on_frame(&mut self, now: Moment, from: Member, frame: Frame<'_>) -> Result<(), WireError> {
        if let Frame::Data { message, .. } = &frame
            && self.link(from).is_next(&frame)
        {
            // Before it counts as received, so that it comes again.
            self.check_room(from, message)?;
        }
        let Some(message) = self.link(from).accept(frame)? else { return Ok(()) };
        self.check_message(from, &message).map_err(WireError::Breach)?;
        self.on_message(now, from, message);
        Ok(())
    }

    pub(super) fn on_message(&mut self, now: Moment, from: Member, message: Message<'_>) {
        match message {
            Message::Call { id, body } => return self.on_call(from, id, body),
            Message::Reply { id, body } => return self.on_reply(from, id, body),
            _ => {}
        }
        let Some(epoch) = epoch(&message) else { return self.on_view_message(from, message) };
        match &self.standing {
            Standing::In(view) if view.epoch == epoch => self.on_lock_business(now, from, message),
            // Its sender is in a view that we shall hear of.
            _ if epoch > self.view_epoch() => {
                self.council.early.push(from, &message);
            }
            // Of a view that is over.
            _ => {}
        }
    }

    /// The epoch of the view we are in or were in last.
    pub(super) fn view_epoch(&self) -> u32 {
        match &self.standing {
            Standing::In(view) => view.epoch,
            Standing::Writing(view) => view.epoch - 1,
            Standing::Apart { .. } => self.council.left,
        }
    }

    /// Handles what came early for the view that begins.
    pub(super) fn catch_up(&mut self, now: Moment) {
        let epoch_now = self.view_epoch();
        for (from, kept) in self.council.early.take() {
            let message = kept.message();
            if epoch(&message).is_none_or(|epoch| epoch < epoch_now) {
                continue;
            }
            // What is no breach in one view may be one in another, so it is looked at now.
            match self.check_message(from, &message) {
                Ok(()) => self.on_message(now, from, message),
                Err(why) => {
                    let text = format!("{} breaks the protocol: {why}; ignored", self.name(from));
                    self.log(Level::Warning, text);
                }
            }
        }
    }

    /// A message about locks, of the view we are in.
    pub(super) fn on_lock_business(&mut self, now: Moment, from: Member, message: Message<'_>) {
        match message {
            Message::Lock { name, sent, body, .. } => {
                let lock = self.lock_of(name);
                if !self.keep_if_frozen(from, lock, &message) {
                    self.on_lock_message(now, from, lock, sent, body);
                }
            }
            Message::Nudge { name, .. } => {
                let lock = self.lock_of(name);
                if !self.keep_if_frozen(from, lock, &message) {
                    self.on_nudge(now, lock);
                }
            }
            Message::Ask { id, name, waiting_counts, epoch } => {
                let busy = self.is_busy(name, waiting_counts);
                self.link(from).send(Message::Answer { epoch, id, busy });
                self.ready.insert(from);
            }
            Message::Answer { id, busy, .. } => self.on_answer(now, from, id, busy),
            Message::Forget { round, names, .. } => self.on_forget(now, from, round, &names),
            Message::Vote { home, round, second, kept, clock, .. } => {
                let vote = super::forget::Vote { second, kept, clock };
                self.on_vote(now, from, home, round, vote);
            }
            Message::Gather { .. }
            | Message::Inside { .. }
            | Message::Report { .. }
            | Message::Held { .. }
            | Message::Install { .. }
            | Message::Ended { .. }
            | Message::Call { .. }
            | Message::Reply { .. } => unreachable!("no message about locks"),
        }
    }

    /// The lock of a name that a peer speaks of.
    fn lock_of(&mut self, name: &[u8]) -> crate::LockId {
        let plan = Arc::clone(&self.seat.plan);
        self.table.find_or_make(name, || plan.rule_of(name))
    }

    /// Signs of life, ours and theirs.
    pub(super) fn beat(&mut self, now: Moment) {
        self.set_timer(now.after(self.seat.limits.heartbeat), Timer::Beat);
        let lost_after = self.seat.limits.lost_after;
        for peer in self.others() {
            let link = self.link(peer);
            let Some(connection) = link.connection else { continue };
            if now.since(link.heard) >= lost_after {
                let text = format!("{} says nothing; disconnected", self.name(peer));
                self.log(Level::Warning, text);
                self.effects.push(Effect::Close { peer, connection });
                self.disconnected(now, peer, connection);
                continue;
            }
            link.beat();
            if link.has_output() {
                self.ready.insert(peer);
            }
        }
    }
}

/// The epoch of a message about locks.
pub(super) fn epoch(message: &Message<'_>) -> Option<u32> {
    match *message {
        Message::Lock { epoch, .. }
        | Message::Nudge { epoch, .. }
        | Message::Ask { epoch, .. }
        | Message::Answer { epoch, .. }
        | Message::Forget { epoch, .. }
        | Message::Vote { epoch, .. } => Some(epoch),
        Message::Gather { .. }
        | Message::Inside { .. }
        | Message::Report { .. }
        | Message::Held { .. }
        | Message::Install { .. }
        | Message::Ended { .. }
        | Message::Call { .. }
        | Message::Reply { .. } => None,
    }
}

/// A message kept for later.
#[derive(Debug)]
pub(crate) struct Kept(Vec<u8>);

impl Kept {
    pub(crate) fn of(message: &Message<'_>) -> Self {
        Self(postcard::to_allocvec(message).expect("a message is plain data"))
    }

    /// About how much memory it takes.
    pub(crate) fn size(&self) -> usize {
        self.0.len() + 64
    }

    pub(crate) fn message(&self) -> Message<'_> {
        postcard::from_bytes(&self.0).expect("what was encoded here")
    }
}
