//! etcd's services about the server itself, the health check of gRPC, and what all etcd services
//! share: the metadata `hasleader`, and deadlines.

use std::{sync::Arc, time::Duration};

use hyper::HeaderMap;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Request, Response, Status};

use super::Service;
use crate::{
    etcd::Etcd,
    proto::{
        etcdserverpb::{
            AlarmRequest, AlarmResponse, AuthenticateRequest, AuthenticateResponse, Member,
            MemberListRequest, MemberListResponse, StatusRequest, StatusResponse,
            auth_server::Auth, cluster_server::Cluster, maintenance_server::Maintenance,
        },
        health::{
            HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus,
            health_server::Health,
        },
    },
};

/// How often a change of the health is looked for.
const HEALTH: Duration = Duration::from_secs(1);

/// A deadline is kept this much early, so that its error is ours and not the transport's, which is
/// another one.
const EARLY: Duration = Duration::from_millis(10);

#[tonic::async_trait]
impl Maintenance for Etcd {
    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        let status = self.0.node.status();
        let revision = self.0.lock().revision;
        let header = self.0.header(revision);
        let term = header.as_ref().map_or(0, |header| header.raft_term);
        let leader = match (&status.leader, self.0.is_alone()) {
            (Some(name), _) => self.0.member_id(name),
            (None, true) => self.0.member_id(&self.0.name),
            (None, false) => 0,
        };
        Ok(Response::new(StatusResponse {
            header,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            leader,
            raft_index: revision,
            raft_term: term,
            raft_applied_index: revision,
            errors: self.0.why_not_granting().into_iter().collect(),
            ..StatusResponse::default()
        }))
    }

    async fn alarm(&self, _: Request<AlarmRequest>) -> Result<Response<AlarmResponse>, Status> {
        let header = self.0.header(self.0.lock().revision);
        Ok(Response::new(AlarmResponse { header }))
    }
}

#[tonic::async_trait]
impl Cluster for Etcd {
    async fn member_list(
        &self,
        _: Request<MemberListRequest>,
    ) -> Result<Response<MemberListResponse>, Status> {
        let endpoints = self.0.all_endpoints().await;
        let members = self.0.node.status().members.into_iter().map(|member| {
            let name = member.name;
            let known = endpoints.iter().find(|(node, _)| *node == name);
            Member {
                id: self.0.member_id(&name),
                client_ur_ls: known.map(|(_, urls)| urls.clone()).unwrap_or_default(),
                name,
                ..Member::default()
            }
        });
        let header = self.0.header(self.0.lock().revision);
        Ok(Response::new(MemberListResponse { header, members: members.collect() }))
    }
}

#[tonic::async_trait]
impl Auth for Etcd {
    async fn authenticate(
        &self,
        _: Request<AuthenticateRequest>,
    ) -> Result<Response<AuthenticateResponse>, Status> {
        Err(Status::failed_precondition("etcdserver: authentication is not enabled"))
    }
}

impl Service {
    fn member_id(&self, name: &str) -> u64 {
        self.handle.member_number(name).map_or(0, |number| 1 + u64::from(number))
    }

    fn health(self: &Arc<Self>, service: &str) -> ServingStatus {
        let known = ["etcdserverpb.", "v3lockpb.", "v3electionpb.", "mutua.v1."];
        if !service.is_empty() && !known.iter().any(|package| service.starts_with(package)) {
            return ServingStatus::ServiceUnknown;
        }
        match self.why_not_granting() {
            None => ServingStatus::Serving,
            Some(_) => ServingStatus::NotServing,
        }
    }

    /// Refuses a call that needs a leader while this node is in no view: the metadata `hasleader`.
    pub(crate) fn check_leader(&self, headers: &HeaderMap) -> Result<(), Status> {
        match needs_leader(headers) && !self.is_alone() && !self.handle.is_settled() {
            true => Err(Status::unavailable("etcdserver: no leader")),
            false => Ok(()),
        }
    }
}

#[tonic::async_trait]
impl Health for Etcd {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        match self.0.health(&request.into_inner().service) {
            ServingStatus::ServiceUnknown => Err(Status::not_found("unknown service")),
            status => Ok(Response::new(HealthCheckResponse { status: status.into() })),
        }
    }

    type WatchStream = UnboundedReceiverStream<Result<HealthCheckResponse, Status>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (service, watched) = (Arc::clone(&self.0), request.into_inner().service);
        let (replies, stream) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut last = None;
            loop {
                let status = service.health(&watched);
                if last.replace(status) != Some(status) {
                    let reply = HealthCheckResponse { status: status.into() };
                    if replies.send(Ok(reply)).is_err() {
                        return;
                    }
                }
                tokio::select! {
                    () = tokio::time::sleep(HEALTH) => {}
                    () = replies.closed() => return,
                }
            }
        });
        Ok(Response::new(UnboundedReceiverStream::new(stream)))
    }
}

/// Whether a client requires a leader: the metadata `hasleader`.
pub(crate) fn needs_leader(headers: &HeaderMap) -> bool {
    headers.get("hasleader").is_some_and(|value| value == "true")
}

/// Waits for a call until its deadline, a moment early.
pub(crate) async fn until_deadline<T>(
    headers: &HeaderMap,
    call: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    let timeout = headers.get("grpc-timeout").and_then(|value| value.to_str().ok());
    let Some(timeout) = timeout.and_then(parse_timeout) else { return call.await };
    let timeout = timeout - (timeout / 10).min(EARLY);
    match tokio::time::timeout(timeout, call).await {
        Ok(result) => result,
        Err(_) => Err(Status::deadline_exceeded("context deadline exceeded")),
    }
}

/// A time as gRPC writes it: at most eight digits and a unit.
fn parse_timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(number * 3600)),
        "M" => Some(Duration::from_secs(number * 60)),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_as_grpc_writes_them() {
        assert_eq!(parse_timeout("5S"), Some(Duration::from_secs(5)));
        assert_eq!(parse_timeout("250m"), Some(Duration::from_millis(250)));
        assert_eq!(parse_timeout("99999999n"), Some(Duration::from_nanos(99_999_999)));
        for wrong in ["", "S", "5", "123456789S", "+5S", "5s", "5ä"] {
            assert_eq!(parse_timeout(wrong), None, "{wrong}");
        }
    }

    #[tokio::test]
    async fn a_call_ends_with_its_deadline() {
        let mut headers = HeaderMap::new();
        headers.insert("grpc-timeout", "100m".parse().expect("ASCII"));
        let never = std::future::pending::<Result<(), Status>>();
        let late = until_deadline(&headers, never).await.expect_err("never done");
        assert_eq!(late.code(), tonic::Code::DeadlineExceeded);
        until_deadline(&headers, std::future::ready(Ok(()))).await.expect("done in time");
    }
}
