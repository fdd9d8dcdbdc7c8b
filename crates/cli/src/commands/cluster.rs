//! `mutua cluster`: nodes on this machine, to try things.

use std::{
    fs::{self, File},
    io,
    net::TcpListener,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use mutua_node::{Config, NodeStatus, ask_status, ask_to_stop};
use tokio::{
    runtime::Builder,
    time::{Instant, sleep},
};

use super::{node, status};
use crate::{
    exit::{Coded, UNAVAILABLE, usage},
    names,
};

/// How long nodes may take to meet.
const PATIENCE: Duration = Duration::from_secs(10);

/// Start nodes on this machine to try things, and end them.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Start nodes in the background.
    Up {
        /// How many.
        nodes: usize,

        /// Where their configurations, directories and logs go.
        #[arg(long, default_value = "mutua-cluster")]
        directory: PathBuf,

        /// The algorithm of all locks; without it, the default of a node.
        #[arg(long)]
        algorithm: Option<String>,

        /// Choose a variant of it.
        #[arg(long = "with", value_name = "KEY=VALUE", requires = "algorithm")]
        with: Vec<String>,

        /// Let each node write down what happens to this lock, beside its configuration; `mutua
        /// replay mutua-cluster/*.trace --diagram FILE.svg` draws it.
        #[arg(long, value_name = "LOCK")]
        trace: Option<String>,
    },
    /// End them, and keep their directories.
    Down {
        /// Where they are.
        #[arg(long, default_value = "mutua-cluster")]
        directory: PathBuf,
    },
    /// Say how they are.
    Status {
        /// Where they are.
        #[arg(long, default_value = "mutua-cluster")]
        directory: PathBuf,

        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match &arguments.action {
            Action::Up { nodes, directory, algorithm, with, trace } => {
                up(*nodes, directory, trace.as_deref(), algorithm.as_deref(), with).await
            }
            Action::Down { directory } => down(directory).await,
            Action::Status { directory, json } => show(directory, *json).await,
        }
    })
}

async fn up(
    nodes: usize,
    directory: &Path,
    trace: Option<&str>,
    algorithm: Option<&str>,
    with: &[String],
) -> Result<ExitCode> {
    if !(1..=26).contains(&nodes) {
        return Err(usage(format!("a cluster to try things has 1 to 26 nodes, not {nodes}")));
    }
    if let Some(algorithm) = algorithm {
        names::algorithm(algorithm)?;
    }
    if let Ok(files) = configs(directory) {
        for file in files {
            if ask_status(&node::read(&file)?.data).await.is_ok() {
                return Err(usage(format!(
                    "nodes already run in {}; `mutua cluster down` ends them",
                    directory.display()
                )));
            }
        }
    }
    let files = write_configs(nodes, directory, algorithm, with)?;
    for file in &files {
        spawn(file, trace)?;
    }
    await_view(&files).await?;
    show(directory, false).await
}

/// The configuration files in a directory, in the order of their names.
fn configs(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).map_err(|error| {
        let text = format!("no cluster is in {}: {error}", directory.display());
        Coded(UNAVAILABLE, text)
    })?;
    let mut files: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
        .collect();
    files.sort();
    Ok(files)
}

fn write_configs(
    nodes: usize,
    directory: &Path,
    algorithm: Option<&str>,
    with: &[String],
) -> Result<Vec<PathBuf>> {
    // Held until all are chosen, so that no two get the same.
    let ports: Vec<_> =
        (0..nodes).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<io::Result<_>>()?;
    let letters: Vec<_> = ('a'..='z').take(nodes).collect();
    let mut shared = String::new();
    for (letter, port) in letters.iter().zip(&ports) {
        shared +=
            &format!("\n[[members]]\nname = \"{letter}\"\naddress = \"{}\"\n", port.local_addr()?);
    }
    if let Some(algorithm) = algorithm {
        shared += &format!("\n[[locks]]\nnames = \"*\"\nalgorithm = \"{algorithm}\"\n");
        let mut settings = Vec::new();
        for option in with {
            let Some((key, value)) = option.split_once('=') else {
                return Err(usage(format!("an option is written KEY=VALUE, `{option}` is not")));
            };
            settings.push(format!("{key} = {value:?}"));
        }
        shared += &format!("with = {{ {} }}\n", settings.join(", "));
    }
    let mut files = Vec::new();
    for letter in letters {
        let file = directory.join(format!("{letter}.toml"));
        let text =
            format!("cluster = \"local\"\nnode = \"{letter}\"\ndata = \"{letter}\"\n{shared}");
        Config::parse(&text, &file.display().to_string()).map_err(|error| usage(error.why))?;
        files.push((file, text));
    }
    // Only now, that all is well, is anything changed.
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    for old in configs(directory)? {
        fs::remove_file(old)?;
    }
    for (file, text) in &files {
        fs::write(file, text)?;
    }
    Ok(files.into_iter().map(|(file, _)| file).collect())
}

/// Starts a node that lives on when this command has ended.
fn spawn(config: &Path, trace: Option<&str>) -> Result<()> {
    let log = File::create(config.with_extension("log"))?;
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut command = Command::new(program);
    command.args(["node", "--config"]).arg(config);
    if let Some(lock) = trace {
        command.arg("--trace").arg(config.with_extension("trace")).args(["--trace-lock", lock]);
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        // Away from the terminal's Ctrl-C, which is for this command.
        .process_group(0)
        .spawn()
        .context("cannot start a node")?;
    Ok(())
}

async fn await_view(files: &[PathBuf]) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    for file in files {
        let data = node::read(file)?.data;
        loop {
            if ask_status(&data).await.is_ok_and(|status| status.epoch.is_some()) {
                break;
            }
            if Instant::now() > deadline {
                let log = file.with_extension("log");
                bail!("a node is in no view after {PATIENCE:?}; see {}", log.display());
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(())
}

async fn down(directory: &Path) -> Result<ExitCode> {
    let mut ended = 0;
    for file in configs(directory)? {
        let data = node::read(&file)?.data;
        if ask_to_stop(&data).await.is_ok() {
            ended += 1;
        }
    }
    println!("{ended} nodes ended");
    Ok(ExitCode::SUCCESS)
}

async fn show(directory: &Path, json: bool) -> Result<ExitCode> {
    let mut all: Vec<(String, Option<NodeStatus>)> = Vec::new();
    for file in configs(directory)? {
        let config = node::read(&file)?;
        all.push((config.node, ask_status(&config.data).await.ok()));
    }
    let well = |status: &Option<NodeStatus>| {
        status.as_ref().is_some_and(|status| status.stopped.is_none())
    };
    let all_well = all.iter().all(|(_, status)| well(status));
    if json {
        let statuses: Vec<_> = all.iter().map(|(_, status)| status).collect();
        println!("{}", serde_json::to_string_pretty(&statuses)?);
    } else {
        for (name, status) in &all {
            match status {
                Some(status) => print!("{}", status::text(status)),
                None => println!("node {name} does not run"),
            }
        }
    }
    Ok(if all_well { ExitCode::SUCCESS } else { ExitCode::from(UNAVAILABLE) })
}
