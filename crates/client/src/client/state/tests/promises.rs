//! Grants with a promise.

use super::*;

const NAME: &[u8] = b"x";

impl Test {
    fn promise(&mut self, id: u64, promised_ms: u64) {
        let (name, fencing_token, promised_ms) = (NAME.to_vec(), 10, Some(promised_ms));
        let granted = v1::Granted { id, name, fencing_token, promised_ms, ..Default::default() };
        self.reply(Reply::Granted(granted));
    }

    fn prolong(&mut self, promised_ms: Option<u64>) {
        let (name, fencing_token) = (NAME.to_vec(), 10);
        self.reply(Reply::Promised(v1::Promised { name, fencing_token, promised_ms }));
    }
}

/// A request that has waited for two seconds.
fn waited() -> (Test, u64) {
    let mut test = Test::open();
    let id = test.acquire("x", Wait::Forever);
    test.sleep(Duration::from_secs(2));
    test.effects();
    (test, id)
}

#[test]
fn a_promise_counts_from_when_the_request_was_sent() {
    let (mut test, id) = waited();
    test.promise(id, 3000);
    assert_eq!(test.effects(), [format!("{id} granted 10")]);
    assert_eq!(test.state.wake_at(), test.now.after(Duration::from_secs(1)));
    test.sleep(Duration::from_millis(999));
    assert!(test.state.holds());
    test.sleep(Duration::from_millis(1));
    let lost = format!("{id} lost: its node was lost before the hold was recorded");
    assert!(test.effects().contains(&lost));
    // Too late: its caller has been informed.
    test.prolong(None);
    assert!(!test.state.holds());
    test.release(id);
    assert_eq!(test.effects(), ["release x 10"]);
}

#[test]
fn a_promise_grows_and_ends_with_the_record() {
    let (mut test, id) = waited();
    test.promise(id, 3000);
    test.effects();
    test.prolong(Some(3500));
    assert_eq!(test.effects(), [format!("{id} prolonged by 1.5s")]);
    // An older word says less, and takes nothing away.
    test.prolong(Some(2500));
    test.sleep(Duration::from_millis(1400));
    assert!(test.state.holds());
    test.prolong(None);
    test.sleep(Duration::from_millis(1000));
    assert!(test.state.holds(), "it lasts as the session does");
}

#[test]
fn a_grant_whose_promise_is_over_is_reported_when_it_is_recorded() {
    let (mut test, id) = waited();
    test.promise(id, 2020);
    assert_eq!(test.effects(), [] as [&str; 0]);
    test.sleep(Duration::from_millis(30));
    test.prolong(None);
    assert_eq!(test.effects(), [format!("{id} granted 10")]);
}

#[test]
fn a_request_that_is_sent_again_counts_from_the_first_time() {
    let (mut test, id) = waited();
    test.state.broken(test.now, "cut");
    test.attach("open 7 []");
    test.promise(id, 2500);
    test.effects();
    test.sleep(Duration::from_millis(500));
    assert!(!test.state.holds());
}

#[test]
fn the_next_stream_asks_whether_a_promised_hold_is_recorded() {
    let (mut test, id) = waited();
    test.promise(id, 5000);
    test.effects();
    test.state.broken(test.now, "cut");
    test.state.attached(test.now);
    let open = test.state.effects().drain(..).find_map(|effect| match effect {
        Effect::Send(Request::Open(open)) => Some(open),
        _ => None,
    });
    let reclaims = open.expect("it opens").reclaims;
    let (name, fencing_token) = (NAME.to_vec(), 10);
    assert_eq!(reclaims, [v1::Reclaim { name, fencing_token, promised: true }]);
}

#[test]
fn candidates_and_clients_that_want_it_have_their_holds_recorded_first() {
    let takes_promise = |test: &mut Test, value: Option<Vec<u8>>| {
        test.state.acquire(test.now, &Name::from(NAME), Wait::Forever, value);
        let sent = test.state.effects().drain(..).find_map(|effect| match effect {
            Effect::Send(Request::Acquire(acquire)) => Some(acquire.promise),
            _ => None,
        });
        sent.expect("it acquires")
    };
    assert!(takes_promise(&mut Test::open(), None));
    assert!(!takes_promise(&mut Test::open(), Some(b"value".to_vec())));
    let mut test = Test::open();
    test.state.settings.promises = false;
    assert!(!takes_promise(&mut test, None));
}
