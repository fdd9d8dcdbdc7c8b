//! How many events a second one core handles, and how often it allocates for them.
//!
//! `cargo bench -p mutua-algorithms --bench handlers [NAME...]` plays every algorithm at 10, 100
//! and 1,000 processes with every process requesting again when it leaves (elections: every process
//! starting again and again). The links are one plain queue; what that costs is measured with a
//! handler that only sends each message on, and stated beside. An event is a request, an arrival,
//! an exit, or a timer.

#![allow(unsafe_code, reason = "only an allocator can count allocations")]
#![allow(clippy::disallowed_types, reason = "a benchmark reads the clock on the wall")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    collections::VecDeque,
    env,
    hint::black_box,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use mutua_algorithms::{
    Claim, Effect, Election, ElectionEffect, ElectionOutbox, Kind, Message, Mutex, NodeId, Outbox,
    Process, Setup, Time, Timer,
    registry::{self, ElectionVisitor, MutexVisitor},
};

/// The system's allocator, counting allocations.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system's allocator as it came; counting touches no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`, which is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block came from the system's allocator, with this layout.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as for `dealloc`, and the caller keeps the contract on the size.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const WARM_UP: Duration = Duration::from_millis(1_500);
/// The measured time is several slices, of which the best counts.
const SLICES: usize = 5;
const SLICE: Duration = Duration::from_millis(80);

/// How many events pass between two looks at the clock.
const BATCH: u64 = 1_024;

fn main() {
    // `cargo bench` passes options of its own.
    let wanted: Vec<_> = env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    println!(
        "{:<22} {:>5} {:>12} {:>9} {:>9} {:>12} {:>10}",
        "algorithm", "N", "events/s", "ns/event", "of links", "alloc/event", "entries"
    );
    for about in registry::ALGORITHMS {
        if !wanted.is_empty() && !wanted.iter().any(|name| name == about.name) {
            continue;
        }
        for nodes in [10, 100, 1_000] {
            let row = match about.kind {
                Kind::Mutex => registry::visit_mutex(about.name, Bench(nodes)),
                Kind::Election => registry::visit_election(about.name, Bench(nodes)),
            };
            row.expect("the name is from the registry").print(about.name, nodes);
        }
    }
}

struct Row {
    events: u64,
    entries: u64,
    allocations: u64,
    /// The cost of an event, in ns.
    event: f64,
    /// The cost of the queue alone per message, in ns.
    link: f64,
}

impl Row {
    fn print(&self, name: &str, nodes: u32) {
        println!(
            "{name:<22} {nodes:>5} {:>12.0} {:>9.1} {:>9.1} {:>12.4} {:>10}",
            1e9 / self.event,
            self.event,
            self.link,
            self.allocations as f64 / self.events as f64,
            self.entries,
        );
    }
}

struct Bench(u32);

impl MutexVisitor for Bench {
    type Output = Row;

    fn visit<M: Mutex>(self) -> Row {
        measure(Contenders::<M>::new(self.0))
    }
}

impl ElectionVisitor for Bench {
    type Output = Row;

    fn visit<E: Election>(self) -> Row {
        measure(Electors::<E>::new(self.0))
    }
}

/// Something that always has a next event.
trait Load {
    type Message: Message;

    /// Handles one event.
    fn step(&mut self);

    /// The number of entries, or of elections.
    fn entries(&self) -> u64;

    /// The messages under way.
    fn queue(&mut self) -> &mut VecDeque<Event<Self::Message>>;
}

#[derive(Clone)]
enum Event<M> {
    Arrival { from: NodeId, to: NodeId, sent: Time, message: M },
    Exit(NodeId),
}

fn measure<L: Load>(mut load: L) -> Row {
    run_for(WARM_UP, || load.step());
    let link = link_cost(&mut load);
    // The queue's own growth is none of the handlers'.
    let room = load.queue().len() + 100_000;
    load.queue().reserve(room);
    let (entries, allocations) = (load.entries(), ALLOCATIONS.load(Ordering::Relaxed));
    let slices: Vec<_> = (0..SLICES).map(|_| run_for(SLICE, || load.step())).collect();
    Row {
        events: slices.iter().map(|(events, _)| events).sum(),
        event: best(&slices),
        entries: load.entries() - entries,
        // The list of slices is ours.
        allocations: ALLOCATIONS.load(Ordering::Relaxed) - allocations - 1,
        link,
    }
}

/// The cost of a message whose handler only sends it on, in ns.
fn link_cost<L: Load>(load: &mut L) -> f64 {
    let mut queue = VecDeque::new();
    while queue.len() < 100 {
        load.step();
        let arrival = |event: &&Event<_>| matches!(event, Event::Arrival { .. });
        queue.extend(load.queue().iter().filter(arrival).take(100).cloned());
    }
    let mut out = Outbox::new();
    let mut send_on = || {
        if let Some(Event::Arrival { to, sent, message, .. }) = queue.pop_front() {
            out.send(black_box(to), message);
            post(to, sent, &mut out, &mut queue);
        }
    };
    best(&[(); 5].map(|()| run_for(Duration::from_millis(5), &mut send_on)))
}

/// The time of one event in the best of several runs, in ns: the others were disturbed.
fn best(runs: &[(u64, Duration)]) -> f64 {
    let each = runs.iter().map(|(events, time)| time.as_secs_f64() * 1e9 / *events as f64);
    each.fold(f64::INFINITY, f64::min)
}

fn run_for(time: Duration, mut step: impl FnMut()) -> (u64, Duration) {
    let (start, mut steps) = (Instant::now(), 0);
    while start.elapsed() < time {
        for _ in 0..BATCH {
            step();
        }
        steps += BATCH;
    }
    (steps, start.elapsed())
}

/// Puts the messages of a handler into the queue, and its exit if it entered; returns how often it
/// entered.
fn post<M: Message>(
    from: NodeId,
    sent: Time,
    out: &mut Outbox<M>,
    queue: &mut VecDeque<Event<M>>,
) -> u64 {
    let mut entries = 0;
    out.drain(|effect| match effect {
        Effect::Send { to, message, .. } => {
            queue.push_back(Event::Arrival { from, to, sent, message });
        }
        Effect::Multicast { to, message } => queue.extend(to.iter().map(|&to| Event::Arrival {
            from,
            to,
            sent,
            message: message.clone(),
        })),
        Effect::Enter => {
            entries += 1;
            queue.push_back(Event::Exit(from));
        }
        Effect::Nonsense { why, .. } => panic!("nonsense among honest processes: {why}"),
    });
    entries
}

/// Puts the messages of an election's handler into the queue and calls `set` for its timers;
/// returns how often it elected.
fn post_election<M: Message>(
    from: NodeId,
    out: &mut ElectionOutbox<M>,
    queue: &mut VecDeque<Event<M>>,
    mut set: impl FnMut(Timer, bool),
) -> u64 {
    let (sent, mut elections) = (Time::ZERO, 0);
    out.drain(|effect| match effect {
        ElectionEffect::Send { to, message } => {
            queue.push_back(Event::Arrival { from, to, sent, message });
        }
        ElectionEffect::Multicast { to, message } => {
            let arrival = |&to| Event::Arrival { from, to, sent, message: message.clone() };
            queue.extend(to.iter().map(arrival));
        }
        ElectionEffect::Elected { .. } => elections += 1,
        ElectionEffect::SetTimer { timer, .. } => set(timer, true),
        ElectionEffect::CancelTimer { timer } => set(timer, false),
        ElectionEffect::Nonsense { why, .. } => panic!("nonsense among honest processes: {why}"),
    });
    elections
}

/// Processes that request again whenever they have left.
struct Contenders<M: Mutex> {
    processes: Vec<Process<M>>,
    queue: VecDeque<Event<M::Message>>,
    out: Outbox<M::Message>,
    /// The processes that have left and request next.
    requesting: Vec<NodeId>,
    entries: u64,
}

impl<M: Mutex> Contenders<M> {
    fn new(nodes: u32) -> Self {
        let start = Setup::new(nodes).start::<M>().expect("the defaults suit any number");
        // Where requests of all end in a deadlock, one has to do.
        let deadlocks = !M::ABOUT.claims.contains(&Claim::DeadlockFree);
        let contenders = if deadlocks { 1 } else { nodes };
        let mut this = Self {
            processes: start.all().map(|me| Process::new(me, &start)).collect(),
            queue: VecDeque::new(),
            out: Outbox::new(),
            requesting: (0..contenders).map(NodeId).collect(),
            entries: 0,
        };
        for at in 0..this.processes.len() {
            this.processes[at].begin(&mut this.out);
            this.post(NodeId::from(at));
        }
        this
    }

    fn post(&mut self, from: NodeId) {
        let sent = self.processes[from.index()].time();
        self.entries += post(from, sent, &mut self.out, &mut self.queue);
    }
}

impl<M: Mutex> Load for Contenders<M> {
    type Message = M::Message;

    fn step(&mut self) {
        let out = &mut self.out;
        let at = if let Some(node) = self.requesting.pop() {
            self.processes[node.index()].request(out);
            node
        } else {
            match self
                .queue
                .pop_front()
                .expect("a process is always in the critical section or waits")
            {
                Event::Arrival { from, to, sent, message } => {
                    self.processes[to.index()].receive(from, sent, message, out);
                    to
                }
                Event::Exit(node) => {
                    self.processes[node.index()].release(out);
                    self.requesting.push(node);
                    node
                }
            }
        };
        self.post(at);
    }

    fn entries(&self) -> u64 {
        self.entries
    }

    fn queue(&mut self) -> &mut VecDeque<Event<M::Message>> {
        &mut self.queue
    }
}

/// Processes that all start an election whenever nothing else is to do.
struct Electors<E: Election> {
    processes: Vec<E>,
    queue: VecDeque<Event<E::Message>>,
    out: ElectionOutbox<E::Message>,
    /// The timers that each process has set.
    timers: Vec<[bool; TIMERS.len()]>,
    /// The process whose timers are looked at next.
    turn: usize,
    /// How many processes are still to start.
    starting: usize,
    entries: u64,
}

const TIMERS: [Timer; 3] = [Timer::Answer, Timer::Announcement, Timer::Look];

impl<E: Election> Electors<E> {
    fn new(nodes: u32) -> Self {
        let start = Setup::new(nodes).start_election::<E>().expect("any number suits");
        Self {
            processes: start.all().map(|me| E::new(me, &start)).collect(),
            queue: VecDeque::new(),
            out: ElectionOutbox::new(),
            timers: vec![[false; TIMERS.len()]; nodes as usize],
            turn: 0,
            starting: 0,
            entries: 0,
        }
    }

    /// The next process, going round, with a timer that has run out: any, since no message is
    /// under way.
    fn next_timer(&mut self) -> Option<(usize, Timer)> {
        for _ in 0..self.timers.len() {
            self.turn = (self.turn + 1) % self.timers.len();
            let set = &mut self.timers[self.turn];
            if let Some(which) = set.iter().position(|&is_set| is_set) {
                set[which] = false;
                return Some((self.turn, TIMERS[which]));
            }
        }
        None
    }
}

impl<E: Election> Load for Electors<E> {
    type Message = E::Message;

    fn step(&mut self) {
        let at = if self.starting > 0 {
            self.starting -= 1;
            self.processes[self.starting].start(&mut self.out);
            self.starting
        } else if let Some(event) = self.queue.pop_front() {
            let Event::Arrival { from, to, message, .. } = event else { return };
            self.processes[to.index()].receive(from, message, &mut self.out);
            to.index()
        } else if let Some((at, timer)) = self.next_timer() {
            self.processes[at].timeout(timer, &mut self.out);
            at
        } else {
            self.starting = self.processes.len();
            return;
        };
        let timers = &mut self.timers[at];
        let (from, out, queue) = (NodeId::from(at), &mut self.out, &mut self.queue);
        self.entries += post_election(from, out, queue, |timer, set| {
            let which = TIMERS.iter().position(|&known| known == timer);
            timers[which.expect("all timers are listed")] = set;
        });
    }

    fn entries(&self) -> u64 {
        self.entries
    }

    fn queue(&mut self) -> &mut VecDeque<Event<E::Message>> {
        &mut self.queue
    }
}
