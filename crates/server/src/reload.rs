//! SIGHUP: takes up what can change without a restart, and never ends the node.

use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};

use crate::Service;

/// Takes up new certificates at each SIGHUP. Does not return.
pub(crate) async fn on_hangup(service: Arc<Service>) {
    let mut hangups = match signal(SignalKind::hangup()) {
        Ok(hangups) => hangups,
        Err(error) => {
            tracing::warn!("SIGHUP will end this node: {error}");
            return;
        }
    };
    while hangups.recv().await.is_some() {
        tracing::info!("SIGHUP: the certificates are read again; other changes need a restart");
        service.node.renew_certificates();
    }
}
