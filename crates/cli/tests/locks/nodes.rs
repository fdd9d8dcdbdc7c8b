//! Configured nodes on this machine.

use std::{
    fs,
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use crate::scene::{Scene, wait_for};

pub(crate) struct Cluster {
    mutua: &'static str,
    directory: PathBuf,
    nodes: Vec<Option<Child>>,
}

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

impl Cluster {
    /// Starts two.
    pub(crate) fn start(scene: &Scene) -> Self {
        Self::start_many(scene, 2)
    }

    /// Starts so many, and waits until they grant.
    pub(crate) fn start_many(scene: &Scene, count: usize) -> Self {
        Self::start_with(scene, count, "")
    }

    /// The same, with more lines in each configuration.
    pub(crate) fn start_with(scene: &Scene, count: usize, lines: &str) -> Self {
        let directory = scene.path().to_owned();
        let names = &NAMES[..count];
        let addresses = mutua_host::free_addresses(count).expect("free ports");
        let member = |(name, address): (&&str, &SocketAddr)| {
            format!("[[members]]\nname = \"{name}\"\naddress = \"{address}\"\n")
        };
        let members: String = names.iter().zip(&addresses).map(member).collect();
        for name in names {
            let text = format!("cluster = \"test\"\nnode = \"{name}\"\ndata = \"{name}\"\n{lines}");
            let file = directory.join(format!("{name}.toml"));
            fs::write(file, text + &members).expect("written");
        }
        let nodes = names.iter().map(|_| None).collect();
        let mut cluster = Self { mutua: scene.mutua(), directory, nodes };
        for index in 0..count {
            cluster.run(index);
        }
        wait_for("the nodes to grant", || (0..count).all(|one| cluster.is_granting(scene, one)));
        cluster
    }

    /// Runs a node that does not run.
    pub(crate) fn run(&mut self, index: usize) {
        let mut command = Command::new(self.mutua);
        command.args(["node", "--quiet", "--config"]).arg(self.file(index));
        // Where a test can look at it.
        let log = self.file(index).with_extension("log");
        let log = fs::OpenOptions::new().create(true).append(true).open(log).expect("made");
        let child = command.stdin(Stdio::null()).stderr(log).spawn();
        self.nodes[index] = Some(child.expect("run"));
    }

    /// Writes the configuration of one more node, which lists itself only; returns its index.
    pub(crate) fn configure_next(&mut self) -> usize {
        let index = self.nodes.len();
        let name = NAMES[index];
        let address = mutua_host::free_addresses(1).expect("a free port")[0];
        let text = format!(
            "cluster = \"test\"\nnode = \"{name}\"\nclustered = true\ndata = \"{name}\"\n\
             [[members]]\nname = \"{name}\"\naddress = \"{address}\"\n"
        );
        fs::write(self.file(index), text).expect("written");
        self.nodes.push(None);
        index
    }

    /// No node.
    pub(crate) fn none(scene: &Scene) -> Self {
        Self { mutua: scene.mutua(), directory: scene.path().to_owned(), nodes: Vec::new() }
    }

    /// Waits until the process of a node has ended by itself; its exit code.
    pub(crate) fn wait(&mut self, index: usize) -> Option<i32> {
        let mut child = self.nodes[index].take().expect("it runs");
        for _ in 0..3000 {
            if let Some(status) = child.try_wait().expect("a child") {
                return status.code();
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        child.kill().expect("killed");
        child.wait().expect("dead");
        panic!("the node of {} did not end", NAMES[index]);
    }

    pub(crate) fn kill(&mut self, index: usize) {
        if let Some(mut child) = self.nodes[index].take() {
            child.kill().expect("killed");
            child.wait().expect("dead");
        }
    }

    /// The process of a node that runs.
    pub(crate) fn pid(&self, index: usize) -> u32 {
        self.nodes[index].as_ref().expect("it runs").id()
    }

    pub(crate) fn size(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn file(&self, index: usize) -> PathBuf {
        self.directory.join(format!("{}.toml", NAMES[index]))
    }

    pub(crate) fn socket(&self, index: usize) -> PathBuf {
        self.directory.join(NAMES[index]).join("locks.sock")
    }

    /// The address where a node accepts the others.
    pub(crate) fn address(&self, index: usize) -> String {
        let text = fs::read_to_string(self.file(index)).expect("there");
        let address = text.split("address = \"").nth(index + 1).expect("a member");
        address.split('"').next().expect("text").to_owned()
    }

    pub(crate) fn endpoint(&self, index: usize) -> String {
        format!("unix:{}", self.socket(index).display())
    }

    /// Whether a node is in a view.
    pub(crate) fn is_granting(&self, scene: &Scene, index: usize) -> bool {
        let output = scene.command(&["ls", "--endpoint", &self.endpoint(index)]).output();
        let output = output.expect("run");
        let printed = String::from_utf8_lossy(&output.stderr);
        output.status.success() && !printed.contains("grants are suspended")
    }

    /// The fencing token of the holder at a node.
    pub(crate) fn token(&self, scene: &Scene, index: usize, name: &str) -> Option<u64> {
        let endpoint = self.endpoint(index);
        let shown = scene.command(&["show", "--json", "--endpoint", &endpoint, name]).output();
        let shown = String::from_utf8_lossy(&shown.expect("run").stdout).into_owned();
        shown.split("\"fencing_token\":\"").nth(1)?.split('"').next()?.parse().ok()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for index in 0..self.nodes.len() {
            self.kill(index);
        }
    }
}
