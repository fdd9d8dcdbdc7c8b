//! The processes of the branches, each with a node.

use std::{
    fmt::Write,
    fs::{self, OpenOptions},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

use super::{branch, network::Network};

/// The number of nodes: all vote, and two may fail at the same time.
pub(super) const NODES: usize = 5;

/// The processes. They are killed when this is dropped.
pub(super) struct Nodes {
    names: Vec<String>,
    directory: PathBuf,
    children: Vec<Option<Child>>,
    pub(super) network: Network,
}

impl Nodes {
    /// Starts all processes.
    pub(super) async fn start(directory: &Path, view_lease: Duration) -> Result<Self> {
        let listeners = (0..NODES)
            .map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr())
            .collect::<Result<Vec<SocketAddr>, _>>()?;
        let network = Network::new(&listeners).await?;
        let names: Vec<_> = ('a'..).take(NODES).map(String::from).collect();
        let mut members = String::new();
        for (name, address) in names.iter().zip(network.addresses()) {
            write!(members, "\n[[members]]\nname = \"{name}\"\naddress = \"{address}\"\n")?;
        }
        for (name, listen) in names.iter().zip(&listeners) {
            let text = format!(
                "cluster = \"bank\"\nnode = \"{name}\"\ndata = \"{name}\"\nlisten = \"{listen}\"\n\
                 {members}\n[limits]\nview_lease = \"{}ms\"\n",
                view_lease.as_millis()
            );
            fs::write(directory.join(format!("{name}.toml")), text)?;
        }
        let children = names.iter().map(|_| None).collect();
        let mut nodes = Self { names, directory: directory.to_owned(), children, network };
        for index in 0..NODES {
            nodes.start_one(index)?;
        }
        Ok(nodes)
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// Starts a process, on the data directory that its node had before.
    pub(super) fn start_one(&mut self, index: usize) -> Result<()> {
        let file = self.directory.join(format!("{}.toml", self.names[index]));
        let log = OpenOptions::new().create(true).append(true).open(file.with_extension("log"))?;
        let child = Command::new(std::env::current_exe().context("cannot find this program")?)
            .arg(branch::ARGUMENT)
            .arg(index.to_string())
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("cannot start a branch")?;
        self.network.set_process(index, Some(child.id()));
        self.children[index] = Some(child);
        Ok(())
    }

    /// Kills a process.
    pub(super) fn kill(&mut self, index: usize) {
        self.network.set_process(index, None);
        if let Some(mut child) = self.children[index].take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Waits until a process has ended by itself.
    pub(super) fn wait(&mut self, index: usize) {
        self.network.set_process(index, None);
        if let Some(mut child) = self.children[index].take() {
            let _ = child.wait();
        }
    }

    /// Sends a signal to a process.
    pub(super) fn signal(&self, index: usize, signal: Signal) {
        let process = self.children[index].as_ref().map(Child::id);
        let process = process.and_then(|process| Pid::from_raw(i32::try_from(process).ok()?));
        if let Some(process) = process {
            let _ = kill_process(process, signal);
        }
    }

    /// The last lines of all logs, for an error.
    pub(super) fn logs(&self) -> String {
        let mut text = String::new();
        for name in &self.names {
            let log = self.directory.join(format!("{name}.log"));
            let log = fs::read_to_string(log).unwrap_or_default();
            let lines: Vec<_> = log.lines().collect();
            for line in &lines[lines.len().saturating_sub(8)..] {
                text += &format!("{name}: {line}\n");
            }
        }
        text
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for index in 0..self.children.len() {
            self.kill(index);
        }
    }
}
