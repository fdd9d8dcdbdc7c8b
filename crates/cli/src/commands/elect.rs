//! `mutua elect`: leads while a command runs, or observes leaders.

use std::{ffi::OsString, process::ExitCode, time::Duration};

use anyhow::Result;
use clap::Args;
use mutua_client::{
    CallError, Kind, Leader, Options, Scope,
    proto::v3electionpb::{LeaderRequest, election_client::ElectionClient},
};
use serde_json::json;
use tonic::transport::Channel;

use super::{
    lock::{self, HoldOptions, Plan},
    locks::{block_on, failed, fencing_token_json, plain, shown},
};
use crate::{
    exit::{self, usage},
    local::Target,
};

/// The forms of the command.
pub(crate) const USAGE: &str = "mutua elect [OPTIONS] NAME VALUE [--] COMMAND [ARGUMENT]...
       mutua elect [OPTIONS] NAME VALUE
       mutua elect [OPTIONS] --observe NAME";

/// The end of the help.
pub(crate) const HELP: &str = "\
The candidate waits until it is elected, and leads while the command runs. VALUE is what observers \
see: an address, for example. Without a command it prints the fencing token and leads until a signal \
ends it. When the leadership is lost, the command gets SIGTERM, and SIGKILL before another \
candidate can lead.

An election and the lock of the same name exclude each other: `mutua ls`, `show`, `watch`, `verify` \
and `break` apply to both. Candidates of etcd's Election service, `etcdctl elect` among them, take \
part in the election of the same name.

--observe prints the leader now and whenever it or its value changes, and goes on at another member \
if its node is lost. Changes that follow each other closely may be reported as one.

Exit codes: the command's own if it exited while leading; 128+N signal N ended the command, the \
wait or the leadership; 64 bad usage; 69 no node, or grants are suspended; 70 internal error; 75 not \
elected; 77 permission denied; 78 bad configuration; 79 the leadership was lost and the command \
killed; 126 the command cannot be run; 127 the command was not found.

Environment of the command: LOCK_NAME; LOCK_VALUE; LOCK_TOKEN, the fencing token, which grows with \
every leader; and the others of `mutua lock`. Signals, process groups and the choice of the node are \
as for `mutua lock`.";

/// Arguments that an observer has no use for.
const OF_CANDIDATES: [&str; 8] =
    ["value", "command", "only_try", "wait", "ttl", "grace", "on_lost", "status_fd"];

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Name of the election.
    name: String,
    /// Value of the candidate, for observers.
    #[arg(required_unless_present = "observe")]
    value: Option<String>,
    /// Command and its arguments; `--` before it is optional.
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    /// Print the leaders of the election instead.
    #[arg(long, conflicts_with_all = OF_CANDIDATES)]
    observe: bool,
    #[command(flatten)]
    options: HoldOptions,
}

/// How long a node may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs `mutua elect`.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let after = lock::words_after_dashes();
    let value = match &arguments.value {
        // Most likely a variable of a script is not set: its command must not become the value.
        Some(_) if after.is_some_and(|after| after > arguments.command.len()) => {
            return Err(usage(
                "NAME or VALUE is missing before `--`: mutua elect NAME VALUE -- COMMAND",
            ));
        }
        Some(_) if after == Some(0) => {
            return Err(usage("no command after `--`: write mutua elect NAME VALUE -- COMMAND"));
        }
        Some(value) => value,
        None => return block_on(observe(&arguments.name, &arguments.options)),
    };
    let name_and_value = (&*arguments.name, &**value);
    let plan = Plan::of_candidate(&arguments.options, name_and_value, arguments.command.clone())?;
    lock::run_plan(plan)
}

/// Prints leaders until the process is ended.
async fn observe(name: &str, options: &HoldOptions) -> Result<ExitCode> {
    let target = options.target()?;
    let (channel, about) = target.query(PATIENCE).await?;
    let print = |leader: Option<&Leader>| match options.json() {
        true => println!("{}", as_json(name, leader, &about.scope)),
        false => println!("{}", text(name, leader)),
    };
    match about.kind {
        Kind::Etcd => observe_etcd(channel, name, print).await,
        Kind::Mutua => observe_node(&target, name, print).await,
    }
}

async fn observe_node(
    target: &Target,
    name: &str,
    print: impl Fn(Option<&Leader>),
) -> Result<ExitCode> {
    let options = Options::new([target.endpoint()]).owner(lock::owner());
    let client = options.connect().await.map_err(|error| exit::not_connected(&error))?;
    let mut observer = client.election(name).observe();
    loop {
        let leader = observer.next_leader().await.map_err(|error| match error {
            CallError::Failed(status) => failed(*status),
            error => exit::unavailable(error.to_string()),
        })?;
        print(leader.as_ref());
    }
}

/// An etcd reports no end of a leadership, only the next leader.
async fn observe_etcd(
    channel: Channel,
    name: &str,
    print: impl Fn(Option<&Leader>),
) -> Result<ExitCode> {
    let request = LeaderRequest { name: name.into() };
    let observed = ElectionClient::new(channel).observe(request).await;
    let mut leaders = observed.map_err(failed)?.into_inner();
    while let Some(response) = leaders.message().await.map_err(failed)? {
        let kv = response.kv.unwrap_or_default();
        let mut leader = Leader::default();
        (leader.value, leader.fencing_token) = (kv.value, kv.create_revision.unsigned_abs());
        print(Some(&leader));
    }
    Err(exit::unavailable("the etcd ended the stream"))
}

fn text(name: &str, leader: Option<&Leader>) -> String {
    let name = plain(name);
    let Some(leader) = leader else { return format!("{name}: no leader") };
    let (value, token) = (plain(&shown(&leader.value)), leader.fencing_token);
    let holder = match &*leader.holder.node {
        _ if leader.holder.pid == 0 && leader.holder.owner.is_empty() => String::new(),
        "" => format!(", {}", plain(&leader.holder.to_string())),
        node => format!(", {} at node {node}", plain(&leader.holder.to_string())),
    };
    match leader.value.is_empty() {
        true => format!("{name}: held without a value, fencing token {token}{holder}"),
        false => format!("{name}: leader {value}, fencing token {token}{holder}"),
    }
}

fn as_json(name: &str, leader: Option<&Leader>, scope: &Scope) -> serde_json::Value {
    let leader = leader.map(|leader| {
        json!({
            "value": shown(&leader.value),
            "fencing_token": fencing_token_json(leader.fencing_token),
            "owner": leader.holder.owner, "host": leader.holder.host, "pid": leader.holder.pid,
            "node": leader.holder.node,
        })
    });
    json!({ "name": name, "leader": leader, "scope": scope.word(), "cluster": scope.cluster() })
}
