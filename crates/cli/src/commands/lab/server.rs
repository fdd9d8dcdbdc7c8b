//! The routes: files of the page, and `POST /query`.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::Bytes,
    extract::{DefaultBodyLimit, Request, State},
    http::{HeaderMap, StatusCode, Uri, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::post,
};
use mutua_lab::reply::{MOST_BYTES, reply_json};
use tokio::sync::Semaphore;

use super::{
    assets, guard,
    live::{self, Live},
};

const TEXT: &str = "text/plain; charset=utf-8";
pub(super) const JSON: &str = "application/json";

/// Queries that run at the same time; others wait.
const AT_ONCE: usize = 2;

/// The longest that a query waits for its turn and its reply.
const LONGEST: Duration = Duration::from_secs(60);

pub(super) fn router(port: u16, live: Arc<Live>) -> Router {
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    Router::new()
        .route("/query", post(query).with_state(turns))
        .route("/live", post(live::ask).with_state(Arc::clone(&live)))
        .route("/live/revoke", post(live::revoke).with_state(live))
        .fallback(file)
        .layer(DefaultBodyLimit::max(MOST_BYTES + 1024))
        .layer(middleware::from_fn_with_state(port, guarded))
}

/// Refuses requests that do not come from a page of this server.
async fn guarded(State(port): State<u16>, request: Request, next: Next) -> Response {
    match guard::refusal(request.headers(), port) {
        Some(why) => refused(StatusCode::FORBIDDEN, why),
        None => next.run(request).await,
    }
}

pub(super) fn refused(status: StatusCode, why: &str) -> Response {
    (status, guard::headers(TEXT), format!("{why}\n")).into_response()
}

async fn file(method: axum::http::Method, uri: Uri) -> Response {
    if method != axum::http::Method::GET && method != axum::http::Method::HEAD {
        return refused(StatusCode::METHOD_NOT_ALLOWED, "use GET for files, POST for /query");
    }
    match assets::find(uri.path()) {
        Some((kind, bytes)) => (guard::headers(kind), bytes).into_response(),
        None => refused(StatusCode::NOT_FOUND, "not found: the page is at /"),
    }
}

async fn query(State(turns): State<Arc<Semaphore>>, headers: HeaderMap, body: Bytes) -> Response {
    // A form of another page can send text, but not JSON, without this server's consent.
    if headers.get(header::CONTENT_TYPE).is_none_or(|kind| kind != JSON) {
        return refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, "a query is application/json");
    }
    let Ok(text) = String::from_utf8(body.into()) else {
        return refused(StatusCode::BAD_REQUEST, "a query is UTF-8");
    };
    let answer = async {
        // The semaphore is never closed.
        let _turn = turns.acquire_owned().await.ok()?;
        tokio::task::spawn_blocking(move || reply_json(&text)).await.ok()
    };
    match tokio::time::timeout(LONGEST, answer).await {
        Ok(Some(reply)) => (guard::headers(JSON), reply).into_response(),
        Ok(None) => refused(StatusCode::INTERNAL_SERVER_ERROR, "the query failed: this is a bug"),
        Err(_) => {
            refused(StatusCode::SERVICE_UNAVAILABLE, "the query takes too long: ask for less")
        }
    }
}
