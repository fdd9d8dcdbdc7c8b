//! What the rules of the configuration let a client of etcd's recipes do.
//!
//! Creating a key is acquiring its lock, reading is listing it. A key is changed and deleted by the
//! client of its lease only, wherever that is served ([`By::identity`]).

use mutua_node::Action;
use tonic::Status;

use super::{
    AHEAD, bare_name,
    calls::By,
    queue_of,
    shape::{self, Read, Target, Transaction},
};
use crate::{
    Service,
    caller::Caller,
    leases::SessionId,
    proto::etcdserverpb::{RangeRequest, TxnRequest},
};

/// The lock of a key whose lease is not known.
fn lock_of(key: &[u8]) -> &[u8] {
    let key = key.strip_suffix(AHEAD).unwrap_or(key);
    let Some(slash) = key.iter().rposition(|&byte| byte == b'/') else { return bare_name(key) };
    let (name, lease) = (&key[..slash], &key[slash + 1..]);
    let is_lease = !name.is_empty() && !lease.is_empty() && lease.iter().all(u8::is_ascii_hexdigit);
    if is_lease { name } else { bare_name(key) }
}

impl Service {
    /// How a client makes a call that changes keys.
    pub(crate) fn by(&self, caller: &Caller) -> By {
        By { identity: self.identity_needed(caller), restamped: false }
    }

    pub(super) fn check_range(
        &self,
        caller: &Caller,
        request: &RangeRequest,
    ) -> Result<(), Status> {
        self.check_read(caller, &shape::range(request)?)
    }

    pub(super) fn check_target(&self, caller: &Caller, target: &Target) -> Result<(), Status> {
        let name = match target {
            Target::Key(key) => lock_of(key),
            Target::Lock(name) => name,
        };
        Ok(self.access.check_reading(caller, name)?)
    }

    pub(super) fn check_txn(&self, caller: &Caller, request: &TxnRequest) -> Result<(), Status> {
        let (then, otherwise) = match shape::transaction(request)? {
            Transaction::Create { key, lease, then, otherwise, .. } => {
                let name = queue_of(&key, SessionId(lease)).unwrap_or_else(|| bare_name(&key));
                self.access.check(caller, Action::Acquire, name)?;
                (then, otherwise)
            }
            Transaction::Change { otherwise, .. } => (Vec::new(), otherwise),
        };
        then.iter().chain(&otherwise).try_for_each(|read| self.check_read(caller, read))
    }

    fn check_read(&self, caller: &Caller, read: &Read) -> Result<(), Status> {
        let name = match read {
            Read::Key(key) => lock_of(key),
            Read::First(name) | Read::Before(name, _) => name,
        };
        Ok(self.access.check_reading(caller, name)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_belongs_to_the_lock_before_its_lease() {
        for (key, name) in [
            ("x/7b", "x"),
            ("x/y/123", "x/y"),
            ("x/7b:ahead", "x"),
            ("x", "x"),
            ("x/y", "x/y"),
            ("/locks/x", "x"),
            ("/7b", "/7b"),
            ("x/", "x/"),
        ] {
            assert_eq!(lock_of(key.as_bytes()), name.as_bytes(), "{key}");
        }
    }
}
