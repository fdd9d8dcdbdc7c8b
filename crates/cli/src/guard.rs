//! The guard: a small process between `mutua lock` and the command that it runs.
//!
//! Whoever runs a command under a lock must be able to end all of it, whatever happens to itself. A
//! death signal would not do: it reaches the child only, and not what the child has started. So
//! `mutua lock` starts itself once more as the guard, and the guard starts the command. The guard
//! is a subreaper: whatever loses its parent below it becomes its own child, so nothing gets away.
//! It ends the command
//!
//! - when the socket to `mutua lock` closes, since that one is dead, and
//! - when the time until which the lock is good comes near and nobody has told a later one, so that
//!   a stopped `mutua lock` (SIGSTOP, Ctrl-Z) does not leave a command inside.
//!
//! It is single-threaded and waits in one place. The other end is in `lock/child.rs`.

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
pub(crate) use wire::{FromGuard, RECORD, ToGuard};

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

/// What the clock says that leases are counted on.
pub(crate) fn now() -> u64 {
    mutua_service::now().nanos()
}

/// The first argument of a process that is a guard.
pub(crate) const ARGUMENT: &str = "__guard";

/// What a guard is told when it starts.
#[derive(Debug)]
pub(crate) struct Orders {
    /// The time between asking the command to end and killing it.
    pub(crate) grace: Duration,
    /// How long before the lock's end nothing may be left.
    pub(crate) margin: Duration,
    /// What to do first when the lock is lost.
    pub(crate) on_lost: OnLost,
    /// Where to say goodbye if `mutua lock` cannot; empty: nowhere.
    pub(crate) endpoint: String,
    /// The session to say goodbye to.
    pub(crate) session: i64,
    /// Until when the lock is good, on [`now`]'s clock.
    pub(crate) good_until: u64,
}

impl Orders {
    /// The arguments that say so.
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

    /// Whether the command would have to be ended at once. `mutua lock` may have been stopped since
    /// it was let in.
    fn is_late(&self) -> bool {
        self.on_lost != OnLost::Ignore && now() >= self.limits().ask_at(self.good_until)
    }

    fn limits(&self) -> Limits {
        Limits { grace: self.grace, margin: self.margin }
    }

    fn of_arguments(arguments: &[OsString]) -> Result<(Self, &[OsString])> {
        let [_, grace, margin, on_lost, endpoint, session, good_until, command @ ..] = arguments
        else {
            bail!("{ARGUMENT} is for mutua's own use");
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

/// Runs this process as a guard.
pub(crate) fn main(arguments: &[OsString]) -> ExitCode {
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mutua: the guard: {error:#}");
            ExitCode::from(70)
        }
    }
}

fn run(arguments: &[OsString]) -> Result<()> {
    let (orders, command) = Orders::of_arguments(arguments)?;
    let [program, arguments @ ..] = command else { bail!("{ARGUMENT} needs a command") };
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .context("it cannot become a subreaper")?;
    let control = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let stdin = pass::receive_descriptor(&control).context("no standard input was handed over")?;
    if orders.is_late() {
        return wire::write(&control, FromGuard::TooLate);
    }
    let spawned = spawn(program, arguments, stdin);
    // Nothing but SIGKILL ends a guard before its work is done. The command was started before,
    // since it would inherit what is blocked.
    SigSet::all().thread_block().context("signals cannot be blocked")?;
    let children = SigSet::from_iter([Signal::SIGCHLD]);
    let children = SignalFd::with_flags(&children, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    match spawned {
        Ok(child) => work::Work::new(orders, control, children, child.id())?.run(),
        Err(error) => {
            let code = error.raw_os_error().unwrap_or(0);
            wire::write(&control, FromGuard::NotStarted(code))
        }
    }
}
