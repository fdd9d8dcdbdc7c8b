//! The driver of a session: it connects, receives, and keeps time.

use std::{path::PathBuf, sync::Arc, time::Duration};

use tokio::{
    sync::mpsc::unbounded_channel,
    time::{Instant, Sleep, sleep, timeout_at},
};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Channel;

use super::{
    connection::{Connection, open},
    shared::{Outgoing, Shared},
    state::Next,
};
use crate::{
    frames::{Decoder, Frames},
    now,
    proto::v1::{self, locks_client::LocksClient},
};

/// The pause between attempts to connect.
const RECONNECT_AFTER: Duration = Duration::from_millis(50);
/// The runtime's clock stands still while the machine sleeps, so a wait is at most this long.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// Ends the session when the driver's task does, for whatever reason.
struct Driver {
    shared: Arc<Shared>,
    /// The endpoint to begin with, and again when all others have failed.
    first: String,
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.shared.end();
    }
}

/// Serves a session until it is closed. `connected` is a connection to the first endpoint.
pub(super) async fn run(shared: Arc<Shared>, first: String, connected: Connection) {
    let driver = Driver { shared, first };
    let mut connected = Some(connected);
    loop {
        let next = match connected.take() {
            Some(connection) => driver.attach(connection, &driver.first).await,
            None => driver.connect().await,
        };
        driver.shared.detach();
        match next {
            Next::Done => return,
            Next::Reconnect => sleep(RECONNECT_AFTER).await,
            Next::Idle => driver.until_needed().await,
        }
        if driver.shared.call(|state, _| state.is_closing() && !state.is_busy()) {
            return;
        }
    }
}

impl Driver {
    async fn connect(&self) -> Next {
        let endpoint = self.shared.call(|state, _| state.endpoint());
        let endpoint = endpoint.unwrap_or_else(|| self.first.clone());
        match self.wait_for(open(&endpoint)).await {
            Ok(Ok(connection)) => self.attach(connection, &endpoint).await,
            Ok(Err(error)) => self.broken(&error.to_string()),
            Err(next) => next,
        }
    }

    /// Waits until there is something to connect for.
    async fn until_needed(&self) {
        while !self.shared.call(|state, _| state.is_busy() || state.is_closing()) {
            // The next request has a deadline, which wakes this.
            self.shared.arm();
            self.shared.wake.notified().await;
        }
    }

    fn broken(&self, why: &str) -> Next {
        self.shared.call(|state, now| state.broken(now, why))
    }

    async fn attach(&self, connection: Connection, endpoint: &str) -> Next {
        let socket = endpoint.strip_prefix("unix:").map(PathBuf::from);
        match connection {
            Connection::Frames(frames, decoder, _) => {
                let frames = Arc::new(frames);
                self.shared.attach(Outgoing::Frames(Arc::clone(&frames)), socket);
                let next = self.wait_for(self.read_frames(&frames, decoder)).await;
                frames.close();
                next.unwrap_or_else(|next| next)
            }
            Connection::Grpc(channel) => self.attach_grpc(channel, socket).await,
        }
    }

    async fn read_frames(&self, frames: &Frames, mut decoder: Decoder) -> Next {
        loop {
            let next = match frames.receive(&mut decoder).await {
                Ok(Some(reply)) => self.received(reply),
                Ok(None) => Some(self.broken("the node closed the connection")),
                Err(error) => Some(self.broken(&error.to_string())),
            };
            if let Some(next) = next {
                return next;
            }
        }
    }

    async fn attach_grpc(&self, channel: Channel, socket: Option<PathBuf>) -> Next {
        let (sender, requests) = unbounded_channel();
        self.shared.attach(Outgoing::Grpc(sender), socket);
        let mut client = LocksClient::new(channel);
        let attaching = client.attach(UnboundedReceiverStream::new(requests));
        let mut replies = match self.wait_for(attaching).await {
            Ok(Ok(replies)) => replies.into_inner(),
            Ok(Err(status)) => return self.broken(&crate::describe(&status)),
            Err(next) => return next,
        };
        let receive = async {
            loop {
                let next = match replies.message().await {
                    Ok(Some(reply)) => self.received(reply),
                    Ok(None) => Some(self.broken("the node closed the connection")),
                    Err(status) => Some(self.broken(&crate::describe(&status))),
                };
                if let Some(next) = next {
                    return next;
                }
            }
        };
        self.wait_for(receive).await.unwrap_or_else(|next| next)
    }

    fn received(&self, reply: v1::SessionReply) -> Option<Next> {
        let reply = reply.reply?;
        self.shared.call(|state, now| state.received(now, reply))
    }

    /// Waits for a future, and does meanwhile what is due. An error is the next step of a session
    /// that does not wait any longer.
    async fn wait_for<T>(&self, future: impl Future<Output = T>) -> Result<T, Next> {
        tokio::pin!(future);
        let timer = sleep(Duration::ZERO);
        tokio::pin!(timer);
        self.set(timer.as_mut());
        loop {
            tokio::select! {
                biased;
                result = &mut future => return Ok(result),
                () = self.shared.wake.notified() => {}
                () = timer.as_mut() => {
                    if let Some(next) = self.shared.call(|state, now| state.tick(now)) {
                        return Err(next);
                    }
                }
            }
            if self.shared.call(|state, _| state.is_closing()) {
                // The node closes the stream, or it is left.
                let limit = Instant::now() + LONGEST_SLEEP;
                return timeout_at(limit, future).await.map_err(|_| Next::Done);
            }
            self.set(timer.as_mut());
        }
    }

    fn set(&self, timer: std::pin::Pin<&mut Sleep>) {
        let wait = self.shared.arm().since(now()).min(LONGEST_SLEEP);
        timer.reset(Instant::now() + wait);
    }
}
