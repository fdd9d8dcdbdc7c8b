//! The tables of the single measures, and of the other halves.

use super::{
    super::{Block, Table, number, summary::Summary},
    figure, heading,
};
use crate::{piece::NAMES, statistics::Contended, systems::CONTENDERS};

pub(super) fn blocks(summary: &Summary) -> Vec<Block> {
    let mut blocks = vec![heading("(a) Alone, and (d) eight clients with a name each")];
    blocks.push(Block::Table(alone(summary)));
    blocks.push(Block::Plot("again.svg", "microseconds to lock and unlock again"));
    for count in CONTENDERS {
        blocks.push(heading(&format!("(b) {count} contenders, released at once")));
        blocks.push(Block::Table(contended(summary, count)));
        if count == 64 {
            blocks.push(Block::Plot("handovers-64.svg", "hand-overs per second, 64 contenders"));
        }
    }
    blocks.push(heading("(c) Held for 120 ms"));
    blocks.push(Block::Paragraph(
        "Delay: from a release to the next grant, over the hand-overs to another contender. With \
         polling or an unfair lock the last holder mostly acquires again, so hand-overs are few, \
         and only the fastest polls are among them. Hand-overs are those of one round, out of all \
         its grants."
            .to_owned(),
    ));
    blocks.push(Block::Table(long(summary)));
    blocks.push(Block::Plot("delay.svg", "microseconds from a release to the next grant"));
    blocks.push(heading("(e) Memory"));
    blocks.push(Block::Table(memory(summary)));
    blocks.extend(halves(summary));
    blocks
}

fn alone(summary: &Summary) -> Table {
    let mut table = Table::new(&[
        "",
        "again, p50 us",
        "p99 us",
        "a new name each time, p50 us",
        "p99 us",
        "eight with a name each, pairs/s",
    ]);
    for row in &summary.rows {
        if row.again.is_none() {
            continue;
        }
        let (again, fresh) = (row.again.as_ref(), row.fresh.as_ref());
        table.rows.push(vec![
            row.title.clone(),
            figure(again.map(|pairs| pairs.p50_us)),
            figure(again.map(|pairs| pairs.p99_us)),
            figure(fresh.map(|pairs| pairs.p50_us)),
            figure(fresh.map(|pairs| pairs.p99_us)),
            figure(row.names.as_ref().map(|pairs| pairs.per_s)),
        ]);
    }
    debug_assert_eq!(NAMES, 8);
    table
}

fn contended(summary: &Summary, count: usize) -> Table {
    let mut table = Table::new(&[
        "",
        "hand-overs/s",
        "acquired again/s",
        "wait p50, us",
        "p99",
        "max",
        "fairness",
        "CPU per hand-over: servers, us",
        "clients, us",
    ]);
    let spread = count == 3;
    if spread {
        table.head.push("hand-overs/s, worst and best round".to_owned());
    }
    for row in &summary.rows {
        let Some(one) = row.empty.get(&count) else { continue };
        let mut cells = vec![
            row.title.clone(),
            number(one.handovers_per_s),
            number(one.entries_per_s - one.handovers_per_s),
            number(one.wait_p50_us),
            number(one.wait_p99_us),
            number(one.wait_max_us),
            format!("{:.2}", one.fairness),
            number(one.server_cpu_us),
            number(one.client_cpu_us),
        ];
        if spread {
            let words = |(worst, best)| format!("{} to {}", number(worst), number(best));
            cells.push(row.spread.map_or("-".to_owned(), words));
        }
        table.rows.push(cells);
    }
    table
}

fn long(summary: &Summary) -> Table {
    let mut table = Table::new(&[
        "",
        "3: delay p50, us",
        "p99",
        "hand-overs",
        "fairness",
        "CPU per hand-over, us",
        "8: delay p50, us",
        "hand-overs",
        "64: delay p50, us",
        "hand-overs",
    ]);
    for row in &summary.rows {
        if row.long.is_empty() {
            continue;
        }
        let of = |count: usize, figure: fn(&Contended) -> f64| {
            let delays = |one: &&Contended| one.delay_p50_us > 0.0;
            row.long.get(&count).filter(delays).map(figure)
        };
        let handovers = |count| {
            let words = |one: &Contended| {
                let entries = one.handovers as f64 * one.entries_per_s / one.handovers_per_s;
                let entries = if one.handovers == 0 { 0.0 } else { entries };
                format!("{} of {entries:.0}", one.handovers)
            };
            row.long.get(&count).map_or("-".to_owned(), words)
        };
        let three = row.long.get(&3);
        table.rows.push(vec![
            row.title.clone(),
            figure(of(3, |one| one.delay_p50_us)),
            figure(of(3, |one| one.delay_p99_us)),
            handovers(3),
            three.map_or("-".to_owned(), |one| format!("{:.2}", one.fairness)),
            figure(three.map(|one| one.server_cpu_us + one.client_cpu_us)),
            figure(of(8, |one| one.delay_p50_us)),
            handovers(8),
            figure(of(64, |one| one.delay_p50_us)),
            handovers(64),
        ]);
    }
    table
}

fn memory(summary: &Summary) -> Table {
    let mut table = Table::new(&[
        "",
        "servers idle, MiB",
        "servers loaded, MiB",
        "one contender idle, MiB",
        "one of 64 contenders, loaded, MiB",
    ]);
    let mib = |kib: f64| if kib == 0.0 { "-".to_owned() } else { number(kib / 1024.0) };
    for row in &summary.rows {
        let (few, many) = (row.empty.get(&3), row.empty.get(&64));
        if few.or(many).is_none() {
            continue;
        }
        table.rows.push(vec![
            row.title.clone(),
            mib(row.server_idle_kib),
            mib(row.server_loaded_kib),
            mib(few.or(many).map_or(0.0, |one| one.client_idle_kib as f64)),
            mib(many.map_or(0.0, |one| one.client_loaded_kib as f64)),
        ]);
    }
    table
}

fn halves(summary: &Summary) -> Vec<Block> {
    let Some(halves) = &summary.halves else { return Vec::new() };
    let mut queues = Table::new(&[
        "simulator",
        "million events/s",
        "bare wheel",
        "bare binary heap",
        "of the wheel",
        "of the heap",
    ]);
    for one in &halves.simulator {
        queues.rows.push(vec![
            format!("{}, {} processes, {}", one.algorithm, number(one.nodes.into()), one.load),
            number(one.events_per_s / 1e6),
            number(one.wheel_per_s / 1e6),
            number(one.heap_per_s / 1e6),
            number(one.events_per_s / one.wheel_per_s),
            number(one.events_per_s / one.heap_per_s),
        ]);
    }
    let mut checkers =
        Table::new(&["checker", "states", "seconds", "thousand states/s", "Mutua is faster by"]);
    let rate = |one: &crate::halves::Checked| one.states as f64 / one.seconds;
    for one in &halves.checker {
        let ours = halves.checker.iter().find(|two| two.model == one.model && two.tool == "Mutua");
        checkers.rows.push(vec![
            format!("{}: {}", one.model, one.tool),
            one.states.to_string(),
            number(one.seconds),
            number(rate(one) / 1e3),
            figure(ours.map(|ours| rate(ours) / rate(one))),
        ]);
    }
    let checks = format!(
        "The same model in all three: one thread, every interleaving, safety properties. The run \
         fails unless all three find the same number of states. Spin's time is that of its \
         generated program; generating and compiling it takes {} s more for each model.",
        number(halves.spin_build_s)
    );
    let mut blocks = vec![
        heading("The simulator against bare event queues"),
        Block::Paragraph(format!("Load {} to {}.", halves.load_before, halves.load_after)),
        Block::Table(queues),
        heading("The checker against Stateright and Spin"),
        Block::Paragraph(checks),
        Block::Table(checkers),
    ];
    if !halves.errors.is_empty() {
        blocks.push(Block::List(halves.errors.clone()));
    }
    blocks
}
