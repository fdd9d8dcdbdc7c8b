//! A switch in user space: every frame between two hosts passes here, and some do not.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    io,
    os::fd::AsFd,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use mutua_algorithms::split_mix;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tun_rs::SyncDevice;

use crate::host::mac_of;

/// The longest Ethernet frame of these interfaces, with room to spare.
const FRAME: usize = 2048;

/// How many frames one port may deliver before the others get their turn.
const TURN: usize = 64;

/// How long the switch waits for a frame before it looks whether it shall stop.
const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// What happens to the frames from one host to another.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Fault {
    /// All arrive at once.
    #[default]
    None,
    /// None arrives.
    Cut,
    /// Each arrives this much later, plus a random part of the jitter, so that they may overtake
    /// each other.
    Delay {
        /// The least delay.
        delay: Duration,
        /// The most that is added to it.
        jitter: Duration,
    },
    /// Each is lost with the first probability (in percent), and arrives twice with the second.
    Loss {
        /// Percentage of frames that are lost.
        lost: u8,
        /// Percentage of frames that arrive twice.
        repeated: u8,
    },
}

type Faults = Arc<Mutex<BTreeMap<(usize, usize), Fault>>>;

/// A switch that runs until it is dropped.
#[derive(Debug)]
pub struct Switch {
    hosts: usize,
    faults: Faults,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Switch {
    pub(crate) fn start(ports: Vec<SyncDevice>, seed: u64) -> io::Result<Self> {
        let hosts = ports.len();
        let (faults, stopped) = (Faults::default(), Arc::new(AtomicBool::new(false)));
        let mut fabric = Fabric {
            ports,
            faults: Arc::clone(&faults),
            random: seed,
            delayed: BinaryHeap::new(),
            sent: 0,
        };
        let stop = Arc::clone(&stopped);
        let thread = thread::Builder::new().name("switch".to_owned()).spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                fabric.turn();
            }
        })?;
        Ok(Self { hosts, faults, stopped, thread: Some(thread) })
    }

    /// From now on this happens to frames from one host to another, in that direction only.
    pub fn set(&self, from: usize, to: usize, fault: Fault) {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).insert((from, to), fault);
    }

    /// The same in both directions.
    pub fn set_both(&self, one: usize, other: usize, fault: Fault) {
        self.set(one, other, fault);
        self.set(other, one, fault);
    }

    /// Sets every link in both directions.
    pub fn set_all(&self, fault: Fault) {
        for from in 0..self.hosts {
            for to in (0..self.hosts).filter(|&to| to != from) {
                self.set(from, to, fault);
            }
        }
    }

    /// Cuts all links between hosts of different groups; links within a group work again. Hosts in
    /// no group are cut off from all others.
    pub fn partition(&self, groups: &[&[usize]]) {
        for from in 0..self.hosts {
            for to in (0..self.hosts).filter(|&to| to != from) {
                let joined =
                    groups.iter().any(|group| group.contains(&from) && group.contains(&to));
                self.set(from, to, if joined { Fault::None } else { Fault::Cut });
            }
        }
    }

    /// All links work again.
    pub fn heal(&self) {
        self.set_all(Fault::None);
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the switch's thread owns.
struct Fabric {
    ports: Vec<SyncDevice>,
    faults: Faults,
    /// The state of SplitMix64.
    random: u64,
    delayed: BinaryHeap<Reverse<Delayed>>,
    /// Counts frames, so that those due at the same time keep their order.
    sent: u64,
}

#[derive(Eq, Ord, PartialEq, PartialOrd)]
struct Delayed {
    due: Instant,
    number: u64,
    to: usize,
    frame: Vec<u8>,
}

impl Fabric {
    /// Waits for frames or for the time of a delayed one, and passes on what there is.
    fn turn(&mut self) {
        let now = Instant::now();
        let due = self.delayed.peek().map(|Reverse(first)| first.due);
        let wait = due.map_or(LONGEST_WAIT, |due| due.saturating_duration_since(now));
        let ready = self.wait(wait.min(LONGEST_WAIT));
        let mut buffer = [0; FRAME];
        for from in ready {
            for _ in 0..TURN {
                // Nothing more is there, or the interface is down.
                let Ok(length) = self.ports[from].recv(&mut buffer) else { break };
                self.pass(from, &buffer[..length]);
            }
        }
        let now = Instant::now();
        while self.delayed.peek().is_some_and(|Reverse(first)| first.due <= now) {
            let Some(Reverse(Delayed { to, frame, .. })) = self.delayed.pop() else { break };
            self.deliver(to, &frame);
        }
    }

    fn wait(&self, limit: Duration) -> Vec<usize> {
        let mut polled: Vec<_> = self
            .ports
            .iter()
            .map(|port| PollFd::from_borrowed_fd(port.as_fd(), PollFlags::IN))
            .collect();
        let limit = Timespec::try_from(limit).ok();
        if poll(&mut polled, limit.as_ref()).is_err() {
            // Interrupted by a signal.
            return Vec::new();
        }
        let ready = |(port, polled): (usize, &PollFd<'_>)| {
            polled.revents().contains(PollFlags::IN).then_some(port)
        };
        polled.iter().enumerate().filter_map(ready).collect()
    }

    /// Passes a frame to the port of its address, or to all others.
    fn pass(&mut self, from: usize, frame: &[u8]) {
        let Some(&address) = frame.first_chunk::<6>() else { return };
        let everybody = address[0] & 1 == 1;
        for to in (0..self.ports.len()).filter(|&to| to != from) {
            if everybody || address == mac_of(to) {
                self.pass_to(from, to, frame);
            }
        }
    }

    fn pass_to(&mut self, from: usize, to: usize, frame: &[u8]) {
        let faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let fault = faults.get(&(from, to)).copied().unwrap_or_default();
        drop(faults);
        match fault {
            Fault::None => self.deliver(to, frame),
            Fault::Cut => {}
            Fault::Delay { delay, jitter } => {
                let jitter = jitter.mul_f64(f64::from(self.percent()) / 100.0);
                self.sent += 1;
                let due = Instant::now() + delay + jitter;
                let delayed = Delayed { due, number: self.sent, to, frame: frame.to_vec() };
                self.delayed.push(Reverse(delayed));
            }
            Fault::Loss { lost, repeated } => {
                if self.percent() < u32::from(lost) {
                    return;
                }
                self.deliver(to, frame);
                if self.percent() < u32::from(repeated) {
                    self.deliver(to, frame);
                }
            }
        }
    }

    fn deliver(&self, to: usize, frame: &[u8]) {
        // A full queue of the interface, or one that is down, loses the frame, as networks do.
        let _ = self.ports[to].send(frame);
    }

    /// A random number below 100.
    fn percent(&mut self) -> u32 {
        u32::try_from(split_mix::next(&mut self.random) % 100).expect("below 100")
    }
}
