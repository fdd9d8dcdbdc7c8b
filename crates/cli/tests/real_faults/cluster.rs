//! Nodes, one on each host of a testbed.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use mutua_testbed::{Host, Switch, Testbed};

/// The size of each node's disk: small, so that it can be full.
const DISK: &str = "size=2m";

/// What fills a disk.
const FILLER: &str = "filler";

const MUTUA: &str = env!("CARGO_BIN_EXE_mutua");

/// A cluster of real nodes. It ends with the namespaces of its hosts.
pub(crate) struct Cluster {
    testbed: Testbed,
    nodes: Vec<Option<Child>>,
    /// How far the clock of each node (CLOCK_BOOTTIME) is ahead of this machine's, in seconds.
    clocks: Vec<u64>,
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
            mount(&data(host));
        }
        let nodes = testbed.hosts().iter().map(|_| None).collect();
        // Nodes compare no clocks, so those of two hosts may be days apart.
        let clocks = (0..hosts).map(|host| host as u64 * 500_000).collect();
        let mut cluster = Self { testbed, nodes, clocks };
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

    /// The host of the node that leads, as far as any node knows.
    pub(crate) fn leader(&self) -> Option<usize> {
        (0..self.hosts()).find_map(|index| {
            let mut status = self.command(index, &["status", "--json", "--config", "mutua.toml"]);
            let output = status.stderr(Stdio::null()).output().expect("runs");
            let status: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
            status["leader"].as_str()?.strip_prefix('m')?.parse().ok()
        })
    }

    /// Whether the lock `x` is held for a client that its node has lost; `None` if it is not held,
    /// as far as this host's node knows.
    pub(crate) fn custody_of_x(&self, index: usize) -> Option<bool> {
        let mut show = self.command(index, &["show", "--json", "--config", "mutua.toml", "x"]);
        let output = show.stderr(Stdio::null()).output().expect("runs");
        let lock: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
        lock["holder"]["custody"].as_bool()
    }

    /// Lets a node's disk be full.
    pub(crate) fn fill_disk(&self, index: usize) {
        let path = data(self.host(index)).join(FILLER);
        let mut file = fs::File::create(path).expect("a file");
        // It fails when the disk is full.
        while file.write_all(&[0; 4096]).is_ok() {}
    }

    /// Makes room on a node's disk again.
    pub(crate) fn clear_disk(&self, index: usize) {
        fs::remove_file(data(self.host(index)).join(FILLER)).expect("removed");
    }

    /// Starts all nodes that do not run.
    pub(crate) fn start_missing(&mut self) {
        (0..self.nodes.len()).for_each(|index| self.start_node(index));
    }

    /// Starts a node, unless it runs.
    pub(crate) fn start_node(&mut self, index: usize) {
        let ended = |node: &mut Child| node.try_wait().is_ok_and(|status| status.is_some());
        if self.nodes[index].as_mut().is_some_and(ended) {
            self.nodes[index] = None;
        }
        if self.nodes[index].is_none() {
            let mut node = self.node(index);
            let log = fs::OpenOptions::new().create(true).append(true).open(self.log(index));
            node.stderr(log.expect("a log"));
            self.nodes[index] = Some(node.spawn().expect("a node"));
        }
    }

    /// Stops a node in order, and waits until it has ended.
    pub(crate) fn stop_in_order(&mut self, index: usize) {
        if let Some(mut node) = self.nodes[index].take() {
            crate::faults::signal(Some(node.id()), rustix::process::Signal::TERM);
            let status = node.wait().expect("ended");
            assert!(status.success(), "{status}\n{}", self.logs());
        }
    }

    /// Lets a node have this clock when it starts the next time.
    pub(crate) fn set_clock(&mut self, index: usize, ahead: u64) {
        self.clocks[index] = ahead;
    }

    /// The node of a host, with a clock of its own. A namespace's clock is set before its first
    /// process starts, so that a node keeps it until it ends.
    fn node(&self, index: usize) -> Command {
        let ahead = self.clocks[index].to_string();
        let mut node = without_settings(self.host(index).command("unshare"));
        node.args(["--time", "--boottime", &ahead, MUTUA]);
        node.args(["node", "--insecure", "--config", "mutua.toml"]);
        node
    }

    /// All nodes run and all links work again.
    pub(crate) fn repair(&mut self) {
        self.testbed.switch().heal();
        self.start_missing();
    }

    /// The last lines that the nodes and their clients have logged.
    pub(crate) fn logs(&self) -> String {
        let tail = |index: usize, name: &str| {
            let path = self.host(index).directory().join(name);
            let text = fs::read_to_string(path).unwrap_or_default();
            let lines: Vec<_> = text.lines().collect();
            let last = lines[lines.len().saturating_sub(20)..].join("\n");
            format!("-- m{index} {name}\n{last}\n")
        };
        let files = ["node.log", "lock.log"];
        (0..self.nodes.len()).flat_map(|index| files.map(|name| tail(index, name))).collect()
    }

    /// Whether a node grants now.
    pub(crate) fn grants(&self, index: usize) -> bool {
        let mut status = self.command(index, &["status", "--config", "mutua.toml"]);
        let status = status.stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.expect("runs").success()
    }

    fn log(&self, index: usize) -> PathBuf {
        self.host(index).directory().join("node.log")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for index in 0..self.nodes.len() {
            self.kill(index);
            // Nothing uses it any more; whatever may be wrong, the test has ended.
            let _ = Command::new("umount").arg("--lazy").arg(data(self.host(index))).status();
        }
    }
}

/// A node's data directory.
pub(crate) fn data(host: &Host) -> PathBuf {
    host.directory().join("data")
}

/// A small disk of its own.
fn mount(path: &Path) {
    fs::create_dir(path).expect("a directory");
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).expect("permissions");
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", DISK, "mutua-test"]).arg(path);
    assert!(mount.status().expect("mount runs").success(), "cannot mount {}", path.display());
}

pub(crate) fn command(host: &Host, arguments: &[&str]) -> Command {
    let mut command = without_settings(host.command(MUTUA));
    command.args(arguments);
    command
}

/// The command without what the environment of this test may have set.
fn without_settings(mut command: Command) -> Command {
    for name in ["MUTUA_SOCKET", "MUTUA_CONFIG", "MUTUA_CLUSTER", "MUTUA_HELD"] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}
