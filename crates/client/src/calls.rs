//! Single calls to a server, beside the session that holds a lock.

use std::{io, time::Duration};

use mutua_tls::alert_in_words;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, pidfd_open},
};
use tokio::time::{Instant, sleep, timeout};
use tonic::{Code, Status, transport::Channel};

use crate::{
    ConnectError, Kind, Scope, connect, etcd,
    probe::closes_silently,
    proto::v1::{
        self, control_client::ControlClient, locks_client::LocksClient, session_request::Request,
    },
};

/// How long a node may take to close a session.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);
/// How long a node may take to report its status, or to end.
const CONTROL_LIMIT: Duration = Duration::from_secs(5);
/// How long a change of the members may take.
const CHANGE_LIMIT: Duration = Duration::from_secs(40);

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// There is no connection. Nothing was sent.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The server refused the call, or the connection broke during it.
    #[error("{}", describe(.0))]
    Failed(Box<Status>),
    /// The server speaks gRPC, and has no service of a node. Nothing was changed.
    #[error(
        "{0} speaks gRPC but is not a Mutua node (it may be an etcd): name the socket of a node, \
         unix:PATH, or the address of its `mutua node --listen`; with an etcd only `mutua lock` \
         and `mutua elect` work"
    )]
    NotANode(String),
    /// The server closes connections of clients at once. Nothing was changed.
    #[error(
        "{0} closes the connection at once, as the nodes' own port does, at which members connect \
         to each other: clients use the client port, which is the address of `mutua node \
         --listen`, or the socket of a node, unix:PATH"
    )]
    NotForClients(String),
    /// The server did not reply in time. It may still act on the call.
    #[error("no reply within {0:?}")]
    TimedOut(Duration),
    /// The runtime for the call cannot be started. Nothing was sent.
    #[error("cannot start a runtime: {0}")]
    Runtime(io::Error),
}

impl From<Status> for CallError {
    fn from(status: Status) -> Self {
        Self::Failed(Box::new(status))
    }
}

/// The error of the first call on a connection to this endpoint, with a cause that the connection
/// does not show.
pub async fn explained(endpoint: &str, error: CallError) -> CallError {
    let CallError::Failed(status) = &error else { return error };
    let is_broken = std::error::Error::source(&**status).is_some();
    if is_broken && closes_silently(endpoint).await {
        return CallError::NotForClients(endpoint.to_owned());
    }
    error
}

/// What a failed call says to a person: the server's own text, or why the connection broke.
pub fn describe(status: &Status) -> String {
    let Some(mut cause) = std::error::Error::source(status) else {
        return status.message().to_owned();
    };
    // The library's own words name its parts, not the cause.
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    let text = cause.to_string();
    if let Some(refusal) = alert_in_words(&text) {
        return format!("the connection broke: {refusal}");
    }
    if text.contains("frame with invalid size") || text.contains("connection error detected") {
        return "the server does not speak gRPC there: it serves TLS, and the endpoint must begin \
                with https://, or it is another service"
            .to_owned();
    }
    format!(
        "the connection broke ({text}): the node has ended, or it serves TLS and the endpoint is \
         not https://, or it refuses the certificate, which its log says, or the endpoint is the \
         nodes' own port and not the client port"
    )
}

/// A server, as it reports itself.
#[derive(Clone, Debug)]
pub struct About {
    /// Node or etcd.
    pub kind: Kind,
    /// The node's version; empty for an etcd.
    pub version: String,
    /// The node's name among its members; empty for an etcd.
    pub node: String,
    /// The clients that its locks exclude.
    pub scope: Scope,
}

impl From<v1::AboutResponse> for About {
    fn from(about: v1::AboutResponse) -> Self {
        let scope = Scope::new(about.scope(), about.cluster);
        Self { kind: Kind::Mutua, version: about.version, node: about.node, scope }
    }
}

/// Requests a server's description of itself. A server that does not know the call is taken for an
/// etcd.
///
/// # Errors
///
/// See [`CallError`].
pub async fn about(channel: Channel) -> Result<About, CallError> {
    match LocksClient::new(channel).about(v1::AboutRequest {}).await {
        Ok(about) => Ok(about.into_inner().into()),
        Err(status) if status.code() == Code::Unimplemented => Ok(About {
            kind: Kind::Etcd,
            version: String::new(),
            node: String::new(),
            scope: Scope::Etcd,
        }),
        Err(status) => Err(status.into()),
    }
}

/// Closes a session on behalf of a client that has ended, and waits for the reply. An etcd has
/// leases instead of sessions.
///
/// # Errors
///
/// See [`CallError`]. The session's locks are then held until its lease expires.
pub fn close_session(endpoint: &str, session: i64) -> Result<(), CallError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let close = async {
        let channel = connect(endpoint).await?;
        let open = v1::Open { session, close_only: true, ..Default::default() };
        let request = v1::SessionRequest { request: Some(Request::Open(open)) };
        let replies = LocksClient::new(channel.clone()).attach(tokio_stream::once(request)).await;
        match replies {
            Ok(replies) => replies.into_inner().message().await.map(drop)?,
            Err(status) if status.code() == Code::Unimplemented => {
                etcd::revoke(channel, session).await?;
            }
            Err(status) => return Err(status.into()),
        }
        Ok(())
    };
    runtime.map_err(CallError::Runtime)?.block_on(async {
        timeout(CLOSE_LIMIT, close).await.map_err(|_| CallError::TimedOut(CLOSE_LIMIT))?
    })
}

/// Requests a node's status.
///
/// # Errors
///
/// See [`CallError`].
pub async fn status(endpoint: &str) -> Result<v1::StatusResponse, CallError> {
    request_status(endpoint, v1::StatusRequest { members: false }).await
}

/// Requests a node's status, with what the other members report of themselves.
///
/// # Errors
///
/// See [`CallError`].
pub async fn status_of_all(endpoint: &str) -> Result<v1::StatusResponse, CallError> {
    request_status(endpoint, v1::StatusRequest { members: true }).await
}

async fn request_status(
    endpoint: &str,
    request: v1::StatusRequest,
) -> Result<v1::StatusResponse, CallError> {
    let call = async {
        let mut client = ControlClient::new(connect(endpoint).await?);
        match client.status(request).await {
            Ok(status) => Ok(status.into_inner()),
            Err(status) if is_unknown(&status) => Err(CallError::NotANode(endpoint.to_owned())),
            Err(status) => Err(explained(endpoint, status.into()).await),
        }
    };
    timeout(CONTROL_LIMIT, call).await.map_err(|_| CallError::TimedOut(CONTROL_LIMIT))?
}

/// Whether a server of gRPC does not know the call. One of HTTP that does not speak gRPC is taken
/// for such a server too, with a message of the library.
fn is_unknown(status: &Status) -> bool {
    status.code() == Code::Unimplemented && !status.message().starts_with("grpc-status header")
}

/// Requests the rules of locks that the node's cluster has decided.
///
/// # Errors
///
/// See [`CallError`].
pub async fn rules(endpoint: &str) -> Result<v1::RulesResponse, CallError> {
    let call = async {
        let mut client = ControlClient::new(connect(endpoint).await?);
        Ok(client.rules(v1::RulesRequest {}).await?.into_inner())
    };
    timeout(CONTROL_LIMIT, call).await.map_err(|_| CallError::TimedOut(CONTROL_LIMIT))?
}

/// Changes the rules of locks in the node's cluster, and waits until they are in force. `file` is
/// the name of the text for errors.
///
/// # Errors
///
/// See [`CallError`].
pub async fn change_rules(
    endpoint: &str,
    rules: String,
    file: String,
) -> Result<v1::RulesResponse, CallError> {
    let call = async {
        let mut client = ControlClient::new(connect(endpoint).await?);
        Ok(client.change_rules(v1::ChangeRulesRequest { rules, file }).await?.into_inner())
    };
    timeout(CHANGE_LIMIT, call).await.map_err(|_| CallError::TimedOut(CHANGE_LIMIT))?
}

/// Makes a one-time token with which a new member can join the node's cluster.
///
/// # Errors
///
/// See [`CallError`].
pub async fn invite(endpoint: &str) -> Result<String, CallError> {
    let call = async {
        let mut client = ControlClient::new(connect(endpoint).await?);
        Ok(client.invite(v1::InviteRequest {}).await?.into_inner().token)
    };
    timeout(CONTROL_LIMIT, call).await.map_err(|_| CallError::TimedOut(CONTROL_LIMIT))?
}

/// Gives a member of the node's cluster another role, or removes it, and waits until that is
/// decided.
///
/// # Errors
///
/// See [`CallError`].
pub async fn change_member(
    endpoint: &str,
    name: &str,
    role: Option<&str>,
) -> Result<(), CallError> {
    let (name, role) = (name.to_owned(), role.map(str::to_owned));
    let call = async {
        let mut client = ControlClient::new(connect(endpoint).await?);
        client.change_member(v1::ChangeMemberRequest { name, role }).await?;
        Ok(())
    };
    timeout(CHANGE_LIMIT, call).await.map_err(|_| CallError::TimedOut(CHANGE_LIMIT))?
}

/// Stops a node of this machine, and waits until its process has ended.
///
/// # Errors
///
/// See [`CallError`].
pub async fn stop(endpoint: &str) -> Result<(), CallError> {
    let pid = status(endpoint).await?.pid;
    // Opened while the process runs: later its number may be another's.
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let process = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let stopped = ControlClient::new(connect(endpoint).await?).stop(v1::StopRequest {}).await;
    if let Err(status) = stopped
        && matches!(status.code(), Code::PermissionDenied | Code::Unimplemented)
    {
        return Err(status.into());
    }
    // Any other error is the end of the node, which may come before its response.
    let Some(process) = process else { return Ok(()) };
    let deadline = Instant::now() + CONTROL_LIMIT;
    let ended = || {
        let mut events = [PollFd::new(&process, PollFlags::IN)];
        poll(&mut events, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    };
    while !ended() {
        if Instant::now() > deadline {
            return Err(CallError::TimedOut(CONTROL_LIMIT));
        }
        sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}
