//! What `mutua lock` is told, and what is made of it.

use std::{ffi::OsString, time::Duration};

use anyhow::Result;
use clap::Args;
use mutua_node::MAX_NAME;
use mutua_service::client::normal;

use crate::{
    exit::{self, usage},
    guard::OnLost,
};

/// How it is written.
pub(crate) const USAGE: &str = "mutua lock [OPTIONS] NAME [-- COMMAND...]";

/// What is to be known beyond the options.
pub(crate) const HELP: &str = "\
Exit codes: the command's own, if it ran to its end with the lock held; 128+N if signal N \
ended it, or the wait. 64 bad usage, 69 no node or not all members, 70 a fault of mutua's, \
75 not acquired, 77 not allowed, 78 bad configuration, 79 the lock was lost and the command \
stopped (with `--on-lost ignore`: it ran on; --status-fd tells its own code), 126 and 127 the \
command cannot be run or found.

The command's environment: LOCK_NAME, LOCK_TOKEN (greater for every later holder: let what \
you guard refuse a smaller one), LOCK_OWNER, LOCK_TTL_MS, LOCK_SOCKET.

Signals go on to the command's process group; TERM, INT, HUP and QUIT also to all that it has \
started and that left the group. What was ignored when `mutua lock` started stays ignored, as with \
nohup. `mutua lock` ends, and the lock is free, when the group has ended; after one of those four, \
or if a signal ended the command, when all that it has started has. A daemon that left the group \
of a command that ended by itself has left the lock, as in `mutua lock x -- setsid job`; run what \
is to be inside in the foreground: `setsid --wait job`.

When the lock is lost the command gets SIGTERM, and SIGKILL before anybody else can get in. When \
`mutua lock` is killed, so is all that it has started. Only a command that became another user \
(sudo) cannot be signalled or ended, which is told: put `mutua lock` behind sudo. Ctrl-Z stops \
`mutua lock` too: for longer than the ttl it costs the lock, and the command is ended.

Where: MUTUA_SOCKET, if set; else the node of /etc/mutua.toml (MUTUA_CONFIG names another \
file), if there is one; else this user's node on this machine, which is started if need be.";

/// Holding a lock.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The lock's name.
    #[arg(required_unless_present = "named")]
    name: Option<String>,
    /// The command and its arguments, after `--`.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    /// The lock's name, if it starts with `-`: --name=-x.
    #[arg(long = "name", value_name = "NAME", allow_hyphen_values = true, conflicts_with = "name")]
    named: Option<String>,
    /// Run this text with $SHELL instead.
    #[arg(short = 'c', long = "command", value_name = "TEXT", conflicts_with = "command")]
    shell: Option<OsString>,
    /// Do not wait.
    #[arg(short = 'n', long = "try", conflicts_with = "wait")]
    only_try: bool,
    /// Wait no longer than this: 5, 0.5, 200ms, 30s, 5m; 0 does not wait.
    #[arg(short, long, value_name = "TIME", value_parser = time)]
    wait: Option<Duration>,
    /// The exit code when the lock was not acquired.
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = exit::CONFLICT)]
    conflict_exit_code: u8,
    /// For how long the lock stays ours when nothing is heard of us.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "10s")]
    ttl: Duration,
    /// The time between asking the command to end and killing it [default: a quarter of the ttl, at
    /// most 3s].
    #[arg(long, value_name = "TIME", value_parser = time)]
    grace: Option<Duration>,
    /// What to do with the command when the lock is lost: term, kill, signal=NAME, exec=COMMAND,
    /// ignore. All but the last kill it in the end.
    #[arg(long, value_name = "WHAT", default_value = "term")]
    on_lost: OnLost,
    /// A node elsewhere, or an etcd: unix:PATH or HOST:PORT [default: the user's node].
    #[arg(long, value_name = "ENDPOINT")]
    endpoint: Option<String>,
    /// Who holds it, for those who ask.
    #[arg(long, value_name = "TEXT")]
    owner: Option<String>,
    /// Also set ETCD_LOCK_KEY and ETCD_LOCK_REV, as etcdctl does.
    #[arg(long)]
    etcd_env: bool,
    /// Say what happens as JSON, a line for each, on standard error.
    #[arg(long)]
    json: bool,
    /// Write what happens as JSON lines to this descriptor.
    #[arg(long, value_name = "N")]
    status_fd: Option<u32>,
    /// Say what happens.
    #[arg(short, long, conflicts_with = "quiet")]
    verbose: bool,
    /// Say nothing but errors.
    #[arg(short, long)]
    quiet: bool,
}

/// How long leases may be. What is longer is refused by etcd, and so by our nodes.
const MIN_TTL: Duration = Duration::from_secs(1);
const MAX_TTL: Duration = Duration::from_secs(9_000_000_000);

/// What is to be done.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) name: String,
    pub(super) command: Vec<OsString>,
    pub(super) wait: Option<Duration>,
    pub(super) conflict: u8,
    pub(super) ttl: Duration,
    pub(super) grace: Duration,
    pub(super) margin: Duration,
    pub(super) on_lost: OnLost,
    pub(super) endpoint: Option<String>,
    pub(super) owner: String,
    pub(super) etcd_env: bool,
    pub(super) json: bool,
    pub(super) status_fd: Option<u32>,
    pub(super) verbose: bool,
    pub(super) quiet: bool,
}

impl Plan {
    pub(super) fn new(arguments: &Arguments) -> Result<Self> {
        let name = arguments.name.clone().or_else(|| arguments.named.clone()).unwrap_or_default();
        check_name(&name)?;
        check_command(arguments)?;
        let ttl = arguments.ttl;
        if !(MIN_TTL..=MAX_TTL).contains(&ttl) {
            return Err(usage(format!(
                "--ttl must be at least {MIN_TTL:?} and at most {MAX_TTL:?}"
            )));
        }
        let grace = arguments.grace.unwrap_or((ttl / 4).min(Duration::from_secs(3)));
        let margin = (ttl / 20).clamp(Duration::from_millis(50), Duration::from_secs(1));
        check_grace(ttl, grace, margin)?;
        let endpoint = arguments.endpoint.as_deref().map(normal).transpose();
        Ok(Self {
            name,
            command: arguments.whole_command(),
            wait: if arguments.only_try { Some(Duration::ZERO) } else { arguments.wait },
            conflict: arguments.conflict_exit_code,
            ttl,
            grace,
            margin,
            on_lost: arguments.on_lost.clone(),
            endpoint: endpoint.map_err(|error| exit::not_connected(&error))?,
            owner: arguments.owner.clone().unwrap_or_else(super::owner),
            etcd_env: arguments.etcd_env,
            json: arguments.json,
            status_fd: arguments.status_fd,
            verbose: arguments.verbose,
            quiet: arguments.quiet,
        })
    }

    /// The command as people read it, not too long.
    pub(super) fn command_line(&self) -> String {
        let words: Vec<_> = self.command.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ").chars().take(200).collect()
    }
}

impl Arguments {
    fn whole_command(&self) -> Vec<OsString> {
        match &self.shell {
            Some(text) => {
                let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
                let shell = shell.unwrap_or_else(|| "sh".into());
                vec![shell, "-c".into(), text.clone()]
            }
            None => self.command.clone(),
        }
    }
}

fn check_name(name: &str) -> Result<()> {
    match name.len() {
        // A variable of a script that is not set, most likely: all such scripts would wait for
        // each other.
        0 => Err(usage("the lock's name is empty")),
        1..=MAX_NAME => Ok(()),
        length => Err(usage(format!(
            "the lock's name has {length} bytes; it may have {MAX_NAME} at most"
        ))),
    }
}

/// A command that is not there is no wish to hold the lock without one: most likely a variable of a
/// script is not set, and the job would seem to have been done.
fn check_command(arguments: &Arguments) -> Result<()> {
    let none = arguments.command.is_empty() && arguments.shell.is_none();
    // The parser does not tell; it takes `--` for nothing else.
    if none && std::env::args_os().any(|word| word == "--") {
        return Err(usage(
            "there is no command after `--`; without `--` the lock is held until standard input \
             ends",
        ));
    }
    Ok(())
}

fn check_grace(ttl: Duration, grace: Duration, margin: Duration) -> Result<()> {
    // A renewal is due after a third; one that is a little late must not end the command.
    let needed = grace.saturating_add(margin).saturating_mul(2);
    if needed <= ttl {
        return Ok(());
    }
    let enough = needed.saturating_add(Duration::from_secs(1));
    let right = match enough <= MAX_TTL {
        true => format!("--ttl {enough:?} would do"),
        false => format!("{:?} is the longest there is", MAX_TTL / 2 - Duration::from_secs(2)),
    };
    Err(usage(format!("a lease of {ttl:?} is too short for {grace:?} of grace; {right}")))
}

/// A time: a number of seconds, or one with a unit.
fn time(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no time; 5, 0.5, 200ms, 30s, 5m and 1h are");
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let unit = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    Duration::try_from_secs_f64(number * unit).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::time;

    #[test]
    fn times_are_read_as_people_write_them() {
        for (text, millis) in
            [("5", 5000), ("0.5", 500), ("200ms", 200), ("30s", 30_000), ("5m", 300_000), ("0", 0)]
        {
            assert_eq!(time(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for wrong in ["", "s", "-1", "1 s", "1d", "1e9", "1.2.3"] {
            time(wrong).expect_err(wrong);
        }
    }
}
