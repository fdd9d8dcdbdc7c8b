//! The action on the command when its lock is lost.

use std::{fmt, str::FromStr};

use nix::sys::signal::Signal;

/// The value of `--on-lost`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum OnLost {
    /// Send this signal to its process group, and SIGKILL before the lock can be granted again.
    Signal(Signal),
    /// Run this shell command, and send SIGKILL before the lock can be granted again.
    Exec(String),
    /// Do nothing: the lock may be granted to another client while the command runs.
    Ignore,
}

impl FromStr for OnLost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            None if text == "term" => Ok(Self::Signal(Signal::SIGTERM)),
            None if text == "kill" => Ok(Self::Signal(Signal::SIGKILL)),
            None if text == "ignore" => Ok(Self::Ignore),
            Some(("signal", name)) => signal(name).map(Self::Signal),
            Some(("exec", command)) if !command.is_empty() => Ok(Self::Exec(command.to_owned())),
            _ => Err(format!(
                "unknown action `{text}`: use term, kill, ignore, signal=NAME or exec=COMMAND"
            )),
        }
    }
}

impl fmt::Display for OnLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signal(signal) => write!(f, "signal={signal}"),
            Self::Exec(command) => write!(f, "exec={command}"),
            Self::Ignore => f.write_str("ignore"),
        }
    }
}

fn signal(name: &str) -> Result<Signal, String> {
    if let Ok(number) = name.parse::<i32>() {
        return Signal::try_from(number).map_err(|_| format!("unknown signal {number}"));
    }
    let upper = name.to_ascii_uppercase();
    let whole = if upper.starts_with("SIG") { upper } else { format!("SIG{upper}") };
    whole
        .parse()
        .map_err(|_| format!("unknown signal `{name}`: use for example USR1, SIGHUP or 15"))
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::Signal;

    use super::OnLost;

    #[test]
    fn every_form_is_read_and_written() {
        for (text, meant) in [
            ("term", OnLost::Signal(Signal::SIGTERM)),
            ("kill", OnLost::Signal(Signal::SIGKILL)),
            ("signal=usr1", OnLost::Signal(Signal::SIGUSR1)),
            ("signal=SIGHUP", OnLost::Signal(Signal::SIGHUP)),
            ("signal=2", OnLost::Signal(Signal::SIGINT)),
            ("exec=touch a=b", OnLost::Exec("touch a=b".to_owned())),
            ("ignore", OnLost::Ignore),
        ] {
            let read: OnLost = text.parse().expect(text);
            assert_eq!(read, meant);
            assert_eq!(read.to_string().parse(), Ok(meant));
        }
        for wrong in ["", "stop", "signal=SIGNOTHING", "signal=99", "exec=", "kill=9"] {
            wrong.parse::<OnLost>().expect_err(wrong);
        }
    }
}
