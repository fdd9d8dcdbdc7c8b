//! Chores of the repository, run as `cargo xtask NAME`.

use std::{
    fs,
    path::Path,
    process::{Command, ExitCode},
};

use anyhow::{Context, Result, bail};
use xtask::{
    campaign::{self, Options},
    site::Build,
};

const USAGE: &str = "usage: cargo xtask generate|docs|test|screenshots|site [--quick] [DIRECTORY]
       cargo xtask campaign [--algorithm NAME] [--faults N] [--from SEED] [--jobs N]
                            [--churn] [--real] [--sum]

  generate  Regenerate the gRPC code from the .proto files
  docs      Regenerate the tables of the documents from what `mutua` prints
  test      Run all tests, two programs of tests at a time
  site      Build the lab as a static site, by default in target/site; --quick leaves out the
            optimization of its module
  screenshots
            Take the pictures of the lab in docs/pictures, and its opening scene at 0, 5 and 12 s in
            target/screenshots, with node and chromium, after web/tests/run has installed what it
            needs
  campaign  Run simulated faults on whole nodes until each algorithm has had N (1000000), and append
            one line for each slice to docs/campaigns/simulated.txt; it goes on where the file ends.
            --churn lets members and rules change too (docs/campaigns/churn.txt), --real takes real
            processes (docs/campaigns/real.txt), as root; --jobs runs so many slices at the same
            time; --sum adds the lines up and runs nothing";

fn main() -> Result<ExitCode> {
    match std::env::args().nth(1).as_deref() {
        Some("generate") => {
            xtask::generate(&xtask::client(), &xtask::client().join("src/generated"))?;
            println!("{} is up to date", Path::new("crates/client/src/generated").display());
            Ok(ExitCode::SUCCESS)
        }
        Some("docs") => write_docs(),
        Some("test") => xtask::test::run(),
        Some("site") => write_site(),
        Some("screenshots") => write_screenshots(),
        Some("campaign") => match Options::parse(std::env::args().skip(2)) {
            Ok(options) => campaign::run(&xtask::root(), &options),
            Err(error) => {
                eprintln!("{error:#}\n{USAGE}");
                Ok(ExitCode::from(64))
            }
        },
        _ => {
            eprintln!("{USAGE}");
            Ok(ExitCode::from(64))
        }
    }
}

fn write_docs() -> Result<ExitCode> {
    let stale = xtask::docs::stale(&xtask::root(), &mutua)?;
    for document in &stale {
        fs::write(&document.path, &document.text)
            .with_context(|| format!("cannot write {}", document.path.display()))?;
        println!("{} is updated", document.path.display());
    }
    println!("{} documents were stale", stale.len());
    Ok(ExitCode::SUCCESS)
}

fn write_site() -> Result<ExitCode> {
    let mut build = Build::Optimized;
    let mut out = xtask::root().join("target/site");
    for argument in std::env::args().skip(2) {
        match argument.as_str() {
            "--quick" => build = Build::Quick,
            option if option.starts_with('-') => {
                eprintln!("unknown option `{option}`\n{USAGE}");
                return Ok(ExitCode::from(64));
            }
            directory => out = directory.into(),
        }
    }
    xtask::site::build(&xtask::root(), &out, build)?;
    println!("the site is in {}", out.display());
    Ok(ExitCode::SUCCESS)
}

fn write_screenshots() -> Result<ExitCode> {
    // The script starts the program that this builds.
    mutua(&["--version"])?;
    let status = Command::new("node")
        .arg(xtask::root().join("web/tests/screenshots.mjs"))
        .arg(xtask::root().join("docs/pictures"))
        .arg(xtask::root().join("target/screenshots"))
        .status()
        .context("cannot run node")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Builds `mutua` if needed, runs it, and returns its standard output.
fn mutua(arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(std::env::var("CARGO").as_deref().unwrap_or("cargo"));
    command.args(["run", "--quiet", "-p", "mutua", "--"]).args(arguments);
    let output = command.current_dir(xtask::root()).output().context("cannot run cargo")?;
    if !output.status.success() {
        bail!("mutua {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    String::from_utf8(output.stdout).context("the output is not UTF-8")
}
