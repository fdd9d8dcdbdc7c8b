//! The service for commands on the node's own host: its status, and the request to stop it.

use std::sync::Arc;

use mutua_node::{MemberStatus, NodeStatus};
use tonic::{Request, Response, Status};

use super::{Service, caller::Caller};
use crate::proto::v1::{self, control_server::Control};

/// Mutua's control service, over one server's state.
#[derive(Clone)]
pub(super) struct ControlService(pub(super) Arc<Service>);

#[tonic::async_trait]
impl Control for ControlService {
    async fn status(
        &self,
        _: Request<v1::StatusRequest>,
    ) -> Result<Response<v1::StatusResponse>, Status> {
        let mut status = self.0.node.status();
        status.suspended = self.0.why_not_granting();
        Ok(Response::new(message(status)))
    }

    async fn stop(
        &self,
        request: Request<v1::StopRequest>,
    ) -> Result<Response<v1::StopResponse>, Status> {
        let caller = Caller::of(&request);
        if !caller.is_local() {
            let text = "a node is stopped through its Unix socket only";
            return Err(Status::permission_denied(text));
        }
        if !self.0.access.is_admin(&caller) {
            let text = "only the node's user and root may stop it";
            return Err(Status::permission_denied(text));
        }
        self.0.stop.notify_one();
        Ok(Response::new(v1::StopResponse {}))
    }
}

fn message(status: NodeStatus) -> v1::StatusResponse {
    v1::StatusResponse {
        cluster: status.cluster,
        node: status.node,
        pid: status.pid,
        epoch: status.epoch,
        suspended: status.suspended,
        members: status.members.into_iter().map(member).collect(),
        locks: status.locks as u64,
        held: status.held as u64,
        waiting: status.waiting as u64,
        entries: status.grants,
        messages: status.messages,
        lazy: status.lazy,
        view: status.view,
        lease_left_ms: status.lease_left_ms,
        leader: status.leader,
        records: status.records as u64,
    }
}

fn member(member: MemberStatus) -> v1::Member {
    let MemberStatus { name, up, for_ms, backlog, in_view, votes, reaches } = member;
    v1::Member { name, up, for_ms, backlog: backlog as u64, in_view, votes, reaches }
}
