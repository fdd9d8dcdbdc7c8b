//! Reaching whoever grants the lock.

use std::{
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use anyhow::Result;
use mutua_service::client::{Connector, Kind, connect, kind};
use tonic::transport::Channel;

use super::{Plan, nested};
use crate::{
    exit,
    local::{Place, connect_or_start},
};

/// How long somebody elsewhere may take to answer, at least and at most.
const PATIENCE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));
/// How long to wait before a node is started again that did not start.
const AGAIN: Duration = Duration::from_millis(500);

pub(super) struct Reached {
    /// How to reach it; the first time it is reached already.
    pub(super) connector: Connector,
    pub(super) kind: Kind,
    /// The socket, if the node is on this machine: it may lose its directory.
    pub(super) place: Option<PathBuf>,
}

pub(super) async fn reach(plan: &Plan) -> Result<Reached> {
    match &plan.endpoint {
        Some(endpoint) => {
            let (least, most) = PATIENCE;
            let limit = plan.wait.filter(|wait| !wait.is_zero()).unwrap_or(most);
            let elsewhere = tokio::time::timeout(limit.clamp(least, most), elsewhere(endpoint));
            let (first, kind) = elsewhere
                .await
                .map_err(|_| exit::unavailable(format!("{endpoint} does not answer")))??;
            nested::check(plan, &first).await?;
            let place = endpoint.strip_prefix("unix:").map(PathBuf::from);
            let endpoint = endpoint.clone();
            let connector = after(first, move || {
                let endpoint = endpoint.clone();
                async move { connect(&endpoint).await.map_err(|error| error.to_string()) }
            });
            Ok(Reached { connector, kind, place })
        }
        None => {
            let place = Place::find()?;
            let first = connect_or_start(&place).await?;
            nested::check(plan, &first).await?;
            let socket = Some(place.socket.clone());
            let connector = after(first, move || {
                let place = place.clone();
                async move { again(&place).await }
            });
            Ok(Reached { connector, kind: Kind::Mutua, place: socket })
        }
    }
}

async fn elsewhere(endpoint: &str) -> Result<(Channel, Kind)> {
    let first = connect(endpoint).await.map_err(|error| exit::not_connected(&error))?;
    let kind = kind(first.clone()).await.map_err(exit::unavailable)?;
    Ok((first, kind))
}

async fn again(place: &Place) -> Result<Channel, String> {
    let connected = connect_or_start(place).await;
    if connected.is_err() {
        tokio::time::sleep(AGAIN).await;
    }
    connected.map_err(|error| format!("{error:#}"))
}

/// Gives out the first connection first.
fn after<F>(first: Channel, next: impl Fn() -> F + Send + 'static) -> Connector
where
    F: Future<Output = Result<Channel, String>> + Send + 'static,
{
    let first = Mutex::new(Some(first));
    Box::new(move || match first.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(first) => Box::pin(async { Ok(first) }),
        None => Box::pin(next()),
    })
}
