//! Output that is not read to its end, as in `mutua algorithms | head -1`.

use std::process::{Command, Stdio};

/// Runs with a standard output whose reader is gone.
fn unread(arguments: &str) -> (Option<i32>, String) {
    let mut reader = Command::new("true").stdin(Stdio::piped()).spawn().expect("it runs");
    let pipe = reader.stdin.take().expect("a pipe");
    reader.wait().expect("it ends");
    let mut command = Command::new(env!("CARGO_BIN_EXE_mutua"));
    let output = command.args(arguments.split(' ')).stdout(pipe).output().expect("the binary runs");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_closed_pipe_ends_every_command_quietly() {
    for arguments in [
        "algorithms",
        "algorithms raymond --json",
        "simulate raymond --entries 50",
        "simulate raymond --entries 50 --json",
        "simulate bully",
        "simulate dijkstra --with daemon=central",
        "check central --nodes 2",
        "replay",
        "replay raymond/line",
        "completions bash",
        "man",
    ] {
        assert_eq!(unread(arguments), (Some(141), String::new()), "{arguments}");
    }
}
