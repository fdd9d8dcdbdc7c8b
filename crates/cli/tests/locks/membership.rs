//! Members of a cluster come and go by command, while its locks are held.

use std::{fs, process::Output};

use crate::nodes::Cluster;
use crate::scene::{Scene, wait_for};
use serde_json::Value;

struct Members {
    cluster: Cluster,
    scene: Scene,
}

impl Members {
    fn of(count: usize) -> Self {
        let scene = Scene::new();
        let cluster = Cluster::start_many(&scene, count);
        Self { cluster, scene }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.scene.command(arguments).output().expect("run")
    }

    /// Runs a command of `mutua cluster` for the configuration of a node, and returns what it
    /// prints.
    fn cluster(&self, index: usize, arguments: &[&str]) -> String {
        let output = self.try_cluster(index, arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {error}");
        String::from_utf8(output.stdout).expect("text")
    }

    fn try_cluster(&self, index: usize, arguments: &[&str]) -> Output {
        let file = self.cluster.file(index);
        let config = ["--config", file.to_str().expect("text")];
        self.run(&[&["cluster"], arguments, &config].concat())
    }

    /// The members as a node knows them.
    fn members(&self, at: usize) -> Vec<Value> {
        let printed = self.try_cluster(at, &["members", "--json"]).stdout;
        serde_json::from_slice(&printed).unwrap_or_default()
    }

    fn member(&self, at: usize, name: &str) -> Option<Value> {
        self.members(at).into_iter().find(|member| member["name"] == name)
    }

    fn id(&self, at: usize, name: &str) -> u64 {
        self.member(at, name)
            .and_then(|member| member["id"].as_str()?.parse().ok())
            .unwrap_or_default()
    }

    /// Waits until a node shows this member in the view, in this role.
    fn wait_for_role(&self, at: usize, name: &str, role: &str) {
        let in_view = role != "witness";
        wait_for(&format!("{name} to be a {role}"), || {
            self.member(at, name).is_some_and(|member| {
                member["role"] == role
                    && member["becomes"].is_null()
                    && member["up"] == true
                    && member["in_view"] == in_view
                    && member["votes"] == (role != "follower")
            })
        });
    }

    /// Acquires and releases a lock at a node.
    fn lock_at(&self, index: usize, name: &str) -> Output {
        let endpoint = self.cluster.endpoint(index);
        self.scene
            .lock(&["-w", "20", "--endpoint", &endpoint, name], &["true"])
            .output()
            .expect("run")
    }

    fn token_of(&self, index: usize, name: &str) -> u64 {
        let endpoint = self.cluster.endpoint(index);
        let options = ["-w", "20", "--endpoint", &endpoint, name];
        let output = self.scene.lock(&options, &["sh", "-c", "echo $LOCK_TOKEN"]).output();
        let printed = String::from_utf8(output.expect("run").stdout).expect("text");
        printed.trim().parse().expect("a fencing token")
    }

    /// Adds a node by a token of the first one, and runs it.
    fn join(&mut self, options: &[&str]) -> usize {
        let new = self.cluster.configure_next();
        let token = self.cluster(0, &["invite"]);
        self.cluster(new, &[&["join", token.trim()], options].concat());
        self.cluster.run(new);
        new
    }
}

#[test]
fn a_new_member_joins_and_votes_and_another_leaves_while_a_lock_is_held() {
    let mut members = Members::of(3);
    let endpoint = members.cluster.endpoint(0);
    let _holder = members.scene.holder_with("x", &["--endpoint", &endpoint]);
    let held = members.cluster.token(&members.scene, 0, "x").expect("held");
    let d = members.join(&[]);
    members.wait_for_role(0, "d", "voter");
    assert!(members.lock_at(d, "y").status.success());
    let gone = members.id(0, "c").to_string();
    let left = members.cluster(1, &["leave", "c"]);
    assert!(left.contains("c has left the cluster"), "{left}");
    assert_eq!(members.cluster.wait(2), Some(0), "a node that has left ends by itself");
    wait_for("the view without c", || {
        let all = members.members(d);
        all.len() == 3 && all.iter().all(|member| member["in_view"] == true)
    });
    assert!(members.members(0).iter().all(|member| member["id"].as_str() != Some(&*gone)));
    assert_eq!(members.cluster.token(&members.scene, d, "x"), Some(held), "held throughout");
    // Its data directory is of no use any more.
    let again = members.scene.command(&["node", "--config"]).arg(members.cluster.file(2)).output();
    let error = String::from_utf8_lossy(&again.expect("run").stderr).into_owned();
    assert!(error.contains("this member has left the cluster"), "{error}");
    // The new voter counts: with it the cluster survives the loss of an old one.
    members.cluster.kill(1);
    assert!(members.lock_at(d, "y").status.success());
    let status = members.scene.command(&["status", "--endpoint", &endpoint]).output().expect("run");
    let status = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(status.contains("note: the members are"), "{status}");
}

#[test]
fn an_invitation_is_for_one_member_and_a_name_too() {
    let mut members = Members::of(2);
    let new = members.cluster.configure_next();
    let refusal = |members: &Members, arguments: &[&str]| {
        let refused = members.try_cluster(new, arguments);
        assert_eq!(refused.status.code(), Some(75), "{arguments:?}");
        String::from_utf8_lossy(&refused.stderr).into_owned()
    };
    let token = members.cluster(0, &["invite"]);
    let (address, _) = token.trim().rsplit_once('/').expect("a token");
    let wrong = format!("{address}/0123456789abcdef0123456789abcdef");
    let why = refusal(&members, &["join", &wrong]);
    assert!(why.contains("the invitation is unknown here"), "{why}");
    let why = refusal(&members, &["join", "--at", address]);
    assert!(why.contains("an invitation is needed"), "{why}");
    let why = refusal(&members, &["replace", token.trim()]);
    assert!(why.contains("`c` is none of the members"), "{why}");
    // A refusal does not use the token up.
    members.cluster(new, &["join", "--role", "follower", token.trim()]);
    let why = refusal(&members, &["join", token.trim()]);
    assert!(why.contains("belongs to a member of a cluster already"), "{why}");
    fs::remove_dir_all(members.scene.path().join("c")).expect("removed");
    let why = refusal(&members, &["join", token.trim()]);
    assert!(why.contains("the invitation is unknown here"), "{why}");
    let token = members.cluster(0, &["invite"]);
    let why = refusal(&members, &["join", token.trim()]);
    assert!(why.contains("a member has the name `c` already"), "{why}");
    let unknown = members.try_cluster(0, &["leave", "nobody"]);
    assert_eq!(unknown.status.code(), Some(64));
}

#[test]
fn a_member_that_lost_its_directory_comes_back_as_a_new_one() {
    let mut members = Members::of(3);
    let old = members.id(0, "c");
    members.cluster.kill(2);
    fs::remove_dir_all(members.scene.path().join("c")).expect("removed");
    members.cluster.run(2);
    let endpoint = members.cluster.endpoint(2);
    wait_for("the wiped member to say so", || {
        let status = members.run(&["status", "--endpoint", &endpoint]);
        String::from_utf8_lossy(&status.stdout).contains("mutua cluster replace")
    });
    members.cluster.kill(2);
    let token = members.cluster(1, &["invite"]);
    members.cluster(2, &["replace", token.trim()]);
    members.cluster.run(2);
    members.wait_for_role(0, "c", "voter");
    assert_ne!(members.id(0, "c"), old, "an id is not used again");
    assert_eq!(members.members(0).len(), 3);
    assert!(members.lock_at(2, "x").status.success());
    // It counts again.
    members.cluster.kill(1);
    assert!(members.lock_at(2, "x").status.success());
}

#[test]
fn a_follower_becomes_a_witness() {
    let mut members = Members::of(2);
    let c = members.join(&["--role", "follower"]);
    members.wait_for_role(0, "c", "follower");
    assert!(members.lock_at(c, "x").status.success());
    members.cluster(1, &["promote", "c", "--role", "witness"]);
    members.wait_for_role(0, "c", "witness");
    assert!(members.lock_at(0, "x").status.success());
}

#[test]
fn a_cluster_of_one_grows_and_survives_a_restart_of_all() {
    let scene = Scene::new();
    let cluster = Cluster::none(&scene);
    let mut members = Members { cluster, scene };
    let a = members.cluster.configure_next();
    let above = (1 << 22) << 40;
    let founded = members.cluster(a, &["init", "--above", &format!("{above}")]);
    assert!(founded.contains("is founded"), "{founded}");
    let again = members.try_cluster(a, &["init"]);
    assert_eq!(again.status.code(), Some(75));
    members.cluster.run(a);
    let first = members.token_of(a, "x");
    assert!(first > above, "{first} is above {above}");
    let (b, c) = (members.join(&[]), members.join(&[]));
    members.wait_for_role(a, "b", "voter");
    members.wait_for_role(a, "c", "voter");
    for node in [a, b, c] {
        members.cluster.kill(node);
    }
    for node in [a, b, c] {
        members.cluster.run(node);
    }
    members.wait_for_role(c, "b", "voter");
    assert!(members.token_of(b, "x") > first);
}

#[test]
fn the_last_member_of_a_lost_majority_goes_on_alone_when_it_is_told() {
    let mut members = Members::of(3);
    let before = members.token_of(0, "x");
    for node in 0..3 {
        members.cluster.kill(node);
    }
    let refused = members.try_cluster(0, &["recover"]);
    assert_eq!(refused.status.code(), Some(64));
    let command = ["recover", "--others-are-lost", "--longest", "4s"];
    let done = members.cluster(0, &command);
    assert!(done.contains("consists of a alone"), "{done}");
    members.cluster.run(0);
    let endpoint = members.cluster.endpoint(0);
    wait_for("the wait for the lost members' leases", || {
        let status = members.run(&["status", "--endpoint", &endpoint]);
        String::from_utf8_lossy(&status.stdout).contains("recovered after the loss of a majority")
    });
    let after = members.token_of(0, "x");
    assert!(after >> 40 >= (before >> 40) + 1000, "{before} and {after}");
    // A lost member that comes back is refused, and grants nothing.
    members.cluster.run(1);
    let endpoint = members.cluster.endpoint(1);
    let busy = members.scene.lock(&["-n", "--endpoint", &endpoint, "x"], &["true"]).output();
    assert!(!busy.expect("run").status.success());
    assert_eq!(members.members(0).len(), 1);
}
