//! The entrance of all calls: gRPC by the rules of its methods, everything else to the gateway.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::{
    HeaderMap, Request, Response, Version,
    body::{Bytes, Frame},
    header::CONTENT_TYPE,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, body::Body, service::Routes};
use tower::ServiceExt;

use crate::{
    Service,
    caller::Caller,
    etcd_status::{needs_leader, until_deadline},
    gateway,
    methods::{self, Rule},
};

/// The most bytes of a message: tonic's limit too.
const LIMIT: usize = 4 << 20;

/// How often it is checked whether there is a leader, for a stream whose client requires one.
const LOOK: Duration = Duration::from_secs(1);

/// All services behind their checks. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Front {
    service: Arc<Service>,
    routes: Routes,
}

type Answering = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

impl tower::Service<Request<Body>> for Front {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Answering {
        let front = self.clone();
        Box::pin(async move {
            Ok(match is_grpc(&request) {
                true => front.call_grpc(request).await,
                false => gateway::respond(front, request).await,
            })
        })
    }
}

/// Whether a request is gRPC. Over HTTP/1.1, which a web page can speak, it is not: the gateway
/// then refuses it.
fn is_grpc(request: &Request<Body>) -> bool {
    let kind = request.headers().get(CONTENT_TYPE);
    request.version() == Version::HTTP_2
        && kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

impl Front {
    pub(crate) fn new(service: Arc<Service>, routes: Routes) -> Self {
        Self { service, routes: routes.prepare() }
    }

    pub(crate) fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// Makes a call of gRPC: checks it, and ends it at its deadline.
    pub(crate) async fn call_grpc(self, request: Request<Body>) -> Response<Body> {
        let headers = request.headers().clone();
        let answered = until_deadline(&headers, async {
            let request = self.checked(request).await?;
            let Ok(response) = self.routes.clone().oneshot(request).await;
            Ok(match needs_leader(&headers) {
                true => self.while_led(&headers, response),
                false => response,
            })
        });
        answered.await.unwrap_or_else(Status::into_http)
    }

    /// The response to a client that requires a leader: a stream ends when this node has none.
    fn while_led(&self, headers: &HeaderMap, response: Response<Body>) -> Response<Body> {
        let (service, headers) = (Arc::clone(&self.service), headers.clone());
        let (parts, mut body) = response.into_parts();
        let (sender, frames) = mpsc::channel(1);
        tokio::spawn(async move {
            let mut often = tokio::time::interval(LOOK);
            loop {
                let frame = tokio::select! {
                    frame = body.frame() => frame,
                    _ = often.tick() => match service.check_leader(&headers) {
                        Ok(()) => continue,
                        Err(status) => {
                            let mut trailers = HeaderMap::new();
                            let _ = status.add_header(&mut trailers);
                            let _ = sender.send(Ok(Frame::trailers(trailers))).await;
                            return;
                        }
                    },
                    () = sender.closed() => return,
                };
                let Some(frame) = frame else { return };
                if sender.send(frame).await.is_err() {
                    return;
                }
            }
        });
        Response::from_parts(parts, Body::new(StreamBody::new(ReceiverStream::new(frames))))
    }

    /// Checks a call before its method runs.
    async fn checked(&self, request: Request<Body>) -> Result<Request<Body>, Status> {
        let path = request.uri().path();
        let rule = methods::rule(path)?;
        if methods::is_about_locks_of_etcd(path) {
            self.service.check_leader(request.headers())?;
        }
        let Rule::Message(needs) = rule else { return Ok(request) };
        let (parts, body) = request.into_parts();
        let whole = Limited::new(body, LIMIT).collect().await;
        let whole =
            whole.map_err(|error| Status::resource_exhausted(error.to_string()))?.to_bytes();
        let needs = needs(message(&whole)?)?;
        let caller = Caller::of_extensions(&parts.extensions);
        self.service.check_needs(&caller, &needs)?;
        Ok(Request::from_parts(parts, Body::new(Full::new(whole))))
    }
}

/// The only message of a body.
fn message(body: &Bytes) -> Result<&[u8], Status> {
    let Some(([compressed, length @ ..], message)) = body.split_first_chunk::<5>() else {
        return Err(Status::internal("the message is missing"));
    };
    if *compressed != 0 {
        return Err(Status::unimplemented("compressed messages are not supported"));
    }
    let length = u32::from_be_bytes(*length) as usize;
    message.get(..length).ok_or_else(|| Status::internal("the message is not complete"))
}
