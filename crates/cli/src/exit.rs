//! Exit codes, the same in every command.

use std::{
    fmt,
    io::{self, IsTerminal, Write},
    process::ExitCode,
};

use mutua_client::ConnectError;

/// Bad usage: nothing was done, and the message tells the correct usage.
pub(crate) const USAGE: u8 = 64;

/// A check was not completed, or a precision not reached.
pub(crate) const INCOMPLETE: u8 = 2;

/// A file cannot be written. Not 1, which means that a property is violated.
pub(crate) const FILE: u8 = 73;

/// For the help of the commands that look for violations.
pub(crate) const HELP: &str = "Exit codes: 0 success; 1 a property was violated, or an \
    expectation failed; 2 a check was not completed, or a --precision not reached; 64 bad usage; \
    70 internal error; 73 a file cannot be written.";

/// For the help of the commands that only print.
pub(crate) const PRINT_HELP: &str =
    "Exit codes: 0 success; 64 bad usage; 73 standard output cannot be written.";

/// Unavailable: no node, or grants are suspended. Nothing was started.
pub(crate) const UNAVAILABLE: u8 = 69;

/// Internal error.
pub(crate) const INTERNAL: u8 = 70;

/// Not acquired: busy, or not in time. Of a node: another process has its socket, its port or its
/// data directory.
pub(crate) const CONFLICT: u8 = 75;

/// Permission denied.
pub(crate) const DENIED: u8 = 77;

/// Bad configuration: nothing was done, and the message tells where and what would be correct.
pub(crate) const CONFIG: u8 = 78;

/// Standard output was closed: 128 and the number of SIGPIPE, as shells show it.
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

/// An error with exit code 69.
pub(crate) fn unavailable(text: impl Into<String>) -> anyhow::Error {
    Coded(UNAVAILABLE, text.into()).into()
}

/// An error for a connection that failed: bad usage, permission denied or unavailable.
pub(crate) fn not_connected(error: &ConnectError) -> anyhow::Error {
    let text = error.to_string();
    match error {
        ConnectError::Invalid(_) => usage(text),
        ConnectError::Denied(_) => Coded(DENIED, text).into(),
        _ => unavailable(format!("no node answers at {text}")),
    }
}

/// An error of a command whose only files are those that it writes.
pub(crate) fn of_a_file(error: anyhow::Error) -> anyhow::Error {
    if error.chain().any(|cause| cause.is::<io::Error>()) {
        return Coded(FILE, format!("{error:#}")).into();
    }
    error
}

/// An error that the user can fix: exit code 64.
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

/// Prints the message of the argument parser; help and version are not errors.
pub(crate) fn of_parse_error(error: &clap::Error) -> ExitCode {
    let text = error.render();
    let text = if io::stderr().is_terminal() { text.ansi().to_string() } else { text.to_string() };
    match in_our_words(&text) {
        // Standard error may be closed.
        Some(text) => drop(write!(io::stderr(), "{text}")),
        None => {
            // Standard error may be closed.
            let _ = error.print();
        }
    }
    if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
}

/// A message with the standard library's words for invalid numbers replaced by what to give, and
/// without the parser's advice to put an option that it does not know behind `--`: there begins the
/// command.
fn in_our_words(message: &str) -> Option<String> {
    let is_advice = |line: &&str| line.contains("to pass '") && line.contains(" as a value, use '");
    if message.lines().any(|line| is_advice(&line)) {
        let lines: Vec<_> = message.lines().filter(|line| !is_advice(line)).collect();
        return Some(lines.join("\n").replace("\n\n\n", "\n\n") + "\n");
    }
    const WORDS: [(&str, &str); 5] = [
        ("invalid digit found in string", "give a whole number"),
        ("cannot parse integer from empty string", "give a whole number"),
        ("number too large to fit in target type", "the number is too large"),
        ("number too small to fit in target type", "the number is too small"),
        ("invalid float literal", "give a number"),
    ];
    let (theirs, ours) = WORDS.iter().find(|(theirs, _)| message.contains(theirs))?;
    Some(message.replace(theirs, ours))
}

/// Prints an error and returns its exit code.
pub(crate) fn of_error(error: &anyhow::Error) -> ExitCode {
    eprintln!("mutua: {error:#}");
    if let Some(Coded(code, _)) = error.downcast_ref() {
        return ExitCode::from(*code);
    }
    if error.downcast_ref::<Usage>().is_some() { ExitCode::from(USAGE) } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests {
    use super::in_our_words;

    #[test]
    fn an_invalid_number_is_refused_with_what_to_give() {
        for (word, ours) in [
            ("abc", "give a whole number"),
            ("", "give a whole number"),
            ("99999999999999999999", "the number is too large"),
        ] {
            let theirs = word.parse::<u32>().expect_err("not a number").to_string();
            let message = format!("error: invalid value '{word}' for '--port <PORT>': {theirs}");
            let message = in_our_words(&message).expect("it has the standard library's words");
            assert!(message.ends_with(&format!("for '--port <PORT>': {ours}")), "{message}");
        }
        let theirs = "x".parse::<f64>().expect_err("not a number").to_string();
        assert_eq!(in_our_words(&theirs).as_deref(), Some("give a number"));
        assert_eq!(in_our_words("error: unexpected argument '--x' found"), None);
        let advised = "error: unexpected argument '--x' found\n\n  tip: to pass '--x' as a value, \
                       use '-- --x'\n\nUsage: mutua\n";
        let ours = in_our_words(advised);
        assert_eq!(
            ours.as_deref(),
            Some("error: unexpected argument '--x' found\n\nUsage: mutua\n")
        );
    }
}
