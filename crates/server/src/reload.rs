//! SIGHUP: takes up what can change without a restart, and never ends the node.

use std::{path::PathBuf, sync::Arc};

use mutua_node::Config;
use tokio::signal::unix::{SignalKind, signal};

use crate::Service;

/// Takes up new certificates at each SIGHUP, and the limits of this file. Does not return.
pub(crate) async fn on_hangup(service: Arc<Service>, file: Option<PathBuf>) {
    let mut hangups = match signal(SignalKind::hangup()) {
        Ok(hangups) => hangups,
        Err(error) => {
            tracing::warn!("SIGHUP will end this node: {error}");
            return;
        }
    };
    while hangups.recv().await.is_some() {
        service.node.renew_certificates();
        match file.as_ref().map(Config::read).transpose() {
            Ok(config) => {
                if let Some(config) = config {
                    service.handle.set_limits(config.limits);
                }
                tracing::info!(
                    "SIGHUP: certificates, limits and the log level are read again; other changes \
                     need a restart"
                );
            }
            Err(error) => {
                tracing::warn!("SIGHUP: only the certificates are read again: {error}");
            }
        }
    }
}
