//! Follows openraft's reports: feeds the guards, tells the watcher who leads, and notices the end.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use openraft::{ServerState, error::Fatal};
use tokio::{sync::watch, time::Instant};

use crate::{error::Ended, interface::VoterId, shared::Shared, types::Metrics};

/// Run until the engine ends.
pub(crate) async fn run(
    mut metrics: watch::Receiver<Metrics>,
    shared: Arc<Shared>,
    ended: watch::Sender<Option<Ended>>,
) {
    let mut led = false;
    let end = loop {
        let (leads, age, running, sole) = {
            let metrics = metrics.borrow_and_update();
            let age = metrics.millis_since_quorum_ack.map(Duration::from_millis);
            let voters = metrics.membership_config.membership().get_joint_config();
            let is_me = |only: &BTreeSet<_>| only.len() == 1 && only.contains(&metrics.id);
            let sole = matches!(voters.as_slice(), [only] if is_me(only));
            (metrics.state == ServerState::Leader, age, metrics.running_state.clone(), sole)
        };
        let leads = leads && running.is_ok();
        shared.guards().set_sole(sole);
        shared.guards().observe(Instant::now(), leads, age);
        if leads != led {
            led = leads;
            shared.watcher().leads(leads);
        }
        if let Err(fatal) = running {
            break to_ended(fatal, &shared);
        }
        // openraft reports its end unless it panicked.
        if metrics.changed().await.is_err() {
            break Ended::Panicked;
        }
    };
    shared.guards().observe(Instant::now(), false, None);
    if led {
        shared.watcher().leads(false);
    }
    if end.is_fatal() {
        tracing::error!(%end, "the consensus engine has ended");
    }
    ended.send_replace(Some(end));
}

fn to_ended(fatal: Fatal<VoterId>, shared: &Shared) -> Ended {
    match fatal {
        Fatal::Stopped => Ended::Stopped,
        Fatal::Panicked => Ended::Panicked,
        Fatal::StorageError(error) => match shared.failure() {
            Some(failure) => Ended::Store(failure),
            // The store has not failed: a callback panicked.
            None => {
                tracing::error!(%error, "the consensus engine has failed");
                Ended::Panicked
            }
        },
    }
}
