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
use rustix::process::{Pid, getpid, set_child_subreaper};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Grant, Plan, Report, Signals, leave, nested, signals, terminal::Terminal};
use crate::{
    exit,
    guard::{self, FromGuard, Orders, RECORD, ToGuard},
    local::Place,
};

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
                        self.end_all().await;
                        return;
                    }
                },
                event = self.hold.events.recv(), if !self.gone => self.learn(event).await,
                signal = signals.any() => self.send(ToGuard::Signal(signal)).await,
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
                self.send(ToGuard::GoodUntil(until.nanos())).await;
            }
            Some(Event::Lost(why)) => {
                self.lose(&why).await;
                self.send(ToGuard::Lost).await;
            }
            Some(Event::Opened { session, .. }) => self.send(ToGuard::Session(session)).await,
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
                    self.terminal.give(group);
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
            Some(FromGuard::Stopped(_)) => {
                if let Some(group) = self.group {
                    self.terminal.stop_with(group);
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
        while !guard::end_all() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn finish(mut self) -> Result<ExitCode> {
        self.terminal.take();
        let _ = self.guard.wait();
        let (code, signal) = match self.ended {
            Some(ended) => ended,
            None if self.lost => (i32::from(exit::LOST), None),
            None => {
                self.report.say("the guard of the command died, and all of it was ended");
                (i32::from(exit::INTERNAL), None)
            }
        };
        self.report.ended(code, signal);
        if !self.gone && leave(&mut self.hold).await {
            self.report.released();
        } else if !self.lost {
            self.report.say("the lock could not be released; its lease will free it");
        }
        if self.lost && self.plan.on_lost != guard::OnLost::Ignore {
            return Ok(ExitCode::from(exit::LOST));
        }
        Ok(match signal {
            Some(signal) => signals::code(signal),
            None => ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
        })
    }

    async fn send(&mut self, message: ToGuard) {
        // If the guard is gone, the next read says so.
        let _ = self.control.write_all(&message.record()).await;
    }
}
