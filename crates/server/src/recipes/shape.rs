//! The shapes of calls that etcd's recipes for locks and elections consist of.
//!
//! Mutua is not a key-value store: a key is a holder or a waiter of a lock, and only the calls that
//! the recipes of etcd's clients make have a meaning. Every other call is refused with a sentence.

use crate::proto::{
    etcdserverpb::{
        Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
        WatchCreateRequest,
        compare::{CompareResult, CompareTarget, TargetUnion},
        range_request::{SortOrder, SortTarget},
        request_op::Request,
        watch_create_request::FilterType,
    },
    mvccpb::KeyValue,
};

/// Why a call is refused. Nothing was done.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum ShapeError {
    /// No recipe makes this call.
    #[error(
        "unsupported {0}: Mutua serves locks and elections, not a key-value store; the supported \
         calls are those of etcd's recipes, for instance of `etcdctl lock` and `etcdctl elect`"
    )]
    Unsupported(&'static str),
    /// A call without a key.
    #[error("etcdserver: key is not provided")]
    NoKey,
}

type Shaped<T> = Result<T, ShapeError>;

/// A read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Read {
    /// One key.
    Key(Vec<u8>),
    /// The first key of a lock: the holder's.
    First(Vec<u8>),
    /// The last key of a lock that was created at this revision or earlier: asked by the waiter
    /// whose key was created at the next one.
    Before(Vec<u8>, i64),
}

/// A transaction.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Transaction {
    /// Creates a key, unless it exists.
    Create {
        /// The key, its value and its lease.
        key: Vec<u8>,
        value: Vec<u8>,
        lease: i64,
        /// What to read if it was created, and if it exists.
        then: Vec<Read>,
        otherwise: Vec<Read>,
    },
    /// Changes a key if it is still the same.
    Change {
        /// The key, and what must hold of it.
        key: Vec<u8>,
        condition: Condition,
        change: Change,
        /// What to read if it does not hold.
        otherwise: Vec<Read>,
    },
}

/// What must hold of a key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Condition {
    /// It was created at this revision.
    Created(i64),
    /// It has this value.
    Value(Vec<u8>),
}

impl Condition {
    /// Whether it holds of a key.
    pub(crate) fn holds(&self, kv: &KeyValue) -> bool {
        match self {
            Self::Created(revision) => kv.create_revision == *revision,
            Self::Value(value) => kv.value == *value,
        }
    }
}

/// What to do with a key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Change {
    /// Nothing.
    Keep,
    /// Delete it: the lock is released, or the waiter gives up.
    Delete,
    /// Give it another value.
    Put(Vec<u8>),
}

/// A watch.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Watch {
    pub(crate) target: Target,
    /// Events of earlier revisions are not reported, except deletions.
    pub(crate) start: i64,
    pub(crate) puts: bool,
    pub(crate) deletes: bool,
}

/// What is watched.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Target {
    /// One key.
    Key(Vec<u8>),
    /// The keys of this lock.
    Lock(Vec<u8>),
}

/// The lock whose keys a range covers: all keys that begin with its name and a slash.
fn lock_of(key: &[u8], range_end: &[u8]) -> Option<Vec<u8>> {
    // One client begins the range at the first key that can follow the slash.
    let key = key.strip_suffix(b"\0").unwrap_or(key);
    let name = key.strip_suffix(b"/")?;
    // The byte after the slash is `0`.
    (range_end == [name, b"0"].concat()).then(|| name.to_vec())
}

pub(crate) fn range(request: &RangeRequest) -> Shaped<Read> {
    let unsupported = Err(ShapeError::Unsupported("range"));
    if request.key.is_empty() {
        return Err(ShapeError::NoKey);
    }
    let RangeRequest { revision, count_only, keys_only, limit, max_create_revision, .. } = *request;
    let bounds = request.min_mod_revision | request.max_mod_revision | request.min_create_revision;
    if revision != 0 || count_only || keys_only || bounds != 0 || !(0..=1).contains(&limit) {
        return unsupported;
    }
    if request.range_end.is_empty() {
        let plain = max_create_revision == 0;
        return if plain { Ok(Read::Key(request.key.clone())) } else { unsupported };
    }
    let Some(name) = lock_of(&request.key, &request.range_end).filter(|_| limit == 1) else {
        return unsupported;
    };
    let sorted = (request.sort_target(), request.sort_order());
    match (sorted, max_create_revision) {
        ((SortTarget::Create, SortOrder::Ascend), 0) => Ok(Read::First(name)),
        ((SortTarget::Create, SortOrder::Descend), 0) => unsupported,
        ((SortTarget::Create, SortOrder::Descend), most) => Ok(Read::Before(name, most)),
        _ => unsupported,
    }
}

/// The key to delete.
pub(crate) fn delete(request: &DeleteRangeRequest) -> Shaped<Vec<u8>> {
    match request {
        DeleteRangeRequest { key, .. } if key.is_empty() => Err(ShapeError::NoKey),
        DeleteRangeRequest { key, range_end, prev_kv: false } if range_end.is_empty() => {
            Ok(key.clone())
        }
        _ => Err(ShapeError::Unsupported("deletion")),
    }
}

pub(crate) fn transaction(request: &TxnRequest) -> Shaped<Transaction> {
    let unsupported = || ShapeError::Unsupported("transaction");
    let [compare] = &*request.compare else { return Err(unsupported()) };
    let (key, condition) = condition(compare).ok_or_else(unsupported)?;
    let otherwise = reads(&request.failure).ok_or_else(unsupported)?;
    let operations: Option<Vec<_>> =
        request.success.iter().map(|one| one.request.as_ref()).collect();
    let operations = operations.ok_or_else(unsupported)?;
    if condition == Condition::Created(0) {
        let [Request::RequestPut(put), ..] = &*operations else { return Err(unsupported()) };
        let then = reads(&request.success[1..]).ok_or_else(unsupported)?;
        let PutRequest { value, lease, .. } = put_of(put, &key).ok_or_else(unsupported)?.clone();
        return Ok(Transaction::Create { key, value, lease, then, otherwise });
    }
    let change = match &*operations {
        [] => Change::Keep,
        [Request::RequestDeleteRange(request)] if delete(request).as_ref() == Ok(&key) => {
            Change::Delete
        }
        [Request::RequestPut(put)] => {
            Change::Put(put_of(put, &key).ok_or_else(unsupported)?.value.clone())
        }
        _ => return Err(unsupported()),
    };
    Ok(Transaction::Change { key, condition, change, otherwise })
}

fn put_of<'a>(put: &'a PutRequest, key: &[u8]) -> Option<&'a PutRequest> {
    let plain = !put.prev_kv && !put.ignore_value && !put.ignore_lease;
    (plain && put.key == key).then_some(put)
}

fn condition(compare: &Compare) -> Option<(Vec<u8>, Condition)> {
    let equal = compare.result() == CompareResult::Equal && compare.range_end.is_empty();
    if !equal || compare.key.is_empty() {
        return None;
    }
    let condition = match (compare.target(), &compare.target_union) {
        (CompareTarget::Create, Some(TargetUnion::CreateRevision(revision))) => {
            Condition::Created(*revision)
        }
        // A zero may be left out.
        (CompareTarget::Create, None) => Condition::Created(0),
        (CompareTarget::Value, Some(TargetUnion::Value(value))) => Condition::Value(value.clone()),
        _ => return None,
    };
    Some((compare.key.clone(), condition))
}

fn reads(operations: &[RequestOp]) -> Option<Vec<Read>> {
    let read = |operation: &RequestOp| match &operation.request {
        Some(Request::RequestRange(request)) => range(request).ok(),
        _ => None,
    };
    operations.iter().map(read).collect()
}

pub(crate) fn watch(request: &WatchCreateRequest) -> Shaped<Watch> {
    if request.key.is_empty() {
        return Err(ShapeError::NoKey);
    }
    let target = match &*request.range_end {
        [] => Target::Key(request.key.clone()),
        end => Target::Lock(
            lock_of(&request.key, end).ok_or(ShapeError::Unsupported("watch of a range"))?,
        ),
    };
    let without = |kind| request.filters().any(|filter| filter == kind);
    Ok(Watch {
        target,
        start: request.start_revision,
        puts: !without(FilterType::Noput),
        deletes: !without(FilterType::Nodelete),
    })
}
