//! `mutua lock --fd N NAME`: a lock that is held as long as a descriptor of the caller is open.
//!
//! Scripts written for flock open a file, lock its descriptor and work; the lock ends when the last
//! process has closed it. A lock of a cluster has a lease to renew, so `mutua lock` starts
//! itself once more in the background, and that process acquires the lock. It then locks the
//! caller's open file description with flock(2), closes its copy of it, and waits for the same lock
//! on a description of its own. The kernel grants that when the last copy of the caller's
//! description is closed in the last process. Then the lock is released.

mod holders;

use std::{
    fs::{self, File},
    io::{Read, Write},
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    process::{Command, ExitCode, Stdio},
    time::Duration,
};

use anyhow::{Context, Result};
use mutua_client::{Event, Hold, Moment};
use nix::sys::signal::Signal;
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
    process::setsid,
};
use tokio::sync::oneshot::{self, Receiver};

use super::{Grant, Plan, Report, leave, report::duplicate};
use crate::{
    exit::{self, usage},
    out,
    supervisor::OnLost,
};
use holders::Holders;

/// The first argument of the background process.
pub(crate) const ARGUMENT: &str = "__background";

/// How long a previous holder on this machine may take to close the file.
const PATIENCE: Duration = Duration::from_millis(500);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
const LOOK_SELDOM: Duration = Duration::from_secs(1);

/// Whether this process is the background process.
pub(super) fn is_background() -> bool {
    std::env::args_os().nth(1).is_some_and(|word| word == ARGUMENT)
}

/// Starts the background process, and waits until it holds the lock or has exited.
pub(super) fn start(number: u32) -> Result<ExitCode> {
    drop(open(number)?);
    let (mut ours, theirs) =
        UnixStream::pair().context("cannot create a socket for the background process")?;
    // Spawning closes our copy of the other end, so that its exit is noticed here.
    let mut background = Command::new("/proc/self/exe")
        .arg0("mutua")
        .arg(ARGUMENT)
        .args(std::env::args_os().skip(1))
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .spawn()
        .context("cannot start the background process")?;
    if ours.read(&mut [0]).is_ok_and(|count| count > 0) {
        return Ok(ExitCode::SUCCESS);
    }
    let code = background.wait().ok().and_then(|status| status.code());
    let code = code.and_then(|code| u8::try_from(code).ok()).filter(|&code| code > 0);
    Ok(ExitCode::from(code.unwrap_or(exit::INTERNAL)))
}

/// The caller's descriptor, and the same file by a description of our own.
fn open(number: u32) -> Result<(File, File)> {
    let wrong = |why: String| usage(format!("--fd {number}: {why}; 9>FILE opens 9"));
    if number < 3 {
        return Err(wrong("the descriptor must be 3 or more".to_owned()));
    }
    let file = duplicate(number).map_err(|error| wrong(format!("it is not open: {error}")))?;
    let kind = file.metadata().map_err(|error| wrong(error.to_string()))?.file_type();
    if !(kind.is_file() || kind.is_dir()) {
        return Err(wrong("it must be a regular file or directory".to_owned()));
    }
    let again = format!("/proc/self/fd/{}", file.as_raw_fd());
    let own = File::open(&again).or_else(|_| File::options().write(true).open(&again));
    let own = own.map_err(|error| wrong(format!("its file cannot be opened again: {error}")))?;
    Ok((file, own))
}

/// The descriptors that the background process inherits from its caller.
pub(super) struct Descriptor {
    file: File,
    own: File,
    caller: UnixStream,
}

impl Descriptor {
    /// Leaves the caller's session, and closes all inherited descriptors that are not needed.
    pub(super) fn take(number: u32, status: Option<i32>) -> Result<Self> {
        // It fails only for a session leader, which has left the session already.
        let _ = setsid();
        let caller = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
        let (file, own) = open(number)?;
        let needed = [caller.as_raw_fd(), file.as_raw_fd(), own.as_raw_fd()];
        let open = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
        let open: Vec<i32> =
            open.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        for one in open.into_iter().filter(|one| *one > 2 && Some(*one) != status) {
            if !needed.contains(&one) {
                // The one that the list was read through is closed already.
                let _ = nix::unistd::close(one);
            }
        }
        Ok(Self { file, own, caller })
    }

    /// The socket to the caller, to notice when the caller exits.
    pub(super) fn caller(&self) -> Result<tokio::net::UnixStream> {
        let caller = self.caller.try_clone()?;
        caller.set_nonblocking(true)?;
        Ok(tokio::net::UnixStream::from_std(caller)?)
    }

    /// Locks the caller's description, and returns the processes that have it.
    async fn lock(&self) -> Result<Holders, Errno> {
        let begun = tokio::time::Instant::now();
        loop {
            match flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Holders::of(&self.file),
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) if begun.elapsed() < PATIENCE => {
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Lets the caller continue. From here on this process has none of its descriptors open.
    fn answer(self) -> Result<File> {
        let null = File::options().read(true).write(true).open("/dev/null")?;
        nix::unistd::dup2_stdin(&null)?;
        nix::unistd::dup2_stdout(&null)?;
        nix::unistd::dup2_stderr(&null)?;
        (&self.caller).write_all(&[0])?;
        Ok(self.own)
    }
}

/// Holds the lock until the caller's description is closed.
pub(super) async fn keep(
    plan: &Plan,
    mut hold: Hold,
    grant: Grant,
    descriptor: Descriptor,
    mut report: Report,
) -> Result<ExitCode> {
    let holders = match descriptor.lock().await {
        Ok(holders) => holders,
        Err(error) => {
            leave(&mut hold).await;
            report.write(&format!(
                "{} not acquired: the file of descriptor {} cannot be locked with flock(2): \
                 {error}; use a file that only this lock uses",
                plan.name,
                plan.fd.unwrap_or_default()
            ));
            return Ok(ExitCode::from(plan.conflict));
        }
    };
    if plan.on_lost != OnLost::Ignore && time_left(plan, grant.good_until).is_zero() {
        // This process was stopped after the grant: the caller must not continue.
        report.lost(&plan.name, "the lease expired before the caller could continue");
        leave(&mut hold).await;
        return Ok(ExitCode::from(exit::LOST));
    }
    if let Err(error) = out::try_line(grant.fence) {
        // Nobody would keep the lock until its lease expires.
        leave(&mut hold).await;
        out::end(&error);
    }
    // While the status descriptor is open, its reader, which may be the caller, waits for more.
    report.close_status();
    let Ok(own) = descriptor.answer() else {
        leave(&mut hold).await;
        return Ok(ExitCode::from(exit::UNAVAILABLE));
    };
    let mut closed = closed(own);
    let mut good_until = grant.good_until;
    let lost = until_closed(plan, &mut hold, &mut good_until, &mut closed).await;
    if let Some(why) = lost {
        holders.notify(&format!("mutua: {} is lost: {why}\n", plan.name));
        end(plan, &holders, &grant, good_until, &mut closed).await;
    }
    leave(&mut hold).await;
    // A thread may still wait for the description that `--on-lost ignore` leaves open.
    std::process::exit(0)
}

/// How long the caller's processes may run without a renewal.
fn time_left(plan: &Plan, good_until: Moment) -> Duration {
    good_until.before(plan.grace + plan.margin).since(mutua_client::now())
}

/// Becomes ready when no process has the caller's description any more.
fn closed(own: File) -> Receiver<()> {
    let (sender, closed) = oneshot::channel();
    std::thread::spawn(move || {
        while let Err(error) = flock(&own, FlockOperation::LockExclusive) {
            if error != Errno::INTR {
                std::thread::sleep(LOOK_SELDOM);
            }
        }
        // The next holder on this machine locks the same file.
        drop(own);
        let _ = sender.send(());
    });
    closed
}

/// Why the lock is lost, or none if the description was closed.
async fn until_closed(
    plan: &Plan,
    hold: &mut Hold,
    good_until: &mut Moment,
    closed: &mut Receiver<()>,
) -> Option<String> {
    let ignored = plan.on_lost == OnLost::Ignore;
    loop {
        let left = time_left(plan, *good_until);
        tokio::select! {
            biased;
            _ = &mut *closed => return None,
            event = hold.events.recv() => match event {
                Some(Event::ValidUntil(until)) => *good_until = until,
                Some(Event::Lost(why)) => return Some(why),
                Some(Event::Released | Event::Unreachable(_)) | None => {
                    return Some("the node does not answer".to_owned());
                }
                Some(_) => {}
            },
            // The runtime's clock stops while the machine is suspended, so poll once a second.
            () = tokio::time::sleep(left.min(LOOK_SELDOM)), if !ignored => if left.is_zero() {
                return Some("the lease expires".to_owned());
            },
        }
    }
}

/// Ends the processes that have the description, as `--on-lost` requires, before the lease expires.
async fn end(
    plan: &Plan,
    holders: &Holders,
    grant: &Grant,
    good_until: Moment,
    closed: &mut Receiver<()>,
) {
    let grace = good_until.before(plan.margin).since(mutua_client::now()).min(plan.grace);
    match &plan.on_lost {
        OnLost::Ignore => return,
        OnLost::Signal(Signal::SIGKILL) => {}
        OnLost::Signal(signal) => holders.signal(*signal),
        OnLost::Exec(command) => {
            let mut shell = Command::new("sh");
            shell.arg("-c").arg(command).env("LOCK_NAME", &plan.name);
            if let Err(error) = shell.env("LOCK_TOKEN", grant.fence.to_string()).spawn() {
                holders.notify(&format!(
                    "mutua: cannot run `{command}` after the loss of the lock: {error}\n"
                ));
                holders.signal(Signal::SIGTERM);
            }
        }
    }
    let at_once = plan.on_lost == OnLost::Signal(Signal::SIGKILL);
    let mut pause = if at_once { Duration::ZERO } else { grace };
    let mut kills = 0;
    while tokio::time::timeout(pause, &mut *closed).await.is_err() {
        holders.signal(Signal::SIGKILL);
        kills += 1;
        // Processes of another user cannot be killed.
        pause = if kills < 50 { LOOK_AGAIN } else { LOOK_SELDOM };
    }
}
