//! One interface to the kinds of systems that scripts play on.

use mutua_algorithms::{
    About, Election, Fields, Mutex, NodeId, Phase, Start, StartError, Time, Timer, Value,
    registry::{self, ElectionVisitor, MutexVisitor},
    self_stabilizing::{Daemon, Ring},
};

use super::{Command, System};
use crate::{
    Cluster, DaemonRing, ElectionCluster, Event, Header, Message, Refusal, RepairCluster, Unit,
};

/// A system that a script steps and inspects.
pub(crate) trait Player {
    fn header(&self) -> &Header;
    fn events(&self) -> &[Event];
    fn act(&mut self, command: &Command) -> Result<(), Refusal>;
    fn is_up(&self, who: NodeId) -> bool;

    /// The same system, to try a step on.
    fn copy(&self) -> Box<dyn Player>;

    /// The state under the paper's names.
    fn variables(&self, who: NodeId) -> Fields;

    /// The processes that have entered, in order of entry.
    fn entries(&self) -> Vec<NodeId>;

    /// The messages in flight, in order of sending: sender, receiver, message.
    fn in_flight(&self) -> Vec<(NodeId, NodeId, &Message)> {
        Vec::new()
    }

    fn phase(&self, _who: NodeId) -> Option<Phase> {
        None
    }

    fn waits_for(&self, _who: NodeId) -> Vec<NodeId> {
        Vec::new()
    }

    fn is_deadlocked(&self) -> bool {
        false
    }

    fn coordinator(&self, _who: NodeId) -> Option<NodeId> {
        None
    }

    fn timers(&self, _who: NodeId) -> Vec<Timer> {
        Vec::new()
    }

    /// The processes of which a crash or a restart has not been reported to this one.
    fn unreported_to(&self, _who: NodeId) -> Vec<NodeId> {
        Vec::new()
    }

    /// Whether no process can go on, and no report of a failure detector is to come, either.
    fn is_stuck(&self) -> bool {
        self.is_deadlocked()
    }

    fn ring(&self) -> Option<&Ring> {
        None
    }

    /// Whether the message at this index of `in_flight` is lazy.
    fn is_lazy(&self, _index: usize) -> bool {
        false
    }

    /// The start from which the processes of a mutual exclusion algorithm were made.
    fn start_of_all(&self) -> Option<&Start> {
        None
    }

    /// The state as one number; none where searches from the present state are not offered.
    fn fingerprint(&self) -> Option<u128> {
        None
    }

    /// Keeps no trace from now on, where a long search would only pay for it.
    fn drop_trace(&mut self) {}
}

/// The system of a script at its start.
pub(crate) fn build(system: &System, title: &str) -> Result<Box<dyn Player>, StartError> {
    let build = Build { system, title };
    registry::visit_mutex(&system.algorithm, build)
        .or_else(|| registry::visit_election(&system.algorithm, build))
        .unwrap_or_else(|| {
            Err(StartError::new(format!("unknown algorithm `{}`", system.algorithm)))
        })
}

/// Why a script cannot use what only a ring under a daemon has.
fn for_daemons(what: &str) -> String {
    let names = registry::names_of(About::is_self_stabilizing);
    let daemons = Daemon::ALL.iter().map(|daemon| daemon.name()).collect::<Vec<_>>().join(", ");
    format!("{what} for {names} with the option daemon: {daemons}")
}

/// Why a script without a repair cannot report crashes.
const FOR_REPAIRS: &str = "reports need a repair: add `repair generic bully` to the head";

/// Why a system cannot have several critical sections.
const ONE_SECTION: &str = "several critical sections need processes that send messages, without a \
                           repair and with none in the critical section at the start";

#[derive(Clone, Copy)]
struct Build<'a> {
    system: &'a System,
    title: &'a str,
}

impl Build<'_> {
    fn header(self, start: &mutua_algorithms::Start) -> Header {
        let names = self.system.names_of_all();
        let header = Header::new(&self.system.algorithm, start, names, Unit::Step);
        Header { title: self.title.to_owned(), ..header }
    }
}

impl MutexVisitor for Build<'_> {
    type Output = Result<Box<dyn Player>, StartError>;

    fn visit<M: Mutex>(self) -> Self::Output {
        let start = self.system.start(|setup| setup.start::<M>())?;
        let header = self.header(&start);
        let flags = self.system.flags.as_deref();
        let is_plain = Daemon::of(start.about(), start.settings()).is_none()
            && self.system.repair.is_none()
            && start.in_cs().is_none();
        if header.sections > 1 && !is_plain {
            return Err(StartError::new(ONE_SECTION));
        }
        if let Some(daemon) = Daemon::of(start.about(), start.settings()) {
            let mut ring = Ring::at_start(&start);
            if let Some(flags) = flags {
                ring = ring.with_flags(flags)?;
            }
            return Ok(Box::new(DaemonRing::new(daemon, ring, header)));
        }
        if flags.is_some() {
            return Err(StartError::new(for_daemons("flags are")));
        }
        if let Some(repair) = self.system.repair {
            let plan = self.system.plan::<M>(repair)?;
            let links = self.system.links.unwrap_or(plan.links());
            return Ok(Box::new(RepairCluster::<M>::with_links(plan, links, header)));
        }
        Ok(Box::new(Cluster::<M>::new(start, self.system.links(), header)))
    }
}

impl ElectionVisitor for Build<'_> {
    type Output = Result<Box<dyn Player>, StartError>;

    fn visit<E: Election>(self) -> Self::Output {
        if !self.system.sections.is_empty() {
            return Err(StartError::new("an election has no critical sections"));
        }
        if self.system.repair.is_some() {
            return Err(StartError::new("an election has no repair: leave out the line `repair`"));
        }
        let start = self.system.start(|setup| setup.start_election::<E>())?;
        let header = self.header(&start);
        Ok(Box::new(ElectionCluster::<E>::new(start, self.system.links(), header)))
    }
}

impl<M: Mutex> Player for Cluster<M> {
    fn header(&self) -> &Header {
        self.header()
    }

    fn coordinator(&self, who: NodeId) -> Option<NodeId> {
        let start = self.start_of_all();
        let has_one = self.is_up(who) && start.settings().get("coordinator").is_some();
        has_one.then(|| start.coordinator())
    }

    fn events(&self) -> &[Event] {
        self.events()
    }

    fn act(&mut self, command: &Command) -> Result<(), Refusal> {
        match command {
            Command::Request(who) => self.request(*who),
            Command::Exit(who) => self.release(*who),
            Command::AppSend(from, to) => self.send_app_message(*from, *to),
            Command::Clock(who, time) => self.set_clock(*who, Time::from_number(*time)),
            Command::Deliver { from, to, which } => self.deliver(*from, *to, which),
            Command::DeliverAll => self.deliver_all(),
            Command::Lose { from, to, which } => self.lose(*from, *to, which),
            Command::Duplicate { from, to, which } => self.duplicate(*from, *to, which),
            Command::Crash(who) => self.crash(*who),
            Command::Restart(who) => self.restart(*who),
            Command::Start(_) | Command::Timeout(..) => {
                Err(Refusal::new("only elections have this step"))
            }
            Command::Report { .. } => Err(Refusal::new(FOR_REPAIRS)),
            Command::Move(_) | Command::MoveAll => Err(Refusal::new(for_daemons("`move` is"))),
            Command::DeliverEvery { .. } => unreachable!("is played as single deliveries"),
        }
    }

    fn is_up(&self, who: NodeId) -> bool {
        self.is_up(who)
    }

    fn copy(&self) -> Box<dyn Player> {
        Box::new(self.clone())
    }

    fn variables(&self, who: NodeId) -> Fields {
        let process = self.process(who);
        let variables = process.machine().variables().into_iter();
        let instance = |node| self.instance(who, node);
        let variables = variables.map(|(name, value)| (name, value.with_ids(&instance)));
        let mut variables: Fields = variables.collect();
        variables.push(("clock", Value::Time(process.time())));
        variables
    }

    fn entries(&self) -> Vec<NodeId> {
        self.entries().to_vec()
    }

    fn in_flight(&self) -> Vec<(NodeId, NodeId, &Message)> {
        self.in_flight().collect()
    }

    fn phase(&self, who: NodeId) -> Option<Phase> {
        self.is_up(who).then(|| self.process(who).machine().phase())
    }

    fn waits_for(&self, who: NodeId) -> Vec<NodeId> {
        let waits = self.process(who).machine().waits_for().into_iter();
        waits.map(|node| self.instance(who, node)).collect()
    }

    fn is_deadlocked(&self) -> bool {
        self.is_deadlocked()
    }

    fn is_lazy(&self, index: usize) -> bool {
        self.is_lazy(index)
    }

    fn start_of_all(&self) -> Option<&Start> {
        Some(self.start_of_all())
    }

    fn fingerprint(&self) -> Option<u128> {
        Some(self.fingerprint())
    }

    fn drop_trace(&mut self) {
        self.drop_trace();
    }
}

impl<E: Election> Player for ElectionCluster<E> {
    fn header(&self) -> &Header {
        self.header()
    }

    fn events(&self) -> &[Event] {
        self.events()
    }

    fn act(&mut self, command: &Command) -> Result<(), Refusal> {
        match command {
            Command::Start(who) => self.start(*who),
            Command::Timeout(who, timer) => self.timeout(*who, *timer),
            Command::Deliver { from, to, which } => self.deliver(*from, *to, which),
            Command::DeliverAll => self.deliver_all(),
            Command::Lose { from, to, which } => self.lose(*from, *to, which),
            Command::Duplicate { from, to, which } => self.duplicate(*from, *to, which),
            Command::Crash(who) => self.crash(*who),
            Command::Restart(who) => self.restart(*who),
            Command::Request(_) | Command::Exit(_) | Command::AppSend(..) | Command::Clock(..) => {
                Err(Refusal::new("elections do not have this step"))
            }
            Command::Report { .. } => Err(Refusal::new(FOR_REPAIRS)),
            Command::Move(_) | Command::MoveAll => Err(Refusal::new(for_daemons("`move` is"))),
            Command::DeliverEvery { .. } => unreachable!("is played as single deliveries"),
        }
    }

    fn is_up(&self, who: NodeId) -> bool {
        self.is_up(who)
    }

    fn copy(&self) -> Box<dyn Player> {
        Box::new(self.clone())
    }

    fn variables(&self, who: NodeId) -> Fields {
        self.process(who).map(E::variables).unwrap_or_default()
    }

    fn entries(&self) -> Vec<NodeId> {
        Vec::new()
    }

    fn in_flight(&self) -> Vec<(NodeId, NodeId, &Message)> {
        self.in_flight().collect()
    }

    fn coordinator(&self, who: NodeId) -> Option<NodeId> {
        self.process(who).and_then(E::coordinator)
    }

    fn timers(&self, who: NodeId) -> Vec<Timer> {
        self.timers_of(who).collect()
    }
}

impl<M: Mutex> Player for RepairCluster<M> {
    fn copy(&self) -> Box<dyn Player> {
        Box::new(self.clone())
    }

    fn header(&self) -> &Header {
        self.header()
    }

    fn events(&self) -> &[Event] {
        self.events()
    }

    fn act(&mut self, command: &Command) -> Result<(), Refusal> {
        match command {
            Command::Request(who) => self.request(*who),
            Command::Exit(who) => self.release(*who),
            Command::Deliver { from, to, which } => self.deliver(*from, *to, which),
            Command::DeliverAll => self.deliver_all(),
            Command::Crash(who) => self.crash(*who),
            Command::Restart(who) => self.restart(*who),
            Command::Report { of, to } => self.report(*of, *to),
            Command::Timeout(who, timer) => self.timeout(*who, *timer),
            Command::AppSend(..)
            | Command::Clock(..)
            | Command::Lose { .. }
            | Command::Duplicate { .. }
            | Command::Start(_) => Err(Refusal::new("a system with a repair has no such step")),
            Command::Move(_) | Command::MoveAll => Err(Refusal::new(for_daemons("`move` is"))),
            Command::DeliverEvery { .. } => unreachable!("is played as single deliveries"),
        }
    }

    fn is_up(&self, who: NodeId) -> bool {
        self.is_up(who)
    }

    fn variables(&self, who: NodeId) -> Fields {
        let Some(process) = self.process(who) else { return Fields::new() };
        let mut variables = process.variables();
        variables.push(("clock", Value::Time(process.time())));
        variables
    }

    fn entries(&self) -> Vec<NodeId> {
        self.entries().to_vec()
    }

    fn in_flight(&self) -> Vec<(NodeId, NodeId, &Message)> {
        self.in_flight().collect()
    }

    fn phase(&self, who: NodeId) -> Option<Phase> {
        self.process(who).map(|process| process.phase())
    }

    fn is_deadlocked(&self) -> bool {
        self.is_deadlocked()
    }

    fn coordinator(&self, who: NodeId) -> Option<NodeId> {
        self.process(who)?.coordinator()
    }

    fn unreported_to(&self, who: NodeId) -> Vec<NodeId> {
        self.unreported_to(who)
    }

    fn is_stuck(&self) -> bool {
        let all_reported =
            || self.start_of_all().all().all(|who| self.unreported_to(who).is_empty());
        self.is_deadlocked() && all_reported()
    }

    fn is_lazy(&self, index: usize) -> bool {
        self.is_lazy(index)
    }

    fn start_of_all(&self) -> Option<&Start> {
        Some(self.start_of_all())
    }

    fn timers(&self, who: NodeId) -> Vec<Timer> {
        self.timers_of(who).collect()
    }
}

impl Player for DaemonRing {
    fn header(&self) -> &Header {
        self.header()
    }

    fn events(&self) -> &[Event] {
        self.events()
    }

    fn act(&mut self, command: &Command) -> Result<(), Refusal> {
        match command {
            Command::Move(who) => self.move_these(who),
            Command::MoveAll => self.move_all(),
            _ => Err(Refusal::new("under a daemon the only step is `move`")),
        }
    }

    fn is_up(&self, _who: NodeId) -> bool {
        true
    }

    fn copy(&self) -> Box<dyn Player> {
        Box::new(self.clone())
    }

    fn variables(&self, who: NodeId) -> Fields {
        self.variables(who)
    }

    fn entries(&self) -> Vec<NodeId> {
        self.moves().to_vec()
    }

    fn ring(&self) -> Option<&Ring> {
        Some(self.ring())
    }
}
