//! How a system starts: its processes, structure, first holder and variant.

use std::{
    fmt,
    hash::{Hash, Hasher},
    ops::Deref,
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use crate::{
    About, Choice, Mutex, NodeId, Other, QuorumKind, Quorums, SetsOf, Structure, Topology, Tree,
    registry,
};

/// A system as a user describes it; [`Setup::start`] turns it into a [`Start`].
#[derive(Clone, Debug)]
pub struct Setup {
    /// The algorithm, for a type of process that stands for all of them
    /// ([`registry::AnyMutex`](crate::registry::AnyMutex)); every other type is one algorithm.
    pub algorithm: Option<&'static About>,
    /// How many processes contend.
    pub nodes: u32,
    /// The process that has the token, or would be granted first.
    pub holder: NodeId,
    /// Whether the holder begins in the critical section.
    pub in_cs: bool,
    /// The coordinator, where there is one and it is one of the contenders.
    pub coordinator: NodeId,
    /// The processes that are down from the beginning. (Elections.)
    pub crashed: Vec<NodeId>,
    /// `--with KEY=VALUE`.
    pub settings: Settings,
    /// The tree of Raymond and Neilsen-Mizuno.
    pub topology: Topology,
    /// The quorums of Maekawa.
    pub quorums: QuorumKind,
    /// Sanders' sets when they come from a file: request set and inform set of each process.
    pub sets: Option<SetsOf>,
    /// The processes in the order in which they stand round the ring; none: in that of their ids.
    pub ring: Option<Vec<NodeId>>,
}

impl Setup {
    /// So many processes, process 0 the idle holder, everything else by default.
    pub fn new(nodes: u32) -> Self {
        Self {
            algorithm: None,
            nodes,
            holder: NodeId(0),
            in_cs: false,
            coordinator: NodeId(0),
            crashed: Vec::new(),
            settings: Settings::default(),
            topology: Topology::Binary,
            quorums: QuorumKind::Grid,
            sets: None,
            ring: None,
        }
    }

    /// The same setup of the algorithm of this name, for types that stand for several.
    #[must_use]
    pub fn of(mut self, name: &str) -> Self {
        self.algorithm = registry::about(name);
        self
    }

    /// The same with an option set.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> Self {
        self.settings.set(key, value);
        self
    }

    /// The start of a mutual exclusion algorithm.
    pub fn start<M: Mutex>(&self) -> Result<Start, StartError> {
        let start = self.build(M::about(self))?;
        M::check(&start)?;
        Ok(start)
    }

    /// The start of a mutual exclusion algorithm on the given structure, or on the
    /// [`fallback`](Self::fallback) if that has no form for this number of processes.
    pub fn start_or_fall_back<M: Mutex>(&self) -> Result<Start, StartError> {
        self.start::<M>().or_else(|_| self.fallback().start::<M>())
    }

    /// The same on structures that exist for every number of processes: quorums of a grid, a binary
    /// tree instead of given edges, Ricart-Agrawala's sets instead of given ones.
    #[must_use]
    pub fn fallback(&self) -> Self {
        let mut setup = self.clone();
        setup.quorums = QuorumKind::Grid;
        if matches!(setup.topology, Topology::Edges(_)) {
            setup.topology = Topology::Binary;
        }
        if setup.sets.take().is_some() {
            setup.settings.set("sets", "ricart-agrawala");
        }
        setup
    }

    /// The start of an election.
    pub fn start_election<E: crate::Election>(&self) -> Result<Start, StartError> {
        let start = self.build(E::ABOUT)?;
        E::check(&start)?;
        Ok(start)
    }

    /// How many processes there are: those that contend, and a dedicated coordinator.
    pub fn processes(&self, about: &About) -> u32 {
        let settings = self.settings.resolve(about);
        self.nodes + u32::from(settings.is_ok_and(|settings| settings.has_dedicated_coordinator()))
    }

    fn build(&self, about: &'static About) -> Result<Start, StartError> {
        if self.nodes == 0 {
            return Err(StartError::new("a system of 0 processes; give at least 1"));
        }
        for (role, node) in [("holder", self.holder), ("coordinator", self.coordinator)]
            .into_iter()
            .chain(self.crashed.iter().map(|&node| ("crashed process", node)))
        {
            if node.0 >= self.nodes {
                return Err(StartError::new(format!(
                    "the {role} is process {node}, but the processes are 0 to {}",
                    self.nodes - 1
                )));
            }
        }
        let settings = self.settings.resolve(about)?;
        let dedicated = settings.has_dedicated_coordinator();
        let tree = match about.structure {
            Structure::Tree => Some(Shared::new(Tree::new(&self.topology, self.nodes)?)),
            Structure::Complete | Structure::Ring | Structure::Quorums | Structure::Sets => None,
        };
        let quorums = match about.structure {
            Structure::Quorums => Some(Shared::new(Quorums::new(self.quorums, self.nodes)?)),
            Structure::Complete | Structure::Ring | Structure::Tree | Structure::Sets => None,
        };
        let sets = match about.structure {
            Structure::Sets => {
                let name = settings.get("sets").expect("an algorithm on sets declares the option");
                Some(Shared::new(SetsOf::of_setup(self, name)?))
            }
            Structure::Complete | Structure::Ring | Structure::Tree | Structure::Quorums => None,
        };
        Ok(Start {
            about,
            contenders: self.nodes,
            processes: self.nodes + u32::from(dedicated),
            holder: self.holder,
            in_cs: self.in_cs,
            coordinator: if dedicated { NodeId(self.nodes) } else { self.coordinator },
            crashed: self.crashed.iter().copied().collect(),
            settings,
            tree,
            quorums,
            sets,
            ring: self.ring.as_ref().map(|order| Round::new(order, self.nodes)).transpose()?,
        })
    }
}

/// How a system starts; every process is made from the same one.
#[derive(Clone, Debug)]
pub struct Start {
    about: &'static About,
    contenders: u32,
    processes: u32,
    holder: NodeId,
    in_cs: bool,
    coordinator: NodeId,
    crashed: crate::NodeSet,
    settings: Settings,
    tree: Option<Shared<Tree>>,
    quorums: Option<Shared<Quorums>>,
    sets: Option<Shared<SetsOf>>,
    ring: Option<Shared<Round>>,
}

/// An order of the processes round a ring.
#[derive(Debug)]
struct Round {
    order: Vec<NodeId>,
    /// The position of each process on the ring.
    positions: Vec<usize>,
}

impl Round {
    fn new(order: &[NodeId], nodes: u32) -> Result<Shared<Self>, StartError> {
        let mut positions = vec![usize::MAX; nodes as usize];
        for (index, node) in order.iter().enumerate() {
            match positions.get_mut(node.index()) {
                Some(free) if *free == usize::MAX => *free = index,
                Some(_) | None => break,
            }
        }
        if order.len() != positions.len() || positions.contains(&usize::MAX) {
            let text =
                format!("a ring of {} that does not have each of {nodes} processes", order.len());
            return Err(StartError::new(format!("{text} once; name every process once")));
        }
        Ok(Shared::new(Self { order: order.to_vec(), positions }))
    }
}

impl Start {
    /// The algorithm that starts.
    pub fn about(&self) -> &'static About {
        self.about
    }

    /// How many processes there are: those that contend, and a dedicated coordinator.
    pub fn processes(&self) -> u32 {
        self.processes
    }

    /// How many processes contend: those with the lowest ids.
    pub fn contenders(&self) -> u32 {
        self.contenders
    }

    /// All processes.
    pub fn all(&self) -> impl ExactSizeIterator<Item = NodeId> + Clone + use<> {
        (0..self.processes).map(NodeId)
    }

    /// All processes but this one.
    pub fn others(&self, me: NodeId) -> impl Iterator<Item = NodeId> + Clone + use<> {
        self.all().filter(move |&node| node != me)
    }

    /// The process that has the token, or would be granted first.
    pub fn holder(&self) -> NodeId {
        self.holder
    }

    /// Whether this process begins in the critical section.
    pub fn is_in_cs(&self, me: NodeId) -> bool {
        self.in_cs && me == self.holder
    }

    /// The process that begins in the critical section, if one does.
    pub fn in_cs(&self) -> Option<NodeId> {
        self.in_cs.then_some(self.holder)
    }

    /// The coordinator, where there is one.
    pub fn coordinator(&self) -> NodeId {
        self.coordinator
    }

    /// Whether this process is down from the beginning.
    pub fn is_crashed(&self, node: NodeId) -> bool {
        self.crashed.contains(node)
    }

    /// The next process on the ring, closed over those that are down.
    pub fn successor(&self, me: NodeId) -> NodeId {
        self.round(me, 1)
    }

    /// The previous process on the ring, closed over those that are down.
    pub fn predecessor(&self, me: NodeId) -> NodeId {
        self.round(me, self.processes - 1)
    }

    /// The first that is up when one goes round by so many positions at a time; else `me`.
    fn round(&self, me: NodeId, stride: u32) -> NodeId {
        let mut next = me;
        loop {
            next = self.after(next, stride);
            if next == me || !self.is_crashed(next) {
                return next;
            }
        }
    }

    fn after(&self, from: NodeId, stride: u32) -> NodeId {
        let after = |index: usize| (index + stride as usize) % self.processes as usize;
        match &self.ring {
            None => NodeId::from(after(from.index())),
            Some(ring) => ring.order[after(ring.positions[from.index()])],
        }
    }

    /// The value of an option, the default filled in.
    ///
    /// # Panics
    ///
    /// If the algorithm does not declare the option.
    pub fn setting(&self, key: &str) -> &str {
        self.settings.get(key).unwrap_or_else(|| panic!("the algorithm declares no option {key}"))
    }

    /// All options, the defaults filled in.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The spanning tree.
    ///
    /// # Panics
    ///
    /// If the algorithm does not declare that it needs one.
    pub fn tree(&self) -> &Shared<Tree> {
        self.tree.as_ref().expect("an algorithm on a tree declares it")
    }

    /// The quorums.
    ///
    /// # Panics
    ///
    /// If the algorithm does not declare that it needs them.
    pub fn quorums(&self) -> &Shared<Quorums> {
        self.quorums.as_ref().expect("an algorithm on quorums declares it")
    }

    /// Sanders' sets, if the algorithm declares that it needs them.
    pub fn sets(&self) -> Option<&Shared<SetsOf>> {
        self.sets.as_ref()
    }
}

/// Something that all processes of a system share and that never changes. It is not part of a
/// process's state: any two are equal, and it adds nothing to a hash.
#[derive(Debug)]
pub struct Shared<T>(Arc<T>);

impl<T> Shared<T> {
    /// Shares a value.
    pub fn new(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> PartialEq for Shared<T> {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl<T> Eq for Shared<T> {}

impl<T> Hash for Shared<T> {
    fn hash<H: Hasher>(&self, _state: &mut H) {}
}

/// Options chosen by `--with KEY=VALUE`, by key.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Settings(Vec<(String, String)>);

impl Settings {
    /// Reads one `KEY=VALUE`.
    pub fn parse(&mut self, text: &str) -> Result<(), StartError> {
        let (key, value) = text.split_once('=').ok_or_else(|| {
            StartError::new(format!("an option is written KEY=VALUE, `{text}` has no `=`"))
        })?;
        self.set(key, value);
        Ok(())
    }

    /// Sets an option; a later value repositions an earlier one.
    pub fn set(&mut self, key: &str, value: &str) {
        self.0.retain(|(known, _)| known != key);
        self.0.push((key.to_owned(), value.to_owned()));
    }

    /// The value of an option.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    /// All options that were set.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// A dedicated coordinator is a process more, so that `nodes` processes contend.
    fn has_dedicated_coordinator(&self) -> bool {
        self.get("coordinator") == Some("dedicated")
    }

    /// Fills in the defaults of an algorithm's options and refuses what it does not know.
    pub(crate) fn resolve(&self, about: &About) -> Result<Self, StartError> {
        for (key, value) in self.iter() {
            let choice =
                about.options.iter().find(|choice| choice.key == key).ok_or_else(|| {
                    let known: Vec<_> = about.options.iter().map(|choice| choice.key).collect();
                    StartError::new(match known.as_slice() {
                        [] => format!("{} has no options, `{key}` was given", about.name),
                        known => format!(
                            "{} has no option `{key}`; it has: {}",
                            about.name,
                            known.join(", ")
                        ),
                    })
                })?;
            if !choice.takes(value) {
                return Err(StartError::new(format!(
                    "{}'s option `{key}` does not take `{value}`; it takes {}",
                    about.name,
                    choice.allowed()
                )));
            }
        }
        let default = |choice: &Choice| choice.values.first().map_or("", |first| first.name);
        Ok(Self(
            about
                .options
                .iter()
                .map(|choice| {
                    let value = self.get(choice.key).unwrap_or_else(|| default(choice));
                    (choice.key.to_owned(), value.to_owned())
                })
                .collect(),
        ))
    }
}

impl Choice {
    /// Whether the option takes this value.
    fn takes(&self, value: &str) -> bool {
        self.values.iter().any(|variant| variant.name == value)
            || match self.other {
                Other::Nothing => false,
                Other::Number => value.parse::<u32>().is_ok(),
                Other::File => !value.is_empty(),
            }
    }

    /// The values it takes, for an error message.
    fn allowed(&self) -> String {
        let mut values: Vec<_> = self.values.iter().map(|variant| variant.name).collect();
        match self.other {
            Other::Nothing => {}
            Other::Number => values.push("a whole number"),
            Other::File => values.push("the name of a file"),
        }
        values.join(", ")
    }
}

/// Why a system cannot start as described, and what would be right. Nothing was made.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StartError(String);

impl StartError {
    /// An error with this explanation.
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StartError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        elections::{Bully, ChangRoberts},
        mutexes::Sanders,
        self_stabilizing::Dijkstra,
    };

    #[test]
    fn a_ring_goes_in_the_order_that_is_given_past_those_that_are_down() {
        let order = [3, 0, 2, 1].map(NodeId).to_vec();
        let mut setup = Setup { ring: Some(order), ..Setup::new(4) };
        setup.crashed = vec![NodeId(2)];
        let start = setup.start_election::<ChangRoberts>().unwrap();
        for (me, next) in [(3, 0), (0, 1), (1, 3)].map(|(a, b)| (NodeId(a), NodeId(b))) {
            assert_eq!((start.successor(me), start.predecessor(next)), (next, me));
        }
    }

    #[test]
    fn a_ring_without_every_process_once_is_refused() {
        for order in [vec![0, 1], vec![0, 1, 1], vec![0, 1, 3], vec![0, 1, 2, 2]] {
            let ring = Some(order.into_iter().map(NodeId).collect());
            let setup = Setup { ring, ..Setup::new(3) };
            assert!(setup.start_election::<ChangRoberts>().is_err(), "{:?}", setup.ring);
        }
    }

    #[test]
    fn a_value_that_an_option_does_not_take_is_refused_with_those_that_it_takes() {
        let setup = Setup::new(3).with("takeover", "maybe");
        let refusal = setup.start_election::<Bully>().unwrap_err().to_string();
        assert!(refusal.ends_with("does not take `maybe`; it takes yes, no"), "{refusal}");
        let refusal = Setup::new(3).with("sets", "").start::<Sanders>().unwrap_err().to_string();
        assert!(refusal.ends_with("maekawa, central, the name of a file"), "{refusal}");
        let refusal = Setup::new(3).with("k", "-1").start::<Dijkstra>().unwrap_err().to_string();
        assert!(refusal.ends_with("it takes auto, a whole number"), "{refusal}");
    }
}
