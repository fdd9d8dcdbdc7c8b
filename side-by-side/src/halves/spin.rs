//! Spin: a Promela model becomes a C program, which explores it.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

/// A program that Spin has made.
pub(super) struct Program {
    directory: TempDir,
}

impl Program {
    pub(super) fn build(algorithm: &str, entries: u8) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let model = models().join(format!("{algorithm}.pml"));
        let define = format!("-DENTRIES={entries}");
        run(directory.path(), Command::new("spin").arg("-a").arg(define).arg(model))?;
        // Safety is all that is looked at, so it needs no memory for cycles.
        let mut gcc = Command::new("gcc");
        gcc.args(["-w", "-O3", "-DSAFETY", "-DNOFAIR", "-DMEMLIM=3000", "-o", "pan", "pan.c"]);
        run(directory.path(), &mut gcc)?;
        Ok(Self { directory })
    }

    /// States and seconds.
    pub(super) fn run(&self) -> Result<(u64, f64)> {
        let begun = Instant::now();
        let mut pan = Command::new(self.directory.path().join("pan"));
        let text = run(self.directory.path(), pan.args(["-m100000", "-w22"]))?;
        let seconds = begun.elapsed().as_secs_f64();
        ensure!(text.contains("errors: 0"), "Spin found an error: {text}");
        let line = text.lines().find(|line| line.ends_with("states, stored"));
        let line =
            line.with_context(|| format!("Spin did not print the number of states: {text}"))?;
        let states = line.split_whitespace().next().unwrap_or_default().parse::<f64>()?;
        // From a million on it may write an exponent.
        Ok((states as u64, seconds))
    }
}

fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("spin")
}

fn run(directory: &Path, command: &mut Command) -> Result<String> {
    let name = format!("{:?}", command.get_program());
    let output =
        command.current_dir(directory).output().with_context(|| format!("{name} is missing"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    ensure!(output.status.success(), "{name} failed: {}", text(&output.stderr));
    Ok(text(&output.stdout))
}
