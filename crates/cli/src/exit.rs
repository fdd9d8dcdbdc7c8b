//! Exit codes, the same in every command.

use std::{fmt, process::ExitCode};

/// Bad usage: nothing was done, and the message says what would be right.
pub(crate) const USAGE: u8 = 64;

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
    if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
}

/// Prints an error and says how to exit with it.
pub(crate) fn of_error(error: &anyhow::Error) -> ExitCode {
    eprintln!("mutua: {error:#}");
    if error.downcast_ref::<Usage>().is_some() { ExitCode::from(USAGE) } else { ExitCode::FAILURE }
}
