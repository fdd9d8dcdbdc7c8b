//! The ranking as text, with its measures.

use comfy_table::{CellAlignment, Table, presets};
use mutua_lab::choose::{By, DETECTION, EQUAL, Ranked, Ranking, Situation, reasons};
use mutua_node::DEFAULT_ALGORITHM;
use mutua_simulator::{Load, Who};

use crate::{
    durations,
    words::{counted, number, percent, seconds},
};

pub(super) fn all(situation: &Situation, ranking: &Ranking) -> String {
    let mut text = format!("{}\n\n", summary(situation));
    let fit = ranking.fit();
    match fit.first() {
        Some(_) if is_tie(situation, ranking) => {
            text += &format!(
                "Nothing is to be chosen: {} of {} candidates are equal, {DEFAULT_ALGORITHM} among \
                 them, which a node uses without a rule.\n",
                ranking.equals(situation).len(),
                fit.len()
            );
        }
        Some(winner) => {
            text += &format!("Take {}.\n", winner.candidate);
            text += &format!("{}\n", reasons::why(situation, ranking, winner));
        }
        None => text += &format!("{}\n", none_survives(situation, ranking)),
    }
    text += &format!("\n{}\n{}", table(situation, ranking), order_of_rows(situation, ranking));
    if situation.has_repairs() {
        text += &repaired();
    } else if situation.has_crashes() {
        text += FATAL;
    }
    for (rank, other) in (1..).zip(fit).skip(1).take(5) {
        let reason = reasons::against(situation, ranking, other);
        text += &format!("{rank:>2}. {}: {reason}.\n", other.candidate);
    }
    for (why, names) in failures(ranking) {
        text += &format!("Failed: {}: {why}.\n", names.join(", "));
    }
    let unfit = ranking.excluded.iter().filter(|one| !one.is_control);
    for one in unfit {
        text += &format!("Not {}: {}.\n", one.algorithm, one.why);
    }
    let is_tie = is_tie(situation, ranking);
    text + &if is_tie { OTHERS.to_owned() } else { in_practice(situation, ranking) }
}

/// Whether the best candidates differ in nothing, and the default of nodes is one of them.
fn is_tie(situation: &Situation, ranking: &Ranking) -> bool {
    let equals = ranking.equals(situation);
    let figures = |one: &Ranked| [situation.by.of(one), one.messages.unwrap_or(0.0)];
    let same = |one: &Ranked| {
        let pairs = figures(one).into_iter().zip(figures(&equals[0]));
        pairs.into_iter().all(|(theirs, ours)| (theirs - ours).abs() <= ours * 1e-6)
    };
    let default = equals.iter().any(|one| one.algorithm == DEFAULT_ALGORITHM);
    equals.len() > 1 && default && equals.iter().all(same)
}

const FATAL: &str = "\
A crash is fatal if afterwards a process that is up waits for ever, or two are in the critical
section. Processes and times of crashes are drawn, unless --crash gives them; candidates whose 95 %
interval reaches that of the safest count as equally safe. The other figures are without crashes.

";

fn repaired() -> String {
    format!(
        "A crash is fatal if, without a repair, afterwards a process that is up waits for ever, or \
         two are in\nthe critical section. Lost is the time without entries around a crash that \
         is repaired, beyond that\naround the same moment without the crash: the crash is \
         reported after {} mean latencies, and the\nalgorithm's own repair is used where it \
         suffices, else an election (bully) and a view change.\nProcesses and times of crashes \
         are drawn, unless --crash gives them. A crashed process requests no\nmore: of N that \
         request alike, 1/N of the time between two entries is lost in any case. The other\n\
         figures are without crashes. Le Lann's own repair acknowledges each pass of the token, as \
         many\nmessages again as the algorithm's; no figure counts them.\n\n",
        number(DETECTION)
    )
}

/// The winner in a node's configuration, the default of nodes, and other tools.
fn in_practice(situation: &Situation, ranking: &Ranking) -> String {
    let Some(winner) = ranking.fit().first() else { return OTHERS.to_owned() };
    let dedicated = match winner.candidate.contains("dedicated coordinator") {
        true => "Nodes have no dedicated coordinator: the home of each name coordinates it.\n",
        false => "",
    };
    let edges = match winner.locks.contains("topology = [[") {
        true => format!(
            "The edges of the tree are for a cluster of exactly {}, numbered from 0 in the order \
             of its\nlist of members.\n",
            counted(situation.nodes.into(), "member")
        ),
        false => String::new(),
    };
    let name = DEFAULT_ALGORITHM;
    let rank = ranking.fit().iter().position(|one| one.algorithm == name);
    let rank = match rank {
        Some(0) => "the first here".to_owned(),
        Some(rank) => format!("number {} of {} here", rank + 1, ranking.fit().len()),
        None => "not among those that fit here".to_owned(),
    };
    format!(
        "\nIn the configuration of every node before the cluster is founded; later by `mutua \
         cluster rules FILE`:\n\n{}\n{edges}{dedicated}Without a rule a node uses {name}, \
         {rank}.\n{DEFAULT}{OTHERS}",
        winner.locks
    )
}

const DEFAULT: &str = "\
A node serves many names, most of them free: there the messages and the memory of a name matter
more than the wait for a contended one. Entering again where the token is costs no message, a
hand-over one, finding the token about log N, and the state of a process does not grow with N.
";

const OTHERS: &str = "
Other tools serve better in some situations: flock(1), where all processes run on one machine;
PostgreSQL's advisory locks, where they use one database anyway and its failure stops them anyway;
etcd, where it runs already, or where holds must outlive a power cut of all machines at once.
";

/// The situation in a sentence.
fn summary(situation: &Situation) -> String {
    let regions = if situation.has_regions() {
        let sizes: Vec<_> = situation.regions.iter().map(u32::to_string).collect();
        format!(" in regions of {}", sizes.join(", "))
    } else {
        String::new()
    };
    let requesters = match situation.workload.who {
        Who::Hot(1) => ", of which only the first requests".to_owned(),
        Who::Hot(hot) => format!(", of which only the first {hot} request"),
        _ => String::new(),
    };
    let think = match &situation.workload.load {
        Load::Think(think) => durations::show_distribution(think),
        _ => "0ns".to_owned(),
    };
    let hold = durations::show_distribution(&situation.workload.hold);
    let mean = durations::show(situation.network.mean_latency());
    let links = if situation.network.fifo { "" } else { ", links reorder" };
    let faults = faults(situation).iter().map(|fault| format!("; {fault}")).collect::<String>();
    format!(
        "{}{regions}{requesters}; mean latency {mean}{links}{faults}; hold time {hold}, think \
         time {think}; {} simulated with each of {}.",
        counted(situation.nodes.into(), "process"),
        counted(situation.entries, "entry"),
        counted(situation.runs, "seed")
    )
}

/// The faults of network and processes.
fn faults(situation: &Situation) -> Vec<String> {
    let network = &situation.network;
    let mut faults = Vec::new();
    if network.loss > 0.0 {
        faults.push(format!("{} of the messages are dropped", percent(network.loss)));
    }
    if network.duplication > 0.0 {
        faults.push(format!("{} of the messages are duplicated", percent(network.duplication)));
    }
    if !network.partitions.is_empty() {
        faults.push("the network is partitioned for a time".to_owned());
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

/// The sentence if no candidate survives, and why.
fn none_survives(situation: &Situation, ranking: &Ranking) -> String {
    let faults = faults(situation);
    let count = ranking.failed().len() as u64;
    let why = if faults.is_empty() {
        "see below how each failed".to_owned()
    } else {
        format!(
            "they require that every message is delivered once and no process crashes, but {}",
            faults.join(" and ")
        )
    };
    let none = match count {
        1 => "The only candidate does not survive".to_owned(),
        _ => format!("None of the {count} candidates survives"),
    };
    let least = ranking.failed().first().filter(|one| one.failures_tried > 0);
    let least = least.map_or_else(String::new, |one| {
        format!(" Safest is {}: {}.", one.candidate, one.fatal_crashes())
    });
    format!("{none} this: {why}.{least}")
}

/// How the rows are ordered.
fn order_of_rows(situation: &Situation, ranking: &Ranking) -> String {
    if ranking.fit().len() < 2 {
        return "\n".to_owned();
    }
    let (by, percent) = (situation.by.text(), number(100.0 * EQUAL));
    if situation.has_repairs() {
        return format!(
            "Ordered by the time that a crash costs, then by the messages of its repair, then by \
             {by}; times count\nas equal to the least one where the 95 % intervals meet.\n\n"
        );
    }
    let first = if situation.has_crashes() { "fatal crashes, then by " } else { "" };
    let ties = match ranking.equals(situation).len() {
        0 | 1 => format!("no other is within {percent} % of the best"),
        _ if situation.by == By::Messages => {
            format!("values within {percent} % of the best count as equal and are ordered by bytes")
        }
        equals => format!(
            "1 to {equals} are within {percent} % of the best, count as equal and are ordered by \
             messages"
        ),
    };
    format!("Ordered by {first}{by}; {ties}.\n\n")
}

/// The candidates that failed, by the reason.
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
        "p99 wait",
        "found free",
        "client delay",
        "sync delay",
        "messages",
    ];
    if situation.has_regions() {
        header.push("between regions");
    }
    header.push("most bypassed");
    let fatal_at = situation.has_crashes().then_some(header.len());
    if situation.has_crashes() {
        header.push(if situation.has_repairs() { "fatal unrepaired" } else { "fatal crashes" });
    }
    if situation.has_repairs() {
        header.extend(["lost per crash", "messages per repair"]);
    }
    let columns = header.len();
    table.set_header(header);
    for (index, one) in ranking.ranking.iter().enumerate() {
        table.add_row(if one.failed {
            // Its measures until it failed are not comparable.
            let mut row = vec!["-".to_owned(), one.candidate.clone(), "failed".to_owned()];
            row.resize(columns, "-".to_owned());
            if let Some(at) = fatal_at {
                row[at] = fatal(one);
            }
            row
        } else {
            row(situation, index + 1, one)
        });
    }
    for column in (2..columns).chain([0]) {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn row(situation: &Situation, rank: usize, one: &Ranked) -> Vec<String> {
    let time = |time: Option<f64>| time.map_or_else(|| "-".to_owned(), seconds);
    let count = |count: Option<f64>| count.map_or_else(|| "-".to_owned(), number);
    let width = plus_minus(one.wait_half_width);
    let mut row = vec![
        rank.to_string(),
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
    if situation.has_crashes() {
        row.push(fatal(one));
    }
    if situation.has_repairs() {
        row.push(time(one.lost_time) + &plus_minus(one.lost_time_half_width));
        row.push(count(one.repair_messages));
    }
    row
}

fn plus_minus(width: Option<f64>) -> String {
    width.map_or_else(String::new, |width| format!(" +-{}", seconds(width)))
}

fn fatal(one: &Ranked) -> String {
    let Some((low, high)) = one.failures_interval else { return "-".to_owned() };
    let (low, high) = (100.0 * low, 100.0 * high);
    format!("{} of {} ({low:.0} to {high:.0} %)", one.failures_fatal, one.failures_tried)
}
