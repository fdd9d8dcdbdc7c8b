//! The end of the warm-up.

use mutua_algorithms::Message;

use super::{Length, Stage, World, requests::MOST_PUT_OFF};
use crate::{saturation::Saturation, workload::are_too_few};

impl<M: Message> World<M> {
    /// Whether the warm-up ends after so many entries.
    pub(super) fn is_warm(&mut self, entries: u64) -> bool {
        let Length { warm_up, warm_up_events, extends, .. } = self.length;
        if self.stage != Stage::WarmUp {
            return false;
        }
        if self.measures.events >= warm_up_events || self.put_off >= MOST_PUT_OFF / 2 {
            return true;
        }
        if entries < warm_up {
            return false;
        }
        let Some(saturation) = self.saturation.as_ref().filter(|_| extends) else { return true };
        let wanted = saturation.warm_up();
        if wanted <= entries || saturation.is_overloaded() == Some(true) {
            return true;
        }
        // The load is known better by then.
        self.length.warm_up = wanted.min(2 * entries);
        false
    }

    /// The entries that the warm-up should have had, if it was cut short.
    pub(crate) fn unsettled_before(&self) -> Option<u64> {
        let Length { warm_up, extends, .. } = self.length;
        let measures = &self.measures;
        let is_short = measures.entries_before < warm_up && measures.entries > 0;
        // No warm-up is long enough for a system that is overloaded.
        (is_short && !self.is_overloaded()).then(|| {
            let open = self.saturation.as_ref().filter(|_| extends).map(Saturation::warm_up);
            // Where the load cannot be told from 1, at least as many as were tried.
            open.filter(|&wanted| wanted < u64::MAX).map_or(warm_up, |wanted| wanted.max(warm_up))
        })
    }

    /// Whether requests come as fast as they can be granted, or faster, however many wait.
    pub(crate) fn is_overloaded(&self) -> bool {
        let clients = self.clients.active().len() as u64;
        let Some(rate) = self.clients.workload.load.rate(clients) else { return false };
        let measures = &self.measures;
        let end = if measures.open { self.now } else { measures.closed_at };
        let time = end.saturating_sub(measures.opened_at) as f64;
        let known = self.saturation.as_ref().and_then(Saturation::is_overloaded);
        self.has_piled_up() || known.unwrap_or_else(|| are_too_few(measures.entries, time, rate))
    }

    /// The entries of a batch whose mean hardly depends on that of the batch before it; without a
    /// bound if the system never settles.
    pub(crate) fn shortest_batch(&self) -> u64 {
        if self.is_overloaded() {
            return u64::MAX;
        }
        self.saturation.as_ref().map_or(0, Saturation::batch)
    }
}
