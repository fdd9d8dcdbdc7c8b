//! `mutua status`: shows a node's status.

use std::{
    fmt::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Result;
use clap::Args;
use mutua_client::{CallError, ConnectError, endpoint, proto::v1};
use mutua_node::{AwaitedLock, MemberReport, MemberStatus, NodeStatus};
use tokio::runtime::Builder;

use super::locks::{ago, plain, shown};
use crate::{
    exit::{CONFIG, Coded, DENIED, UNAVAILABLE, usage},
    local::{Endpoint, Listener, required_cluster},
};

/// The end of the help.
pub(crate) const HELP: &str = "\
Node: --endpoint, --socket, --data or --config; else MUTUA_SOCKET; else the node of the \
configuration MUTUA_CONFIG or /etc/mutua/mutua.toml; else this user's node on this host, which is \
not started. If MUTUA_CLUSTER is set, a node of another cluster, or of none, is refused.

Exit codes: 0 locks are granted; 64 bad usage; 69 no node answers, or grants are suspended; 77 \
permission denied; 78 bad configuration.";

/// Show a node's status: view, links, and why grants are suspended.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    node: Which,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The node that a command is for.
#[derive(Args, Debug)]
pub(crate) struct Which {
    /// Endpoint of the node, unix:PATH, HOST:PORT or https://HOST:PORT [default: MUTUA_SOCKET, else
    /// the configured node of this host, else this user's].
    #[arg(long, value_name = "ENDPOINT", conflicts_with_all = ["config", "data", "socket"])]
    endpoint: Option<String>,

    /// Configuration of the node.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Data directory of the node, instead of its configuration.
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "config")]
    data: Option<PathBuf>,

    /// The node's Unix socket, if it was started with --socket.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["config", "data"])]
    socket: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let status = runtime.block_on(arguments.node.status())?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&status)?);
    } else {
        print!("{}", text(&status));
    }
    Ok(if status.suspended.is_some() { ExitCode::from(UNAVAILABLE) } else { ExitCode::SUCCESS })
}

/// The status, if it is of a node of the cluster that `MUTUA_CLUSTER` requires.
fn required(status: NodeStatus, endpoint: &str) -> Result<NodeStatus> {
    let Some(name) = required_cluster()? else { return Ok(status) };
    let found = match &status.members[..] {
        [only] if only.id == 0 => "a single node, in no cluster".to_owned(),
        _ if status.cluster.as_deref() == Some(&*name) => return Ok(status),
        _ => node_of(&status.node, status.cluster.as_deref()),
    };
    let text =
        format!("MUTUA_CLUSTER requires a node of cluster {name}, but {endpoint} is {found}");
    Err(Coded(CONFIG, text).into())
}

impl Which {
    /// The endpoint of the node. This user's node is not started.
    pub(crate) fn find(&self) -> Result<String> {
        let socket = match (&self.endpoint, &self.socket, &self.data) {
            (Some(endpoint), ..) => return Ok(endpoint.clone()),
            (None, Some(socket), _) => socket.clone(),
            (None, None, Some(data)) => endpoint::in_directory(data),
            (None, None, None) => match Endpoint::configured(self.config.as_deref())? {
                Some(configured) => configured.socket,
                None => Endpoint::local()?.socket,
            },
        };
        Ok(of_socket(&socket))
    }

    /// The status of the node.
    pub(crate) async fn status(&self) -> Result<NodeStatus> {
        let endpoint = self.find()?;
        let answer = request_at(&endpoint).await;
        required(answer.map_err(|error| self.no_node(&endpoint, &error))?, &endpoint)
    }

    /// The status of the node, with what the other members report of themselves.
    pub(crate) async fn status_of_all(&self) -> Result<NodeStatus> {
        let endpoint = self.find()?;
        let answer = mutua_client::status_of_all(&endpoint).await.map(of_message);
        required(answer.map_err(|error| self.no_node(&endpoint, &error))?, &endpoint)
    }

    /// The error for an endpoint at which no node answers.
    pub(crate) fn no_node(&self, endpoint: &str, error: &CallError) -> anyhow::Error {
        let Self { endpoint: given, config, data, socket } = self;
        let is_given = given.is_some() || config.is_some() || data.is_some() || socket.is_some();
        let other = match is_given {
            true => "",
            false => "; name another node with --endpoint, --socket, --data or --config",
        };
        // The error names the endpoint where the connection failed.
        let text = error.to_string();
        match error {
            CallError::Connect(ConnectError::Denied(_)) => return Coded(DENIED, text).into(),
            CallError::Connect(ConnectError::Invalid(_)) => return usage(text),
            // They say what is there, and what to name instead.
            CallError::NotANode(_) | CallError::NotForClients(_) => {
                return Coded(UNAVAILABLE, text).into();
            }
            _ => {}
        }
        let at = if text.starts_with(endpoint) { String::new() } else { format!("{endpoint}: ") };
        let process = silent_process(endpoint, error).map(|text| format!("; {text}"));
        let process = process.unwrap_or_default();
        Coded(UNAVAILABLE, format!("no node answers at {at}{text}{process}{other}")).into()
    }
}

/// What is known of the process of a node that does not reply in time.
pub(crate) fn silent_process(endpoint: &str, error: &CallError) -> Option<String> {
    let CallError::TimedOut(_) = error else { return None };
    let listener = Listener::on(Path::new(endpoint.strip_prefix("unix:")?))?;
    Some(listener.describe())
}

pub(crate) fn of_socket(socket: &Path) -> String {
    format!("unix:{}", socket.display())
}

/// Requests the status of the node that serves this socket.
pub(crate) async fn request(socket: &Path) -> Result<NodeStatus, CallError> {
    request_at(&of_socket(socket)).await
}

async fn request_at(endpoint: &str) -> Result<NodeStatus, CallError> {
    mutua_client::status(endpoint).await.map(of_message)
}

/// The status of a node as it reports it.
fn of_message(status: v1::StatusResponse) -> NodeStatus {
    let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let member = |one: v1::Member| MemberStatus {
        name: one.name,
        up: one.up,
        for_ms: one.for_ms,
        backlog: size(one.backlog),
        in_view: one.in_view,
        votes: one.votes,
        reaches: one.reaches,
        id: one.id,
        incarnation: one.incarnation,
        address: one.address,
        role: one.role,
        becomes: one.becomes,
        keeps: one.keeps,
        report: one.report.map(|report| MemberReport {
            records: size(report.records),
            custodies: size(report.custodies),
            lease_left_ms: report.lease_left_ms,
            suspended: report.suspended,
        }),
    };
    NodeStatus {
        cluster: Some(status.cluster).filter(|name| !name.is_empty()),
        node: status.node,
        pid: status.pid,
        epoch: status.epoch,
        suspended: status.suspended,
        view: status.view,
        lease_left_ms: status.lease_left_ms,
        leader: status.leader,
        records: size(status.records),
        members: status.members.into_iter().map(member).collect(),
        notes: status.notes,
        level: status.level.and_then(|level| u16::try_from(level).ok()),
        rules: status.rules,
        custodies: size(status.custodies),
        awaited: status.awaited.into_iter().map(awaited).collect(),
        begins_in_ms: status.begins_in_ms,
        locks: size(status.locks),
        held: size(status.held),
        waiting: size(status.waiting),
        grants: status.entries,
        messages: status.messages,
        lazy: status.lazy,
    }
}

fn awaited(lock: v1::Awaited) -> AwaitedLock {
    let fencing_token = lock.fencing_token.to_string();
    AwaitedLock { name: shown(&lock.name), fencing_token, left_ms: lock.left_ms }
}

/// The locks that are waited for after a crash: as many lines as can be read.
fn awaited_text(awaited: &[AwaitedLock]) -> String {
    const MOST: usize = 10;
    let mut text = String::new();
    for AwaitedLock { name, fencing_token, left_ms } in awaited.iter().take(MOST) {
        let _ = writeln!(
            text,
            "waiting for {}: held with fencing token {fencing_token} when the node ended; free \
             in {} unless its client reclaims it",
            plain(name),
            ago(*left_ms)
        );
    }
    if awaited.len() > MOST {
        let _ = writeln!(text, "waiting for {} more locks", awaited.len() - MOST);
    }
    text
}

/// The view and its members, with those that are missing.
fn view_text(status: &NodeStatus) -> String {
    let epoch = status.epoch.unwrap_or_default();
    let all = status.members.len();
    let present = status.members.iter().filter(|member| member.in_view).count();
    let view = match status.view {
        Some(number) => format!("view {number} (epoch {epoch})"),
        None => format!("epoch {epoch}"),
    };
    match (present, all) {
        (_, 1) => "a single node".to_owned(),
        (present, all) if present == all => format!("{view}, {all} members"),
        (present, all) => format!("{view}, {present} of {all} members"),
    }
}

fn member_text(status: &NodeStatus, member: &MemberStatus) -> String {
    let seconds = member.for_ms as f64 / 1000.0;
    let state = match (member.up, member.for_ms) {
        // A member that was not dialled yet.
        (false, 0) => "not connected".to_owned(),
        (false, _) => format!("not connected for {seconds:.1} s"),
        (true, _) => format!("connected for {seconds:.1} s"),
    };
    let mut text = format!("{:<12} {state}", member.name);
    match member.backlog {
        0 => {}
        1 => text += ", 1 message not acknowledged",
        backlog => text += &format!(", {backlog} messages not acknowledged"),
    }
    match (&member.becomes, member.role.as_str()) {
        (Some(role), _) => text += &format!(", becomes a {role}"),
        (None, "witness") => text += ", witness",
        (None, _) if !member.votes => text += ", does not vote",
        (None, _) => {}
    }
    if !member.in_view {
        text += ", not in the view";
    }
    if !member.reaches.is_empty() {
        // What nobody reaches is down, and shown as such.
        let missed = |other: &&MemberStatus| {
            other.up && other.name != member.name && !member.reaches.contains(&other.name)
        };
        let missing: Vec<_> =
            status.members.iter().filter(missed).map(|other| &*other.name).collect();
        if !missing.is_empty() {
            text += &format!(", does not reach {}", missing.join(", "));
        }
    }
    text
}

/// The members that each member receives messages from, as a matrix; empty while all receive from
/// all.
fn reach_text(status: &NodeStatus) -> String {
    let reaches = |from: &MemberStatus, to: &MemberStatus| match from.name == status.node {
        // This node's own links.
        true => Some(to.up),
        false if from.reaches.is_empty() => None,
        false => Some(from.reaches.contains(&to.name)),
    };
    let cell = |from: &MemberStatus, to: &MemberStatus| match reaches(from, to) {
        _ if from.name == to.name => "-",
        Some(true) => "yes",
        Some(false) => "no",
        None => "?",
    };
    let members = &status.members;
    let is_cut = |from: &MemberStatus| members.iter().any(|to| cell(from, to) == "no");
    if !members.iter().any(is_cut) {
        return String::new();
    }
    let width = members.iter().map(|one| one.name.chars().count()).max().unwrap_or(0).max(4) + 2;
    let mut text = format!("{:width$}", "receives from");
    let first = text.chars().count().max(width);
    for to in members {
        let _ = write!(text, "  {:width$}", to.name);
    }
    for from in members {
        let _ = write!(text, "\n  {:1$}", from.name, first - 2);
        for to in members {
            let _ = write!(text, "  {:width$}", cell(from, to));
        }
    }
    let lines: Vec<_> = text.lines().map(str::trim_end).collect();
    lines.join("\n") + "\n"
}

/// The node and its cluster, which a node that a command started for its user has not.
pub(crate) fn node_of(node: &str, cluster: Option<&str>) -> String {
    match cluster {
        None => "this user's node".to_owned(),
        Some(cluster) => format!("node {node} of cluster {cluster}"),
    }
}

/// The status for people.
pub(crate) fn text(status: &NodeStatus) -> String {
    let mut text = node_of(&status.node, status.cluster.as_deref());
    let _ = writeln!(text, ", pid {}", status.pid);
    let view = view_text(status);
    let _ = match (status.epoch, &status.suspended) {
        (_, Some(why)) => writeln!(text, "grants are suspended: {why}"),
        (Some(_), None) => writeln!(text, "{view}: locks are granted"),
        (None, None) => writeln!(text, "no view yet"),
    };
    if let Some(left) = status.lease_left_ms.filter(|_| status.members.len() > 1) {
        let leader = status.leader.as_deref().unwrap_or("unknown");
        let (left, records) = (left as f64 / 1000.0, status.records);
        let _ = write!(
            text,
            "view lease: {left:.1} s left; leader of the consensus: {leader}; holds recorded for \
             other members: {records}"
        );
        let _ = match status.custodies {
            0 => writeln!(text),
            1 => writeln!(text, "; custodian of 1 lock of a lost node"),
            many => writeln!(text, "; custodian of {many} locks of lost nodes"),
        };
    }
    if let Some(left) = status.begins_in_ms {
        let (view, left) = (status.view.unwrap_or_default(), left as f64 / 1000.0);
        let _ = writeln!(text, "view {view} begins in {left:.1} s at the latest");
    }
    text += &awaited_text(&status.awaited);
    for note in &status.notes {
        let _ = writeln!(text, "note: {note}");
    }
    for member in status.members.iter().filter(|member| member.name != status.node) {
        let _ = writeln!(text, "  {}", member_text(status, member));
    }
    text += &reach_text(status);
    let _ = writeln!(
        text,
        "locks {}, held {}, waiting {}; grants {}, messages {}, background messages {}",
        status.locks, status.held, status.waiting, status.grants, status.messages, status.lazy
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, up: bool, reaches: &[&str]) -> v1::Member {
        let reaches = reaches.iter().map(|&one| one.to_owned()).collect();
        v1::Member { name: name.to_owned(), up, reaches, in_view: true, ..v1::Member::default() }
    }

    fn status(members: Vec<v1::Member>) -> NodeStatus {
        let node = "a".to_owned();
        of_message(v1::StatusResponse { node, members, ..v1::StatusResponse::default() })
    }

    #[test]
    fn members_that_do_not_reach_each_other_are_shown_as_a_matrix() {
        let members =
            vec![member("a", true, &[]), member("b", true, &["a"]), member("c", true, &["a"])];
        let shown = reach_text(&status(members));
        let expected = "\
receives from  a       b       c
  a            -       yes     yes
  b            yes     -       no
  c            yes     no      -
";
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_lost_member_is_not_reached_and_nothing_is_known_of_its_own_links() {
        let members =
            vec![member("a", true, &[]), member("b", true, &["a"]), member("c", false, &[])];
        let shown = reach_text(&status(members));
        assert!(shown.contains("\n  a            -       yes     no\n"), "{shown}");
        assert!(shown.ends_with("\n  c            ?       ?       -\n"), "{shown}");
    }

    #[test]
    fn no_matrix_is_shown_while_all_reach_all() {
        let members = vec![member("a", true, &["b"]), member("b", true, &["a"])];
        assert_eq!(reach_text(&status(members)), "");
    }

    #[test]
    fn no_time_is_printed_for_a_member_that_was_not_dialled_yet() {
        let mut gone = member("c", false, &[]);
        gone.for_ms = 2000;
        let shown = text(&status(vec![member("a", true, &[]), member("b", false, &[]), gone]));
        assert!(shown.contains("b            not connected, does"), "{shown}");
        assert!(shown.contains("c            not connected for 2.0 s, does"), "{shown}");
    }
}
