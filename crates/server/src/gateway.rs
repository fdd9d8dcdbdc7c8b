//! etcd's JSON gateway: its calls by HTTP, for curl, scripts and clients without gRPC.
//!
//! A request is translated to gRPC and back by the descriptors of the messages, and passes the same
//! checks as any call. Unlike etcd's gateway it lets no web page in: there are no CORS headers, a
//! request with an `Origin` is refused, its body must be declared as JSON, which a page cannot do
//! without asking first, and over plain TCP its `Host` must be a name of this node.

mod hosts;
mod streams;

pub(crate) use hosts::Hosts;

use std::sync::OnceLock;

use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::Bytes,
    header::{ALLOW, CONTENT_TYPE, HOST, HeaderName, HeaderValue, ORIGIN},
};
use mutua_client::proto;
use prost::Message;
use prost_reflect::{
    DescriptorPool, DeserializeOptions, DynamicMessage, MessageDescriptor, MethodDescriptor,
    SerializeOptions,
};
use serde_json::{Value, json};
use tonic::{Code, Status, body::Body};

use crate::{caller::Caller, front::Front};

/// The most bytes of a body: gRPC's limit too.
const LIMIT: usize = 4 << 20;

const JSON: &str = "application/json";

/// The version of etcd's API that is served, as `/version` reports it: clients choose their paths
/// and forms by it.
const ETCD_API: &str = "3.5.0";

/// The paths, and the methods that they call.
const PATHS: [(&str, &str); 23] = [
    ("/v3/lock/lock", "/v3lockpb.Lock/Lock"),
    ("/v3/lock/unlock", "/v3lockpb.Lock/Unlock"),
    ("/v3/election/campaign", "/v3electionpb.Election/Campaign"),
    ("/v3/election/proclaim", "/v3electionpb.Election/Proclaim"),
    ("/v3/election/leader", "/v3electionpb.Election/Leader"),
    ("/v3/election/observe", "/v3electionpb.Election/Observe"),
    ("/v3/election/resign", "/v3electionpb.Election/Resign"),
    ("/v3/lease/grant", "/etcdserverpb.Lease/LeaseGrant"),
    ("/v3/lease/revoke", "/etcdserverpb.Lease/LeaseRevoke"),
    ("/v3/kv/lease/revoke", "/etcdserverpb.Lease/LeaseRevoke"),
    ("/v3/lease/keepalive", "/etcdserverpb.Lease/LeaseKeepAlive"),
    ("/v3/lease/timetolive", "/etcdserverpb.Lease/LeaseTimeToLive"),
    ("/v3/kv/lease/timetolive", "/etcdserverpb.Lease/LeaseTimeToLive"),
    ("/v3/lease/leases", "/etcdserverpb.Lease/LeaseLeases"),
    ("/v3/kv/lease/leases", "/etcdserverpb.Lease/LeaseLeases"),
    ("/v3/kv/range", "/etcdserverpb.KV/Range"),
    ("/v3/kv/put", "/etcdserverpb.KV/Put"),
    ("/v3/kv/deleterange", "/etcdserverpb.KV/DeleteRange"),
    ("/v3/kv/txn", "/etcdserverpb.KV/Txn"),
    ("/v3/watch", "/etcdserverpb.Watch/Watch"),
    ("/v3/cluster/member/list", "/etcdserverpb.Cluster/MemberList"),
    ("/v3/maintenance/status", "/etcdserverpb.Maintenance/Status"),
    ("/v3/auth/authenticate", "/etcdserverpb.Auth/Authenticate"),
];

/// The method of a path.
fn method(path: &str) -> Option<(&'static str, MethodDescriptor)> {
    static POOL: OnceLock<DescriptorPool> = OnceLock::new();
    let pool = POOL.get_or_init(|| {
        DescriptorPool::decode(proto::DESCRIPTORS).expect("a test decodes what is compiled in")
    });
    let &(_, target) = PATHS.iter().find(|(known, _)| *known == path)?;
    let (service, name) = target[1..].split_once('/')?;
    let service = pool.get_service_by_name(service)?;
    let method = service.methods().find(|method| method.name() == name)?;
    Some((target, method))
}

/// A refusal of the HTTP request itself.
struct Refused(StatusCode, String);

/// The response to a request that is not gRPC.
pub(crate) async fn respond(front: Front, request: Request<Body>) -> Response<Body> {
    match answer(front, request).await {
        Ok(response) => response,
        Err(Refused(status, text)) => {
            let mut response = json_response(status, &json!({ "error": text, "message": text }));
            if status == StatusCode::METHOD_NOT_ALLOWED {
                response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
            }
            response
        }
    }
}

async fn answer(front: Front, request: Request<Body>) -> Result<Response<Body>, Refused> {
    let path = request.uri().path().to_owned();
    if request.method() == Method::GET
        && let Some(response) = read_only(&front, &path)
    {
        return Ok(response);
    }
    check_origin(&front, &request)?;
    let Some((target, method)) = method(&path) else {
        let text = format!("{path} is not served: use /v3/lock/lock and others of etcd's gateway");
        return Err(Refused(StatusCode::NOT_FOUND, text));
    };
    if request.method() != Method::POST {
        return Err(Refused(StatusCode::METHOD_NOT_ALLOWED, "use POST".to_owned()));
    }
    if !is_json(request.headers()) {
        let text = "the body must be JSON: send the header `Content-Type: application/json`";
        return Err(Refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, text.to_owned()));
    }
    let (parts, body) = request.into_parts();
    let headers = metadata(&parts.headers);
    let caller = Caller::of_extensions(&parts.extensions);
    let call = |body| {
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = hyper::Uri::from_static(target);
        *request.headers_mut() = headers;
        request.extensions_mut().insert(caller);
        front.call_grpc(request)
    };
    if method.is_client_streaming() {
        let response = call(streams::requests(body, method.input())).await;
        return Ok(streams::responses(response, method.output()));
    }
    let bytes = match Limited::new(body, LIMIT).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return Err(Refused(StatusCode::BAD_REQUEST, error.to_string())),
    };
    let message = match parse(method.input(), &bytes) {
        Ok(message) => message,
        Err(status) => return Ok(error_response(&status)),
    };
    let response = call(Body::new(Full::new(frame(&message)))).await;
    if method.is_server_streaming() {
        return Ok(streams::responses(response, method.output()));
    }
    Ok(match streams::only_message(response, method.output()).await {
        Ok(message) => json_response(StatusCode::OK, &message),
        Err(status) => error_response(&status),
    })
}

/// The pages that change nothing and name no lock.
fn read_only(front: &Front, path: &str) -> Option<Response<Body>> {
    match path {
        "/version" => {
            let version = json!({
                "etcdserver": ETCD_API, "etcdcluster": ETCD_API,
                "mutua": env!("CARGO_PKG_VERSION"),
            });
            Some(json_response(StatusCode::OK, &version))
        }
        "/health" => Some(match front.service().why_not_granting() {
            None => json_response(StatusCode::OK, &json!({ "health": "true" })),
            Some(reason) => {
                let health = json!({ "health": "false", "reason": reason });
                json_response(StatusCode::SERVICE_UNAVAILABLE, &health)
            }
        }),
        _ => None,
    }
}

/// Refuses what a web page can have sent.
fn check_origin(front: &Front, request: &Request<Body>) -> Result<(), Refused> {
    if request.headers().contains_key(ORIGIN) {
        let text = "requests of web pages are refused (the header `Origin`)";
        return Err(Refused(StatusCode::FORBIDDEN, text.to_owned()));
    }
    let caller = Caller::of_extensions(request.extensions());
    let named = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    let host = named.or_else(|| request.uri().authority().map(|one| one.as_str()));
    // A page can make its own name resolve to this machine, but has neither a certificate nor the
    // Unix socket.
    if !caller.is_plain_tcp() || host.is_some_and(|host| front.service().hosts.contains(host)) {
        return Ok(());
    }
    let host = host.unwrap_or_default();
    let text = format!(
        "the host `{host}` is not a name of this node: use its address, localhost, or a name in \
         the addresses of its members"
    );
    Err(Refused(StatusCode::FORBIDDEN, text))
}

/// Whether the body is JSON, or not said to be anything else: etcd3gw names no type. A page whose
/// browser sends none sends an `Origin`.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(kind) = headers.get(CONTENT_TYPE) else { return true };
    let kind = kind.to_str().unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case(JSON)
}

/// The metadata of the call: a deadline, and what the client sends as `Grpc-Metadata-NAME`.
fn metadata(headers: &HeaderMap) -> HeaderMap {
    let mut metadata = HeaderMap::new();
    metadata.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    metadata.insert("te", HeaderValue::from_static("trailers"));
    for (name, value) in headers {
        let name = match name.as_str() {
            "grpc-timeout" => Ok(name.clone()),
            name => match name.strip_prefix("grpc-metadata-") {
                Some(name) => name.parse::<HeaderName>(),
                None => continue,
            },
        };
        if let Ok(name) = name {
            metadata.insert(name, value.clone());
        }
    }
    metadata
}

/// Parses a message; an empty body is an empty message.
fn parse(descriptor: MessageDescriptor, bytes: &[u8]) -> Result<DynamicMessage, Status> {
    if bytes.trim_ascii().is_empty() {
        return Ok(DynamicMessage::new(descriptor));
    }
    let invalid = |error: serde_json::Error| Status::invalid_argument(error.to_string());
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let options = DeserializeOptions::new().deny_unknown_fields(false);
    let message = DynamicMessage::deserialize_with_options(descriptor, &mut reader, &options);
    let message = message.map_err(invalid)?;
    reader.end().map_err(invalid)?;
    Ok(message)
}

/// A message as gRPC sends it: not compressed, its length, its bytes.
fn frame(message: &DynamicMessage) -> Bytes {
    let length = message.encoded_len();
    let mut bytes = Vec::with_capacity(5 + length);
    bytes.push(0);
    bytes.extend(u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    bytes.extend(message.encode_to_vec());
    bytes.into()
}

/// A message as etcd's gateway writes it: names as in the `.proto` files, integers of 64 bits as
/// strings, default values left out.
fn written(descriptor: MessageDescriptor, bytes: &[u8]) -> Result<Value, Status> {
    let internal = |error: &dyn std::error::Error| Status::internal(error.to_string());
    let message = DynamicMessage::decode(descriptor, bytes).map_err(|error| internal(&error))?;
    let options = SerializeOptions::new().use_proto_field_name(true);
    let value = message.serialize_with_options(serde_json::value::Serializer, &options);
    value.map_err(|error| internal(&error))
}

fn json_response(status: StatusCode, value: &Value) -> Response<Body> {
    let mut response = Response::new(Body::new(Full::new(Bytes::from(value.to_string()))));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    response
}

/// An error of a call.
fn error_value(status: &Status) -> Value {
    let text = status.message();
    json!({ "error": text, "message": text, "code": i32::from(status.code()) })
}

fn error_response(status: &Status) -> Response<Body> {
    json_response(http_status(status.code()), &error_value(status))
}

/// The HTTP status of a gRPC code, as gRPC's gateways map it.
fn http_status(code: Code) -> StatusCode {
    match code {
        Code::Ok => StatusCode::OK,
        Code::Cancelled => StatusCode::from_u16(499).unwrap_or(StatusCode::BAD_REQUEST),
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => {
            StatusCode::BAD_REQUEST
        }
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::Aborted => StatusCode::CONFLICT,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::Unknown | Code::Internal | Code::DataLoss => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::{PATHS, frame, method, parse, written};

    #[test]
    fn every_path_has_a_method() {
        for (path, target) in PATHS {
            assert_eq!(method(path).map(|(target, _)| target), Some(target), "{path}");
        }
    }

    #[test]
    fn messages_are_read_and_written_as_etcd_does() {
        let (_, lock) = method("/v3/lock/lock").expect("served");
        for text in
            [r#"{"name":"Zm9v","lease":4660}"#, r#"{"name":"Zm9v","lease":"4660","bogus":1}"#]
        {
            let message = parse(lock.input(), text.as_bytes()).expect("valid");
            let value = written(lock.input(), &frame(&message)[5..]).expect("written");
            assert_eq!(value.to_string(), r#"{"lease":"4660","name":"Zm9v"}"#);
        }
        let empty = parse(lock.input(), b" ").expect("valid");
        assert_eq!(written(lock.input(), &frame(&empty)[5..]).expect("written").to_string(), "{}");
        for wrong in ["{", "[]", r#"{"lease":"0x12"}"#, r#"{"name":"Z"}"#, "{} {}"] {
            parse(lock.input(), wrong.as_bytes()).expect_err(wrong);
        }
    }
}
