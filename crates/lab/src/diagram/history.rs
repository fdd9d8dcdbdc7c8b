//! What was before a diagram: a picture that begins in the middle of a run shows who waits, who is
//! in the critical section, who has crashed and who has the token, and the messages in flight.

use std::collections::{BTreeMap, BTreeSet};

use mutua_algorithms::NodeId;

use super::token::Tokens;
use crate::{Event, Header, What};

/// The state of a run at the time at which a diagram's events begin. A long run can be followed in
/// bounded memory by it: its size is that of the system, not of the run.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The events that began what has not ended: requests, entries, crashes, messages in flight.
    pub(super) open: Vec<Event>,
    pub(super) tokens: Tokens,
    /// The kinds of messages, in the order of the first of each, which gives them their colours.
    pub(super) kinds: Vec<String>,
}

impl History {
    /// Goes on with these events, which follow those that it knows.
    pub fn follow(&mut self, header: &Header, events: impl IntoIterator<Item = Event>) {
        let mut all = std::mem::take(&mut self.open);
        let known = all.len();
        all.extend(events);
        let mut open = Open::default();
        for (place, event) in all.iter().enumerate() {
            open.event(place, event);
            if place >= known {
                self.tokens.event(header, event);
                self.learn_kind(&event.what);
            }
        }
        self.tokens.forget_ended();
        self.open = open.events(&all);
    }
}

impl History {
    fn learn_kind(&mut self, what: &What) {
        if let What::Send { message, .. } | What::Multicast { message, .. } = what
            && self.kinds.iter().all(|known| *known != message.kind)
        {
            self.kinds.push(message.kind.to_string());
        }
    }
}

/// A delivery: the sender, the message's number, the receiver.
type Delivery = (NodeId, u64, NodeId);

/// What has not ended, by the places of the events that have begun it.
#[derive(Default)]
struct Open {
    /// The starts of processes, which show all variables.
    starts: BTreeSet<usize>,
    /// The request, the entry or the crash of each process.
    conditions: BTreeMap<NodeId, usize>,
    in_flight: BTreeMap<Delivery, Vec<usize>>,
}

impl Open {
    fn event(&mut self, place: usize, event: &Event) {
        let who = event.who;
        match &event.what {
            What::Start { in_cs } => {
                self.starts.insert(place);
                if *in_cs {
                    self.conditions.insert(who, place);
                }
            }
            What::Request | What::Enter { .. } | What::Crash => {
                self.conditions.insert(who, place);
            }
            What::Exit | What::Restart => {
                self.conditions.remove(&who);
            }
            What::Send { to, message, .. } | What::Duplicate { to, message } => {
                self.sends(place, (who, message.id, *to));
            }
            What::Multicast { to, message } => {
                to.iter().for_each(|&to| self.sends(place, (who, message.id, to)));
            }
            What::AppSend { to, id } => self.sends(place, (who, *id, *to)),
            What::Receive { from, message } => self.arrives((*from, message.id, who)),
            What::Observed { from, id } => self.arrives((*from, *id, who)),
            What::Drop { to, message } => self.arrives((who, message.id, *to)),
            What::Move
            | What::Election
            | What::Timeout { .. }
            | What::Report { .. }
            | What::Elected { .. }
            | What::Timer { .. }
            | What::Cancel { .. }
            | What::Nonsense { .. }
            | What::Violation { .. }
            | What::Note { .. } => {}
        }
    }

    fn sends(&mut self, place: usize, delivery: Delivery) {
        self.in_flight.entry(delivery).or_default().push(place);
    }

    fn arrives(&mut self, delivery: Delivery) {
        if let Some(places) = self.in_flight.get_mut(&delivery) {
            places.remove(0);
            if places.is_empty() {
                self.in_flight.remove(&delivery);
            }
        }
    }

    /// The events at these places; of a multicast, the messages that are still in flight.
    fn events(self, all: &[Event]) -> Vec<Event> {
        let mut receivers: BTreeMap<usize, Vec<NodeId>> = BTreeMap::new();
        for ((_, _, to), places) in self.in_flight {
            for place in places {
                receivers.entry(place).or_default().push(to);
            }
        }
        let conditions: BTreeSet<_> = self.conditions.into_values().collect();
        let mut places = self.starts;
        places.extend(&conditions);
        places.extend(receivers.keys());
        let event = |place: usize| {
            let mut event = all[place].clone();
            match &mut event.what {
                What::Multicast { to, .. } => *to = receivers.remove(&place).unwrap_or_default(),
                // Its client has left the critical section since.
                What::Start { in_cs } if !conditions.contains(&place) => *in_cs = false,
                _ => {}
            }
            event
        };
        places.into_iter().map(event).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagram::{Drawing, draw};

    /// The conditions of processes, and how many messages are drawn. (The slope of a message that
    /// was sent before depends on the number of events that are left out, and with it the room for
    /// its label, and whether the legend explains a short one.)
    fn shown(svg: &str) -> (Vec<&str>, usize) {
        let is_bar = |line: &&str| line.starts_with("<rect class") && !line.contains("ground");
        let bars = svg.lines().filter(is_bar);
        (bars.collect(), svg.matches("<path class=\"message").count())
    }

    /// Every picture that begins in the middle is the same, whether it is cut out of the whole
    /// trace or drawn from the events since then and the state at that time.
    #[test]
    fn a_picture_from_the_middle_needs_no_event_of_before_but_those_that_have_not_ended() {
        let repairs = crate::EXAMPLES.iter().filter(|example| example.text.contains("repair "));
        let mut cuts = 0;
        for example in repairs {
            let played = example.script().unwrap().play().unwrap();
            let last = played.events.last().unwrap().at;
            for first in 1..last {
                let steps = Some((first, last));
                let whole = Drawing { steps, ..Drawing::default() };
                let whole = draw(&played.header, &played.events, &whole);
                let before = played.events.partition_point(|event| event.at < first);
                let mut history = History::default();
                for part in played.events[..before].chunks(7) {
                    history.follow(&played.header, part.iter().cloned());
                }
                let rest = Drawing { steps, history, ..Drawing::default() };
                let rest = draw(&played.header, &played.events[before..], &rest);
                assert_eq!(shown(&whole), shown(&rest), "{} from {first}", example.name);
                cuts += 1;
            }
        }
        assert!(cuts > 100, "{cuts}");
    }
}
