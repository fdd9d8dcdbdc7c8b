//! The faults of a campaign, drawn from its seed.

use std::{thread, time::Duration};

use mutua_algorithms::split_mix;
use mutua_testbed::Fault as LinkFault;
use rustix::process::{Pid, Signal, kill_process};

use crate::{cluster::Cluster, history::History, workers::Workers};

/// What happens to the cluster for a while.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// A node is killed and started again.
    KillNode(usize),
    /// A node is stopped and goes on.
    StopNode(usize),
    /// The node that leads the consensus engine is killed and started again.
    KillLeader,
    /// The same node is stopped and goes on.
    StopLeader,
    /// The node of the last holder is stopped and goes on.
    StopHolder,
    /// All nodes are killed and started again.
    KillAll,
    /// A node is killed and started again with another clock, as on a machine that was started.
    ShiftClock(usize),
    /// The process of `mutua lock` is killed; its command ends with it.
    KillClient(usize),
    /// The process of `mutua lock` is stopped and goes on.
    StopClient(usize),
    /// The supervisor of its command is stopped and goes on.
    StopSupervisor(usize),
    /// A node's disk is full for a while: it ends, and is started again.
    FullDisk(usize),
    /// A host is cut off.
    CutOff(usize),
    /// Two hosts do not reach each other; others reach both.
    Bridge(usize, usize),
    /// The first no longer receives from the second.
    OneWay(usize, usize),
    /// All links are slow.
    Slow,
    /// All links lose and repeat frames.
    Lossy,
}

fn below(state: &mut u64, limit: usize) -> usize {
    usize::try_from(split_mix::next(state) % limit as u64).expect("below the limit")
}

/// Draws a fault.
pub(crate) fn draw(state: &mut u64, hosts: usize) -> Fault {
    let one = below(state, hosts);
    let other = (one + 1 + below(state, hosts - 1)) % hosts;
    let kinds = [
        Fault::KillNode(one),
        Fault::StopNode(one),
        Fault::KillLeader,
        Fault::StopLeader,
        Fault::StopHolder,
        Fault::KillAll,
        Fault::ShiftClock(one),
        Fault::KillClient(one),
        Fault::StopClient(one),
        Fault::StopSupervisor(one),
        Fault::FullDisk(one),
        Fault::CutOff(one),
        Fault::Bridge(one, other),
        Fault::OneWay(one, other),
        Fault::Slow,
        Fault::Lossy,
    ];
    kinds[below(state, kinds.len())]
}

impl Fault {
    /// The kind, in words.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::KillNode(_) => "SIGKILL of a node",
            Self::StopNode(_) => "SIGSTOP of a node",
            Self::KillLeader => "SIGKILL of the leader",
            Self::StopLeader => "SIGSTOP of the leader",
            Self::StopHolder => "SIGSTOP of the holder's node",
            Self::KillAll => "SIGKILL of all nodes",
            Self::ShiftClock(_) => "restart with another clock",
            Self::KillClient(_) => "SIGKILL of mutua lock",
            Self::StopClient(_) => "SIGSTOP of mutua lock",
            Self::StopSupervisor(_) => "SIGSTOP of a supervisor",
            Self::FullDisk(_) => "full disk",
            Self::CutOff(_) => "cut: one host",
            Self::Bridge(..) => "cut: bridge",
            Self::OneWay(..) => "cut: one way between two",
            Self::Slow => "delay",
            Self::Lossy => "loss",
        }
    }
}

/// How long a fault lasts: half of them less than the view lease (1.5 s), the others up to 4 s.
fn length(state: &mut u64) -> Duration {
    let milliseconds = match split_mix::next(state) % 2 {
        0 => 100 + split_mix::next(state) % 600,
        _ => 700 + split_mix::next(state) % 3300,
    };
    Duration::from_millis(milliseconds)
}

/// Causes a fault, waits, and ends it.
pub(crate) fn cause(
    fault: &Fault,
    cluster: &mut Cluster,
    (workers, history): (&Workers, &History),
    state: &mut u64,
) {
    let length = length(state);
    match *fault {
        Fault::KillNode(host) => kill(cluster, &[host], length),
        Fault::KillLeader => {
            let leader: Vec<_> = cluster.leader().into_iter().collect();
            kill(cluster, &leader, length);
        }
        Fault::KillAll => kill(cluster, &(0..cluster.hosts()).collect::<Vec<_>>(), length),
        Fault::ShiftClock(host) => {
            cluster.set_clock(host, split_mix::next(state) % 1_000_000);
            kill(cluster, &[host], length);
        }
        Fault::StopNode(host) => stop(cluster.pid(host), length),
        Fault::StopLeader => stop(cluster.leader().and_then(|host| cluster.pid(host)), length),
        Fault::StopHolder => {
            stop(history.last_host().and_then(|host| cluster.pid(host)), length);
        }
        Fault::FullDisk(host) => {
            cluster.fill_disk(host);
            thread::sleep(length);
            cluster.clear_disk(host);
            // A node whose last write failed just before may still be ending.
            thread::sleep(Duration::from_secs(1));
            cluster.start_missing();
        }
        Fault::KillClient(host) => {
            signal(workers.pid(host), Signal::KILL);
            thread::sleep(length);
        }
        Fault::StopClient(host) => stop(workers.pid(host), length),
        Fault::StopSupervisor(host) => stop(workers.pid(host).and_then(child), length),
        Fault::CutOff(host) => {
            let rest: Vec<_> = (0..cluster.hosts()).filter(|&other| other != host).collect();
            cluster.switch().partition(&[&rest]);
            thread::sleep(length);
        }
        Fault::Bridge(one, other) => {
            cluster.switch().set_both(one, other, LinkFault::Cut);
            thread::sleep(length);
        }
        Fault::OneWay(to, from) => {
            cluster.switch().set(from, to, LinkFault::Cut);
            thread::sleep(length);
        }
        Fault::Slow => {
            let (delay, jitter) = (Duration::from_millis(20), Duration::from_millis(80));
            cluster.switch().set_all(LinkFault::Delay { delay, jitter });
            thread::sleep(length);
        }
        Fault::Lossy => {
            cluster.switch().set_all(LinkFault::Loss { lost: 10, repeated: 10 });
            thread::sleep(length);
        }
    }
    cluster.switch().heal();
}

fn kill(cluster: &mut Cluster, hosts: &[usize], length: Duration) {
    hosts.iter().for_each(|&host| cluster.kill(host));
    thread::sleep(length);
    cluster.start_missing();
}

/// A child of this process, if it has one.
fn child(pid: u32) -> Option<u32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

fn stop(pid: Option<u32>, length: Duration) {
    signal(pid, Signal::STOP);
    thread::sleep(length);
    signal(pid, Signal::CONT);
}

/// Signals one of our own processes; it may have ended.
pub(crate) fn signal(pid: Option<u32>, signal: Signal) {
    let pid = pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
    if let Some(pid) = pid {
        let _ = kill_process(pid, signal);
    }
}
