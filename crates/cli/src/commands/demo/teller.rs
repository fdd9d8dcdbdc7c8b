//! One process of the bank.

use std::{ffi::OsString, fs, path::Path, process::ExitCode, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use mutua_lab::plot::Hold;
use mutua_node::{Config, MemberConfig, Node};

/// The first argument of a teller process.
pub(super) const ARGUMENT: &str = "__teller";

/// The time between the read and the write.
const THINKING: Duration = Duration::from_millis(4);

/// Parses a line of a teller: the times of a read and of its write.
pub(super) fn stay(row: usize, line: &str) -> Option<Hold> {
    let (from, to) = line.split_once(' ')?;
    Some(Hold { row, from: from.parse().ok()?, to: to.parse().ok()? })
}

/// Runs this process as a teller.
pub(super) fn main(arguments: &[OsString]) -> ExitCode {
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
    let [_, directory, index, deposits, amount, locked, addresses @ ..] = words else {
        bail!("{ARGUMENT} is internal to mutua")
    };
    let directory = Path::new(directory);
    let (index, deposits) = (index.parse()?, deposits.parse::<u64>()?);
    let amount = amount.parse()?;
    let account = directory.join("account");
    let node = join(directory, index, addresses).await?;
    // All start together, in both runs.
    node.ready().await;
    for _ in 0..deposits {
        if locked == "true" {
            let guard = node.lock("account").acquire().await?;
            deposit(&account, amount, Some(guard.fencing_token().number())).await?;
        } else {
            deposit(&account, amount, None).await?;
        }
    }
    tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await??;
    Ok(())
}

async fn join(directory: &Path, index: usize, addresses: &[String]) -> Result<Node> {
    let name = |index: usize| format!("teller-{index}");
    let member =
        |(index, address): (usize, &String)| MemberConfig::new(name(index), address.clone());
    let data = directory.join(name(index));
    let config = Config {
        cluster: "bank".to_owned(),
        node: name(index),
        members: addresses.iter().enumerate().map(member).collect(),
        ..Config::alone(data)
    };
    Ok(Node::start(config).await?)
}

/// Reads, thinks, writes. A fencing token is compared with that of the last writer.
async fn deposit(account: &Path, amount: u64, token: Option<u64>) -> Result<()> {
    let from = mutua_client::now().nanos();
    let (balance, last) = read(account)?;
    tokio::time::sleep(THINKING).await;
    ensure!(token.is_none_or(|token| token > last), "a fencing token below {last} must not write");
    // A write to another file and a rename, so that no process reads a partial write.
    let new = account.with_extension(std::process::id().to_string());
    fs::write(&new, format!("{} {}", balance + amount, token.unwrap_or(last)))?;
    fs::rename(&new, account)?;
    println!("{from} {}", mutua_client::now().nanos());
    Ok(())
}

/// The balance, and the fencing token of its writer.
pub(super) fn read(account: &Path) -> Result<(u64, u64)> {
    let text = fs::read_to_string(account)?;
    let (balance, token) = text.split_once(' ').context("invalid account")?;
    Ok((balance.trim().parse()?, token.trim().parse()?))
}
