//! The work of a contender: a line of JSON on its command line.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Everything that one contender process needs to know.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Spec {
    /// How it gets a lock.
    pub(crate) client: Client,
    /// Its index among the contender processes, and their number.
    pub(crate) me: usize,
    pub(crate) processes: usize,
    /// How many contenders it is: one, unless they are tasks around one node.
    pub(crate) tasks: usize,
    /// What it does.
    pub(crate) work: Work,
    /// Where it writes what it did.
    pub(crate) records: PathBuf,
}

/// What a contender does between start and end.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) enum Work {
    /// Nothing: it is there because its node is needed.
    Idle,
    /// Locks and unlocks a name that no other contender uses.
    Pairs { name: String },
    /// Locks and unlocks a name that was never used before, a new one each time.
    Fresh,
    /// Requests the lock that all request.
    Contend {
        /// The hold time, in microseconds.
        hold_us: u64,
        /// A file with the number of the contender in the critical section.
        holder_file: PathBuf,
    },
}

/// How to get a lock.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) enum Client {
    /// A node of Mutua in the contender itself; the addresses of all nodes.
    Library { algorithm: String, addresses: Vec<String>, directory: PathBuf },
    /// etcd's lock service: an etcd, or nodes of Mutua.
    Grpc { endpoints: Vec<String> },
    /// Mutua's own client.
    Mutua { endpoints: Vec<String> },
    /// Curator's recipe.
    Zookeeper { endpoints: Vec<String> },
    /// `SET NX`, again after a pause.
    RedisPoll { endpoint: String },
    /// `SET NX`, again when a blocking read of a list returns.
    RedisBlpop { endpoint: String },
    /// `SET NX` at a majority.
    Redlock { endpoints: Vec<String> },
    /// Advisory locks.
    Postgres { endpoint: String },
    /// A file's lock.
    Flock { directory: PathBuf },
    /// A byte that goes round.
    Ring { addresses: Vec<String> },
    /// A byte there and back.
    Ping { endpoint: String },
    /// A mutex of tokio's.
    Mutex,
}

/// One entry, times in nanoseconds since boot.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Record {
    /// When it requested.
    pub(crate) requested: u64,
    /// When it entered.
    pub(crate) entered: u64,
    /// When it began to release.
    pub(crate) exited: u64,
    /// Its fencing token, or 0.
    pub(crate) fencing_token: u64,
}

/// A contender's report when it is done.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Done {
    /// Processor time that it used, in nanoseconds.
    pub(crate) cpu_ns: u64,
    /// Memory before and after.
    pub(crate) idle_kib: u64,
    pub(crate) loaded_kib: u64,
    /// How often another contender was in the critical section with it.
    pub(crate) overlaps: u64,
    /// Times of single pairs or of batches of them, in nanoseconds per pair.
    pub(crate) pair_ns: Vec<f64>,
    /// Pairs in all, and how long they took.
    pub(crate) pairs: u64,
    pub(crate) pairs_ns: u64,
}
