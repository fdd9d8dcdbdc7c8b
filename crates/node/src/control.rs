//! Calls between members beside the links of locks: founding a cluster, and consensus.
//!
//! They have connections of their own, so that a burst of lock messages does not delay a heartbeat
//! of the engine. A member keeps a connection to each other member; requests and replies are
//! matched by number. Nothing is repeated here: a call that gets no reply fails, and the engine
//! calls again.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use mutua_protocol::views::{Levels, Role};
use serde::{Deserialize, Serialize};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep, timeout},
};

use crate::{
    identity::ClusterIdentity,
    strangers::Stranger,
    transport::{Stream, Transport, WriteHalf},
};

/// The first bytes of a control connection.
pub(crate) const MAGIC: &[u8; 4] = b"MTUC";

const VERSION: u8 = 4;

/// The longest body: a snapshot of what is decided is far shorter.
const MAX_BODY: usize = 16 << 20;

/// How long a connection, a greeting or a write may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// A connection on which calls wait and nothing has arrived for so long is given up.
const SILENCE: Duration = Duration::from_millis(1500);

/// The pause between two attempts to connect while there is nothing to call.
const RECONNECT: Duration = Duration::from_millis(500);

/// Length and number.
const HEADER: usize = 12;

/// The number of the reply to a greeting that is refused: that of no call.
const REFUSED: u64 = 0;

/// The calls that may wait for one member.
const WAITING: usize = 64;

/// Why a call got no reply, or a connection is over.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ControlError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it does not answer")]
    Silent,
    #[error("too many calls wait")]
    Busy,
    #[error("the connection broke")]
    Broken,
    #[error("its control version is {0}, this node's is {VERSION}")]
    Version(u8),
    #[error("it sent a message that cannot be decoded")]
    Garbled,
    #[error("a message of {0} bytes; at most {MAX_BODY} are allowed")]
    TooLong(usize),
    /// The reason is sent to the caller.
    #[error("{0}")]
    Refused(String),
    /// No reason is sent: the caller may be a stranger.
    #[error("{0}")]
    OtherCluster(String),
}

/// The first message on a control connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Greeting {
    pub(crate) cluster: String,
    /// The member that calls, and the one that is called; empty for any.
    pub(crate) from: String,
    pub(crate) to: String,
    /// The incarnation of the member that calls.
    pub(crate) incarnation: u64,
    /// The cluster's id and that of the member that calls, once it has one; else 0.
    pub(crate) cluster_id: u64,
    pub(crate) id: u64,
    /// The levels that it can use.
    pub(crate) levels: Levels,
    /// How long its view leases last.
    pub(crate) view_lease: Duration,
}

/// What a process that wants to become a member sends.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Joining {
    /// The one-time token of a member, where certificates do not tell who it is.
    pub(crate) token: Option<String>,
    pub(crate) name: String,
    pub(crate) address: String,
    /// What it wants to take part in; voter while there are fewer than five, else follower.
    pub(crate) role: Option<Role>,
    /// Whether it takes the place of the member of its name, whose data directory is lost.
    pub(crate) replaces: bool,
}

/// A call to another member. New variants go at the end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Who are you?
    Identity,
    /// The cluster is founded with these members.
    Found(Box<ClusterIdentity>),
    /// A call of the consensus engine.
    Raft(Vec<u8>),
    /// To the leader: propose this command.
    Propose(Vec<u8>),
    /// Take me in.
    Join(Joining),
    /// I am no voter by this version of the directory: does the engine need my vote no longer?
    Dismissed { version: u64 },
}

/// The reply to a call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    Identity(Option<Box<ClusterIdentity>>),
    Raft(Vec<u8>),
    Done,
    /// The call was refused, for this reason.
    Refused(String),
    /// The identity of the new member.
    Joined(Box<ClusterIdentity>),
    /// The member that calls was removed from the cluster.
    Removed,
    /// Whether the engine needs the vote of the member that calls no longer.
    Dismissed(bool),
}

/// Answers the calls of other members.
pub(crate) trait Answers: Send + Sync + 'static {
    /// Whether to accept the calls of a connection; returns why not. Asked at each call: another
    /// process may run as the member since.
    fn greet(&self, greeting: &Greeting) -> Result<(), ControlError>;

    /// The reply to a call of this member. `known` tells whether its certificate proves its name.
    fn answer(
        &self,
        greeting: &Greeting,
        known: bool,
        request: Request,
    ) -> impl Future<Output = Reply> + Send;
}

/// Calls one other member.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    calls: mpsc::Sender<Call>,
    /// The member's name.
    to: String,
    refusal: Refusal,
}

/// Why the other member refuses this node, as it has said last.
type Refusal = Arc<Mutex<Option<String>>>;

#[derive(Debug)]
struct Call {
    request: Request,
    reply: oneshot::Sender<Result<Reply, ControlError>>,
}

impl Caller {
    /// A caller, and the task that keeps its connection.
    pub(crate) fn new(
        transport: Transport,
        address: String,
        greeting: Greeting,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (calls, requests) = mpsc::channel(WAITING);
        let refusal = Refusal::default();
        let caller = Self { calls, to: greeting.to.clone(), refusal: Arc::clone(&refusal) };
        (caller, keep(transport, address, greeting, requests, refusal))
    }

    /// That the other member refuses this node, and why, if it does.
    pub(crate) fn refusal(&self) -> Option<String> {
        let why = lock(&self.refusal).clone()?;
        Some(format!("{} refuses this node: {why}", self.to))
    }

    /// Calls, and waits for the reply.
    pub(crate) async fn call(&self, request: Request) -> Result<Reply, ControlError> {
        let (reply, answer) = oneshot::channel();
        let waiting = self.calls.try_send(Call { request, reply });
        waiting.map_err(|_| ControlError::Busy)?;
        answer.await.unwrap_or(Err(ControlError::Broken))
    }
}

/// Calls a member once, on a connection of its own, and waits this long for the reply.
pub(crate) async fn call_once(
    transport: &Transport,
    address: &str,
    greeting: &Greeting,
    request: Request,
    patience: Duration,
) -> Result<Reply, ControlError> {
    let stream = timeout(PATIENCE, connect(transport, address, greeting)).await;
    let stream = stream.map_err(|_| ControlError::Silent)??;
    let (reply, answer) = oneshot::channel();
    let (_open, mut calls) = mpsc::channel(1);
    let (call, refusal) = (Call { request, reply }, Refusal::default());
    tokio::select! {
        biased;
        answer = answer => answer.unwrap_or(Err(ControlError::Broken)),
        () = converse(stream, Some(call), &mut calls, &refusal) => {
            // That of the greeting, if the connection ended with it.
            let why = lock(&refusal).clone();
            Err(why.map_or(ControlError::Broken, ControlError::Refused))
        }
        () = tokio::time::sleep(patience) => Err(ControlError::Silent),
    }
}

async fn keep(
    transport: Transport,
    address: String,
    greeting: Greeting,
    mut calls: mpsc::Receiver<Call>,
    refusal: Refusal,
) {
    let (mut first, mut logged): (Option<Call>, Option<String>) = (None, None);
    loop {
        // In advance: only a leader calls often, and an election must not wait for connections.
        match timeout(PATIENCE, connect(&transport, &address, &greeting)).await {
            Ok(Ok(stream)) => {
                converse(stream, first.take(), &mut calls, &refusal).await;
                let why = lock(&refusal).clone();
                if let Some(why) = why.as_ref().filter(|why| logged.as_ref() != Some(why)) {
                    tracing::warn!("{} refuses this node: {why}", greeting.to);
                }
                logged = why;
            }
            // One that has ended refuses nobody.
            Ok(Err(error)) => {
                *lock(&refusal) = None;
                refuse(&mut first, error.into());
            }
            Err(_) => {
                *lock(&refusal) = None;
                refuse(&mut first, ControlError::Silent);
            }
        }
        tokio::select! {
            call = calls.recv() => match call {
                Some(call) => first = Some(call),
                None => return,
            },
            () = sleep(RECONNECT) => {}
        }
    }
}

fn refuse(call: &mut Option<Call>, error: ControlError) {
    if let Some(call) = call.take() {
        // The caller may have given up.
        let _ = call.reply.send(Err(error));
    }
}

async fn connect(transport: &Transport, address: &str, greeting: &Greeting) -> io::Result<Stream> {
    let mut stream = transport.dial(address).await?;
    if !greeting.to.is_empty() {
        stream.check_member(&greeting.to)?;
    }
    let body = postcard::to_allocvec(greeting).expect("plain data");
    let mut bytes = MAGIC.to_vec();
    bytes.push(VERSION);
    bytes.extend(u16::try_from(body.len()).unwrap_or(u16::MAX).to_le_bytes());
    bytes.extend(body);
    stream.write_all(&bytes).await?;
    Ok(stream)
}

/// Carries calls and replies until the connection is over.
async fn converse(
    stream: Stream,
    first: Option<Call>,
    calls: &mut mpsc::Receiver<Call>,
    refusal: &Refusal,
) {
    let (mut reader, mut writer) = stream.into_split();
    let mut pending: BTreeMap<u64, oneshot::Sender<Result<Reply, ControlError>>> = BTreeMap::new();
    let (mut number, mut next) = (0, first);
    let (mut frames, mut buffer) = (Frames::default(), vec![0; 16 << 10]);
    let mut heard = Instant::now();
    loop {
        if let Some(Call { request, reply }) = next.take() {
            pending.retain(|_, waiting| !waiting.is_closed());
            if pending.is_empty() {
                heard = Instant::now();
            }
            number += 1;
            pending.insert(number, reply);
            if heard.elapsed() > SILENCE || !write(&mut writer, number, &request).await {
                return;
            }
        }
        tokio::select! {
            call = calls.recv() => match call {
                Some(call) => next = Some(call),
                None => return,
            },
            read = reader.read(&mut buffer) => {
                let Ok(length @ 1..) = read else { return };
                heard = Instant::now();
                frames.push(&buffer[..length]);
                loop {
                    match frames.next::<Reply>() {
                        Ok(Some((REFUSED, Reply::Refused(why)))) => {
                            *lock(refusal) = Some(why);
                            return;
                        }
                        Ok(Some((number, reply))) => {
                            *lock(refusal) = None;
                            if let Some(waiting) = pending.remove(&number) {
                                let _ = waiting.send(Ok(reply));
                            }
                        }
                        Ok(None) => break,
                        Err(_) => return,
                    }
                }
            }
        }
    }
}

async fn write(writer: &mut WriteHalf, number: u64, message: &impl Serialize) -> bool {
    let mut bytes = vec![0; HEADER];
    bytes = postcard::to_extend(message, bytes).expect("plain data");
    let Ok(length) = u32::try_from(bytes.len() - HEADER) else { return false };
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes[4..HEADER].copy_from_slice(&number.to_le_bytes());
    matches!(timeout(PATIENCE, writer.write_all(&bytes)).await, Ok(Ok(())))
}

fn lock(refusal: &Mutex<Option<String>>) -> MutexGuard<'_, Option<String>> {
    refusal.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves a connection whose first bytes are [`MAGIC`], already read into `bytes`.
pub(crate) async fn serve(
    answers: &Arc<impl Answers>,
    mut stream: Stream,
    mut bytes: Vec<u8>,
    stranger: Stranger,
) -> Result<(), ControlError> {
    let greeting = timeout(PATIENCE, read_greeting(&mut stream, &mut bytes)).await;
    let greeting = greeting.map_err(|_| ControlError::Silent)??;
    stream.check_member(&greeting.from)?;
    let known = matches!(stream, Stream::Tls(_));
    // Before anything that is long is read. Again at each call: another process may run by then.
    let greeted = answers.greet(&greeting);
    let (mut reader, mut writer) = stream.into_split();
    if let Err(ControlError::Refused(why)) = &greeted {
        write(&mut writer, REFUSED, &Reply::Refused(why.clone())).await;
    }
    greeted?;
    drop(stranger);
    let (mut frames, mut buffer) = (Frames::default(), vec![0; 16 << 10]);
    frames.push(&bytes);
    loop {
        while let Some((number, request)) = frames.next::<Request>()? {
            answers.greet(&greeting)?;
            let reply = answers.answer(&greeting, known, request).await;
            if !write(&mut writer, number, &reply).await {
                return Ok(());
            }
        }
        match reader.read(&mut buffer).await {
            Ok(length @ 1..) => frames.push(&buffer[..length]),
            Ok(0) | Err(_) => return Ok(()),
        }
    }
}

async fn read_greeting(stream: &mut Stream, bytes: &mut Vec<u8>) -> Result<Greeting, ControlError> {
    loop {
        if let Some(&[version, low, high]) = bytes.get(4..7) {
            if version != VERSION {
                return Err(ControlError::Version(version));
            }
            let length = usize::from(u16::from_le_bytes([low, high]));
            if let Some(body) = bytes.get(7..7 + length) {
                let greeting = postcard::from_bytes(body).map_err(|_| ControlError::Garbled)?;
                bytes.drain(..7 + length);
                return Ok(greeting);
            }
        }
        if stream.read_buf(bytes).await? == 0 {
            return Err(ControlError::Broken);
        }
    }
}

/// Cuts the bytes that arrive into messages.
#[derive(Default)]
struct Frames {
    bytes: Vec<u8>,
}

impl Frames {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    fn next<T: for<'a> Deserialize<'a>>(&mut self) -> Result<Option<(u64, T)>, ControlError> {
        let Some(header) = self.bytes.first_chunk::<HEADER>() else { return Ok(None) };
        let [a, b, c, d, number @ ..] = *header;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        if length > MAX_BODY {
            return Err(ControlError::TooLong(length));
        }
        let Some(body) = self.bytes.get(HEADER..HEADER + length) else { return Ok(None) };
        let message = postcard::from_bytes(body).map_err(|_| ControlError::Garbled)?;
        self.bytes.drain(..HEADER + length);
        Ok(Some((u64::from_le_bytes(number), message)))
    }
}
