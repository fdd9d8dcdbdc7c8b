//! The driver of a session: it connects, sends and receives, and reads the clock.

use std::{error::Error as _, path::PathBuf, time::Duration};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Code, Status, transport::Channel};

use super::{Effect, Next, Session};
use crate::{
    ConnectError, Connector, Event, HoldRequest,
    endpoint::Mark,
    now,
    proto::v1::{self, locks_client::LocksClient},
};

/// The pause between attempts to connect.
const RECONNECT_AFTER: Duration = Duration::from_millis(50);
/// The runtime's clock stands still while the machine sleeps, so a wait is at most this long.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// Whether the node itself has sent this, and cannot serve the session now.
fn is_unavailable(status: &Status) -> bool {
    status.code() == Code::Unavailable && status.source().is_none()
}

struct Driver {
    session: Session,
    report: UnboundedSender<Event>,
    release: UnboundedReceiver<()>,
    requests: Option<UnboundedSender<v1::SessionRequest>>,
    /// The socket to mark, and the mark, which exists while the lock is held.
    socket: Option<PathBuf>,
    mark: Option<(i64, Mark)>,
}

pub(crate) async fn run(
    connector: Connector,
    request: HoldRequest,
    report: UnboundedSender<Event>,
    release: UnboundedReceiver<()>,
) {
    let socket = request.socket.clone();
    let session = Session::new(now(), request);
    let mut driver = Driver { session, report, release, requests: None, socket, mark: None };
    loop {
        let next = match driver.session.endpoint() {
            Some(endpoint) => driver.connect(crate::connect(&endpoint)).await,
            None => driver.connect(connector()).await,
        };
        driver.perform();
        match next {
            Next::Done => return,
            Next::Reconnect => tokio::time::sleep(RECONNECT_AFTER).await,
            Next::WaitForRelease => {
                driver.release.recv().await;
                driver.session.release(now());
                return driver.perform();
            }
        }
    }
}

impl Driver {
    /// Connects, and serves the session until the stream ends.
    async fn connect(
        &mut self,
        connecting: impl Future<Output = Result<Channel, ConnectError>>,
    ) -> Next {
        match self.wait_for(connecting).await {
            Ok(Ok(channel)) => {
                let next = self.attach(LocksClient::new(channel)).await;
                self.requests = None;
                next
            }
            Ok(Err(error)) => self.session.unreachable(now(), error.to_string()),
            Err(next) => next,
        }
    }

    async fn attach(&mut self, mut client: LocksClient<Channel>) -> Next {
        let (sender, requests) = unbounded_channel();
        self.requests = Some(sender);
        if let Some(next) = self.session.attached(now()) {
            return next;
        }
        self.perform();
        let attaching = client.attach(UnboundedReceiverStream::new(requests));
        let mut replies = match self.wait_for(attaching).await {
            Ok(Ok(replies)) => replies.into_inner(),
            Ok(Err(status)) if is_unavailable(&status) => {
                return self.session.unserved(now(), status.message().to_owned());
            }
            Ok(Err(status)) => return self.session.broken(now(), crate::describe(&status)),
            Err(next) => return next,
        };
        loop {
            let why = match self.wait_for(replies.message()).await {
                Ok(Ok(Some(v1::SessionReply { reply }))) => {
                    let next = reply.and_then(|reply| self.session.received(now(), reply));
                    match next {
                        Some(next) => return next,
                        None => continue,
                    }
                }
                Ok(Ok(None)) => "the node closed the connection".to_owned(),
                // By the node itself, and not because the connection is lost.
                Ok(Err(status)) if is_unavailable(&status) => {
                    return self.session.unserved(now(), status.message().to_owned());
                }
                Ok(Err(status)) => crate::describe(&status),
                Err(next) => return next,
            };
            return self.session.broken(now(), why);
        }
    }

    /// Waits for a future, and does meanwhile what is due. An error is the next step of a session
    /// that does not wait any longer.
    async fn wait_for<T>(&mut self, future: impl Future<Output = T>) -> Result<T, Next> {
        tokio::pin!(future);
        loop {
            self.perform();
            let wait = self.session.wake_at().since(now()).min(LONGEST_SLEEP);
            let next = tokio::select! {
                biased;
                Some(()) = self.release.recv() => self.session.release(now()),
                result = &mut future => return Ok(result),
                () = tokio::time::sleep(wait) => self.session.tick(now()),
            };
            if let Some(next) = next {
                return Err(next);
            }
        }
    }

    fn perform(&mut self) {
        for effect in self.session.take_effects() {
            match effect {
                Effect::Send(request) => {
                    if let Some(requests) = &self.requests {
                        // The reader of the stream notices that it has ended.
                        let _ = requests.send(v1::SessionRequest { request: Some(request) });
                    }
                }
                Effect::Report(event) => {
                    if matches!(event, Event::ValidUntil(_)) {
                        self.set_mark();
                    }
                    // Without a receiver the process is about to end.
                    let _ = self.report.send(event);
                }
            }
        }
    }
    /// Marks this process as a holder in its session. The mark serves only if the node's data
    /// directory is lost, so an error is ignored.
    fn set_mark(&mut self) {
        let (session, lease) = (self.session.id(), self.session.lease());
        if self.mark.as_ref().is_none_or(|(marked, _)| *marked != session) {
            let mark = |socket| Some((session, Mark::new(socket, session, lease).ok()?));
            self.mark = self.socket.as_deref().and_then(mark);
        }
    }
}
