//! Commands on a data directory while its node does not run: found a cluster, join one, and go on
//! after the loss of a majority.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use mutua_algorithms::Time;
use mutua_protocol::views::{MemberId, Role};

use crate::{
    Config, ConfigError, MemberConfig, certificates, clock,
    consensus::log_directory,
    control::{self, ControlError, Greeting, Joining, Reply, Request},
    disk::{Disk, DiskError},
    identity::{ClusterIdentity, Founder, IdentityFile},
};

/// How long the change may take at the member that takes this one in: the removal of a lost one,
/// and two changes.
const PATIENCE: Duration = Duration::from_secs(50);

/// Views that the lost members may have decided and this one does not know of.
const SKIPPED_EPOCHS: u32 = 1000;

/// Why a data directory was not prepared. Nothing was changed in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrepareError {
    /// The configuration is invalid, or its certificates cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The data directory cannot be used, or its node runs.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The data directory belongs to a member already.
    #[error(
        "{} belongs to a member of a cluster already: use a new data directory for a new member",
        data.display()
    )]
    Member {
        /// The data directory.
        data: PathBuf,
    },
    /// The data directory belongs to no member.
    #[error("{} belongs to no member of a cluster: nothing can be recovered", data.display())]
    NoMember {
        /// The data directory.
        data: PathBuf,
    },
    /// Without its data directory the node would run alone, and grant what the cluster grants.
    #[error(
        "the configuration lists only this node: set `clustered = true` in it, so that the node \
         never runs alone if its data directory is lost"
    )]
    NotClustered,
    /// The first member of the list founds the cluster.
    #[error("the first member of the list founds the cluster: run this command at {first}")]
    NotFirst {
        /// The first member.
        first: String,
    },
    /// The fencing token is not one.
    #[error("invalid fencing token {0}: its epoch is not below {max}", max = Time::EPOCHS - 1)]
    Token(u64),
    /// A one-time token is not one.
    #[error("invalid invitation `{0}`: use what `mutua cluster invite` prints")]
    Invitation(String),
    /// No member is known to ask.
    #[error(
        "no member is known to join at: give the invitation of `mutua cluster invite`, or the \
         address of a member (--at)"
    )]
    Nowhere,
    /// The member refuses.
    #[error("{address} refuses: {why}")]
    Refused {
        /// The member's address.
        address: String,
        /// Its reason.
        why: String,
    },
    /// No member answers.
    #[error("no member answers: {0}")]
    Unreachable(String),
}

/// How a process wants to become a member.
#[derive(Clone, Debug, Default)]
pub struct Join {
    /// The one-time token of a member. With TLS the certificate is enough.
    pub token: Option<String>,
    /// The address of a member to join at, if there is no token; else the configured list.
    pub at: Option<String>,
    /// What to take part in; voter while there are fewer than five, else follower. One that
    /// replaces a lost member has that member's role.
    pub role: Option<Role>,
    /// Whether the member of this name has lost its data directory and is to be removed.
    pub replaces: bool,
}

/// A data directory that is not in use.
struct Unused {
    disk: Disk,
    epoch: u32,
    file: IdentityFile,
    identity: Option<ClusterIdentity>,
}

/// Lets the node of this data directory be a member of the cluster that is founded next. Its epoch
/// and the bound of its leases stay, so that fencing tokens grow and no lease is cut short. Its
/// node must not run.
///
/// # Errors
///
/// If a file cannot be removed.
pub fn forget_cluster(data: &Path) -> io::Result<()> {
    IdentityFile::new(data).remove()?;
    match fs::remove_dir_all(log_directory(data)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn open(config: &Config) -> Result<Unused, PrepareError> {
    config.check()?;
    if !config.names_a_cluster() {
        return Err(PrepareError::NotClustered);
    }
    let (disk, epoch) = Disk::open(&config.data)?;
    let file = IdentityFile::new(&config.data);
    let identity = file.read().map_err(unusable(config))?;
    Ok(Unused { disk, epoch, file, identity })
}

fn unusable(config: &Config) -> impl Fn(io::Error) -> DiskError + use<> {
    let path = config.data.clone();
    move |error| DiskError::Unusable { path: path.clone(), error }
}

/// Prepares the founding of a cluster. With one member in the list it is founded at once, and
/// others can join; else when all members of the list run. Fencing tokens begin above `above`, and
/// above all that this data directory knows of.
///
/// # Errors
///
/// See [`PrepareError`].
pub fn init(config: &Config, above: Option<u64>) -> Result<(), PrepareError> {
    let above = above.map(epoch_above).transpose()?;
    let Unused { disk, epoch, file, identity } = open(config)?;
    if identity.is_some() {
        return Err(PrepareError::Member { data: config.data.clone() });
    }
    let first = &config.members[0].name;
    if *first != config.node {
        return Err(PrepareError::NotFirst { first: first.clone() });
    }
    let floor = epoch.max(above.unwrap_or(0)).max(lone_epoch(config));
    disk.write_epoch(floor).map_err(unusable(config))?;
    if let [only] = config.members.as_slice() {
        let founder = founder(only, config.roles()[0]);
        let mut identity =
            ClusterIdentity::new(crate::random().max(1), vec![founder], config.rules.clone());
        identity.floor = floor.max(clock::epoch_of(std::time::SystemTime::now()));
        file.write(&identity).map_err(unusable(config))?;
    }
    Ok(())
}

fn founder(member: &MemberConfig, role: Role) -> Founder {
    let id = MemberId(crate::random().max(1));
    Founder { id, name: member.name.clone(), address: member.address.clone(), role }
}

/// The epoch of a fencing token: that of the first view is above it.
fn epoch_above(token: u64) -> Result<u32, PrepareError> {
    let epoch = Time::from_number(token).epoch();
    if epoch + 1 < Time::EPOCHS { Ok(epoch) } else { Err(PrepareError::Token(token)) }
}

/// The epoch of the tokens that a lone node with this data directory may have granted.
fn lone_epoch(config: &Config) -> u32 {
    let fences = fs::read_to_string(config.data.join("fences")).ok();
    let below = fences.and_then(|text| text.trim().parse().ok());
    below.map_or(0, |below| Time::from_number(below).epoch())
}

/// Makes the data directory that of a new member of a running cluster, and returns its number for
/// good. The node is started afterwards.
///
/// # Errors
///
/// See [`PrepareError`]. If the reply of the member is lost, the cluster has a member that nobody
/// runs: `mutua cluster leave` removes it.
pub async fn join(config: &Config, join: Join) -> Result<u64, PrepareError> {
    let Unused { file, identity, .. } = open(config)?;
    if identity.is_some() {
        return Err(PrepareError::Member { data: config.data.clone() });
    }
    let transport = certificates::transport(config)?;
    let (at, token) = match &join.token {
        None => (join.at.clone(), None),
        Some(text) => {
            let invalid = || PrepareError::Invitation(text.clone());
            let (address, secret) = text.rsplit_once('/').ok_or_else(invalid)?;
            (Some(join.at.clone().unwrap_or_else(|| address.to_owned())), Some(secret.to_owned()))
        }
    };
    let own = config.members.iter().find(|member| member.name == config.node);
    let address = own.map(|own| own.address.clone()).unwrap_or_default();
    let others = config.members.iter().filter(|member| member.name != config.node);
    let contacts: Vec<_> = match at {
        Some(at) => vec![at],
        None => others.map(|member| member.address.clone()).collect(),
    };
    let greeting = Greeting {
        cluster: config.cluster.clone(),
        from: config.node.clone(),
        to: String::new(),
        incarnation: 0,
        cluster_id: 0,
        id: 0,
        levels: config.view_settings().levels,
        view_lease: config.view_settings().lease,
    };
    let name = config.node.clone();
    let joining = Joining { token, name, address, role: join.role, replaces: join.replaces };
    let mut failed = Vec::new();
    for contact in &contacts {
        let request = Request::Join(joining.clone());
        match control::call_once(&transport, contact, &greeting, request, PATIENCE).await {
            Ok(Reply::Joined(identity)) => {
                let id = identity.me.0;
                file.write(&identity).map_err(unusable(config))?;
                return Ok(id);
            }
            Ok(Reply::Refused(why)) | Err(ControlError::Refused(why)) => {
                return Err(PrepareError::Refused { address: contact.clone(), why });
            }
            Ok(_) => failed.push(format!("{contact}: its reply is of another kind")),
            Err(error) => failed.push(format!("{contact}: {error}")),
        }
    }
    match failed.is_empty() {
        true => Err(PrepareError::Nowhere),
        false => Err(PrepareError::Unreachable(failed.join("; "))),
    }
}

/// Founds the cluster anew with this member alone, after the others of a majority are lost for
/// good. Nothing is granted for `longest` after the node's start, by when what the lost members
/// granted has expired; fencing tokens go on far above.
///
/// It is a new cluster with the old name: should a lost member run again, it is refused, and it
/// must not grant anything. The caller has to be certain that none does.
///
/// # Errors
///
/// See [`PrepareError`].
pub fn recover(config: &Config, longest: Duration) -> Result<(), PrepareError> {
    let Unused { disk, epoch, file, identity } = open(config)?;
    let Some(old) = identity else {
        return Err(PrepareError::NoMember { data: config.data.clone() });
    };
    let own = config.members.iter().find(|member| member.name == config.node);
    let own = own.cloned().unwrap_or_else(|| MemberConfig::new(&config.node, ""));
    let now = clock::epoch_of(std::time::SystemTime::now());
    let floor = epoch.max(old.floor).max(now).saturating_add(SKIPPED_EPOCHS);
    let floor = floor.min(Time::EPOCHS - 2);
    let rules = old.decided_rules.unwrap_or(old.rules);
    let mut identity =
        ClusterIdentity::new(crate::random().max(1), vec![founder(&own, Role::Voter)], rules);
    (identity.floor, identity.longest, identity.recovered) = (floor, longest, true);
    disk.write_epoch(floor).map_err(unusable(config))?;
    // The log of a voter of the lost cluster; this member has a new id.
    let log = log_directory(&config.data);
    if log.exists() {
        let kept = config.data.join(format!("consensus.lost.{:x}", old.cluster));
        fs::rename(&log, kept).map_err(unusable(config))?;
    }
    file.write(&identity).map_err(unusable(config))?;
    Ok(())
}
