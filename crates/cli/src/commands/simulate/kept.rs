//! The events of a run that are kept for a diagram, in bounded memory.

use mutua_lab::diagram::{self, History};
use mutua_trace::{Event, Header, What};

/// A diagram shows a few thousand events; so many are kept for it.
const KEPT: usize = 50_000;

/// The part of a run that a diagram shows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Part {
    /// Its beginning.
    Beginning,
    /// The events at these times, in nanoseconds, the first and the last included.
    Times(u64, u64),
    /// The events around the first report of a crash; its beginning if there is none.
    Repair,
}

/// The events of the part, and of the run before it what has not ended by then.
#[derive(Debug)]
pub(super) struct Kept {
    part: Part,
    beginning: Vec<Event>,
    /// The latest events, while the part may still begin, and then its own.
    latest: Vec<Event>,
    /// The run before `latest`.
    history: History,
    /// How many of the latest events are of the part, once it has begun.
    within: Option<usize>,
    /// The times of the first and the last event of the run that a diagram can show.
    pub(super) range: Option<(u64, u64)>,
}

impl Kept {
    pub(super) fn new(part: Part) -> Self {
        Self {
            part,
            beginning: Vec::new(),
            latest: Vec::new(),
            history: History::default(),
            within: None,
            range: None,
        }
    }

    /// The next event of the run. Whether it belongs to the run's beginning.
    pub(super) fn add(&mut self, header: &Header, event: &Event) {
        if diagram::is_drawn(event) {
            let first = self.range.map_or(event.at, |(first, _)| first);
            self.range = Some((first, event.at));
        }
        match self.part {
            Part::Beginning => self.add_to_beginning(event),
            Part::Times(first, last) if event.at <= last => {
                self.add_to_latest(header, event, event.at >= first);
            }
            Part::Times(..) => {}
            Part::Repair => {
                let is_one = matches!(event.what, What::Crash | What::Report { .. });
                self.add_to_beginning(event);
                self.add_to_latest(header, event, is_one);
            }
        }
    }

    /// How many events of the beginning there are so far.
    pub(super) fn len(&self) -> usize {
        self.beginning.len()
    }

    /// The run up to the first event of a diagram, and the events from there on.
    pub(super) fn finish(self) -> (History, Vec<Event>) {
        match (self.part, self.within) {
            (Part::Times(..), _) | (Part::Repair, Some(_)) => (self.history, self.latest),
            (Part::Beginning, _) | (Part::Repair, None) => (History::default(), self.beginning),
        }
    }

    fn add_to_beginning(&mut self, event: &Event) {
        if self.beginning.len() < KEPT {
            self.beginning.push(event.clone());
        }
    }

    fn add_to_latest(&mut self, header: &Header, event: &Event, is_within: bool) {
        if let Some(within) = &mut self.within {
            if *within < KEPT {
                self.latest.push(event.clone());
                *within += 1;
            }
            return;
        }
        self.latest.push(event.clone());
        if is_within {
            self.within = Some(1);
        } else if self.latest.len() >= KEPT {
            let old = self.latest.drain(..KEPT / 2);
            self.history.follow(header, old);
        }
    }
}

#[cfg(test)]
mod tests {
    use mutua_algorithms::NodeId;
    use mutua_trace::{FORMAT, Unit, Values};

    use super::*;

    fn header() -> Header {
        Header {
            format: FORMAT,
            algorithm: "central".to_owned(),
            settings: Values::default(),
            processes: vec!["P0".to_owned(), "P1".to_owned()],
            sections: 1,
            unit: Unit::Nanoseconds,
            title: String::new(),
        }
    }

    /// P0 requests and waits, while P1 enters and exits again and again until the last event.
    fn long(part: Part, last: What) -> Kept {
        let (header, mut kept) = (header(), Kept::new(part));
        kept.add(&header, &Event::new(7, NodeId(0), What::Request));
        for at in 10..200_000 {
            let what = match at % 3 {
                0 => What::Request,
                1 => What::Enter { fencing_token: at },
                _ => What::Exit,
            };
            kept.add(&header, &Event::new(at, NodeId(1), what));
        }
        kept.add(&header, &Event::new(200_000, NodeId(1), last));
        kept
    }

    fn drawn(kept: Kept, from: u64) -> String {
        let (history, events) = kept.finish();
        let steps = Some((from, u64::MAX));
        let drawing = diagram::Drawing { steps, history, ..diagram::Drawing::default() };
        diagram::draw(&header(), &events, &drawing)
    }

    #[test]
    fn a_late_part_of_a_long_run_is_kept_with_the_state_before_it() {
        for (part, last) in
            [(Part::Repair, What::Crash), (Part::Times(199_998, 200_000), What::Request)]
        {
            let kept = long(part, last);
            assert_eq!(kept.range, Some((7, 200_000)));
            let picture = drawn(kept, 199_998);
            assert!(picture.contains("<rect class=\"waiting\""), "P0 still waits: {picture}");
        }
    }

    #[test]
    fn without_a_crash_the_beginning_is_shown() {
        let (_, events) = long(Part::Repair, What::Request).finish();
        assert_eq!((events[0].at, events.len()), (7, KEPT));
    }
}
