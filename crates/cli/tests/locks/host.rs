//! A host of its own: mount and network namespaces with a private `/etc`, `/var/lib` and `/tmp`.
//!
//! Tests run as root, as the gate does: only root makes such namespaces.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use crate::scene::{kill, wait_for};

/// A host, or a container: its files are its own, its network may be another host's.
pub(crate) struct Host {
    keeper: Child,
    directory: tempfile::TempDir,
    nodes: Vec<Child>,
}

/// Where `mutua` is on every host, for every user.
const MUTUA: &str = "/tmp/mutua";

impl Host {
    pub(crate) fn new() -> Self {
        Self::start(&["unshare", "--mount", "--net"])
    }

    /// A container with files of its own and the network of this host.
    pub(crate) fn container(&self) -> Self {
        let host = self.keeper.id().to_string();
        Self::start(&["nsenter", "--net", "--target", &host, "unshare", "--mount"])
    }

    fn start(namespaces: &[&str]) -> Self {
        // Not in /tmp, which is about to be hidden.
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        for name in ["etc", "lib", "tmp"] {
            let path = directory.path().join(name);
            fs::create_dir(&path).expect("made");
            let mode = if name == "tmp" { 0o1777 } else { 0o755 };
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("set");
        }
        let mutua = directory.path().join("tmp/mutua");
        fs::hard_link(env!("CARGO_BIN_EXE_mutua"), mutua).expect("linked");
        let text = "mount --bind \"$0/etc\" /etc && mount --bind \"$0/lib\" /var/lib && \
                    mount --bind \"$0/tmp\" /tmp && echo ready && exec cat";
        let mut keeper = Command::new(namespaces[0]);
        keeper.args(&namespaces[1..]).args(["sh", "-c", text]).arg(directory.path());
        let mut keeper = keeper.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("run");
        let mut line = String::new();
        let stdout = keeper.stdout.as_mut().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("read");
        assert_eq!(line, "ready\n", "only root makes namespaces, and tests run as root");
        Self { keeper, directory, nodes: Vec::new() }
    }

    /// A file of this host, seen from here.
    pub(crate) fn file(&self, path: &str) -> PathBuf {
        let path = Path::new(path);
        let within = match (path.strip_prefix("/var/lib"), path.strip_prefix("/")) {
            (Ok(rest), _) => Path::new("lib").join(rest),
            (_, Ok(rest)) => rest.to_owned(),
            _ => panic!("{} is not of this host", path.display()),
        };
        self.directory.path().join(within)
    }

    /// A file of `/proc` as a process of this host sees it.
    pub(crate) fn proc(&self, name: &str) -> PathBuf {
        Path::new("/proc").join(self.keeper.id().to_string()).join(name)
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let file = self.file(path);
        fs::create_dir_all(file.parent().expect("a directory")).expect("made");
        fs::write(file, text).expect("written");
    }

    /// `mutua` on this host, as root and without any configuration in its environment.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.run(&[&[MUTUA], arguments].concat())
    }

    /// The same as another user.
    pub(crate) fn command_as(&self, user: u32, arguments: &[&str]) -> Command {
        let user = user.to_string();
        let user = ["setpriv", "--reuid", &user, "--regid", &user, "--clear-groups", MUTUA];
        self.run(&[&user, arguments].concat())
    }

    fn run(&self, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--mount", "--net", "--target", &self.keeper.id().to_string()]).args(words);
        for name in ["MUTUA_SOCKET", "MUTUA_CONFIG", "MUTUA_CLUSTER", "MUTUA_HELD"] {
            command.env_remove(name);
        }
        // Should a test fail to end a user's node, it leaves by itself.
        command.stdin(Stdio::null()).env("MUTUA_IDLE_MS", "5000");
        command
    }

    /// Starts a node and waits until it serves at this socket.
    pub(crate) fn run_node(&mut self, mut command: Command, socket: &str) {
        command.stderr(Stdio::null());
        self.run_logged_node(command, socket);
    }

    /// The same, with the standard error that the command has.
    pub(crate) fn run_logged_node(&mut self, mut command: Command, socket: &str) {
        let node = command.spawn().expect("run");
        self.nodes.push(node);
        let endpoint = format!("unix:{socket}");
        wait_for("the node to serve", || {
            let output = self.command(&["ls", "--endpoint", &endpoint]).output().expect("run");
            // Without the other members it cannot know who holds what.
            let printed = [output.stdout, output.stderr].concat();
            let is_cut_off = String::from_utf8_lossy(&printed).contains("cannot know now");
            output.status.success() || is_cut_off
        });
    }

    /// Kills the nodes that were started.
    pub(crate) fn kill_nodes(&mut self) {
        for mut node in self.nodes.drain(..) {
            node.kill().expect("killed");
            node.wait().expect("dead");
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        for mut node in self.nodes.drain(..) {
            let _ = node.kill();
            let _ = node.wait();
        }
        let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
        let own = namespace(&self.keeper.id().to_string());
        // Users' nodes leave their parents.
        for entry in fs::read_dir("/proc").expect("read").flatten() {
            let name = entry.file_name();
            let pid = name.to_str().and_then(|name| name.parse::<u32>().ok());
            if let Some(pid) = pid
                && own.is_some()
                && namespace(&pid.to_string()) == own
            {
                kill("-KILL", pid);
            }
        }
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

/// The exit code of a command, its standard output and its standard error.
pub(crate) fn ended(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().expect("run");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.code(), text(stdout), text(stderr))
}
