//! Exit codes, the same in every command.

use std::{fmt, io, process::ExitCode};

use mutua_service::client::ConnectError;

/// Bad usage: nothing was done, and the message says what would be right.
pub(crate) const USAGE: u8 = 64;

/// A file cannot be written. Not 1, which means that a property is violated.
pub(crate) const FILE: u8 = 73;

/// For the help of the commands that look for violations.
pub(crate) const HELP: &str = "Exit codes: 0 all is well, 1 a property that is claimed was \
    violated or an expectation failed, 2 a check was not completed, 64 bad usage, 70 a mistake \
    in mutua itself, 73 a file cannot be written.";

/// Nobody to ask: no node, or not all members. Nothing was started.
pub(crate) const UNAVAILABLE: u8 = 69;

/// A fault of our own.
pub(crate) const INTERNAL: u8 = 70;

/// Not acquired: busy, or not in time.
pub(crate) const CONFLICT: u8 = 75;

/// Not allowed to ask.
pub(crate) const DENIED: u8 = 77;

/// Bad configuration: nothing was done, and the message says where and what would be right.
pub(crate) const CONFIG: u8 = 78;

/// Nobody reads what is printed any more: 128 and the number of SIGPIPE, as shells show it.
pub(crate) const BROKEN_PIPE: u8 = 141;

/// The lock was lost while the command ran, and the command was stopped.
pub(crate) const LOST: u8 = 79;

/// An error that ends with this exit code.
#[derive(Debug)]
pub(crate) struct Coded(pub(crate) u8, pub(crate) String);

impl fmt::Display for Coded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.1)
    }
}

impl std::error::Error for Coded {}

/// There is nobody to ask.
pub(crate) fn unavailable(text: impl Into<String>) -> anyhow::Error {
    Coded(UNAVAILABLE, text.into()).into()
}

/// There is no connection: because of what was named, or of who we are, or of who is there.
pub(crate) fn not_connected(error: &ConnectError) -> anyhow::Error {
    let text = error.to_string();
    match error {
        ConnectError::NoEndpoint(_) => usage(text),
        ConnectError::Denied(_) => Coded(DENIED, text).into(),
        _ => unavailable(text),
    }
}

/// An error of a command whose only files are those that it writes.
pub(crate) fn of_a_file(error: anyhow::Error) -> anyhow::Error {
    if error.chain().any(|cause| cause.is::<io::Error>()) {
        return Coded(FILE, format!("{error:#}")).into();
    }
    error
}

/// An error that is the user's to mend: exit code 64.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// A usage error with this text.
pub(crate) fn usage(text: impl Into<String>) -> anyhow::Error {
    Usage(text.into()).into()
}

/// Prints what the argument parser has to say; help and version are no errors.
pub(crate) fn of_parse_error(error: &clap::Error) -> ExitCode {
    // Nobody is left to tell when the terminal is gone.
    let _ = error.print();
    let own: Vec<_> = std::env::args_os().skip(1).collect();
    let command = own.first().is_some_and(|first| first == "lock");
    let stray = error.kind() == clap::error::ErrorKind::UnknownArgument;
    if command && stray && !own.iter().any(|word| word == "--") {
        eprintln!("The command goes after `--`, as in: mutua lock NAME -- COMMAND");
    }
    if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
}

/// Prints an error and says how to exit with it.
pub(crate) fn of_error(error: &anyhow::Error) -> ExitCode {
    eprintln!("mutua: {error:#}");
    if let Some(Coded(code, _)) = error.downcast_ref() {
        return ExitCode::from(*code);
    }
    if error.downcast_ref::<Usage>().is_some() { ExitCode::from(USAGE) } else { ExitCode::FAILURE }
}
