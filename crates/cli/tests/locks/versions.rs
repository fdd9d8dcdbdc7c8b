//! The command line with a node of another version, on a real socket.

use std::{
    path::Path,
    process::{Command, Output, Stdio},
};

use mutua_client::{
    proto::v1::{self, session_reply::Reply, session_request::Request},
    testing::serve,
};

const VERSION: &str = "9.9.9";

/// The reply of a node that grants every request.
fn reply(request: Request) -> Option<Reply> {
    match request {
        Request::Open(_) => Some(Reply::Opened(v1::Opened {
            session: 1,
            ttl_ms: 10_000,
            version: VERSION.to_owned(),
            node: "other".to_owned(),
            ..Default::default()
        })),
        Request::Acquire(v1::Acquire { id, name, .. }) => {
            Some(Reply::Granted(v1::Granted { id, name, fencing_token: 5, ..Default::default() }))
        }
        Request::Renew(v1::Renew { number }) => {
            Some(Reply::Renewed(v1::Renewed { number, ttl_ms: 10_000 }))
        }
        Request::Close(_) => Some(Reply::Closed(v1::Closed {})),
        Request::Cancel(_) | Request::Release(_) | Request::Proclaim(_) => None,
    }
}

/// Runs a command whose local node is at this socket.
fn run(socket: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mutua"));
    command.args(arguments).env("MUTUA_SOCKET", socket).stdin(Stdio::null());
    command.output().expect("run")
}

#[test]
fn a_command_line_and_a_node_of_different_versions_say_so_and_go_on() {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("s");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut streams = runtime.block_on(async { serve(&socket, VERSION) }).expect("bound");
    runtime.spawn(async move {
        while let Some(mut stream) = streams.recv().await {
            tokio::spawn(async move {
                while let Some(request) = stream.receive().await {
                    reply(request).into_iter().for_each(|reply| stream.send(reply));
                }
            });
        }
    });
    let own = env!("CARGO_PKG_VERSION");
    let word = format!("mutua: the node runs version {VERSION}, this program is version {own}\n");
    for arguments in [&["ls"][..], &["show", "x"], &["lock", "x", "--", "true"]] {
        let output = run(&socket, arguments);
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), &*printed), (Some(0), &*word), "{arguments:?}");
    }
    let output = run(&socket, &["lock", "-q", "x", "--", "true"]);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let lacks = run(&socket, &["verify", "x", "5"]);
    assert_eq!(lacks.status.code(), Some(69));
    assert!(String::from_utf8_lossy(&lacks.stderr).starts_with(&word));
}
