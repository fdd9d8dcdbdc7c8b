//! What each side promises, in plain words. A figure without this says little.

/// What a lock promises.
#[derive(Debug)]
pub(crate) struct Guarantees {
    /// Whom it speaks of.
    pub(crate) who: &'static str,
    pub(crate) durable: &'static str,
    pub(crate) fair: &'static str,
    pub(crate) survives: &'static str,
    pub(crate) fencing: &'static str,
}

pub(crate) static MUTUA: Guarantees = Guarantees {
    who: "Mutua, library",
    durable: "No: who is inside is in memory. On disk is only the number of the view, written once \
              when the members meet, so that fencing tokens grow through restarts.",
    fair: "Yes: a queue in each node, the algorithm's order between nodes, at most 16 clients of \
           one node in a row once another's request has been read; who enters without waiting \
           reads what has arrived after at most 128 entries.",
    survives: "Nothing yet without waiting: all members of the fixed list must be there for a lock \
               to be granted. When one is lost, who is inside stays inside, and others wait until \
               it is back.",
    fencing: "Yes, with every entry, at no message more.",
};

pub(crate) static MUTUA_GRPC: Guarantees = Guarantees {
    who: "Mutua, gRPC",
    durable: "No, as the library. That leases were given out is on disk, so that a node that comes \
              back lets them run out first.",
    fair: "Yes, as the library.",
    survives: "A client that dies: its lock is free when its lease has run out. Nodes as the \
               library.",
    fencing: "Yes, as the revision of the answer.",
};

pub(crate) static ETCD: Guarantees = Guarantees {
    who: "etcd, fsync",
    durable: "Yes: every lock and unlock is in the log of a majority, synced to disk.",
    fair: "Yes, in the order of the keys' creation.",
    survives: "A minority of its nodes (with 3: one) and any client; restarts of all.",
    fencing: "Yes: the key's revision.",
};

pub(crate) static ETCD_MEMORY: Guarantees = Guarantees {
    who: "etcd, no fsync (its directory is in memory)",
    durable: "No: a machine that loses power loses what it had acknowledged.",
    fair: "Yes, in the order of the keys' creation.",
    survives: "A minority of its nodes as long as no machine forgets; any client.",
    fencing: "Yes: the key's revision.",
};

pub(crate) static ZOOKEEPER: Guarantees = Guarantees {
    who: "ZooKeeper, Curator's recipe",
    durable: "Yes: every lock and unlock is in the log of a majority, synced to disk.",
    fair: "Yes, in the order of the sequential nodes.",
    survives: "A minority of its nodes (with 3: one) and any client; restarts of all.",
    fencing: "Can be had (the node's creation number); Curator does not hand it out.",
};

pub(crate) static REDIS: Guarantees = Guarantees {
    who: "Redis, SET NX and a script",
    durable: "No: in memory, as started here (no snapshots, no log).",
    fair: "No: whoever asks first after a release gets it, mostly the one who just left.",
    survives: "A client that dies, once the time is up. Not the server. A holder that is slow for \
               longer than the time shares the lock with the next one, unknowingly.",
    fencing: "No.",
};

pub(crate) static REDLOCK: Guarantees = Guarantees {
    who: "Redlock, 5 servers",
    durable: "No, as Redis.",
    fair: "No: random pauses decide.",
    survives: "Two of the five servers, as long as none comes back having forgotten, and as long \
               as clocks and pauses stay within bounds.",
    fencing: "No.",
};

pub(crate) static POSTGRES: Guarantees = Guarantees {
    who: "PostgreSQL, advisory locks of a session",
    durable: "No: in the server's memory.",
    fair: "Mostly: a queue, which a lock that is free at that moment may overtake.",
    survives: "A client whose connection is seen to end. Not the server.",
    fencing: "No.",
};

pub(crate) static FLOCK: Guarantees = Guarantees {
    who: "flock",
    durable: "No: in the kernel.",
    fair: "No promise.",
    survives: "A process that dies. It is for one machine only.",
    fencing: "No.",
};

pub(crate) static LIMIT: Guarantees = Guarantees {
    who: "limits (ring, ping, mutex)",
    durable: "No.",
    fair: "The ring: yes, in turns, whether one wants in or not.",
    survives: "Nothing: they are no locks between processes that anybody could use.",
    fencing: "No.",
};
