//! The supervisor: a small process between `mutua lock` and the command that it runs.
//!
//! The command and all its descendants must be killed in time even if `mutua lock` itself is
//! killed. A parent death signal is not enough: it reaches the child only, not the child's
//! children. So `mutua lock` starts itself once more as the supervisor, and the supervisor starts
//! the command. It is a subreaper: every orphan below it becomes its own child, so no process
//! escapes. It ends the command
//!
//! - when the socket to `mutua lock` closes, since that process was killed, and
//! - when the lease is about to expire and no renewal was reported, so that a stopped `mutua lock`
//!   (SIGSTOP, Ctrl-Z) does not leave its command running without the lock.
//!
//! It is single-threaded and blocks in one `poll`. The other end is in `lock/child.rs`.

mod descendants;
mod ending;
mod on_lost;
mod pass;
mod spawn;
mod wire;
mod work;

pub(crate) use descendants::{Descendants, Left, members, signal_group};
pub(crate) use on_lost::OnLost;
pub(crate) use pass::send_descriptor;
pub(crate) use wire::{FromSupervisor, RECORD, ToSupervisor};

use ending::Limits;
use spawn::spawn;
use std::{
    ffi::{OsStr, OsString},
    os::{fd::AsFd, unix::net::UnixStream},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use nix::sys::{
    signal::{SigSet, Signal},
    signalfd::{SfdFlags, SignalFd},
};

/// The clock of leases, in nanoseconds.
pub(crate) fn now() -> u64 {
    mutua_client::now().nanos()
}

/// The first argument of a supervisor process.
pub(crate) const ARGUMENT: &str = "__supervisor";

/// The arguments of a supervisor.
#[derive(Debug)]
pub(crate) struct Orders {
    /// The time from the first signal to SIGKILL.
    pub(crate) grace: Duration,
    /// How long before the lease expires all processes must be killed.
    pub(crate) margin: Duration,
    /// The action when the lock is lost.
    pub(crate) on_lost: OnLost,
    /// The node at which to end the session if `mutua lock` cannot; empty if there is none.
    pub(crate) endpoint: String,
    /// The session to end.
    pub(crate) session: i64,
    /// When the lease expires, on [`now`]'s clock.
    pub(crate) good_until: u64,
}

impl Orders {
    /// The command line.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let number = |time: Duration| OsString::from(time.as_millis().to_string());
        let on_lost = self.on_lost.to_string().into();
        vec![
            ARGUMENT.into(),
            number(self.grace),
            number(self.margin),
            on_lost,
            OsString::from(&self.endpoint),
            self.session.to_string().into(),
            self.good_until.to_string().into(),
        ]
    }

    /// Whether the command would have to be ended at once: `mutua lock` may have been stopped since
    /// the grant.
    fn is_late(&self) -> bool {
        self.on_lost != OnLost::Ignore && now() >= self.limits().signal_at(self.good_until)
    }

    fn limits(&self) -> Limits {
        Limits { grace: self.grace, margin: self.margin }
    }

    fn of_arguments(arguments: &[OsString]) -> Result<(Self, &[OsString])> {
        let [_, grace, margin, on_lost, endpoint, session, good_until, command @ ..] = arguments
        else {
            bail!("{ARGUMENT} is internal to mutua");
        };
        let time = |text: &OsStr| -> Result<_> {
            Ok(Duration::from_millis(text.to_string_lossy().parse()?))
        };
        let orders = Self {
            grace: time(grace)?,
            margin: time(margin)?,
            on_lost: on_lost.to_string_lossy().parse().map_err(anyhow::Error::msg)?,
            endpoint: endpoint.to_string_lossy().into_owned(),
            session: session.to_string_lossy().parse()?,
            good_until: good_until.to_string_lossy().parse()?,
        };
        Ok((orders, command))
    }
}

/// Runs this process as a supervisor.
pub(crate) fn main(arguments: &[OsString]) -> ExitCode {
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mutua: supervisor: {error:#}");
            ExitCode::from(70)
        }
    }
}

fn run(arguments: &[OsString]) -> Result<()> {
    let (orders, command) = Orders::of_arguments(arguments)?;
    let [program, arguments @ ..] = command else { bail!("{ARGUMENT} needs a command") };
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .context("cannot become a subreaper")?;
    let control = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let stdin = pass::receive_descriptor(&control).context("received no standard input")?;
    if orders.is_late() {
        return wire::write(&control, FromSupervisor::TooLate);
    }
    let spawned = spawn(program, arguments, stdin);
    // Only SIGKILL ends a supervisor before its work is done. The command is started first, since
    // it would inherit the blocked signals.
    SigSet::all().thread_block().context("cannot block signals")?;
    let children = SigSet::from_iter([Signal::SIGCHLD]);
    let children = SignalFd::with_flags(&children, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    match spawned {
        Ok(child) => work::Work::new(orders, control, children, child.id())?.run(),
        Err(error) => {
            let code = error.raw_os_error().unwrap_or(0);
            wire::write(&control, FromSupervisor::NotStarted(code))
        }
    }
}
