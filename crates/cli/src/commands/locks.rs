//! Looking at locks: who is inside, who waits; and taking one away.

mod words;

pub(crate) use words::{ago, entry_json, plain, token_json, who};

use std::{io::IsTerminal, process::ExitCode, time::Duration};

use anyhow::Result;
use clap::Args;
use mutua_service::{
    client::connect,
    proto::v1::{self, locks_client::LocksClient},
};
use serde_json::json;
use tonic::{Status, transport::Channel};

use crate::{
    exit::{self, usage},
    local::{Place, connect_or_start},
};
use words::{as_json, missing, print_table, text};

/// What is to be known beyond the options.
pub(crate) const HELP: &str = "\
Whichever node is asked, it asks the other members too. One that does not answer is named, and \
its clients are missing.

Exit codes: 0 done, or yes; 1 no (verify: another token is inside; break: nothing was broken); \
64 bad usage, 69 no node (a real etcd is none), or no is not known because a member did not \
answer, 77 not allowed, 78 bad configuration.";

/// Where to ask.
#[derive(Debug, Args)]
pub(crate) struct Where {
    /// A node elsewhere: unix:PATH or HOST:PORT [default: the user's node on this machine].
    #[arg(long, value_name = "ENDPOINT")]
    pub(crate) endpoint: Option<String>,
    /// Print JSON, a line for each.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    /// Only names that start with this.
    prefix: Option<String>,
    #[command(flatten)]
    at: Where,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArguments {
    /// The lock.
    name: String,
    #[command(flatten)]
    at: Where,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArguments {
    /// The lock.
    name: String,
    /// The token, as in LOCK_TOKEN.
    token: u64,
    #[command(flatten)]
    at: Where,
}

#[derive(Debug, Args)]
pub(crate) struct BreakArguments {
    /// The lock.
    name: String,
    /// Why; whoever is inside is told, and it is logged.
    #[arg(long)]
    reason: String,
    /// Only if this token is inside.
    #[arg(long)]
    token: Option<u64>,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    at: Where,
}

/// Runs something that waits.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// How long a node may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

async fn client(at: &Where) -> Result<LocksClient<Channel>> {
    let channel = match &at.endpoint {
        Some(endpoint) => {
            let connected = tokio::time::timeout(PATIENCE, connect(endpoint)).await;
            let connected = connected.map_err(|_| exit::unavailable("the node does not answer"))?;
            connected.map_err(|error| exit::not_connected(&error))?
        }
        None => connect_or_start(&Place::find()?).await?,
    };
    let client = LocksClient::new(channel);
    // A list is as long as it is.
    let mut client = client.max_decoding_message_size(usize::MAX);
    let about = tokio::time::timeout(PATIENCE, client.about(v1::AboutRequest {})).await;
    let about = about.map_err(|_| exit::unavailable("the node does not answer"))?;
    let version = about.map_err(failed)?.into_inner().version;
    if let Some(text) = of_another_version(&version) {
        eprintln!("mutua: {text}");
    }
    Ok(client)
}

/// What to say to who asks a node of another version.
pub(crate) fn of_another_version(version: &str) -> Option<String> {
    let own = env!("CARGO_PKG_VERSION");
    (version != own).then(|| format!("the node is version {version}, and this is version {own}"))
}

fn failed(status: Status) -> anyhow::Error {
    match status.code() {
        tonic::Code::InvalidArgument => usage(status.message()),
        tonic::Code::Unimplemented => {
            exit::unavailable("whoever answers there is no node of mutua and cannot say")
        }
        _ => exit::unavailable(status.message()),
    }
}

pub(crate) fn list(arguments: &ListArguments) -> Result<ExitCode> {
    let prefix = arguments.prefix.clone().unwrap_or_default().into_bytes();
    block_on(async {
        let request = v1::ListRequest { prefix, ..Default::default() };
        let response = client(&arguments.at).await?.list(request).await.map_err(failed)?;
        let v1::ListResponse { locks, stopped, unanswered, .. } = response.into_inner();
        if arguments.at.json {
            locks.iter().for_each(|lock| println!("{}", as_json(lock)));
        } else {
            print_table(&locks);
        }
        say_stopped(&stopped);
        if let Some(text) = missing(&unanswered) {
            eprintln!("mutua: {text}");
        }
        Ok(ExitCode::SUCCESS)
    })
}

pub(crate) fn show(arguments: &ShowArguments) -> Result<ExitCode> {
    block_on(async {
        let prefix = arguments.name.clone().into_bytes();
        let request = v1::ListRequest { prefix, exact: true, after: None };
        let response = client(&arguments.at).await?.list(request).await.map_err(failed)?;
        let v1::ListResponse { locks, stopped, .. } = response.into_inner();
        for lock in locks {
            print(&lock, arguments.at.json);
        }
        say_stopped(&stopped);
        Ok(ExitCode::SUCCESS)
    })
}

pub(crate) fn watch(arguments: &ShowArguments) -> Result<ExitCode> {
    block_on(async {
        let request = v1::WatchRequest { name: arguments.name.clone().into_bytes() };
        let response = client(&arguments.at).await?.watch(request).await.map_err(failed)?;
        let mut states = response.into_inner();
        while let Some(lock) = states.message().await.map_err(failed)? {
            print(&lock, arguments.at.json);
        }
        Err(exit::unavailable("the node ended"))
    })
}

fn say_stopped(why: &str) {
    if !why.is_empty() {
        eprintln!("mutua: nothing is granted: {why}");
    }
}

fn print(lock: &v1::Lock, json: bool) {
    match json {
        true => println!("{}", as_json(lock)),
        false => println!("{}", text(lock)),
    }
}

pub(crate) fn verify(arguments: &VerifyArguments) -> Result<ExitCode> {
    block_on(async {
        let name = arguments.name.clone().into_bytes();
        let request = v1::VerifyRequest { name, fence: arguments.token };
        let response = client(&arguments.at).await?.verify(request).await.map_err(failed)?;
        let current = response.into_inner().current;
        if arguments.at.json {
            let (name, token) = (&arguments.name, token_json(arguments.token));
            println!("{}", json!({ "name": name, "token": token, "current": current }));
        }
        Ok(match current {
            true => ExitCode::SUCCESS,
            false => ExitCode::from(1),
        })
    })
}

pub(crate) fn break_grant(arguments: &BreakArguments) -> Result<ExitCode> {
    if arguments.reason.trim().is_empty() {
        return Err(usage("--reason must say why"));
    }
    block_on(async {
        let mut client = client(&arguments.at).await?;
        let name = arguments.name.clone().into_bytes();
        let request = v1::ListRequest { prefix: name.clone(), exact: true, after: None };
        let seen = client.list(request).await.map_err(failed)?.into_inner().locks;
        let seen = seen.into_iter().next().unwrap_or_default();
        let Some(holder) = seen.holder else {
            let nothing = v1::BreakResponse::default();
            return Ok(tell_broken(arguments, arguments.token, &nothing, &seen.unanswered));
        };
        if !arguments.yes && !confirm(&holder)? {
            return Ok(ExitCode::from(1));
        }
        // What was seen is what is broken: not whoever has got in since.
        let fence = arguments.token.unwrap_or(holder.fence);
        let (reason, by) = (arguments.reason.clone(), super::lock::owner());
        let request = v1::BreakRequest { name, fence, reason, by };
        let response = client.r#break(request).await.map_err(failed)?;
        Ok(tell_broken(arguments, Some(fence), &response.into_inner(), &[]))
    })
}

/// Says what was broken. If nothing was, `token` is what should have been, if any was known:
/// whoever has got in since is another one.
fn tell_broken(
    arguments: &BreakArguments,
    token: Option<u64>,
    response: &v1::BreakResponse,
    unanswered: &[String],
) -> ExitCode {
    let (name, free_within_ms) = (&arguments.name, response.quarantine_ms);
    let broken = response.broken.as_ref();
    if arguments.at.json {
        let told = json!({
            "name": name,
            "broken": broken.map(entry_json),
            "free_within_ms": free_within_ms,
            "unanswered": unanswered,
        });
        println!("{told}");
    } else if let Some(broken) = broken {
        println!(
            "taken away from {}; others get in when it has left, in {} at the latest",
            who(broken),
            ago(free_within_ms)
        );
    }
    if broken.is_some() {
        return ExitCode::SUCCESS;
    }
    if !unanswered.is_empty() {
        let names = unanswered.join(", ");
        eprintln!("mutua: nothing was broken: {names} did not answer, and nobody else is inside");
        return ExitCode::from(exit::UNAVAILABLE);
    }
    match token {
        Some(token) => eprintln!("mutua: token {token} is not inside {name}"),
        None => eprintln!("mutua: nobody is inside {name}"),
    }
    ExitCode::from(1)
}

fn confirm(holder: &v1::Entry) -> Result<bool> {
    if !std::io::stdin().is_terminal() {
        return Err(usage("without a terminal to ask on, --yes says that it is meant"));
    }
    eprint!("inside is {} since {}; take it away? [y/N] ", who(holder), ago(holder.for_ms));
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(answer.trim().eq_ignore_ascii_case("y"))
}

#[cfg(test)]
mod tests {
    use super::of_another_version;

    #[test]
    fn a_node_of_another_version_is_worth_a_word() {
        assert_eq!(of_another_version(env!("CARGO_PKG_VERSION")), None);
        let text = of_another_version("9.9.9").expect("a word");
        assert!(text.contains("9.9.9") && text.contains(env!("CARGO_PKG_VERSION")), "{text}");
    }
}
