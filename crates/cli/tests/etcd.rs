//! `mutua lock --endpoint` against a real etcd: Debian's `etcd-server`.

#[path = "locks/scene.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod scene;

use std::process::{Child, Command, Stdio};

use scene::{Scene, alive, kill, wait_for};

struct Etcd {
    child: Child,
    endpoint: String,
}

impl Etcd {
    fn start(scene: &Scene) -> Self {
        let free = mutua_host::free_addresses(2).expect("free ports");
        let [client, peer] = [free[0], free[1]];
        let (client_url, peer_url) = (format!("http://{client}"), format!("http://{peer}"));
        let data = scene.path().join("etcd");
        let child = Command::new("etcd")
            .args(["--data-dir", data.to_str().expect("text")])
            .args(["--listen-client-urls", &client_url, "--advertise-client-urls", &client_url])
            .args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url])
            .args(["--initial-cluster", &format!("default={peer_url}")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("etcd is installed (Debian: apt-get install etcd-server)");
        let etcd = Self { child, endpoint: client.to_string() };
        wait_for("etcd to serve", || {
            let mut probe =
                scene.command(&["lock", "--endpoint", &etcd.endpoint, "probe", "--", "true"]);
            probe.stderr(Stdio::null()).status().expect("run").success()
        });
        etcd
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_real_etcd_excludes_hands_over_and_issues_growing_fencing_tokens() {
    let scene = Scene::new();
    let etcd = Etcd::start(&scene);
    let endpoint = ["--endpoint", &etcd.endpoint];
    let token = || {
        let options = [&endpoint[..], &["x"]].concat();
        let output = scene.lock(&options, &["sh", "-c", "echo $LOCK_TOKEN"]).output().expect("run");
        String::from_utf8_lossy(&output.stdout).trim().parse::<u64>().expect("a token")
    };
    let first = token();
    assert!(token() > first);
    // It is a scope of its own, and never a cluster that is required.
    let options = [&endpoint[..], &["x"]].concat();
    let output = scene.lock(&options, &["printenv", "LOCK_SCOPE"]).output().expect("run");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "etcd\n");
    let options = [&endpoint[..], &["--cluster", "shop", "x"]].concat();
    let output = scene.lock(&options, &["echo", "in"]).output().expect("run");
    assert_eq!((output.status.code(), &*output.stdout), (Some(78), &b""[..]));
    assert!(String::from_utf8_lossy(&output.stderr).contains("is an etcd"));
    let mut holder = scene.holder_with("x", &endpoint);
    let busy = [&endpoint[..], &["-n", "x"]].concat();
    let busy = scene.lock(&busy, &["true"]).stderr(Stdio::null()).status().expect("run");
    assert_eq!(busy.code(), Some(75));
    let waits = [&endpoint[..], &["-w", "20", "x"]].concat();
    let mut waiter = scene.lock(&waits, &["true"]).spawn().expect("run");
    holder.release();
    assert_eq!(waiter.wait().expect("ended").code(), Some(0));
}

#[test]
fn the_command_is_killed_when_a_real_etcd_is_down_for_too_long() {
    let scene = Scene::new();
    let etcd = Etcd::start(&scene);
    let options = ["--endpoint", &etcd.endpoint, "--ttl", "3", "x"];
    let mut command = scene.lock(&options, &["sh", "-c", "echo $$; exec sleep 99"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("run");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("a pipe");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).expect("read");
    let command = line.trim().parse().expect("a process");
    kill("-STOP", etcd.child.id());
    assert_eq!(child.wait().expect("ended").code(), Some(79));
    assert!(!alive(command));
    kill("-CONT", etcd.child.id());
}

#[test]
fn the_supervisor_of_a_killed_mutua_releases_the_lock_at_a_real_etcd() {
    let scene = Scene::new();
    let etcd = Etcd::start(&scene);
    let options = ["--endpoint", &etcd.endpoint, "--ttl", "300", "--grace", "1", "x"];
    let mut command = scene.lock(&options, &["sh", "-c", "echo in; exec sleep 99"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("run");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("a pipe");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).expect("read");
    child.kill().expect("killed");
    child.wait().expect("dead");
    let options = ["--endpoint", &etcd.endpoint, "-w", "60", "x"];
    assert_eq!(scene.lock(&options, &["true"]).status().expect("run").code(), Some(0));
}

#[test]
fn leaders_at_a_real_etcd_follow_each_other_and_are_observed() {
    let scene = Scene::new();
    let etcd = Etcd::start(&scene);
    let elect = ["elect", "--endpoint", &etcd.endpoint];
    let observe = [&elect[..], &["--observe", "--json", "e"]].concat();
    let mut observer = scene.command(&observe).stdout(Stdio::piped()).spawn().expect("run");
    let stdout = observer.stdout.take().expect("a pipe");
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(stdout));
    let mut last = 0;
    for value in ["one", "two"] {
        let command = ["e", value, "--", "sh", "-c", "echo $LOCK_TOKEN; cat"];
        let mut leader = scene.command(&[&elect[..], &command].concat());
        let mut leader = leader.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("run");
        let mut token = String::new();
        let stdout = leader.stdout.take().expect("a pipe");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut token)
            .expect("read");
        let token: u64 = token.trim().parse().expect("a fencing token");
        assert!(token > last);
        last = token;
        let seen = lines.next().expect("a line").expect("text");
        assert!(seen.contains(&format!("\"value\":\"{value}\"")), "{seen}");
        assert!(seen.contains(&format!("\"fencing_token\":\"{token}\"")), "{seen}");
        drop(leader.stdin.take());
        assert_eq!(leader.wait().expect("ended").code(), Some(0));
    }
    let _ = observer.kill();
    let _ = observer.wait();
}
