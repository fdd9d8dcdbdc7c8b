//! The driver: all systems in turns, round by round, each result written down at once, so that a
//! run that was stopped can go on.

use std::{
    fs,
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::{
    halves::Halves,
    meta::Meta,
    piece::{self, Lengths, Piece},
    report,
    systems::{self, System},
};

/// Measure Mutua and its peers, and write a report.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Two minutes: fewer systems, one short round.
    #[arg(long)]
    quick: bool,

    /// Only these systems, with commas between; `list` names them.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,

    /// How often everything is measured; medians are shown [default: 3, quick: 1].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: Option<u32>,

    /// Go on with what an earlier run has left in the directory.
    #[arg(long)]
    resume: bool,

    /// Stop after so many seconds, between two systems; `--resume` goes on.
    #[arg(long, value_name = "SECONDS")]
    at_most: Option<u64>,

    /// Leave out the simulator and the checker.
    #[arg(long)]
    no_halves: bool,

    /// Where results and report go.
    #[arg(long, value_name = "DIRECTORY", default_value = "out")]
    out: PathBuf,
}

/// Runs everything that is not there yet. Returns whether it is complete.
pub(crate) async fn run(options: &Options) -> Result<bool> {
    let begun = Instant::now();
    let systems = chosen(options);
    let out = &options.out;
    fs::create_dir_all(out).with_context(|| format!("cannot write to {}", out.display()))?;
    let results = options.out.join("results.jsonl");
    if !options.resume {
        for file in ["results.jsonl", "halves.json", "meta.json"] {
            let _ = fs::remove_file(options.out.join(file));
        }
    }
    let meta = options.out.join("meta.json");
    match report::read_meta(out)? {
        None => write_json(&meta, &Meta::gather(options.quick))?,
        Some(meta) if meta.quick == options.quick => {}
        Some(_) => bail!(
            "{} has a run of the other kind: resume it as it was begun, with or without --quick",
            out.display()
        ),
    }
    remove_torn_line(&results)?;
    let left = left(options, &systems, &read_pieces(&results)?);
    let over = || options.at_most.is_some_and(|most| begun.elapsed().as_secs() >= most);
    let mut complete = true;
    for (done, (round, system)) in left.iter().enumerate() {
        if over() {
            complete = false;
            break;
        }
        say_progress(begun, done, left.len(), *round, system);
        let lengths = if options.quick { Lengths::quick() } else { Lengths::full() };
        let piece = piece::measure(system, *round, &lengths).await;
        say_result(&piece);
        append(&results, &piece)?;
    }
    let halves = options.out.join("halves.json");
    if !options.no_halves && !halves.exists() && options.only.is_empty() {
        if complete && !over() {
            eprintln!("simulator and checker");
            write_json(&halves, &measure_halves(options.quick).await?)?;
        } else {
            complete = false;
        }
    }
    report::write(&options.out)?;
    if !complete {
        eprintln!("stopped by --at-most; run the same with --resume to go on");
    }
    Ok(complete)
}

impl Options {
    /// A name among those given that no system has.
    pub(crate) fn unknown(&self) -> Option<&str> {
        let known = |name: &str| systems::all().iter().any(|system| system.id == name);
        self.only.iter().map(String::as_str).find(|name| !known(name))
    }
}

fn chosen(options: &Options) -> Vec<System> {
    let wanted = |system: &System| match options.only.is_empty() {
        true => system.quick || !options.quick,
        false => options.only.contains(&system.id),
    };
    systems::all().into_iter().filter(wanted).collect()
}

/// What is not there yet: in every round all systems, beginning with another one each time, so that
/// none always follows the same.
fn left(options: &Options, systems: &[System], there: &[Piece]) -> Vec<(u32, System)> {
    let rounds = options.rounds.unwrap_or(if options.quick { 1 } else { 3 });
    let mut left = Vec::new();
    for round in 1..=rounds {
        let mut order = systems.to_vec();
        let shift = (round as usize - 1) * systems.len() / rounds as usize;
        order.rotate_left(shift);
        let missing = |system: &System| {
            !there.iter().any(|piece| piece.system == system.id && piece.round == round)
        };
        left.extend(order.into_iter().filter(missing).map(|system| (round, system)));
    }
    left
}

fn say_progress(begun: Instant, done: usize, all: usize, round: u32, system: &System) {
    let elapsed = begun.elapsed().as_secs_f64();
    let rest = match done {
        0 => String::new(),
        _ => format!(", about {:.0} s left", elapsed / done as f64 * (all - done) as f64),
    };
    eprint!("[{:>3}/{all}{rest}] round {round}: {:<34} ", done + 1, system.title);
    let _ = std::io::stderr().flush();
}

fn say_result(piece: &Piece) {
    let handovers = piece.empty.values().next().map(|one| one.handovers_per_s);
    let pair = piece.again.as_ref().map(|pairs| pairs.p50_us);
    let figure = |value: Option<f64>, unit: &str| {
        value.map_or(String::new(), |value| format!("{} {unit}  ", report::number(value)))
    };
    let (handovers, pair) = (figure(handovers, "hand-overs/s"), figure(pair, "us a pair"));
    eprintln!("{handovers}{pair}{}", piece.errors.join("; "));
}

/// In a process of its own, which ends with this one.
async fn measure_halves(quick: bool) -> Result<Halves> {
    let mut command = tokio::process::Command::new(std::env::current_exe()?);
    command.arg("halves").kill_on_drop(true);
    if quick {
        command.arg("--quick");
    }
    let limit = Duration::from_secs(300);
    let output = tokio::time::timeout(limit, command.output()).await;
    let output = output.context("the simulator and the checker took too long")??;
    serde_json::from_slice(&output.stdout).with_context(|| {
        format!("no figures of the other halves: {}", String::from_utf8_lossy(&output.stderr))
    })
}

fn append(path: &Path, piece: &Piece) -> Result<()> {
    let mut file = fs::File::options().create(true).append(true).open(path)?;
    let line = serde_json::to_string(piece)? + "\n";
    file.write_all(line.as_bytes())?;
    Ok(())
}

/// Takes a last line off the file that was not written to its end, since the next one would be
/// added to it.
fn remove_torn_line(path: &Path) -> Result<()> {
    let bytes = read_bytes(path)?;
    let (whole, torn) = torn(&bytes);
    if !torn.is_empty() {
        let file = fs::File::options().write(true).open(path)?;
        file.set_len(whole.len() as u64)?;
        say_torn(path, torn);
    }
    Ok(())
}

/// The lines that were written to their end, and what follows them.
fn torn(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
    bytes.split_at(end)
}

fn say_torn(path: &Path, torn: &[u8]) {
    let (path, length) = (path.display(), torn.len());
    eprintln!("{path}: the last line was not written to its end; its {length} bytes are dropped");
}

/// All of a file; nothing if there is none.
fn read_bytes(path: &Path) -> Result<Vec<u8>> {
    match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        read => read.with_context(|| format!("cannot read {}", path.display())),
    }
}

fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<()> {
    fs::write(path, serde_json::to_string_pretty(value)? + "\n")?;
    Ok(())
}

/// What earlier runs have left; none if there is no file. A last line that was not written to its
/// end is left out.
pub(crate) fn read_pieces(path: &Path) -> Result<Vec<Piece>> {
    let bytes = read_bytes(path)?;
    let (whole, torn) = torn(&bytes);
    if !torn.is_empty() {
        say_torn(path, torn);
    }
    let lines = whole.split_inclusive(|&byte| byte == b'\n');
    let parse = |line| serde_json::from_slice(line).context("results of another version");
    lines.map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(system: &str) -> Piece {
        Piece { system: system.to_owned(), ..Piece::default() }
    }

    #[test]
    fn a_run_that_was_torn_off_in_a_line_goes_on_before_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("results.jsonl");
        let systems = || -> Vec<_> {
            let pieces = read_pieces(&path).expect("they can be read");
            pieces.into_iter().map(|piece| piece.system).collect()
        };
        assert_eq!(systems(), Vec::<String>::new());
        append(&path, &piece("one")).expect("written");
        append(&path, &piece("two")).expect("written");
        let whole = fs::read(&path).expect("a file");
        for torn in [1, 2, 30] {
            fs::write(&path, &whole[..whole.len() - torn]).expect("torn");
            assert_eq!(systems(), ["one"], "a report is made of what is whole");
            remove_torn_line(&path).expect("a file");
            append(&path, &piece("again")).expect("written");
            assert_eq!(systems(), ["one", "again"]);
        }
    }

    #[test]
    fn results_of_another_version_are_not_dropped() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("results.jsonl");
        fs::write(&path, "{\"other\": 1}\n").expect("written");
        remove_torn_line(&path).expect("no file");
        assert!(read_pieces(&path).is_err());
    }
}
