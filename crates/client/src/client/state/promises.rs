//! Grants with a promise: held until a certain moment, unless the node prolongs them or records
//! them at other members.
//!
//! A promise counts from when the request was first sent, on this client's clock: the node counts
//! from a later moment.

use std::time::Duration;

use super::{Effect, Phase, State};
use crate::{
    Moment,
    proto::v1::{Granted, Promised},
};

/// A grant whose promise ends sooner than this is not reported: the node records it soon.
const SHORTEST: Duration = Duration::from_millis(50);

impl State {
    /// Notes the promise of a grant that is not reported yet.
    pub(super) fn note_promise(&mut self, id: u64, granted: &Granted) {
        let until = self.promised_until(id, granted.promised_ms);
        self.promise(id, until);
    }

    /// A promise was prolonged, or its hold is recorded.
    pub(super) fn promised(&mut self, now: Moment, promised: &Promised) {
        let queue = self.names.get(&*promised.name);
        let Some(id) = queue.and_then(|queue| queue.front().copied()) else { return };
        let Some(request) = self.requests.get(&id) else { return };
        let (Phase::Granted { token } | Phase::Held { token }) = request.phase else { return };
        if token != promised.fencing_token {
            return;
        }
        let until = self.promised_until(id, promised.promised_ms).max(request.until);
        self.promise(id, until);
        match self.requests[&id].phase {
            Phase::Held { .. } => self.effects.push(Effect::Prolonged { id, until }),
            _ => self.report_grant(now, id),
        }
    }

    /// Whether a grant is promised for a while, or recorded.
    pub(super) fn is_promised(&self, now: Moment, id: u64) -> bool {
        self.requests.get(&id).is_some_and(|request| now.after(SHORTEST) <= request.until)
    }

    fn promised_until(&self, id: u64, promised_ms: Option<u64>) -> Moment {
        let sent = self.requests.get(&id).and_then(|request| request.first_sent);
        match (promised_ms, sent) {
            (None, _) => Moment::NEVER,
            (Some(promised), Some(sent)) => sent.after(Duration::from_millis(promised)),
            (Some(_), None) => Moment::ZERO,
        }
    }

    fn promise(&mut self, id: u64, until: Moment) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        let before = std::mem::replace(&mut request.until, until);
        if before < Moment::NEVER {
            self.promises.remove(&(before, id));
        }
        if until < Moment::NEVER {
            self.promises.insert((until, id));
        }
    }

    /// Locks whose promises have ended are lost.
    pub(super) fn check_promises(&mut self, now: Moment) {
        while let Some(&(until, id)) = self.promises.first()
            && until <= now
        {
            self.promises.pop_first();
            if let Some(request) = self.requests.get_mut(&id)
                && let Phase::Held { token } = request.phase
            {
                request.phase = Phase::Lost { token };
                self.held -= 1;
                let why = "its node was lost before the hold was recorded".to_owned();
                self.effects.push(Effect::Lost { id, why });
            }
        }
    }
}
