//! What branches and the bank send each other: lines of JSON on a Unix socket.

use anyhow::Result;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::unix::{OwnedReadHalf, OwnedWriteHalf},
    sync::mpsc,
};

/// The socket of the bank, in the directory of a run.
pub(super) const SOCKET: &str = "bank.sock";

/// A message of a branch.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) enum ToBank {
    /// The first one: its index.
    Branch(usize),
    /// The status of its node, several times a second.
    Status(BranchStatus),
    /// It has acquired the lock and asks for the balances of two accounts.
    Begin { token: u64, accounts: [usize; 2] },
    /// The new balances of the two accounts, before it releases the lock.
    Write { token: u64, accounts: [usize; 2], balances: [i64; 2] },
    /// It has lost the lock before it wrote, and has given up.
    Lost { token: u64 },
}

/// A message of the bank.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(super) enum FromBank {
    /// Request the lock again and again.
    Go,
    /// Request the lock no more.
    Pause,
    /// The two balances.
    Balances { token: u64, balances: [i64; 2] },
    /// The bank has seen a greater fencing token, and has changed nothing.
    Refused { token: u64 },
    /// The new balances are written.
    Written { token: u64 },
}

impl FromBank {
    /// The fencing token of the message that this one replies to.
    pub(super) fn token(self) -> Option<u64> {
        match self {
            Self::Go | Self::Pause => None,
            Self::Balances { token, .. } | Self::Refused { token } | Self::Written { token } => {
                Some(token)
            }
        }
    }
}

/// The status of a branch's node.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(super) struct BranchStatus {
    /// The number of the view that it is in or joins.
    pub(super) view: u64,
    /// The members of that view.
    pub(super) members: Vec<String>,
    /// The leader of the consensus engine, as far as it knows.
    pub(super) leader: Option<String>,
    /// Why it grants no lock, if it grants none.
    pub(super) suspended: Option<String>,
    /// The longest pause between two grants of the branch's own lock since the last status.
    pub(super) own_pause_ms: u64,
}

/// Reads messages until the other side has closed the connection.
pub(super) struct Messages(BufReader<OwnedReadHalf>);

impl Messages {
    pub(super) fn new(reader: OwnedReadHalf) -> Self {
        Self(BufReader::new(reader))
    }

    /// The next message.
    pub(super) async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>> {
        let mut line = String::new();
        if self.0.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        Ok(Some(serde_json::from_str(&line)?))
    }
}

/// Writes messages in a task of its own, so that nobody who sends one waits.
pub(super) fn sender<T: Serialize + Send + 'static>(
    mut writer: OwnedWriteHalf,
) -> mpsc::UnboundedSender<T> {
    let (sender, mut messages) = mpsc::unbounded_channel::<T>();
    tokio::spawn(async move {
        while let Some(message) = messages.recv().await {
            let mut line = serde_json::to_vec(&message).expect("plain data");
            line.push(b'\n');
            if writer.write_all(&line).await.is_err() {
                return;
            }
        }
    });
    sender
}
