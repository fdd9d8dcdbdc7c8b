//! Being inside across the death of a node.
//!
//! A node that serves clients outside its process may die while one of them is inside. The next
//! view starts from what its members say they are inside of, so the node's next life must know that
//! before it takes part in one. It is held back until everybody had the time to claim.

use mutua_algorithms::{Fence, Time};

use super::{Brain, Standing};
use crate::{LockId, Moment, Owner, Ticket, table::Holder};

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
    /// it is held back: the next view starts from it. A fence of an epoch that never was here is
    /// nobody's.
    pub fn claim(
        &mut self,
        now: Moment,
        lock: LockId,
        fence: Fence,
        owner: Owner,
    ) -> Option<Ticket> {
        let taken = self.table.entry(lock).holder.is_some();
        if !self.held_back || taken || fence.0.epoch() > self.epoch {
            return None;
        }
        self.raise(fence.0);
        let ticket = self.next_ticket();
        // No entry, and none of a run: those were counted when it was let in.
        self.table.entry(lock).holder = Some(Holder { ticket, fence, since: now, owner });
        Some(ticket)
    }
}
