//! A guard at work: it waits for the command, its orders, and the time.

use std::{
    io::{Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    process::{Command, Stdio},
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
    Descendants, FromGuard, Left, OnLost, Orders, RECORD, ToGuard,
    descendants::{is_a_guard_left, nobody_left, take_in_the_dead},
    ending::{Ending, Limits},
    now, signal_group, wire,
};

/// How often to look again at what gives no sign: a process group that others are the parents of,
/// or processes that were killed and are slow to die.
const LOOK_AGAIN: u64 = 20_000_000;
/// How often to look at what gives a sign when it ends, or cannot be helped.
const LOOK_SELDOM: u64 = 1_000_000_000;

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
    /// Whether it was ended from outside. Then what it has started did not leave on purpose, and
    /// all of it must be gone.
    cut_short: bool,
    descendants: Descendants,
    /// Whether what is left cannot be killed.
    stuck: bool,
    /// On the clock of leases, which goes on while the machine sleeps.
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
            cut_short: false,
            descendants: Descendants::default(),
            stuck: false,
            timer: timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC)
                .context("it has no timer")?,
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
            self.look_at_the_time(now());
            if self.is_over() {
                break;
            }
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
        self.set_the_timer()?;
        let readable = PollFlags::IN;
        let mut sources = vec![
            PollFd::from_borrowed_fd(self.children.as_fd(), readable),
            PollFd::new(&self.timer, readable),
        ];
        if self.wanted {
            sources.push(PollFd::new(&self.control, readable));
        }
        match poll(&mut sources, None) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error).context("it cannot wait"),
        }
    }

    fn set_the_timer(&self) -> Result<()> {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        // Zero would mean never.
        let due = self.due().clamp(1, i64::MAX.cast_unsigned());
        let due = Timespec {
            tv_sec: (due / 1_000_000_000).cast_signed(),
            tv_nsec: (due % 1_000_000_000).cast_signed(),
        };
        let due = Itimerspec { it_interval: zero, it_value: due };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &due).context("no timer")?;
        Ok(())
    }

    /// When to wake at the latest.
    fn due(&self) -> u64 {
        let again = now() + LOOK_AGAIN;
        let seldom = now() + LOOK_SELDOM;
        match self.ending {
            Ending::Killing if self.stuck => seldom,
            Ending::Killing => again,
            Ending::Asked { kill_at } if self.command_ended => again.min(kill_at),
            Ending::Asked { kill_at } => kill_at,
            Ending::No if self.command_ended && self.cut_short => seldom.min(self.ask_at()),
            Ending::No if self.command_ended => again,
            Ending::No => self.ask_at(),
        }
    }

    /// When the command is asked to end, unless the lock is good for longer by then.
    fn ask_at(&self) -> u64 {
        if self.wanted && self.orders.on_lost == OnLost::Ignore {
            return u64::MAX;
        }
        self.limits.ask_at(self.good_until)
    }

    fn look_at_the_time(&mut self, now: u64) {
        match self.ending {
            Ending::No if now >= self.ask_at() => self.begin_to_end(now),
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
        match &self.orders.on_lost.clone() {
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
                    let text = format!("mutua: `{command}` cannot be run on loss: {error}");
                    // Nobody may be left to read it.
                    let _ = writeln!(std::io::stderr(), "{text}");
                    self.signal(Signal::TERM.as_raw());
                }
            }
        }
        if self.ending != Ending::Killing {
            // A stopped process does not hear anything else.
            signal_group(self.command, Signal::CONT);
        }
    }

    fn signal(&mut self, number: i32) {
        if let Some(signal) = Signal::from_named_raw(number) {
            self.cut_short |= Descendants::are_all_meant(signal);
            self.descendants.signal(self.command, signal);
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
        let mut told = None;
        take_in_the_dead(|pid, status| {
            // A stop that was followed by the end is no news.
            told = if pid == self.command { Some(status) } else { told };
        });
        if let Some(status) = told {
            self.tell_how(status);
        }
    }

    fn tell_how(&mut self, status: WaitStatus) {
        if let Some(signal) = status.stopping_signal() {
            return self.tell(FromGuard::Stopped(signal));
        }
        self.command_ended = true;
        self.cut_short |= status.signaled();
        if let Some(code) = status.exit_status() {
            self.tell(FromGuard::Exited(code));
        } else if let Some(signal) = status.terminating_signal() {
            self.tell(FromGuard::Killed(signal));
        }
    }

    /// A lock is free when the command's process group is gone: whoever left the group, as daemons
    /// do, left the lock. But when the command was cut short or the lock was lost, nobody may stay.
    fn is_over(&mut self) -> bool {
        match self.ending {
            Ending::Killing => self.is_all_killed(),
            _ if !self.command_ended => false,
            Ending::No if !self.cut_short => {
                // One that may not be signalled is there.
                let gone = test_kill_process_group(self.command) == Err(Errno::SRCH);
                gone && !is_a_guard_left()
            }
            Ending::No | Ending::Asked { .. } => nobody_left(),
        }
    }

    fn is_all_killed(&mut self) -> bool {
        if !self.command_ended {
            signal_group(self.command, Signal::KILL);
        }
        let mut told = None;
        let left = self.descendants.kill(|pid, status| {
            told = if pid == self.command { Some(status) } else { told };
        });
        if let Some(status) = told {
            self.tell_how(status);
        }
        self.stuck = left == Left::Untouchable;
        left == Left::Nobody
    }

    fn tell(&self, message: FromGuard) {
        // If nobody listens, the next read says so.
        let _ = wire::write(&self.control, message);
    }
}
