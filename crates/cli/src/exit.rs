//! Exit codes, the same in every command.

use std::{fmt, process::ExitCode};

/// Bad usage: nothing was done, and the message says what would be right.
pub(crate) const USAGE: u8 = 64;

/// Nobody to ask: no node, or not all members are there. Nothing was started.
pub(crate) const UNAVAILABLE: u8 = 69;

/// A fault of our own.
pub(crate) const INTERNAL: u8 = 70;

/// Not acquired: busy, or not in time.
pub(crate) const CONFLICT: u8 = 75;

/// Bad configuration: nothing was done, and the message says where and what would be right.
pub(crate) const CONFIG: u8 = 78;

/// The lock was lost while the command ran, and the command was stopped.
pub(crate) const LOST: u8 = 79;

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

/// An error that ends the command with this exit code.
#[derive(Debug)]
pub(crate) struct WithCode(pub(crate) u8, pub(crate) String);

impl fmt::Display for WithCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.1)
    }
}

impl std::error::Error for WithCode {}

/// There is nobody to ask.
pub(crate) fn unavailable(text: impl Into<String>) -> anyhow::Error {
    WithCode(UNAVAILABLE, text.into()).into()
}

/// Prints what the argument parser has to say; help and version are no errors.
pub(crate) fn of_parse_error(error: &clap::Error) -> ExitCode {
    // Nobody is left to tell when the terminal is gone.
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
}

/// Prints an error and says how to exit with it.
pub(crate) fn of_error(error: &anyhow::Error) -> ExitCode {
    eprintln!("mutua: {error:#}");
    match (error.downcast_ref::<Usage>(), error.downcast_ref::<WithCode>()) {
        (Some(_), _) => ExitCode::from(USAGE),
        (None, Some(WithCode(code, _))) => ExitCode::from(*code),
        (None, None) => ExitCode::FAILURE,
    }
}
