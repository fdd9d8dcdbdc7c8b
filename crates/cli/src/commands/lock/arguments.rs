//! The arguments of `mutua lock`, and the plan that follows from them.

use std::{ffi::OsString, io::IsTerminal, time::Duration};

use anyhow::Result;
use clap::Args;
use mutua_algorithms::durations;
use mutua_node::MAX_NAME;
use rustix::fs::FileType;

use super::flock::Flock;
use crate::{
    exit::{self, usage},
    local::{Selection, Target},
    supervisor::OnLost,
};

/// The forms of the command.
pub(crate) const USAGE: &str = "mutua lock [OPTIONS] NAME [--] COMMAND [ARGUMENT]...
       mutua lock [OPTIONS] NAME -c TEXT
       mutua lock [OPTIONS] --fd N NAME
       mutua lock [OPTIONS] --hold NAME";

/// The end of the help.
pub(crate) const HELP: &str = "\
Exit codes: the command's own if it exited while the lock was held; 128+N signal N ended the \
command or the wait; 64 bad usage; 69 no node, or grants are suspended; 70 internal error; \
75 not acquired; 77 permission denied; 78 bad configuration; 79 the lock was lost and the command \
killed (with `--on-lost ignore`: it ran on, and --status-fd reports its code); 126 the command \
cannot be run; 127 the command was not found.

Environment of the command: LOCK_NAME; LOCK_TOKEN, the fencing token, which grows with every grant: \
the protected resource should reject a smaller one; LOCK_OWNER; LOCK_TTL_MS; LOCK_SOCKET; \
LOCK_SCOPE (`local`: this user on this host; `cluster`; `node`: a configured node in no cluster; \
`etcd`); in a cluster its name as LOCK_CLUSTER.

Signals are forwarded to the command's process group; TERM, INT, HUP and QUIT also to descendants \
that left the group. Signals that were ignored when `mutua lock` started stay ignored, as with \
nohup. The lock is released when the process group has exited; after one of those four signals, or \
if a signal killed the command, when all descendants have. A daemon that left the group of a \
command that exits by itself does not hold the lock, as in `mutua lock x -- setsid job`; keep the \
job in the foreground: `setsid --wait job`.

When the lock is lost, the command gets SIGTERM, and SIGKILL before the lock can be granted again. \
When `mutua lock` is killed, the command and its descendants are killed. A command that runs as \
another user (sudo) cannot be signalled or killed, which is reported: run `sudo mutua lock` instead. \
Ctrl-Z stops `mutua lock` too: for longer than the TTL, the lock is lost and the command killed.

--fd N takes no command: `( mutua lock -n --fd 9 nightly || exit; job ) 9>/run/nightly` prints the \
fencing token and returns, and a background process holds the lock until the last process has \
closed descriptor 9 or exited. The descriptor must be of a regular file or directory on this \
machine that only this lock uses: it is locked with flock(2) meanwhile. When the lock is lost, the \
action of --on-lost applies to this user's processes that have the descriptor. If the background \
process is killed or stopped, they run on and the lease expires. A nested lock of the same name in \
the script is not detected and waits forever.

With --endpoint the server may also be an etcd of version 3.

The time of -w includes finding the node. A configured node that does not run, or an --endpoint \
that does not answer, is retried: without -w for 10s. If no node has answered by then, the exit \
code is 69. With -n a node has one second to answer, not counting the start of this user's node.

Node: --endpoint or --config; else MUTUA_SOCKET; else the node of the configuration MUTUA_CONFIG \
or /etc/mutua/mutua.toml; else this user's node on this host, which is started if needed. The last \
is refused (78) on a host where a node of /etc/mutua/mutua.toml runs or ran, unless --local is \
given.";

/// The arguments as they are given.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Name of the lock.
    #[arg(required_unless_present = "named")]
    name: Option<OsString>,
    /// Command and its arguments; `--` before it is optional.
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    /// Name of the lock, if it starts with `-`: --name=-x -- COMMAND.
    #[arg(long = "name", value_name = "NAME", allow_hyphen_values = true)]
    named: Option<String>,
    /// Run this text with $SHELL instead of a command.
    #[arg(short = 'c', long = "command", value_name = "TEXT", conflicts_with = "command")]
    shell: Option<OsString>,
    /// Hold the lock without a command until standard input, a terminal or a pipe, is closed; print
    /// the fencing token.
    #[arg(long, conflicts_with_all = ["command", "shell", "fd"])]
    hold: bool,
    /// Hold the lock without a command until the caller's descriptor N is closed everywhere;
    /// print the fencing token and return at once.
    #[arg(long, value_name = "N", conflicts_with_all = ["command", "shell"])]
    fd: Option<u32>,
    #[command(flatten)]
    options: HoldOptions,
    /// Also set ETCD_LOCK_KEY and ETCD_LOCK_REV, as etcdctl does.
    #[arg(long)]
    etcd_env: bool,
    #[command(flatten)]
    flock: Flock,
}

/// The options of a lock and of a leadership that is held while a command runs.
#[derive(Debug, Args)]
pub(crate) struct HoldOptions {
    /// Do not wait for the lock; a node has 1s to answer.
    #[arg(short = 'n', long = "try", conflicts_with = "wait")]
    #[arg(visible_aliases = ["nonblock", "nb", "nonblocking"])]
    only_try: bool,
    /// Wait at most this long: 5, 0.5, 200ms, 30s, 5m; a number alone is seconds, and 0 does not
    /// wait [default: no limit].
    #[arg(short, long, visible_alias = "timeout", value_name = "TIME", value_parser = time)]
    #[arg(allow_negative_numbers = true)]
    wait: Option<Duration>,
    /// Exit code if the lock is not acquired, or the candidate not elected.
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = exit::CONFLICT)]
    #[arg(value_parser = exit_code, allow_negative_numbers = true)]
    conflict_exit_code: u8,
    /// Lease: the lock, or the leadership, expires this long after the last renewal; 1s or more,
    /// and at most longest_lease of the node, 10m unless configured. In a cluster a lease of less
    /// than 4 view leases (6s unless configured) may expire when the client's node is lost.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "10s")]
    #[arg(allow_negative_numbers = true)]
    ttl: Duration,
    /// Time from the first signal to SIGKILL when the lock, or the leadership, is lost; at most
    /// 45 % of a TTL up to 20s, and half of a longer one less 1s [default: a quarter of the TTL, at
    /// most 3s].
    #[arg(long, value_name = "TIME", value_parser = time, allow_negative_numbers = true)]
    grace: Option<Duration>,
    /// Action when the lock, or the leadership, is lost: term, kill, signal=NAME, exec=COMMAND or
    /// ignore. All but ignore end with SIGKILL.
    #[arg(long, value_name = "ACTION", default_value = "term")]
    on_lost: OnLost,
    #[command(flatten)]
    node: Selection,
    /// Owner to show to other users [default: the user name].
    #[arg(long, value_name = "TEXT")]
    owner: Option<String>,
    /// Report events as JSON lines on standard error.
    #[arg(long)]
    json: bool,
    /// Report events as JSON lines on this descriptor.
    #[arg(long, value_name = "N")]
    status_fd: Option<u32>,
    /// Report events as text on standard error.
    #[arg(short, long, conflicts_with = "quiet")]
    verbose: bool,
    /// Report only errors.
    #[arg(short, long)]
    quiet: bool,
}

impl HoldOptions {
    /// The selected node.
    pub(crate) fn target(&self) -> Result<Target> {
        self.node.find()
    }

    /// Whether output is JSON.
    pub(crate) fn json(&self) -> bool {
        self.json
    }
}

/// The shortest lease: etcd counts leases in whole seconds, and a command means the same with
/// either server.
const MIN_TTL: Duration = Duration::from_secs(1);
/// The longest lease: servers refuse longer ones.
const MAX_TTL: Duration = mutua_server::LONGEST_LEASE;

/// The checked arguments.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(super) name: String,
    /// The value of a candidate.
    pub(super) value: Option<String>,
    pub(super) command: Vec<OsString>,
    pub(super) fd: Option<u32>,
    pub(super) wait: Option<Duration>,
    pub(super) conflict: u8,
    pub(super) ttl: Duration,
    pub(super) grace: Duration,
    pub(super) margin: Duration,
    pub(super) on_lost: OnLost,
    pub(super) target: Target,
    pub(super) owner: String,
    pub(super) etcd_env: bool,
    pub(super) json: bool,
    pub(super) status_fd: Option<u32>,
    pub(super) verbose: bool,
    pub(super) quiet: bool,
}

impl Plan {
    pub(super) fn new(arguments: &Arguments) -> Result<Self> {
        arguments.flock.check()?;
        let (name, command) = name_and_command(arguments)?;
        check_name(&name)?;
        check_command(arguments, &name, &command)?;
        let plan = Self::of(&arguments.options, name, command)?;
        Ok(Self { fd: arguments.fd, etcd_env: arguments.etcd_env, ..plan })
    }

    /// The plan of a candidate with this value.
    pub(crate) fn of_candidate(
        options: &HoldOptions,
        (name, value): (&str, &str),
        command: Vec<OsString>,
    ) -> Result<Self> {
        check_name(name)?;
        let plan = Self::of(options, name.to_owned(), command)?;
        Ok(Self { value: Some(value.to_owned()), ..plan })
    }

    fn of(options: &HoldOptions, name: String, command: Vec<OsString>) -> Result<Self> {
        if command.first().is_some_and(|program| program.is_empty()) {
            return Err(usage(
                "COMMAND is empty, as when a variable of a script is not set: give a program",
            ));
        }
        let ttl = options.ttl;
        if !(MIN_TTL..=MAX_TTL).contains(&ttl) {
            return Err(usage(format!(
                "--ttl must be at least {MIN_TTL:?}; a node grants at most its longest_lease, 10 \
                 minutes unless it is configured otherwise"
            )));
        }
        let grace = options.grace.unwrap_or((ttl / 4).min(Duration::from_secs(3)));
        let margin = (ttl / 20).clamp(Duration::from_millis(50), Duration::from_secs(1));
        check_grace(ttl, grace, margin)?;
        Ok(Self {
            name,
            value: None,
            command,
            fd: None,
            wait: if options.only_try { Some(Duration::ZERO) } else { options.wait },
            conflict: options.conflict_exit_code,
            ttl,
            grace,
            margin,
            on_lost: options.on_lost.clone(),
            target: options.node.find()?,
            owner: options.owner.clone().unwrap_or_else(super::owner),
            etcd_env: false,
            json: options.json,
            status_fd: options.status_fd,
            verbose: options.verbose,
            quiet: options.quiet,
        })
    }

    /// The command line to show to other users, shortened.
    pub(super) fn command_line(&self) -> String {
        let words: Vec<_> = self.command.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ").chars().take(200).collect()
    }
}

/// The number of words after `--`, which the parser does not report; `None` without a `--`.
pub(crate) fn words_after_dashes() -> Option<usize> {
    let words: Vec<_> = std::env::args_os().collect();
    words.iter().position(|word| word == "--").map(|at| words.len() - at - 1)
}

/// The first word is the name, and the others are the command, unless --name gives the name.
fn name_and_command(arguments: &Arguments) -> Result<(String, Vec<OsString>)> {
    let after = words_after_dashes();
    let all: Vec<_> = arguments.name.iter().chain(&arguments.command).cloned().collect();
    let after_dashes = after == Some(all.len());
    let (name, command) = match (&arguments.named, all.split_first()) {
        (Some(_), Some(_)) if !after_dashes => {
            return Err(usage("with --name the command goes after `--`: --name=-x -- COMMAND"));
        }
        (Some(name), _) => (name.clone(), all),
        // Most likely a variable of a script is not set: its command must not become the name.
        (None, Some(_)) if after_dashes => {
            return Err(usage("NAME is missing before `--`: mutua lock NAME -- COMMAND"));
        }
        (None, Some((name, command))) => {
            let name = name.to_str().ok_or_else(|| usage("the lock's name is not UTF-8"))?;
            (name.to_owned(), command.to_vec())
        }
        (None, None) => (String::new(), Vec::new()),
    };
    let Some(text) = &arguments.shell else { return Ok((name, command)) };
    if !command.is_empty() {
        return Err(usage("-c cannot be combined with a command"));
    }
    let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
    Ok((name, vec![shell.unwrap_or_else(|| "sh".into()), "-c".into(), text.clone()]))
}

/// Checks a lock's name.
pub(crate) fn check_name(name: &str) -> Result<()> {
    match name.len() {
        // Most likely an unset variable of a script: all such scripts would wait for each other.
        0 => Err(usage("the lock's name is empty")),
        1..=MAX_NAME => Ok(()),
        length => Err(usage(format!(
            "the lock's name has {length} bytes: at most {MAX_NAME} are allowed"
        ))),
    }
}

/// A missing command does not hold the lock without one: most likely a variable of a script is not
/// set, or flock's descriptor form is meant, and the job would run without the lock.
fn check_command(arguments: &Arguments, name: &str, command: &[OsString]) -> Result<()> {
    if !command.is_empty() {
        return match arguments.hold || arguments.fd.is_some() {
            true => Err(usage("--hold and --fd hold the lock without a command: omit the command")),
            false => Ok(()),
        };
    }
    if std::env::args_os().any(|word| word == "--") {
        return Err(usage("no command after `--`: write mutua lock NAME -- COMMAND"));
    }
    if arguments.fd.is_some() {
        return Ok(());
    }
    if name.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(usage(format!(
            "COMMAND is missing after the name {name}: write `mutua lock --fd {name} NAME` to hold \
             NAME while descriptor {name} is open, or `mutua lock {name} COMMAND` for a lock named \
             {name}"
        )));
    }
    if !arguments.hold {
        return Err(usage(
            "COMMAND is missing: mutua lock NAME COMMAND; without one, --fd N holds the lock while \
             descriptor N is open, and --hold until standard input is closed",
        ));
    }
    match stdin_ends_later() {
        true => Ok(()),
        false => Err(usage(
            "--hold needs a terminal or a pipe as standard input: the lock is held until that is \
             closed, and a file or /dev/null ends at once",
        )),
    }
}

fn stdin_ends_later() -> bool {
    let stdin = std::io::stdin();
    let kind = rustix::fs::fstat(&stdin).map(|data| FileType::from_raw_mode(data.st_mode));
    stdin.is_terminal() || kind.is_ok_and(|kind| kind.is_fifo() || kind.is_socket())
}

fn check_grace(ttl: Duration, grace: Duration, margin: Duration) -> Result<()> {
    // A renewal is due after a third of the TTL; a slightly late one must not kill the command.
    let needed = grace.saturating_add(margin).saturating_mul(2);
    if needed <= ttl {
        return Ok(());
    }
    let enough = needed.saturating_add(Duration::from_secs(1));
    let right = match enough <= MAX_TTL {
        true => format!("use --ttl {enough:?}"),
        false => format!("use --grace {:?} at most", MAX_TTL / 2 - Duration::from_secs(2)),
    };
    Err(usage(format!("--ttl {ttl:?} is too short for --grace {grace:?}: {right}")))
}

/// A duration: a number of seconds, or one with a unit.
fn time(text: &str) -> Result<Duration, String> {
    durations::parse(text).map_err(|error| error.to_string())
}

fn exit_code(text: &str) -> Result<u8, String> {
    text.parse().map_err(|_| format!("invalid exit code `{text}`: use 0 to 255"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::time;

    #[test]
    fn durations_are_parsed_with_and_without_units() {
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
