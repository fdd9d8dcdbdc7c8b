//! The shell of a session: it connects, passes on what is said, and tells the time.

use std::{path::PathBuf, time::Duration};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Channel;

use super::{Effect, Next, Session};
use crate::{
    client::{Connector, Event, Wish},
    now,
    place::Mark,
    proto::v1::{self, locks_client::LocksClient},
};

/// How often to look for a node while there is none.
const AGAIN: Duration = Duration::from_millis(50);
/// The runtime's clock stands still while the machine sleeps, so look again now and then.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

struct Shell {
    session: Session,
    tell: UnboundedSender<Event>,
    leave: UnboundedReceiver<()>,
    asks: Option<UnboundedSender<v1::Request>>,
    /// Where to leave a mark, and the mark, kept while inside.
    place: Option<PathBuf>,
    mark: Option<Mark>,
}

pub(in crate::client) async fn run(
    connector: Connector,
    wish: Wish,
    tell: UnboundedSender<Event>,
    leave: UnboundedReceiver<()>,
) {
    let place = wish.place.clone();
    let session = Session::new(now(), wish);
    let mut shell = Shell { session, tell, leave, asks: None, place, mark: None };
    loop {
        let next = shell.connect(connector()).await;
        shell.play();
        match next {
            Next::Done => return,
            Next::Again => tokio::time::sleep(AGAIN).await,
            Next::WaitToLeave => {
                shell.leave.recv().await;
                shell.session.leave();
                return shell.play();
            }
        }
    }
}

impl Shell {
    /// Connects, and talks for as long as that goes.
    async fn connect(&mut self, connecting: impl Future<Output = Result<Channel, String>>) -> Next {
        match self.wait_for(connecting).await {
            Ok(Ok(channel)) => {
                let next = self.talk(LocksClient::new(channel)).await;
                self.asks = None;
                next
            }
            Ok(Err(why)) => self.session.unreachable(now(), why),
            Err(next) => next,
        }
    }

    async fn talk(&mut self, mut client: LocksClient<Channel>) -> Next {
        let (asks, requests) = unbounded_channel();
        self.asks = Some(asks);
        if let Some(next) = self.session.attached(now()) {
            return next;
        }
        self.play();
        let attaching = client.attach(UnboundedReceiverStream::new(requests));
        let mut replies = match self.wait_for(attaching).await {
            Ok(Ok(replies)) => replies.into_inner(),
            Ok(Err(status)) => return self.session.broken(now(), status.message().to_owned()),
            Err(next) => return next,
        };
        loop {
            let why = match self.wait_for(replies.message()).await {
                Ok(Ok(Some(v1::Reply { answer }))) => {
                    let next = answer.and_then(|answer| self.session.heard(now(), answer));
                    match next {
                        Some(next) => return next,
                        None => continue,
                    }
                }
                Ok(Ok(None)) => "the node closed the connection".to_owned(),
                Ok(Err(status)) => status.message().to_owned(),
                Err(next) => return next,
            };
            return self.session.broken(now(), why);
        }
    }

    /// Waits for something, and does what is due meanwhile. An error if that ends the wait.
    async fn wait_for<T>(&mut self, what: impl Future<Output = T>) -> Result<T, Next> {
        tokio::pin!(what);
        loop {
            self.play();
            let wait = self.session.wake_at().since(now()).min(LOOK_AGAIN);
            let next = tokio::select! {
                biased;
                Some(()) = self.leave.recv() => self.session.leave(),
                what = &mut what => return Ok(what),
                () = tokio::time::sleep(wait) => self.session.tick(now()),
            };
            if let Some(next) = next {
                return Err(next);
            }
        }
    }

    fn play(&mut self) {
        for effect in self.session.take_effects() {
            match effect {
                Effect::Ask(ask) => {
                    if let Some(asks) = &self.asks {
                        // A stream that is gone is seen where it is read.
                        let _ = asks.send(v1::Request { ask: Some(ask) });
                    }
                }
                Effect::Tell(event) => {
                    if matches!(event, Event::GoodUntil(_)) && self.mark.is_none() {
                        // What the node has written down is enough, unless its directory is lost
                        // with it.
                        let mark = |place| Mark::new(place, self.session.lease()).ok();
                        self.mark = self.place.as_deref().and_then(mark);
                    }
                    // If nobody listens any more, the process is about to end.
                    let _ = self.tell.send(event);
                }
            }
        }
    }
}
