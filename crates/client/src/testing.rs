//! A scripted node for tests of clients: it does nothing by itself.

use std::{io, path::Path, pin::Pin};

use tokio::{net::UnixListener, sync::mpsc};
use tokio_stream::{
    Stream, StreamExt,
    wrappers::{UnboundedReceiverStream, UnixListenerStream},
};
use tonic::{Request, Response, Status, Streaming, transport::Server};

use crate::proto::v1::{
    self,
    locks_server::{Locks, LocksServer},
    session_reply, session_request,
};

/// A stream that a client has attached, seen from the node.
#[derive(Debug)]
pub struct Attached {
    requests: Streaming<v1::SessionRequest>,
    replies: mpsc::UnboundedSender<Result<v1::SessionReply, Status>>,
}

impl Attached {
    /// The client's next request; `None` when the stream has ended.
    pub async fn receive(&mut self) -> Option<session_request::Request> {
        self.requests.next().await?.ok()?.request
    }

    /// Sends a reply; the client may have closed the stream.
    pub fn send(&self, reply: session_reply::Reply) {
        let _ = self.replies.send(Ok(v1::SessionReply { reply: Some(reply) }));
    }

    /// Ends the stream, and waits until the client has closed its side.
    pub async fn end(self) {
        let Self { mut requests, replies } = self;
        drop(replies);
        while let Some(Ok(_)) = requests.next().await {}
    }
}

/// Serves at a socket on the present runtime, as a node of this version that has no locks. Returns
/// the streams that clients attach; the test replies on them.
///
/// # Errors
///
/// If the socket cannot be bound.
pub fn serve(socket: &Path, version: &str) -> io::Result<mpsc::UnboundedReceiver<Attached>> {
    let (attached, streams) = mpsc::unbounded_channel();
    let incoming = UnixListenerStream::new(UnixListener::bind(socket)?);
    let locks = LocksServer::new(Scripted { version: version.to_owned(), attached });
    tokio::spawn(Server::builder().add_service(locks).serve_with_incoming(incoming));
    Ok(streams)
}

struct Scripted {
    version: String,
    attached: mpsc::UnboundedSender<Attached>,
}

type Reply<T> = Result<Response<T>, Status>;

fn unsupported<T>() -> Reply<T> {
    Err(Status::unimplemented("not supported by the scripted node"))
}

#[tonic::async_trait]
impl Locks for Scripted {
    type AttachStream = UnboundedReceiverStream<Result<v1::SessionReply, Status>>;
    type WatchStream = Pin<Box<dyn Stream<Item = Result<v1::Lock, Status>> + Send>>;

    async fn attach(
        &self,
        request: Request<Streaming<v1::SessionRequest>>,
    ) -> Reply<Self::AttachStream> {
        let (replies, stream) = mpsc::unbounded_channel();
        let _ = self.attached.send(Attached { requests: request.into_inner(), replies });
        Ok(Response::new(UnboundedReceiverStream::new(stream)))
    }

    async fn about(&self, _: Request<v1::AboutRequest>) -> Reply<v1::AboutResponse> {
        let version = self.version.clone();
        Ok(Response::new(v1::AboutResponse { version, ..Default::default() }))
    }

    async fn list(&self, _: Request<v1::ListRequest>) -> Reply<v1::ListResponse> {
        Ok(Response::new(v1::ListResponse::default()))
    }

    async fn acquire(&self, _: Request<v1::AcquireRequest>) -> Reply<v1::AcquireResponse> {
        unsupported()
    }

    async fn release(&self, _: Request<v1::ReleaseRequest>) -> Reply<v1::ReleaseResponse> {
        unsupported()
    }

    async fn verify(&self, _: Request<v1::VerifyRequest>) -> Reply<v1::VerifyResponse> {
        unsupported()
    }

    async fn watch(&self, _: Request<v1::WatchRequest>) -> Reply<Self::WatchStream> {
        unsupported()
    }

    async fn trace(&self, _: Request<v1::TraceRequest>) -> Reply<v1::TraceResponse> {
        unsupported()
    }

    async fn r#break(&self, _: Request<v1::BreakRequest>) -> Reply<v1::BreakResponse> {
        unsupported()
    }
}
