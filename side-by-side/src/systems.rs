//! The systems: how each is started, its guarantees, and which measures apply to it.

use crate::guarantees::{self, Guarantees};

/// Something that gives locks, or a limit of what can be.
#[derive(Clone, Debug)]
pub(crate) struct System {
    /// A short name for the command line and the results.
    pub(crate) id: String,
    /// A name for readers.
    pub(crate) title: String,
    pub(crate) kind: Kind,
    /// Among those of a quick run.
    pub(crate) quick: bool,
    pub(crate) guarantees: &'static Guarantees,
}

/// How it is started and reached.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// Mutua, a node in each contender.
    LibraryEach {
        algorithm: &'static str,
    },
    /// Mutua, so many processes with a node each, contenders being tasks around them.
    LibraryFew {
        nodes: usize,
    },
    /// Mutua by gRPC, so many nodes.
    Served {
        nodes: usize,
        algorithm: &'static str,
    },
    /// Mutua by its own client, so many nodes.
    Client {
        nodes: usize,
        algorithm: &'static str,
    },
    Etcd {
        nodes: usize,
        fsync: bool,
    },
    Zookeeper {
        nodes: usize,
    },
    RedisPoll,
    RedisBlpop,
    Redlock,
    Postgres,
    Flock,
    Ring,
    Ping,
    Mutex,
}

/// The algorithms that are compared; the first one is the default.
pub(crate) const ALGORITHMS: [&str; 5] =
    ["naimi-trehel", "suzuki-kasami", "ricart-agrawala", "maekawa", "central"];

/// How many contend.
pub(crate) const CONTENDERS: [usize; 3] = [3, 8, 64];

/// Independent servers of Redlock.
pub(crate) const REDLOCKS: usize = 5;

impl Kind {
    /// Whether one client alone is measured: entering again, and names never used before.
    pub(crate) fn alone(&self) -> bool {
        !matches!(self, Self::Ring | Self::LibraryFew { nodes: 2.. })
    }

    /// Whether names never used before mean anything.
    pub(crate) fn fresh(&self) -> bool {
        self.alone() && !matches!(self, Self::Ping | Self::Mutex)
    }

    /// Whether so many contend.
    pub(crate) fn contends(&self, count: usize) -> bool {
        match self {
            Self::Ping | Self::Mutex => false,
            // With as many as nodes it is the same as one in each.
            Self::LibraryFew { nodes } => count > *nodes,
            _ => true,
        }
    }

    /// Whether eight clients with a name each are measured.
    pub(crate) fn names(&self) -> bool {
        self.fresh() && !matches!(self, Self::LibraryFew { .. })
    }

    pub(crate) fn is_mutua(&self) -> bool {
        matches!(
            self,
            Self::LibraryEach { .. }
                | Self::LibraryFew { .. }
                | Self::Served { .. }
                | Self::Client { .. }
        )
    }

    pub(crate) fn is_limit(&self) -> bool {
        matches!(self, Self::Ring | Self::Ping | Self::Mutex)
    }

    /// Processes, and how many contenders each of them is, if so many contend.
    pub(crate) fn processes(&self, contenders: usize) -> Vec<usize> {
        match self {
            Self::LibraryFew { nodes } => {
                let tasks = |node| contenders / nodes + usize::from(node < contenders % nodes);
                (0..*nodes).map(tasks).collect()
            }
            _ => vec![1; contenders],
        }
    }

    /// Processes when one client is alone: where nodes live in contenders, there are others that do
    /// nothing.
    pub(crate) fn processes_alone(&self) -> usize {
        if matches!(self, Self::LibraryEach { .. }) { 3 } else { 1 }
    }
}

/// All of them, in the order of the report.
pub(crate) fn all() -> Vec<System> {
    let mut all = mutua();
    all.extend(peers());
    all.extend([
        system("ring", "bare token ring", Kind::Ring, true, "limit"),
        system("ping", "TCP ping", Kind::Ping, true, "limit"),
        system("mutex", "tokio mutex, one process", Kind::Mutex, true, "limit"),
    ]);
    all
}

fn mutua() -> Vec<System> {
    let mut all = Vec::new();
    for (index, algorithm) in ALGORITHMS.into_iter().enumerate() {
        let (id, title) = (format!("mutua-{algorithm}"), format!("Mutua library, {algorithm}"));
        let kind = Kind::LibraryEach { algorithm };
        all.push(system(&id, &title, kind, index == 0, "mutua"));
    }
    for (nodes, name) in [(3, "3 nodes, tasks"), (1, "1 node, tasks")] {
        let (id, title) = (format!("mutua-tasks-{nodes}"), format!("Mutua library, {name}"));
        all.push(system(&id, &title, Kind::LibraryFew { nodes }, false, "mutua"));
    }
    for (nodes, name) in [(1, "1 node"), (3, "3 nodes")] {
        let (id, title) = (format!("mutua-client-{nodes}"), format!("Mutua client, {name}"));
        let kind = Kind::Client { nodes, algorithm: ALGORITHMS[0] };
        all.push(system(&id, &title, kind, true, "mutua-client"));
    }
    let kind = Kind::Served { nodes: 1, algorithm: ALGORITHMS[0] };
    all.push(system("mutua-grpc-1", "Mutua gRPC, 1 node", kind, false, "mutua-grpc"));
    for (index, algorithm) in ALGORITHMS.into_iter().enumerate() {
        let id = format!("mutua-grpc-3-{algorithm}");
        let title = format!("Mutua gRPC, 3 nodes, {algorithm}");
        let kind = Kind::Served { nodes: 3, algorithm };
        all.push(system(&id, &title, kind, index == 0, "mutua-grpc"));
    }
    all
}

fn peers() -> Vec<System> {
    let etcd = |nodes, fsync| Kind::Etcd { nodes, fsync };
    let memory = "etcd-memory";
    vec![
        system("etcd-1", "etcd, 1 node", etcd(1, true), false, "etcd"),
        system("etcd-3", "etcd, 3 nodes", etcd(3, true), true, "etcd"),
        system("etcd-1-memory", "etcd, 1 node, no fsync", etcd(1, false), false, memory),
        system("etcd-3-memory", "etcd, 3 nodes, no fsync", etcd(3, false), false, memory),
        system("zookeeper-1", "ZooKeeper, 1 node", zookeeper(1), false, "zookeeper"),
        system("zookeeper-3", "ZooKeeper, 3 nodes", zookeeper(3), true, "zookeeper"),
        system("redis-poll", "Redis, polling", Kind::RedisPoll, false, "redis"),
        system("redis-blpop", "Redis, BLPOP", Kind::RedisBlpop, true, "redis"),
        system("redlock", "Redlock, 5 Redis", Kind::Redlock, false, "redlock"),
        system("postgres", "PostgreSQL advisory", Kind::Postgres, true, "postgres"),
        system("flock", "flock, one machine", Kind::Flock, true, "flock"),
    ]
}

fn zookeeper(nodes: usize) -> Kind {
    Kind::Zookeeper { nodes }
}

fn system(id: &str, title: &str, kind: Kind, quick: bool, guarantees: &str) -> System {
    let guarantees = guarantees::named(guarantees);
    System { id: id.to_owned(), title: title.to_owned(), kind, quick, guarantees }
}

/// A system in JSON: its id.
pub(crate) mod by_id {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use super::{System, all};

    pub(crate) fn serialize<S: Serializer>(system: &System, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&system.id)
    }

    pub(crate) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<System, D::Error> {
        let id = String::deserialize(from)?;
        let found = all().into_iter().find(|system| system.id == id);
        found.ok_or_else(|| D::Error::custom(format!("unknown system `{id}`")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_every_contender_has_a_process() {
        let all = all();
        let ids: std::collections::BTreeSet<_> = all.iter().map(|system| &system.id).collect();
        assert_eq!(ids.len(), all.len());
        for system in &all {
            for count in CONTENDERS {
                assert_eq!(system.kind.processes(count).iter().sum::<usize>(), count);
            }
        }
    }
}
