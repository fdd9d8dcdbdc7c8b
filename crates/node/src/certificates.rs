//! The certificates of a running node: read at the start, and again when the files change.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use mutua_tls::Identity;
use tokio::{task::JoinSet, time::sleep};

use crate::{Config, ConfigError, transport::Transport};

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(2);

/// How often a certificate that expires soon is logged.
const REMIND: Duration = Duration::from_secs(24 * 3600);

/// The transport of this configuration.
pub(crate) fn transport(config: &Config) -> Result<Transport, ConfigError> {
    let identity = config.identity()?;
    Ok(identity.map_or(Transport::Tcp, |identity| Transport::Tls(Arc::new(identity))))
}

/// Starts the task that takes up new certificates.
pub(crate) fn spawn(tasks: &mut JoinSet<()>, transport: &Transport) {
    if let Transport::Tls(identity) = transport {
        tasks.spawn(keep_fresh(Arc::clone(identity)));
    }
}

async fn keep_fresh(identity: Arc<Identity>) {
    let mut remind_at = SystemTime::UNIX_EPOCH;
    loop {
        look(&identity);
        let now = SystemTime::now();
        if now >= remind_at {
            if let Some(warning) = identity.warning(now) {
                tracing::warn!("{warning}");
            }
            remind_at = now + REMIND;
        }
        sleep(LOOK).await;
    }
}

/// Takes up new certificates, if there are any that can be used.
pub(crate) fn look(identity: &Identity) {
    match identity.renew() {
        Ok(false) => {}
        Ok(true) => {
            let until = mutua_tls::date(identity.certificate().until);
            tracing::info!("new certificates are in use; this node's is valid until {until}");
        }
        // The files are looked at again when they change again: a key may be written after its
        // certificate.
        Err(error) => tracing::warn!("new certificates are not used: {error}"),
    }
}
