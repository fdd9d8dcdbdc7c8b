//! Consensus around the protocol: the cluster is founded, the engine decides, and what it decides
//! reaches the protocol's view layer.
//!
//! A cluster is founded once (`founding.rs`). From then on its members are those of the decided
//! directory, which changes by command (`membership.rs`), and connections and voters follow it. A
//! member whose data directory is empty while the cluster exists is not founded again: its identity
//! is lost, and it joins as a new one.

mod connections;
mod following;
mod founding;
mod membership;
mod reports;
mod rules;
mod watch;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64},
    },
    time::Duration,
};

use mutua_algorithms::Time;
use mutua_consensus::{
    Call, Directory, Engine, EngineConfig, EngineError, Origin, ProposeError, Timing, Unreachable,
    VoterId,
};
use mutua_protocol::{
    Member, Plan, PlanError, Rule, ViewSource,
    views::{Command, Levels, MemberId, Persisted, Role, ViewSettings},
};
use tokio::{
    sync::Notify,
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::{
    Config, MemberConfig,
    control::{Answers, Caller, ControlError, Greeting, Reply, Request},
    driver::Driver,
    identity::{ClusterIdentity, IdentityFile},
    transport::Transport,
};
use connections::Dialled;
pub(crate) use connections::follow_members;
use membership::Invitations;
pub use membership::MembershipError;
use reports::{Decided, Reports};
use watch::{WATCH, Watch};

/// The pause before a leader that is not confirmed yet proposes again, and how often it does.
const CONFIRMATION: Duration = Duration::from_millis(20);
const CONFIRMATIONS: u32 = 25;

/// Every size of a view up to this one is tried when rules are read; larger ones fall back alike.
const TRIED_SIZES: u32 = 16;

/// A member's part in consensus.
pub(crate) struct Consensus {
    cluster: String,
    me: String,
    incarnation: u64,
    /// The configured list, which founds the cluster and says nothing afterwards.
    members: Vec<MemberConfig>,
    roles: Vec<Role>,
    rules: Vec<Rule>,
    /// The epoch on disk.
    floor: u32,
    settings: ViewSettings,
    log: PathBuf,
    file: IdentityFile,
    identity: Mutex<Option<ClusterIdentity>>,
    /// An identity has come from the founder.
    found: Notify,
    /// Calls to the members of the list, until the cluster is founded.
    founding: Vec<Option<Caller>>,
    /// Connections to the members of the directory.
    callers: Mutex<BTreeMap<MemberId, Dialled<Caller>>>,
    links: Mutex<BTreeMap<Member, Dialled<()>>>,
    engine: Mutex<Option<Arc<Engine>>>,
    /// A voter is being admitted or dismissed.
    changing: AtomicBool,
    /// By every version of the directory below this one another voter has said that the engine
    /// needs this member's vote no longer.
    dismissed: AtomicU64,
    invitations: Mutex<Invitations>,
    /// The directory has changed.
    pub(crate) members_changed: Notify,
    /// The protocol's timers have run.
    pub(crate) ticked: Notify,
    left: AtomicBool,
    transport: Transport,
    driver: Weak<Driver>,
}

impl std::fmt::Debug for Consensus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consensus").field("me", &self.me).finish_non_exhaustive()
    }
}

/// Where a voter keeps its log.
pub(crate) fn log_directory(data: &Path) -> PathBuf {
    data.join("consensus")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Consensus {
    /// A member's part, and the connections with which it is founded, which run as tasks.
    pub(crate) fn new(
        tasks: &mut JoinSet<()>,
        driver: &Arc<Driver>,
        config: &Config,
        transport: &Transport,
        identity: Option<ClusterIdentity>,
    ) -> Arc<Self> {
        let me = config.node.clone();
        let incarnation = driver.call(|core, _| core.protocol.incarnation());
        let mut caller = |member: &MemberConfig| {
            let (from, to) = (me.clone(), member.name.clone());
            let cluster = config.cluster.clone();
            let ViewSettings { levels, lease: view_lease, .. } = config.view_settings();
            let (cluster_id, id) = (0, 0);
            let greeting =
                Greeting { cluster, from, to, incarnation, cluster_id, id, levels, view_lease };
            (member.name != me).then(|| {
                let (caller, task) =
                    Caller::new(transport.clone(), member.address.clone(), greeting);
                tasks.spawn(task);
                caller
            })
        };
        let founding = config.members.iter().map(&mut caller).collect();
        Arc::new(Self {
            cluster: config.cluster.clone(),
            incarnation,
            members: config.members.clone(),
            roles: config.roles(),
            rules: config.rules.clone(),
            floor: driver.call(|core, _| core.protocol.known_epoch()),
            settings: config.view_settings(),
            log: log_directory(&config.data),
            file: IdentityFile::new(&config.data),
            identity: Mutex::new(identity),
            found: Notify::new(),
            founding,
            callers: Mutex::default(),
            links: Mutex::default(),
            engine: Mutex::default(),
            changing: AtomicBool::new(false),
            dismissed: AtomicU64::new(0),
            invitations: Mutex::default(),
            members_changed: Notify::new(),
            ticked: Notify::new(),
            left: AtomicBool::new(false),
            transport: transport.clone(),
            driver: Arc::downgrade(driver),
            me,
        })
    }

    fn identity(&self) -> MutexGuard<'_, Option<ClusterIdentity>> {
        lock(&self.identity)
    }

    /// Whether this member has no identity yet.
    pub(crate) fn is_new(&self) -> bool {
        self.identity().is_none()
    }

    /// This member's place; before the cluster is founded, its index in the list.
    pub(crate) fn place(&self) -> u32 {
        let index = || self.members.iter().position(|member| member.name == self.me);
        match self.identity().as_ref() {
            Some(identity) => identity.place(),
            None => index().and_then(|index| u32::try_from(index).ok()).unwrap_or_default(),
        }
    }

    fn engine(&self) -> Option<Arc<Engine>> {
        lock(&self.engine).clone()
    }

    /// Proposes a command at the leader, wherever it is. It may be lost.
    pub(crate) fn propose(self: &Arc<Self>, command: &Command) {
        let command = command.encode();
        let Some(engine) = self.engine() else {
            return self.propose_elsewhere(None, &command);
        };
        match engine.propose(command.clone()) {
            Err(ProposeError::NotLeader { leader: Some(leader) }) => {
                self.propose_elsewhere(Some(leader), &command);
            }
            Err(ProposeError::Unconfirmed) => self.propose_soon(command),
            // A member that is yet to vote knows no leader.
            Err(ProposeError::NotLeader { leader: None }) => self.propose_elsewhere(None, &command),
            Ok(()) | Err(ProposeError::Ended) => {}
        }
    }

    /// A leader that was just elected is confirmed in a moment. Without this, its first view would
    /// be proposed again much later.
    fn propose_soon(self: &Arc<Self>, command: Vec<u8>) {
        let consensus = Arc::clone(self);
        tokio::spawn(async move {
            for _ in 0..CONFIRMATIONS {
                sleep(CONFIRMATION).await;
                let engine = consensus.engine();
                match engine.map(|engine| engine.propose(command.clone())) {
                    Some(Err(ProposeError::Unconfirmed)) => {}
                    _ => return,
                }
            }
        });
    }

    /// Sends a proposal to the leader, or to all voters where it is not known.
    fn propose_elsewhere(self: &Arc<Self>, leader: Option<VoterId>, command: &[u8]) {
        let Some(driver) = self.driver.upgrade() else { return };
        let voters = driver.call(|core, _| core.protocol.directory().map(|one| one.voters()));
        let callers = lock(&self.callers);
        let to: Vec<_> = match leader {
            Some(leader) => callers.get(&MemberId(leader.0)).into_iter().collect(),
            None => voters.iter().flatten().filter_map(|id| callers.get(id)).collect(),
        };
        for caller in to {
            let (caller, request) = (caller.value.clone(), Request::Propose(command.to_vec()));
            tokio::spawn(async move { drop(caller.call(request).await) });
        }
    }

    /// The voters of the engine, if one runs here.
    pub(crate) fn engine_voters(&self) -> BTreeSet<MemberId> {
        let voters = self.engine().map(|engine| engine.status().voters).unwrap_or_default();
        voters.into_iter().map(|voter| MemberId(voter.0)).collect()
    }

    /// The leader's name, as far as it is known.
    pub(crate) fn leader(&self) -> Option<String> {
        let leader = self.engine()?.leader()?;
        self.driver.upgrade()?.call(|core, _| {
            let entry = core.protocol.directory()?.entry(MemberId(leader.0))?;
            Some(entry.name.clone())
        })
    }

    /// Makes the next start of this member later than this incarnation.
    pub(crate) fn raise_incarnation(&self, known: u64) -> io::Result<()> {
        self.file.raise_incarnation(known)
    }

    /// Stops the engine after what is being written is durable.
    pub(crate) async fn stop(&self) {
        self.hang_up();
        let engine = lock(&self.engine).take();
        if let Some(engine) = engine {
            engine.stop().await;
        }
    }
}

/// Why two members with different ids of their clusters refuse each other. Neither can know which
/// of them is in the cluster.
fn other_cluster_id(me: &str, from: &str) -> String {
    format!(
        "{me} and {from} are in clusters with different ids: one of the two data directories is of \
         before a recovery or of another founding; it is that of the member whose `mutua cluster \
         members` does not show the others as connected, and it joins with a new one"
    )
}

impl Answers for Consensus {
    fn greet(&self, greeting: &Greeting) -> Result<(), ControlError> {
        let Greeting { cluster, from, to, incarnation, cluster_id, id, levels, view_lease } =
            greeting;
        let refused = |text| Err(ControlError::Refused(text));
        if *cluster != self.cluster {
            let ours = &self.cluster;
            let text = format!("it is in cluster `{cluster}`, this node is in `{ours}`");
            return Err(ControlError::OtherCluster(text));
        }
        if *to != self.me && !to.is_empty() {
            return refused(format!("it calls {to}, and this is {}", self.me));
        }
        if *view_lease != self.settings.lease {
            let ours = self.settings.lease;
            return refused(format!(
                "its view_lease is {view_lease:?}, and this node's is {ours:?}: it must be the \
                 same at every member"
            ));
        }
        let Some(driver) = self.driver.upgrade() else { return Ok(()) };
        let fits = driver.call(|core, _| core.protocol.check_levels(*levels));
        if let Err(error) = fits {
            return refused(error.to_string());
        }
        let ours = self.identity().as_ref().map(|identity| identity.cluster);
        if *id == 0 {
            return Ok(());
        }
        match ours {
            Some(ours) if ours == *cluster_id => {}
            Some(_) => return refused(other_cluster_id(&self.me, from)),
            None => {
                let text = "is in no cluster: its data directory is new, or was lost";
                return refused(format!("{} {text}", self.me));
            }
        }
        driver.call(|core, now| {
            let Some(directory) = core.protocol.directory() else { return Ok(()) };
            let id = MemberId(*id);
            if directory.entry(id).is_some_and(|entry| entry.name != *from) {
                return refused(format!("it calls itself {from}, and its id is another member's"));
            }
            // Two processes with the log of one voter could decide two things.
            let place = directory.place(id).map(Member);
            match place.is_some_and(|one| core.protocol.is_conflict(now, one, *incarnation)) {
                true => refused(format!("it runs as member {from}, and so does another process")),
                false => Ok(()),
            }
        })
    }

    async fn answer(&self, greeting: &Greeting, known: bool, request: Request) -> Reply {
        if self.is_former(MemberId(greeting.id)) {
            return Reply::Removed;
        }
        match request {
            Request::Identity => Reply::Identity(self.identity().clone().map(Box::new)),
            Request::Found(identity) => self.on_found(*identity),
            Request::Dismissed { version } => {
                Reply::Dismissed(self.is_dismissed(MemberId(greeting.id), version))
            }
            Request::Join(joining) => self.on_join(greeting, known, joining).await,
            Request::Raft(_) | Request::Propose(_) if greeting.id == 0 => {
                Reply::Refused("it is not a member".to_owned())
            }
            Request::Raft(body) => {
                let Some(engine) = self.engine() else {
                    return Reply::Refused("no engine runs here yet".to_owned());
                };
                match engine.handle(VoterId(greeting.id), &body).await {
                    Ok(answer) => Reply::Raft(answer),
                    Err(error) => Reply::Refused(error.to_string()),
                }
            }
            Request::Propose(command) => {
                if let Some(engine) = self.engine() {
                    // The sender proposes again what matters.
                    let _ = engine.propose(command);
                }
                Reply::Done
            }
        }
    }
}

/// Carries the engine's calls.
struct Calls(Arc<Consensus>);

impl mutua_consensus::Transport for Calls {
    fn call(&self, to: VoterId, body: Vec<u8>) -> Call {
        let consensus = Arc::clone(&self.0);
        Box::pin(async move {
            let failed = |reason: String| Unreachable { to, reason };
            let caller = lock(&consensus.callers).get(&MemberId(to.0)).map(|one| one.value.clone());
            let caller = caller.ok_or_else(|| failed("not a member".to_owned()))?;
            match caller.call(Request::Raft(body)).await {
                Ok(Reply::Raft(answer)) => Ok(answer),
                Ok(Reply::Refused(why)) => Err(failed(why)),
                Ok(_) => Err(failed("its reply is of another kind".to_owned())),
                Err(error) => Err(failed(error.to_string())),
            }
        })
    }
}

/// Founds the cluster if needed, starts the engine, and serves both until the node stops.
pub(crate) async fn run(consensus: Arc<Consensus>, driver: Arc<Driver>) {
    let identity = match consensus.await_identity(&driver).await {
        Ok(identity) => identity,
        Err(error) => return driver.stop(&format!("its identity cannot be written: {error}")),
    };
    if identity.recovered {
        consensus.await_expiry(&driver, &identity).await;
    }
    if let Err(why) = consensus.start(&driver, &identity).await {
        return driver.stop(&format!("consensus cannot start: {why}"));
    }
    for note in consensus.differences() {
        tracing::warn!("{note}");
    }
    let mut watch = Watch::default();
    while driver.call(|core, _| core.stopped().is_none()) {
        if let Err(why) = consensus.look(&driver, &mut watch).await {
            return driver.stop(&why.to_string());
        }
        consensus.await_next_look(&driver).await;
    }
}

/// Why the engine does not run.
#[derive(Debug, thiserror::Error)]
enum NotStarted {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("the directory of its log cannot be used: {0}")]
    Directory(io::Error),
    #[error("its identity cannot be written: {0}")]
    Identity(io::Error),
    #[error("the decided rules cannot be followed: {0}")]
    Rules(#[from] PlanError),
    #[error(
        "the cluster has decided level {level} of the protocol, and this node can use {levels}: \
         run a later version of it, or raise highest_level in its configuration"
    )]
    Level { level: u16, levels: Levels },
}

impl Consensus {
    /// The protocol follows what is decided, with an engine if this member votes.
    async fn start(
        self: &Arc<Self>,
        driver: &Arc<Driver>,
        identity: &ClusterIdentity,
    ) -> Result<(), NotStarted> {
        let genesis = identity.genesis();
        let known = identity.known.clone();
        let votes = self.votes(identity);
        let views = ViewSource::Decided {
            cluster: identity.cluster,
            member: identity.me,
            known,
            settings: self.settings.clone(),
            persisted: Box::new(Persisted { snapshot: genesis.clone(), ..Persisted::default() }),
            engine: votes,
        };
        let plan = Arc::new(Plan::of_any_size(TRIED_SIZES, &identity.rules)?);
        let me = Member(identity.place());
        let floor = Time::new(identity.floor, 0);
        let follow = |core: &mut crate::driver::Core, now| {
            core.protocol.follow(now, me, plan, views);
            core.protocol.raise(floor);
        };
        let reports = Reports::new(driver);
        if !votes {
            reports.follow(follow);
            return Ok(());
        }
        let engine = self.open_engine(identity, &reports).await?;
        reports.follow(follow);
        self.set_engine(driver, engine);
        self.found_engines(identity).await;
        Ok(())
    }

    /// After the loss of a majority: waits until what the lost members granted has expired.
    async fn await_expiry(&self, driver: &Arc<Driver>, identity: &ClusterIdentity) {
        let lease = self.settings.full_lease() * 2;
        let until = Instant::now() + self.settings.on_any_clock(identity.longest.max(lease));
        while Instant::now() < until {
            let left = (until - Instant::now()).as_secs() + 1;
            let why = format!(
                "the cluster was recovered after the loss of a majority: waiting up to {left} s \
                 for leases that the lost members granted"
            );
            driver.call(|core, _| core.protocol.await_views(why));
            sleep(WATCH).await;
        }
    }

    /// Whether an engine runs at this member, or shall.
    fn votes(&self, identity: &ClusterIdentity) -> bool {
        let role = identity.known.role(identity.me);
        let wanted = identity.known.wanted(identity.me);
        identity.engine || role.into_iter().chain(wanted).any(Role::votes)
    }

    async fn open_engine(
        self: &Arc<Self>,
        identity: &ClusterIdentity,
        reports: &Reports,
    ) -> Result<Engine, NotStarted> {
        let origin = match (identity.founded, identity.founds_as_voter()) {
            (true, _) => Origin::Existing,
            (false, true) => Origin::Founding,
            (false, false) => Origin::Joining,
        };
        self.note_engine(true).map_err(NotStarted::Identity)?;
        let mut config = EngineConfig::new(VoterId(identity.me.0), origin);
        config.timing = timing(&self.settings);
        let disk = Directory::open(&self.log).map_err(NotStarted::Directory)?;
        let engine = Engine::start(
            config,
            Box::new(disk),
            Arc::new(Calls(Arc::clone(self))),
            Box::new(Decided(identity.genesis())),
            Box::new(reports.clone()),
        );
        Ok(engine.await?)
    }

    fn set_engine(&self, driver: &Arc<Driver>, engine: Engine) {
        let engine = Arc::new(engine);
        *lock(&self.engine) = Some(Arc::clone(&engine));
        let driver = Arc::downgrade(driver);
        tokio::spawn(async move {
            let end = engine.ended().await;
            drop(engine);
            if let Some(driver) = driver.upgrade().filter(|_| end.is_fatal()) {
                driver.stop(&format!("the consensus engine has ended: {end}"));
            }
        });
    }

    /// The first voter of the founders initializes the engines.
    async fn found_engines(&self, identity: &ClusterIdentity) {
        let mut voters = identity.members.iter().filter(|member| member.role.votes());
        let first = voters.clone().next().is_some_and(|first| first.id == identity.me);
        if let Some(engine) = self.engine().filter(|_| first && !identity.founded) {
            let voters: BTreeSet<_> = voters.by_ref().map(|one| VoterId(one.id.0)).collect();
            // Already initialized: this member has restarted while the cluster was founded.
            let _ = engine.initialize(&voters).await;
        }
    }

    /// Keeps on disk that the log has begun, and the members as they are known now.
    fn note_identity(&self, driver: &Arc<Driver>) -> Result<(), NotStarted> {
        let Some(mut identity) = self.identity().clone() else { return Ok(()) };
        let begun = self.engine().is_some_and(|engine| engine.status().last_log.is_some());
        let known = driver.call(|core, _| {
            let newer =
                |one: &&mutua_protocol::views::Directory| one.version() > identity.known.version();
            core.protocol.directory().filter(newer).cloned()
        });
        let decided = driver.call(|core, _| core.protocol.decided_rules().and_then(Result::ok));
        let same_rules = decided.is_none() || decided == identity.decided_rules;
        let granting = driver.call(|core, _| core.protocol.epoch().is_some());
        let settled = !identity.recovered || !granting;
        if (identity.founded || !begun) && known.is_none() && settled && same_rules {
            return Ok(());
        }
        identity.recovered &= !granting;
        identity.founded |= begun;
        identity.decided_rules = decided.or(identity.decided_rules);
        identity.known = known.unwrap_or(identity.known);
        self.adopt(identity).map_err(NotStarted::Identity)
    }
}

/// The engine's times follow the view lease, which outlasts the replacement of a lost leader. A
/// call may take a heartbeat, with a write to the other voter's disk, so that is not shorter.
fn timing(settings: &ViewSettings) -> Timing {
    Timing {
        heartbeat: settings.lease / 10,
        election_min: settings.lease / 5,
        election_max: settings.lease * 2 / 5,
    }
}
