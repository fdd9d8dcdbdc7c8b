//! SIGHUP: takes up what can change without a restart, and never ends the node.

use std::{path::PathBuf, sync::Arc};

use mutua_node::Config;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::JoinSet,
};

use crate::Service;

/// Takes up new certificates at each SIGHUP from now on, and the limits of this file. To be called
/// before clients are served: a signal of one that finds the node must not be missed.
pub(crate) fn follow(tasks: &mut JoinSet<()>, service: &Arc<Service>, file: Option<PathBuf>) {
    match signal(SignalKind::hangup()) {
        Ok(hangups) => drop(tasks.spawn(on_hangup(hangups, Arc::clone(service), file))),
        Err(error) => tracing::warn!("SIGHUP will end this node: {error}"),
    }
}

async fn on_hangup(mut hangups: Signal, service: Arc<Service>, file: Option<PathBuf>) {
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
