//! Breadth first through all states, on as many cores as there are.
//!
//! Each worker owns the states that fall to it by the situation of the first process. It takes the
//! steps of its own states of one depth and hands what falls to others over to them; at the end of
//! a depth all wait for each other. So a state is always first reached by a shortest way, whichever
//! worker is faster.

#[cfg(feature = "threads")]
mod threads;

use std::sync::{
    Barrier, Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    mpsc::{Receiver, Sender, channel},
};

use mutua_algorithms::Claim;

use crate::{
    host::{Host, Watch},
    ids::{Id, StateId},
    invariant::{Judge, Judged, KindError},
    limits::{Limits, Stop},
    model::{Model, PANIC, Properties, bit, each, invariant_bit},
    rest::violated_at_rest,
    step::{Action, Stepper},
    store::{NO_PARENT, Store, hash},
};

/// The result of a search.
pub(crate) struct Reached {
    shards: Vec<Store>,
    /// How many states there are at each depth.
    pub(crate) depths: Vec<u64>,
    /// The first violation of each property, each by a shortest way.
    pub(crate) found: Vec<Found>,
    /// Why it ended early, if it did.
    pub(crate) stopped: Option<Stop>,
    /// How many steps were taken.
    pub(crate) steps: u64,
    /// How many of them led to a state of the same depth or a lower one. If none did, there is no
    /// cycle.
    pub(crate) backward: u64,
    /// The properties beyond whose violation nothing was looked at.
    pub(crate) cut: Properties,
    pub(crate) seconds: f64,
    /// What the invariants have met.
    pub(crate) judged: Judged,
    /// The place of an invariant that cannot be judged, and why.
    pub(crate) unjudged: Option<(usize, KindError)>,
}

/// A property that does not hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// One bit of [`Properties`].
    pub(crate) property: Properties,
    /// The state that violates it, or the last one before the step that does.
    pub(crate) state: StateId,
    pub(crate) action: Option<Action>,
}

impl Reached {
    pub(crate) fn states(&self) -> u64 {
        self.shards.iter().map(|shard| u64::from(shard.len())).sum()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.shards.iter().map(Store::bytes).sum()
    }

    /// Whether every state was expanded that is so many steps from the start. Where a search ended
    /// early, the states of the last depth were not all.
    pub(crate) fn has_expanded(&self, depth: usize) -> bool {
        self.stopped.is_none() || depth + 1 < self.depths.len()
    }

    pub(crate) fn get(&self, id: StateId) -> &[u32] {
        self.shard(id).get(self.order(id))
    }

    pub(crate) fn parent(&self, id: StateId) -> Option<StateId> {
        let parent = self.shard(id).parent(self.order(id));
        (parent != NO_PARENT).then_some(parent)
    }

    /// The number of a state that was reached.
    pub(crate) fn find(&self, state: &[u32]) -> Option<StateId> {
        let hash = hash(state);
        let shard = shard_of(state, self.shards.len());
        let index = self.shards[shard].find(state, hash)?;
        Some(id_of(index, shard, self.shards.len()))
    }

    /// When a state was reached by the worker it belongs to: the lower, the nearer to the start.
    pub(crate) fn order(&self, id: StateId) -> u32 {
        id.0 / self.shards.len() as u32
    }

    fn shard(&self, id: StateId) -> &Store {
        &self.shards[id.index() % self.shards.len()]
    }

    /// All numbers of states.
    pub(crate) fn ids(&self) -> impl Iterator<Item = StateId> + '_ {
        let count = self.shards.len();
        self.shards.iter().enumerate().flat_map(move |(shard, store)| {
            (0..store.len()).map(move |index| id_of(index, shard, count))
        })
    }

    /// One more than the highest number of a state.
    pub(crate) fn end_of_ids(&self) -> usize {
        let longest = self.shards.iter().map(Store::len).max().unwrap_or(0);
        longest as usize * self.shards.len()
    }
}

/// The violations that are looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) properties: Properties,
    /// Stop at the end of the depth at which the first violation is found.
    pub(crate) first: bool,
}

/// Explores a model.
pub(crate) fn search(
    model: &Model,
    wanted: Wanted,
    limits: &Limits,
    host: &mut dyn Host,
) -> Reached {
    let mut watch = Watch::start(host, limits);
    let workers = if cfg!(feature = "threads") { limits.threads.max(1) } else { 1 };
    let common = Common::new(model, wanted, limits, workers);
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..workers).map(|_| channel()).unzip();
    let inboxes = receivers.into_iter().enumerate();
    let all: Vec<_> =
        inboxes.map(|(me, inbox)| Worker::new(me, &common, senders.clone(), inbox)).collect();
    drop(senders);
    let (done, stopped) = run(all, &common, &mut watch);
    let level = common.level.into_inner().expect("no worker panics");
    let steps = done.iter().map(|done| done.steps).sum();
    let backward = done.iter().map(|done| done.backward).sum();
    let cut = done.iter().fold(0, |all, done| all | done.cut);
    Reached {
        shards: done.into_iter().map(|done| done.store).collect(),
        depths: level.depths,
        found: level.found,
        stopped: level.stopped.or(stopped),
        steps,
        backward,
        cut,
        seconds: watch.seconds(),
        judged: common.judged,
        unjudged: level.unjudged,
    }
}

/// Runs the workers; returns the limit that stopped them, if one did. One worker needs no thread of
/// its own: it looks at the limits itself, so that its count is the same in every run.
fn run(
    mut workers: Vec<Worker<'_>>,
    common: &Common<'_>,
    watch: &mut Watch<'_>,
) -> (Vec<Done>, Option<Stop>) {
    #[cfg(feature = "threads")]
    if workers.len() > 1 {
        return threads::run(workers, common, watch);
    }
    let mut stopped = None;
    let mut look = || stopped = stopped.or(common.look(watch));
    let done = workers.pop().map(|worker| worker.run(&mut look));
    (done.into_iter().collect(), stopped)
}

/// The state that the workers share.
struct Common<'a> {
    model: &'a Model,
    wanted: Wanted,
    max_depth: Option<usize>,
    barrier: Barrier,
    /// A limit was reached: leave everything.
    stop: AtomicBool,
    /// The last depth is done.
    over: AtomicBool,
    states: AtomicU64,
    depth: AtomicU64,
    level: Mutex<Level>,
    judged: Judged,
}

#[derive(Default)]
struct Level {
    new: u64,
    depths: Vec<u64>,
    found: Vec<Found>,
    stopped: Option<Stop>,
    unjudged: Option<(usize, KindError)>,
}

impl<'a> Common<'a> {
    fn new(model: &'a Model, wanted: Wanted, limits: &Limits, threads: usize) -> Self {
        Self {
            model,
            wanted,
            max_depth: limits.depth,
            barrier: Barrier::new(threads),
            stop: AtomicBool::new(false),
            over: AtomicBool::new(false),
            states: AtomicU64::new(0),
            depth: AtomicU64::new(0),
            level: Mutex::new(Level::default()),
            judged: Judged::new(model.invariants.len()),
        }
    }

    /// Judges the invariants in a state that is new.
    fn judge(&self, judge: &mut Judge<'_>, id: StateId, state: &[u32]) {
        match judge.violated(state, &self.judged) {
            Ok(violated) => {
                for place in violated {
                    self.report(Found { property: invariant_bit(place), state: id, action: None });
                }
            }
            Err(why) => {
                self.level.lock().expect("no worker panics").unjudged.get_or_insert(why);
                self.stop.store(true, Relaxed);
            }
        }
    }

    /// Stops all workers once a limit is reached; the limit, at the first time.
    fn look(&self, watch: &mut Watch<'_>) -> Option<Stop> {
        let why = watch.look(self.states.load(Relaxed), self.depth.load(Relaxed))?;
        (!self.stop.swap(true, Relaxed)).then_some(why)
    }

    /// The violations behind which nothing is searched: those that it looks for, and those that
    /// make a state meaningless.
    fn grave(&self) -> Properties {
        self.wanted.properties | bit(Claim::MutualExclusion) | PANIC
    }

    fn report(&self, found: Found) {
        let mut level = self.level.lock().expect("no worker panics");
        let wanted = self.wanted.properties & found.property != 0;
        if wanted && !level.found.iter().any(|known| known.property == found.property) {
            level.found.push(found);
        }
    }

    /// At the end of a depth, by one worker: is there another one?
    fn close_depth(&self) {
        let mut level = self.level.lock().expect("no worker panics");
        let new = std::mem::take(&mut level.new);
        // Where a limit was reached the depth may lack states, so it is not counted.
        let cut_short = self.stop.load(Relaxed);
        if new > 0 && !cut_short {
            level.depths.push(new);
        }
        let found = level.found.iter().fold(0, |all, found| all | found.property);
        let enough = if self.wanted.first { found != 0 } else { found == self.wanted.properties };
        if new > 0 && enough && self.wanted.properties != 0 {
            level.stopped = Some(Stop::Found);
        }
        if new > 0 && self.max_depth.is_some_and(|depth| level.depths.len() > depth) {
            level.stopped = Some(Stop::Depth);
        }
        self.depth.store(level.depths.len() as u64, Relaxed);
        self.over.store(new == 0 || cut_short || level.stopped.is_some(), Relaxed);
    }
}

/// States on their way to the worker they belong to: each its parent and then its words.
type Batch = Vec<u32>;

enum Parcel {
    States(Batch),
    /// The sender has nothing more at this depth.
    End,
}

/// How many words a batch has before it is sent.
const BATCH: usize = 1 << 14;

struct Worker<'a> {
    me: usize,
    common: &'a Common<'a>,
    stepper: Stepper<'a>,
    /// Where there are invariants.
    judge: Option<Judge<'a>>,
    store: Store,
    outgoing: Vec<Batch>,
    senders: Vec<Sender<Parcel>>,
    inbox: Receiver<Parcel>,
    /// How many others have nothing more at this depth.
    ended: usize,
    /// The first state of the next depth.
    next_depth: u32,
    /// How many of its states are in the common count.
    counted: u32,
    steps: u64,
    backward: u64,
    cut: Properties,
}

/// The result of one worker.
struct Done {
    store: Store,
    steps: u64,
    backward: u64,
    cut: Properties,
}

impl<'a> Worker<'a> {
    fn new(
        me: usize,
        common: &'a Common<'a>,
        senders: Vec<Sender<Parcel>>,
        inbox: Receiver<Parcel>,
    ) -> Self {
        Self {
            me,
            common,
            stepper: Stepper::new(common.model),
            judge: (!common.model.invariants.is_empty()).then(|| Judge::new(common.model)),
            store: Store::new(common.model.width()),
            outgoing: senders.iter().map(|_| Batch::new()).collect(),
            senders,
            inbox,
            ended: 0,
            next_depth: 0,
            counted: 0,
            steps: 0,
            backward: 0,
            cut: 0,
        }
    }

    fn run(mut self, look: &mut dyn FnMut()) -> Done {
        let start = &self.common.model.start;
        let hash = hash(start);
        if shard_of(start, self.senders.len()) == self.me {
            self.store.insert(start, hash, NO_PARENT);
            if let Some(judge) = &mut self.judge {
                self.common.judge(judge, id_of(0, self.me, self.senders.len()), start);
            }
        }
        let mut next = 0;
        loop {
            self.close_depth(self.store.len() - next);
            if self.common.over.load(Relaxed) {
                let Self { store, steps, backward, cut, .. } = self;
                return Done { store, steps, backward, cut };
            }
            self.next_depth = self.store.len();
            self.expand_all(next..self.next_depth, look);
            self.finish_exchange();
            next = self.next_depth;
        }
    }

    /// Waits for the others, and for the decision whether to go on.
    fn close_depth(&self, new: u32) {
        self.common.level.lock().expect("no worker panics").new += u64::from(new);
        if self.common.barrier.wait().is_leader() {
            self.common.close_depth();
        }
        self.common.barrier.wait();
    }

    fn expand_all(&mut self, range: std::ops::Range<u32>, look: &mut dyn FnMut()) {
        let mut state = Vec::new();
        for index in range {
            if index % 256 == 0 {
                self.take_in();
                self.add_count();
                look();
                if self.common.stop.load(Relaxed) {
                    break;
                }
            }
            state.clear();
            state.extend_from_slice(self.store.get(index));
            self.expand(index, &state);
        }
    }

    /// Adds what is new to the common count.
    fn add_count(&mut self) {
        let new = self.store.len() - self.counted;
        self.counted += new;
        self.common.states.fetch_add(u64::from(new), Relaxed);
    }

    fn expand(&mut self, index: u32, state: &[u32]) {
        let workers = self.senders.len();
        let id = id_of(index, self.me, workers);
        let mut must_go_on = false;
        let (store, outgoing, common) = (&mut self.store, &mut self.outgoing, self.common);
        let mut full = None;
        self.stepper.expand(state, |step| {
            must_go_on |= step.due;
            self.steps += 1;
            let violated = step.violated & common.grave();
            if violated != 0 {
                // Behind a violation nothing more can be learned of the property.
                self.cut |= violated;
                for property in each(violated) {
                    let action = Some(step.action);
                    common.report(Found { property, state: id, action });
                }
                return;
            }
            let hash = hash(step.state);
            let shard = shard_of(step.state, workers);
            if shard == self.me {
                let (reached, new) = store.insert(step.state, hash, id);
                self.backward += u64::from(reached < self.next_depth);
                if let (true, Some(judge)) = (new, &mut self.judge) {
                    common.judge(judge, id_of(reached, self.me, workers), step.state);
                }
            } else {
                outgoing[shard].push(id.0);
                outgoing[shard].extend_from_slice(step.state);
                if outgoing[shard].len() >= BATCH {
                    full = Some(shard);
                }
            }
        });
        if let Some(shard) = full {
            self.send(shard);
        }
        if !must_go_on {
            self.judge_rest(id, state);
        }
    }

    /// Everything may stay as it is for ever: does a process still wait?
    fn judge_rest(&mut self, id: StateId, state: &[u32]) {
        let violated = violated_at_rest(&mut self.stepper, state);
        for property in each(violated) {
            self.common.report(Found { property, state: id, action: None });
        }
    }

    fn send(&mut self, shard: usize) {
        let batch = std::mem::take(&mut self.outgoing[shard]);
        // The receiver lives as long as the scope of the threads.
        let _ = self.senders[shard].send(Parcel::States(batch));
    }

    /// Takes in what has come, without waiting.
    fn take_in(&mut self) {
        while let Ok(parcel) = self.inbox.try_recv() {
            self.keep(parcel);
        }
    }

    /// Hands over the rest and waits until every worker has.
    fn finish_exchange(&mut self) {
        for other in 0..self.senders.len() {
            if other != self.me {
                self.send(other);
                let _ = self.senders[other].send(Parcel::End);
            }
        }
        while self.ended + 1 < self.senders.len() {
            match self.inbox.recv() {
                Ok(parcel) => self.keep(parcel),
                Err(_) => break,
            }
        }
        self.ended = 0;
    }

    fn keep(&mut self, parcel: Parcel) {
        match parcel {
            Parcel::End => self.ended += 1,
            Parcel::States(batch) => {
                for entry in batch.chunks_exact(self.common.model.width() + 1) {
                    let state = &entry[1..];
                    let (reached, new) = self.store.insert(state, hash(state), StateId(entry[0]));
                    self.backward += u64::from(reached < self.next_depth);
                    if let (true, Some(judge)) = (new, &mut self.judge) {
                        let id = id_of(reached, self.me, self.senders.len());
                        self.common.judge(judge, id, state);
                    }
                }
            }
        }
    }
}

/// The worker that a state belongs to. The first process alone decides: most steps are at another
/// one and stay where they are, and each worker meets fewer situations of it.
#[inline]
fn shard_of(state: &[u32], shards: usize) -> usize {
    if shards == 1 { 0 } else { (hash(&state[..1]) >> 32) as usize % shards }
}

/// The id of a state from its number in the store of the worker that it belongs to.
#[inline]
fn id_of(index: u32, shard: usize, shards: usize) -> StateId {
    StateId(index * shards as u32 + shard as u32)
}
