//! Watching a lock: its states, one after the other, from a member that answers.

use std::{fmt, time::Duration};

use tokio::time::{Instant, sleep, timeout_at};
use tonic::{Code, Status, Streaming};

use super::Lock;
use crate::{
    CallError, connect,
    proto::v1::{self, locks_client::LocksClient},
};

/// The pause before the members are tried again.
const PAUSE: Duration = Duration::from_millis(100);

/// The states of a lock, one after the other.
pub struct Watch {
    lock: Lock,
    stream: Option<Streaming<v1::Lock>>,
    /// The endpoint to try next.
    next: usize,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("lock", &self.lock).finish_non_exhaustive()
    }
}

impl Watch {
    pub(super) fn new(lock: Lock) -> Self {
        Self { lock, stream: None, next: 0 }
    }

    /// The state of the lock, at first the present one and then whenever it has changed. If its
    /// node is lost, another member is asked, whose first state may be the one that was known.
    ///
    /// # Errors
    ///
    /// If no member answers for as long as [`Options::unreachable_after`] allows, or if a rule of
    /// the node refuses it. The next call tries again.
    ///
    /// [`Options::unreachable_after`]: crate::Options::unreachable_after
    pub async fn next_state(&mut self) -> Result<v1::Lock, CallError> {
        let mut silent_since = Instant::now();
        loop {
            let was_open = self.stream.is_some();
            let failed = match self.read().await {
                Ok(state) => return Ok(state),
                Err(failed) => failed,
            };
            if was_open {
                // Until then the node was there, and nothing had changed.
                silent_since = Instant::now();
            }
            self.stream = None;
            self.next += 1;
            if is_final(&failed) || silent_since.elapsed() > self.lock.session().patience {
                return Err(failed);
            }
            sleep(PAUSE).await;
        }
    }

    /// The next state, from a stream that is opened if there is none.
    async fn read(&mut self) -> Result<v1::Lock, CallError> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => {
                let session = self.lock.session();
                let endpoints = session.endpoints();
                let endpoint = &endpoints[self.next % endpoints.len()];
                let late = |_| CallError::TimedOut(session.patience);
                let opened = async {
                    let mut client = LocksClient::new(connect(endpoint).await?);
                    let request = v1::WatchRequest { name: self.lock.name().to_vec() };
                    Ok::<_, CallError>(client.watch(request).await?.into_inner())
                };
                let limit = Instant::now() + session.patience;
                self.stream.insert(timeout_at(limit, opened).await.map_err(late)??)
            }
        };
        let closed = || Status::unavailable("the node closed the connection");
        Ok(stream.message().await?.ok_or_else(closed)?)
    }
}

/// Whether another member would refuse it too.
fn is_final(error: &CallError) -> bool {
    let CallError::Failed(status) = error else { return false };
    let refused = [Code::PermissionDenied, Code::InvalidArgument, Code::Unimplemented];
    refused.contains(&status.code())
}
