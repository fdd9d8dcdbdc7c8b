//! Nodes, one on each host of a testbed.

use std::{
    fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use mutua_testbed::{Host, Switch, Testbed};

const MUTUA: &str = env!("CARGO_BIN_EXE_mutua");

/// A cluster of real nodes. It ends with the namespaces of its hosts.
pub(crate) struct Cluster {
    testbed: Testbed,
    nodes: Vec<Option<Child>>,
}

impl Cluster {
    /// Starts a node on each host, and waits until all of them grant.
    pub(crate) fn start(algorithm: &str, hosts: usize, seed: u64) -> Self {
        let testbed = Testbed::new(hosts, seed).expect("a testbed");
        let member = |(index, host): (usize, &Host)| {
            format!("[[members]]\nname = \"m{index}\"\naddress = \"{}:7000\"\n", host.address())
        };
        let members: String = testbed.hosts().iter().enumerate().map(member).collect();
        let rule = format!("[[locks]]\nnames = \"*\"\nalgorithm = \"{algorithm}\"\n");
        for (index, host) in testbed.hosts().iter().enumerate() {
            let head = format!("cluster = \"test\"\nnode = \"m{index}\"\ndata = \"data\"\n");
            let text = format!("{head}{members}{rule}");
            fs::write(host.directory().join("mutua.toml"), text).expect("written");
        }
        let nodes = testbed.hosts().iter().map(|_| None).collect();
        let mut cluster = Self { testbed, nodes };
        cluster.start_missing();
        let begun = Instant::now();
        while !(0..hosts).all(|index| cluster.grants(index)) {
            assert!(begun.elapsed() < Duration::from_secs(30), "{}", cluster.logs());
            std::thread::sleep(Duration::from_millis(50));
        }
        cluster
    }

    pub(crate) fn host(&self, index: usize) -> &Host {
        self.testbed.host(index)
    }

    pub(crate) fn hosts(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn switch(&self) -> &Switch {
        self.testbed.switch()
    }

    /// `mutua` on a host, with the configuration of its node.
    pub(crate) fn command(&self, index: usize, arguments: &[&str]) -> Command {
        command(self.host(index), arguments)
    }

    /// The process id of a node that runs.
    pub(crate) fn pid(&self, index: usize) -> Option<u32> {
        self.nodes[index].as_ref().map(Child::id)
    }

    /// Kills a node as a crash would.
    pub(crate) fn kill(&mut self, index: usize) {
        if let Some(mut node) = self.nodes[index].take() {
            node.kill().expect("killed");
            node.wait().expect("ended");
        }
    }

    /// Starts all nodes that do not run.
    pub(crate) fn start_missing(&mut self) {
        for index in 0..self.nodes.len() {
            if self.nodes[index].is_none() {
                let mut node = self.command(index, &["node", "--insecure", "--config"]);
                let log = fs::OpenOptions::new().create(true).append(true).open(self.log(index));
                node.arg("mutua.toml").stderr(log.expect("a log"));
                self.nodes[index] = Some(node.spawn().expect("a node"));
            }
        }
    }

    /// All nodes run and all links work again.
    pub(crate) fn repair(&mut self) {
        self.testbed.switch().heal();
        self.start_missing();
    }

    /// The last lines that the nodes have logged.
    pub(crate) fn logs(&self) -> String {
        let tail = |index: usize| {
            let text = fs::read_to_string(self.log(index)).unwrap_or_default();
            let lines: Vec<_> = text.lines().collect();
            let last = lines[lines.len().saturating_sub(20)..].join("\n");
            format!("-- m{index}\n{last}\n")
        };
        (0..self.nodes.len()).map(tail).collect()
    }

    fn grants(&self, index: usize) -> bool {
        let mut status = self.command(index, &["status", "--config", "mutua.toml"]);
        let status = status.stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.expect("runs").success()
    }

    fn log(&self, index: usize) -> PathBuf {
        self.host(index).directory().join("node.log")
    }
}

pub(crate) fn command(host: &Host, arguments: &[&str]) -> Command {
    let mut command = host.command(MUTUA);
    for name in ["MUTUA_SOCKET", "MUTUA_CONFIG", "MUTUA_CLUSTER", "MUTUA_HELD"] {
        command.env_remove(name);
    }
    command.args(arguments).stdin(Stdio::null());
    command
}
