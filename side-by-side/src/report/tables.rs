//! The texts and tables of the report, block by block.

mod losses;
mod measures;

pub(super) use losses::losses;

use super::{
    Block, Table, number,
    summary::Summary,
    targets::{self, Target},
};

pub(super) fn blocks(summary: &Summary) -> Vec<Block> {
    let mut blocks = vec![Block::Heading(1, "Side by side".to_owned())];
    blocks.extend(beginning(summary));
    blocks.push(heading("In short"));
    blocks.push(Block::Table(main_table(summary)));
    blocks.push(Block::Paragraph(
        "Contenders are processes of their own, and the library has a node in each of them; only \
         in rows with `tasks` do several contenders share a process and its node. In the plots Mutua \
         is blue, its peers are orange, and the limits are grey: a mutex, a TCP ping and a token \
         ring. A lock may hand over faster than the ring, because it may alternate between two \
         processes that are awake, while the ring's token visits all."
            .to_owned(),
    ));
    blocks.push(Block::Plot("handovers.svg", "hand-overs per second, 3 contenders"));
    blocks.extend(ratios(summary));
    blocks.push(heading("Where Mutua loses"));
    blocks.push(Block::List(losses(summary)));
    blocks.push(heading("Guarantees"));
    blocks.push(Block::Table(guarantees(summary)));
    blocks.extend(measures::blocks(summary));
    blocks.push(heading("Mutual exclusion"));
    blocks.extend(exclusion(summary));
    blocks
}

fn heading(words: &str) -> Block {
    Block::Heading(2, words.to_owned())
}

fn beginning(summary: &Summary) -> Vec<Block> {
    let meta = &summary.meta;
    let rounds = summary.rows.iter().map(|row| row.rounds).max().unwrap_or(0);
    let kind = if meta.quick { "A quick run" } else { "A full run" };
    let (least, most) = summary.load;
    let versions: Vec<_> =
        meta.versions.iter().map(|(name, version)| format!("{name}: {version}")).collect();
    vec![
        Block::Paragraph(format!(
            "{kind} of {}, Mutua at {}, on {}; {} for what is synced. Everything on one machine, \
             over loopback: the figures contain no network latency. Rounds, all systems in turns: \
             {rounds}; medians shown. The machine's load (runnable processes, mean of a \
             minute) was {} to {} before and after the pieces; the benchmark itself is part of \
             that.",
            meta.date,
            meta.commit,
            meta.machine,
            meta.disk,
            number(least),
            number(most),
        )),
        Block::Paragraph(format!("Versions: {}.", versions.join("; "))),
    ]
}

/// The table that the README shows too.
pub(super) fn main_table(summary: &Summary) -> Table {
    let mut table = Table::new(&[
        "",
        "lock and unlock again, us",
        "a new name, us",
        "hand-overs/s of 3",
        "of 8",
        "of 64",
        "release to next grant, held for 120 ms, us",
    ]);
    for row in &summary.rows {
        let handovers = |count| row.empty.get(&count).map(|figures| figures.handovers_per_s);
        table.rows.push(vec![
            row.title.clone(),
            figure(targets::pair(row)),
            figure(row.fresh.as_ref().map(|pairs| pairs.p50_us)),
            figure(handovers(3)),
            figure(handovers(8)),
            figure(handovers(64)),
            figure(targets::delay_of_three(row)),
        ]);
    }
    table
}

fn figure(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), number)
}

fn ratios(summary: &Summary) -> Vec<Block> {
    let held = summary.targets.iter().filter(|target| target.holds() == Some(true)).count();
    let set = summary.targets.iter().filter(|target| target.wanted.is_some()).count();
    let words = format!(
        "How many times better Mutua is in this run (below 1: worse), with the target in \
         parentheses: {held} of {set} targets are met, the others are **bold**. Profiles are in \
         side-by-side/NOTES.md."
    );
    let mut blocks = vec![heading("Ratios"), Block::Paragraph(words)];
    let mut sides: Vec<&str> = summary.targets.iter().map(|one| one.ours.as_str()).collect();
    sides.dedup();
    blocks.extend(sides.into_iter().map(|ours| Block::Table(ratios_of(ours, &summary.targets))));
    blocks
}

/// One side of ours: a line for each peer.
fn ratios_of(ours: &str, targets: &[Target]) -> Table {
    let measures = targets::MEASURES.map(|(what, ..)| what);
    let own = || targets.iter().filter(|target| target.ours == ours);
    let mut table = Table::new(&[&format!("{ours}, against")]);
    table.head.extend(measures.iter().map(|what| (*what).to_owned()));
    for target in own() {
        if table.rows.iter().any(|row| row[0] == target.theirs) {
            continue;
        }
        let mut cells = vec![target.theirs.clone()];
        for what in measures {
            let found = own().find(|one| one.theirs == target.theirs && one.what == what);
            cells.push(found.map_or("-".to_owned(), ratio));
        }
        table.rows.push(cells);
    }
    table
}

fn ratio(target: &Target) -> String {
    let ratio = number(target.ratio);
    match (target.holds(), target.wanted) {
        (Some(false), Some(wanted)) => format!("**{ratio}** ({})", number(wanted)),
        (_, Some(wanted)) => format!("{ratio} ({})", number(wanted)),
        (_, None) => ratio,
    }
}

fn guarantees(summary: &Summary) -> Table {
    let mut table = Table::new(&["", "durable", "fair", "survives", "fencing token"]);
    table.words = true;
    for row in &summary.rows {
        let one = row.system.guarantees;
        if table.rows.iter().any(|known| known[0] == one.system) {
            continue;
        }
        let cells = [&one.system, &one.durable, &one.fair, &one.survives, &one.fencing];
        table.rows.push(cells.map(String::clone).to_vec());
    }
    table
}

/// The check of mutual exclusion during the run, and its result.
fn exclusion(summary: &Summary) -> Vec<Block> {
    let handovers: u64 = summary.rows.iter().map(|row| row.entries).sum();
    let mut list = Vec::new();
    for row in &summary.rows {
        if row.violations > 0 {
            list.push(format!(
                "**{}**: {} entries while another process held the lock.",
                row.title, row.violations
            ));
        }
        if let Some(falls @ 1..) = row.fence_violations {
            list.push(format!("**{}**: {falls} fencing tokens did not grow.", row.title));
        }
        list.extend(row.errors.iter().map(|error| format!("{}, {error}", row.title)));
    }
    if list.is_empty() {
        list.push(
            "No two holders at once, every fencing token grew, and no operation failed.".to_owned(),
        );
    }
    let words = format!(
        "On entry each contender reads from a file in memory that no other contender holds the \
         lock, writes its number, and reads it again before it releases. Afterwards all hold times \
         are compared by the machine's clock, and so are the fencing tokens: {handovers} hand-overs."
    );
    vec![Block::Paragraph(words), Block::List(list)]
}
