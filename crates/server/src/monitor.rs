//! The HTTP listener for monitors: `/metrics`, `/health` and `/ready`.

use std::{convert::Infallible, io, net::SocketAddr, sync::Arc, time::Duration};

use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{ALLOW, CONTENT_TYPE},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::registry::Registry;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};

use crate::{Service, metrics};

/// The most connections at a time: monitors are few.
const CONNECTIONS: usize = 32;

/// How long a connection may take in all, and its header.
const CONNECTION: Duration = Duration::from_secs(30);
const HEADER: Duration = Duration::from_secs(5);

const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// Binds the address for monitors.
pub(crate) async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Serves monitors. Does not return.
pub(crate) async fn serve(service: Arc<Service>, listener: TcpListener, names: bool) {
    let registry = Arc::new(metrics::registry(&service, names));
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // Never closed.
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (service, registry) = (Arc::clone(&service), Arc::clone(&registry));
        tokio::spawn(async move {
            let _ = timeout(CONNECTION, answer(service, registry, stream)).await;
            drop(permit);
        });
    }
}

async fn answer(service: Arc<Service>, registry: Arc<Registry>, stream: TcpStream) {
    let respond = service_fn(move |request: Request<Incoming>| {
        let (status, kind, text) =
            reply(&service, &registry, request.method(), request.uri().path());
        async move {
            let response = Response::builder().status(status).header(CONTENT_TYPE, kind);
            let response = if status == StatusCode::METHOD_NOT_ALLOWED {
                response.header(ALLOW, "GET, HEAD")
            } else {
                response
            };
            let response = response.body(Full::new(Bytes::from(text)));
            Ok::<_, Infallible>(response.unwrap_or_default())
        }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEADER);
    // A monitor that goes away is not an error.
    let _ = server.serve_connection(TokioIo::new(stream), respond).await;
}

fn reply(
    service: &Arc<Service>,
    registry: &Registry,
    method: &Method,
    path: &str,
) -> (StatusCode, &'static str, String) {
    if method != Method::GET && method != Method::HEAD {
        return (StatusCode::METHOD_NOT_ALLOWED, TEXT, "use GET\n".to_owned());
    }
    match path {
        "/metrics" => match metrics::text(registry) {
            Ok(text) => (StatusCode::OK, METRICS, text),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("{error}\n")),
        },
        // The process answers, and so does the mutex of its node.
        "/health" => match service.handle.ended() {
            None => (StatusCode::OK, TEXT, "ok\n".to_owned()),
            Some(why) => (StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{why}\n")),
        },
        "/ready" => match service.why_not_granting() {
            None => (StatusCode::OK, TEXT, "locks are granted\n".to_owned()),
            Some(why) => (StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{why}\n")),
        },
        _ => {
            let text = "not found; use /metrics, /health or /ready\n";
            (StatusCode::NOT_FOUND, TEXT, text.to_owned())
        }
    }
}
