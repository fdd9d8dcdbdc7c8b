//! The file of holds: what the next process of a node reads after a crash.

use std::{fs, io::Write, path::Path, time::Duration};

use super::*;
use crate::{
    lease_record::{LeaseRecord, Opening as Open, Unclean},
    leases::Client,
};

const NOW: Moment = Moment::from_nanos(5_000_000_000);
const BOUND: Duration = Duration::from_secs(600);
const TTL: Duration = Duration::from_secs(60);

fn at(seconds: u64) -> Moment {
    NOW.after(Duration::from_secs(seconds))
}

fn open(directory: &Path, now: Moment) -> (LeaseRecord, Unclean) {
    let opening = Open { directory, now, remote: false, with_holds: true, bound: BOUND };
    LeaseRecord::open(&opening, |_| None).expect("opened")
}

fn hold(name: &[u8], session: i64) -> HoldRecord {
    let client = Client { owner: "ann".to_owned(), pid: 7, ..Client::default() };
    HoldRecord {
        name: Name::from(name),
        fencing_token: 42,
        opening: Opening { id: session, ttl: TTL, client, supervised: true, lease: false },
        until: Moment::NEVER,
        granted_ms: 1_700_000_000_000,
        broken: false,
    }
}

/// As a grant is recorded: the longest lease, then the hold.
fn grant(record: &mut LeaseRecord, hold: &HoldRecord) {
    record.write(TTL).expect("written");
    record.write_hold(hold, None).expect("written");
}

fn names(unclean: &Unclean) -> Vec<&[u8]> {
    let mut names: Vec<_> = unclean.holds.iter().map(|(hold, _)| &*hold.name).collect();
    names.sort_unstable();
    names
}

#[test]
fn the_next_process_waits_for_the_names_that_were_held_and_no_others() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut record, _) = open(directory.path(), at(0));
    let (x, y) = (hold(b"x", 1), hold(b"y", -2));
    let key = v1::RecordedKey { key: b"k".to_vec(), value: vec![7; 2000], ..Default::default() };
    grant(&mut record, &x);
    record.write_hold(&y, Some(key.clone())).expect("written");
    record.write_hold(&hold(b"z", 3), None).expect("written");
    record.remove_hold(&Name::from(&b"z"[..])).expect("written");
    let (_, unclean) = open(directory.path(), at(10));
    assert_eq!(unclean.any, None);
    assert_eq!(names(&unclean), [b"x", b"y"]);
    let (read, read_key) = unclean.holds.iter().find(|(hold, _)| *hold.name == *b"y").expect("y");
    assert_eq!(*read, HoldRecord { until: at(70), ..y });
    assert_eq!(read_key.as_ref(), Some(&key));
}

#[test]
fn another_crash_does_not_prolong_the_wait_for_a_client_that_is_gone() {
    let directory = tempfile::tempdir().expect("a directory");
    grant(&mut open(directory.path(), at(0)).0, &hold(b"x", 1));
    let (mut record, unclean) = open(directory.path(), at(10));
    assert_eq!(unclean.holds[0].0.left(at(10)), TTL);
    // Meanwhile another name is held.
    grant(&mut record, &hold(b"y", 2));
    let (_, unclean) = open(directory.path(), at(60));
    let left = |name: &[u8]| {
        let hold = unclean.holds.iter().find(|(hold, _)| *hold.name == *name);
        hold.map(|(hold, _)| hold.left(at(60)))
    };
    assert_eq!(left(b"x"), Some(Duration::from_secs(10)));
    assert_eq!(left(b"y"), Some(TTL));
    assert_eq!(names(&open(directory.path(), at(70)).1), [b"y"]);
}

#[test]
fn slots_are_used_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut record, _) = open(directory.path(), at(0));
    let long = vec![b'n'; 3000];
    for round in 0..100 {
        let names: [&[u8]; 3] = [b"x", b"y", &long];
        for name in names {
            grant(&mut record, &hold(name, round));
            // As when its client reclaims it.
            grant(&mut record, &hold(name, -round));
        }
        for name in names {
            record.remove_hold(&Name::from(name)).expect("written");
        }
    }
    let length = fs::metadata(directory.path().join("holds")).expect("there").len();
    assert!(length < 8192, "{length}");
    assert_eq!(names(&open(directory.path(), at(1)).1), [b""; 0]);
}

#[test]
fn a_file_that_is_not_as_it_was_written_means_the_longest_lease_for_all_names() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("holds");
    let written = |change: &dyn Fn(&mut Vec<u8>)| {
        let (mut record, _) = open(directory.path(), at(1_000_000));
        grant(&mut record, &hold(b"x", 1));
        let mut bytes = fs::read(&path).expect("there");
        change(&mut bytes);
        let mut file = File::create(&path).expect("made");
        file.write_all(&bytes).expect("written");
        let unclean = open(directory.path(), at(1_000_000)).1;
        fs::remove_file(directory.path().join("leases")).expect("there");
        (unclean.any, unclean.holds.len())
    };
    assert_eq!(written(&|_| ()), (None, 1));
    let length = fs::metadata(&path).map_or(0, |data| data.len()) as usize;
    let first = HEADER as usize;
    for cut in 1..length - first {
        let result = written(&|bytes| bytes.truncate(bytes.len() - cut));
        assert_eq!(result, (Some(TTL), 0), "cut by {cut}");
    }
    // The size of the last slot, and bytes that are not used.
    let unused = [first + 4, first + 6, first + 7, first + 12, first + 13, first + 14, first + 15];
    for at in (0..length).filter(|at| !unused.contains(at)) {
        let result = written(&|bytes| bytes[at] ^= 0x41);
        assert_eq!(result, (Some(TTL), 0), "byte {at} of {length}");
    }
    let lost = written(&|bytes| *bytes = Vec::new());
    assert_eq!(lost, (Some(TTL), 0));
}

#[test]
fn a_hold_that_cannot_be_recorded_means_the_longest_lease_for_all_names() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut record, _) = open(directory.path(), at(0));
    grant(&mut record, &hold(b"x", 1));
    record.break_holds(directory.path());
    record.write_hold(&hold(b"y", 2), None).expect("the longest lease can be written");
    record.write(TTL * 2).expect("written");
    let (_, unclean) = open(directory.path(), at(1));
    assert_eq!((unclean.any, unclean.holds.len()), (Some(TTL * 2), 0));
}

#[test]
fn a_wait_for_all_names_goes_on_after_another_crash() {
    let directory = tempfile::tempdir().expect("a directory");
    grant(&mut open(directory.path(), at(0)).0, &hold(b"x", 1));
    fs::remove_file(directory.path().join("holds")).expect("there");
    let (mut record, unclean) = open(directory.path(), at(10));
    assert_eq!(unclean.any, Some(TTL));
    // A client has reclaimed its lock.
    grant(&mut record, &hold(b"x", 1));
    let (_, unclean) = open(directory.path(), at(30));
    assert_eq!((unclean.any, names(&unclean)), (Some(Duration::from_secs(40)), vec![&b"x"[..]]));
    let (_, unclean) = open(directory.path(), at(70));
    assert_eq!((unclean.any, names(&unclean)), (None, vec![&b"x"[..]]));
}

#[test]
fn holds_of_another_boot_are_not_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let holds = [(hold(b"x", 1), None)];
    drop(HoldRecords::create(directory.path(), "one", 5, &holds).expect("made"));
    let read = |boot, generation| HoldRecords::read(directory.path(), boot, generation);
    assert_eq!(read("one", 5).map(|holds| holds.len()), Some(1));
    assert!(read("other", 5).is_none() && read("one", 6).is_none());
}
