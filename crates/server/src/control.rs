//! The service for commands on the node's own host: its status, the request to stop it, and changes
//! of the cluster's members.

use std::sync::Arc;

use mutua_node::{Action, MemberStatus, MembershipError, NodeStatus, Role};
use tonic::{Request, Response, Status};

use super::{Service, caller::Caller, clients::millis};
use crate::proto::v1::{self, control_server::Control, peer_query::Query, peer_reply::Reply};

/// Mutua's control service, over one server's state.
#[derive(Clone)]
pub(super) struct ControlService(pub(super) Arc<Service>);

#[tonic::async_trait]
impl Control for ControlService {
    async fn status(
        &self,
        request: Request<v1::StatusRequest>,
    ) -> Result<Response<v1::StatusResponse>, Status> {
        let caller = Caller::of(&request);
        let mut message = message(self.0.status());
        message.custodies = self.0.custodies();
        message.awaited = self.0.awaited(&caller);
        if request.into_inner().members {
            self.0.add_reports(&mut message.members).await;
        }
        Ok(Response::new(message))
    }

    async fn stop(
        &self,
        request: Request<v1::StopRequest>,
    ) -> Result<Response<v1::StopResponse>, Status> {
        self.check_admin(&request, "a node is stopped", "stop it")?;
        self.0.stop.notify_one();
        Ok(Response::new(v1::StopResponse {}))
    }

    async fn invite(
        &self,
        request: Request<v1::InviteRequest>,
    ) -> Result<Response<v1::InviteResponse>, Status> {
        self.check_admin(&request, "a token is made", "make one")?;
        let token = self.0.handle.invite().map_err(|error| refused(&error))?;
        Ok(Response::new(v1::InviteResponse { token }))
    }

    async fn change_member(
        &self,
        request: Request<v1::ChangeMemberRequest>,
    ) -> Result<Response<v1::ChangeMemberResponse>, Status> {
        self.check_admin(&request, "the members are changed", "change them")?;
        let v1::ChangeMemberRequest { name, role } = request.into_inner();
        let changed = match role {
            None => self.0.handle.remove_member(&name).await,
            Some(text) => {
                let role = Role::ALL.into_iter().find(|role| role.name() == text);
                let invalid = || {
                    let text = format!("invalid role `{text}`: use voter, follower or witness");
                    Status::invalid_argument(text)
                };
                self.0.handle.set_role(&name, role.ok_or_else(invalid)?).await
            }
        };
        changed.map_err(|error| refused(&error))?;
        Ok(Response::new(v1::ChangeMemberResponse {}))
    }

    async fn rules(
        &self,
        _: Request<v1::RulesRequest>,
    ) -> Result<Response<v1::RulesResponse>, Status> {
        let (number, rules) = self.0.handle.rules().map_err(|error| refused(&error))?;
        Ok(Response::new(v1::RulesResponse { rules, number }))
    }

    async fn change_rules(
        &self,
        request: Request<v1::ChangeRulesRequest>,
    ) -> Result<Response<v1::RulesResponse>, Status> {
        self.check_admin(&request, "the rules are changed", "change them")?;
        let v1::ChangeRulesRequest { rules, file } = request.into_inner();
        let rules = mutua_node::parse_rules(&rules, &file);
        let rules = rules.map_err(|error| Status::invalid_argument(error.to_string()))?;
        let changed = self.0.handle.change_rules(&rules).await;
        let number = changed.map_err(|error| refused(&error))?;
        Ok(Response::new(v1::RulesResponse { rules: mutua_node::rules_text(&rules), number }))
    }
}

impl ControlService {
    /// A TCP port is open to all users of the host.
    fn check_admin<T>(&self, request: &Request<T>, what: &str, may: &str) -> Result<(), Status> {
        let caller = Caller::of(request);
        if !caller.is_local() {
            let text = format!("{what} through the node's Unix socket only");
            return Err(Status::permission_denied(text));
        }
        if !self.0.access.is_admin(&caller) {
            let text = format!("only the node's user and root may {may}");
            return Err(Status::permission_denied(text));
        }
        Ok(())
    }
}

/// What members report of themselves.
impl Service {
    /// The status of the node as its clients see it.
    pub(crate) fn status(self: &Arc<Self>) -> NodeStatus {
        let mut status = self.node.status();
        status.suspended = self.why_not_granting();
        let (hidden, waiting) = self.call(|core, _| (core.leases.hidden(), core.leases.waiting()));
        // Leases' own locks are no client's.
        status.locks = status.locks.saturating_sub(hidden);
        status.held = status.held.saturating_sub(hidden);
        status.waiting = waiting;
        status
    }

    fn custodies(self: &Arc<Self>) -> u64 {
        self.call(|core, _| core.leases.custodies()) as u64
    }

    /// The locks that are waited for after a crash, as far as the caller may list them.
    fn awaited(self: &Arc<Self>, caller: &Caller) -> Vec<v1::Awaited> {
        let awaited = self.call(|core, now| core.leases.awaited(now));
        let shown = awaited
            .into_iter()
            .filter(|(name, ..)| self.access.check(caller, Action::List, name).is_ok());
        shown
            .map(|(name, fencing_token, left)| v1::Awaited {
                name: name.to_vec(),
                fencing_token,
                left_ms: millis(left),
            })
            .collect()
    }

    pub(crate) fn report_member(self: &Arc<Self>) -> v1::MemberReport {
        let status = self.node.status();
        v1::MemberReport {
            records: status.records as u64,
            custodies: self.custodies(),
            lease_left_ms: status.lease_left_ms.unwrap_or_default(),
            suspended: self.why_not_granting(),
        }
    }

    /// Adds what each member reports, if it answers.
    async fn add_reports(self: &Arc<Self>, members: &mut [v1::Member]) {
        let mut reports = vec![(self.name.clone(), self.report_member())];
        let request = Query::Member(v1::MemberRequest {});
        for (name, reply) in self.query_all(request).await {
            if let Some(Reply::Member(report)) = reply {
                reports.push((name, report));
            }
        }
        for member in members {
            let of = reports.iter().find(|(name, _)| *name == member.name);
            member.report = of.map(|(_, report)| report.clone());
        }
    }
}

fn refused(error: &MembershipError) -> Status {
    match error {
        MembershipError::Undecided => Status::unavailable(error.to_string()),
        MembershipError::UnknownName { .. }
        | MembershipError::SameRole { .. }
        | MembershipError::InvalidRule { .. } => Status::invalid_argument(error.to_string()),
        _ => Status::failed_precondition(error.to_string()),
    }
}

fn message(status: NodeStatus) -> v1::StatusResponse {
    v1::StatusResponse {
        cluster: status.cluster.unwrap_or_default(),
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
        notes: status.notes,
        level: status.level.map(u32::from),
        rules: status.rules,
        custodies: 0,
        awaited: Vec::new(),
        begins_in_ms: status.begins_in_ms,
    }
}

fn member(member: MemberStatus) -> v1::Member {
    v1::Member {
        name: member.name,
        up: member.up,
        for_ms: member.for_ms,
        backlog: member.backlog as u64,
        in_view: member.in_view,
        votes: member.votes,
        reaches: member.reaches,
        id: member.id,
        incarnation: member.incarnation,
        address: member.address,
        role: member.role,
        becomes: member.becomes,
        keeps: member.keeps,
        report: None,
    }
}
