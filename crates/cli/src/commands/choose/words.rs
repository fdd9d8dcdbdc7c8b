//! The ranking in plain words, with the figures behind it.

use comfy_table::{CellAlignment, Table, presets};
use mutua_simulator::{Load, Who};

use super::{
    By, Situation,
    rank::{EQUAL, Ranked, Ranking},
    reasons,
};
use crate::{durations, plot::number, verdict::counted};

pub(super) fn all(situation: &Situation, ranking: &Ranking) -> String {
    let mut text = format!("{}\n\n", told(situation));
    let fit = ranking.fit();
    match fit.first() {
        Some(winner) => {
            text += &format!("Take {}.\n", winner.candidate);
            text += &format!("{}\n", reasons::why(situation, ranking, winner));
        }
        None => text += &format!("{}\n", none_survives(situation, ranking)),
    }
    text += &format!("\n{}\n{}", table(situation, ranking), order_of_rows(situation, ranking));
    for (place, other) in fit.iter().enumerate().skip(1).take(5) {
        let reason = reasons::against(situation, ranking, other);
        text += &format!("{:>2}. {}: {reason}.\n", place + 1, other.candidate);
    }
    for (why, names) in failures(ranking) {
        text += &format!("Failed: {}: {why}.\n", names.join(", "));
    }
    let unfit = ranking.excluded.iter().filter(|one| !one.why.starts_with("kept"));
    for one in unfit {
        text += &format!("Not {}: {}.\n", one.algorithm, one.why);
    }
    text
}

/// The situation, as it was understood.
fn told(situation: &Situation) -> String {
    let regions = if situation.has_regions() {
        let sizes: Vec<_> = situation.regions.iter().map(u32::to_string).collect();
        format!(" in regions of {}", sizes.join(", "))
    } else {
        String::new()
    };
    let asking = match situation.workload.who {
        Who::Hot(1) => ", of which only the first asks".to_owned(),
        Who::Hot(hot) => format!(", of which only the first {hot} ask"),
        _ => String::new(),
    };
    let rest = match &situation.workload.load {
        Load::Think(rest) => durations::show_distribution(rest),
        _ => "0ns".to_owned(),
    };
    let hold = durations::show_distribution(&situation.workload.hold);
    let mean = durations::show(situation.network.mean_latency());
    let links = if situation.network.fifo { "" } else { ", links change the order" };
    let faults = faults(situation).iter().map(|fault| format!("; {fault}")).collect::<String>();
    format!(
        "{}{regions}{asking}; a message takes {mean} on average{links}{faults}; clients stay \
         inside {hold} and rest {rest}; {} simulated with each of {}.",
        counted(situation.nodes.into(), "process"),
        counted(situation.entries, "entry"),
        counted(situation.runs, "seed")
    )
}

/// What the network does to messages and processes that it should not.
fn faults(situation: &Situation) -> Vec<String> {
    let network = &situation.network;
    let mut faults = Vec::new();
    if network.loss > 0.0 {
        faults.push(format!("{} of the messages are lost", percent(network.loss)));
    }
    if network.duplication > 0.0 {
        faults.push(format!("{} of the messages arrive twice", percent(network.duplication)));
    }
    if !network.partitions.is_empty() {
        faults.push("the network is cut in two for a while".to_owned());
    }
    if !network.outages.is_empty() {
        faults.push(format!(
            "there {}",
            match network.outages.len() {
                1 => "is a crash".to_owned(),
                count => format!("are {count} crashes"),
            }
        ));
    }
    faults
}

/// That there is nothing to take, and why.
fn none_survives(situation: &Situation, ranking: &Ranking) -> String {
    let faults = faults(situation);
    let count = ranking.failed().len() as u64;
    let why = if faults.is_empty() {
        "see below how each of them failed".to_owned()
    } else {
        format!(
            "they count on every message to arrive once and on every process to stay up, but {}",
            faults.join(" and ")
        )
    };
    let none = match count {
        1 => "The only candidate does not survive".to_owned(),
        _ => format!("None of the {count} candidates survives"),
    };
    format!("{none} this: {why}.")
}

/// How the rows are ordered.
fn order_of_rows(situation: &Situation, ranking: &Ranking) -> String {
    if ranking.fit().len() < 2 {
        return "\n".to_owned();
    }
    let (by, percent) = (situation.by.text(), number(100.0 * EQUAL));
    let first = if situation.may_fail { "fatal failures, then by " } else { "" };
    let ties = match ranking.equals(situation).len() {
        0 | 1 => format!("nobody else is within {percent} % of the best"),
        _ if situation.by == By::Messages => {
            format!("what is within {percent} % of the best counts as equal, and bytes decide")
        }
        equals => format!(
            "1 to {equals} are within {percent} % of the best, which counts as equal, and stand \
             by messages"
        ),
    };
    format!("In the order of {first}{by}; {ties}.\n\n")
}

/// The names of those that failed, by how they did.
fn failures(ranking: &Ranking) -> Vec<(String, Vec<&str>)> {
    let mut all: Vec<(String, Vec<&str>)> = Vec::new();
    for one in ranking.failed() {
        let why = one.reasons.join("; ");
        match all.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names.push(&one.candidate),
            None => all.push((why, vec![&one.candidate])),
        }
    }
    all
}

fn table(situation: &Situation, ranking: &Ranking) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut header = vec![
        "",
        "candidate",
        "mean wait",
        "1 in 100",
        "found free",
        "if free",
        "hand over",
        "messages",
    ];
    if situation.has_regions() {
        header.push("between regions");
    }
    header.push("most bypassed");
    if situation.may_fail {
        header.push("fatal failures");
    }
    let columns = header.len();
    table.set_header(header);
    for (place, one) in ranking.ranking.iter().enumerate() {
        table.add_row(if one.failed {
            // What it measured until it failed is nothing to compare.
            let mut row = vec!["-".to_owned(), one.candidate.clone(), "failed".to_owned()];
            row.resize(columns, "-".to_owned());
            row
        } else {
            row(situation, place + 1, one)
        });
    }
    for column in (2..columns).chain([0]) {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn row(situation: &Situation, place: usize, one: &Ranked) -> Vec<String> {
    let time = |time: Option<f64>| time.map_or_else(|| "-".to_owned(), seconds);
    let count = |count: Option<f64>| count.map_or_else(|| "-".to_owned(), number);
    let width =
        one.wait_half_width.map_or_else(String::new, |width| format!(" +-{}", seconds(width)));
    let mut row = vec![
        place.to_string(),
        one.candidate.clone(),
        time(one.wait) + &width,
        time(one.wait_p99),
        one.found_free.map_or_else(|| "-".to_owned(), percent),
        time(one.client_delay),
        time(one.sync_delay),
        count(one.messages),
    ];
    if situation.has_regions() {
        row.push(count(one.far_messages));
    }
    row.push(one.max_bypass.to_string());
    if situation.may_fail {
        row.push(format!("{} of {}", one.failures_fatal, one.failures_tried));
    }
    row
}

/// A share of 1.
pub(super) fn percent(share: f64) -> String {
    if share > 0.0 && share < 0.0005 {
        return "< 0.1 %".to_owned();
    }
    format!("{} %", number((1000.0 * share).round() / 10.0))
}

pub(super) fn seconds(time: f64) -> String {
    durations::show((time * 1e9 * 100.0).round() / 100.0)
}
