//! What the rules of the configuration let a client of etcd's recipes do.
//!
//! Creating a key is acquiring its lock, reading is listing it. A key is changed and deleted by the
//! client of its lease only, wherever that is served ([`By::identity`]).
//!
//! A request names a key without its lease, so its lock may be one of two: `x/cafe` is a waiter for
//! `x` if its lease has that number, and otherwise a lock of its own. A client that may see neither
//! is refused at once; what is found is shown by its exact lock.

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
    methods::{Need, Right},
    proto::{
        etcdserverpb::{RangeRequest, TxnRequest, TxnResponse, response_op::Response},
        mvccpb::KeyValue,
    },
};

/// The locks that a key may belong to if its lease is not known.
fn locks_of(key: &[u8]) -> Vec<Vec<u8>> {
    if let Some(waiter) = key.strip_suffix(AHEAD) {
        return vec![before_slash(waiter).unwrap_or(waiter).to_vec()];
    }
    let mut locks = vec![bare_name(key).to_vec()];
    if let Some(name) = before_slash(key) {
        let lease = &key[name.len() + 1..];
        let digits = lease.strip_prefix(b"-").unwrap_or(lease);
        if !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit) {
            locks.push(name.to_vec());
        }
    }
    locks
}

fn before_slash(key: &[u8]) -> Option<&[u8]> {
    key.iter().rposition(|&byte| byte == b'/').map(|slash| &key[..slash])
}

/// The lock of a key that was found. `None`: it was made up for a client that was refused the lock.
fn lock_of(kv: &KeyValue) -> Option<&[u8]> {
    if let Some(waiter) = kv.key.strip_suffix(AHEAD) {
        return before_slash(waiter);
    }
    let is_real = kv.lease != 0;
    is_real.then(|| queue_of(&kv.key, SessionId(kv.lease)).unwrap_or_else(|| bare_name(&kv.key)))
}

fn needs_of_read(read: &Read) -> Need {
    let names = match read {
        Read::Key(key) => locks_of(key),
        Read::First(name) | Read::Before(name, _) => vec![name.clone()],
    };
    Need { right: Right::Read, names }
}

/// What a client needs for a `Range`.
pub(crate) fn needs_of_range(request: &RangeRequest) -> Result<Vec<Need>, Status> {
    Ok(vec![needs_of_read(&shape::range(request)?)])
}

/// What a client needs for a `Txn`.
pub(crate) fn needs_of_txn(request: &TxnRequest) -> Result<Vec<Need>, Status> {
    let mut needs = Vec::new();
    let (then, otherwise) = match shape::transaction(request)? {
        Transaction::Create { key, lease, then, otherwise, .. } => {
            let name = queue_of(&key, SessionId(lease)).unwrap_or_else(|| bare_name(&key));
            needs.push(Need::new(Right::Acquire, name.to_vec()));
            (then, otherwise)
        }
        Transaction::Change { otherwise, .. } => (Vec::new(), otherwise),
    };
    needs.extend(then.iter().chain(&otherwise).map(needs_of_read));
    Ok(needs)
}

impl Service {
    /// How a client makes a call that changes keys.
    pub(crate) fn by(&self, caller: &Caller) -> By {
        By { identity: self.identity_needed(caller), restamped: false }
    }

    /// Checks whether a client may watch.
    pub(super) fn check_target(&self, caller: &Caller, target: &Target) -> Result<(), Status> {
        let names = match target {
            Target::Key(key) => locks_of(key),
            Target::Lock(name) => vec![name.clone()],
        };
        self.check_needs(caller, &[Need { right: Right::Read, names }])
    }

    /// Checks whether a client may see these keys.
    pub(super) fn check_shown<'a>(
        &self,
        caller: &Caller,
        kvs: impl IntoIterator<Item = &'a KeyValue>,
    ) -> Result<(), Status> {
        for name in kvs.into_iter().filter_map(lock_of) {
            self.access.check_reading(caller, name)?;
        }
        Ok(())
    }

    /// Checks whether a client may see what its transaction has read.
    pub(super) fn check_read(&self, caller: &Caller, response: &TxnResponse) -> Result<(), Status> {
        let kvs = response.responses.iter().flat_map(|one| match &one.response {
            Some(Response::ResponseRange(range)) => &*range.kvs,
            _ => <&[KeyValue]>::default(),
        });
        self.check_shown(caller, kvs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_without_its_lease_may_belong_to_two_locks() {
        for (key, names) in [
            ("x/7b", &["x/7b", "x"][..]),
            ("x/y/123", &["x/y/123", "x/y"]),
            ("x/-7b", &["x/-7b", "x"]),
            ("x/7b:ahead", &["x"]),
            ("x", &["x"]),
            ("x/yz", &["x/yz"]),
            ("/locks/x", &["x"]),
            ("/locks/cafe", &["cafe", "/locks"]),
            ("x/", &["x/"]),
        ] {
            let found = locks_of(key.as_bytes());
            assert_eq!(
                found,
                names.iter().map(|name| name.as_bytes()).collect::<Vec<_>>(),
                "{key}"
            );
        }
    }

    #[test]
    fn a_key_with_its_lease_belongs_to_one_lock() {
        let kv = |key: &str, lease| KeyValue { key: key.into(), lease, ..KeyValue::default() };
        for (key, lease, name) in [
            ("x/7b", 0x7b, Some("x")),
            ("x/123", 123, Some("x")),
            ("x/cafe", 0x7b, Some("x/cafe")),
            ("/locks/cafe", 0x7b, Some("cafe")),
            ("x/-7", -7, Some("x")),
            ("x/7b:ahead", 0, Some("x")),
            ("x", 0, None),
        ] {
            let kv = kv(key, lease);
            assert_eq!(lock_of(&kv), name.map(str::as_bytes), "{key}");
        }
    }
}
