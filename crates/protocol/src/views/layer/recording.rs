//! Records on their way from hosts to keepers.

use mutua_algorithms::FencingToken;

use super::{Instance, Message, Record, ViewEffect, ViewLayer, ViewNumber};
use crate::Moment;

impl ViewLayer {
    /// Records what a client outside the process is about to hold; [`ViewEffect::Recorded`]
    /// follows when all keepers have it. If the view ends before its client was notified, it holds
    /// nothing: it waits again, and is not in the report. Were it reported, a later view could
    /// begin without this node, grant the lock with a higher token and be forgotten, and then the
    /// client would learn of the lower one.
    pub fn record(&mut self, now: Moment, record: Record) {
        self.advance(now);
        self.unlogged.retain(|known| known.name != record.name);
        if self.begun().is_some() {
            self.unlogged.push(record);
        }
        self.send_records();
        self.repeat_longest();
        self.settle(now);
    }

    /// The client's hold is over: released, or its session has expired. Keepers hear of it with the
    /// next batch.
    pub fn release_record(&mut self, name: &[u8], token: FencingToken) {
        self.unlogged.retain(|known| known.name != name);
        self.host.over(name, token);
    }

    /// Whether this node keeps a record of a lock that is held with this token.
    pub fn keeps(&self, name: &[u8], token: FencingToken) -> bool {
        self.keeper.get(name).is_some_and(|record| record.token == token)
    }

    /// The records whose hosts are not in the view that has begun: no member knows of them yet, or
    /// none ever will.
    pub fn orphans(&self) -> impl Iterator<Item = &Record> {
        let view = self.begun();
        let has_host = move |host| view.is_some_and(|view| view.members.contains(host));
        self.keeper.records().filter(move |record| !has_host(&record.host))
    }

    /// Whether a TTL may be granted: a wait for lost records lasts that long.
    fn is_logged(&self, record: &Record) -> bool {
        record.ttl <= self.state.longest()
    }

    fn repeat_longest(&mut self) {
        let longest = self.unlogged.iter().map(|record| record.ttl).max();
        let news = longest.filter(|&ttl| ttl > self.state.longest());
        let propose = news.map(|ttl| ViewEffect::Propose(crate::views::Command::Longest(ttl)));
        self.effects.extend(propose);
    }

    /// Sends what may be sent and has not been acknowledged.
    fn send_records(&mut self) {
        let Some(view) = self.begun().cloned() else { return };
        let unlogged = std::mem::take(&mut self.unlogged);
        for record in unlogged {
            // Without a keeper no client outside the process can be granted anything.
            if self.is_logged(&record) && !view.keepers.is_empty() {
                self.host.begin(&view, record);
            } else {
                self.unlogged.push(record);
            }
        }
        for keeper in &view.keepers {
            let records = self.host.due(keeper.member);
            if !records.is_empty() {
                self.send(keeper.member, Message::Keep { view: view.number, records });
            }
        }
    }

    pub(super) fn repeat_records(&mut self) {
        self.send_records();
        self.repeat_longest();
        self.send_over();
    }

    /// Sends the keepers which holds are over, without waiting for the next batch.
    pub fn send_over(&mut self) {
        let Some(view) = self.begun().cloned() else { return };
        let over = self.host.take_over();
        for keeper in view.keepers.iter().filter(|_| !over.is_empty()) {
            self.send(keeper.member, Message::Over { view: view.number, over: over.clone() });
        }
    }

    fn keeps_in(&self, view: ViewNumber) -> bool {
        self.begun().is_some_and(|known| known.number == view && known.keepers.contains(&self.me))
    }

    /// A keeper keeps records of the view that it has begun and not left, and no others: what it
    /// acknowledges is in its report to the next view.
    pub(super) fn on_keep(
        &mut self,
        from: Instance,
        view: ViewNumber,
        records: Vec<(u64, Record)>,
    ) {
        let member = self.begun().is_some_and(|known| known.members.contains(&from));
        if !member || !self.keeps_in(view) {
            return;
        }
        let numbers = records.iter().map(|(number, _)| *number).collect();
        for (number, record) in records {
            // A host numbers its records in order, and a copy of an earlier one may arrive late.
            let last = self.last_kept.entry(record.name.clone()).or_insert((from, number));
            if last.0 != from || last.1 <= number {
                *last = (from, number);
                self.keeper.keep(record);
            }
        }
        let incarnation = from.incarnation;
        self.send(from.member, Message::Kept { view, incarnation, numbers });
    }

    pub(super) fn on_kept(&mut self, from: Instance, view: ViewNumber, numbers: &[u64]) {
        let keeper =
            self.begun().is_some_and(|known| known.number == view && known.keepers.contains(&from));
        if keeper {
            for &number in numbers {
                let record = self.host.kept(from.member, number);
                self.effects.extend(record.map(ViewEffect::Recorded));
            }
        }
    }

    pub(super) fn on_over(
        &mut self,
        from: Instance,
        view: ViewNumber,
        over: &[(Vec<u8>, FencingToken)],
    ) {
        if self.keeps_in(view) {
            for (name, token) in over {
                self.keeper.drop(from, name, *token);
                if self.keeper.get(name).is_none() {
                    self.last_kept.remove(name);
                }
            }
        }
    }
}
