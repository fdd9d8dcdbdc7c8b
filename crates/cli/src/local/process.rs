//! The process behind a node's socket, which may run and not answer.

use std::{fs, io, path::Path};

use rustix::{
    fd::OwnedFd,
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt},
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};

/// The process that listens on a Unix socket.
pub(crate) struct Listener {
    pid: Pid,
    process: OwnedFd,
}

impl Listener {
    /// The process that listens there; none if there is none, or this user may not connect.
    pub(crate) fn on(socket: &Path) -> Option<Self> {
        let address = SocketAddrUnix::new(socket).ok()?;
        // A process that is stopped accepts nothing: if its queue is full, a blocking call would
        // wait for it.
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let stream = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).ok()?;
        connect(&stream, &address).ok()?;
        let pid = sockopt::socket_peercred(&stream).ok()?.pid;
        let process = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        Some(Self { pid, process })
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Whether it is stopped, by SIGSTOP or by a debugger.
    pub(crate) fn is_stopped(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap_or_default();
        // The name in parentheses may contain anything.
        let state = stat.rsplit_once(") ").map(|(_, rest)| rest);
        state.is_some_and(|rest| rest.starts_with(['T', 't']))
    }

    /// What a person should know of a node that does not answer.
    pub(crate) fn describe(&self) -> String {
        let pid = self.pid();
        match self.is_stopped() {
            true => format!("its process {pid} is stopped (`kill -CONT {pid}` lets it go on)"),
            false => format!("its process {pid} runs"),
        }
    }

    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(pidfd_send_signal(&self.process, signal)?)
    }
}
