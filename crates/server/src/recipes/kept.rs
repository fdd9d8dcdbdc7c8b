//! What no member serves, but other members have recorded: its node is lost, and another one takes
//! it over with the next view. Nobody may say meanwhile that it does not exist.

use mutua_node::ClientHold;
use prost::Message;

use super::{
    AHEAD, queue_of,
    shape::{Read, Target, Transaction},
};
use crate::{Core, Service, leases::SessionId, proto::v1};

/// What a call is about.
#[derive(Debug)]
pub(crate) enum Wanted<'a> {
    /// A lease.
    Lease(SessionId),
    /// A key.
    Key(&'a [u8]),
    /// The holder of a lock.
    Holder(&'a [u8]),
    /// The key of a lock that was created at this revision.
    Created(&'a [u8], u64),
}

impl<'a> Wanted<'a> {
    pub(super) fn key(key: &'a [u8]) -> Self {
        Self::Key(key.strip_suffix(AHEAD).unwrap_or(key))
    }

    pub(super) fn of_transaction(transaction: &'a Transaction) -> Self {
        match transaction {
            Transaction::Create { lease, .. } => Self::Lease(SessionId(*lease)),
            Transaction::Change { key, .. } => Self::key(key),
        }
    }

    pub(super) fn of_read(read: &'a Read) -> Self {
        match read {
            Read::Key(key) => Self::key(key),
            Read::First(name) => Self::Holder(name),
            Read::Before(name, last) => Self::Created(name, last.cast_unsigned().wrapping_add(1)),
        }
    }

    pub(super) fn of_target(target: &'a Target) -> Self {
        match target {
            Target::Key(key) => Self::key(key),
            Target::Lock(name) => Self::Holder(name),
        }
    }

    /// Whether a record is about it.
    fn is_in(&self, kept: ClientHold<'_>) -> bool {
        let lease = SessionId(kept.session.cast_signed());
        let keys = || {
            let recorded = v1::Recorded::decode(kept.value).unwrap_or_default();
            recorded.key.into_iter().chain(recorded.waiting)
        };
        match *self {
            Self::Lease(wanted) => wanted == lease,
            Self::Key(wanted) => {
                let held = || crate::etcd::key(kept.name, lease) == wanted;
                held() || keys().any(|one| one.key == wanted)
            }
            Self::Holder(name) => kept.name == name,
            Self::Created(name, revision) => keys().any(|one| {
                one.create_revision == revision && queue_of(&one.key, lease) == Some(name)
            }),
        }
    }
}

impl Service {
    /// Whether this node has recorded it, or holds it for a client that it does not serve yet.
    pub(crate) fn is_kept(&self, core: &Core, wanted: &Wanted<'_>) -> bool {
        self.handle.any_kept(|kept| {
            let served = kept.hold.is_some_and(|hold| core.holds.contains_key(&hold));
            !served && wanted.is_in(kept)
        })
    }
}
