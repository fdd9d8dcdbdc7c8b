//! The ranking in plain words, with the figures behind it.

use comfy_table::{CellAlignment, Table, presets};

use super::{
    By, Situation,
    rank::{Ranked, Ranking},
};
use crate::{durations, plot::number};

pub(super) fn all(situation: &Situation, ranking: &Ranking) -> String {
    let winner = &ranking.ranking[0];
    let mut text = format!("{}\n\n", told(situation));
    text += &format!("Take {}.\n{}\n", winner.candidate, why(situation, ranking));
    text += &format!("\n{}\n\n", table(situation, ranking));
    for (place, other) in ranking.ranking.iter().enumerate().skip(1).take(5) {
        let reason = against(situation, winner, other);
        text += &format!("{:>2}. {}: {reason}.\n", place + 1, other.candidate);
    }
    let broken = ranking.excluded.iter().filter(|one| !one.why.starts_with("kept"));
    for one in broken {
        text += &format!("Not {}: {}.\n", one.algorithm, one.why);
    }
    text
}

fn told(situation: &Situation) -> String {
    let regions = if situation.has_regions() {
        let sizes: Vec<_> = situation.regions.iter().map(u32::to_string).collect();
        format!(" in regions of {}", sizes.join(", "))
    } else {
        String::new()
    };
    let mean = durations::show(situation.network.mean_latency());
    let hold = durations::show_distribution(&situation.workload.hold);
    format!(
        "{} processes{regions}, a message takes {mean} on average, {hold} inside; {} entries \
         simulated with {} seeds.",
        situation.nodes, situation.entries, situation.runs
    )
}

/// Why the winner won.
fn why(situation: &Situation, ranking: &Ranking) -> String {
    let winner = &ranking.ranking[0];
    let mut reasons = vec![match situation.by {
        By::Wait => format!("One waits {} on average", seconds(winner.wait)),
        By::Tail => format!("1 in 100 waits longer than {}", seconds(winner.wait_p99)),
        By::Messages => format!("An entry costs {} messages", number(winner.messages)),
        By::Far => {
            format!("An entry costs {} messages between regions", number(winner.far_messages))
        }
    }];
    reasons.push(load(winner));
    if situation.has_regions() {
        reasons.push(format!(
            "{} of its {} messages per entry go from one region to another",
            number(winner.far_messages),
            number(winner.messages)
        ));
    }
    let equal = |other: &&Ranked| {
        situation.by.of(other) <= situation.by.of(winner) * 1.02
            && other.messages > winner.messages * 1.001
    };
    let equals: Vec<_> =
        ranking.ranking.iter().skip(1).filter(equal).map(|one| one.candidate.as_str()).collect();
    if !equals.is_empty() && situation.by != By::Messages {
        let equals = equals.join(", ");
        reasons.push(format!("nobody waits longer with {equals}, but they send more messages"));
    }
    if situation.may_fail {
        reasons.push(survival(winner));
    }
    reasons.join("; ") + "."
}

/// What counts under this load: to find the section, or to hand it over.
fn load(winner: &Ranked) -> String {
    let taken = number(100.0 * winner.utilisation);
    let if_free = winner.client_delay.unwrap_or(0.0);
    if winner.wait > 2.0 * if_free {
        let over =
            winner.sync_delay.map_or_else(String::new, |over| format!(" ({})", seconds(over)));
        format!(
            "there is a queue most of the time (somebody is inside {taken} % of it), so what \
             counts is how soon the next one is in after an exit{over}"
        )
    } else {
        let found = seconds(if_free);
        format!(
            "somebody is inside only {taken} % of the time, so what counts is how soon one is in \
             when nobody else wants to ({found})"
        )
    }
}

fn survival(one: &Ranked) -> String {
    match (one.failures_fatal, one.failures_tried) {
        (0, tried) => format!("none of {tried} single failures stopped the others"),
        (fatal, tried) => format!("{fatal} of {tried} single failures stopped the others"),
    }
}

/// What most makes the other one worse.
fn against(situation: &Situation, winner: &Ranked, other: &Ranked) -> String {
    if other.violations > 0 {
        return "it failed in the simulation".to_owned();
    }
    if situation.may_fail && other.failures_fatal > winner.failures_fatal {
        return survival(other);
    }
    let (found, best) = (situation.by.of(other), situation.by.of(winner));
    if found <= best * 1.02 {
        if other.messages <= winner.messages * 1.001 {
            return "just as good".to_owned();
        }
        let (messages, fewer) = (number(other.messages), number(winner.messages));
        return format!("as good, but {messages} messages per entry instead of {fewer}");
    }
    let times = number(found / best.max(1e-12));
    let slower = |a: Option<f64>, b: Option<f64>| a.zip(b).map_or(0.0, |(a, b)| a - b);
    let finding = slower(other.client_delay, winner.client_delay);
    let handing = slower(other.sync_delay, winner.sync_delay);
    let because = match situation.by {
        By::Messages | By::Far => String::new(),
        By::Wait | By::Tail if handing > finding && handing > 0.0 => format!(
            ": handing over takes {} instead of {}",
            seconds(other.sync_delay.unwrap_or(0.0)),
            seconds(winner.sync_delay.unwrap_or(0.0))
        ),
        By::Wait | By::Tail if finding > 0.0 => format!(
            ": getting in takes {} instead of {} even while nobody else wants in",
            seconds(other.client_delay.unwrap_or(0.0)),
            seconds(winner.client_delay.unwrap_or(0.0))
        ),
        By::Wait | By::Tail => ": the order in which it serves costs more".to_owned(),
    };
    format!("{times} times the {}{because}", situation.by.text())
}

fn table(situation: &Situation, ranking: &Ranking) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut header =
        vec!["", "candidate", "mean wait", "1 in 100", "if free", "hand over", "messages"];
    if situation.has_regions() {
        header.push("between regions");
    }
    header.push("most bypassed");
    if situation.may_fail {
        header.push("fatal failures");
    }
    table.set_header(header);
    for (place, one) in ranking.ranking.iter().enumerate() {
        let optional = |time: Option<f64>| time.map_or_else(|| "-".to_owned(), seconds);
        let width =
            one.wait_half_width.map_or_else(String::new, |width| format!(" +-{}", seconds(width)));
        let mut row = vec![
            (place + 1).to_string(),
            one.candidate.clone(),
            seconds(one.wait) + &width,
            seconds(one.wait_p99),
            optional(one.client_delay),
            optional(one.sync_delay),
            number(one.messages),
        ];
        if situation.has_regions() {
            row.push(number(one.far_messages));
        }
        row.push(one.max_bypass.to_string());
        if situation.may_fail {
            row.push(format!("{} of {}", one.failures_fatal, one.failures_tried));
        }
        table.add_row(row);
    }
    for column in (2..9).chain([0]) {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn seconds(time: f64) -> String {
    durations::show((time * 1e9 * 100.0).round() / 100.0)
}
