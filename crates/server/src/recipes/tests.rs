//! The shapes that real clients send, and the keys.

use super::{
    CHOOSERS, Entry, Recipes, State, bare_name, next_revision, queue_of,
    shape::{self, Change, Condition, Read, Target, Transaction},
};
use crate::{
    leases::{Name, SessionId, WaitId},
    proto::etcdserverpb::{
        Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
        WatchCreateRequest, compare::TargetUnion, request_op::Request,
    },
};

fn compare(target: i32, union: TargetUnion) -> Compare {
    Compare { target, key: b"x/7b".to_vec(), target_union: Some(union), ..Compare::default() }
}

fn created(revision: i64) -> Compare {
    compare(1, TargetUnion::CreateRevision(revision))
}

fn put(value: &[u8]) -> Request {
    Request::RequestPut(PutRequest {
        key: b"x/7b".to_vec(),
        value: value.to_vec(),
        lease: 123,
        ..PutRequest::default()
    })
}

fn key() -> Request {
    Request::RequestRange(RangeRequest { key: b"x/7b".to_vec(), ..RangeRequest::default() })
}

fn deletion() -> Request {
    let key = b"x/7b".to_vec();
    Request::RequestDeleteRange(DeleteRangeRequest { key, ..DeleteRangeRequest::default() })
}

fn first() -> RangeRequest {
    RangeRequest {
        key: b"x/".to_vec(),
        range_end: b"x0".to_vec(),
        limit: 1,
        sort_order: 1,
        sort_target: 2,
        ..RangeRequest::default()
    }
}

fn txn(compare: Compare, success: Vec<Request>, failure: Vec<Request>) -> TxnRequest {
    let operations = |requests: Vec<Request>| {
        let operation = |request| RequestOp { request: Some(request) };
        requests.into_iter().map(operation).collect()
    };
    TxnRequest {
        compare: vec![compare],
        success: operations(success),
        failure: operations(failure),
    }
}

fn own() -> Vec<u8> {
    b"x/7b".to_vec()
}

#[test]
fn the_transactions_of_all_clients_are_understood() {
    // etcdctl lock, Go Mutex.
    let mutex = txn(
        created(0),
        vec![put(b""), Request::RequestRange(first())],
        vec![key(), Request::RequestRange(first())],
    );
    let reads = vec![Read::Key(own()), Read::First(b"x".to_vec())];
    let expected = |then: Vec<Read>, otherwise: Vec<Read>, value: &[u8]| Transaction::Create {
        key: own(),
        value: value.to_vec(),
        lease: 123,
        then,
        otherwise,
    };
    let parsed = shape::transaction(&mutex);
    assert_eq!(parsed, Ok(expected(vec![Read::First(b"x".to_vec())], reads, b"")));
    // etcdctl elect, Go Election, Python etcd3, aetcd; npm Election has a limit of 1.
    let limited =
        Request::RequestRange(RangeRequest { key: own(), limit: 1, ..Default::default() });
    for read in [key(), limited] {
        let elect = txn(created(0), vec![put(b"v")], vec![read]);
        let parsed = shape::transaction(&elect);
        assert_eq!(parsed, Ok(expected(vec![], vec![Read::Key(own())], b"v")));
    }
    // npm Lock.
    let npm = txn(created(0), vec![put(b"")], vec![]);
    assert_eq!(shape::transaction(&npm), Ok(expected(vec![], vec![], b"")));
    // Resign and proclaim; the release of Python etcd3 and aetcd; Mutex.IsOwner.
    let change = |condition, change| {
        Ok(Transaction::Change { key: own(), condition, change, otherwise: vec![] })
    };
    let resign = txn(created(9), vec![deletion()], vec![]);
    assert_eq!(shape::transaction(&resign), change(Condition::Created(9), Change::Delete));
    let proclaim = txn(created(9), vec![put(b"w")], vec![]);
    let parsed = shape::transaction(&proclaim);
    assert_eq!(parsed, change(Condition::Created(9), Change::Put(b"w".to_vec())));
    let release = txn(compare(3, TargetUnion::Value(b"u".to_vec())), vec![deletion()], vec![]);
    let parsed = shape::transaction(&release);
    assert_eq!(parsed, change(Condition::Value(b"u".to_vec()), Change::Delete));
    let owner = txn(created(9), vec![], vec![]);
    assert_eq!(shape::transaction(&owner), change(Condition::Created(9), Change::Keep));
}

#[test]
fn other_transactions_are_refused() {
    let other_key = Request::RequestPut(PutRequest { key: b"y".to_vec(), ..Default::default() });
    let refused = [
        TxnRequest::default(),
        txn(created(0), vec![], vec![]),
        txn(created(0), vec![other_key], vec![]),
        txn(created(0), vec![put(b""), put(b"")], vec![]),
        txn(created(0), vec![put(b"")], vec![deletion()]),
        txn(created(5), vec![deletion(), deletion()], vec![]),
        txn(compare(0, TargetUnion::Version(1)), vec![put(b"")], vec![]),
        txn(Compare { result: 1, ..created(0) }, vec![put(b"")], vec![]),
    ];
    for request in refused {
        let error = shape::transaction(&request).expect_err("not a shape of a recipe");
        assert!(error.to_string().contains("unsupported transaction"), "{error}");
    }
}

#[test]
fn ranges_and_watches_are_of_one_key_or_of_one_lock() {
    assert_eq!(shape::range(&first()), Ok(Read::First(b"x".to_vec())));
    let npm = RangeRequest { key: b"x/\0".to_vec(), ..first() };
    assert_eq!(shape::range(&npm), Ok(Read::First(b"x".to_vec())));
    let before = RangeRequest { sort_order: 2, max_create_revision: 41, ..first() };
    assert_eq!(shape::range(&before), Ok(Read::Before(b"x".to_vec(), 41)));
    let health = RangeRequest { key: b"health".to_vec(), ..RangeRequest::default() };
    assert_eq!(shape::range(&health), Ok(Read::Key(b"health".to_vec())));
    let refused = [
        RangeRequest { limit: 0, ..first() },
        RangeRequest { range_end: b"y".to_vec(), ..first() },
        RangeRequest { range_end: vec![0], ..first() },
        RangeRequest { sort_target: 3, ..first() },
        RangeRequest { sort_order: 2, ..first() },
        RangeRequest { count_only: true, ..first() },
        RangeRequest { revision: 5, ..first() },
        RangeRequest::default(),
    ];
    for request in refused {
        shape::range(&request).expect_err("not a shape of a recipe");
    }
    let watch = WatchCreateRequest {
        key: b"x/7b:ahead".to_vec(),
        start_revision: 5,
        filters: vec![0],
        progress_notify: true,
        ..WatchCreateRequest::default()
    };
    let parsed = shape::watch(&watch).expect("npm");
    assert_eq!((parsed.puts, parsed.deletes, parsed.start), (false, true, 5));
    assert_eq!(parsed.target, Target::Key(b"x/7b:ahead".to_vec()));
    let prefix = WatchCreateRequest {
        key: b"x/".to_vec(),
        range_end: b"x0".to_vec(),
        ..WatchCreateRequest::default()
    };
    assert_eq!(shape::watch(&prefix).expect("elect -l").target, Target::Lock(b"x".to_vec()));
    let all = WatchCreateRequest { range_end: vec![0], ..prefix };
    shape::watch(&all).expect_err("a range that is not a lock's");
}

#[test]
fn a_key_names_its_lock_by_the_number_of_its_lease() {
    let lease = SessionId(123);
    assert_eq!(queue_of(b"x/7b", lease), Some(&b"x"[..]));
    assert_eq!(queue_of(b"election/x/123", lease), Some(&b"election/x"[..]));
    assert_eq!(queue_of(b"p/q/7b", lease), Some(&b"p/q"[..]));
    assert_eq!(queue_of(b"x/7B", lease), None);
    assert_eq!(queue_of(b"x", lease), None);
    assert_eq!(queue_of(b"x/-7", SessionId(-7)), Some(&b"x"[..]));
    assert_eq!(bare_name(b"/locks/x"), b"x");
    assert_eq!(bare_name(b"/locks/"), b"/locks/");
    assert_eq!(bare_name(b"x"), b"x");
}

#[test]
fn no_two_members_choose_the_same_revision() {
    for last in 0..100 {
        for member in 0..2 * CHOOSERS {
            let revision = next_revision(last, member);
            assert!(revision > last && revision <= last + CHOOSERS, "{revision} after {last}");
            assert_eq!(revision % CHOOSERS, member % CHOOSERS);
        }
    }
}

fn waiter(lease: i64, created: u64) -> Entry {
    Entry {
        name: Name::from(&b"x"[..]),
        lease: SessionId(lease),
        value: b"v".to_vec(),
        created,
        changed: created,
        version: 1,
        state: State::Waiting(WaitId(1)),
        restamped: false,
        proposed: None,
    }
}

#[test]
fn a_waiter_is_shown_one_earlier_key_and_its_grant_keeps_its_revision() {
    let mut recipes = Recipes::default();
    recipes.insert(own(), waiter(123, 40));
    let entry = recipes.get(b"x/7b").expect("there");
    let ahead = entry.ahead(b"x/7b");
    assert_eq!((&*ahead.key, ahead.create_revision), (&b"x/7b:ahead"[..], 39));
    assert_eq!(recipes.holder(b"x"), None);
    assert!(recipes.granted(b"x/7b", 44));
    let (key, held) = recipes.created_at(b"x", 40).expect("its client knows this revision");
    assert_eq!((&**key, held.token()), (&b"x/7b"[..], Some(44)));
    assert!(!recipes.granted(b"x/8", 45), "a key that is gone");
    recipes.settle(b"y", None);
    recipes.settle(b"x", Some((SessionId(123), 44)));
    assert!(recipes.holder(b"x").is_some(), "it still holds the lock");
    recipes.settle(b"x", Some((SessionId(123), 50)));
    assert_eq!(recipes.get(b"x/7b"), None, "a later grant is not this key's");
}

#[test]
fn a_key_that_no_client_has_seen_gets_the_fencing_token_as_its_revision() {
    let mut recipes = Recipes::default();
    recipes.insert(own(), Entry { restamped: true, ..waiter(123, 40) });
    assert!(recipes.granted(b"x/7b", 44));
    let shown = recipes.get(b"x/7b").expect("there").shown(b"x/7b");
    assert_eq!((shown.create_revision, shown.mod_revision, shown.lease), (44, 44, 123));
    recipes.put(b"x/7b", b"w".to_vec(), 46);
    let shown = recipes.get(b"x/7b").expect("there").shown(b"x/7b");
    assert_eq!((shown.create_revision, shown.mod_revision, shown.version), (44, 46, 2));
}

#[test]
fn the_key_of_a_holder_is_restored_at_another_member() {
    let mut recipes = Recipes::default();
    recipes.insert(own(), waiter(123, 40));
    assert!(recipes.granted(b"x/7b", 44));
    let recorded = recipes.recorded(b"x", SessionId(123)).expect("it holds the lock");
    let mut other = Recipes::default();
    other.restore(recorded, &Name::from(&b"x"[..]), SessionId(123), 44);
    assert_eq!(other.get(b"x/7b"), recipes.get(b"x/7b"));
}

#[test]
fn a_proposed_value_is_recorded_first_and_shown_when_it_is_recorded() {
    let mut recipes = Recipes::default();
    recipes.insert(own(), waiter(123, 40));
    assert!(recipes.granted(b"x/7b", 44));
    recipes.propose(b"x/7b", b"w".to_vec(), 46);
    let shown = recipes.get(b"x/7b").expect("there").shown(b"x/7b");
    assert_eq!((&*shown.value, shown.mod_revision), (&b"v"[..], 40));
    let recorded = recipes.recorded(b"x", SessionId(123)).expect("it holds the lock");
    assert_eq!((&*recorded.value, recorded.mod_revision), (&b"w"[..], 46));
    assert!(!recipes.take_proposed(b"y"));
    assert!(recipes.take_proposed(b"x") && !recipes.take_proposed(b"x"));
    let shown = recipes.get(b"x/7b").expect("there").shown(b"x/7b");
    assert_eq!((&*shown.value, shown.mod_revision, shown.version), (&b"w"[..], 46, 2));
}

#[test]
fn the_waiters_of_a_lease_are_recorded_in_order_of_creation() {
    let mut recipes = Recipes::default();
    let named = |name: &[u8], created| Entry { name: Name::from(name), ..waiter(123, created) };
    recipes.insert(b"b/7b".to_vec(), named(b"b", 40));
    recipes.insert(b"a/7b".to_vec(), named(b"a", 41));
    recipes.insert(b"c/7b".to_vec(), Entry { restamped: true, ..named(b"c", 42) });
    recipes.insert(b"d/7c".to_vec(), Entry { name: Name::from(&b"d"[..]), ..waiter(124, 43) });
    recipes.insert(b"e/7b".to_vec(), named(b"e", 44));
    assert!(recipes.granted(b"e/7b", 45));
    let waiting = recipes.waiting_of(SessionId(123));
    let keys: Vec<_> = waiting.iter().map(|one| (&*one.key, one.create_revision)).collect();
    assert_eq!(keys, [(&b"b/7b"[..], 40), (&b"a/7b"[..], 41), (&b"c/7b"[..], 0)]);
    assert_eq!(recipes.listed(SessionId(123)), []);
    recipes.list(SessionId(123), waiting.clone());
    assert_eq!(recipes.listed(SessionId(123)), waiting);
}
