//! Elections: a leader is the holder of the lock of the election's name, with a value.

use std::{fmt, time::Duration};

use super::{AcquireError, Guard, Holder, Lock, Lost, Watch, state::Wait};
use crate::{CallError, proto::v1};

/// A named election. Cheap to clone.
///
/// An election and the lock of the same name exclude each other: a leader is a holder of that lock
/// that has a value. Candidates of etcd's `Election` service and of `etcdctl elect` take part in
/// the same election.
///
/// ```no_run
/// # async fn work() {}
/// # async fn example(client: mutua_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let election = client.election("scheduler");
/// let leadership = election.campaign("10.0.0.1:8080").await?;
/// println!("leads with fencing token {}", leadership.fencing_token());
/// tokio::select! {
///     lost = leadership.lost() => println!("{lost}: stop at once"),
///     () = work() => leadership.resign().await?,
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Election(Lock);

impl fmt::Debug for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = String::from_utf8_lossy(self.name());
        f.debug_struct("Election").field("name", &name).finish_non_exhaustive()
    }
}

impl Election {
    pub(super) fn new(lock: Lock) -> Self {
        Self(lock)
    }

    /// The election's name.
    pub fn name(&self) -> &[u8] {
        self.0.name()
    }

    /// Waits until this client is the leader, with this value for observers. Dropping the future
    /// withdraws the candidate.
    ///
    /// # Errors
    ///
    /// See [`AcquireError`].
    pub async fn campaign(&self, value: impl AsRef<[u8]>) -> Result<Leadership, AcquireError> {
        self.request(Wait::Forever, value.as_ref()).await
    }

    /// Becomes the leader if there is none.
    ///
    /// # Errors
    ///
    /// [`AcquireError::Busy`] if there is a leader or a candidate. See [`AcquireError`] for others.
    pub async fn try_campaign(&self, value: impl AsRef<[u8]>) -> Result<Leadership, AcquireError> {
        self.request(Wait::Try, value.as_ref()).await
    }

    /// Waits at most this long.
    ///
    /// # Errors
    ///
    /// [`AcquireError::TimedOut`] if it was not elected in time. See [`AcquireError`] for others.
    pub async fn campaign_within(
        &self,
        value: impl AsRef<[u8]>,
        limit: Duration,
    ) -> Result<Leadership, AcquireError> {
        self.request(Wait::within(limit), value.as_ref()).await
    }

    pub(super) async fn request(
        &self,
        wait: Wait,
        value: &[u8],
    ) -> Result<Leadership, AcquireError> {
        self.0.request_as(wait, Some(value.to_vec())).await.map(Leadership)
    }

    /// Observes the election. Nothing is sent before [`Observer::next_leader`].
    pub fn observe(&self) -> Observer {
        Observer { watch: self.0.watch(), reported: None }
    }

    /// The leader, if there is one.
    ///
    /// # Errors
    ///
    /// See [`Observer::next_leader`].
    pub async fn leader(&self) -> Result<Option<Leader>, CallError> {
        self.observe().next_leader().await
    }
}

/// A leader as observers see it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Leader {
    /// Its value; empty for a client that holds the lock of the election's name and is not a
    /// candidate.
    pub value: Vec<u8>,
    /// The fencing token of its term.
    pub fencing_token: u64,
    /// Its client.
    pub holder: Holder,
}

/// The leadership of this client. Dropping it resigns.
///
/// It is lost as a [`Guard`] is. Race the work against [`lost`](Self::lost), and send the [fencing
/// token](Self::fencing_token) with every write.
#[must_use = "the leader resigns when this is dropped"]
#[derive(Debug)]
pub struct Leadership(Guard);

impl Leadership {
    /// A number that is greater than that of every earlier leader of the same election.
    pub fn fencing_token(&self) -> u64 {
        self.0.fencing_token()
    }

    /// Whether this client leads now, as far as it can know. See [`Guard::is_good`].
    pub fn is_good(&self) -> bool {
        self.0.is_good()
    }

    /// Completes when the leadership is lost, a tenth of the lease before another client can lead.
    pub async fn lost(&self) -> Lost {
        self.0.lost().await
    }

    /// Gives the leader another value, and waits until the node has it.
    ///
    /// # Errors
    ///
    /// [`Lost`] if the node cannot confirm that this client leads.
    pub async fn proclaim(&self, value: impl AsRef<[u8]>) -> Result<(), Lost> {
        self.0.proclaim(value.as_ref().to_vec()).await
    }

    /// Resigns, and waits until the node has done it.
    ///
    /// # Errors
    ///
    /// [`Lost`] if the node cannot confirm that this client led until then.
    pub async fn resign(self) -> Result<(), Lost> {
        self.0.release().await
    }
}

/// The leaders of an election, one after the other.
#[derive(Debug)]
pub struct Observer {
    watch: Watch,
    /// The last report; the outer `None`: nothing was reported yet.
    reported: Option<Option<Leader>>,
}

impl Observer {
    /// The leader, at first the present one and then the next: another client, or the same one with
    /// another value; `None` if there is none. Values that are replaced soon may be left out. If
    /// its node is lost, another member is asked.
    ///
    /// # Errors
    ///
    /// See [`Watch::next_state`].
    pub async fn next_leader(&mut self) -> Result<Option<Leader>, CallError> {
        loop {
            let Some(leader) = leader_of(self.watch.next_state().await?) else { continue };
            if self.reported.as_ref().is_some_and(|last| is_same(last, &leader)) {
                continue;
            }
            self.reported = Some(leader.clone());
            return Ok(leader);
        }
    }
}

/// The leader of a lock's state; the outer `None` if it is not known, because a member did not
/// answer.
fn leader_of(lock: v1::Lock) -> Option<Option<Leader>> {
    match lock.holder {
        Some(entry) => Some(Some(Leader {
            value: entry.value.clone().unwrap_or_default(),
            fencing_token: entry.fencing_token,
            holder: Holder::from(entry),
        })),
        None => lock.unanswered.is_empty().then_some(None),
    }
}

fn is_same(last: &Option<Leader>, next: &Option<Leader>) -> bool {
    let term = |leader: &Option<Leader>| {
        leader.as_ref().map(|leader| (leader.fencing_token, leader.value.clone()))
    };
    term(last) == term(next)
}
