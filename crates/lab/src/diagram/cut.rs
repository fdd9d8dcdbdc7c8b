//! A part of a scene: the steps that are asked for, or one of several rows.

use super::scene::{Arrow, End, Scene, Span};

impl Scene {
    /// The elements between two times, both included. An arrow that begins or ends at another time
    /// is cut; the share of its way that it has made by then follows the number of steps.
    pub(super) fn cut(&self, first: u64, last: u64) -> Self {
        let is_here = |at: u64| (first..=last).contains(&at);
        let ends_in_time = |end: Option<u64>| end.is_none_or(|end| end >= first);
        let spans = self.spans.iter().filter(|span| span.from <= last && ends_in_time(span.to));
        let arrows =
            self.arrows.iter().filter(|arrow| arrow.sent <= last && ends_in_time(end_of(arrow)));
        let is_end = self.times.range(last..).nth(1).is_none();
        let spans: Vec<_> = spans
            .map(|span| Span { to: span.to.filter(|&to| to <= last), ..span.clone() })
            .collect();
        let marks: Vec<_> = self.marks.iter().filter(|mark| is_here(mark.at)).cloned().collect();
        // Clocks with a view have a point.
        let mut labels =
            spans.iter().map(|span| &span.label).chain(marks.iter().map(|mark| &mark.label));
        let has_views = self.has_views && labels.any(|label| label.contains('.'));
        Self {
            rows: self.rows.clone(),
            times: self.times.range(first..=last).copied().collect(),
            arrows: arrows.map(|arrow| self.cut_arrow(arrow, first, last)).collect(),
            spans,
            marks,
            violations: self.violations.iter().filter(|one| is_here(one.at)).cloned().collect(),
            has_views,
            of_a_section: self.of_a_section,
            kinds: self.kinds.clone(),
            deadlock: self.deadlock.clone().filter(|_| is_end),
        }
    }

    fn cut_arrow(&self, arrow: &Arrow, first: u64, last: u64) -> Arrow {
        let end = end_of(arrow);
        let steps = self.times.range(arrow.sent..end.unwrap_or(u64::MAX)).count().max(1) as f64;
        // A part of a part: the times before it are not known here any more.
        let before = arrow.part.0;
        let share =
            |passed: usize| (1.0 - before).mul_add((passed as f64 - 0.5).max(0.0) / steps, before);
        let mut arrow = arrow.clone();
        if arrow.sent < first {
            arrow.part.0 = share(self.times.range(arrow.sent..first).count());
            // Its whole label stands where it begins.
            arrow.labels.drain(..arrow.labels.len().saturating_sub(1));
        }
        let goes_on = match end {
            Some(end) => end > last,
            None => self.times.range(last..).nth(1).is_some(),
        };
        if goes_on {
            arrow.part.1 = share(self.times.range(arrow.sent..=last).count());
        }
        arrow
    }
}

/// The time at which an arrow ends; none if it is in flight at the end.
fn end_of(arrow: &Arrow) -> Option<u64> {
    match arrow.end {
        End::Received(at) | End::Lost(at) => Some(at),
        End::InFlight => None,
    }
}

#[cfg(test)]
mod tests {
    use mutua_algorithms::NodeId;

    use super::*;
    use crate::diagram::scene::Style;

    #[test]
    fn a_row_of_a_part_shows_the_rest_of_a_message_that_was_sent_before_it() {
        let arrow = Arrow {
            from: NodeId(0),
            to: NodeId(1),
            sent: 1,
            end: End::Received(9),
            style: Style::Plain,
            labels: vec!["m".to_owned()],
            kind: None,
            is_token: false,
            part: (0.0, 1.0),
        };
        let scene = Scene { times: (1..=12).collect(), arrows: vec![arrow], ..Scene::default() };
        let part = scene.cut(5, 12);
        let begins = part.arrows[0].part.0;
        assert!(begins > 0.3, "half of it is before the part: {begins}");
        let row = part.cut(5, 7).arrows[0].part;
        assert!(row.0 >= begins && row.1 > row.0 && row.1 < 1.0, "{row:?} of {begins}");
        let next = part.cut(8, 12).arrows[0].part;
        assert!(next.0 > begins && next.1 >= 1.0, "{next:?} of {begins}");
    }
}
