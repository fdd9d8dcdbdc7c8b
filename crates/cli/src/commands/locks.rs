//! The commands on locks: `ls`, `show`, `watch`, `verify` and `break`.

mod words;

pub(crate) use words::{ago, as_json, entry_json, fencing_token_json, holder_text, plain, shown};

use std::{io::IsTerminal, process::ExitCode, time::Duration};

use anyhow::Result;
use clap::Args;
use mutua_client::{
    About, CallError, Kind, Options, Scope,
    proto::v1::{self, locks_client::LocksClient},
};
use serde_json::json;
use tonic::{Status, transport::Channel};

use super::lock::check_name;
use crate::{
    exit::{self, Coded, usage},
    local::Selection,
};
use words::{missing, print_table, text};

/// The end of the help of one command: its notes and its first exit codes.
macro_rules! help {
    ($notes:literal, $codes:literal) => {
        concat!(
            $notes,
            "\n\nExit codes: ",
            $codes,
            "; 64 bad usage; 69 no node, not supported by the server (etcd), or unknown: a \
             member did not answer, or the node cannot know; 77 permission denied; 78 bad \
             configuration, or another node than the required one.\n\n\
             Node: --endpoint or --config; else MUTUA_SOCKET; else the node of the configuration \
             MUTUA_CONFIG or /etc/mutua/mutua.toml; else this user's node on this host, which is \
             started if needed. The last is refused (78) on a host where a node of \
             /etc/mutua/mutua.toml runs or ran, unless --local is given."
        )
    };
}

/// The end of the help of `ls`, `show` and `watch`.
pub(crate) const LIST_HELP: &str = help!(
    "The node queries the other members too. Members that do not answer are named, and their \
     clients are not shown. `ls` then exits with 69, and `show` if the holder is not known. So do \
     both at a node that cannot know: it is in no view, or waits for leases of before a crash.",
    "0 success"
);

/// The end of the help of `verify`.
pub(crate) const VERIFY_HELP: &str = help!(
    "The node queries the other members too.",
    "0 the fencing token is the current one; 1 the fencing token is not the current one"
);

/// The end of the help of `break`.
pub(crate) const BREAK_HELP: &str = help!(
    "The holder's command is stopped, and the lock is free when it has released it, or when its \
     lease has expired.",
    "0 broken; 1 not held, or not confirmed"
);

/// The node to query, and the form of the output.
#[derive(Debug, Args)]
pub(crate) struct QueryArguments {
    #[command(flatten)]
    node: Selection,
    /// Print JSON, one object per line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    /// List only names that start with this prefix.
    prefix: Option<String>,
    #[command(flatten)]
    query: QueryArguments,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArguments {
    /// Name of the lock.
    name: String,
    #[command(flatten)]
    query: QueryArguments,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArguments {
    /// Name of the lock.
    name: String,
    /// Fencing token, as in LOCK_TOKEN.
    #[arg(value_parser = token)]
    fencing_token: u64,
    #[command(flatten)]
    query: QueryArguments,
}

#[derive(Debug, Args)]
pub(crate) struct BreakArguments {
    /// Name of the lock.
    name: String,
    /// Reason: sent to the holder, and logged.
    #[arg(long)]
    reason: String,
    /// Break only the grant with this fencing token.
    #[arg(long, value_name = "TOKEN", value_parser = token)]
    fencing_token: Option<u64>,
    /// Do not ask for confirmation.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    query: QueryArguments,
}

/// A fencing token from the command line.
fn token(text: &str) -> Result<u64, String> {
    let parsed = text.parse();
    parsed.map_err(|_| format!("invalid fencing token `{text}`: use the number in LOCK_TOKEN"))
}

/// Runs a future on a runtime of this thread.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// How long a node may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A client of the selected node, the scope of that node's locks, and the node's name.
async fn client(query: &QueryArguments) -> Result<(LocksClient<Channel>, Scope, String)> {
    let target = query.node.find()?;
    let (channel, About { kind, version, scope, node }) = target.query(PATIENCE).await?;
    if kind == Kind::Etcd {
        return Err(exit::unavailable(CallError::NotANode(target.endpoint()).to_string()));
    }
    if let Some(text) = of_another_version(&version) {
        eprintln!("mutua: {text}");
    }
    // A list of locks has no maximal size.
    Ok((LocksClient::new(channel).max_decoding_message_size(usize::MAX), scope, node))
}

/// The notice if the node has another version than this program.
pub(crate) fn of_another_version(version: &str) -> Option<String> {
    let own = env!("CARGO_PKG_VERSION");
    (version != own)
        .then(|| format!("the node runs version {version}, this program is version {own}"))
}

/// The error for a call that failed.
pub(crate) fn failed(status: Status) -> anyhow::Error {
    match status.code() {
        tonic::Code::InvalidArgument => usage(status.message()),
        tonic::Code::PermissionDenied => Coded(exit::DENIED, status.message().to_owned()).into(),
        tonic::Code::Unimplemented => {
            exit::unavailable("the server is not a Mutua node and does not support this command")
        }
        _ => exit::unavailable(mutua_client::describe(&status)),
    }
}

pub(crate) fn list(arguments: &ListArguments) -> Result<ExitCode> {
    let prefix = arguments.prefix.clone().unwrap_or_default().into_bytes();
    block_on(async {
        let request = v1::ListRequest { prefix, ..Default::default() };
        let (mut client, scope, node) = client(&arguments.query).await?;
        let response = client.list(request).await.map_err(failed)?;
        let v1::ListResponse { locks, suspended: stopped, unanswered, .. } = response.into_inner();
        if arguments.query.json {
            locks.iter().for_each(|lock| println!("{}", as_json(lock, &scope)));
        } else {
            print_table(&locks, arguments.prefix.as_deref(), &scope, &unanswered);
        }
        match unanswered.contains(&node) {
            true => eprintln!("mutua: {}", unknown(&stopped)),
            false => report_suspension(&stopped),
        }
        if let Some(text) = missing(&unanswered, &node) {
            eprintln!("mutua: {text}");
        }
        Ok(known(unanswered.is_empty()))
    })
}

pub(crate) fn show(arguments: &ShowArguments) -> Result<ExitCode> {
    check_name(&arguments.name)?;
    block_on(async {
        let prefix = arguments.name.clone().into_bytes();
        let request = v1::ListRequest { prefix, exact: true, after: None };
        let (mut client, scope, node) = client(&arguments.query).await?;
        let response = client.list(request).await.map_err(failed)?;
        let v1::ListResponse { locks, suspended: stopped, .. } = response.into_inner();
        let is_known = |lock: &v1::Lock| lock.holder.is_some() || lock.unanswered.is_empty();
        let all_known = locks.iter().all(is_known);
        let cannot_know = !all_known && locks.iter().any(|lock| lock.unanswered.contains(&node));
        for lock in locks {
            print(&lock, &scope, &node, arguments.query.json);
        }
        match cannot_know {
            true => eprintln!("mutua: {}: {}", arguments.name, unknown(&stopped)),
            false => report_suspension(&stopped),
        }
        Ok(known(all_known))
    })
}

/// Success if everything is known; else a member did not answer.
fn known(known: bool) -> ExitCode {
    if known { ExitCode::SUCCESS } else { ExitCode::from(exit::UNAVAILABLE) }
}

pub(crate) fn watch(arguments: &ShowArguments) -> Result<ExitCode> {
    check_name(&arguments.name)?;
    block_on(async {
        // The node must meet what the options require of it.
        let (_, scope, node) = client(&arguments.query).await?;
        let target = arguments.query.node.find()?;
        let mut options = Options::new([target.endpoint()]).owner(super::lock::owner());
        if let Some(cluster) = scope.cluster() {
            options = options.cluster(cluster);
        }
        let client = options.connect().await.map_err(|error| exit::not_connected(&error))?;
        let mut watch = client.lock(&arguments.name).watch();
        let mut last = None;
        loop {
            // If its node is lost, the next state comes from another member.
            let lock = watch.next_state().await.map_err(|error| match error {
                CallError::Failed(status) => failed(*status),
                error => exit::unavailable(error.to_string()),
            })?;
            let clients = clients(&lock);
            if last.as_ref() != Some(&clients) {
                print(&lock, &scope, &node, arguments.query.json);
                last = Some(clients);
            }
        }
    })
}

/// What a watch reports of a lock: another member may repeat it.
fn clients(lock: &v1::Lock) -> impl PartialEq + use<> {
    let client = |entry: &v1::Entry| {
        (entry.session, entry.fencing_token, entry.value.clone(), entry.custody, entry.node.clone())
    };
    let holder = lock.holder.as_ref().map(client);
    let waiting: Vec<_> = lock.waiting.iter().map(client).collect();
    (holder, waiting, lock.left_out, lock.unanswered.clone())
}

/// Why the node that was asked does not say what is held. It is in its own list of members whose
/// clients may hold locks.
fn unknown(why: &str) -> String {
    format!("unknown: this node cannot know now: {why}")
}

fn report_suspension(why: &str) {
    if !why.is_empty() {
        eprintln!("mutua: grants are suspended: {why}");
    }
}

fn print(lock: &v1::Lock, scope: &Scope, node: &str, json: bool) {
    match json {
        true => println!("{}", as_json(lock, scope)),
        false => println!("{}\n  scope: {}", text(lock, node), plain(&scope.to_string())),
    }
}

pub(crate) fn verify(arguments: &VerifyArguments) -> Result<ExitCode> {
    check_name(&arguments.name)?;
    block_on(async {
        let name = arguments.name.clone().into_bytes();
        let request = v1::VerifyRequest { name, fencing_token: arguments.fencing_token };
        let (mut client, ..) = client(&arguments.query).await?;
        let response = client.verify(request).await.map_err(failed)?;
        let v1::VerifyResponse { current, last_fencing_token: last } = response.into_inner();
        let token = arguments.fencing_token;
        if arguments.query.json {
            let token = fencing_token_json(token);
            let name = &arguments.name;
            println!("{}", json!({ "name": name, "fencing_token": token, "current": current }));
        } else if !current {
            let last = match last {
                0 => "the lock is not held".to_owned(),
                last => format!("the last one granted is {last}"),
            };
            eprintln!("mutua: {}: fencing token {token} is not current: {last}", arguments.name);
        }
        Ok(match current {
            true => ExitCode::SUCCESS,
            false => ExitCode::from(1),
        })
    })
}

pub(crate) fn break_grant(arguments: &BreakArguments) -> Result<ExitCode> {
    check_name(&arguments.name)?;
    if arguments.reason.trim().is_empty() {
        return Err(usage("--reason is empty: give the reason"));
    }
    block_on(async {
        let (mut client, _, node) = client(&arguments.query).await?;
        let name = arguments.name.clone().into_bytes();
        let request = v1::ListRequest { prefix: name.clone(), exact: true, after: None };
        let list = client.list(request).await.map_err(failed)?.into_inner();
        let seen = list.locks.into_iter().next().unwrap_or_default();
        let Some(holder) = seen.holder else {
            let nothing = v1::BreakResponse::default();
            let token = arguments.fencing_token;
            let code = report_broken(arguments, token, &nothing, &seen.unanswered);
            if seen.unanswered.contains(&node) {
                eprintln!("mutua: {}: {}", arguments.name, unknown(&list.suspended));
            }
            return Ok(code);
        };
        if !arguments.yes && !confirm(&arguments.name, &holder)? {
            return Ok(ExitCode::from(1));
        }
        // Break the grant that was shown, not that of a later holder.
        let fence = arguments.fencing_token.unwrap_or(holder.fencing_token);
        let (reason, by) = (arguments.reason.clone(), super::lock::owner());
        let request = v1::BreakRequest { name, fencing_token: fence, reason, by };
        let response = client.r#break(request).await.map_err(failed)?;
        Ok(report_broken(arguments, Some(fence), &response.into_inner(), &[]))
    })
}

/// Reports the grant that was broken. If none was, `token` is the one to break, if it was known:
/// a later holder has another.
fn report_broken(
    arguments: &BreakArguments,
    token: Option<u64>,
    response: &v1::BreakResponse,
    unanswered: &[String],
) -> ExitCode {
    let (name, free_within_ms) = (&arguments.name, response.quarantine_ms);
    let broken = response.broken.as_ref();
    if arguments.query.json {
        let report = json!({
            "name": name,
            "broken": broken.map(entry_json),
            "free_within_ms": free_within_ms,
            "unanswered": unanswered,
        });
        println!("{report}");
    } else if let Some(broken) = broken {
        println!(
            "broken: was held by {}; free when the holder has released it, in {} at the latest",
            holder_text(broken),
            ago(free_within_ms)
        );
    }
    if broken.is_some() {
        return ExitCode::SUCCESS;
    }
    if !unanswered.is_empty() {
        let names = unanswered.join(", ");
        eprintln!(
            "mutua: {name}: nothing was broken: {names} did not answer or cannot know now, and no \
             other node has the holder"
        );
        return ExitCode::from(exit::UNAVAILABLE);
    }
    match token {
        Some(token) => eprintln!("mutua: {name}: not held with fencing token {token}"),
        None => eprintln!("mutua: {name}: not held"),
    }
    ExitCode::from(1)
}

fn confirm(name: &str, holder: &v1::Entry) -> Result<bool> {
    if !std::io::stdin().is_terminal() {
        return Err(usage("standard input is not a terminal: confirm with --yes"));
    }
    let (holder, time) = (holder_text(holder), ago(holder.for_ms));
    eprint!("{}: held by {holder} for {time}; break it? [y/N] ", plain(name));
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(answer.trim().eq_ignore_ascii_case("y"))
}

#[cfg(test)]
mod tests {
    use super::of_another_version;

    #[test]
    fn a_node_of_another_version_is_reported() {
        assert_eq!(of_another_version(env!("CARGO_PKG_VERSION")), None);
        let text = of_another_version("9.9.9").expect("a notice");
        assert!(text.contains("9.9.9") && text.contains(env!("CARGO_PKG_VERSION")), "{text}");
    }
}
