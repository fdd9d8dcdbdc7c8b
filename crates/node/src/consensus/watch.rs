//! Looking again and again at what the engine needs: members it has to know of, a vote that is no
//! longer needed, voters that can be reached.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use mutua_consensus::VoterId;
use mutua_protocol::views::MemberId;
use tokio::time::{Instant, sleep};

use super::{Consensus, NotStarted};
use crate::driver::Driver;

/// The least pause between two looks at what the engine needs.
pub(super) const WATCH: Duration = Duration::from_millis(100);

/// What was seen at the last look.
#[derive(Default)]
pub(super) struct Watch {
    /// Since when this member is in no view and no voter of a cluster that has removed it.
    pub(super) out_since: Option<Instant>,
    /// When it last asked whether it was removed, or its vote is needed.
    pub(super) asked: Option<Instant>,
}

impl Consensus {
    /// Waits for the time of the next look. While locks are granted and no election is near, that
    /// is when the protocol's timers wake the node anyway, for its view lease: a timer of tokio's
    /// own would wake an idle node twenty times a second more.
    pub(super) async fn await_next_look(&self, driver: &Driver) {
        let looked = Instant::now();
        loop {
            let granting = driver.is_granting();
            let led = self.engine().is_none_or(|engine| engine.is_led());
            if !(granting && led) {
                return sleep(WATCH.saturating_sub(looked.elapsed())).await;
            }
            self.ticked.notified().await;
            if looked.elapsed() >= WATCH {
                return;
            }
        }
    }

    /// Does what has become due since the last look.
    pub(super) async fn look(
        self: &Arc<Self>,
        driver: &Arc<Driver>,
        watch: &mut Watch,
    ) -> Result<(), NotStarted> {
        self.note_identity(driver)?;
        self.check_level(driver)?;
        if !self.look_at_removal(driver, watch)? {
            self.look_at_role(driver, watch).await?;
            self.look_for_news(driver, watch);
        }
        self.hang_up_on_former(driver);
        let Some(engine) = self.engine() else { return Ok(()) };
        engine.sees(&self.seen(driver));
        if engine.status().leads {
            self.look_at_voters(driver, &engine);
        }
        Ok(())
    }

    /// A node that does not understand what the others send must not go on.
    fn check_level(&self, driver: &Arc<Driver>) -> Result<(), NotStarted> {
        let level = driver.call(|core, _| Some(core.protocol.view_layer()?.state().last()?.level));
        let levels = self.settings.levels;
        match level {
            Some(level) if !levels.contains(level) => Err(NotStarted::Level { level, levels }),
            Some(_) | None => Ok(()),
        }
    }

    /// The voters that something has arrived from lately. A former member has no link any more, and
    /// may be needed to let it vote no longer: without it nobody would stand for election.
    fn seen(&self, driver: &Arc<Driver>) -> BTreeSet<VoterId> {
        let seen: Vec<_> = driver.call(|core, now| {
            let linked = core.protocol.linked();
            let unlinked = |id: &MemberId| linked.iter().all(|(_, one)| one != id);
            let former = core.protocol.directory().into_iter().flat_map(|one| one.former());
            core.protocol.sees(now).chain(former.filter(unlinked)).collect()
        });
        seen.into_iter().map(|member| VoterId(member.0)).collect()
    }
}
