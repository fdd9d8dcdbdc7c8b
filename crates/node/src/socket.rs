//! A Unix socket in the node's directory, for this user's commands on this machine. A question is
//! a line: `status`, to which the answer is a line of JSON, or `stop`, to which it is the end.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use mutua_brain::Status;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
    task::JoinSet,
};

use crate::{StartError, disk::Disk, shared::Shared};

/// How a node is, with its members' names.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct NodeStatus {
    /// The cluster's name.
    pub cluster: String,
    /// This node's name.
    pub node: String,
    /// The process that runs it.
    pub pid: u32,
    /// The epoch of the view it is in, if it is in one.
    pub epoch: Option<u32>,
    /// Why nothing new is granted, if that is so.
    pub stopped: Option<String>,
    /// All members, this one too.
    pub members: Vec<MemberStatus>,
    /// How many locks it knows, how many somebody of this node is inside, how many of its clients
    /// wait.
    pub locks: usize,
    /// How many of them somebody of this node is inside.
    pub inside: usize,
    /// How many of its clients wait.
    pub waiting: usize,
    /// Entries of its clients.
    pub entries: u64,
    /// Messages that its processes sent.
    pub messages: u64,
    /// Lazy messages, which are not among those.
    pub lazy: u64,
}

/// A member as another one sees it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct MemberStatus {
    /// Its name.
    pub name: String,
    /// Whether it is connected; a node is connected to itself.
    pub up: bool,
    /// For how many milliseconds it has been so.
    pub for_ms: u64,
    /// Messages that wait to be acknowledged by it.
    pub backlog: usize,
}

impl Shared {
    /// How the node is.
    pub(crate) fn status(self: &Arc<Self>) -> NodeStatus {
        let (status, stopped) = self
            .call(|core, now| (core.brain.status(now), core.stopped().map(|why| why.to_string())));
        let Status { cluster, me, epoch, links, locks, inside, waiting, counts, .. } = status;
        let mut members: Vec<_> = links
            .into_iter()
            .map(|link| MemberStatus {
                name: self.name(link.member),
                up: link.up,
                for_ms: link.for_ms,
                backlog: link.backlog,
            })
            .collect();
        let node = self.name(me);
        let myself = MemberStatus { name: node.clone(), up: true, for_ms: 0, backlog: 0 };
        members.insert(me.index(), myself);
        NodeStatus {
            cluster,
            node,
            pid: std::process::id(),
            epoch,
            stopped: stopped.or(status.stopped),
            members,
            locks,
            inside,
            waiting,
            entries: counts.entries,
            messages: counts.messages,
            lazy: counts.lazy,
        }
    }
}

/// Where the node with this directory answers.
pub fn socket_path(data: &Path) -> PathBuf {
    Disk::socket_path(data)
}

/// Asks the node with this directory how it is.
pub async fn ask_status(data: &Path) -> io::Result<NodeStatus> {
    let text = ask(data, "status\n").await?;
    serde_json::from_str(&text).map_err(io::Error::other)
}

/// Asks the node with this directory to stop, and waits until it has closed its socket.
pub async fn ask_to_stop(data: &Path) -> io::Result<()> {
    ask(data, "stop\n").await.map(drop)
}

async fn ask(data: &Path, question: &str) -> io::Result<String> {
    let conversation = async {
        let mut stream = UnixStream::connect(socket_path(data)).await?;
        stream.write_all(question.as_bytes()).await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        Ok(text)
    };
    tokio::time::timeout(Duration::from_secs(5), conversation).await?
}

pub(crate) fn spawn(
    tasks: &mut JoinSet<()>,
    shared: &Arc<Shared>,
    data: &Path,
) -> Result<(), StartError> {
    let path = socket_path(data);
    // The directory is ours alone, so what lies there is of a node that is dead.
    let _ = fs::remove_file(&path);
    let listener = UnixListener::bind(&path)
        .map_err(|error| StartError::Listen { address: path.display().to_string(), error })?;
    tasks.spawn(serve(Arc::clone(shared), listener));
    Ok(())
}

async fn serve(shared: Arc<Shared>, listener: UnixListener) {
    let mut guests = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                // Who asked and went away does not need the answer.
                Ok((stream, _)) => drop(guests.spawn(answer(Arc::clone(&shared), stream))),
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            },
            Some(_) = guests.join_next() => {}
        }
    }
}

async fn answer(shared: Arc<Shared>, mut stream: UnixStream) -> io::Result<()> {
    let mut question = String::new();
    let (reader, mut writer) = stream.split();
    let mut reader = BufReader::new(reader.take(100));
    let asking = reader.read_line(&mut question);
    tokio::time::timeout(Duration::from_secs(5), asking).await??;
    match question.trim() {
        "status" => {
            let text = serde_json::to_string(&shared.status()).map_err(io::Error::other)?;
            writer.write_all(format!("{text}\n").as_bytes()).await
        }
        "stop" => {
            shared.asked_to_stop.notify_one();
            // The stream ends with the node.
            std::future::pending().await
        }
        other => writer.write_all(format!("what is `{other}`? status or stop\n").as_bytes()).await,
    }
}
