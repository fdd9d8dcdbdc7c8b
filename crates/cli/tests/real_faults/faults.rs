//! The faults of a campaign, drawn from its seed.

use std::{thread, time::Duration};

use mutua_algorithms::split_mix;
use mutua_testbed::Fault as LinkFault;
use rustix::process::{Pid, Signal, kill_process};

use crate::{cluster::Cluster, workers::Workers};

/// What happens to the cluster for a while.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// A node is killed and started again.
    KillNode(usize),
    /// A node is stopped and goes on.
    StopNode(usize),
    /// The process of `mutua lock` is killed; its command ends with it.
    KillClient(usize),
    /// The process of `mutua lock` is stopped and goes on.
    StopClient(usize),
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

/// The kinds of fault.
const KINDS: u64 = 9;

fn below(state: &mut u64, limit: usize) -> usize {
    usize::try_from(split_mix::next(state) % limit as u64).expect("below the limit")
}

/// Draws a fault.
pub(crate) fn draw(state: &mut u64, hosts: usize) -> Fault {
    let one = below(state, hosts);
    let other = (one + 1 + below(state, hosts - 1)) % hosts;
    match split_mix::next(state) % KINDS {
        0 => Fault::KillNode(one),
        1 => Fault::StopNode(one),
        2 => Fault::KillClient(one),
        3 => Fault::StopClient(one),
        4 => Fault::CutOff(one),
        5 => Fault::Bridge(one, other),
        6 => Fault::OneWay(one, other),
        7 => Fault::Slow,
        _ => Fault::Lossy,
    }
}

/// Causes a fault, waits between half a second and four seconds, and ends it.
pub(crate) fn cause(fault: &Fault, cluster: &mut Cluster, workers: &Workers, state: &mut u64) {
    let length = Duration::from_millis(500 + split_mix::next(state) % 3500);
    match *fault {
        Fault::KillNode(host) => {
            cluster.kill(host);
            thread::sleep(length);
            cluster.start_missing();
        }
        Fault::StopNode(host) => stop(cluster.pid(host), length),
        Fault::KillClient(host) => {
            signal(workers.pid(host), Signal::KILL);
            thread::sleep(length);
        }
        Fault::StopClient(host) => stop(workers.pid(host), length),
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

fn stop(pid: Option<u32>, length: Duration) {
    signal(pid, Signal::STOP);
    thread::sleep(length);
    signal(pid, Signal::CONT);
}

/// Signals one of our own processes; it may have ended.
fn signal(pid: Option<u32>, signal: Signal) {
    let pid = pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
    if let Some(pid) = pid {
        let _ = kill_process(pid, signal);
    }
}
