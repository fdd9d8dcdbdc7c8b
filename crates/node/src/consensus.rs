//! Consensus around the protocol: the cluster is founded, the engine decides, and what it decides
//! reaches the protocol's view layer.
//!
//! A cluster is founded once. When all members of the list answer and none has an identity, the
//! first of the list draws ids for all; each member makes them durable before it replies. A member
//! whose data directory is empty while the cluster exists is not founded again: its identity is
//! lost, and it stays out.

use std::{
    collections::BTreeSet,
    io,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
    time::Duration,
};

use mutua_consensus::{
    Call, Directory, Engine, EngineConfig, EngineError, Origin, ProposeError, StateMachine, Timing,
    Unreachable, VoterId, Watcher,
};
use mutua_protocol::{
    Member, ViewSource,
    views::{Command, DecidedState, MemberId, Persisted, Role, ViewSettings},
};
use tokio::{sync::Notify, task::JoinSet, time::sleep};

use crate::{
    Config, MemberConfig,
    control::{Answers, Caller, ControlError, Greeting, Reply, Request},
    driver::Driver,
    identity::{ClusterIdentity, Founder, IdentityFile},
    transport::Transport,
};

/// The pause between two attempts to found a cluster.
const FOUND_AGAIN: Duration = Duration::from_millis(50);

/// The pause between two looks at what the engine needs.
const WATCH: Duration = Duration::from_millis(100);

/// The pause before a leader that is not confirmed yet proposes again, and how often it does.
const CONFIRMATION: Duration = Duration::from_millis(20);
const CONFIRMATIONS: u32 = 25;

/// A member's part in consensus.
pub(crate) struct Consensus {
    cluster: String,
    me: String,
    members: Vec<MemberConfig>,
    roles: Vec<Role>,
    settings: ViewSettings,
    log: PathBuf,
    file: IdentityFile,
    identity: Mutex<Option<ClusterIdentity>>,
    /// An identity has come from the founder.
    found: Notify,
    callers: Vec<Option<Caller>>,
    engine: OnceLock<Engine>,
    driver: Weak<Driver>,
}

impl std::fmt::Debug for Consensus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consensus").field("me", &self.me).finish_non_exhaustive()
    }
}

impl Consensus {
    /// A member's part, and its connections to the others, which run as tasks.
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
            let greeting = Greeting { cluster: config.cluster.clone(), from, to, incarnation };
            (member.name != me).then(|| {
                let (caller, task) =
                    Caller::new(transport.clone(), member.address.clone(), greeting);
                tasks.spawn(task);
                caller
            })
        };
        let callers = config.members.iter().map(&mut caller).collect();
        Arc::new(Self {
            cluster: config.cluster.clone(),
            members: config.members.clone(),
            roles: config.roles(),
            settings: config.view_settings(),
            log: config.data.join("consensus"),
            file: IdentityFile::new(&config.data),
            identity: Mutex::new(identity),
            found: Notify::new(),
            callers,
            engine: OnceLock::new(),
            driver: Arc::downgrade(driver),
            me,
        })
    }

    fn names(&self) -> Vec<String> {
        self.members.iter().map(|member| member.name.clone()).collect()
    }

    fn identity(&self) -> MutexGuard<'_, Option<ClusterIdentity>> {
        self.identity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this member has no identity yet.
    pub(crate) fn is_new(&self) -> bool {
        self.identity().is_none()
    }

    fn caller(&self, name: &str) -> Option<&Caller> {
        let index = self.members.iter().position(|member| member.name == name)?;
        self.callers[index].as_ref()
    }

    /// Proposes a command at the leader, wherever it is. It may be lost.
    pub(crate) fn propose(self: &Arc<Self>, command: &Command) {
        let Some(engine) = self.engine.get() else {
            return self.propose_elsewhere(None, command.encode());
        };
        let command = command.encode();
        match engine.propose(command.clone()) {
            Err(ProposeError::NotLeader { leader: Some(leader) }) => {
                self.propose_elsewhere(Some(leader), command);
            }
            Err(ProposeError::Unconfirmed) => self.propose_soon(command),
            Ok(()) | Err(ProposeError::NotLeader { leader: None } | ProposeError::Ended) => {}
        }
    }

    /// A leader that was just elected is confirmed in a moment. Without this, its first view would
    /// be proposed again much later.
    fn propose_soon(self: &Arc<Self>, command: Vec<u8>) {
        let consensus = Arc::clone(self);
        tokio::spawn(async move {
            for _ in 0..CONFIRMATIONS {
                sleep(CONFIRMATION).await;
                let engine = consensus.engine.get();
                match engine.map(|engine| engine.propose(command.clone())) {
                    Some(Err(ProposeError::Unconfirmed)) => {}
                    _ => return,
                }
            }
        });
    }

    /// Sends a proposal to the leader, or to all voters where it is not known.
    fn propose_elsewhere(self: &Arc<Self>, leader: Option<VoterId>, command: Vec<u8>) {
        let Some(ClusterIdentity { cluster, members, .. }) = self.identity().clone() else {
            return;
        };
        let votes = |member: &&Founder| match leader {
            Some(leader) => member.id.0 == leader.0,
            None => member.role.votes(),
        };
        for member in members.iter().filter(votes) {
            let Some(caller) = self.caller(&member.name).cloned() else { continue };
            let request = Request::Propose { cluster, command: command.clone() };
            tokio::spawn(async move { drop(caller.call(request).await) });
        }
    }

    /// The leader's name, as far as it is known.
    pub(crate) fn leader(&self) -> Option<String> {
        let leader = self.engine.get()?.leader()?;
        let identity = self.identity();
        let members = &identity.as_ref()?.members;
        members.iter().find(|member| member.id.0 == leader.0).map(|member| member.name.clone())
    }

    /// Makes the next start of this member later than this incarnation.
    pub(crate) fn raise_incarnation(&self, known: u64) -> io::Result<()> {
        self.file.raise_incarnation(known)
    }

    /// Stops the engine after what is being written is durable.
    pub(crate) async fn stop(&self) {
        if let Some(engine) = self.engine.get() {
            engine.stop().await;
        }
    }
}

/// Founding.
impl Consensus {
    /// The identity on disk, or the one with which the cluster is founded now.
    async fn await_identity(&self, driver: &Arc<Driver>) -> io::Result<ClusterIdentity> {
        loop {
            let known = self.identity().clone();
            if let Some(identity) = known {
                if identity.founded || self.is_spread(&identity).await {
                    return Ok(identity);
                }
            } else if let Some(why) = self.try_to_found().await? {
                driver.call(|core, _| core.protocol.await_views(why));
            }
            tokio::select! {
                () = self.found.notified() => {}
                () = sleep(FOUND_AGAIN) => {}
            }
        }
    }

    /// Whether all members have the identity: the founder sends it to all until they have it. The
    /// others go on with it at once.
    async fn is_spread(&self, identity: &ClusterIdentity) -> bool {
        if !self.founds() {
            return true;
        }
        let mut all = true;
        for caller in self.callers.iter().flatten() {
            let reply = caller.call(Request::Found(identity.clone())).await;
            if let Ok(Reply::Refused(why)) = &reply {
                tracing::warn!("a member refuses to found the cluster: {why}");
            }
            all &= matches!(reply, Ok(Reply::Done));
        }
        all
    }

    /// The first member of the list founds the cluster.
    fn founds(&self) -> bool {
        self.members.first().is_some_and(|first| first.name == self.me)
    }

    /// Draws an identity if all members answer that they have none; returns why not.
    async fn try_to_found(&self) -> io::Result<Option<String>> {
        let mut silent = Vec::new();
        for (member, caller) in self.members.iter().zip(&self.callers) {
            let Some(caller) = caller else { continue };
            match caller.call(Request::Identity).await {
                Ok(Reply::Identity(None)) => {}
                Ok(Reply::Identity(Some(identity))) if identity.founded => {
                    return Ok(Some(format!(
                        "the data directory of this member is empty, and {} is in a cluster with \
                         it: restore the directory, or remove all members' directories",
                        member.name
                    )));
                }
                // The founder sends it soon.
                Ok(Reply::Identity(Some(_))) => return Ok(None),
                _ => silent.push(member.name.as_str()),
            }
        }
        if !silent.is_empty() {
            let silent = silent.join(", ");
            return Ok(Some(format!(
                "the cluster starts for the first time, and {silent} cannot be reached"
            )));
        }
        if !self.founds() {
            return Ok(Some("the cluster starts for the first time".to_owned()));
        }
        self.adopt(self.draw())?;
        Ok(None)
    }

    fn draw(&self) -> ClusterIdentity {
        let mut used = BTreeSet::new();
        let mut members = Vec::new();
        for (member, &role) in self.members.iter().zip(&self.roles) {
            let id = std::iter::repeat_with(|| MemberId(crate::random()))
                .find(|id| id.0 != 0 && used.insert(*id));
            members.push(Founder {
                id: id.expect("there are enough numbers"),
                name: member.name.clone(),
                address: member.address.clone(),
                role,
            });
        }
        ClusterIdentity { cluster: crate::random(), members, founded: false }
    }

    /// Makes an identity durable and takes it.
    fn adopt(&self, identity: ClusterIdentity) -> io::Result<()> {
        let mut known = self.identity();
        self.file.write(&identity)?;
        *known = Some(identity);
        Ok(())
    }

    fn on_found(&self, identity: ClusterIdentity) -> Reply {
        let known = self.identity().clone();
        if let Some(known) = known {
            return match known.cluster == identity.cluster {
                true => Reply::Done,
                false => Reply::Refused(format!("{} is in another cluster", self.me)),
            };
        }
        if !identity.has_names(&self.names()) {
            let (theirs, ours) = (identity.names(), self.names().join(", "));
            let text = format!("its list of members is {theirs}, that of {} is {ours}", self.me);
            return Reply::Refused(text);
        }
        match self.adopt(ClusterIdentity { founded: false, ..identity }) {
            Ok(()) => {
                self.found.notify_one();
                Reply::Done
            }
            Err(error) => Reply::Refused(format!("the identity cannot be written: {error}")),
        }
    }
}

impl Answers for Consensus {
    fn greet(&self, greeting: &Greeting) -> Result<(), ControlError> {
        let Greeting { cluster, from, to, incarnation } = greeting;
        if *cluster != self.cluster {
            let text = format!("it is in cluster `{cluster}`, this node is in `{}`", self.cluster);
            return Err(ControlError::Refused(text));
        }
        if *to != self.me || self.caller(from).is_none() {
            let text = format!("it is member {from} and calls {to}, and this is {}", self.me);
            return Err(ControlError::Refused(text));
        }
        // Two processes with the log of one voter could decide two things.
        let index = self.members.iter().position(|member| member.name == *from);
        let member = index.and_then(|index| u32::try_from(index).ok()).map(Member);
        let refused = self.driver.upgrade().zip(member).is_some_and(|(driver, member)| {
            driver.call(|core, now| core.protocol.is_conflict(now, member, *incarnation))
        });
        if refused {
            let text = format!("it runs as member {from}, and so does another process");
            return Err(ControlError::Refused(text));
        }
        Ok(())
    }

    async fn answer(&self, from: &str, request: Request) -> Reply {
        let cluster = self.identity().as_ref().map(|identity| identity.cluster);
        let is_ours = |theirs: u64| cluster == Some(theirs);
        match request {
            Request::Identity => Reply::Identity(self.identity().clone()),
            Request::Found(identity) => self.on_found(identity),
            Request::Raft { cluster, body } if is_ours(cluster) => {
                let id = self.identity().as_ref().and_then(|known| Some(known.member(from)?.id));
                let (Some(engine), Some(id)) = (self.engine.get(), id) else {
                    return Reply::Refused("no engine runs here yet".to_owned());
                };
                match engine.handle(VoterId(id.0), &body).await {
                    Ok(answer) => Reply::Raft(answer),
                    Err(error) => Reply::Refused(error.to_string()),
                }
            }
            Request::Propose { cluster, command } if is_ours(cluster) => {
                if let Some(engine) = self.engine.get() {
                    // The sender proposes again what matters.
                    let _ = engine.propose(command);
                }
                Reply::Done
            }
            Request::Raft { .. } | Request::Propose { .. } => {
                Reply::Refused("it is in a cluster with another id".to_owned())
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
            let identity = consensus.identity().clone();
            let known = identity.as_ref().and_then(|identity| {
                let member = identity.members.iter().find(|member| member.id.0 == to.0)?;
                Some((identity.cluster, consensus.caller(&member.name)?))
            });
            let (cluster, caller) = known.ok_or_else(|| failed("not a member".to_owned()))?;
            match caller.call(Request::Raft { cluster, body }).await {
                Ok(Reply::Raft(answer)) => Ok(answer),
                Ok(Reply::Refused(why)) => Err(failed(why)),
                Ok(_) => Err(failed("its reply is of another kind".to_owned())),
                Err(error) => Err(failed(error.to_string())),
            }
        })
    }
}

/// What is decided, for the engine's snapshots.
struct Decided(DecidedState);

impl StateMachine for Decided {
    fn apply(&mut self, command: &[u8]) {
        // A command of a later version: all voters of this one ignore it alike.
        if let Some(command) = Command::decode(command) {
            self.0.apply(&command);
        }
    }

    fn snapshot(&self) -> Vec<u8> {
        self.0.encode()
    }

    fn restore(&mut self, state: &[u8]) {
        if let Some(state) = DecidedState::decode(state) {
            self.0 = state;
        }
    }
}

/// A report of the engine.
enum Event {
    Appended(u64, Command),
    Truncated(u64),
    Installed(DecidedState),
    Decided(u64, Command),
    Leads(bool),
}

/// Passes the engine's reports to the protocol. Until the protocol follows, they are kept.
#[derive(Clone)]
struct Reports {
    driver: Arc<Driver>,
    kept: Arc<Mutex<Option<Vec<Event>>>>,
}

impl Reports {
    fn new(driver: &Arc<Driver>) -> Self {
        Self { driver: Arc::clone(driver), kept: Arc::new(Mutex::new(Some(Vec::new()))) }
    }

    fn report(&self, event: Event) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        match kept.as_mut() {
            Some(kept) => kept.push(event),
            None => {
                drop(kept);
                self.driver.call(|core, now| pass(core, now, event));
            }
        }
    }

    /// The protocol follows from now on, and first gets what was kept, in one call: it answers no
    /// other member in between.
    fn follow(&self, views: ViewSource) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let events = kept.take().unwrap_or_default();
        self.driver.call(|core, now| {
            core.protocol.follow(now, views);
            events.into_iter().for_each(|event| pass(core, now, event));
        });
    }
}

fn pass(core: &mut crate::driver::Core, now: crate::Moment, event: Event) {
    let protocol = &mut core.protocol;
    match event {
        Event::Appended(index, command) => protocol.appended(index, &command),
        Event::Truncated(since) => protocol.truncated(since),
        Event::Installed(state) => protocol.snapshot_installed(now, None, state),
        Event::Decided(index, command) => protocol.decided(now, index, &command),
        Event::Leads(leads) => protocol.leads(now, leads),
    }
}

impl Watcher for Reports {
    fn appended(&mut self, index: u64, command: &[u8]) {
        if let Some(command) = Command::decode(command) {
            self.report(Event::Appended(index, command));
        }
    }

    fn truncated(&mut self, since: u64) {
        self.report(Event::Truncated(since));
    }

    fn snapshot_installed(&mut self, state: &[u8]) {
        if let Some(state) = DecidedState::decode(state) {
            self.report(Event::Installed(state));
        }
    }

    fn decided(&mut self, index: u64, command: &[u8]) {
        if let Some(command) = Command::decode(command) {
            self.report(Event::Decided(index, command));
        }
    }

    fn leads(&mut self, leads: bool) {
        if leads {
            tracing::info!("this node leads the consensus engine");
        }
        self.report(Event::Leads(leads));
    }
}

/// Founds the cluster if needed, starts the engine, and serves both until the node stops.
pub(crate) async fn run(consensus: Arc<Consensus>, driver: Arc<Driver>) {
    let identity = match consensus.await_identity(&driver).await {
        Ok(identity) => identity,
        Err(error) => return driver.stop(&format!("its identity cannot be written: {error}")),
    };
    if let Err(why) = start(&consensus, &driver, &identity).await {
        return driver.stop(&format!("consensus cannot start: {why}"));
    }
    let Some(engine) = consensus.engine.get() else { return };
    let mut founded = identity.founded;
    let watch = async {
        loop {
            let seen = |core: &mut crate::driver::Core, now| {
                core.protocol.sees(now).map(|member| VoterId(member.0)).collect()
            };
            engine.sees(&driver.call(seen));
            if !founded && engine.status().last_log.is_some() {
                founded = true;
                if let Err(error) = consensus.adopt(ClusterIdentity { founded, ..identity.clone() })
                {
                    return driver.stop(&format!("its identity cannot be written: {error}"));
                }
            }
            sleep(WATCH).await;
        }
    };
    tokio::select! {
        () = watch => {}
        end = engine.ended() => {
            if end.is_fatal() {
                driver.stop(&format!("the consensus engine has ended: {end}"));
            }
        }
    }
}

/// Why the engine does not run.
#[derive(Debug, thiserror::Error)]
enum NotStarted {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("the directory of its log cannot be used: {0}")]
    Directory(#[from] io::Error),
}

async fn start(
    consensus: &Arc<Consensus>,
    driver: &Arc<Driver>,
    identity: &ClusterIdentity,
) -> Result<(), NotStarted> {
    let me = identity.member(&consensus.me).expect("checked when the identity was read");
    let votes = me.role.votes();
    let genesis = identity.genesis();
    let views = ViewSource::Decided {
        ids: identity.ids(&consensus.names()).expect("checked when the identity was read"),
        settings: consensus.settings.clone(),
        persisted: Box::new(Persisted { snapshot: genesis.clone(), ..Persisted::default() }),
        engine: votes,
    };
    let reports = Reports::new(driver);
    if !votes {
        reports.follow(views);
        return Ok(());
    }
    let origin = if identity.founded { Origin::Existing } else { Origin::Founding };
    let mut config = EngineConfig::new(VoterId(me.id.0), origin);
    config.timing = timing(&consensus.settings);
    let disk = Directory::open(&consensus.log)?;
    let engine = Engine::start(
        config,
        Box::new(disk),
        Arc::new(Calls(Arc::clone(consensus))),
        Box::new(Decided(genesis)),
        Box::new(reports.clone()),
    )
    .await?;
    let voters = identity.members.iter().filter(|member| member.role.votes());
    let voters: BTreeSet<_> = voters.map(|member| VoterId(member.id.0)).collect();
    reports.follow(views);
    let engine = consensus.engine.get_or_init(|| engine);
    if !identity.founded && is_first_voter(consensus, identity) {
        // Already initialized: this member has restarted while the cluster was founded.
        let _ = engine.initialize(&voters).await;
    }
    Ok(())
}

/// The first voter of the list initializes the engines.
fn is_first_voter(consensus: &Consensus, identity: &ClusterIdentity) -> bool {
    let first = identity.members.iter().find(|member| member.role.votes());
    first.is_some_and(|first| first.name == consensus.me)
}

/// The engine's times follow the view lease: a leader that is lost is replaced in less than the
/// leases of its members last. A call of the engine may take as long as a heartbeat, with a write
/// to the called voter's disk: a shorter one would let a loaded machine fail every call.
fn timing(settings: &ViewSettings) -> Timing {
    Timing {
        heartbeat: settings.lease / 10,
        election_min: settings.lease / 5,
        election_max: settings.lease * 2 / 5,
    }
}
