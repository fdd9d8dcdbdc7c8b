//! A whole system, walked at random.

use mutua_algorithms::{
    Claim, Effect, Fence, Links, Mutex, NodeId, Outbox, Phase, Process, Setup, Start,
};

use super::{
    checks::{Checks, Violation},
    dice::Dice,
    network::{Network, Packet},
    setups::Case,
};

/// How a run went.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    pub processes: u32,
    pub entries: u32,
    pub deliveries: u32,
    /// How often all were back at the start and made anew.
    pub forgotten: u32,
}

struct Cluster<'a, M: Mutex> {
    start: Start,
    processes: Vec<Process<M>>,
    network: Network<M::Message>,
    checks: Checks,
    /// How often each process will still ask.
    quota: Vec<u32>,
    tells: u32,
    pace: Pace,
    outcome: Outcome,
    out: Outbox<M::Message>,
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
pub fn walk<M: Mutex>(case: &Case, claims: &[Claim]) -> Result<Outcome, Violation> {
    let mut dice = Dice::new(case.seed);
    let setup = case.setup::<M>(&mut dice);
    let start = case.start::<M>(&setup);
    let mut cluster = Cluster::<M>::new(start, claims, case.links, &mut dice);
    cluster.begin()?;
    for _ in 0..2 {
        cluster.deal_out_quotas();
        cluster.run()?;
        cluster.forget_if_all_at_start(case, &setup)?;
    }
    Ok(cluster.outcome)
}

impl<'a, M: Mutex> Cluster<'a, M> {
    fn new(start: Start, claims: &[Claim], links: Links, dice: &'a mut Dice) -> Self {
        let processes = start.processes();
        Self {
            processes: start.all().map(|me| Process::new(me, &start)).collect(),
            network: Network::new(links),
            checks: Checks::new(claims.to_vec(), processes, start.inside()),
            quota: vec![0; start.contenders() as usize],
            tells: 0,
            pace: Pace {
                request: 1 << dice.below(5),
                release: 1 << dice.below(5),
                tell: dice.below(4),
            },
            outcome: Outcome { processes, ..Outcome::default() },
            out: Outbox::new(),
            start,
            dice,
        }
    }

    /// A few entries each, fewer of them if there are many processes, and some ask for none.
    fn deal_out_quotas(&mut self) {
        let most = if self.quota.len() > 5 { 1 } else { 4 };
        for quota in &mut self.quota {
            *quota = self.dice.within(0, most);
        }
        self.tells = 2 * self.start.processes();
    }

    fn begin(&mut self) -> Result<(), Violation> {
        for at in 0..self.processes.len() {
            self.processes[at].begin(&mut self.out);
            self.take_effects(NodeId::from(at), None, None)?;
        }
        Ok(())
    }

    /// Lets things happen until everybody has been inside as often as it wanted, or nothing can
    /// happen any more.
    fn run(&mut self) -> Result<(), Violation> {
        let asks: u32 = self.quota.iter().sum();
        let limit = 10_000 + 1_000 * self.start.processes() * asks;
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
        NodeId::from(self.dice.below(self.processes.len()))
    }

    fn is_over(&self) -> bool {
        self.checks.inside().is_empty()
            && self.checks.waiting().next().is_none()
            && self.quota.iter().all(|&quota| quota == 0)
    }

    fn is_stuck(&self) -> bool {
        let can_ask = |node: &usize| self.quota[*node] > 0 && self.is_outside(*node);
        self.network.is_empty()
            && self.checks.inside().is_empty()
            && !(0..self.quota.len()).any(|node| can_ask(&node))
    }

    fn is_outside(&self, at: usize) -> bool {
        self.processes[at].machine().phase() == Phase::Outside
    }

    fn waits_in_vain(&self, claim: Claim, why: &str) -> Result<(), Violation> {
        let waiting: Vec<_> = self.checks.waiting().collect();
        self.checks.demand(claim, waiting.is_empty(), || {
            let state = waiting.iter().map(|node| {
                let machine = self.processes[node.index()].machine();
                format!("{node}: {:?}", machine.variables())
            });
            format!("{why} and these wait: {}", state.collect::<Vec<_>>().join("; "))
        })
    }

    /// One event, by the dice; or none, if what they fell on cannot happen now.
    fn step(&mut self) -> Result<(), Violation> {
        let Pace { request, release, tell } = self.pace;
        let drawn = self.dice.below(DELIVERY + request + release + tell);
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

    fn deliver(&mut self) -> Result<(), Violation> {
        let Some(packet) = self.network.take(self.dice) else { return Ok(()) };
        let Packet { from, to, sent, message, past, asks, .. } = packet;
        self.outcome.deliveries += 1;
        self.checks.on_arrival(from, to, &past, asks);
        let process = &mut self.processes[to.index()];
        let fence = match message {
            Some(message) => process.receive(from, sent, message, &mut self.out),
            None => process.hear(from, sent, &mut self.out),
        };
        self.take_effects(to, None, fence)
    }

    fn request(&mut self) -> Result<(), Violation> {
        let at = self.dice.below(self.quota.len());
        if self.quota[at] == 0 || !self.is_outside(at) {
            return Ok(());
        }
        self.quota[at] -= 1;
        let node = NodeId::from(at);
        let token_here = self.processes[at].machine().token_here();
        self.checks.on_request(node);
        let fence = self.processes[at].request(&mut self.out);
        if token_here && fence.is_none() {
            return Err(Violation::new(None, format!("{node} has the token but does not enter")));
        }
        let asks = self.checks.waits_with(node);
        self.take_effects(node, asks, fence)
    }

    fn release(&mut self) -> Result<(), Violation> {
        let inside: Vec<_> = self.checks.inside().iter().collect();
        if inside.is_empty() {
            return Ok(());
        }
        let node = *self.dice.pick(&inside);
        self.checks.on_release(node);
        self.processes[node.index()].release(&mut self.out);
        self.take_effects(node, None, None)
    }

    /// A message of the application, which the algorithm does not see but for its clock.
    fn tell(&mut self) {
        let (from, to) = (self.any_process(), self.any_process());
        if from == to || self.tells == 0 {
            return;
        }
        self.tells -= 1;
        let sent = self.processes[from.index()].time();
        let past = self.checks.past(from);
        let packet = Packet { from, to, sent, message: None, lazy: false, past, asks: None };
        self.network.send(packet);
    }

    /// Does what the machine of `from` wants done after an event; `asks` if that was its request.
    fn take_effects(
        &mut self,
        from: NodeId,
        asks: Option<u32>,
        fence: Option<Fence>,
    ) -> Result<(), Violation> {
        let sent = self.processes[from.index()].time();
        let mut nonsense = None;
        let (network, checks) = (&mut self.network, &mut self.checks);
        let past = checks.past(from);
        let mut send = |to, message, lazy| {
            checks.on_asking(from, asks);
            let (message, past) = (Some(message), past.clone());
            network.send(Packet { from, to, sent, message, lazy, past, asks });
        };
        self.out.drain(|effect| match effect {
            Effect::Send { to, message, lazy } => send(to, message, lazy),
            Effect::Multicast { to, message } => {
                to.iter().for_each(|&to| send(to, message.clone(), false));
            }
            Effect::Enter => {}
            Effect::Nonsense { from, why } => nonsense = Some((from, why)),
            other => panic!("no effect of a mutual exclusion algorithm: {other:?}"),
        });
        if let Some((sender, why)) = nonsense {
            return Err(Violation::new(None, format!("{from} calls {sender}'s message {why}")));
        }
        if let Some(fence) = fence {
            self.outcome.entries += 1;
            self.checks.on_enter(from, fence)?;
        }
        self.look_at(from)
    }

    /// What a process says of itself must agree with what was seen of it.
    fn look_at(&self, node: NodeId) -> Result<(), Violation> {
        let machine = self.processes[node.index()].machine();
        let seen = if self.checks.inside().contains(node) {
            Phase::Inside
        } else if self.checks.waits_with(node).is_some() {
            Phase::Requesting
        } else {
            Phase::Outside
        };
        let said = machine.phase();
        let waits = machine.waits_for();
        if said != seen {
            Err(Violation::new(None, format!("{node} is {seen:?} and says {said:?}")))
        } else if said != Phase::Requesting && !waits.is_empty() {
            Err(Violation::new(None, format!("{node} is {said:?} and waits for {waits:?}")))
        } else if said != Phase::Outside && machine.token_here() {
            Err(Violation::new(None, format!("{node} is {said:?} and would be let in at once")))
        } else {
            Ok(())
        }
    }

    /// Once nothing but lazy messages is under way, and if all say that they are at the start
    /// again, they can be made anew and nobody notices.
    fn forget_if_all_at_start(&mut self, case: &Case, setup: &Setup) -> Result<(), Violation> {
        let idle = Setup { inside: false, ..setup.clone() };
        let start = case.start::<M>(&idle);
        for _ in 0..10_000 * self.processes.len() {
            if self.network.is_idle() {
                break;
            }
            self.deliver()?;
        }
        let at_start = |process: &Process<M>| process.machine().at_start(&start);
        if !self.network.is_empty() || !self.processes.iter().all(at_start) {
            return Ok(());
        }
        self.outcome.forgotten += 1;
        for process in &mut self.processes {
            let time = process.time();
            *process = Process::new(process.id(), &start);
            process.raise_time(time);
        }
        self.begin()
    }
}
