//! Messages that no correct member sends: they are refused before anything is done about them.
//!
//! Members trust each other with their locks: one that lies about a token breaks the lock. But none
//! can crash another one, make it grant the same lock twice, or fill its memory with useless state.

use std::collections::BTreeMap;

use mutua_algorithms::Time;

use super::{
    CLOCK_BROKEN, Kept, MAX_CALL, Protocol, ViewState, decider::ViewDecider, idle_cleanup::NAMES,
    peers::epoch,
};
use crate::{
    Member, WireError,
    wire::{MAX_NAME, Message},
};

/// The most bytes of early messages that are kept of one member. The rest stays on its link: the
/// message that installs the view comes from the coordinator or the disk, and never after it.
const EARLY: usize = 16 << 20;

/// Messages of a view that is not installed here yet.
#[derive(Debug, Default)]
pub(super) struct Early {
    list: Vec<(Member, Kept)>,
    sizes: BTreeMap<Member, usize>,
}

impl Early {
    pub(super) fn push(&mut self, from: Member, message: &Message<'_>) {
        let kept = Kept::of(message);
        *self.sizes.entry(from).or_default() += kept.size();
        self.list.push((from, kept));
    }

    pub(super) fn take(&mut self) -> Vec<(Member, Kept)> {
        std::mem::take(self).list
    }

    pub(super) fn drop_from(&mut self, peer: Member) {
        self.list.retain(|(from, _)| *from != peer);
        self.sizes.remove(&peer);
    }

    /// Drops the messages of views before this epoch.
    pub(super) fn drop_before(&mut self, first: u32) {
        for (from, kept) in self.take() {
            let message = kept.message();
            if epoch(&message).is_some_and(|epoch| epoch >= first) {
                self.push(from, &message);
            }
        }
    }

    pub(super) fn size(&self, from: Member) -> usize {
        self.sizes.get(&from).copied().unwrap_or(0)
    }
}

impl Protocol {
    /// Checks whether there is room for a message of a view to come.
    pub(super) fn check_room(&self, from: Member, message: &Message<'_>) -> Result<(), WireError> {
        let is_early = epoch(message).is_some_and(|epoch| epoch > self.view_epoch());
        if is_early && self.view_change.early.size(from) >= EARLY {
            return Err(WireError::Early);
        }
        Ok(())
    }

    /// Checks whether a correct member can send this; returns why not.
    pub(super) fn check_message(
        &self,
        from: Member,
        message: &Message<'_>,
    ) -> Result<(), &'static str> {
        check_epoch(message)?;
        check_names(message)?;
        let ours = |epoch| matches!(&self.view_state, ViewState::In(view) if view.epoch == epoch);
        match message {
            Message::Call { body, .. } | Message::Reply { body, .. } => {
                (body.len() <= MAX_CALL).then_some(()).ok_or("a call or reply that is too long")
            }
            Message::Cleanup { epoch, round, names } if ours(*epoch) => {
                self.check_cleanup(from, *round, names)
            }
            Message::Vote { epoch, home, round, second, kept, clock } if ours(*epoch) => {
                self.check_vote(from, (*home, *round), *second)?;
                check_ballot(*epoch, kept, *clock)
            }
            _ if self.config.views.is_decided() => Ok(()),
            message => self.decider.check(self, from, message),
        }
    }

    fn check_cleanup(&self, home: Member, round: u64, names: &[&[u8]]) -> Result<(), &'static str> {
        if !self.is_member(home) {
            return Err("a cleanup of a member that is not in the view");
        }
        if names.len() > NAMES {
            return Err("a cleanup of too many names");
        }
        if !self.cleanup.expects(home, round) || self.cleanup.has_names(home, round) {
            return Err("a cleanup that is not due");
        }
        let at_home = names.iter().all(|name| self.home(name) == Some(home));
        at_home.then_some(()).ok_or("a name to clean up that has another home")
    }

    fn check_vote(
        &self,
        from: Member,
        (home, round): (Member, u64),
        second: bool,
    ) -> Result<(), &'static str> {
        let known = self.is_member(home) && self.cleanup.expects(home, round);
        let begun = home != self.config.me || self.cleanup.is_begun(round);
        if !known || !begun || !self.is_member(from) {
            return Err("a vote on a cleanup that is not running");
        }
        if self.cleanup.has_voted(home, round, from, second) {
            return Err("a vote that it has sent already");
        }
        Ok(())
    }
}

fn check_epoch(message: &Message<'_>) -> Result<(), &'static str> {
    let (epoch, end) = match message {
        Message::Install { epoch, .. } | Message::Ended { epoch } => (*epoch, Time::EPOCHS),
        // The next epoch is one above it.
        Message::Report { epoch, .. } => (*epoch, Time::EPOCHS - 1),
        _ => (epoch(message).unwrap_or(0), Time::EPOCHS),
    };
    (epoch < end).then_some(()).ok_or("an epoch above the highest")
}

fn check_names(message: &Message<'_>) -> Result<(), &'static str> {
    let fits = |name: &&[u8]| name.len() <= MAX_NAME;
    let fit = match message {
        Message::Lock { name, .. } | Message::Nudge { name, .. } | Message::Query { name, .. } => {
            fits(name)
        }
        Message::Cleanup { names, .. } | Message::Holds { names, .. } => names.iter().all(fits),
        Message::Held { names, .. } => names.iter().all(|(_, name)| fits(name)),
        _ => true,
    };
    fit.then_some(()).ok_or("a name that is too long")
}

fn check_ballot(epoch: u32, kept: &[u32], clock: Time) -> Result<(), &'static str> {
    // Our second vote is the union of all first ones and must fit a message too.
    if kept.len() > NAMES || kept.iter().any(|&index| index as usize >= NAMES) {
        return Err("a vote on more names than a cleanup has");
    }
    // It becomes the floor of all clocks here.
    if clock.epoch() > epoch || clock.count() > CLOCK_BROKEN {
        return Err("a vote with an impossible clock");
    }
    Ok(())
}
