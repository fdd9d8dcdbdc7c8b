//! What no honest member says: it is refused before anything is done about it.
//!
//! Members trust each other with their locks: one that lies about a token breaks the lock. But none
//! can make another one fall over, grant the same lock twice, or fill its memory with what leads to
//! nothing.

use std::collections::BTreeMap;

use mutua_algorithms::Time;

use super::{
    Brain, CLOCK_BROKEN, Kept, MAX_CALL, Standing,
    forget::NAMES,
    peers::epoch,
    views::{CHAIR, EPOCHS},
};
use crate::{
    Member, WireError,
    wire::{MAX_NAME, Message},
};

/// How much is kept of one member for a view that is not there yet, in bytes. More stays on its
/// link: our word of that view comes from the chair, or from our disk, and never behind it.
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

    pub(super) fn forget(&mut self, peer: Member) {
        self.list.retain(|(from, _)| *from != peer);
        self.sizes.remove(&peer);
    }

    pub(super) fn size(&self, from: Member) -> usize {
        self.sizes.get(&from).copied().unwrap_or(0)
    }
}

impl Brain {
    /// Whether there is room for a message of a view to come.
    pub(super) fn check_room(&self, from: Member, message: &Message<'_>) -> Result<(), WireError> {
        let is_early = epoch(message).is_some_and(|epoch| epoch > self.view_epoch());
        if is_early && self.council.early.size(from) >= EARLY {
            return Err(WireError::Early);
        }
        Ok(())
    }

    /// Whether an honest member can have said this; else why not.
    pub(super) fn check_message(
        &self,
        from: Member,
        message: &Message<'_>,
    ) -> Result<(), &'static str> {
        check_epoch(message)?;
        check_names(message)?;
        let ours = |epoch| matches!(&self.standing, Standing::In(view) if view.epoch == epoch);
        match message {
            Message::Call { body, .. } | Message::Reply { body, .. } => {
                (body.len() <= MAX_CALL).then_some(()).ok_or("more than a question has")
            }
            Message::Forget { epoch, round, names } if ours(*epoch) => {
                self.check_forget(from, *round, names)
            }
            Message::Vote { epoch, home, round, second, kept, clock } if ours(*epoch) => {
                self.check_vote(from, (*home, *round), *second)?;
                check_ballot(*epoch, kept, *clock)
            }
            Message::Held { names, .. } => {
                let members = self.seat.plan.members();
                let known = names.iter().all(|(member, _)| member.0 < members);
                known.then_some(()).ok_or("a member that is not in the list is inside")
            }
            Message::Install { round, .. }
                if from == CHAIR && self.council.reported == Some(*round) =>
            {
                self.check_insides()
            }
            _ => Ok(()),
        }
    }

    fn check_forget(&self, home: Member, round: u64, names: &[&[u8]]) -> Result<(), &'static str> {
        if names.len() > NAMES {
            return Err("a round of forgetting about too many names");
        }
        if !self.forgetting.expects(home, round) || self.forgetting.has_names(home, round) {
            return Err("a round of forgetting that is not due");
        }
        let at_home = names.iter().all(|name| self.home(name) == Some(home));
        at_home.then_some(()).ok_or("a name to forget that is at home elsewhere")
    }

    fn check_vote(
        &self,
        from: Member,
        (home, round): (Member, u64),
        second: bool,
    ) -> Result<(), &'static str> {
        let known = home.0 < self.seat.plan.members() && self.forgetting.expects(home, round);
        let begun = home != self.seat.me || self.forgetting.is_begun(round);
        if !known || !begun {
            return Err("a vote on a round that is not on");
        }
        if self.forgetting.has_voted(home, round, from, second) {
            return Err("a vote that it has given already");
        }
        Ok(())
    }

    /// The chair knows of all that we are inside: we have reported it, and nobody has got inside
    /// anything here since. In a view that says otherwise somebody else would be let in too.
    fn check_insides(&self) -> Result<(), &'static str> {
        let held = |name| self.council.held.get(name) == Some(&self.seat.me);
        let all = self.inside_here().iter().all(held);
        all.then_some(()).ok_or("a view that forgets what this node is inside")
    }
}

fn check_epoch(message: &Message<'_>) -> Result<(), &'static str> {
    let (epoch, end) = match message {
        Message::Install { epoch, .. } | Message::Ended { epoch } => (*epoch, EPOCHS),
        // There must be one above it.
        Message::Report { epoch, .. } => (*epoch, EPOCHS - 1),
        _ => (epoch(message).unwrap_or(0), EPOCHS),
    };
    (epoch < end).then_some(()).ok_or("an epoch beyond all epochs")
}

fn check_names(message: &Message<'_>) -> Result<(), &'static str> {
    let fits = |name: &&[u8]| name.len() <= MAX_NAME;
    let fit = match message {
        Message::Lock { name, .. } | Message::Nudge { name, .. } | Message::Ask { name, .. } => {
            fits(name)
        }
        Message::Forget { names, .. } | Message::Inside { names, .. } => names.iter().all(fits),
        Message::Held { names, .. } => names.iter().all(|(_, name)| fits(name)),
        _ => true,
    };
    fit.then_some(()).ok_or("a name that is too long")
}

fn check_ballot(epoch: u32, kept: &[u32], clock: Time) -> Result<(), &'static str> {
    // Our second vote is the union of all first ones and must fit a message too.
    if kept.len() > NAMES || kept.iter().any(|&place| place as usize >= NAMES) {
        return Err("a vote on more names than a round has");
    }
    // It becomes the floor of all clocks here.
    if clock.epoch() > epoch || clock.count() > CLOCK_BROKEN {
        return Err("a vote with a clock that nobody can have");
    }
    Ok(())
}
