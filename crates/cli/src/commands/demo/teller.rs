//! One of the bank's processes.

use std::{ffi::OsString, fs, path::Path, process::ExitCode, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use mutua_node::{Config, MemberConfig, Node};

/// The first argument of such a process.
pub(crate) const ARGUMENT: &str = "__teller";

/// What is paid in at a time.
pub(super) const AMOUNT: u64 = 100;

/// How long a teller thinks between reading and writing.
const THINKING: Duration = Duration::from_millis(4);

/// From reading the account to having written it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stay {
    pub(super) process: usize,
    pub(super) from: u64,
    pub(super) to: u64,
}

impl Stay {
    /// From a teller's line.
    pub(super) fn read(process: usize, line: &str) -> Option<Self> {
        let (from, to) = line.split_once(' ')?;
        Some(Self { process, from: from.parse().ok()?, to: to.parse().ok()? })
    }
}

/// Runs this process as a teller.
pub(crate) fn main(arguments: &[OsString]) -> ExitCode {
    let words: Vec<_> = arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    match crate::commands::block_on(work(&words)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mutua: a teller: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn work(words: &[String]) -> Result<()> {
    let [_, place, index, deposits, locked, addresses @ ..] = words else {
        bail!("this is for mutua's own use")
    };
    let (place, index, deposits) = (Path::new(place), index.parse()?, deposits.parse::<u64>()?);
    let account = place.join("account");
    let node = join(place, index, addresses).await?;
    // All begin together, in both runs.
    node.ready().await;
    for _ in 0..deposits {
        if locked == "true" {
            let guard = node.lock("account").acquire().await?;
            deposit(&account, Some(guard.fence().number())).await?;
        } else {
            deposit(&account, None).await?;
        }
    }
    tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await??;
    Ok(())
}

async fn join(place: &Path, index: usize, addresses: &[String]) -> Result<Node> {
    let name = |index: usize| format!("teller-{index}");
    let member = |(index, address): (usize, &String)| MemberConfig {
        name: name(index),
        address: address.clone(),
    };
    let data = place.join(name(index));
    let config = Config {
        cluster: "bank".to_owned(),
        node: name(index),
        members: addresses.iter().enumerate().map(member).collect(),
        ..Config::alone(data)
    };
    Ok(Node::start(config).await?)
}

/// Reads, thinks, writes. Who writes with a fence compares it with that of the last writer.
async fn deposit(account: &Path, fence: Option<u64>) -> Result<()> {
    let from = mutua_service::now().nanos();
    let (balance, last) = read(account)?;
    tokio::time::sleep(THINKING).await;
    ensure!(fence.is_none_or(|fence| fence > last), "an older fence than {last} must not write");
    // Written beside and moved, so that nobody reads half a number.
    let new = account.with_extension(std::process::id().to_string());
    fs::write(&new, format!("{} {}", balance + AMOUNT, fence.unwrap_or(last)))?;
    fs::rename(&new, account)?;
    println!("{from} {}", mutua_service::now().nanos());
    Ok(())
}

/// The balance, and the fence of who wrote it.
pub(super) fn read(account: &Path) -> Result<(u64, u64)> {
    let text = fs::read_to_string(account)?;
    let (balance, fence) = text.split_once(' ').context("an account is two numbers")?;
    Ok((balance.trim().parse()?, fence.trim().parse()?))
}
