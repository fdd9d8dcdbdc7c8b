//! `mutua demo bank`: what is lost without a lock, and that nothing is with one.

mod picture;
mod svg;
mod teller;

pub(crate) use teller::{ARGUMENT, main};

use std::{
    fs,
    io::{BufRead, BufReader},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};

use crate::exit::{Coded, FILE, usage};

/// Which demonstration.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    demo: Demo,
}

#[derive(Debug, Subcommand)]
enum Demo {
    /// Several processes, each with a node, pay into one account, which is a file: once without the
    /// lock and once with it.
    Bank {
        /// How many processes.
        #[arg(long, default_value_t = 4)]
        processes: usize,
        /// How many deposits each makes.
        #[arg(long, default_value_t = 5)]
        deposits: u64,
        /// Draw both runs as SVG too.
        #[arg(long, value_name = "FILE")]
        picture: Option<PathBuf>,
    },
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let Demo::Bank { processes, deposits, picture } = &arguments.demo;
    let (processes, deposits) = (*processes, *deposits);
    if !(1..=16).contains(&processes) || !(1..=1000).contains(&deposits) {
        return Err(usage("--processes is 1 to 16 and --deposits is 1 to 1000"));
    }
    let expected = processes as u64 * deposits * teller::AMOUNT;
    let mut runs = Vec::new();
    for locked in [false, true] {
        let (stays, balance) = play(processes, deposits, locked)?;
        println!("{} the lock:", if locked { "with" } else { "without" });
        print!("{}", picture::draw(&stays, processes));
        let run = Run { locked, stays, expected, balance };
        println!("  paid in {expected}, the account has {balance}, lost {}\n", run.lost());
        runs.push(run);
    }
    if let Some(file) = picture {
        fs::write(file, svg::draw(&runs, processes))
            .map_err(|error| Coded(FILE, format!("{}: {error}", file.display())))?;
    }
    anyhow::ensure!(runs[1].lost() == 0, "money was lost although the lock was held");
    Ok(ExitCode::SUCCESS)
}

/// One run, and what came of it.
struct Run {
    locked: bool,
    stays: Vec<teller::Stay>,
    expected: u64,
    balance: u64,
}

impl Run {
    fn lost(&self) -> u64 {
        self.expected.saturating_sub(self.balance)
    }
}

/// One run: when each process read and wrote, and the account's balance in the end.
fn play(processes: usize, deposits: u64, locked: bool) -> Result<(Vec<teller::Stay>, u64)> {
    let place = Scratch::new()?;
    let account = place.0.join("account");
    fs::write(&account, "0 0")?;
    let addresses = (0..processes).map(|_| free_address()).collect::<Result<Vec<_>>>()?;
    let start = |index: usize| -> Result<Child> {
        Command::new(std::env::current_exe()?)
            .arg(ARGUMENT)
            .arg(&place.0)
            .args([index.to_string(), deposits.to_string(), locked.to_string()])
            .args(&addresses)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("a teller cannot be started")
    };
    let mut tellers = Tellers((0..processes).map(start).collect::<Result<_>>()?);
    let mut stays = Vec::new();
    for (index, child) in tellers.0.iter_mut().enumerate() {
        let output = BufReader::new(child.stdout.take().context("no output")?);
        for line in output.lines().take(usize::try_from(deposits)?) {
            stays.push(teller::Stay::read(index, &line?).context("a teller failed")?);
        }
    }
    anyhow::ensure!(stays.len() as u64 == processes as u64 * deposits, "a teller failed");
    Ok((stays, teller::read(&account)?.0))
}

/// The processes of a run, ended with it: each stays until its input ends, since the others need
/// its node.
struct Tellers(Vec<Child>);

impl Drop for Tellers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            drop(child.stdin.take());
        }
        for child in &mut self.0 {
            let _ = child.wait();
        }
    }
}

fn free_address() -> Result<String> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}

/// A directory for one run.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self> {
        let number = mutua_service::now().nanos();
        let name = format!("mutua-bank-{}-{number}", std::process::id());
        let path = Path::new(&std::env::temp_dir()).join(name);
        fs::create_dir(&path).with_context(|| format!("{} cannot be made", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
