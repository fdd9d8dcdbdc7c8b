//! Candidates of elections in sessions of Mutua's own service.
//!
//! A request with a value has a key as those of etcd's recipes, so that observers of either service
//! see it, and a node that takes its hold over knows its value. The key is the session's own: no
//! call of etcd's services changes it.

use std::sync::Arc;

use super::{Entry, State};
use crate::{
    Core, Moment, Service, Waiter,
    etcd::key,
    leases::{Name, Outcome, SessionId, WaitId},
};

impl Service {
    /// A session requests a lock as a candidate with this value.
    pub(crate) fn add_candidate(
        &self,
        core: &mut Core,
        wait: WaitId,
        (session, name): (SessionId, &Name),
        value: Vec<u8>,
    ) {
        let revision = self.take_revision(core, name);
        let entry = Entry {
            name: Name::clone(name),
            lease: session,
            value,
            created: revision,
            changed: revision,
            version: 1,
            state: State::Waiting(wait),
            restamped: true,
            proposed: None,
        };
        // A request that is sent again, on another stream, replaces the former one.
        core.recipes.insert(key(name, session), entry);
    }

    /// Gives the holder of a lock another value, or one. Returns whether the session holds the lock
    /// with this fencing token.
    pub(crate) fn proclaim(
        self: &Arc<Self>,
        core: &mut Core,
        now: Moment,
        (session, name, token): (SessionId, &Name, u64),
        value: Vec<u8>,
    ) -> bool {
        let holder = core.leases.holder(now, name);
        if holder.is_none_or(|one| (one.session, one.fencing_token) != (session, token)) {
            return false;
        }
        let key = key(name, session);
        let known = core.recipes.get(&key).map(|entry| entry.value == value);
        if known == Some(true) {
            return true;
        }
        let revision = self.take_revision(core, name);
        if known.is_none() {
            let entry = Entry {
                name: Name::clone(name),
                lease: session,
                value,
                created: token,
                changed: revision,
                version: 1,
                state: State::Held(token),
                restamped: false,
                proposed: None,
            };
            core.recipes.insert(key, entry);
        } else {
            core.recipes.put(&key, value, revision);
        }
        if let Some(request) = core.leases.request_of(name).filter(|_| !self.is_alone()) {
            // Not waited for: the client of a lost node proclaims its value again.
            core.record_hold(now, request, session);
        } else {
            core.leases.record_hold(name);
        }
        core.notify_watchers(name);
        true
    }
}

impl Core {
    /// The outcome of a request with a value.
    pub(crate) fn candidate_outcome(&mut self, wait: WaitId, outcome: &Outcome) {
        let Some(Waiter::Client { session, name, is_candidate: true, .. }) =
            self.waiters.get(&wait)
        else {
            return;
        };
        let key = key(name, *session);
        match *outcome {
            Outcome::Granted { fencing_token, .. } | Outcome::Already { fencing_token } => {
                self.recipes.granted(&key, fencing_token);
            }
            _ => {
                let entry = self.recipes.get(&key);
                if entry.is_some_and(|entry| entry.state == State::Waiting(wait)) {
                    self.recipes.remove(&key);
                }
            }
        }
    }
}
