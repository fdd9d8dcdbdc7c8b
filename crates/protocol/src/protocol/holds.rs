//! Holds that end with the view lease, or with a view: where consensus decides views, a guard is
//! good for as long as its node is in the view.

use super::{Protocol, Timer};
use crate::{
    Effect, Moment,
    views::{Instance, Plan},
};

impl Protocol {
    /// The view lease has lapsed: holders are notified, and hold until this moment at the latest.
    /// A client outside the process holds until its TTL ends, and renews at another member.
    pub(super) fn lose_holds(&mut self, now: Moment, until: Moment) {
        for lock in self.table.ids() {
            if let Some(holder) = &mut self.table.entry(lock).holder
                && holder.ends == Moment::NEVER
                && holder.client().is_none()
            {
                holder.ends = until;
                self.effects.push(Effect::Lost { ticket: holder.ticket });
            }
        }
        self.set_timer(until.max(now), Timer::HoldsEnd);
    }

    pub(super) fn on_holds_end(&mut self, now: Moment) {
        self.end_holds(now);
        self.take_view_effects(now);
    }

    /// Releases the locks whose holds have ended by themselves.
    pub(super) fn end_holds(&mut self, now: Moment) {
        let mut held = false;
        for lock in self.table.ids() {
            let Some(entry) = self.table.get(lock) else { continue };
            let Some(holder) = &entry.holder else { continue };
            if holder.ends <= now {
                self.release(now, lock, holder.ticket);
            } else {
                // The hold of a client in another process is recorded, and not renewed here.
                held |= holder.client().is_none();
            }
        }
        if let Some(layered) = self.layered.as_mut().filter(|_| !held)
            && layered.layer.view().is_none()
        {
            layered.layer.stopped(now);
        }
    }

    /// A hold that the plan does not name is over: it was taken over while this node was cut off.
    pub(super) fn end_holds_except(&mut self, plan: &Plan, me: Instance) {
        for lock in self.table.ids() {
            let entry = self.table.entry(lock);
            let Some(holder) = &entry.holder else { continue };
            let planned = plan.held.get(&*entry.name);
            if planned.is_some_and(|one| one.member == me && one.token == holder.fence) {
                continue;
            }
            let holder = entry.holder.take().expect("just seen");
            if holder.ends == Moment::NEVER {
                self.effects.push(Effect::Lost { ticket: holder.ticket });
            }
        }
    }
}
