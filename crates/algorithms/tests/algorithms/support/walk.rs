//! A cluster walked at random.

use mutua_algorithms::{Claim, Links, Mutex, NodeId, Phase, Setup, Start, split_mix::Dice};
use mutua_lab::Cluster;

use super::{setups::Case, violation::Violation};

/// How a run went.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) processes: u32,
    pub(crate) entries: u32,
    pub(crate) deliveries: u32,
    /// How often a process waited and could not say for whom.
    pub(crate) puzzled: u32,
    /// How often all were back at the start and replaced.
    pub(crate) replaced: u32,
}

struct Walk<'a, M: Mutex> {
    start: Start,
    /// The same with nobody in the critical section: what a process is replaced by.
    idle: Start,
    claims: &'a [Claim],
    cluster: Cluster<M>,
    /// The phase of each client as its requests, entries and exits show it.
    phases: Vec<Phase>,
    in_cs: Vec<NodeId>,
    waiting: u32,
    /// How many violations and entries of the cluster have been looked at.
    judged: usize,
    entered: usize,
    /// How often each process will still request.
    quota: Vec<u32>,
    tells: u32,
    pace: Pace,
    outcome: Outcome,
    dice: &'a mut Dice,
}

/// How likely each kind of event is, against that of a delivery.
struct Pace {
    request: usize,
    release: usize,
    tell: usize,
}

const DELIVERY: usize = 8;

/// Walks the system that the case describes and checks `claims`.
pub(crate) fn walk<M: Mutex>(case: &Case, claims: &[Claim]) -> Result<Outcome, Violation> {
    let mut dice = Dice(case.seed);
    let setup = case.setup::<M>(&mut dice);
    let start = case.start::<M>(&setup);
    let idle = case.start::<M>(&Setup { in_cs: false, ..setup });
    let mut walk = Walk::<M>::new(start, idle, claims, case.links, &mut dice);
    walk.look_at_new()?;
    for _ in 0..2 {
        walk.deal_out_quotas();
        walk.run()?;
        walk.replace_if_all_at_start()?;
    }
    Ok(walk.outcome)
}

impl<'a, M: Mutex> Walk<'a, M> {
    fn new(
        start: Start,
        idle: Start,
        claims: &'a [Claim],
        links: Links,
        dice: &'a mut Dice,
    ) -> Self {
        let phase = |node| if start.is_in_cs(node) { Phase::InCs } else { Phase::Idle };
        Self {
            claims,
            cluster: Cluster::unrecorded(start.clone(), links),
            phases: start.all().map(phase).collect(),
            in_cs: start.in_cs().into_iter().collect(),
            waiting: 0,
            judged: 0,
            entered: 0,
            quota: vec![0; start.contenders() as usize],
            tells: 0,
            pace: Pace {
                request: 1 << dice.index(5),
                release: 1 << dice.index(5),
                tell: dice.index(4),
            },
            outcome: Outcome { processes: start.processes(), ..Outcome::default() },
            start,
            idle,
            dice,
        }
    }

    /// A few entries each, fewer of them if there are many processes, and some request none.
    fn deal_out_quotas(&mut self) {
        let most = if self.quota.len() > 5 { 1 } else { 4 };
        for quota in &mut self.quota {
            *quota = self.dice.within(0, most);
        }
        self.tells = 2 * self.start.processes();
    }

    /// Lets things happen until all have entered as often as they wanted, or nothing can happen
    /// any more.
    fn run(&mut self) -> Result<(), Violation> {
        let requests: u32 = self.quota.iter().sum();
        let limit = 10_000 + 1_000 * self.start.processes() * requests;
        for _ in 0..limit {
            if self.is_over() {
                return Ok(());
            }
            if self.is_stuck() {
                return self.waits_in_vain(Claim::DeadlockFree, "nothing is under way");
            }
            self.step()?;
        }
        self.waits_in_vain(Claim::Liveness, &format!("{limit} steps have passed"))
    }

    fn any_process(&mut self) -> NodeId {
        NodeId::from(self.dice.index(self.phases.len()))
    }

    fn is_over(&self) -> bool {
        self.waiting == 0 && self.in_cs.is_empty() && self.quota.iter().all(|&quota| quota == 0)
    }

    fn is_stuck(&self) -> bool {
        let can_request = |(at, &quota): (usize, &u32)| quota > 0 && self.phases[at] == Phase::Idle;
        self.cluster.in_flight_count() == 0
            && self.in_cs.is_empty()
            && !self.quota.iter().enumerate().any(can_request)
    }

    fn waits_in_vain(&self, claim: Claim, why: &str) -> Result<(), Violation> {
        let waits = |node: &NodeId| self.phases[node.index()] == Phase::Requesting;
        let waiting: Vec<_> = self.start.all().filter(waits).collect();
        if waiting.is_empty() || !self.claims.contains(&claim) {
            return Ok(());
        }
        let state = waiting.iter().map(|&node| {
            let machine = self.cluster.process(node).machine();
            format!("{node}: {:?}", machine.variables())
        });
        let state: Vec<_> = state.collect();
        Err(Violation::new(claim, format!("{why} and these wait: {}", state.join("; "))))
    }

    /// One event, by the dice; or none, if what they fell on cannot happen now.
    fn step(&mut self) -> Result<(), Violation> {
        let Pace { request, release, tell } = self.pace;
        let drawn = self.dice.index(DELIVERY + request + release + tell);
        if drawn < DELIVERY {
            self.deliver()
        } else if drawn < DELIVERY + request {
            self.request()
        } else if drawn < DELIVERY + request + release {
            self.release()
        } else {
            self.tell();
            Ok(())
        }
    }

    /// Any message arrives. Each has its chance, the lazy ones a smaller one.
    fn deliver(&mut self) -> Result<(), Violation> {
        let count = self.cluster.in_flight_count();
        if count == 0 {
            return Ok(());
        }
        let mut index = self.dice.index(count);
        for _ in 0..3 {
            if !self.cluster.is_lazy(index) {
                break;
            }
            index = self.dice.index(count);
        }
        self.outcome.deliveries += 1;
        let to = self.cluster.deliver_nth(index);
        self.judge(to)
    }

    fn request(&mut self) -> Result<(), Violation> {
        let at = self.dice.index(self.quota.len());
        if self.quota[at] == 0 || self.phases[at] != Phase::Idle {
            return Ok(());
        }
        self.quota[at] -= 1;
        let node = NodeId::from(at);
        let at_once = self.cluster.process(node).machine().would_enter_at_once();
        self.phases[at] = Phase::Requesting;
        self.waiting += 1;
        self.cluster.request(node).expect("its client is idle");
        let entered = self.cluster.entries().len() > self.entered;
        if at_once != entered {
            let text = format!("{node} would enter at once: {at_once}; it has: {entered}");
            return Err(Violation::new(None, text));
        }
        self.judge(node)
    }

    fn release(&mut self) -> Result<(), Violation> {
        if self.in_cs.is_empty() {
            return Ok(());
        }
        let node = self.in_cs.swap_remove(self.dice.index(self.in_cs.len()));
        self.phases[node.index()] = Phase::Idle;
        self.cluster.release(node).expect("its client is in the critical section");
        self.judge(node)
    }

    /// A message of the application, which the algorithm does not see except for its clock.
    fn tell(&mut self) {
        let (from, to) = (self.any_process(), self.any_process());
        if from == to || self.tells == 0 {
            return;
        }
        self.tells -= 1;
        self.cluster.send_app_message(from, to).expect("two processes that are up");
    }

    /// Looks at what the last event, at this process, has led to.
    fn judge(&mut self, node: NodeId) -> Result<(), Violation> {
        for &entered in &self.cluster.entries()[self.entered..] {
            self.phases[entered.index()] = Phase::InCs;
            self.in_cs.push(entered);
            self.waiting -= 1;
            self.outcome.entries += 1;
        }
        self.entered = self.cluster.entries().len();
        if let Some(nonsense) = self.cluster.nonsense().first() {
            return Err(Violation::new(None, format!("invalid message: {nonsense:?}")));
        }
        let new = &self.cluster.violations()[self.judged..];
        self.judged = self.cluster.violations().len();
        if let Some(found) = new.iter().find(|found| self.claims.contains(&found.property)) {
            return Err(Violation::new(found.property, format!("{}: {}", found.who, found.why)));
        }
        self.look_at(node)
    }

    /// Asserts that the reports of a process agree with the events at it.
    fn look_at(&mut self, node: NodeId) -> Result<(), Violation> {
        let machine = self.cluster.process(node).machine();
        let (seen, reported) = (self.phases[node.index()], machine.phase());
        let waits = machine.waits_for();
        self.outcome.puzzled += u32::from(seen == Phase::Requesting && waits.is_empty());
        if reported != seen {
            Err(Violation::new(None, format!("{node} is {seen:?} and reports {reported:?}")))
        } else if reported != Phase::Requesting && !waits.is_empty() {
            Err(Violation::new(None, format!("{node} is {reported:?} and waits for {waits:?}")))
        } else if reported != Phase::Idle && machine.would_enter_at_once() {
            Err(Violation::new(None, format!("{node} is {reported:?} and would enter at once")))
        } else if reported != Phase::Idle && machine.is_at_start(&self.idle) {
            Err(Violation::new(None, format!("{node} is {reported:?} and at the start")))
        } else {
            Ok(())
        }
    }

    /// New processes are at the start, unless one of them is in the critical section, or a token
    /// sets off at once.
    fn look_at_new(&self) -> Result<(), Violation> {
        let is_at_start =
            |node: &NodeId| self.cluster.process(*node).machine().is_at_start(&self.idle);
        match self.start.all().find(|node| !is_at_start(node)) {
            Some(node) if self.in_cs.is_empty() && self.cluster.in_flight_count() == 0 => {
                Err(Violation::new(None, format!("{node} is new and not at the start")))
            }
            _ => Ok(()),
        }
    }

    /// Once only lazy messages are under way, and if all report that they are at the start again,
    /// they can be replaced by new ones and no process notices.
    fn replace_if_all_at_start(&mut self) -> Result<(), Violation> {
        let start = self.idle.clone();
        for _ in 0..10_000 * self.phases.len() {
            let count = self.cluster.in_flight_count();
            if (0..count).all(|index| self.cluster.is_lazy(index)) {
                break;
            }
            self.deliver()?;
        }
        let is_at_start = |node: NodeId| self.cluster.process(node).machine().is_at_start(&start);
        if self.cluster.in_flight_count() > 0 || !self.start.all().all(is_at_start) {
            return Ok(());
        }
        self.outcome.replaced += 1;
        self.cluster.replace_all(start);
        self.look_at_new()
    }
}
