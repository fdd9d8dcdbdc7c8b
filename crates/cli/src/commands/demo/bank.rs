//! `mutua demo bank`: lost updates without a lock, and none with one.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, ExitCode, Stdio},
};

use anyhow::{Context, Result};
use clap::Args;
use mutua_host::free_addresses;
use mutua_lab::plot::{Hold, Panel, Timeline};

use super::{Scratch, picture, teller};
use crate::exit::usage;

/// The end of the help.
pub(crate) const HELP: &str = "\
Exit codes: 0 no update was lost with the lock; 1 an update was lost with the lock, or a process \
failed; 64 bad usage; 73 a file cannot be written.";

/// Let several processes, each with a node, pay into one account, which is a file: once without the
/// lock and once with it.
///
/// The example of textbooks, an account of 1000 and two deposits of 10000 at once, is
/// `--processes 2 --deposits 1 --initial 1000 --amount 10000`: 21000 is right, and 11000 with a
/// lost update.
#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Number of processes, 1 to 16.
    #[arg(long, default_value_t = 4)]
    processes: usize,
    /// Number of deposits per process, 1 to 1000.
    #[arg(long, default_value_t = 5)]
    deposits: u64,
    /// Balance at the start, 0 to 10^12.
    #[arg(long, value_name = "AMOUNT", default_value_t = 0,
          value_parser = clap::value_parser!(u64).range(..=MOST))]
    initial: u64,
    /// Amount of a deposit, 1 to 10^12.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=MOST))]
    amount: u64,
    /// Also draw both runs to this file: .svg, .png or .pdf.
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
}

/// The greatest amount, so that no balance overflows.
const MOST: u64 = 1_000_000_000_000;

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let &Arguments { processes, deposits, initial, amount, ref picture } = arguments;
    if !(1..=16).contains(&processes) || !(1..=1000).contains(&deposits) {
        return Err(usage("--processes must be 1 to 16, and --deposits 1 to 1000"));
    }
    if let Some(file) = picture {
        crate::picture::check_svg(file)?;
    }
    let expected = processes as u64 * deposits * amount;
    let mut runs = Vec::new();
    for locked in [false, true] {
        let (stays, balance) = play(arguments, locked)?;
        println!("{} the lock:", if locked { "with" } else { "without" });
        print!("{}", picture::draw(&stays, processes));
        let run = Run { locked, stays, initial, expected, balance };
        let had = if initial > 0 { format!("had {initial}, ") } else { String::new() };
        println!("  {had}paid in {expected}, balance {balance}, lost {}\n", run.lost());
        runs.push(run);
    }
    if let Some(file) = picture {
        crate::picture::write_svg(file, &timeline(&runs, processes).svg())?;
    }
    anyhow::ensure!(runs[1].lost() == 0, "an update was lost although the lock was held");
    Ok(ExitCode::SUCCESS)
}

/// One run and its result.
struct Run {
    locked: bool,
    stays: Vec<Hold>,
    initial: u64,
    expected: u64,
    balance: u64,
}

impl Run {
    fn lost(&self) -> u64 {
        (self.initial + self.expected).saturating_sub(self.balance)
    }
}

/// Both runs as a picture.
fn timeline(runs: &[Run], processes: usize) -> Timeline {
    let panel = |run: &Run| {
        let how = if run.locked { "with the lock" } else { "without the lock" };
        let (paid, has, lost) = (run.expected, run.balance, run.lost());
        let title = format!("{how}: paid in {paid}, balance {has}, lost {lost}");
        Panel { title, holds: run.stays.clone() }
    };
    Timeline {
        title: "Deposits into one account, without and with a lock".to_owned(),
        rows: (0..processes).map(|process| format!("teller {process}")).collect(),
        panels: runs.iter().map(panel).collect(),
        caption: "from the read to the write; red: more than one at a time".to_owned(),
    }
}

/// One run: the times of each process's reads and writes, and the final balance.
fn play(arguments: &Arguments, locked: bool) -> Result<(Vec<Hold>, u64)> {
    let &Arguments { processes, deposits, initial, amount, .. } = arguments;
    let scratch = Scratch::new("bank")?;
    let account = scratch.path().join("account");
    fs::write(&account, format!("{initial} 0"))?;
    let addresses = free_addresses(processes)?.iter().map(ToString::to_string).collect::<Vec<_>>();
    let start = |index: usize| -> Result<Child> {
        Command::new(std::env::current_exe()?)
            .arg(teller::ARGUMENT)
            .arg(scratch.path())
            .args([index.to_string(), deposits.to_string(), amount.to_string()])
            .arg(locked.to_string())
            .args(&addresses)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a teller")
    };
    let mut tellers = Tellers((0..processes).map(start).collect::<Result<_>>()?);
    let mut stays = Vec::new();
    for (index, child) in tellers.0.iter_mut().enumerate() {
        let output = BufReader::new(child.stdout.take().context("no output")?);
        for line in output.lines().take(usize::try_from(deposits)?) {
            stays.push(teller::stay(index, &line?).context("a teller failed")?);
        }
    }
    anyhow::ensure!(stays.len() as u64 == processes as u64 * deposits, "a teller failed");
    Ok((stays, teller::read(&account)?.0))
}

/// The processes of a run, which are stopped when it is dropped: each runs until its standard input
/// is closed, since the others need its node.
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
