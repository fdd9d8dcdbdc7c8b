//! Printing, for all commands: `print!`, `println!` and `eprintln!` of this program.
//!
//! The standard ones panic when the output is closed, as in `mutua algorithms | head`. These have
//! the same names, so that no command can forget it: once standard output is closed, the program
//! exits quietly, and errors of writing to standard error are ignored.

use std::{
    fmt,
    io::{self, ErrorKind, Write},
};

use crate::exit;

macro_rules! print {
    ($($text:tt)*) => { $crate::out::write(format_args!($($text)*)) };
}

macro_rules! println {
    ($($text:tt)*) => { $crate::out::write(format_args!("{}\n", format_args!($($text)*))) };
}

macro_rules! eprint {
    ($($text:tt)*) => { $crate::out::complain(format_args!($($text)*)) };
}

macro_rules! eprintln {
    ($($text:tt)*) => { $crate::out::complain(format_args!("{}\n", format_args!($($text)*))) };
}

/// Writes to standard output, or exits if that fails.
pub(crate) fn write(text: fmt::Arguments<'_>) {
    io::stdout().write_fmt(text).unwrap_or_else(|error| end(&error));
}

/// Writes a line to standard output, for a caller that has to clean up before it calls
/// [`end`].
pub(crate) fn try_line(line: impl fmt::Display) -> io::Result<()> {
    let mut out = io::stdout();
    writeln!(out, "{line}")?;
    out.flush()
}

/// Writes bytes to standard output, or exits if that fails.
pub(crate) fn write_bytes(bytes: &[u8]) {
    io::stdout().write_all(bytes).unwrap_or_else(|error| end(&error));
}

/// Flushes standard output, so that a reader of a pipe sees each line at once.
pub(crate) fn flush() {
    io::stdout().flush().unwrap_or_else(|error| end(&error));
}

/// Writes to standard error, if it is open.
pub(crate) fn complain(text: fmt::Arguments<'_>) {
    let _ = io::stderr().write_fmt(text);
}

/// Exits after an error of writing to standard output.
pub(crate) fn end(error: &io::Error) -> ! {
    if error.kind() != ErrorKind::BrokenPipe {
        eprintln!("mutua: cannot write to standard output: {error}");
        std::process::exit(exit::FILE.into());
    }
    std::process::exit(exit::BROKEN_PIPE.into());
}
