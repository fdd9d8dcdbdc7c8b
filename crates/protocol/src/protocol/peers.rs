//! Peers: connections open and close, messages arrive.

use std::{sync::Arc, time::Duration};

use super::{Protocol, ProtocolConfig, Timer, ViewSource, ViewState};
use crate::{
    Connection, Effect, Hello, HelloRefused, Level, Member, Moment, WireError,
    link::{Greeting, Ours},
    views::Levels,
    wire::{Frame, Message},
};

/// The pause before a conflict that goes on is logged again.
const LOG_AGAIN: Duration = Duration::from_secs(600);

/// Why a hello is refused. Nothing was changed; the connection should be closed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejected {
    /// It is a node of another cluster.
    #[error("it is in cluster `{theirs}`, this node is in `{ours}`")]
    Cluster {
        /// The cluster in the hello.
        theirs: String,
        /// This node's cluster.
        ours: String,
    },
    /// It runs as another member, or wants another one, than it can.
    #[error("its hello is from member {from} to member {to}, and this is member {me}")]
    Member {
        /// The member in the hello that sends it.
        from: Member,
        /// The member in the hello that is to receive it.
        to: Member,
        /// This member.
        me: Member,
    },
    /// Its cluster or rules differ from this node's.
    #[error(
        "its lock rules, its view lease, or the cluster that its data directory belongs to, differ \
         from this node's"
    )]
    Plan,
    /// It cannot use the level that the cluster has decided.
    #[error(
        "it can use {theirs} of the protocol, and the cluster has decided level {level}: upgrade it"
    )]
    Outgrown {
        /// The levels that it can use.
        theirs: Levels,
        /// The level of the last view.
        level: u16,
    },
    /// It and this node have no level in common.
    #[error("it can use {theirs} of the protocol, and this node {ours}: upgrade the older one")]
    Levels {
        /// The levels that it can use.
        theirs: Levels,
        /// The levels that this node can use.
        ours: Levels,
    },
    /// This node is not in a cluster yet.
    #[error("this node is not in a cluster yet")]
    NotYet,
    /// The member was removed from the cluster.
    #[error("it was removed from the cluster")]
    Removed,
    /// Another process runs as the member that the hello names.
    #[error("it runs as member {name}, and so does another process, to which this node is linked")]
    Conflict {
        /// The member.
        member: Member,
        /// Its name.
        name: String,
    },
    /// A later process has run as the member that the hello names.
    #[error("a later process than this one has run as member {name}")]
    Outdated {
        /// The member's name.
        name: String,
        /// The incarnation of the later process.
        known: u64,
    },
    /// The hello acknowledges messages that were never sent.
    #[error(transparent)]
    Wire(#[from] WireError),
}

impl Rejected {
    /// The answer to the hello; `address` is where the other process of a conflict is connected
    /// from, if that is known.
    pub fn answer(&self, address: Option<String>) -> Vec<u8> {
        let refused = match self {
            Self::Conflict { .. } => {
                HelloRefused::Conflict { address: address.unwrap_or_default() }
            }
            Self::Outdated { known, .. } => HelloRefused::Outdated { known: *known },
            Self::Removed => HelloRefused::Removed,
            other => HelloRefused::Other { why: other.to_string() },
        };
        refused.encode()
    }
}

impl Protocol {
    /// The first bytes on a new connection to this member: the hello.
    pub fn hello(&mut self, to: Member) -> Vec<u8> {
        let (plan, cluster) = (self.rules_digest(), self.config.cluster.clone());
        let (from, incarnation) = (self.config.me, self.config.incarnation);
        if !self.has_link(to) {
            // It was removed while it was dialled.
            return HelloRefused::Removed.encode();
        }
        let levels = self.levels();
        let link = self.link(to);
        let (session, received) = (link.session(), link.received());
        Hello { cluster, plan, from, to, incarnation, session, received, levels }.encode()
    }

    /// A peer's hello has arrived on a connection, which replaces an earlier one to the same
    /// member. If our own hello is the answer, make it after this call.
    pub fn connected(
        &mut self,
        now: Moment,
        connection: Connection,
        hello: &Hello,
    ) -> Result<Member, Rejected> {
        self.check(hello)?;
        let peer = hello.from;
        // Of two members the later one dials.
        let ours = Ours { incarnation: self.config.incarnation, dials: peer < self.config.me };
        if self.is_taken(now, peer, hello.incarnation) {
            let name = self.name(peer).to_owned();
            return Err(Rejected::Conflict { member: peer, name });
        }
        let known = self.link(peer).incarnation();
        if self.config.views.is_decided() && hello.incarnation < known {
            // Views count incarnations, and the earlier one may hold nothing any more.
            let name = self.name(peer).to_owned();
            return Err(Rejected::Outdated { name, known });
        }
        self.conflicts.remove(&peer);
        let old = self.link(peer).connection;
        let earlier = self.link(peer).incarnation();
        let greeting = self.link(peer).connect(now, connection, hello, ours)?;
        if let Some(connection) = old {
            self.effects.push(Effect::Close { peer, connection });
        }
        self.ready.insert(peer);
        let text = format!("{} is connected", self.name(peer));
        self.log(Level::Info, text);
        if greeting == Greeting::Restarted {
            self.give_up_calls_to(peer);
            self.on_restart(peer, earlier);
        }
        self.on_linked(now, peer);
        self.propose_view();
        Ok(peer)
    }

    /// Whether another incarnation of a member still counts as running.
    fn is_taken(&self, now: Moment, peer: Member, incarnation: u64) -> bool {
        let link = self.links.get(peer.index()).and_then(Option::as_ref);
        let lost_after = self.config.limits.lost_after;
        link.is_some_and(|link| link.is_taken(now, incarnation, lost_after))
    }

    /// Whether calls of this incarnation must be refused: another process runs as the member, or a
    /// later one has.
    pub fn is_conflict(&self, now: Moment, peer: Member, incarnation: u64) -> bool {
        let link = self.links.get(peer.index()).and_then(Option::as_ref);
        let later = link.is_some_and(|link| link.incarnation() > incarnation);
        later || self.is_taken(now, peer, incarnation)
    }

    /// The number of this start of the member.
    pub fn incarnation(&self) -> u64 {
        self.config.incarnation
    }

    fn check(&self, hello: &Hello) -> Result<(), Rejected> {
        let ProtocolConfig { me, cluster, .. } = &self.config;
        if hello.cluster != *cluster {
            let (theirs, ours) = (hello.cluster.clone(), cluster.clone());
            return Err(Rejected::Cluster { theirs, ours });
        }
        if matches!(self.config.views, ViewSource::Unknown { .. }) {
            return Err(Rejected::NotYet);
        }
        if hello.plan != self.rules_digest() {
            return Err(Rejected::Plan);
        }
        self.check_levels(hello.levels)?;
        let (from, to) = (hello.from, hello.to);
        // While a view that names it is remembered, its words end that view.
        if self.was_removed(from) && !self.has_link(from) {
            return Err(Rejected::Removed);
        }
        if to != *me || from == *me || !self.has_link(from) {
            return Err(Rejected::Member { from, to, me: *me });
        }
        Ok(())
    }

    /// The levels that this node can use.
    pub fn levels(&self) -> Levels {
        self.view_layer().map_or(Levels::HERE, |layer| layer.levels())
    }

    /// How long view leases last; `None` with the fixed list, where there are none.
    pub fn view_lease(&self) -> Option<Duration> {
        self.view_layer().map(|layer| layer.lease_time())
    }

    /// Whether a node that can use these levels may be a member.
    ///
    /// # Errors
    ///
    /// [`Rejected::Outgrown`] or [`Rejected::Levels`].
    pub fn check_levels(&self, theirs: Levels) -> Result<(), Rejected> {
        let ours = self.levels();
        let last = self.view_layer().and_then(|layer| layer.state().last());
        match last.map(|last| last.level) {
            Some(level) if !theirs.contains(level) => Err(Rejected::Outgrown { theirs, level }),
            _ if !theirs.overlaps(ours) => Err(Rejected::Levels { theirs, ours }),
            _ => Ok(()),
        }
    }

    /// A peer has answered our hello with a refusal. While another process runs as this member,
    /// this one is in no view and grants nothing; that is logged once in a while.
    pub fn refused(&mut self, now: Moment, peer: Member, why: &HelloRefused) {
        let HelloRefused::Conflict { .. } = why else { return };
        self.conflicts.insert(peer, why.to_string());
        if self.conflict_logged.is_none_or(|last| now.since(last) >= LOG_AGAIN) {
            self.conflict_logged = Some(now);
            let (me, peer) = (self.name(self.config.me), self.name(peer));
            let text = format!(
                "{peer} refuses this node: {why} ({me}); nothing is granted here until one of the \
                 two is stopped"
            );
            self.log(Level::Warning, text);
        }
    }

    /// The other side has closed a connection. Does nothing for an older one than the present.
    pub fn disconnected(&mut self, now: Moment, peer: Member, connection: Connection) {
        self.end_connection(now, peer, connection, true);
    }

    /// A connection is over, and the other side has not closed it: its process may still run.
    pub fn broken(&mut self, now: Moment, peer: Member, connection: Connection) {
        self.end_connection(now, peer, connection, false);
    }

    fn end_connection(&mut self, now: Moment, peer: Member, connection: Connection, closed: bool) {
        if !self.has_link(peer) || self.link(peer).connection != Some(connection) {
            return;
        }
        self.link(peer).disconnect(now, closed);
        self.counted.disconnected(peer);
        let text = format!("the connection to {} is closed", self.name(peer));
        self.log(Level::Info, text);
        self.set_timer(now.after(self.config.limits.lost_after), Timer::Lost(peer));
        self.refuse_queries_to(peer);
        self.give_up_calls_to(peer);
    }

    /// Appends the bytes to write to this connection now to `buffer`; returns whether there were
    /// any.
    pub fn output(&mut self, peer: Member, connection: Connection, buffer: &mut Vec<u8>) -> bool {
        let link = self.links.get_mut(peer.index()).and_then(Option::as_mut);
        link.is_some_and(|link| link.connection == Some(connection) && link.output(buffer))
    }

    /// Bytes have arrived.
    pub fn received(&mut self, now: Moment, peer: Member, connection: Connection, bytes: &[u8]) {
        if !self.has_link(peer) || self.link(peer).connection != Some(connection) {
            return;
        }
        if now >= self.link(peer).next_heard {
            self.on_heard(now, peer);
        }
        let (mut decoder, tag) = self.link(peer).input(now, bytes);
        let mut result = Ok(());
        while let Some(frame) = decoder.next(tag).transpose() {
            result = frame.and_then(|frame| self.on_frame(now, peer, frame));
            if !self.has_link(peer) {
                // The frame says that it is no longer a member.
                return;
            }
            if result.is_err() {
                break;
            }
        }
        self.link(peer).finish_input(decoder);
        if let Err(error) = result {
            let text = format!("{}: {error}; disconnected", self.name(peer));
            self.log(Level::Warning, text);
            self.effects.push(Effect::Close { peer, connection });
            self.broken(now, peer, connection);
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
        match frame {
            Frame::Layer { last, part } => {
                if let Some(message) = self.link(from).take_part(last, part)? {
                    self.on_layer_message(now, from, &message)?;
                }
                return Ok(());
            }
            // A reply may have been among the dropped frames.
            Frame::Skip { upto } if upto > self.link(from).received() => {
                self.give_up_calls_to(from);
            }
            _ => {}
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
        match &self.view_state {
            ViewState::In(view) if view.epoch == epoch => self.on_lock_business(now, from, message),
            // Its sender is in a view that is not installed here yet.
            _ if epoch > self.view_epoch() => {
                self.view_change.early.push(from, &message);
            }
            // Of a view that is over.
            _ => {}
        }
    }

    /// The epoch of the view that this node is in or was in last.
    pub(super) fn view_epoch(&self) -> u32 {
        match &self.view_state {
            ViewState::In(view) => view.epoch,
            ViewState::Writing(view) => view.epoch - 1,
            ViewState::Apart { .. } => self.view_change.left,
        }
    }

    /// Handles the messages that came early for the view that begins.
    pub(super) fn catch_up(&mut self, now: Moment) {
        let epoch_now = self.view_epoch();
        for (from, kept) in self.view_change.early.take() {
            let message = kept.message();
            if epoch(&message).is_none_or(|epoch| epoch < epoch_now) {
                continue;
            }
            // A message may be allowed in one view and not in another, so it is checked again.
            match self.check_message(from, &message) {
                Ok(()) => self.on_message(now, from, message),
                Err(why) => {
                    let text = format!("{} violates the protocol: {why}; ignored", self.name(from));
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
            Message::Query { id, name, waiting_counts, epoch } => {
                let busy = self.is_busy(name, waiting_counts);
                self.link(from).send(Message::QueryReply { epoch, id, busy });
                self.ready.insert(from);
            }
            Message::QueryReply { id, busy, .. } => self.on_query_reply(now, from, id, busy),
            Message::Cleanup { round, names, .. } => self.on_cleanup(now, from, round, &names),
            Message::Vote { home, round, second, kept, clock, .. } => {
                let vote = super::idle_cleanup::Vote { second, kept, clock };
                self.on_vote(now, from, home, round, vote);
            }
            Message::Gather { .. }
            | Message::Holds { .. }
            | Message::Report { .. }
            | Message::Held { .. }
            | Message::Install { .. }
            | Message::Ended { .. }
            | Message::Call { .. }
            | Message::Reply { .. } => unreachable!("a message without an epoch"),
        }
    }

    /// The lock of a name in a message.
    fn lock_of(&mut self, name: &[u8]) -> crate::LockId {
        let plan = Arc::clone(&self.config.plan);
        self.table.find_or_make(name, || plan.rule_of(name))
    }

    /// Sends heartbeats, and disconnects peers that are silent.
    pub(super) fn beat(&mut self, now: Moment) {
        self.set_next_beat(now);
        let lost_after = self.config.limits.lost_after;
        for peer in self.peers() {
            let link = self.link(peer);
            let Some(connection) = link.connection else { continue };
            if now.since(link.last_received) >= lost_after {
                let text = format!("{} is silent; disconnected", self.name(peer));
                self.log(Level::Warning, text);
                self.effects.push(Effect::Close { peer, connection });
                self.broken(now, peer, connection);
                continue;
            }
            link.beat();
            if link.has_output() {
                self.ready.insert(peer);
            }
        }
    }

    pub(super) fn set_next_beat(&mut self, now: Moment) {
        self.timers.remove(&(self.next_beat, Timer::Beat));
        self.next_beat = now.after(self.heartbeat());
        self.set_timer(self.next_beat, Timer::Beat);
    }

    /// Sends heartbeats with what the view layer sends now, if they are due soon: on an idle node a
    /// wake-up costs more than what is done in it.
    pub(super) fn beat_if_soon(&mut self, now: Moment) {
        if self.next_beat <= now.after(self.heartbeat() / 2) {
            self.beat(now);
        }
    }

    /// The pause between two heartbeats.
    pub(super) fn heartbeat(&self) -> Duration {
        let heartbeat = self.config.limits.heartbeat;
        match &self.config.views {
            ViewSource::FixedList => heartbeat,
            ViewSource::Unknown { heartbeat: views }
            | ViewSource::Decided {
                settings: crate::views::ViewSettings { heartbeat: views, .. },
                ..
            } => heartbeat.min(*views),
        }
    }
}

/// The epoch of a message about locks.
pub(super) fn epoch(message: &Message<'_>) -> Option<u32> {
    match *message {
        Message::Lock { epoch, .. }
        | Message::Nudge { epoch, .. }
        | Message::Query { epoch, .. }
        | Message::QueryReply { epoch, .. }
        | Message::Cleanup { epoch, .. }
        | Message::Vote { epoch, .. } => Some(epoch),
        Message::Gather { .. }
        | Message::Holds { .. }
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
