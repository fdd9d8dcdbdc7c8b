//! Requests: their names, and their places in the queue.

use super::*;

#[test]
fn a_request_that_a_client_has_sent_again_is_not_ahead_of_it() {
    let mut scene = Scene::new();
    let (holder, one, two) = (scene.open(), scene.open(), scene.open());
    scene.wait(holder);
    let (first, other) = (scene.wait(one), scene.wait(two));
    let again = scene.wait(one);
    let ahead = |wait| scene.leases.position(wait);
    assert_eq!((ahead(first), ahead(other), ahead(again)), (Some(0), Some(1), Some(1)));
}

#[test]
fn a_name_has_a_byte_and_no_more_than_fit_a_message() {
    use crate::leases::{MAX_NAME, check_name};
    assert!(check_name(b"lease/1").is_ok() && check_name(&[0]).is_ok());
    assert!(check_name(&[b'x'; MAX_NAME]).is_ok());
    for name in [vec![], vec![b'x'; MAX_NAME + 1]] {
        assert!(check_name(&name).is_err(), "{} bytes", name.len());
    }
}

#[test]
fn the_list_contains_holders_and_waiters() {
    let mut scene = Scene::new();
    let client = Client { owner: "ann".to_owned(), ..Client::default() };
    let one = scene.open_with(Opening { ttl: TTL, client, ..Opening::default() });
    let two = scene.open();
    scene.wait(one);
    scene.pass(3);
    scene.wait(two);
    let list = scene.leases.list(scene.now, b"");
    let holder = list[0].holder.as_ref().expect("the lock is held");
    assert_eq!((holder.client.owner.as_str(), holder.elapsed.as_secs()), ("ann", 3));
    assert_eq!(list[0].waiting.len(), 1);
    assert!(scene.leases.list(scene.now, b"y").is_empty());
    assert_eq!(scene.leases.show(scene.now, b"nothing").holder, None);
}
