//! Locks that outlive a crash of the node.
//!
//! A node that serves clients outside its process may crash while one of them holds a lock. The
//! next view starts from the locks that its members report as held, so the node's next incarnation
//! must know of that hold before it takes part in one. It is held back until all clients had time
//! to reclaim.

use mutua_algorithms::{FencingToken, Time};

use super::{CLOCK_BROKEN, Protocol, ViewState};
use crate::{LockId, Moment, Owner, Ticket, table::Holder};

/// Epochs of reclaimed fencing tokens are below this: there must be later ones.
const LAST: u32 = Time::EPOCHS / 4 * 3;

impl Protocol {
    /// Keeps out of views until [`join`](Self::join). Call it before the first peer connects.
    pub fn hold_back(&mut self) {
        self.held_back = true;
        let why = "this node did not stop cleanly and waits for clients to reclaim their locks";
        self.view_state = ViewState::Apart { why: why.to_owned() };
    }

    /// Takes part in views from now on.
    pub fn join(&mut self) {
        if std::mem::take(&mut self.held_back) {
            self.view_state = ViewState::Apart { why: "the node has just started".to_owned() };
            self.propose_view();
            self.wake_layer();
        }
    }

    /// Makes every later fencing token greater than this time.
    pub fn raise(&mut self, time: Time) {
        if self.raise_later(time) {
            return;
        }
        self.floor = self.floor.max(time);
        for lock in self.table.ids() {
            if let Some(machine) = &mut self.table.entry(lock).machine {
                machine.raise_time(self.floor);
            }
        }
    }

    /// Makes every later fencing token of this lock at this node greater than this time.
    pub fn raise_lock(&mut self, lock: LockId, time: Time) {
        if self.raise_later(time) {
            return;
        }
        match &mut self.table.entry(lock).machine {
            Some(machine) => machine.raise_time(time),
            // Its process begins at the floor.
            None => self.floor = self.floor.max(time),
        }
    }

    /// Restores the hold of a client that held the lock with this fencing token in the node's last
    /// incarnation. Only while the node is [held back](Self::hold_back): the next view starts from
    /// it, in a later epoch, though the node may have lost what it knew of epochs. A fencing token
    /// that no clock reaches is refused.
    pub fn reclaim(
        &mut self,
        now: Moment,
        lock: LockId,
        fence: FencingToken,
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
        // Its entry was counted when it was granted, and it is part of no run.
        self.table.entry(lock).holder = Some(Holder::new(now, ticket, fence, owner));
        Some(ticket)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Limits, Member, Plan, ProtocolConfig};

    fn protocol(epoch: u32) -> Protocol {
        let config = ProtocolConfig {
            cluster: "c".to_owned(),
            names: vec!["a".to_owned(), "b".to_owned()],
            me: Member(0),
            plan: Arc::new(Plan::new(2, &[]).expect("a plan")),
            incarnation: 1,
            epoch,
            limits: Limits::default(),
            views: crate::ViewSource::FixedList,
        };
        let mut protocol = Protocol::new(Moment::ZERO, config);
        protocol.hold_back();
        protocol
    }

    #[test]
    fn an_impossible_fencing_token_is_not_reclaimed_and_raises_no_clock() {
        let mut protocol = protocol(7);
        let lock = protocol.open(b"x").expect("short");
        let floor = protocol.floor;
        let beyond =
            [Time::new(LAST, 1), Time::new(7, CLOCK_BROKEN + 1), Time::from_number(u64::MAX)];
        for fence in beyond.map(FencingToken) {
            assert!(protocol.reclaim(Moment::ZERO, lock, fence, None).is_none(), "{fence}");
        }
        assert_eq!(protocol.floor, floor);
        let fence = FencingToken(Time::new(7, CLOCK_BROKEN));
        assert!(protocol.reclaim(Moment::ZERO, lock, fence, None).is_some());
        assert!(protocol.reclaim(Moment::ZERO, lock, fence, None).is_none(), "it is taken");
    }

    #[test]
    fn the_next_epoch_is_later_than_that_of_a_reclaimed_lock() {
        let mut protocol = protocol(7);
        let lock = protocol.open(b"x").expect("short");
        let fence = FencingToken(Time::new(9, 5));
        assert!(protocol.reclaim(Moment::ZERO, lock, fence, None).is_some());
        assert_eq!(protocol.epoch, 9);
    }
}
