//! The command line meets a node of another version, on a real socket.

use std::{
    path::Path,
    pin::Pin,
    process::{Command, Output, Stdio},
};

use mutua_service::proto::v1::{
    self,
    locks_server::{Locks, LocksServer},
    reply::Answer,
    request::Ask,
};
use tokio::{net::UnixListener, sync::mpsc};
use tokio_stream::{
    Stream, StreamExt,
    wrappers::{UnboundedReceiverStream, UnixListenerStream},
};
use tonic::{Request, Response, Status, Streaming, transport::Server};

/// A node that is of another version and lets everybody in.
struct Other;

const VERSION: &str = "9.9.9";

fn answer(ask: Ask) -> Option<Answer> {
    match ask {
        Ask::Hello(_) => Some(Answer::Welcome(v1::Welcome {
            session: 1,
            good_for_ms: 10_000,
            version: VERSION.to_owned(),
            node: "other".to_owned(),
            ..Default::default()
        })),
        Ask::Acquire(v1::Acquire { id, name, .. }) => {
            Some(Answer::Granted(v1::Granted { id, name, fence: 5, waited_ms: 0 }))
        }
        Ask::Renew(v1::Renew { number }) => {
            Some(Answer::Renewed(v1::Renewed { number, good_for_ms: 10_000 }))
        }
        Ask::Goodbye(_) => Some(Answer::Farewell(v1::Farewell {})),
        Ask::Cancel(_) | Ask::Release(_) => None,
    }
}

#[tonic::async_trait]
impl Locks for Other {
    type AttachStream = UnboundedReceiverStream<Result<v1::Reply, Status>>;
    type WatchStream = Pin<Box<dyn Stream<Item = Result<v1::Lock, Status>> + Send>>;

    async fn attach(
        &self,
        request: Request<Streaming<v1::Request>>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        let (replies, stream) = mpsc::unbounded_channel();
        let mut requests = request.into_inner();
        tokio::spawn(async move {
            while let Some(Ok(request)) = requests.next().await {
                if let Some(answer) = request.ask.and_then(answer) {
                    let _ = replies.send(Ok(v1::Reply { answer: Some(answer) }));
                }
            }
        });
        Ok(Response::new(UnboundedReceiverStream::new(stream)))
    }

    async fn list(
        &self,
        _: Request<v1::ListRequest>,
    ) -> Result<Response<v1::ListResponse>, Status> {
        Ok(Response::new(v1::ListResponse::default()))
    }

    async fn about(
        &self,
        _: Request<v1::AboutRequest>,
    ) -> Result<Response<v1::AboutResponse>, Status> {
        let version = VERSION.to_owned();
        Ok(Response::new(v1::AboutResponse { version, ..Default::default() }))
    }

    async fn acquire(
        &self,
        _: Request<v1::AcquireRequest>,
    ) -> Result<Response<v1::AcquireResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn release(
        &self,
        _: Request<v1::ReleaseRequest>,
    ) -> Result<Response<v1::ReleaseResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn verify(
        &self,
        _: Request<v1::VerifyRequest>,
    ) -> Result<Response<v1::VerifyResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn watch(
        &self,
        _: Request<v1::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn r#break(
        &self,
        _: Request<v1::BreakRequest>,
    ) -> Result<Response<v1::BreakResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }
}

/// At the place of the user's node.
fn run(socket: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mutua"));
    command.args(arguments).env("MUTUA_SOCKET", socket).stdin(Stdio::null());
    command.output().expect("run")
}

#[test]
fn a_command_line_and_a_node_of_different_versions_say_so_and_go_on() {
    let place = tempfile::tempdir().expect("a directory");
    let socket = place.path().join("s");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let listener = runtime.block_on(async { UnixListener::bind(&socket) }).expect("bound");
    let incoming = UnixListenerStream::new(listener);
    runtime.spawn(
        Server::builder().add_service(LocksServer::new(Other)).serve_with_incoming(incoming),
    );
    let own = env!("CARGO_PKG_VERSION");
    let word = format!("mutua: the node is version {VERSION}, and this is version {own}\n");
    for arguments in [&["ls"][..], &["show", "x"], &["lock", "x", "--", "true"]] {
        let output = run(&socket, arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), &*said), (Some(0), &*word), "{arguments:?}");
    }
    let output = run(&socket, &["lock", "-q", "x", "--", "true"]);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let lacks = run(&socket, &["verify", "x", "5"]);
    assert_eq!(lacks.status.code(), Some(69));
    assert!(String::from_utf8_lossy(&lacks.stderr).starts_with(&word));
}
