//! EM3 without a ghost, by the timestamps that the processes have anyway.
//!
//! EM3 is about causes: of two requests of which one happened before the other, it is granted
//! first. The ghost for that remembers sets of requests at every process and on every message, and
//! a message of the application, which alone makes some requests causes of others, multiplies the
//! states once more. Where an algorithm claims EM3 and keeps clocks, less is enough:
//!
//! 1. *Entries are in the order of their timestamps.* At each entry no open request has an earlier
//!    timestamp, and no idle process has a lower clock, with which it could still make one. (Judged
//!    in `step/stamps.rs`.)
//! 2. *Lamport's condition.* Every message carries the clock, the receiver's rises above it, and a
//!    request steps it; asserted at each event. So of two requests of which one happened before the
//!    other, that one has the earlier timestamp.
//! 3. *Every request is granted*: no run goes round, and in no state at rest does a process wait.
//!
//! A request that overtakes one that happened before it is granted while that one is open and has,
//! by 2, the earlier timestamp, which 1 excludes. With 3 the overtaken one is granted later, so
//! that it shows in the order of the entries, whatever else is reordered.
//!
//! *A message of the application* changes nothing but the receiver's clock, and what the algorithm
//! concludes from it. So it is not sent and delivered, but one process may receive it at any time:
//! from each other process, with each reading that it could have had. That is at most the sender's
//! clock, and on links that keep order at most what is first on the link. This allows more than can
//! happen, for a process's clock need not have stood at each reading; what holds under it holds. A
//! search is made for each process that could be the receiver, so that the steps at different
//! processes do not compete for the one message, and orders of them can be left out.
//!
//! Where orders of steps are not left out, such a message that changes the clock alone arrives just
//! before the next event at its process that sends something. This leaves out that it arrives
//! before an event that sends nothing, and assumes that the order of the two makes no difference:
//! that an algorithm uses a reading at once or not at all, and does nothing at a later event
//! because its clock stands higher since. Nothing checks this assumption. Only Lamport's algorithm
//! acts on a reading (`observed`), and on its links, which keep order, orders of steps are left out
//! instead.
//!
//! *Orders of steps*: of commuting steps one order is taken, see `step/order.rs`. The order of the
//! entries and their timestamps are the same in all orders, and a run whose entries are not in the
//! order of their timestamps is noticed in every order: when the later timestamp enters, the other
//! process has its request open, or has a lower clock.
//!
//! Where anything of this does not hold, nothing is concluded, and the ghost decides.

use mutua_algorithms::{Claim, NodeId};

use super::{Checker, Reduction, Search, Verdict};
use crate::{
    cycles,
    evidence::CheckError,
    ghost::Ghost,
    model::{Build, PANIC, bit},
    search::{Wanted, search},
};

impl Checker<'_> {
    /// Tries to decide ordering by timestamps; whether there is a verdict, if only that a limit was
    /// reached.
    pub(super) fn decide_by_stamps(&mut self) -> Result<bool, CheckError> {
        if !self.may_use_stamps() {
            return Ok(false);
        }
        let hearers: Vec<_> = match self.task.system.app_messages {
            0 => vec![None],
            _ => (0..self.task.processes()?).map(|node| Some(NodeId::from(node))).collect(),
        };
        let mut all: Option<Search> = None;
        for hearer in hearers {
            let partial_order = true;
            let plain = Build::plain(Ghost::Stamps);
            let model = (self.make)(Build { shift: true, partial_order, hearer, ..plain })?;
            let properties = PANIC | bit(Claim::Ordering) | bit(Claim::DeadlockFree);
            let wanted = Wanted { properties, first: true };
            let reached = search(&model, wanted, &self.task.limits, self.host);
            let mut one = self.searched(&model, &[Claim::Ordering], &reached);
            one.reductions.push("timestamps for what happened before".to_owned());
            // A message of the application and the event after it are one step.
            one.covered = None;
            let is_limited = one.is_limited();
            let is_settled = !is_limited
                && reached.found.is_empty()
                && reached.cut == 0
                && !cycles::go_round(&model, &reached);
            let all = &mut all;
            *all = Some(match all.take() {
                None => one,
                Some(others) => together(others, one),
            });
            if is_limited {
                break;
            }
            if !is_settled {
                self.spent += all.as_ref().map_or(0.0, |all| all.seconds);
                return Ok(false);
            }
        }
        let Some(all) = all else { return Ok(false) };
        let holds = (!all.is_limited()).then_some(true);
        self.report.searches.push(all);
        let name = Claim::Ordering.name().into();
        self.report.verdicts.push(Verdict { name, claimed: true, holds, trail: None });
        Ok(true)
    }

    fn may_use_stamps(&self) -> bool {
        let Self { task, about, .. } = self;
        let limits = &task.limits;
        task.reduction == Reduction::All
            && task.walks.is_none()
            && limits.depth.is_none()
            && limits.delays.is_none()
            && task.system.faults.is_none()
            && task.system.repair.is_none()
            && task.system.app_messages <= 1
            && about.uses_stamps
            && self.is_claimed(Claim::Ordering)
    }
}

/// Two searches, one after the other, as one. The memory of the first is free again in the second.
fn together(a: Search, b: Search) -> Search {
    let (bytes, stored) = (a.bytes, a.stored).max((b.bytes, b.stored));
    Search {
        states: a.states + b.states,
        steps: a.steps + b.steps,
        depth: a.depth.max(b.depth),
        seconds: a.seconds + b.seconds,
        bytes,
        stored,
        stopped: a.stopped.or(b.stopped),
        ..b
    }
}
