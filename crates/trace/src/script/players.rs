//! What a script is played on: one face for the three kinds of systems.

use mutua_algorithms::{
    Election, Fields, Mutex, NodeId, Phase, StartError, Time, Timer, Value,
    mutexes::{Daemon, Dijkstra, DijkstraRing},
    registry::{self, ElectionVisitor, MutexVisitor},
};

use super::{Command, System};
use crate::{Cluster, DaemonRing, ElectionCluster, Event, Header, Message, Refusal, Unit};

/// A system that a script drives and looks at.
pub(super) trait Player {
    fn header(&self) -> &Header;
    fn events(&self) -> &[Event];
    fn act(&mut self, command: &Command) -> Result<(), Refusal>;
    fn is_up(&self, who: NodeId) -> bool;

    /// The state under the paper's names.
    fn variables(&self, who: NodeId) -> Fields;

    /// Who has had its turn inside, in order.
    fn entries(&self) -> Vec<NodeId>;

    /// From whom, to whom, what, in order of sending.
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

    fn ring(&self) -> Option<&DijkstraRing> {
        None
    }
}

/// The system of a script at its start.
pub(super) fn build(system: &System, title: &str) -> Result<Box<dyn Player>, StartError> {
    let build = Build { system, title };
    registry::visit_mutex(&system.algorithm, build)
        .or_else(|| registry::visit_election(&system.algorithm, build))
        .unwrap_or_else(|| {
            Err(StartError::new(format!("there is no algorithm `{}`", system.algorithm)))
        })
}

#[derive(Clone, Copy)]
struct Build<'a> {
    system: &'a System,
    title: &'a str,
}

impl Build<'_> {
    fn header(self, start: &mutua_algorithms::Start) -> Header {
        let names = self.system.processes.clone();
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
        if M::ABOUT.name == Dijkstra::ABOUT.name
            && let Some(daemon) = Daemon::of(&start)
        {
            let ring = DaemonRing::new(&start, daemon, flags, header);
            return Ok(Box::new(ring.map_err(|why| StartError::new(why.to_string()))?));
        }
        if flags.is_some() {
            return Err(StartError::new("flags are for dijkstra with a daemon that reads them"));
        }
        Ok(Box::new(Cluster::<M>::new(start, self.system.links(), header)))
    }
}

impl ElectionVisitor for Build<'_> {
    type Output = Result<Box<dyn Player>, StartError>;

    fn visit<E: Election>(self) -> Self::Output {
        let start = self.system.start(|setup| setup.start_election::<E>())?;
        let header = self.header(&start);
        Ok(Box::new(ElectionCluster::<E>::new(start, self.system.links(), header)))
    }
}

impl<M: Mutex> Player for Cluster<M> {
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
            Command::Tell(from, to) => self.tell(*from, *to),
            Command::Clock(who, time) => self.set_clock(*who, Time::from_number(*time)),
            Command::Deliver { from, to, which } => self.deliver(*from, *to, which),
            Command::DeliverAll => self.deliver_all(),
            Command::Lose { from, to, which } => self.lose(*from, *to, which),
            Command::Duplicate { from, to, which } => self.duplicate(*from, *to, which),
            Command::Crash(who) => self.crash(*who),
            Command::Restart(who) => self.restart(*who),
            Command::Start(_) | Command::Timeout(..) => Err(Refusal::new("that is for elections")),
            Command::Move(_) | Command::MoveAll => {
                Err(Refusal::new("that is for dijkstra with a daemon that reads flags"))
            }
            Command::DeliverEvery { .. } => unreachable!("is played as single deliveries"),
        }
    }

    fn is_up(&self, who: NodeId) -> bool {
        self.is_up(who)
    }

    fn variables(&self, who: NodeId) -> Fields {
        let process = self.process(who);
        let mut variables = process.machine().variables();
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
        self.process(who).machine().waits_for()
    }

    fn is_deadlocked(&self) -> bool {
        self.is_deadlocked()
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
            Command::Request(_) | Command::Exit(_) | Command::Tell(..) | Command::Clock(..) => {
                Err(Refusal::new("that is for mutual exclusion, this is an election"))
            }
            Command::Move(_) | Command::MoveAll => {
                Err(Refusal::new("that is for dijkstra with a daemon that reads flags"))
            }
            Command::DeliverEvery { .. } => unreachable!("is played as single deliveries"),
        }
    }

    fn is_up(&self, who: NodeId) -> bool {
        self.is_up(who)
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
            _ => Err(Refusal::new("under a daemon nobody sends or asks: there is only `move`")),
        }
    }

    fn is_up(&self, _who: NodeId) -> bool {
        true
    }

    fn variables(&self, who: NodeId) -> Fields {
        self.variables(who)
    }

    fn entries(&self) -> Vec<NodeId> {
        self.moves().to_vec()
    }

    fn ring(&self) -> Option<&DijkstraRing> {
        Some(self.ring())
    }
}
