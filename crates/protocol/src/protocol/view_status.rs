//! What a node shows and logs of the views that consensus decides.

use std::{collections::BTreeSet, time::Duration};

use super::Protocol;
use crate::{
    Level, Member, Moment, ViewStatus,
    status::milliseconds,
    views::{Instance, MemberId, Stage},
};

impl Protocol {
    /// The status of the view that this node is in or joins.
    pub(crate) fn view_status(&self, now: Moment) -> Option<ViewStatus> {
        let layered = self.layered.as_ref()?;
        let view = layered.layer.view()?;
        let link = |id: &MemberId| layered.member(*id);
        let instances = |all: &BTreeSet<Instance>| {
            all.iter().filter_map(|one| layered.member(one.member)).collect()
        };
        let row = |(of, sees): (MemberId, &BTreeSet<Instance>)| Some((link(&of)?, instances(sees)));
        Some(ViewStatus {
            number: view.number.0,
            members: layered.members(view),
            voters: view.voters.iter().filter_map(link).collect(),
            keepers: instances(&view.keepers),
            lease_left_ms: milliseconds(layered.layer.grants_until(now), now),
            records: layered.layer.records(),
            incarnations: view
                .everybody()
                .iter()
                .filter_map(|one| Some((layered.member(one.member)?, one.incarnation.0)))
                .collect(),
            level: view.level,
            rules: view.rules_number(),
            begins_in_ms: layered
                .layer
                .begins_in(now)
                .map(|left| milliseconds(now.after(left), now)),
            reach: layered.layer.reach(now).filter_map(row).collect(),
        })
    }

    /// Why this node is in no view yet, for the status.
    pub(super) fn joining(&self, now: Option<Moment>) -> Option<String> {
        let layer = &self.layered.as_ref()?.layer;
        let Some(view) = layer.view() else {
            let last = layer.state().last_number();
            return Some(match last.0 {
                0 => "no view is decided yet".to_owned(),
                last => format!("view {last} is decided without this node"),
            });
        };
        if let Some(why) = self.layered.as_ref()?.unfollowed_rules() {
            return Some(why);
        }
        let number = view.number.0;
        match layer.stage() {
            Stage::Joining => Some(format!("view {number} is being joined")),
            Stage::Reported | Stage::Waiting { .. } => Some(match layer.waits_for_clients() {
                true => waiting_for_clients(number, now.and_then(|now| layer.begins_in(now))),
                false => format!(
                    "view {number} begins when all its members have reported and all earlier view \
                     leases have ended"
                ),
            }),
            Stage::Out | Stage::Begun | Stage::Leaving => None,
        }
    }

    /// Logs the view that was decided last: a warning if it is without a member of the one before,
    /// unless this process was not in that: a node that starts reads what was decided long ago.
    pub(super) fn log_decision(&mut self) {
        let Some(layered) = &mut self.layered else { return };
        let Some(view) = layered.layer.state().last() else { return };
        let (number, members) = (view.number, layered.members(view));
        let with_me = view.members.contains(&layered.layer.me());
        let was_with_me = std::mem::replace(&mut layered.logged_with_me, with_me);
        let before = std::mem::replace(&mut layered.logged, members.clone());
        let lost: Vec<_> = before.into_iter().filter(|one| !members.contains(one)).collect();
        let names = |members: &[Member]| {
            let names: Vec<_> = members.iter().map(|&one| self.name(one)).collect();
            names.join(", ")
        };
        let (level, without) = match lost.as_slice() {
            [] => (Level::Info, String::new()),
            lost => {
                let level = if was_with_me { Level::Warning } else { Level::Info };
                (level, format!(" without {}", names(lost)))
            }
        };
        let text = format!("view {number} is decided{without}: {}", names(&members));
        self.log(level, text);
    }
}

/// The reason for the wait of a view whose members have no records of clients' holds. The time is
/// rounded up: it is a bound.
fn waiting_for_clients(number: u64, left: Option<Duration>) -> String {
    let left =
        left.map(|left| format!(" up to {:.1} s", (left.as_secs_f64() * 10.0).ceil() / 10.0));
    let left = left.unwrap_or_default();
    format!(
        "view {number} is waiting{left} for leases that clients got before all members restarted"
    )
}
