//! The reasons for a ranking, from the candidates' figures.

use super::{
    By, Situation,
    rank::{Ranked, Ranking},
};
use crate::words::{counted, number, percent, seconds};

/// The reasons for the winner, as a sentence.
pub fn why(situation: &Situation, ranking: &Ranking, winner: &Ranked) -> String {
    let messages = winner.messages.map_or_else(String::new, number);
    let far = winner.far_messages.map_or_else(String::new, number);
    let mut reasons = vec![match situation.by {
        By::Wait => format!("The mean wait is {}", time(winner.wait)),
        By::Tail => format!("99 in 100 requests wait at most {}", time(winner.wait_p99)),
        By::Messages => format!("An entry costs {messages} messages"),
        By::Far => format!("An entry costs {far} messages between regions"),
    }];
    if matches!(situation.by, By::Wait | By::Tail) {
        reasons.push(contention(winner));
        reasons.extend(advantage(situation, ranking, winner));
    }
    if situation.has_regions() && situation.by != By::Far {
        reasons.push(format!(
            "{far} of its {messages} messages per entry go from one region to another"
        ));
    }
    reasons.extend(ties(situation, ranking));
    reasons.extend(survivors(situation, ranking));
    match winner.cost_of_crash() {
        Some(cost) => reasons.push(cost),
        None if situation.has_crashes() => reasons.push(winner.fatal_crashes()),
        None => {}
    }
    reasons.join("; ") + "."
}

/// How much contention there was.
fn contention(winner: &Ranked) -> String {
    let free = winner.found_free.unwrap_or(0.0);
    let taken = percent(winner.utilisation.unwrap_or(0.0));
    format!(
        "{} of the requests found the critical section free (it is taken {taken} of the time)",
        percent(free)
    )
}

/// One of the two parts of a wait: its words, the share of requests that it concerns, and its
/// length.
struct Part {
    words: &'static str,
    share: fn(&Ranked) -> f64,
    of: fn(&Ranked) -> Option<f64>,
}

const PARTS: [Part; 2] = [
    Part {
        words: "from request to entry without contention",
        share: |one| one.found_free.unwrap_or(0.0),
        of: |one| one.client_delay,
    },
    Part {
        words: "from one exit to the next entry",
        share: |one| 1.0 - one.found_free.unwrap_or(0.0),
        of: |one| one.sync_delay,
    },
];

impl Part {
    /// By how much this part delays the other candidate more, weighted with the share of requests.
    fn excess(&self, winner: &Ranked, other: &Ranked) -> f64 {
        let met = f64::midpoint((self.share)(winner), (self.share)(other));
        let slower = (self.of)(other).zip((self.of)(winner)).map(|(theirs, ours)| theirs - ours);
        met * slower.unwrap_or(0.0)
    }
}

/// The part of the wait in which the winner is ahead of the others, if there is one.
fn advantage(situation: &Situation, ranking: &Ranking, winner: &Ranked) -> Option<String> {
    let behind = &ranking.fit()[ranking.equals(situation).len()..];
    let lead =
        |part: &Part| behind.iter().map(|one| part.excess(winner, one).max(0.0)).sum::<f64>();
    let part = PARTS.iter().max_by(|a, b| lead(a).total_cmp(&lead(b)))?;
    let ours = (part.of)(winner)?;
    let theirs: Vec<_> = behind.iter().filter_map(|one| (part.of)(one)).collect();
    let slower: Vec<_> = theirs.iter().copied().filter(|one| *one > ours * 1.001).collect();
    let (low, high) = ends(&slower);
    // If most others are not slower, this part does not make the difference.
    (2 * slower.len() > theirs.len()).then(|| {
        let (low, high) = (seconds(low), seconds(high));
        let range = if low == high { low } else { format!("{low} to {high}") };
        let of = match (slower.len(), theirs.len()) {
            (1, 1) => "the candidate".to_owned(),
            (some, all) if some == all => format!("the {all} candidates"),
            (some, all) => format!("{some} of the {all} candidates"),
        };
        let (words, ours) = (part.words, seconds(ours));
        format!("it is ahead in the time {words}: {ours}, against {range} of {of} behind it")
    })
}

fn ends(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::MAX, 0.0), |(low, high), &value| (low.min(value), high.max(value)))
}

/// How many candidates did not fail, if some did.
fn survivors(situation: &Situation, ranking: &Ranking) -> Option<String> {
    let seeds = counted(situation.runs, "seed");
    match (ranking.fit().len(), ranking.ranking.len()) {
        (fit, all) if fit == all => None,
        (1, all) => Some(format!("of {all} candidates only this one did not fail with {seeds}")),
        (fit, all) => Some(format!("only {fit} of {all} candidates did not fail with {seeds}")),
    }
}

/// The candidates that are equal but for their messages.
fn ties(situation: &Situation, ranking: &Ranking) -> Option<String> {
    let [winner, equals @ ..] = ranking.equals(situation) else { return None };
    let costs_more = |one: &&Ranked| one.messages > winner.messages.map(|ours| ours * 1.001);
    let names: Vec<_> =
        equals.iter().filter(costs_more).map(|one| one.candidate.as_str()).collect();
    if situation.by == By::Messages {
        return None;
    }
    let percent = percent(ranking.tolerance);
    match names.as_slice() {
        [] => None,
        [one] => Some(format!("{one} is equal within {percent}, but sends more messages")),
        [all @ .., last] => Some(format!(
            "{} and {last} are equal within {percent}, but send more messages",
            all.join(", ")
        )),
    }
}

/// Why a candidate is ranked behind the first.
pub fn against(situation: &Situation, ranking: &Ranking, other: &Ranked) -> String {
    let winner = &ranking.ranking[0];
    if situation.has_repairs() {
        return other.cost_of_crash().unwrap_or_else(|| other.fatal_crashes());
    }
    if other.risk > winner.risk {
        return other.fatal_crashes();
    }
    let equals = ranking.equals(situation);
    if equals.iter().any(|one| one.candidate == other.candidate) {
        return equal(situation, winner, other);
    }
    let (found, best) = (situation.by.of(other), situation.by.of(winner));
    let because = match situation.by {
        By::Messages | By::Far => String::new(),
        By::Wait | By::Tail => slower(situation, winner, other),
    };
    if best <= 0.0 {
        return format!("{} {} instead of none", number(found), situation.by.text());
    }
    format!("{} times the {}{because}", number(found / best), situation.by.text())
}

fn equal(situation: &Situation, winner: &Ranked, other: &Ranked) -> String {
    let (messages, fewer) = (other.messages.unwrap_or(0.0), winner.messages.unwrap_or(0.0));
    let (theirs, ours) = (situation.by.of(other), situation.by.of(winner));
    let off = if (theirs - ours).abs() <= ours * 1e-6 {
        "equal".to_owned()
    } else {
        let sign = if theirs < ours { "less" } else { "more" };
        let by = percent((theirs - ours).abs() / ours.max(1e-12));
        format!("equal within the tolerance ({by} {sign})")
    };
    if messages <= fewer * 1.001 || situation.by == By::Messages {
        return off;
    }
    format!("{off}, but {} messages per entry instead of {}", number(messages), number(fewer))
}

/// The part of the wait that is longer, if one of them is.
fn slower(situation: &Situation, winner: &Ranked, other: &Ranked) -> String {
    let [free, handed] = &PARTS;
    let (finding, handing) = (free.excess(winner, other), handed.excess(winner, other));
    let (theirs, ours) = (other.found_free.unwrap_or(0.0), winner.found_free.unwrap_or(0.0));
    if handing > finding && handing > 0.0 {
        let (slow, fast) = (time(other.sync_delay), time(winner.sync_delay));
        format!(": from one exit to the next entry it takes {slow} instead of {fast}")
    } else if finding > 0.0 {
        let (slow, fast) = (time(other.client_delay), time(winner.client_delay));
        format!(": without contention a request takes {slow} instead of {fast}")
    } else if theirs < ours - 0.005 {
        format!(
            ": {} of the requests find the critical section free instead of {}",
            percent(theirs),
            percent(ours)
        )
    } else if situation.by == By::Tail {
        ": its order of entry makes some requests wait longer".to_owned()
    } else {
        String::new()
    }
}

fn time(time: Option<f64>) -> String {
    time.map_or_else(|| "for an unknown time".to_owned(), seconds)
}
