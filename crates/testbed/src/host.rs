//! A host: one network namespace with one interface and one address.

use std::{
    fs::{self, File},
    net::Ipv4Addr,
    os::fd::AsFd,
    path::{Path, PathBuf},
    process::{self, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

use crate::TestbedError;

/// Namespaces are called `mutua-test-PID-SERIAL`, PID being the process that made them.
const PREFIX: &str = "mutua-test-";

/// Where iproute2 keeps namespaces that have a name.
const NAMESPACES: &str = "/run/netns";

/// The interface of every host.
const INTERFACE: &str = "net0";

/// Names the host, in a namespace of the process, and becomes the program.
const RENAMED: &str = "echo \"$0\" >/proc/sys/kernel/hostname && exec \"$@\"";

/// A host of a [`Testbed`](crate::Testbed): commands started on it have its network and no other.
#[derive(Debug)]
pub struct Host {
    index: usize,
    namespace: String,
    directory: tempfile::TempDir,
}

impl Host {
    pub(crate) fn new(index: usize) -> Result<Self, TestbedError> {
        let directory = tempfile::tempdir()?;
        let namespace = unused_name();
        ip(&["netns", "add", &namespace])?;
        Ok(Self { index, namespace, directory })
    }

    /// The host's address, from the block that is reserved for tests of network devices.
    pub fn address(&self) -> Ipv4Addr {
        Ipv4Addr::new(198, 18, 0, u8::try_from(self.index + 1).expect("at most 200 hosts"))
    }

    /// A directory of this host, removed with it.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The name of its network namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The name that its processes see as the host's.
    pub fn name(&self) -> String {
        format!("host{}", self.index)
    }

    /// A command that runs on this host, in its directory. The process that it starts is the
    /// program itself, so that a signal to its process id reaches the program.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace, "unshare", "--uts"]);
        command.args(["sh", "-c", RENAMED]).arg(self.name()).arg(program);
        command.current_dir(self.directory.path());
        command.env("HOME", self.directory.path()).env("XDG_RUNTIME_DIR", self.directory.path());
        command
    }

    /// The switch's end of the host's interface.
    pub(crate) fn port(&self) -> Result<SyncDevice, TestbedError> {
        let path = PathBuf::from(NAMESPACES).join(&self.namespace);
        let mac = mac_of(self.index);
        // A thread of its own enters the namespace; the interface stays there.
        let made = thread::spawn(move || {
            let failed = |error| TestbedError::Namespace { path: path.clone(), error };
            let namespace = File::open(&path).map_err(failed)?;
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(|error| failed(error.into()))?;
            let device = DeviceBuilder::new().name(INTERFACE).layer(Layer::L2).mac_addr(mac);
            let device = device.build_sync().map_err(TestbedError::Interface)?;
            device.set_nonblocking(true).map_err(TestbedError::Interface)?;
            Ok(device)
        });
        made.join().expect("the thread does not panic")
    }

    /// Gives the interface its address. Addresses of all hosts are in one subnet.
    pub(crate) fn bring_up(&self) -> Result<(), TestbedError> {
        let address = format!("{}/24", self.address());
        ip(&["-n", &self.namespace, "address", "add", &address, "dev", INTERFACE])?;
        ip(&["-n", &self.namespace, "link", "set", INTERFACE, "up"])?;
        ip(&["-n", &self.namespace, "link", "set", "lo", "up"])
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        remove(&self.namespace);
    }
}

/// The hardware address of a host's interface; the switch finds the port by its last byte.
pub(crate) fn mac_of(index: usize) -> [u8; 6] {
    [0x02, 0, 0, 0, 0, u8::try_from(index).expect("at most 200 hosts")]
}

/// Names of one process differ by their serial number, also between threads.
fn unused_name() -> String {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    format!("{PREFIX}{}-{}", process::id(), SERIAL.fetch_add(1, Ordering::Relaxed))
}

/// Removes namespaces of tests that were killed before they could do it.
pub(crate) fn remove_stale() {
    let Ok(entries) = fs::read_dir(NAMESPACES) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            remove(&name);
        }
    }
}

/// Ends the processes in a namespace of ours, then removes it.
fn remove(namespace: &str) {
    let pids = Command::new("ip").args(["netns", "pids", namespace]).output();
    let pids = pids.map(|output| output.stdout).unwrap_or_default();
    for pid in String::from_utf8_lossy(&pids).split_whitespace() {
        let pid = pid.parse().ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            // It may have ended meanwhile.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
    // A namespace that is in use cannot be removed; the next testbed tries again.
    let _ = ip(&["netns", "delete", namespace]);
}

fn ip(arguments: &[&str]) -> Result<(), TestbedError> {
    let failed =
        |reason| TestbedError::Command { command: format!("ip {}", arguments.join(" ")), reason };
    let mut command = Command::new("ip");
    let output = command.args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}
