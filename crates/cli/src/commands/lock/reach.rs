//! Connecting to the node that grants the lock.

use std::{
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::Result;
use mutua_client::{ConnectError, Connector, Kind};
use tonic::transport::Channel;

use super::{Plan, Report, nested};
use crate::{
    exit::{self, Coded},
    local::Target,
};

/// How long a node may take to answer at least, however short the wait.
pub(super) const ANSWER: Duration = Duration::from_secs(1);
/// How long connecting to a node is retried without -w.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time between two attempts to connect.
const LOOK: Duration = Duration::from_millis(100);
/// The time before a node that did not start is started again.
const AGAIN: Duration = Duration::from_millis(500);

pub(super) struct Reached {
    /// Connects to the node; the first connection exists already.
    pub(super) connector: Connector,
    pub(super) kind: Kind,
    /// The socket, if the node is on this machine: its directory may be removed.
    pub(super) socket: Option<PathBuf>,
}

pub(super) async fn reach(plan: &Plan, report: &mut Report) -> Result<Reached> {
    let mut search = Search::new(plan, report);
    let (first, kind) = loop {
        match plan.target.open(search.left()).await {
            Ok(found) => break found,
            // This user's node cannot be started: the next attempt would fail too.
            Err(error) if plan.target.is_started_here() => return Err(error),
            Err(error) => search.again(error).await?,
        }
    };
    nested::check(plan, &first).await?;
    let target = plan.target.clone();
    // A node that is connected to later must have the required scope too.
    let connector = after(first, move || {
        let target = target.clone();
        async move { again(&target).await }
    });
    Ok(Reached { connector, kind, socket: plan.target.socket() })
}

/// The search for a node, which is part of the wait.
struct Search<'a> {
    report: &'a mut Report,
    begun: Instant,
    /// How long to retry.
    limit: Duration,
    noted: bool,
}

impl<'a> Search<'a> {
    fn new(plan: &Plan, report: &'a mut Report) -> Self {
        let limit = plan.wait.unwrap_or(PATIENCE);
        Self { report, begun: Instant::now(), limit, noted: false }
    }

    /// How long a node may take to answer now.
    fn left(&self) -> Duration {
        self.limit.max(ANSWER).saturating_sub(self.begun.elapsed())
    }

    /// Waits before the next attempt, or fails if there is none: the time is over, or the next one
    /// would fail in the same way.
    async fn again(&mut self, error: anyhow::Error) -> Result<()> {
        let code = error.downcast_ref().map(|Coded(code, _)| *code);
        let over = self.begun.elapsed() + LOOK > self.limit;
        if over || code != Some(exit::UNAVAILABLE) {
            return Err(error);
        }
        if !std::mem::replace(&mut self.noted, true) {
            self.report.note(&format!("waiting for the node: {error:#}"));
        }
        tokio::time::sleep(LOOK).await;
        Ok(())
    }
}

async fn again(target: &Target) -> Result<Channel, ConnectError> {
    let opened = target.open(PATIENCE).await;
    if opened.is_err() {
        tokio::time::sleep(AGAIN).await;
    }
    opened
        .map(|(channel, _)| channel)
        .map_err(|error| ConnectError::Unreachable(format!("{error:#}")))
}

/// Returns the first connection first.
fn after<F>(first: Channel, next: impl Fn() -> F + Send + 'static) -> Connector
where
    F: Future<Output = Result<Channel, ConnectError>> + Send + 'static,
{
    let first = Mutex::new(Some(first));
    Box::new(move || match first.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(first) => Box::pin(async { Ok(first) }),
        None => Box::pin(next()),
    })
}
