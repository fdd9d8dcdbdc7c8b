//! The members of a cluster: shown and changed.

use std::{
    fmt::Write,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Result, anyhow};
use clap::{Args, Subcommand, ValueEnum};
use mutua_client::CallError;
use mutua_node::{Config, Join, MemberStatus, NodeStatus, PrepareError, Role};

use crate::{
    commands::{node, status::Which},
    exit::{CONFIG, CONFLICT, Coded, DENIED, UNAVAILABLE, unavailable, usage},
    local::config_file,
};

#[derive(Debug, Subcommand)]
pub(super) enum Action {
    /// Show the members: roles, incarnations, view leases, records, custodies, and which reach
    /// which.
    Members {
        #[command(flatten)]
        node: Which,

        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Prepare this host's data directory to found a cluster, before its node first runs.
    ///
    /// With one member in the configuration the cluster is founded at once, and others can join.
    /// With several it is founded when all of them run; the command is then needed for --above
    /// only, at the first of the list.
    Init {
        #[command(flatten)]
        host: Host,

        /// Let fencing tokens begin above this one. Needed if all data directories of a cluster are
        /// lost and the resources that its locks guard have seen higher tokens than the clock
        /// allows for.
        #[arg(long, value_name = "FENCING_TOKEN")]
        above: Option<u64>,
    },
    /// Make an invitation, with which one new member can join at this node within an hour.
    Invite {
        #[command(flatten)]
        node: Which,
    },
    /// Make this host's data directory that of a new member; start its node afterwards.
    Join(Joining),
    /// Like join, for a member whose data directory is lost: the old one is removed.
    ///
    /// The member keeps its name and role and gets another id: a voter without its log is never
    /// the old one.
    Replace(Joining),
    /// Remove a member. Its node, if it runs, hands over and stops.
    Leave {
        /// Name of the member.
        name: String,

        #[command(flatten)]
        node: Which,
    },
    /// Give a member another role. A new voter votes as soon as it has the log.
    Promote {
        /// Name of the member.
        name: String,

        /// The role.
        #[arg(long, value_enum, default_value_t = RoleName::Voter)]
        role: RoleName,

        #[command(flatten)]
        node: Which,
    },
    /// Show the rules of locks that the cluster has decided, or change them for all members.
    ///
    /// A change is checked for views of every size, decided, and in force with the next view.
    /// Holders keep their locks, and waiters their order.
    Rules {
        /// File with the tables `[[locks]]`, or a configuration that has them; - reads standard
        /// input. Without it the rules are shown.
        file: Option<PathBuf>,

        #[command(flatten)]
        node: Which,
    },
    /// Found the cluster anew with this member alone, after a majority of the voters is lost for
    /// good.
    ///
    /// Only if the others never run again: members that still run would grant the same locks.
    /// Nothing is granted for the longest lease after the node's start.
    Recover {
        #[command(flatten)]
        host: Host,

        /// Confirm that no other member runs, and that none will run again with its data directory.
        #[arg(long)]
        others_are_lost: bool,

        /// No client of the cluster had a longer lease than this [default: longest_lease of the
        /// configuration].
        #[arg(long, value_name = "DURATION")]
        longest: Option<String>,
    },
}

/// The host whose data directory is prepared. Its node must not run.
#[derive(Args, Debug)]
pub(super) struct Host {
    /// Configuration of this host's node [default: MUTUA_CONFIG, else /etc/mutua/mutua.toml].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(super) struct Joining {
    /// Invitation, as `mutua cluster invite` prints it. Not needed with TLS, where the certificate
    /// contains the name.
    invitation: Option<String>,

    /// Address of a member to join at [default: that of the invitation, else those of the
    /// configuration].
    #[arg(long, value_name = "ADDRESS")]
    at: Option<String>,

    /// Role of the member [default of join: voter while fewer than five vote, else follower; of
    /// replace: that of the replaced member].
    #[arg(long, value_enum)]
    role: Option<RoleName>,

    #[command(flatten)]
    host: Host,
}

/// What a member takes part in.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(super) enum RoleName {
    /// Votes, keeps records and holds locks.
    Voter,
    /// Holds locks.
    Follower,
    /// Votes and keeps records.
    Witness,
}

impl From<RoleName> for Role {
    fn from(name: RoleName) -> Self {
        match name {
            RoleName::Voter => Self::Voter,
            RoleName::Follower => Self::Follower,
            RoleName::Witness => Self::Witness,
        }
    }
}

impl Host {
    fn config(&self) -> Result<Config> {
        node::read(&config_file(self.config.as_deref()))
    }
}

pub(super) async fn run(action: &Action) -> Result<ExitCode> {
    match action {
        Action::Members { node, json } => return members(node, *json).await,
        Action::Init { host, above } => init(&host.config()?, *above)?,
        Action::Invite { node } => {
            let endpoint = node.find()?;
            let token = mutua_client::invite(&endpoint).await;
            println!("{}", token.map_err(|error| refused(node, &endpoint, &error))?);
        }
        Action::Join(joining) => join(joining, false).await?,
        Action::Replace(joining) => join(joining, true).await?,
        Action::Leave { name, node } => {
            change(node, name, None).await?;
            println!("{name} has left the cluster");
        }
        Action::Promote { name, role, node } => {
            let role = Role::from(*role).name();
            change(node, name, Some(role)).await?;
            let once = if role == Role::Follower.name() { "" } else { ", once it has the log" };
            println!(
                "decided: {name} is a {role} from the next view on{once}; `mutua cluster members` \
                 shows it"
            );
        }
        Action::Rules { file, node } => rules(node, file.as_deref()).await?,
        Action::Recover { host, others_are_lost, longest } => {
            recover(&host.config()?, *others_are_lost, longest.as_deref())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn change(node: &Which, name: &str, role: Option<&str>) -> Result<()> {
    let endpoint = node.find()?;
    let changed = mutua_client::change_member(&endpoint, name, role).await;
    changed.map_err(|error| refused(node, &endpoint, &error))
}

async fn rules(node: &Which, file: Option<&Path>) -> Result<()> {
    let endpoint = node.find()?;
    let of_call = |error: CallError| refused(node, &endpoint, &error);
    let Some(file) = file else {
        let known = mutua_client::rules(&endpoint).await.map_err(of_call)?;
        let changes = match known.number {
            0 => "as the cluster was founded".to_owned(),
            number => format!("change {number}"),
        };
        let default = mutua_node::DEFAULT_ALGORITHM;
        match known.rules.trim() {
            "" => println!("# no rules, {changes}: all locks use {default}"),
            _ => println!("# rules of locks, {changes}; all other locks use {default}"),
        }
        print!("{}", known.rules);
        return Ok(());
    };
    let (text, name) = match file.as_os_str() == "-" {
        true => (std::io::read_to_string(std::io::stdin())?, "standard input".to_owned()),
        false => {
            let text = std::fs::read_to_string(file);
            let cannot = |error| Coded(CONFIG, format!("{}: {error}", file.display()));
            (text.map_err(cannot)?, file.display().to_string())
        }
    };
    let changed = mutua_client::change_rules(&endpoint, text, name).await.map_err(of_call)?;
    match changed.number {
        0 => println!("the rules are as the cluster was founded: nothing changes"),
        number => println!("change {number} of the rules is in force at all members"),
    }
    Ok(())
}

/// The error of a call that changes the members.
fn refused(node: &Which, endpoint: &str, error: &CallError) -> anyhow::Error {
    let CallError::Failed(status) = error else { return node.no_node(endpoint, error) };
    let text = status.message().to_owned();
    // The numbers of gRPC's codes.
    match status.code() as i32 {
        3 => usage(text),
        7 => Coded(DENIED, text).into(),
        9 => Coded(CONFLICT, text).into(),
        12 => unavailable(format!(
            "{endpoint} does not support this command: it is not a Mutua node (perhaps an etcd), \
             or a node of an older version"
        )),
        _ => unavailable(text),
    }
}

fn init(config: &Config, above: Option<u64>) -> Result<()> {
    mutua_node::init(config, above).map_err(of_preparing)?;
    let names: Vec<_> = config.members.iter().map(|member| member.name.as_str()).collect();
    match names.as_slice() {
        [only] => println!("cluster {} is founded: start the node of {only}", config.cluster),
        [_, _] => println!(
            "cluster {} is founded when the nodes of {} run; with two voters both are needed to \
             grant locks: a third member, perhaps a witness, lets one fail",
            config.cluster,
            names.join(", ")
        ),
        _ => println!(
            "cluster {} is founded when the nodes of {} run",
            config.cluster,
            names.join(", ")
        ),
    }
    Ok(())
}

async fn join(joining: &Joining, replaces: bool) -> Result<()> {
    let config = joining.host.config()?;
    let Joining { invitation: token, at, role, .. } = joining;
    if let Some(at) = at {
        check_address(at)?;
    }
    let role = role.map(Role::from);
    let join = Join { token: token.clone(), at: at.clone(), role, replaces };
    let id = mutua_node::join(&config, join).await.map_err(of_preparing)?;
    println!("{} is member {id} of cluster {}: start its node", config.node, config.cluster);
    Ok(())
}

fn check_address(at: &str) -> Result<()> {
    let parts = at.rsplit_once(':');
    match parts.filter(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok()) {
        Some(_) => Ok(()),
        None => Err(usage(format!("invalid address `{at}`: use HOST:PORT"))),
    }
}

fn recover(config: &Config, others_are_lost: bool, longest: Option<&str>) -> Result<()> {
    if !others_are_lost {
        return Err(usage(
            "recovering founds the cluster anew with this member alone; members that still run \
             would grant the same locks at the same time: stop them for good, remove their data \
             directories, and confirm with --others-are-lost"
                .to_owned(),
        ));
    }
    let longest = match longest {
        None => config.longest_lease,
        Some(text) => {
            mutua_algorithms::durations::parse(text).map_err(|error| usage(error.to_string()))?
        }
    };
    mutua_node::recover(config, longest).map_err(of_preparing)?;
    println!(
        "cluster {} consists of {} alone: start its node; nothing is granted for {} s after that; \
         the others join again with new data directories",
        config.cluster,
        config.node,
        longest.as_secs_f64()
    );
    Ok(())
}

fn of_preparing(error: PrepareError) -> anyhow::Error {
    let code = match &error {
        PrepareError::Token(_) | PrepareError::Invitation(_) | PrepareError::Nowhere => {
            return usage(error.to_string());
        }
        PrepareError::Config(_) | PrepareError::NotClustered => CONFIG,
        PrepareError::Unreachable(_) => UNAVAILABLE,
        PrepareError::Disk(_)
        | PrepareError::Member { .. }
        | PrepareError::NoMember { .. }
        | PrepareError::NotFirst { .. }
        | PrepareError::Refused { .. } => CONFLICT,
        _ => return anyhow!(error),
    };
    Coded(code, error.to_string()).into()
}

async fn members(node: &Which, json: bool) -> Result<ExitCode> {
    let status = node.status_of_all().await?;
    if json {
        println!("{}", serde_json::to_string_pretty(&status.members)?);
    } else {
        print!("{}", text(&status));
    }
    Ok(if status.suspended.is_some() { ExitCode::from(UNAVAILABLE) } else { ExitCode::SUCCESS })
}

/// The members as a table.
fn text(status: &NodeStatus) -> String {
    let mut text = match &status.cluster {
        Some(cluster) => format!("cluster {cluster}"),
        None => "this user's node".to_owned(),
    };
    if status.members.iter().all(|member| member.id == 0) {
        text += match status.members.len() {
            1 => ", a single node",
            _ => ", not founded yet: the members are those of the configuration",
        };
    }
    if let (Some(view), Some(left)) = (status.view, status.lease_left_ms) {
        let left = Duration::from_millis(left).as_secs_f64();
        let leader = status.leader.as_deref().unwrap_or("unknown");
        let _ = write!(text, ", view {view}, leader {leader}, view lease {left:.1} s");
        let _ = write!(text, ", level {}", status.level.unwrap_or_default());
    }
    text.push('\n');
    let width = status.members.iter().map(|one| one.name.len()).max().unwrap_or(0).max(6);
    let address = status.members.iter().map(|one| one.address.len()).max().unwrap_or(0).max(7);
    let _ = writeln!(
        text,
        "{:<width$}  {:<20}  {:<8}  {:<address$}  {:<20}  {:<9}  {:>5}  {:>7}  {:>7}  not reached",
        "member", "id", "role", "address", "incarnation", "state", "lease", "records", "custody"
    );
    for member in &status.members {
        let number = |number: u64| match number {
            0 => "-".to_owned(),
            number => number.to_string(),
        };
        let word = |word: &str| if word.is_empty() { "-".to_owned() } else { word.to_owned() };
        let (id, incarnation) = (number(member.id), number(member.incarnation));
        let _ = writeln!(
            text,
            "{:<width$}  {:<20}  {:<8}  {:<address$}  {incarnation:<20}  {:<9}  {}  {}",
            member.name,
            id,
            word(&member.role),
            word(&member.address),
            state(member),
            reported(member),
            not_reached(status, member)
        );
    }
    if let Some(left) = status.begins_in_ms {
        let (view, left) = (status.view.unwrap_or_default(), left as f64 / 1000.0);
        let _ = writeln!(text, "view {view} begins in {left:.1} s at the latest");
    }
    if let Some(why) = &status.suspended {
        let _ = writeln!(text, "grants are suspended: {why}");
    }
    for note in &status.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

fn state(member: &MemberStatus) -> String {
    match (&member.becomes, member.up, member.in_view, member.role.as_str()) {
        (_, false, ..) => "down".to_owned(),
        (Some(role), ..) => format!("to {role}"),
        // A node that is in no view has no incarnation there.
        (None, true, true, _) if member.incarnation != 0 => "in view".to_owned(),
        (None, true, false, "witness") => "votes".to_owned(),
        (None, true, ..) => "up".to_owned(),
    }
}

/// The view lease, records and custodies of a member, if it answers.
fn reported(member: &MemberStatus) -> String {
    let Some(report) = &member.report else {
        return format!("{:>5}  {:>7}  {:>7}", "-", "-", "-");
    };
    let lease = format!("{:.1} s", report.lease_left_ms as f64 / 1000.0);
    let records = match member.keeps {
        true => report.records.to_string(),
        false => "-".to_owned(),
    };
    format!("{lease:>5}  {records:>7}  {:>7}", report.custodies)
}

/// The members that this one does not receive messages from, as far as it reports.
fn not_reached(status: &NodeStatus, member: &MemberStatus) -> String {
    if member.reaches.is_empty() && member.name != status.node {
        return "-".to_owned();
    }
    let missed =
        |other: &&MemberStatus| other.name != member.name && !member.reaches.contains(&other.name);
    let missed: Vec<_> =
        status.members.iter().filter(missed).map(|other| other.name.as_str()).collect();
    if missed.is_empty() { "-".to_owned() } else { missed.join(", ") }
}
