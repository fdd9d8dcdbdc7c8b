//! `cargo xtask test`: all tests of the workspace, two programs of tests at a time.
//!
//! `cargo test` runs one program after the other, and many of them mostly wait: for a lease to
//! expire, a node to start, a view to be decided. Two at a time take a third less.

use std::{
    collections::VecDeque,
    fs::{self, File},
    io::Write,
    path::PathBuf,
    process::{Child, Command, ExitCode, ExitStatus, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Programs that run at the same time.
const LANES: usize = 2;

/// The longest program takes some five minutes. One that hangs must not keep the gate until its own
/// limit, which would say nothing of the cause.
const LIMIT: Duration = Duration::from_secs(20 * 60);

/// A program of tests.
#[derive(Debug)]
struct Program {
    name: String,
    file: PathBuf,
    /// The directory of its package, in which cargo would run it.
    package: PathBuf,
}

/// Builds and runs all tests; success if none failed.
///
/// # Errors
///
/// If they do not build, or a program cannot be run.
pub fn run() -> Result<ExitCode> {
    let mut programs = build()?;
    // Those of the command line take longest: one that begins last would run alone.
    programs.sort_by_key(|program| !program.package.ends_with("cli"));
    let (count, left) = (programs.len(), Mutex::new(VecDeque::from(programs)));
    let failed = Mutex::new(Vec::new());
    let lane = || -> Result<()> {
        while let Some(program) = lock(&left).pop_front() {
            if !program.run()? {
                lock(&failed).push(program.name);
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES).map(|_| scope.spawn(lane)).collect();
        lanes.into_iter().try_for_each(|lane| lane.join().expect("a lane does not panic"))
    })?;
    let examples = cargo().args(["test", "--workspace", "--locked", "--doc"]).status()?.success();
    let mut failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    failed.extend((!examples).then(|| "examples of the documentation".to_owned()));
    if failed.is_empty() {
        println!("{count} programs of tests, and the examples of the documentation: all passed");
        return Ok(ExitCode::SUCCESS);
    }
    println!("failed: {}", failed.join(", "));
    Ok(ExitCode::FAILURE)
}

fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(crate::root());
    cargo
}

fn build() -> Result<Vec<Program>> {
    let arguments = ["test", "--workspace", "--locked", "--no-run", "--message-format=json"];
    let built = cargo().args(arguments).stderr(Stdio::inherit()).output()?;
    let text = String::from_utf8_lossy(&built.stdout);
    let messages: Vec<Value> = text
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()
        .context("cargo's output")?;
    if !built.status.success() {
        for message in &messages {
            eprint!("{}", message["message"]["rendered"].as_str().unwrap_or_default());
        }
        bail!("the tests do not build");
    }
    Ok(messages
        .iter()
        .filter(|message| message["profile"]["test"] == true)
        .filter_map(program)
        .collect())
}

fn program(message: &Value) -> Option<Program> {
    let manifest = PathBuf::from(message["manifest_path"].as_str()?);
    let package = manifest.parent()?.to_owned();
    let name = message["target"]["name"].as_str()?;
    let directory = package.file_name()?.to_string_lossy();
    Some(Program {
        name: format!("{directory}/{name}"),
        file: message["executable"].as_str()?.into(),
        package,
    })
}

impl Program {
    /// Runs it, prints what it printed when it has ended, and returns whether all passed. Its
    /// output goes to a file: a process that it leaves running would keep a pipe open.
    fn run(&self) -> Result<bool> {
        let begun = Instant::now();
        let directory = crate::root().join("target/test-output");
        fs::create_dir_all(&directory)?;
        let path = directory.join(self.name.replace('/', "-"));
        let file = File::create(&path)?;
        let mut command = Command::new(&self.file);
        command.current_dir(&self.package).env("CARGO_MANIFEST_DIR", &self.package);
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let mut child = command.spawn().with_context(|| format!("cannot run {}", self.name))?;
        let status = wait(&mut child)?;
        let output = fs::read(&path)?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "\n-- {} ({:.0} s)", self.name, begun.elapsed().as_secs_f64())?;
        out.write_all(&output)?;
        if status.is_none() {
            writeln!(out, "{} hangs: it was ended after {} s", self.name, LIMIT.as_secs())?;
        }
        Ok(status.is_some_and(|status| status.success()))
    }
}

/// Waits until the program ends; none if it was ended because it hangs.
fn wait(child: &mut Child) -> Result<Option<ExitStatus>> {
    let end = Instant::now() + LIMIT;
    while Instant::now() < end {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(Duration::from_millis(50));
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}
