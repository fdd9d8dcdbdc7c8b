//! One reading of a node: its status and the locks of all members.

use std::time::{Duration, Instant};

use anyhow::Result;
use mutua_client::proto::v1::{self, control_client::ControlClient, locks_client::LocksClient};
use tonic::Request;

use crate::{commands::locks::failed, local::Target};

/// How long a node may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a node reported at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(super) at: Instant,
    pub(crate) status: v1::StatusResponse,
    /// Most waiters first.
    pub(crate) locks: Vec<v1::Lock>,
    pub(crate) unanswered: Vec<String>,
}

/// What happened between two readings, each second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rates {
    pub(super) grants: f64,
    pub(super) messages: f64,
}

impl Sample {
    /// Reads the node that commands use, or that was given.
    pub(crate) async fn take(target: &Target, prefix: &str) -> Result<Self> {
        let (channel, about) = target.query(PATIENCE).await?;
        if about.kind == mutua_client::Kind::Etcd {
            return Err(failed(tonic::Status::unimplemented("")));
        }
        let mut status = Request::new(v1::StatusRequest::default());
        status.set_timeout(PATIENCE);
        let status = ControlClient::new(channel.clone()).status(status).await.map_err(failed)?;
        let mut list =
            Request::new(v1::ListRequest { prefix: prefix.into(), ..Default::default() });
        list.set_timeout(PATIENCE);
        let mut client = LocksClient::new(channel).max_decoding_message_size(usize::MAX);
        let list = client.list(list).await.map_err(failed)?.into_inner();
        let mut locks = list.locks;
        locks.sort_by_key(|lock| std::cmp::Reverse(waiting(lock)));
        let (at, status) = (Instant::now(), status.into_inner());
        Ok(Self { at, status, locks, unanswered: list.unanswered })
    }

    /// The rates since an earlier reading of the same process.
    pub(super) fn since(&self, earlier: &Self) -> Option<Rates> {
        let seconds = self.at.duration_since(earlier.at).as_secs_f64();
        if seconds <= 0.0 || self.status.pid != earlier.status.pid {
            return None;
        }
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        Some(Rates {
            grants: rate(self.status.entries, earlier.status.entries),
            messages: rate(self.status.messages, earlier.status.messages),
        })
    }
}

/// The number of waiters of a lock.
pub(super) fn waiting(lock: &v1::Lock) -> usize {
    lock.waiting.len() + lock.left_out as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_of_one_process_and_of_the_time_between() {
        let at = Instant::now();
        let sample = |seconds, pid, entries| Sample {
            at: at + Duration::from_secs(seconds),
            status: v1::StatusResponse {
                pid,
                entries,
                messages: 2 * entries,
                ..Default::default()
            },
            locks: Vec::new(),
            unanswered: Vec::new(),
        };
        let rates = sample(4, 1, 50).since(&sample(2, 1, 30));
        assert_eq!(rates, Some(Rates { grants: 10.0, messages: 20.0 }));
        assert_eq!(sample(4, 2, 5).since(&sample(2, 1, 30)), None, "another process");
        assert_eq!(sample(2, 1, 5).since(&sample(2, 1, 5)), None, "no time between");
    }
}
