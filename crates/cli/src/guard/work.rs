//! A guard at work: it waits for the command, its orders, and the time.

use std::{
    io::Read,
    os::{fd::AsFd, unix::net::UnixStream},
    process::{Command, Stdio},
};

use anyhow::{Context, Result};
use nix::sys::{signal::SigSet, signalfd::SignalFd};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, Signal, WaitOptions, WaitStatus, test_kill_process_group, wait},
};

use super::{
    FromGuard, OnLost, Orders, RECORD, ToGuard, end_all,
    ending::{Ending, Limits},
    now, signal_group, wire,
};

/// How often to look again at what gives no sign: a process group that others are the parents of.
const LOOK_AGAIN: u64 = 20_000_000;

pub(super) struct Work {
    orders: Orders,
    limits: Limits,
    control: UnixStream,
    /// Whether `mutua lock` is still there.
    wanted: bool,
    children: SignalFd,
    /// The command's own process, which leads its process group.
    command: Pid,
    command_ended: bool,
    good_until: u64,
    session: i64,
    ending: Ending,
}

impl Work {
    pub(super) fn new(
        orders: Orders,
        control: UnixStream,
        children: SignalFd,
        command: u32,
    ) -> Result<Self> {
        let command = i32::try_from(command).ok().and_then(Pid::from_raw).context("no process")?;
        Ok(Self {
            limits: orders.limits(),
            good_until: orders.good_until,
            session: orders.session,
            orders,
            control,
            wanted: true,
            children,
            command,
            command_ended: false,
            ending: Ending::No,
        })
    }

    /// Guards the command until nothing is left to guard.
    pub(super) fn run(mut self) -> Result<()> {
        self.control.set_nonblocking(true)?;
        self.tell(FromGuard::Started(self.command.as_raw_nonzero().get()));
        loop {
            self.take_orders();
            self.take_in_the_dead();
            if self.is_over() {
                break;
            }
            self.look_at_the_time(now());
            self.wait()?;
        }
        self.tell(FromGuard::Gone);
        if !self.wanted && !self.orders.endpoint.is_empty() {
            // The lease frees the lock if this fails, only later.
            let _ = mutua_service::goodbye(&self.orders.endpoint, self.session);
        }
        Ok(())
    }

    /// Sleeps until something happens or is due.
    fn wait(&self) -> Result<()> {
        let readable = PollFlags::IN;
        let mut sources = vec![PollFd::from_borrowed_fd(self.children.as_fd(), readable)];
        if self.wanted {
            sources.push(PollFd::new(&self.control, readable));
        }
        let wait = self.due().saturating_sub(now()).min(3_600_000_000_000);
        let wait = Timespec {
            tv_sec: (wait / 1_000_000_000).cast_signed(),
            tv_nsec: (wait % 1_000_000_000).cast_signed(),
        };
        match poll(&mut sources, Some(&wait)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error).context("it cannot wait"),
        }
    }

    /// When to wake at the latest. Sleep of the machine is noticed when it wakes.
    fn due(&self) -> u64 {
        let again = now() + LOOK_AGAIN;
        match self.ending {
            Ending::Killing => again / 2,
            Ending::Asked { kill_at } if self.command_ended => again.min(kill_at),
            Ending::Asked { kill_at } => kill_at,
            Ending::No if self.command_ended => again,
            Ending::No if self.orders.on_lost == OnLost::Ignore => u64::MAX,
            Ending::No => self.limits.ask_at(self.good_until),
        }
    }

    fn look_at_the_time(&mut self, now: u64) {
        match self.ending {
            Ending::No if now >= self.limits.ask_at(self.good_until) => self.begin_to_end(now),
            Ending::Asked { kill_at } if now >= kill_at => self.ending = Ending::Killing,
            Ending::No | Ending::Asked { .. } | Ending::Killing => {}
        }
    }

    /// The lock is lost, or will be. Somebody who said to ignore it means loss, not our own death.
    fn begin_to_end(&mut self, now: u64) {
        if self.ending != Ending::No || (self.wanted && self.orders.on_lost == OnLost::Ignore) {
            return;
        }
        self.tell(FromGuard::Ending);
        self.ending = Ending::Asked { kill_at: self.limits.kill_at(now, self.good_until) };
        match &self.orders.on_lost {
            OnLost::Signal(nix::sys::signal::Signal::SIGKILL) => self.ending = Ending::Killing,
            OnLost::Signal(signal) => self.signal(*signal as i32),
            OnLost::Ignore => self.signal(Signal::TERM.as_raw()),
            OnLost::Exec(command) => {
                let mut shell = Command::new("sh");
                let shell = shell.arg("-c").arg(command).stdin(Stdio::null());
                // What is blocked here must not be blocked there.
                let _ = SigSet::all().thread_unblock();
                let spawned = shell.spawn();
                let _ = SigSet::all().thread_block();
                if let Err(error) = spawned {
                    eprintln!("mutua: `{command}` cannot be run on loss: {error}");
                    self.signal(Signal::TERM.as_raw());
                }
            }
        }
        if self.ending != Ending::Killing {
            // A stopped process does not hear anything else.
            signal_group(self.command, Signal::CONT);
        }
    }

    fn signal(&self, number: i32) {
        if let Some(signal) = Signal::from_named_raw(number) {
            signal_group(self.command, signal);
        }
    }

    fn take_orders(&mut self) {
        let mut record = [0; RECORD];
        while self.wanted {
            match self.control.read(&mut record) {
                // Nine bytes on a local socket are written and read at once.
                Ok(RECORD) => self.obey(record),
                Ok(_) => {
                    self.wanted = false;
                    self.begin_to_end(now());
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.wanted = false;
                    self.begin_to_end(now());
                }
            }
        }
    }

    fn obey(&mut self, record: [u8; RECORD]) {
        match ToGuard::read(record) {
            Some(ToGuard::GoodUntil(time)) => self.good_until = time,
            Some(ToGuard::Signal(number)) => self.signal(number),
            Some(ToGuard::Lost) => self.begin_to_end(now()),
            Some(ToGuard::Session(session)) => self.session = session,
            None => {}
        }
    }

    fn take_in_the_dead(&mut self) {
        while let Ok(Some(_)) = self.children.read_signal() {}
        loop {
            match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
                Ok(Some((pid, status))) if pid == self.command => self.tell_how(status),
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) | Err(_) => return,
            }
        }
    }

    fn tell_how(&mut self, status: WaitStatus) {
        if let Some(signal) = status.stopping_signal() {
            return self.tell(FromGuard::Stopped(signal));
        }
        self.command_ended = true;
        if let Some(code) = status.exit_status() {
            self.tell(FromGuard::Exited(code));
        } else if let Some(signal) = status.terminating_signal() {
            self.tell(FromGuard::Killed(signal));
        }
    }

    /// A lock is free when the command's process group is gone. Whoever left the group, as daemons
    /// do, left the lock; but when the lock was lost nobody may stay.
    fn is_over(&self) -> bool {
        match self.ending {
            Ending::No => self.command_ended && test_kill_process_group(self.command).is_err(),
            Ending::Asked { .. } => self.command_ended && nobody_left(),
            Ending::Killing => end_all(),
        }
    }

    fn tell(&self, message: FromGuard) {
        // If nobody listens, the next read says so.
        let _ = wire::write(&self.control, message);
    }
}

/// Whether this process has no child left.
fn nobody_left() -> bool {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(waitid(WaitId::All, look), Err(Errno::CHILD))
}
