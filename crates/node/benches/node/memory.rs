//! The memory and the processor time of a node: with many names held at once, and idle.

use std::{
    fs,
    io::Read,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use mutua_node::{Config, Rule};
use tokio::{runtime::Builder, time::sleep};

use super::reentry::{cluster, config, members};

const NAMES: usize = 100_000;
const IDLE: Duration = Duration::from_secs(10);

pub(crate) fn measure() {
    println!("{}", child(&["names"]).trim());
    measure_idle("idle");
    measure_idle("idle-ring");
}

fn measure_idle(kind: &str) {
    let directory = tempfile::tempdir().expect("a directory");
    let members = members(3);
    let addresses: Vec<_> = members.iter().map(|member| member.address.as_str()).collect();
    let path = directory.path().to_str().expect("a plain path");
    let children: Vec<_> = (0..3)
        .map(|me| {
            let me = me.to_string();
            let mut arguments = vec![kind, &me, path];
            arguments.extend(&addresses);
            spawn(&arguments)
        })
        .collect();
    for (index, mut child) in children.into_iter().enumerate() {
        let mut text = String::new();
        child.stdout.take().expect("its output").read_to_string(&mut text).expect("its text");
        assert!(child.wait().expect("its end").success());
        if index == 0 {
            println!("{}", text.trim());
        }
    }
}

fn child(arguments: &[&str]) -> String {
    let output = spawn(arguments).wait_with_output().expect("its output");
    assert!(output.status.success());
    String::from_utf8(output.stdout).expect("text")
}

fn spawn(arguments: &[&str]) -> std::process::Child {
    Command::new(std::env::current_exe().expect("this program"))
        .arg("child")
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child")
}

/// Holds many names at once, one of three nodes in this process.
pub(crate) fn names_child() {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let directory = tempfile::tempdir().expect("a directory");
        let alone = Config::alone(directory.path());
        let node = mutua_node::Node::start(alone).await.expect("a node");
        node.ready().await;
        let before = resident_mib();
        let start = Instant::now();
        let mut guards = Vec::with_capacity(NAMES);
        for number in 0..NAMES {
            let lock = node.lock(format!("accounts/{number:08}"));
            guards.push(lock.acquire().await.expect("a guard"));
        }
        let seconds = start.elapsed().as_secs_f64();
        assert_eq!(node.status().held, NAMES);
        let after = resident_mib();
        drop(guards);
        let directory = tempfile::tempdir().expect("a directory");
        let nodes = cluster(directory.path(), 3).await;
        let before_three = resident_mib();
        let mut guards = Vec::with_capacity(NAMES);
        for number in 0..NAMES {
            let lock = nodes[0].lock(format!("accounts/{number:08}"));
            guards.push(lock.acquire().await.expect("a guard"));
        }
        println!(
            "{NAMES} names held at once: one node alone {after:.0} MiB in all ({:.0} more than \
             before, {seconds:.1} s); three nodes in one process {:.0} MiB in all ({:.0} more) \
             (at most 200)",
            after - before,
            resident_mib(),
            resident_mib() - before_three,
        );
    });
}

/// Runs one of three nodes, idle; or with a lock whose token goes round for ever, and that no
/// client wants any more.
pub(crate) fn idle_child(arguments: &[&str], ring: bool) {
    let [me, directory, addresses @ ..] = arguments else { panic!("too few arguments") };
    let me: usize = me.parse().expect("a number");
    let mut members = members(addresses.len());
    for (member, address) in members.iter_mut().zip(addresses) {
        member.address = (*address).to_owned();
    }
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut config = config(std::path::Path::new(directory), &members, me);
        config.rules.push(Rule::new("*", "le-lann"));
        let node = mutua_node::Node::start(config).await.expect("a node");
        node.ready().await;
        let lock = node.lock("ring");
        if ring {
            drop(lock.acquire().await.expect("a guard"));
        }
        // A nudge lasts a second, and then it slows down.
        sleep(Duration::from_secs(4)).await;
        let (busy, lazy, start) = (busy_nanos(), node.status().lazy, Instant::now());
        sleep(IDLE).await;
        let share = (busy_nanos() - busy) as f64 / start.elapsed().as_nanos() as f64;
        let what = if ring { "with a le-lann lock that no client wants" } else { "with nothing" };
        println!(
            "idle node of three {what}: {:.1} MiB (at most 20), {:.3} % of a core (at most 0.1), \
             {:.1} messages a second",
            resident_mib(),
            share * 100.0,
            (node.status().lazy - lazy) as f64 / start.elapsed().as_secs_f64(),
        );
        // The others measure too.
        sleep(Duration::from_millis(500)).await;
    });
}

fn resident_mib() -> f64 {
    let text = fs::read_to_string("/proc/self/status").expect("a status");
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).expect("its memory");
    let kib: f64 = line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("KiB");
    kib / 1024.0
}

/// Time on a core so far, of all threads.
fn busy_nanos() -> u64 {
    let tasks = fs::read_dir("/proc/self/task").expect("its threads");
    tasks
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join("schedstat")).ok())
        .filter_map(|text| text.split_whitespace().next()?.parse::<u64>().ok())
        .sum()
}
