//! Being inside across the death of a node.
//!
//! A node that serves clients outside its process may die while one of them is inside. The next
//! view starts from what its members say they are inside of, so the node's next life must know that
//! before it takes part in one. It is held back until everybody had the time to claim.

use mutua_algorithms::{Fence, Time};

use super::{Brain, CLOCK_BROKEN, Standing, views::EPOCHS};
use crate::{LockId, Moment, Owner, Ticket, table::Holder};

/// Epochs of claims are below this: there must be later ones.
const LAST: u32 = EPOCHS / 4 * 3;

impl Brain {
    /// Keeps out of views until [`join`](Self::join). To be called before the first peer is met.
    pub fn hold_back(&mut self) {
        self.held_back = true;
        let why = "this node did not stop cleanly and waits for who was inside";
        self.standing = Standing::Apart { why: why.to_owned() };
    }

    /// Takes part in views from now on.
    pub fn join(&mut self) {
        if std::mem::take(&mut self.held_back) {
            self.standing = Standing::Apart { why: "the node has just started".to_owned() };
            self.review();
        }
    }

    /// Every fence from now on is greater than this.
    pub fn raise(&mut self, time: Time) {
        self.floor = self.floor.max(time);
        for lock in self.table.ids() {
            if let Some(machine) = &mut self.table.entry(lock).machine {
                machine.raise_time(self.floor);
            }
        }
    }

    /// Somebody who was inside with this fence in the node's last life is inside again. Only while
    /// it is held back: the next view starts from it, in a later epoch, though the node may have
    /// lost what it knew of epochs. A fence that no clock gets to is nobody's.
    pub fn claim(
        &mut self,
        now: Moment,
        lock: LockId,
        fence: Fence,
        owner: Owner,
    ) -> Option<Ticket> {
        let taken = self.table.entry(lock).holder.is_some();
        let possible = fence.0.epoch() < LAST && fence.0.count() <= CLOCK_BROKEN;
        if !self.held_back || taken || !possible {
            return None;
        }
        self.epoch = self.epoch.max(fence.0.epoch());
        self.raise(fence.0);
        let ticket = self.next_ticket();
        // No entry, and none of a run: those were counted when it was let in.
        self.table.entry(lock).holder = Some(Holder { ticket, fence, since: now, owner });
        Some(ticket)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Limits, Member, Plan, Seat};

    fn brain(epoch: u32) -> Brain {
        let seat = Seat {
            cluster: "c".to_owned(),
            names: vec!["a".to_owned(), "b".to_owned()],
            me: Member(0),
            plan: Arc::new(Plan::new(2, &[]).expect("a plan")),
            incarnation: 1,
            epoch,
            limits: Limits::default(),
        };
        let mut brain = Brain::new(Moment::ZERO, seat);
        brain.hold_back();
        brain
    }

    #[test]
    fn a_fence_that_no_clock_got_to_is_claimed_by_nobody_and_raises_no_clock() {
        let mut brain = brain(7);
        let lock = brain.open(b"x").expect("short");
        let floor = brain.floor;
        let beyond =
            [Time::new(LAST, 1), Time::new(7, CLOCK_BROKEN + 1), Time::from_number(u64::MAX)];
        for fence in beyond.map(Fence) {
            assert!(brain.claim(Moment::ZERO, lock, fence, None).is_none(), "{fence}");
        }
        assert_eq!(brain.floor, floor);
        let fence = Fence(Time::new(7, CLOCK_BROKEN));
        assert!(brain.claim(Moment::ZERO, lock, fence, None).is_some());
        assert!(brain.claim(Moment::ZERO, lock, fence, None).is_none(), "it is taken");
    }

    #[test]
    fn the_next_epoch_is_later_than_one_that_only_a_claim_knows_of() {
        let mut brain = brain(7);
        let lock = brain.open(b"x").expect("short");
        let fence = Fence(Time::new(9, 5));
        assert!(brain.claim(Moment::ZERO, lock, fence, None).is_some());
        assert_eq!(brain.epoch, 9);
    }
}
