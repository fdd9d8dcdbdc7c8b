//! Programs with the client library, beside `mutua lock`, at real nodes.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use mutua_client::{AcquireError, Client, Options, blocking};
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    nodes::Cluster,
    scene::{Scene, wait_for},
};

/// No test waits as long as this.
const LONG: Duration = Duration::from_secs(60);

fn connect(cluster: &Cluster, node: usize) -> blocking::Client {
    options(cluster, node).connect_blocking().expect("connected")
}

/// A client whose holds outlive their node from the first moment.
fn connect_recording(cluster: &Cluster, node: usize) -> blocking::Client {
    options(cluster, node).record_first().connect_blocking().expect("connected")
}

fn options(cluster: &Cluster, node: usize) -> Options {
    let options = Options::new([cluster.endpoint(node)]);
    // A node that lists no other member is in no cluster.
    let options = if cluster.size() > 1 { options.cluster("test") } else { options };
    options.lease(Duration::from_secs(8))
}

/// Whether `mutua lock -n` gets the lock at a node.
fn is_free(scene: &Scene, cluster: &Cluster, node: usize, name: &str) -> bool {
    let endpoint = cluster.endpoint(node);
    let tried = scene.lock(&["-n", "--endpoint", &endpoint, name], &["true"]).output();
    match tried.expect("run").status.code() {
        Some(0) => true,
        Some(75) => false,
        code => panic!("exit code {code:?}"),
    }
}

#[test]
fn clients_of_three_nodes_exclude_each_other_and_tokens_grow() {
    let scene = Scene::new();
    let cluster = Cluster::start_many(&scene, 3);
    let (held, tokens) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
    // Two threads share each client: they exclude each other too.
    let clients = (0..3).map(|node| connect(&cluster, node)).flat_map(|one| [one.clone(), one]);
    let contend = |client: blocking::Client| {
        let (held, tokens) = (Arc::clone(&held), Arc::clone(&tokens));
        thread::spawn(move || {
            for _ in 0..20 {
                let guard = client.lock("x").acquire_within(LONG).expect("acquired");
                assert!(!held.swap(true, Ordering::SeqCst), "held twice");
                tokens.lock().expect("no panic").push(guard.fencing_token());
                assert!(guard.is_good());
                held.store(false, Ordering::SeqCst);
            }
        })
    };
    let threads: Vec<_> = clients.map(contend).collect();
    threads.into_iter().for_each(|one| one.join().expect("no panic"));
    let tokens = tokens.lock().expect("no panic");
    assert_eq!(tokens.len(), 120);
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
}

#[test]
fn a_guard_excludes_other_clients_until_it_is_dropped() {
    let scene = Scene::new();
    let cluster = Cluster::start_many(&scene, 1);
    let client = connect(&cluster, 0);
    let (x, y) = (client.lock("x"), client.lock("y"));
    let (guard, other) = (x.acquire().expect("acquired"), y.try_acquire().expect("free"));
    assert!(!is_free(&scene, &cluster, 0, "x") && !is_free(&scene, &cluster, 0, "y"));
    assert!(matches!(x.try_acquire(), Err(AcquireError::Busy { .. })), "by the same client too");
    // Another client learns the holder.
    let second = connect(&cluster, 0);
    let limit = Duration::from_millis(50);
    match second.lock("x").acquire_within(limit) {
        Err(AcquireError::TimedOut { holder: Some(holder) }) => {
            assert_eq!(holder.pid, std::process::id());
            assert_eq!(holder.fencing_token, guard.fencing_token());
        }
        other => panic!("{other:?}"),
    }
    guard.release().expect("it was held");
    assert!(is_free(&scene, &cluster, 0, "x") && !is_free(&scene, &cluster, 0, "y"));
    drop(other);
    wait_for("the release", || is_free(&scene, &cluster, 0, "y"));
}

#[test]
fn a_client_that_is_dropped_releases_and_a_dropped_future_leaves_the_queue() {
    let scene = Scene::new();
    let cluster = Cluster::start_many(&scene, 1);
    let holder = connect(&cluster, 0);
    let guard = holder.lock("x").acquire().expect("acquired");
    let endpoint = cluster.endpoint(0);
    let waiting = || {
        let shown = scene.command(&["show", "--json", "--endpoint", &endpoint, "x"]).output();
        let shown: serde_json::Value =
            serde_json::from_slice(&shown.expect("run").stdout).expect("JSON");
        shown["waiting"].as_array().map_or(0, Vec::len)
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let client = Client::connect(&endpoint).await.expect("connected");
        let lock = client.lock("x");
        let waits = tokio::spawn(async move { lock.acquire().await.map(drop) });
        wait_for("the waiter", || waiting() == 1);
        waits.abort();
        wait_for("the empty queue", || waiting() == 0);
    });
    drop(guard);
    // The process lives on, but not the session.
    let guard = holder.lock("x").acquire().expect("acquired");
    drop(holder);
    assert!(!is_free(&scene, &cluster, 0, "x"), "the guard keeps the session");
    drop(guard);
    wait_for("the release", || is_free(&scene, &cluster, 0, "x"));
}

#[test]
fn a_broken_lock_is_lost_and_its_holder_is_informed() {
    let scene = Scene::new();
    let cluster = Cluster::start_many(&scene, 1);
    let guard = connect(&cluster, 0).lock("x").acquire().expect("acquired");
    let endpoint = cluster.endpoint(0);
    let broken = ["break", "--endpoint", &endpoint, "x", "--reason", "stuck", "--yes"];
    assert!(scene.command(&broken).status().expect("run").success());
    let lost = guard.lost();
    assert!(lost.reason().contains("stuck"), "{lost}");
    assert!(!guard.is_good());
    guard.release().expect_err("it was lost");
}

#[test]
fn a_guard_lives_on_when_its_node_is_killed() {
    let scene = Scene::new();
    let mut cluster = Cluster::start_many(&scene, 3);
    let client = connect_recording(&cluster, 0);
    let guard = client.lock("x").acquire().expect("acquired");
    cluster.kill(0);
    // The client goes on at another node with the same lock, and acquires others there.
    let other = client.lock("y").acquire_within(LONG).expect("acquired");
    assert!(guard.is_good() && other.is_good());
    let token = guard.fencing_token().to_string();
    let endpoint = cluster.endpoint(1);
    let verify = ["verify", "--endpoint", &endpoint, "x", &token];
    wait_for("the token to be current", || scene.command(&verify).status().expect("run").success());
    assert!(!is_free(&scene, &cluster, 2, "x"));
    guard.release().expect("it was held throughout");
    let next = connect(&cluster, 2).lock("x").acquire_within(LONG).expect("acquired");
    assert!(next.fencing_token().to_string() != token);
}

/// The other members are stopped, so that nothing can be recorded, and the node grants within its
/// view lease.
#[test]
fn a_guard_is_lost_with_its_node_before_it_is_recorded_and_then_free() {
    let scene = Scene::new();
    let mut cluster = Cluster::start_with(&scene, 3, "[limits]\nview_lease = \"6s\"\n");
    let client = connect(&cluster, 0);
    // The lock's token is at this node from now on.
    drop(client.lock("x").acquire().expect("acquired"));
    let others = [1, 2].map(|node| cluster.pid(node));
    for pid in others {
        signal(pid, Signal::STOP);
    }
    let guard = client.lock("x").acquire().expect("acquired");
    assert!(guard.is_good());
    cluster.kill(0);
    for pid in others {
        signal(pid, Signal::CONT);
    }
    let next = connect(&cluster, 1).lock("x").acquire_within(LONG).expect("acquired");
    // Before another client holds the lock.
    assert!(!guard.is_good());
    let lost = guard.lost();
    assert!(lost.reason().contains("before the hold was recorded"), "{lost}");
    assert!(next.fencing_token() > guard.fencing_token());
}

fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).expect("a process")).expect("not zero");
    kill_process(pid, signal).expect("it runs");
}

#[test]
fn a_release_that_a_killed_node_did_not_receive_is_made_at_another_one() {
    let scene = Scene::new();
    let mut cluster = Cluster::start_many(&scene, 3);
    // Longer than the test waits: nothing is free because a lease expires.
    let lease = LONG * 4;
    let options = Options::new([cluster.endpoint(0)]).lease(lease).record_first();
    let client = options.connect_blocking().expect("connected");
    let (kept, dropped) = (client.lock("kept").acquire(), client.lock("dropped").acquire());
    let (kept, dropped) = (kept.expect("acquired"), dropped.expect("acquired"));
    let ttl = format!("{}s", lease.as_secs());
    let endpoint = cluster.endpoint(0);
    let mut command = scene.holder_with("command", &["--ttl", &ttl, "--endpoint", &endpoint]);
    cluster.kill(0);
    drop(dropped);
    command.release();
    let other = connect(&cluster, 2);
    for name in ["command", "dropped"] {
        other.lock(name).acquire_within(LONG).expect("released").release().expect("held");
    }
    assert!(kept.is_good());
    // The client ends with the release.
    drop(kept);
    drop(client);
    other.lock("kept").acquire_within(LONG).expect("released").release().expect("held");
}

#[test]
fn a_guard_is_reclaimed_when_its_only_node_restarts() {
    let scene = Scene::new();
    let mut cluster = Cluster::start_many(&scene, 1);
    let client = connect(&cluster, 0);
    let guard = client.lock("x").acquire().expect("acquired");
    cluster.kill(0);
    cluster.run(0);
    wait_for("the node", || cluster.is_granting(&scene, 0) || cluster.socket(0).exists());
    let next = client.lock("y").acquire_within(LONG).expect("acquired");
    assert!(guard.is_good(), "reclaimed");
    assert!(!is_free(&scene, &cluster, 0, "x"));
    guard.release().expect("it was held throughout");
    drop(next);
}

#[test]
fn a_server_that_is_not_wanted_is_refused() {
    let scene = Scene::new();
    let cluster = Cluster::start_many(&scene, 1);
    let missing = format!("unix:{}", scene.path().join("missing").display());
    let refused = blocking::Client::connect(&missing).expect_err("nothing listens").to_string();
    assert!(refused.contains("missing"), "{refused}");
    let wrong = Options::new([cluster.endpoint(0)]).cluster("shop").connect_blocking();
    let wrong = wrong.expect_err("another cluster").to_string();
    assert!(wrong.contains("not cluster shop"), "{wrong}");
    let alone = Options::new([cluster.endpoint(0)]).cluster("test").connect_blocking();
    let alone = alone.expect_err("in no cluster").to_string();
    assert!(alone.contains("serves node, not cluster test"), "{alone}");
    // An endpoint that does not answer is passed over.
    let several = Options::new([missing, cluster.endpoint(0)]).connect_blocking();
    several.expect("connected").lock("x").acquire().expect("acquired").release().expect("held");
    // So is one that accepts connections and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let silent = silent.local_addr().map(|address| (silent, address.to_string())).expect("bound");
    let several = Options::new([silent.1.clone(), cluster.endpoint(0)]).connect_blocking();
    several.expect("connected").lock("x").acquire().expect("acquired").release().expect("held");
    let alone = Options::new([silent.1]).unreachable_after(Duration::from_secs(1));
    let alone = alone.connect_blocking().expect_err("silent").to_string();
    assert!(alone.contains("does not answer"), "{alone}");
    let short = Options::new([cluster.endpoint(0)]).lease(Duration::from_millis(500));
    let short = short.connect_blocking().expect_err("too short").to_string();
    assert!(short.contains("invalid lease of 500ms: use 1s or more"), "{short}");
    let long = connect(&cluster, 0).lock(vec![b'x'; 5000]).acquire();
    assert!(matches!(long, Err(AcquireError::Invalid(_))), "{long:?}");
}
