//! Live: a real cluster for the page, as one of its nodes reports it.
//!
//! Everything here needs the token that `mutua lab` prints with its address: the page of another
//! user of this machine can reach the port, too, and locks can be revoked here.

use std::{collections::BTreeMap, fs::File, io::Read, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use axum::{
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use mutua_client::{
    Kind,
    proto::v1::{self, locks_client::LocksClient},
};
use serde::Deserialize;
use serde_json::{Value, json};
use tonic::{Request, transport::Channel};

use super::{
    guard,
    server::{JSON, refused},
};
use crate::{
    commands::{
        lock,
        locks::{as_json, entry_json, failed},
        top::sample::Sample,
    },
    local::Target,
};

/// How long a node may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The node that is shown, and the token of those who may see it.
pub(super) struct Live {
    token: String,
    /// The node, or why there is none.
    target: Result<Target, String>,
}

impl Live {
    /// With a new token.
    pub(super) fn new(target: Result<Target, String>) -> Result<Self> {
        let mut bytes = [0_u8; 16];
        let mut source = File::open("/dev/urandom").context("cannot open /dev/urandom")?;
        source.read_exact(&mut bytes).context("cannot read /dev/urandom")?;
        Ok(Self { token: hex(&bytes), target })
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// Whether a request carries the token.
    fn knows(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(header::AUTHORIZATION).map(|value| value.as_bytes());
        let given = given.and_then(|value| value.strip_prefix(b"Bearer ")).unwrap_or(b"");
        let known = self.token.as_bytes();
        // Every byte is compared, so that the time of a refusal says nothing of the token.
        let differing = given.iter().zip(known).filter(|(one, other)| one != other).count();
        given.len() == known.len() && differing == 0
    }
}

/// What the page wants to know.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ask {
    /// The lock to follow, its name in hexadecimal digits.
    lock: Option<String>,
    /// The events that the page has, by member.
    #[serde(default)]
    after: BTreeMap<String, u64>,
}

/// A lock to revoke from its holder.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Revoke {
    /// Its name in hexadecimal digits.
    lock: String,
    /// Its name as a person typed it.
    typed: String,
    /// The grant, and no later one.
    fencing_token: String,
    reason: String,
}

/// `POST /live`: members, locks, and the trace of one of them.
pub(super) async fn ask(
    State(live): State<Arc<Live>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    answer(&live, &headers, &body, async |target, ask: Ask| report(target, ask).await).await
}

/// `POST /live/revoke`: revokes a lock.
pub(super) async fn revoke(
    State(live): State<Arc<Live>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    answer(&live, &headers, &body, async |target, wanted: Revoke| revoked(target, wanted).await)
        .await
}

async fn answer<T: serde::de::DeserializeOwned>(
    live: &Live,
    headers: &HeaderMap,
    body: &[u8],
    act: impl AsyncFnOnce(&Target, T) -> Result<Value>,
) -> Response {
    if !live.knows(headers) {
        let why = "Live needs the token of the address that `mutua lab` prints";
        return refused(StatusCode::FORBIDDEN, why);
    }
    let query = match serde_json::from_slice(body) {
        Ok(query) => query,
        Err(error) => return refused(StatusCode::BAD_REQUEST, &format!("invalid query: {error}")),
    };
    let target = match &live.target {
        Ok(target) => target,
        Err(why) => return refused(StatusCode::SERVICE_UNAVAILABLE, why),
    };
    match act(target, query).await {
        Ok(reply) => (guard::headers(JSON), reply.to_string()).into_response(),
        Err(error) => refused(StatusCode::SERVICE_UNAVAILABLE, &format!("{error:#}")),
    }
}

async fn report(target: &Target, ask: Ask) -> Result<Value> {
    let sample = Sample::take(target, "").await?;
    let (channel, about) = target.query(PATIENCE).await?;
    let trace = match ask.lock {
        Some(lock) => Some(trace(channel, unhex(&lock)?, ask.after).await?),
        None => None,
    };
    let status = &sample.status;
    let lock = |lock: &v1::Lock| {
        let mut value = as_json(lock, &about.scope);
        value["id"] = hex(&lock.name).into();
        value
    };
    Ok(json!({
        "node": status.node,
        "cluster": status.cluster,
        "epoch": status.epoch,
        "view": status.view,
        "leader": status.leader,
        "suspended": status.suspended,
        "members": status.members.iter().map(member).collect::<Vec<_>>(),
        "locks": sample.locks.iter().take(MOST_LOCKS).map(lock).collect::<Vec<_>>(),
        "more_locks": sample.locks.len().saturating_sub(MOST_LOCKS),
        "unanswered": sample.unanswered,
        "trace": trace,
    }))
}

/// The most locks that the page lists, those with most waiters first.
const MOST_LOCKS: usize = 100;

fn member(member: &v1::Member) -> Value {
    json!({
        "name": member.name,
        "up": member.up,
        "for_ms": member.for_ms,
        "in_view": member.in_view,
        "votes": member.votes,
    })
}

async fn trace(channel: Channel, name: Vec<u8>, after: BTreeMap<String, u64>) -> Result<Value> {
    let after = after.into_iter().map(|(node, next)| v1::TraceCursor { node, next }).collect();
    let mut request = Request::new(v1::TraceRequest { name, after });
    request.set_timeout(PATIENCE);
    let mut client = LocksClient::new(channel).max_decoding_message_size(usize::MAX);
    let trace = client.trace(request).await.map_err(failed)?.into_inner();
    let member = |member: v1::MemberTrace| {
        let ahead = member.ahead_ns;
        let events = member.events.into_iter().map(|line| shifted(line, ahead));
        json!({
            "node": member.node,
            "header": member.header,
            "events": events.collect::<Vec<_>>(),
            "next": member.next,
            "missed": member.missed,
            "grants": member.grants,
            "messages": member.messages,
            "lazy": member.lazy,
        })
    };
    Ok(json!({
        "now": trace.now_ns,
        "members": trace.members.into_iter().map(member).collect::<Vec<_>>(),
        "unanswered": trace.unanswered,
    }))
}

/// A line of a trace by the clock of the node that is asked.
fn shifted(line: String, ahead: i64) -> String {
    if ahead == 0 {
        return line;
    }
    let Ok(mut event) = serde_json::from_str::<Value>(&line) else { return line };
    let Some(at) = event["at"].as_u64() else { return line };
    event["at"] = at.saturating_add_signed(ahead.saturating_neg()).into();
    event.to_string()
}

async fn revoked(target: &Target, wanted: Revoke) -> Result<Value> {
    let name = unhex(&wanted.lock)?;
    if wanted.typed.as_bytes() != &*name && wanted.typed != name.escape_ascii().to_string() {
        anyhow::bail!("the name that was typed is another one; nothing was revoked");
    }
    let fencing_token = wanted.fencing_token.parse().context("invalid fencing token")?;
    let (channel, about) = target.query(PATIENCE).await?;
    if about.kind == Kind::Etcd {
        return Err(failed(tonic::Status::unimplemented("")));
    }
    let request =
        v1::BreakRequest { name, fencing_token, reason: wanted.reason, by: lock::owner() };
    let reply = LocksClient::new(channel).r#break(request).await.map_err(failed)?.into_inner();
    Ok(json!({
        "broken": reply.broken.as_ref().map(entry_json),
        "free_within_ms": reply.quarantine_ms,
    }))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Result<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    let bytes = digits.map(|pair| {
        let pair = std::str::from_utf8(pair)
            .ok()
            .filter(|pair| pair.len() == 2 && !pair.starts_with('+'))?;
        u8::from_str_radix(pair, 16).ok()
    });
    bytes.collect::<Option<_>>().with_context(|| format!("invalid lock `{text}`"))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn only_the_token_opens_it() {
        let live = Live::new(Err("none".to_owned())).expect("a token");
        assert_eq!(live.token().len(), 32);
        assert_ne!(live.token(), Live::new(Err("none".to_owned())).expect("a token").token());
        let knows = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, HeaderValue::from_str(text).expect("ASCII"));
            live.knows(&headers)
        };
        assert!(knows(&format!("Bearer {}", live.token())));
        assert!(!knows(&format!("Bearer {}0", live.token())));
        assert!(!knows(&format!("Bearer {}", &live.token()[1..])));
        assert!(!knows(live.token()));
        assert!(!knows("Bearer "));
        assert!(!live.knows(&HeaderMap::new()));
    }

    #[test]
    fn names_go_to_the_page_and_back_whatever_their_bytes() {
        for name in [&b""[..], b"x", b"\xff\x00", "köln".as_bytes()] {
            assert_eq!(unhex(&hex(name)).expect("digits"), name);
        }
        for text in ["f", "zz", "+1", "0ä"] {
            assert!(unhex(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_clock_that_is_ahead_is_set_back() {
        let line = r#"{"at":500,"id":18446744073709551615,"what":"exit","who":"a"}"#;
        assert_eq!(shifted(line.to_owned(), 0), line);
        assert!(shifted(line.to_owned(), 300).contains("\"at\":200,\"id\":18446744073709551615"));
        assert!(shifted(line.to_owned(), -300).contains("\"at\":800"));
    }
}
