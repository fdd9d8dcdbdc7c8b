//! Settings of an engine.

use std::time::Duration;

use openraft::SnapshotPolicy;

use crate::{error::EngineError, interface::VoterId};

/// Settings of one voter's engine.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// This voter.
    pub id: VoterId,
    /// How this voter came into the cluster.
    pub origin: Origin,
    /// The engine's times. All voters should have the same.
    pub timing: Timing,
    /// A snapshot is taken after this many entries; as many older entries are kept, so that a
    /// voter that is a little behind needs no snapshot.
    pub snapshot_every: u64,
    /// Whether the guards against partial partitions are on; see [`crate`]. Off is for a test only:
    /// it shows that the engine stops without them.
    #[doc(hidden)]
    pub guarded: bool,
}

impl EngineConfig {
    /// The defaults for a voter.
    pub fn new(id: VoterId, origin: Origin) -> EngineConfig {
        let timing = Timing::default();
        EngineConfig { id, origin, timing, snapshot_every: 200, guarded: true }
    }

    /// The same as openraft's settings.
    pub(crate) fn raft(&self) -> Result<openraft::Config, EngineError> {
        let timing = &self.timing;
        let millis = |duration: Duration| duration.as_millis() as u64;
        let config = openraft::Config {
            cluster_name: "mutua".to_owned(),
            heartbeat_interval: millis(timing.heartbeat),
            election_timeout_min: millis(timing.election_min),
            election_timeout_max: millis(timing.election_max),
            install_snapshot_timeout: millis(timing.snapshot_timeout()),
            snapshot_policy: SnapshotPolicy::LogsSinceLast(self.snapshot_every),
            max_in_snapshot_log_to_keep: self.snapshot_every,
            // Guard 2: until the caller has seen a majority of the voters.
            enable_elect: !self.guarded,
            ..openraft::Config::default()
        };
        config.validate().map_err(|error| EngineError::Config(error.to_string()))
    }
}

/// How a voter came into the cluster. It decides what an empty disk means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// One of the voters of a cluster that starts for the first time. It votes although its log is
    /// empty. To be passed until [`Status::last_log`](crate::Status::last_log) is known.
    Founding,
    /// A new voter of a running cluster. It votes only after the leader has sent it the log.
    Joining,
    /// A voter that ran before: an empty disk is refused, since a voter that has lost its log and
    /// its votes could undo a decision. It has to come back as another voter.
    Existing,
}

/// The engine's times.
///
/// A leader is replaced after `election_max` (its followers' lease) and a random time between
/// `election_min` and `election_max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Period of the leader's heartbeats, and how long it waits for the answer to a call. openraft
    /// looks at the clock only every 1.5 heartbeats, so heartbeats come at that period.
    pub heartbeat: Duration,
    /// Least election timeout; more than a heartbeat.
    pub election_min: Duration,
    /// Greatest election timeout, and the leader's lease at its followers.
    pub election_max: Duration,
}

impl Timing {
    /// How long sending and installing a snapshot may take.
    pub(crate) fn snapshot_timeout(&self) -> Duration {
        self.election_max * 4
    }
}

impl Default for Timing {
    fn default() -> Timing {
        let millis = Duration::from_millis;
        Timing { heartbeat: millis(100), election_min: millis(300), election_max: millis(600) }
    }
}
