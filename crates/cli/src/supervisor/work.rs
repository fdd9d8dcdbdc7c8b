//! The supervisor at work: it waits for the command, for messages, and for the time.

use std::{
    io::{Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result};
use nix::sys::{signal::SigSet, signalfd::SignalFd};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, Signal, WaitStatus, test_kill_process_group},
    time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create,
        timerfd_settime,
    },
};

use super::{
    Descendants, FromSupervisor, Left, OnLost, Orders, RECORD, ToSupervisor,
    descendants::{is_a_supervisor_left, none_left, reap},
    ending::{Ending, Limits},
    now, signal_group, wire,
};

/// How often to look again at what gives no sign: a process group that others are the parents of,
/// or processes that were killed and are slow to die.
const LOOK_AGAIN: u64 = 20_000_000;
/// How often to check processes whose exit is signalled, or that cannot be killed.
const LOOK_SELDOM: u64 = 1_000_000_000;

/// How often to try to end the session of a client that has ended, and the pause between.
const CLOSE_ATTEMPTS: u32 = 8;
const CLOSE_PAUSE: Duration = Duration::from_millis(500);

pub(super) struct Work {
    orders: Orders,
    limits: Limits,
    control: UnixStream,
    /// Whether `mutua lock` is still running.
    connected: bool,
    children: SignalFd,
    /// The command's own process, which leads its process group.
    command: Pid,
    command_ended: bool,
    /// Whether a signal ended it. Then its descendants did not leave the group on purpose, and all
    /// of them must exit.
    cut_short: bool,
    descendants: Descendants,
    /// Whether the processes that are left cannot be killed.
    stuck: bool,
    /// On the clock of leases, which runs while the machine is suspended.
    timer: OwnedFd,
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
        let command =
            i32::try_from(command).ok().and_then(Pid::from_raw).context("invalid process id")?;
        Ok(Self {
            limits: orders.limits(),
            good_until: orders.good_until,
            session: orders.session,
            orders,
            control,
            connected: true,
            children,
            command,
            command_ended: false,
            cut_short: false,
            descendants: Descendants::default(),
            stuck: false,
            timer: timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC)
                .context("cannot create a timer")?,
            ending: Ending::No,
        })
    }

    /// Supervises the command until no process of it is left.
    pub(super) fn run(mut self) -> Result<()> {
        self.control.set_nonblocking(true)?;
        self.send(FromSupervisor::Started(self.command.as_raw_nonzero().get()));
        loop {
            self.receive_all();
            self.reap();
            self.check_time(now());
            if self.is_over() {
                break;
            }
            self.wait()?;
        }
        self.send(FromSupervisor::Gone);
        if !self.connected && !self.orders.endpoint.is_empty() {
            self.close_session();
        }
        Ok(())
    }

    /// Ends the session of a client that has ended. Its node may be busy, or be started again just
    /// now; if all attempts fail, the lock is free when its lease expires.
    fn close_session(&self) {
        for attempt in 1..=CLOSE_ATTEMPTS {
            let closed = mutua_client::close_session(&self.orders.endpoint, self.session);
            if closed.is_ok() || attempt == CLOSE_ATTEMPTS {
                return;
            }
            std::thread::sleep(CLOSE_PAUSE);
        }
    }

    /// Sleeps until something happens or is due.
    fn wait(&self) -> Result<()> {
        self.set_timer()?;
        let readable = PollFlags::IN;
        let mut sources = vec![
            PollFd::from_borrowed_fd(self.children.as_fd(), readable),
            PollFd::new(&self.timer, readable),
        ];
        if self.connected {
            sources.push(PollFd::new(&self.control, readable));
        }
        match poll(&mut sources, None) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error).context("cannot wait for events"),
        }
    }

    fn set_timer(&self) -> Result<()> {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        // Zero would mean never.
        let due = self.due().clamp(1, i64::MAX.cast_unsigned());
        let due = Timespec {
            tv_sec: (due / 1_000_000_000).cast_signed(),
            tv_nsec: (due % 1_000_000_000).cast_signed(),
        };
        let due = Itimerspec { it_interval: zero, it_value: due };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &due)
            .context("cannot set the timer")?;
        Ok(())
    }

    /// When to wake at the latest.
    fn due(&self) -> u64 {
        let again = now() + LOOK_AGAIN;
        let seldom = now() + LOOK_SELDOM;
        match self.ending {
            Ending::Killing if self.stuck => seldom,
            Ending::Killing => again,
            Ending::Signalled { kill_at } if self.command_ended => again.min(kill_at),
            Ending::Signalled { kill_at } => kill_at,
            Ending::No if self.command_ended && self.cut_short => seldom.min(self.signal_at()),
            Ending::No if self.command_ended => again,
            Ending::No => self.signal_at(),
        }
    }

    /// When the first signal is sent, unless the lease is renewed by then.
    fn signal_at(&self) -> u64 {
        if self.connected && self.orders.on_lost == OnLost::Ignore {
            return u64::MAX;
        }
        self.limits.signal_at(self.good_until)
    }

    fn check_time(&mut self, now: u64) {
        match self.ending {
            Ending::No if now >= self.signal_at() => self.begin_to_end(now),
            Ending::Signalled { kill_at } if now >= kill_at => self.ending = Ending::Killing,
            Ending::No | Ending::Signalled { .. } | Ending::Killing => {}
        }
    }

    /// The lock is lost, or is about to be. `--on-lost ignore` applies while `mutua lock` runs.
    fn begin_to_end(&mut self, now: u64) {
        if self.ending != Ending::No || (self.connected && self.orders.on_lost == OnLost::Ignore) {
            return;
        }
        self.send(FromSupervisor::Ending);
        self.ending = Ending::Signalled { kill_at: self.limits.kill_at(now, self.good_until) };
        match &self.orders.on_lost.clone() {
            OnLost::Signal(nix::sys::signal::Signal::SIGKILL) => self.ending = Ending::Killing,
            OnLost::Signal(signal) => self.signal(*signal as i32),
            OnLost::Ignore => self.signal(Signal::TERM.as_raw()),
            OnLost::Exec(command) => {
                let mut shell = Command::new("sh");
                let shell = shell.arg("-c").arg(command).stdin(Stdio::null());
                // The shell must not inherit the blocked signals.
                let _ = SigSet::all().thread_unblock();
                let spawned = shell.spawn();
                let _ = SigSet::all().thread_block();
                if let Err(error) = spawned {
                    let text = format!(
                        "mutua: cannot run `{command}` after the loss of the lock: {error}"
                    );
                    // Standard error may be closed.
                    let _ = writeln!(std::io::stderr(), "{text}");
                    self.signal(Signal::TERM.as_raw());
                }
            }
        }
        if self.ending != Ending::Killing {
            // A stopped process receives nothing else.
            signal_group(self.command, Signal::CONT);
        }
    }

    fn signal(&mut self, number: i32) {
        if let Some(signal) = Signal::from_named_raw(number) {
            self.cut_short |= Descendants::are_all_meant(signal);
            self.descendants.signal(self.command, signal);
        }
    }

    fn receive_all(&mut self) {
        let mut record = [0; RECORD];
        while self.connected {
            match self.control.read(&mut record) {
                // Nine bytes on a local socket are written and read at once.
                Ok(RECORD) => self.handle(record),
                Ok(_) => {
                    self.connected = false;
                    self.begin_to_end(now());
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.connected = false;
                    self.begin_to_end(now());
                }
            }
        }
    }

    fn handle(&mut self, record: [u8; RECORD]) {
        match ToSupervisor::read(record) {
            Some(ToSupervisor::GoodUntil(time)) => self.good_until = time,
            Some(ToSupervisor::Signal(number)) => self.signal(number),
            Some(ToSupervisor::Lost) => self.begin_to_end(now()),
            Some(ToSupervisor::Session(session)) => self.session = session,
            None => {}
        }
    }

    fn reap(&mut self) {
        while let Ok(Some(_)) = self.children.read_signal() {}
        let mut last = None;
        reap(|pid, status| {
            // A stop that was followed by the exit is not reported.
            last = if pid == self.command { Some(status) } else { last };
        });
        if let Some(status) = last {
            self.report_status(status);
        }
    }

    fn report_status(&mut self, status: WaitStatus) {
        if let Some(signal) = status.stopping_signal() {
            return self.send(FromSupervisor::Stopped(signal));
        }
        self.command_ended = true;
        self.cut_short |= status.signaled();
        if let Some(code) = status.exit_status() {
            self.send(FromSupervisor::Exited(code));
        } else if let Some(signal) = status.terminating_signal() {
            self.send(FromSupervisor::Killed(signal));
        }
    }

    /// Whether the lock can be released: the command's process group has exited. Processes that
    /// left the group, as daemons do, do not hold the lock. But when a signal ended the command or
    /// the lock was lost, no descendant may be left.
    fn is_over(&mut self) -> bool {
        match self.ending {
            Ending::Killing => self.is_all_killed(),
            _ if !self.command_ended => false,
            Ending::No if !self.cut_short => {
                // A process that may not be signalled exists.
                let exited = test_kill_process_group(self.command) == Err(Errno::SRCH);
                exited && !is_a_supervisor_left()
            }
            Ending::No | Ending::Signalled { .. } => none_left(),
        }
    }

    fn is_all_killed(&mut self) -> bool {
        if !self.command_ended {
            signal_group(self.command, Signal::KILL);
        }
        let mut last = None;
        let left = self.descendants.kill(|pid, status| {
            last = if pid == self.command { Some(status) } else { last };
        });
        if let Some(status) = last {
            self.report_status(status);
        }
        self.stuck = left == Left::OtherUser;
        left == Left::None
    }

    fn send(&self, message: FromSupervisor) {
        // If the socket is closed, the next read reports it.
        let _ = wire::write(&self.control, message);
    }
}
