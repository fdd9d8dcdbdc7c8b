//! `mutua lock` while its command runs below the supervisor.

use std::{
    os::{fd::AsFd, unix::net::UnixStream, unix::process::CommandExt},
    process::{Child, Command, ExitCode, Stdio},
    time::Duration,
};

use anyhow::{Context, Result};
use mutua_client::{Event, Hold, Moment};
use nix::sys::signal::Signal;
use rustix::process::{Pid, getpid, set_child_subreaper};
use tokio::io::AsyncReadExt;

use super::{
    Grant, Plan, Report, Signals, leave, nested, signals,
    terminal::{self, Terminal},
};
use crate::{
    exit,
    supervisor::{self, Descendants, FromSupervisor, Left, Orders, RECORD, ToSupervisor},
};

/// How often to check whether we have the terminal that the command waits for.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// A command that runs.
struct Running<'a> {
    plan: &'a Plan,
    hold: Hold,
    report: Report,
    terminal: Terminal,
    control: tokio::net::UnixStream,
    supervisor: Child,
    group: Option<Pid>,
    good_until: Moment,
    /// How it ended: its code, and the signal if there was one.
    ended: Option<(i32, Option<i32>)>,
    lost: bool,
    /// Whether the supervisor was killed before the command exited.
    unsupervised: bool,
    /// Whether the session is over, so that nothing is left to release.
    session_over: bool,
}

pub(super) async fn run(
    plan: &Plan,
    hold: Hold,
    grant: Grant,
    mut signals: Signals,
    report: Report,
) -> Result<ExitCode> {
    // If the supervisor is killed, its children become ours, and we kill them.
    set_child_subreaper(Some(getpid())).context("cannot become a subreaper")?;
    signals.pass_on()?;
    let (supervisor, control) = start(plan, &grant)?;
    // It blocks a signal, which the supervisor must not inherit.
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
        supervisor,
        group: None,
        good_until,
        ended: None,
        lost: false,
        unsupervised: false,
        session_over: false,
    };
    running.attend(&mut signals).await;
    running.finish().await
}

/// Starts the supervisor, which starts the command.
fn start(plan: &Plan, grant: &Grant) -> Result<(Child, UnixStream)> {
    let endpoint = plan.target.endpoint();
    let orders = Orders {
        grace: plan.grace,
        margin: plan.margin,
        on_lost: plan.on_lost.clone(),
        endpoint: endpoint.clone(),
        session: grant.session,
        good_until: grant.good_until.nanos(),
    };
    let (ours, theirs) = UnixStream::pair().context("cannot create a socket for the supervisor")?;
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
        .env("LOCK_TTL_MS", grant.ttl.as_millis().to_string())
        .env("LOCK_SOCKET", endpoint)
        .env("LOCK_SCOPE", grant.scope.word());
    match grant.scope.cluster() {
        Some(cluster) => command.env("LOCK_CLUSTER", cluster),
        // An enclosing lock may have set it.
        None => command.env_remove("LOCK_CLUSTER"),
    };
    match &plan.value {
        Some(value) => command.env("LOCK_VALUE", value),
        None => command.env_remove("LOCK_VALUE"),
    };
    let (held, names) = nested::environment(plan, grant.fence);
    command.env(held, names);
    if plan.etcd_env {
        command.env("ETCD_LOCK_KEY", format!("{}/{:x}", plan.name, grant.session));
        command.env("ETCD_LOCK_REV", grant.fence.to_string());
    }
    let supervisor = command.spawn().context("cannot start the supervisor")?;
    supervisor::send_descriptor(&ours, std::io::stdin().as_fd())?;
    Ok((supervisor, ours))
}

impl Running<'_> {
    /// Handles events until no process of the command is left.
    async fn attend(&mut self, signals: &mut Signals) {
        let mut record = [0; RECORD];
        let mut filled = 0;
        loop {
            let last = self.good_until.before(self.plan.margin / 2).since(mutua_client::now());
            let ignored = self.plan.on_lost == supervisor::OnLost::Ignore;
            tokio::select! {
                biased;
                read = self.control.read(&mut record[filled..]) => match read {
                    Ok(count) if count > 0 => {
                        filled += count;
                        if filled == RECORD {
                            filled = 0;
                            if self.receive(record).await {
                                return;
                            }
                        }
                    }
                    // The supervisor was killed: its children are ours now.
                    Ok(_) | Err(_) => {
                        self.unsupervised = self.ended.is_none();
                        self.end_all().await;
                        return;
                    }
                },
                event = self.hold.events.recv(), if !self.session_over => self.handle(event).await,
                signal = signals.any() => self.send(ToSupervisor::Signal(signal)),
                () = tokio::time::sleep(LOOK_AGAIN), if self.terminal.is_requested() => {
                    self.terminal.answer();
                }
                // The supervisor should have done it; it may have been stopped.
                () = tokio::time::sleep(last), if !ignored => {
                    self.lose("the lease expires").await;
                    self.end_all().await;
                    return;
                }
            }
        }
    }

    async fn handle(&mut self, event: Option<Event>) {
        match event {
            Some(Event::ValidUntil(until)) => {
                self.good_until = until;
                self.send(ToSupervisor::GoodUntil(until.nanos()));
            }
            Some(Event::Lost(why)) => {
                self.lose(&why).await;
                self.send(ToSupervisor::Lost);
            }
            // The first one was opened before the grant.
            Some(Event::Opened { session, .. }) => {
                self.report.reconnected();
                self.send(ToSupervisor::Session(session));
            }
            Some(Event::Note(text)) => self.report.note(&text),
            Some(Event::Released | Event::Unreachable(_)) | None => self.session_over = true,
            Some(Event::Waiting(_) | Event::Granted { .. } | Event::Refused(_)) => {}
        }
    }

    async fn lose(&mut self, why: &str) {
        if !self.lost {
            self.lost = true;
            self.report.lost(&self.plan.name, why);
        }
    }

    /// Handles a record of the supervisor. Returns whether no process of the command is left.
    async fn receive(&mut self, record: [u8; RECORD]) -> bool {
        match FromSupervisor::read(record) {
            Some(FromSupervisor::Started(pid)) => {
                self.group = Pid::from_raw(pid);
                if let Some(group) = self.group {
                    self.terminal.started(group);
                }
            }
            Some(FromSupervisor::TooLate) => {
                self.lose("the lease expired before the command was started").await;
                return true;
            }
            Some(FromSupervisor::NotStarted(error)) => {
                let error = std::io::Error::from_raw_os_error(error);
                let program = self.plan.command[0].to_string_lossy();
                self.report.write(&format!("{program} cannot be run: {error}"));
                let missing = error.kind() == std::io::ErrorKind::NotFound;
                self.ended = Some((if missing { 127 } else { 126 }, None));
                return true;
            }
            Some(FromSupervisor::Exited(code)) => self.ended = Some((code, None)),
            Some(FromSupervisor::Killed(signal)) => self.ended = Some((128 + signal, Some(signal))),
            Some(FromSupervisor::Stopped(signal)) => {
                if let Some(group) = self.group {
                    self.terminal.stopped(group, signal);
                    if self.terminal.is_requested() {
                        self.report.note("the command waits for the terminal; use `fg`");
                    }
                }
            }
            Some(FromSupervisor::Ending) => self.lose("the lease expires").await,
            Some(FromSupervisor::Gone) => return true,
            None => {}
        }
        false
    }

    /// Kills the supervisor and all its descendants.
    async fn end_all(&mut self) {
        let _ = self.supervisor.kill();
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
                Left::None => return,
                Left::Some => Duration::from_millis(5),
                Left::OtherUser => Duration::from_secs(1),
            };
            tokio::time::sleep(again).await;
        }
    }

    async fn finish(mut self) -> Result<ExitCode> {
        let had_terminal = self.terminal.take();
        let _ = self.supervisor.wait();
        if self.unsupervised && !self.lost {
            self.report.write("the supervisor was killed, so the command was killed too");
        }
        let unknown = if self.lost { exit::LOST } else { exit::INTERNAL };
        let (code, signal) = self.ended.unwrap_or((i32::from(unknown), None));
        self.report.ended(code, signal);
        if !self.session_over && leave(&mut self.hold).await {
            self.report.released();
        } else if !self.lost {
            self.report.not_released();
        }
        // Even with --on-lost ignore: the command's own code would mean that the lock was held.
        if self.lost {
            return Ok(ExitCode::from(exit::LOST));
        }
        if self.unsupervised {
            return Ok(ExitCode::from(exit::INTERNAL));
        }
        Ok(match signal {
            Some(signal) => {
                if had_terminal && [Signal::SIGINT as i32, Signal::SIGQUIT as i32].contains(&signal)
                {
                    terminal::signal_others(signal);
                }
                signals::end(signal)
            }
            None => ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
        })
    }

    fn send(&self, message: ToSupervisor) {
        // If the supervisor was killed, the next read reports it. If it is stopped and reads
        // nothing, this must not block: at the end of the lease we have to kill the command.
        let _ = rustix::io::write(&self.control, &message.record());
    }
}
