//! `mutua cluster`: the members of a cluster, and trial clusters on this machine.

mod members;

use std::{
    fs::{self, File},
    net::TcpListener,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, builder::NonEmptyStringValueParser};
use mutua_client::{CallError, endpoint::in_directory};
use mutua_host::free_addresses;
use mutua_node::{Config, NodeStatus};
use rustix::process::Signal;
use tokio::{
    runtime::Builder,
    time::{Instant, sleep},
};

use super::{node, status};
use crate::{
    exit::{CONFLICT, Coded, UNAVAILABLE, of_a_file, unavailable, usage},
    local::Listener,
    names,
    words::counted,
};

/// How long nodes may take to form a view.
const PATIENCE: Duration = Duration::from_secs(10);

/// The end of the help.
pub(crate) const HELP: &str = "\
A cluster whose configuration lists several members founds itself when all of them run for the \
first time. From then on its members are those of `mutua cluster members`, and the list in a \
configuration changes nothing. To add a member: `invite` at a member, `join` on the new host, then \
start its node.

Exit codes: 0 success, and all nodes grant locks; 1 a node has not joined a view; 64 bad usage; 69 \
no node answers, no cluster in the directory, or grants are suspended; 73 a file cannot be written; \
75 the node runs, or the change is refused; 77 permission denied; 78 bad configuration.";

/// Create a cluster and change its members; run a trial cluster on this machine.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    #[command(flatten)]
    Members(members::Action),
    /// Start the nodes of a trial cluster in the background.
    Up {
        /// Number of nodes, 1 to 26.
        nodes: usize,

        /// Directory for configurations, data directories and logs.
        #[arg(long, default_value = "mutua-cluster")]
        directory: PathBuf,

        /// Algorithm of all locks [default: naimi-trehel].
        #[arg(long)]
        algorithm: Option<String>,

        /// Select a variant of the algorithm.
        #[arg(long = "with", value_name = "KEY=VALUE", requires = "algorithm")]
        with: Vec<String>,

        /// Let each node write a trace of this lock beside its configuration; `mutua replay
        /// mutua-cluster/*.trace --diagram FILE.svg` draws them.
        #[arg(long, value_name = "LOCK", value_parser = NonEmptyStringValueParser::new())]
        trace: Option<String>,

        /// Found a new cluster in the place of the one in the directory, whose members and rules
        /// are forgotten.
        #[arg(long)]
        new: bool,
    },
    /// Stop the nodes of a trial cluster, and keep their data directories.
    Down {
        /// Directory of the cluster.
        #[arg(long, default_value = "mutua-cluster")]
        directory: PathBuf,
    },
    /// Kill a node of a trial cluster, as a crash would end it.
    Kill {
        /// Name of the node.
        name: String,

        /// Directory of the cluster.
        #[arg(long, default_value = "mutua-cluster")]
        directory: PathBuf,
    },
    /// Start a node of a trial cluster that does not run, with its data directory.
    Start {
        /// Name of the node.
        name: String,

        /// Directory of the cluster.
        #[arg(long, default_value = "mutua-cluster")]
        directory: PathBuf,
    },
    /// Show the status of the nodes of a trial cluster.
    Status {
        /// Directory of the cluster.
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
            Action::Members(action) => members::run(action).await,
            Action::Up { nodes, directory, algorithm, with, trace, new } => {
                let rules = (algorithm.as_deref(), &**with);
                up(*nodes, directory, trace.as_deref(), rules, *new).await
            }
            Action::Down { directory } => down(directory).await,
            Action::Kill { name, directory } => kill(directory, name).await,
            Action::Start { name, directory } => start(directory, name).await,
            Action::Status { directory, json } => show(directory, *json).await,
        }
    })
}

async fn up(
    nodes: usize,
    directory: &Path,
    trace: Option<&str>,
    rules: (Option<&str>, &[String]),
    new: bool,
) -> Result<ExitCode> {
    if !(1..=26).contains(&nodes) {
        return Err(usage(format!("a trial cluster has 1 to 26 nodes, not {nodes}")));
    }
    if let (Some(algorithm), _) = rules {
        names::algorithm_of_nodes(algorithm)?;
    }
    if let Ok(files) = configs(directory) {
        for file in files {
            if Listener::on(&socket(&file)?).is_some() {
                let text = format!(
                    "nodes already run in {}: stop them with `mutua cluster down`",
                    directory.display()
                );
                return Err(Coded(CONFLICT, text).into());
            }
        }
    }
    let files = write_configs(nodes, directory, rules, new).map_err(of_a_file)?;
    for file in &files {
        spawn(file, trace)?;
    }
    await_view(&files).await?;
    show(directory, false).await
}

/// The socket of the node that this file configures.
fn socket(file: &Path) -> Result<PathBuf> {
    Ok(in_directory(&node::read(file)?.data))
}

/// The configuration files in a directory, in the order of their names.
fn configs(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).map_err(|error| {
        let text = format!(
            "no trial cluster in {}: {error}; start one with `mutua cluster up`, or name its \
             directory with --directory",
            directory.display()
        );
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
    (algorithm, with): (Option<&str>, &[String]),
    new: bool,
) -> Result<Vec<PathBuf>> {
    let earlier = configs(directory).unwrap_or_default();
    let addresses = match earlier_addresses(&earlier, nodes) {
        Some(addresses) => addresses,
        None => free_addresses(nodes)?.iter().map(ToString::to_string).collect(),
    };
    let letters: Vec<_> = ('a'..='z').take(nodes).collect();
    let mut shared = String::new();
    for (letter, address) in letters.iter().zip(&addresses) {
        shared += &format!("\n[[members]]\nname = \"{letter}\"\naddress = \"{address}\"\n");
    }
    if let Some(algorithm) = algorithm {
        shared += &format!("\n[[locks]]\nnames = \"*\"\nalgorithm = \"{algorithm}\"\n");
        let mut settings = Vec::new();
        for option in with {
            let Some((key, value)) = option.split_once('=') else {
                return Err(usage(format!("invalid option `{option}`: use KEY=VALUE")));
            };
            settings.push(format!("{key} = {value:?}"));
        }
        shared += &format!("with = {{ {} }}\n", settings.join(", "));
    }
    let mut files = Vec::new();
    for letter in letters {
        let file = directory.join(format!("{letter}.toml"));
        let text =
            format!("cluster = \"trial\"\nnode = \"{letter}\"\ndata = \"{letter}\"\n{shared}");
        Config::parse(&text, &file.display().to_string())
            .map_err(|error| usage(error.problem.to_string()))?;
        files.push((file, text));
    }
    // Files are changed only after all checks.
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot create {}", directory.display()))?;
    let is_known = |(file, text): &(PathBuf, String)| {
        fs::read_to_string(file).is_ok_and(|known| known == *text)
    };
    if earlier.len() != nodes || !files.iter().all(is_known) {
        if !earlier.is_empty() && !new {
            let text = format!(
                "{} has a cluster of {} that was made with other arguments, or one of its ports is \
                 in use: give the same arguments as then, another --directory, or --new to found a \
                 new cluster in its place",
                directory.display(),
                counted(earlier.len() as u64, "node"),
            );
            return Err(Coded(CONFLICT, text).into());
        }
        for old in earlier {
            if let Ok(config) = node::read(&old) {
                mutua_node::forget_cluster(&config.data)?;
            }
            fs::remove_file(old)?;
        }
        for (file, text) in &files {
            fs::write(file, text)?;
        }
    }
    Ok(files.into_iter().map(|(file, _)| file).collect())
}

/// The addresses of the cluster that was here, if it had as many nodes and they are still free: its
/// members know each other by them.
fn earlier_addresses(earlier: &[PathBuf], nodes: usize) -> Option<Vec<String>> {
    let members = node::read(earlier.first()?).ok()?.members;
    let addresses: Vec<_> = members.into_iter().map(|member| member.address).collect();
    let free = |address: &String| TcpListener::bind(address).is_ok();
    (addresses.len() == nodes && addresses.iter().all(free)).then_some(addresses)
}

/// Starts a node that keeps running after this command.
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
        // Ctrl-C in the terminal is for this command only.
        .process_group(0)
        .spawn()
        .context("cannot start a node")?;
    Ok(())
}

async fn await_view(files: &[PathBuf]) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    for file in files {
        let socket = socket(file)?;
        loop {
            if status::request(&socket).await.is_ok_and(|status| status.epoch.is_some()) {
                break;
            }
            if Instant::now() > deadline {
                let log = file.with_extension("log");
                let text = fs::read_to_string(&log).unwrap_or_default();
                let last = text.lines().last().unwrap_or("it has logged nothing");
                let (name, log) = (node::read(file)?.node, log.display());
                bail!("{name} has not joined a view after {PATIENCE:?}: {last} ({log})");
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(())
}

async fn down(directory: &Path) -> Result<ExitCode> {
    let (mut stopped, mut left) = (0, Vec::new());
    for file in configs(directory)? {
        match stop(&socket(&file)?).await {
            Ok(true) => stopped += 1,
            Ok(false) => {}
            Err(why) => left.push(format!("{}: {why}", node::read(&file)?.node)),
        }
    }
    println!("{stopped} {} stopped", if stopped == 1 { "node" } else { "nodes" });
    match left.as_slice() {
        [] => Ok(ExitCode::SUCCESS),
        left => Err(unavailable(format!("still running: {}", left.join("; ")))),
    }
}

/// Stops a node, in order if it answers; returns whether one ran.
async fn stop(socket: &Path) -> Result<bool, CallError> {
    let endpoint = status::of_socket(socket);
    let Some(listener) = Listener::on(socket) else { return Ok(false) };
    if listener.is_stopped() {
        // It hands over when it goes on.
        let _ = listener.signal(Signal::CONT);
    }
    match mutua_client::stop(&endpoint).await {
        Ok(()) => Ok(true),
        Err(CallError::TimedOut(_)) if listener.signal(Signal::KILL).is_ok() => {
            println!("process {} did not answer and was killed", listener.pid());
            Ok(true)
        }
        Err(error) => Err(error),
    }
}

/// The configuration of the node of this name.
fn config_of(directory: &Path, name: &str) -> Result<PathBuf> {
    let files = configs(directory)?;
    let known: Vec<_> = files.iter().filter_map(|file| file.file_stem()?.to_str()).collect();
    let at = known.iter().position(|known| *known == name);
    at.map(|at| files[at].clone()).ok_or_else(|| names::unknown("node", name, known))
}

async fn kill(directory: &Path, name: &str) -> Result<ExitCode> {
    let socket = socket(&config_of(directory, name)?)?;
    let Some(listener) = Listener::on(&socket) else {
        return Err(unavailable(format!("node {name} does not run")));
    };
    listener.signal(Signal::KILL).with_context(|| format!("cannot kill node {name}"))?;
    let deadline = Instant::now() + PATIENCE;
    while Listener::on(&socket).is_some() {
        if Instant::now() > deadline {
            return Err(unavailable(format!("process {} does not end", listener.pid())));
        }
        sleep(Duration::from_millis(5)).await;
    }
    println!("node {name} was killed");
    Ok(ExitCode::SUCCESS)
}

async fn start(directory: &Path, name: &str) -> Result<ExitCode> {
    let file = config_of(directory, name)?;
    let socket = socket(&file)?;
    if Listener::on(&socket).is_some() {
        return Err(Coded(CONFLICT, format!("node {name} runs already")).into());
    }
    spawn(&file, None)?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        match status::request(&socket).await {
            Ok(status) if status.suspended.is_none() => {
                print!("{}", status::text(&status));
                return Ok(ExitCode::SUCCESS);
            }
            // As when too few of the others run.
            Ok(status) if Instant::now() > deadline => {
                print!("{}", status::text(&status));
                return Ok(ExitCode::from(UNAVAILABLE));
            }
            Err(_) if Instant::now() > deadline => {
                let log = file.with_extension("log");
                bail!("node {name} does not answer after {PATIENCE:?}: see {}", log.display());
            }
            _ => sleep(Duration::from_millis(20)).await,
        }
    }
}

async fn show(directory: &Path, json: bool) -> Result<ExitCode> {
    let mut all: Vec<(String, Result<NodeStatus, String>)> = Vec::new();
    for file in configs(directory)? {
        let config = node::read(&file)?;
        let socket = in_directory(&config.data);
        let status = status::request(&socket).await.map_err(|error| match &error {
            CallError::Connect(_) => "does not run".to_owned(),
            error => {
                let process = status::silent_process(&status::of_socket(&socket), error);
                let process = process.map(|text| format!("; {text}")).unwrap_or_default();
                format!("does not answer: {error}{process}")
            }
        });
        all.push((config.node, status));
    }
    let granting = |status: &Result<NodeStatus, String>| {
        status.as_ref().is_ok_and(|status| status.suspended.is_none())
    };
    let all_granting = all.iter().all(|(_, status)| granting(status));
    if json {
        let statuses: Vec<_> = all.iter().map(|(_, status)| status.as_ref().ok()).collect();
        println!("{}", serde_json::to_string_pretty(&statuses)?);
    } else {
        for (name, status) in &all {
            match status {
                Ok(status) => print!("{}", status::text(status)),
                Err(why) => println!("node {name} {why}"),
            }
        }
    }
    Ok(if all_granting { ExitCode::SUCCESS } else { ExitCode::from(UNAVAILABLE) })
}
