//! `mutua elect`, its observers and the client library, at real nodes.

use std::{
    io::{BufRead, BufReader, Lines},
    process::{Child, ChildStdout, Stdio},
    time::Duration,
};

use mutua_client::Options;
use serde_json::Value;

use crate::{
    nodes::Cluster,
    scene::{Scene, alive, kill, wait_for},
};

/// A process whose output is read line by line; killed at the end.
struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn run(scene: &Scene, arguments: &[&str]) -> Self {
        let mut command = scene.command(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("run");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Self { child, lines }
    }

    /// A candidate that prints its command's process, its value and its fencing token when it is
    /// elected, and leads until its standard input ends.
    fn candidate(scene: &Scene, options: &[&str], value: &str) -> Self {
        let command = ["--", "sh", "-c", "echo $$ $LOCK_VALUE $LOCK_TOKEN; cat"];
        let all = [&["elect", "--ttl", "4"], options, &["e", value], &command].concat();
        Self::run(scene, &all)
    }

    fn observer(scene: &Scene, options: &[&str]) -> Self {
        Self::run(scene, &[&["elect", "--observe", "--json"], options, &["e"]].concat())
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("a line").expect("text")
    }

    /// The command's process, and the fencing token of the term.
    fn elected(&mut self, value: &str) -> (u32, u64) {
        let line = self.line();
        let words: Vec<_> = line.split(' ').collect();
        assert_eq!(words[1], value, "{line}");
        (words[0].parse().expect("a process"), words[2].parse().expect("a number"))
    }

    /// Reads leaders until one has this value; returns its fencing token.
    fn observed(&mut self, value: Option<&str>) -> u64 {
        loop {
            let leader: Value = serde_json::from_str(&self.line()).expect("JSON");
            let leader = &leader["leader"];
            if leader["value"].as_str() == value {
                let token = leader["fencing_token"].as_str().unwrap_or("0");
                return token.parse().expect("a number");
            }
        }
    }

    /// Ends the standard input; returns the exit code.
    fn end(&mut self) -> Option<i32> {
        drop(self.child.stdin.take());
        self.child.wait().expect("ended").code()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn candidates_lead_in_turn_while_their_commands_run() {
    let scene = Scene::new();
    let mut first = Process::candidate(&scene, &[], "one");
    let (_, token) = first.elected("one");
    let mut observer = Process::observer(&scene, &[]);
    assert_eq!(observer.observed(Some("one")), token);
    let shown = scene.command(&["show", "e"]).output().expect("run");
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains(&format!("fencing token {token}, leader one")), "{shown}");
    let busy = scene.command(&["elect", "-n", "e", "two", "--", "true"]).output().expect("run");
    assert_eq!(busy.status.code(), Some(75));
    let locked = scene.lock(&["-n", "e"], &["true"]).output().expect("run");
    assert_eq!(locked.status.code(), Some(75), "the lock of the same name");
    let mut second = Process::candidate(&scene, &["-v"], "two");
    assert_eq!(first.end(), Some(0));
    let (_, next) = second.elected("two");
    assert!(next > token);
    assert_eq!(observer.observed(Some("two")), next);
    assert_eq!(second.end(), Some(0));
    observer.observed(None);
    let status = scene.command(&["elect", "e", "v", "--", "sh", "-c", "exit 7"]).status();
    assert_eq!(status.expect("run").code(), Some(7), "the command's own");
}

#[test]
fn without_a_command_a_candidate_leads_until_a_signal() {
    let scene = Scene::new();
    let mut leader = Process::run(&scene, &["elect", "e", "alone"]);
    let token: u64 = leader.line().parse().expect("a fencing token");
    // The end of its standard input is not a signal.
    drop(leader.child.stdin.take());
    let mut observer = Process::observer(&scene, &[]);
    assert_eq!(observer.observed(Some("alone")), token);
    kill("-TERM", leader.child.id());
    observer.observed(None);
    leader.child.wait().expect("ended");
}

#[test]
fn a_missing_word_is_bad_usage() {
    let scene = Scene::new();
    for words in [
        &["elect", "e"][..],
        &["elect", "e", "--", "true"],
        &["elect", "e", "v", "--"],
        &["elect", "--observe", "e", "v"],
        &["elect", "", "v", "--", "true"],
    ] {
        let output = scene.command(words).output().expect("run");
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(64), "{words:?}: {printed}");
    }
}

#[test]
fn a_leader_outlives_its_node_and_its_end_is_noticed_at_the_others() {
    let scene = Scene::new();
    let mut cluster = Cluster::start_many(&scene, 3);
    let endpoints: Vec<_> = (0..3).map(|node| cluster.endpoint(node)).collect();
    let mut first = Process::candidate(&scene, &["--endpoint", &endpoints[0]], "one");
    let (command, token) = first.elected("one");
    let mut second = Process::candidate(&scene, &["--endpoint", &endpoints[1]], "two");
    let mut observer = Process::observer(&scene, &["--endpoint", &endpoints[2]]);
    assert_eq!(observer.observed(Some("one")), token);
    cluster.kill(0);
    let verify = ["verify", "--endpoint", &endpoints[1], "e", &token.to_string()];
    wait_for("the leader at another node", || {
        scene.command(&verify).output().expect("run").status.success()
    });
    assert!(alive(command), "it leads on");
    // A new observer sees the value that the lost node had.
    let mut later = Process::observer(&scene, &["--endpoint", &endpoints[2]]);
    assert_eq!(later.observed(Some("one")), token);
    // Its supervisor ends the command, before another can lead.
    first.child.kill().expect("killed");
    let (_, next) = second.elected("two");
    assert!(!alive(command));
    assert!(next > token);
    assert_eq!(observer.observed(Some("two")), next);
    assert_eq!(later.observed(Some("two")), next);
}

#[test]
fn a_proclaimed_value_survives_the_leaders_node() {
    let scene = Scene::new();
    let mut cluster = Cluster::start_many(&scene, 3);
    let options = Options::new([cluster.endpoint(0)]).cluster("test");
    let client = options.lease(Duration::from_secs(8)).connect_blocking().expect("connected");
    let leadership = client.election("e").campaign("first").expect("elected");
    leadership.proclaim("changed").expect("it leads");
    let endpoint = cluster.endpoint(2);
    let mut observer = Process::observer(&scene, &["--endpoint", &endpoint]);
    assert_eq!(observer.observed(Some("changed")), leadership.fencing_token());
    // An observer of the library, whose node is lost too.
    let mut own = client.election("e").observe();
    assert_eq!(own.next_leader().expect("answered").expect("a leader").value, b"changed");
    cluster.kill(0);
    leadership.proclaim("after").expect("it leads on");
    assert_eq!(observer.observed(Some("after")), leadership.fencing_token());
    while own.next_leader().expect("answered").is_none_or(|leader| leader.value != b"after") {}
    assert!(leadership.is_good());
    leadership.resign().expect("it led until then");
    observer.observed(None);
}
