//! The command under its guard, from our side.

use std::{
    os::{fd::AsFd, unix::net::UnixStream, unix::process::CommandExt},
    process::{Child, Command, ExitCode, Stdio},
    time::Duration,
};

use anyhow::{Context, Result};
use mutua_service::{
    Moment,
    client::{Event, Hold},
};
use nix::sys::signal::Signal;
use rustix::process::{Pid, getpid, set_child_subreaper};
use tokio::io::AsyncReadExt;

use super::{
    Grant, Plan, Report, Signals, leave, nested, signals,
    terminal::{self, Terminal},
};
use crate::{
    exit,
    guard::{self, Descendants, FromGuard, Left, Orders, RECORD, ToGuard},
    local::Place,
};

/// How often to look whether we have the terminal that the command waits for.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// A command that runs.
struct Running<'a> {
    plan: &'a Plan,
    hold: Hold,
    report: Report,
    terminal: Terminal,
    control: tokio::net::UnixStream,
    guard: Child,
    group: Option<Pid>,
    good_until: Moment,
    /// How it ended: its code, and the signal if there was one.
    ended: Option<(i32, Option<i32>)>,
    lost: bool,
    /// Whether its guard died before it.
    unguarded: bool,
    /// Whether the lock can still be left: not if the node has none of us.
    gone: bool,
}

pub(super) async fn run(
    plan: &Plan,
    hold: Hold,
    grant: Grant,
    mut signals: Signals,
    report: Report,
) -> Result<ExitCode> {
    // If the guard is killed, what it guarded becomes our child, and we end it.
    set_child_subreaper(Some(getpid())).context("it cannot become a subreaper")?;
    signals.pass_on()?;
    let (guard, control) = start(plan, &grant)?;
    // It blocks a signal, which the guard must not inherit.
    let terminal = Terminal::new();
    control.set_nonblocking(true)?;
    let control = tokio::net::UnixStream::from_std(control)?;
    let good_until = grant.good_until;
    let mut running = Running {
        plan,
        hold,
        report,
        terminal,
        control,
        guard,
        group: None,
        good_until,
        ended: None,
        lost: false,
        unguarded: false,
        gone: false,
    };
    running.attend(&mut signals).await;
    running.finish().await
}

/// Starts the guard with the command.
fn start(plan: &Plan, grant: &Grant) -> Result<(Child, UnixStream)> {
    let endpoint = match &plan.endpoint {
        Some(endpoint) => endpoint.clone(),
        None => Place::find()?.endpoint(),
    };
    let orders = Orders {
        grace: plan.grace,
        margin: plan.margin,
        on_lost: plan.on_lost.clone(),
        endpoint: endpoint.clone(),
        session: grant.session,
        good_until: grant.good_until.nanos(),
    };
    let (ours, theirs) = UnixStream::pair().context("no socket for the guard")?;
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("mutua")
        .args(orders.arguments())
        .args(&plan.command)
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
        .process_group(0)
        .env("LOCK_NAME", &plan.name)
        .env("LOCK_TOKEN", grant.fence.to_string())
        .env("LOCK_OWNER", &plan.owner)
        .env("LOCK_TTL_MS", plan.ttl.as_millis().to_string())
        .env("LOCK_SOCKET", endpoint);
    let (held, names) = nested::environment(plan, grant.fence)?;
    command.env(held, names);
    if plan.etcd_env {
        command.env("ETCD_LOCK_KEY", format!("{}/{:x}", plan.name, grant.session));
        command.env("ETCD_LOCK_REV", grant.fence.to_string());
    }
    let guard = command.spawn().context("the guard cannot be started")?;
    guard::send_descriptor(&ours, std::io::stdin().as_fd())?;
    Ok((guard, ours))
}

impl Running<'_> {
    /// Looks after everything until nothing of the command is left.
    async fn attend(&mut self, signals: &mut Signals) {
        let mut record = [0; RECORD];
        let mut filled = 0;
        loop {
            let last = self.good_until.before(self.plan.margin / 2).since(mutua_service::now());
            let ignored = self.plan.on_lost == guard::OnLost::Ignore;
            tokio::select! {
                biased;
                read = self.control.read(&mut record[filled..]) => match read {
                    Ok(count) if count > 0 => {
                        filled += count;
                        if filled == RECORD {
                            filled = 0;
                            if self.hear(record).await {
                                return;
                            }
                        }
                    }
                    // The guard is dead: we are the parent of whatever it has left.
                    Ok(_) | Err(_) => {
                        self.unguarded = self.ended.is_none();
                        self.end_all().await;
                        return;
                    }
                },
                event = self.hold.events.recv(), if !self.gone => self.learn(event).await,
                signal = signals.any() => self.send(ToGuard::Signal(signal)),
                () = tokio::time::sleep(LOOK_AGAIN), if self.terminal.is_asked() => {
                    self.terminal.answer();
                }
                // The guard should have done it; it may have been stopped.
                () = tokio::time::sleep(last), if !ignored => {
                    self.lose("the lease runs out").await;
                    self.end_all().await;
                    return;
                }
            }
        }
    }

    async fn learn(&mut self, event: Option<Event>) {
        match event {
            Some(Event::GoodUntil(until)) => {
                self.good_until = until;
                self.send(ToGuard::GoodUntil(until.nanos()));
            }
            Some(Event::Lost(why)) => {
                self.lose(&why).await;
                self.send(ToGuard::Lost);
            }
            Some(Event::Opened { session, .. }) => self.send(ToGuard::Session(session)),
            Some(Event::Note(text)) => self.report.note(&text),
            Some(Event::Left | Event::Unreachable(_)) | None => self.gone = true,
            Some(Event::Waiting(_) | Event::Granted { .. } | Event::Refused(_)) => {}
        }
    }

    async fn lose(&mut self, why: &str) {
        if !self.lost {
            self.lost = true;
            self.report.lost(&self.plan.name, why);
        }
    }

    /// Says whether nothing is left.
    async fn hear(&mut self, record: [u8; RECORD]) -> bool {
        match FromGuard::read(record) {
            Some(FromGuard::Started(pid)) => {
                self.group = Pid::from_raw(pid);
                if let Some(group) = self.group {
                    self.terminal.started(group);
                }
            }
            Some(FromGuard::TooLate) => {
                self.lose("the lease ran out before the command was started").await;
                return true;
            }
            Some(FromGuard::NotStarted(error)) => {
                let error = std::io::Error::from_raw_os_error(error);
                let program = self.plan.command[0].to_string_lossy();
                self.report.say(&format!("{program} cannot be run: {error}"));
                let missing = error.kind() == std::io::ErrorKind::NotFound;
                self.ended = Some((if missing { 127 } else { 126 }, None));
                return true;
            }
            Some(FromGuard::Exited(code)) => self.ended = Some((code, None)),
            Some(FromGuard::Killed(signal)) => self.ended = Some((128 + signal, Some(signal))),
            Some(FromGuard::Stopped(signal)) => {
                if let Some(group) = self.group {
                    self.terminal.stopped(group, signal);
                    if self.terminal.is_asked() {
                        self.report.note("the command waits for the terminal; `fg` gives it");
                    }
                }
            }
            Some(FromGuard::Ending) => self.lose("the lease runs out").await,
            Some(FromGuard::Gone) => return true,
            None => {}
        }
        false
    }

    /// Kills the guard and everything below it.
    async fn end_all(&mut self) {
        let _ = self.guard.kill();
        let mut descendants = Descendants::default();
        let command = self.group;
        loop {
            let left = descendants.kill(|pid, status| {
                let signal = status.terminating_signal();
                let code = status.exit_status().or(signal.map(|signal| 128 + signal));
                if let Some(code) = code.filter(|_| Some(pid) == command) {
                    self.ended = Some((code, signal));
                }
            });
            let again = match left {
                Left::Nobody => return,
                Left::Some => Duration::from_millis(5),
                Left::Untouchable => Duration::from_secs(1),
            };
            tokio::time::sleep(again).await;
        }
    }

    async fn finish(mut self) -> Result<ExitCode> {
        let had_terminal = self.terminal.take();
        let _ = self.guard.wait();
        if self.unguarded && !self.lost {
            self.report.say("the guard of the command died, and all of it was ended");
        }
        let unknown = if self.lost { exit::LOST } else { exit::INTERNAL };
        let (code, signal) = self.ended.unwrap_or((i32::from(unknown), None));
        self.report.ended(code, signal);
        if !self.gone && leave(&mut self.hold).await {
            self.report.released();
        } else if !self.lost {
            self.report.say("the lock could not be released; its lease will free it");
        }
        // Also if that was to be ignored: the command's own code means that all was well.
        if self.lost {
            return Ok(ExitCode::from(exit::LOST));
        }
        if self.unguarded {
            return Ok(ExitCode::from(exit::INTERNAL));
        }
        Ok(match signal {
            Some(signal) => {
                if had_terminal && [Signal::SIGINT as i32, Signal::SIGQUIT as i32].contains(&signal)
                {
                    terminal::tell_others(signal);
                }
                signals::end(signal)
            }
            None => ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
        })
    }

    fn send(&self, message: ToGuard) {
        // If the guard is gone, the next read says so. If it is stopped and reads nothing, this
        // must not wait for it: the time comes when we have to act in its place.
        let _ = rustix::io::write(&self.control, &message.record());
    }
}
