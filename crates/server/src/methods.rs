//! The gRPC methods that are served, and what the rules of the configuration require for each.
//!
//! Every call passes here before its method runs: a method that is not in the table is refused, so
//! none can be open because a check was forgotten. What a message names is checked here; what
//! depends on more than the message is left to the method, and the table says so.

use mutua_node::Action;
use prost::Message;
use tonic::Status;

use crate::{
    Service,
    caller::Caller,
    proto::{
        etcdserverpb::{RangeRequest, TxnRequest},
        v1::{AcquireRequest, ListRequest, TraceRequest, VerifyRequest, WatchRequest},
        v3electionpb::{CampaignRequest, LeaderRequest},
        v3lockpb::LockRequest,
    },
    recipes,
};

/// What a client needs to be allowed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Right {
    Acquire,
    List,
    /// To list or to acquire: a client that may hold a lock may see its holder.
    Read,
}

/// A right on at least one of these names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Need {
    pub(crate) right: Right,
    pub(crate) names: Vec<Vec<u8>>,
}

impl Need {
    pub(crate) fn new(right: Right, name: Vec<u8>) -> Self {
        Self { right, names: vec![name] }
    }
}

/// The rule of a method.
#[derive(Clone, Copy)]
pub(crate) enum Rule {
    /// It is about no lock.
    Free,
    /// It acts on sessions, leases and keys of the client itself, which the method compares.
    Own,
    /// It checks each message of its stream.
    EachMessage,
    /// It decides for itself: by the holder of the lock, or by the socket.
    Itself,
    /// The message needs this.
    Message(fn(&[u8]) -> Result<Vec<Need>, Status>),
}

/// Decodes a message and takes what it needs from it.
fn decoded<T: Message + Default>(
    bytes: &[u8],
    needs: impl FnOnce(T) -> Result<Vec<Need>, Status>,
) -> Result<Vec<Need>, Status> {
    needs(T::decode(bytes).map_err(|error| Status::internal(error.to_string()))?)
}

/// The rule of a message with a name.
macro_rules! named {
    ($message:ty, $right:expr) => {
        Rule::Message(|bytes| {
            decoded(bytes, |message: $message| Ok(vec![Need::new($right, message.name)]))
        })
    };
}

/// All methods.
pub(crate) const METHODS: [(&str, Rule); 38] = [
    ("/mutua.v1.Locks/Attach", Rule::EachMessage),
    ("/mutua.v1.Locks/Acquire", named!(AcquireRequest, Right::Acquire)),
    ("/mutua.v1.Locks/Release", Rule::Own),
    ("/mutua.v1.Locks/Verify", named!(VerifyRequest, Right::Read)),
    // Without a whole name, the list contains only what the client may see.
    (
        "/mutua.v1.Locks/List",
        Rule::Message(|bytes| {
            decoded(bytes, |list: ListRequest| {
                let exact = list.exact.then(|| Need::new(Right::List, list.prefix));
                Ok(exact.into_iter().collect())
            })
        }),
    ),
    ("/mutua.v1.Locks/Watch", named!(WatchRequest, Right::List)),
    ("/mutua.v1.Locks/Trace", named!(TraceRequest, Right::List)),
    ("/mutua.v1.Locks/Break", Rule::Itself),
    ("/mutua.v1.Locks/About", Rule::Free),
    ("/mutua.v1.Control/Status", Rule::Free),
    ("/mutua.v1.Control/Stop", Rule::Itself),
    ("/mutua.v1.Control/Invite", Rule::Itself),
    ("/mutua.v1.Control/ChangeMember", Rule::Itself),
    ("/mutua.v1.Control/Rules", Rule::Free),
    ("/mutua.v1.Control/ChangeRules", Rule::Itself),
    ("/v3lockpb.Lock/Lock", named!(LockRequest, Right::Acquire)),
    ("/v3lockpb.Lock/Unlock", Rule::Own),
    ("/v3electionpb.Election/Campaign", named!(CampaignRequest, Right::Acquire)),
    ("/v3electionpb.Election/Proclaim", Rule::Own),
    ("/v3electionpb.Election/Leader", named!(LeaderRequest, Right::Read)),
    ("/v3electionpb.Election/Observe", named!(LeaderRequest, Right::Read)),
    ("/v3electionpb.Election/Resign", Rule::Own),
    ("/etcdserverpb.Lease/LeaseGrant", Rule::Free),
    ("/etcdserverpb.Lease/LeaseRevoke", Rule::Own),
    ("/etcdserverpb.Lease/LeaseKeepAlive", Rule::Own),
    ("/etcdserverpb.Lease/LeaseTimeToLive", Rule::Own),
    ("/etcdserverpb.Lease/LeaseLeases", Rule::Own),
    (
        "/etcdserverpb.KV/Range",
        Rule::Message(|bytes| decoded(bytes, |one: RangeRequest| recipes::needs_of_range(&one))),
    ),
    // Refused in any case.
    ("/etcdserverpb.KV/Put", Rule::Free),
    ("/etcdserverpb.KV/DeleteRange", Rule::Own),
    (
        "/etcdserverpb.KV/Txn",
        Rule::Message(|bytes| decoded(bytes, |one: TxnRequest| recipes::needs_of_txn(&one))),
    ),
    ("/etcdserverpb.Watch/Watch", Rule::EachMessage),
    ("/etcdserverpb.Cluster/MemberList", Rule::Free),
    ("/etcdserverpb.Maintenance/Status", Rule::Free),
    ("/etcdserverpb.Maintenance/Alarm", Rule::Free),
    ("/etcdserverpb.Auth/Authenticate", Rule::Free),
    ("/grpc.health.v1.Health/Check", Rule::Free),
    ("/grpc.health.v1.Health/Watch", Rule::Free),
];

/// The rule of a method.
///
/// # Errors
///
/// The texts of etcd for a method or a service that is not served.
pub(crate) fn rule(path: &str) -> Result<Rule, Status> {
    if let Some((_, rule)) = METHODS.iter().find(|(method, _)| *method == path) {
        return Ok(*rule);
    }
    let (service, method) = path.trim_start_matches('/').split_once('/').unwrap_or((path, ""));
    let is_known = METHODS.iter().any(|(known, _)| known[1..].starts_with(&format!("{service}/")));
    Err(Status::unimplemented(match is_known {
        true => format!("unknown method {method} for service {service}"),
        false => format!("unknown service {service}"),
    }))
}

/// Whether a method of this path fails without a leader if its client requires one (`hasleader`).
pub(crate) fn is_about_locks_of_etcd(path: &str) -> bool {
    let services = [
        "v3lockpb.",
        "v3electionpb.",
        "etcdserverpb.Lease",
        "etcdserverpb.KV",
        "etcdserverpb.Watch",
    ];
    services.iter().any(|service| path[1..].starts_with(service))
}

impl Service {
    /// Checks what a message needs.
    pub(crate) fn check_needs(&self, caller: &Caller, needs: &[Need]) -> Result<(), Status> {
        for Need { right, names } in needs {
            let mut denied = Ok(());
            for name in names {
                denied = match right {
                    Right::Acquire => self.access.check(caller, Action::Acquire, name),
                    Right::List => self.access.check(caller, Action::List, name),
                    Right::Read => self.access.check_reading(caller, name),
                };
                if denied.is_ok() {
                    break;
                }
            }
            denied?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use mutua_client::proto;
    use prost_reflect::DescriptorPool;

    use super::{METHODS, rule};

    #[test]
    fn every_method_of_every_service_has_a_rule() {
        let pool = DescriptorPool::decode(proto::DESCRIPTORS).expect("descriptors");
        let methods = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>());
        let served: BTreeSet<_> = methods
            .map(|method| format!("/{}/{}", method.parent_service().full_name(), method.name()))
            .collect();
        let ruled: BTreeSet<_> = METHODS.iter().map(|(path, _)| (*path).to_owned()).collect();
        assert_eq!(ruled.len(), METHODS.len(), "no path twice");
        assert_eq!(ruled, served);
    }

    #[test]
    fn a_method_that_is_not_served_is_refused_with_its_name() {
        let text = |path| rule(path).err().expect("refused").message().to_owned();
        assert_eq!(
            text("/etcdserverpb.KV/Compact"),
            "unknown method Compact for service etcdserverpb.KV"
        );
        assert_eq!(text("/a.B/C"), "unknown service a.B");
        assert_eq!(text("x"), "unknown service x");
        assert_eq!(text(""), "unknown service ");
    }
}
