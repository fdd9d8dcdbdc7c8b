//! Starting the command.

use std::{
    ffi::{OsStr, OsString},
    io::Result,
    os::{fd::OwnedFd, unix::process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use rustix::io::Errno;

/// Starts a program as the leader of a process group. A script without `#!` is run by the shell, as
/// execvp does.
pub(super) fn spawn(program: &OsStr, arguments: &[OsString], stdin: OwnedFd) -> Result<Child> {
    let again = stdin.try_clone()?;
    let start = |mut command: Command, stdin: OwnedFd| {
        command.args(arguments).stdin(Stdio::from(stdin)).process_group(0).spawn()
    };
    match start(Command::new(program), stdin) {
        Err(error) if error.raw_os_error() == Some(Errno::NOEXEC.raw_os_error()) => {
            let mut shell = Command::new("/bin/sh");
            shell.arg(find(program));
            start(shell, again)
        }
        started => started,
    }
}

/// Searches PATH for a name without a slash.
fn find(program: &OsStr) -> PathBuf {
    let path = std::env::var_os("PATH").filter(|_| !program.as_encoded_bytes().contains(&b'/'));
    let path = path.unwrap_or_default();
    let runs = |file: &PathBuf| {
        file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok()
    };
    let found = std::env::split_paths(&path).map(|one| one.join(program)).find(runs);
    // A name that starts with a dash must not look like an option; an absolute path is unchanged.
    found.unwrap_or_else(|| Path::new(".").join(program))
}
