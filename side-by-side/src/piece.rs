//! A piece of the whole: one system in one round.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use crate::{
    machine,
    measure::Bench,
    servers::Servers,
    statistics::{Contended, Pairs},
    systems::{CONTENDERS, System},
};

/// What was measured of a system in a round. What is missing was not measured.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Piece {
    pub(crate) system: String,
    pub(crate) round: u32,
    pub(crate) load_before: String,
    pub(crate) load_after: String,
    /// (a) One client that enters again and again, and one with a new name each time.
    pub(crate) again: Option<Pairs>,
    pub(crate) fresh: Option<Pairs>,
    /// (b) Hold time zero, by the number of contenders.
    pub(crate) empty: BTreeMap<usize, Contended>,
    /// (c) Hold time 120 ms.
    pub(crate) long: BTreeMap<usize, Contended>,
    /// (d) Eight clients with a name each.
    pub(crate) names: Option<Pairs>,
    /// (e) Memory of the servers, in KiB.
    pub(crate) server_idle_kib: u64,
    pub(crate) server_loaded_kib: u64,
    /// Errors.
    pub(crate) errors: Vec<String>,
}

/// How long each measure takes.
#[derive(Clone, Debug)]
pub(crate) struct Lengths {
    pub(crate) alone: Duration,
    pub(crate) fresh: Duration,
    pub(crate) empty: [Duration; 3],
    /// None where it is zero.
    pub(crate) long: [Duration; 3],
    pub(crate) names: Duration,
}

impl Lengths {
    /// Three rounds of these take some 20 minutes.
    pub(crate) fn full() -> Self {
        let ms = Duration::from_millis;
        Self {
            alone: ms(600),
            fresh: ms(400),
            empty: [ms(1200), ms(1000), ms(1500)],
            // About 16 and 12 entries.
            long: [ms(2000), ms(1500), ms(1500)],
            names: ms(500),
        }
    }

    pub(crate) fn quick() -> Self {
        let ms = Duration::from_millis;
        Self {
            alone: ms(300),
            fresh: ms(200),
            empty: [ms(700), ms(500), ms(1000)],
            long: [ms(1300), Duration::ZERO, Duration::ZERO],
            names: ms(300),
        }
    }
}

/// The hold time in (c).
pub(crate) const LONG: Duration = Duration::from_millis(120);

/// How many clients with a name each in (d).
pub(crate) const NAMES: usize = 8;

/// A system must give its first lock within this time.
const START: Duration = Duration::from_secs(40);

/// Starts a system, measures it, ends it. What fails is written down in the piece.
pub(crate) async fn measure(system: &System, round: u32, lengths: &Lengths) -> Piece {
    let mut piece = Piece { system: system.id.clone(), round, ..Piece::default() };
    piece.load_before = machine::load();
    if let Err(error) = measure_into(&mut piece, system, lengths).await {
        piece.errors.push(format!("{error:#}"));
    }
    piece.load_after = machine::load();
    piece
}

async fn measure_into(piece: &mut Piece, system: &System, lengths: &Lengths) -> Result<()> {
    let kind = &system.kind;
    let mut servers = Servers::start(kind)?;
    let mut bench = Bench::new(&mut servers);
    warm_up(&mut bench, system).await?;
    piece.server_idle_kib = bench.server_kib();
    let alone = kind.processes_alone();
    if kind.alone() {
        let result = bench.alone(alone, false, lengths.alone).await;
        piece.again = note(&mut piece.errors, "(a)", result);
    }
    if kind.fresh() {
        let result = bench.alone(alone, true, lengths.fresh).await;
        piece.fresh = note(&mut piece.errors, "(a), new names", result);
    }
    for (index, count) in CONTENDERS.into_iter().enumerate() {
        if !kind.contends(count) {
            continue;
        }
        let processes = kind.processes(count);
        let result = bench.contend(&processes, Duration::ZERO, lengths.empty[index]).await;
        let what = format!("(b) with {count}");
        piece.empty.extend(note(&mut piece.errors, &what, result).map(|one| (count, one)));
        if lengths.long[index].is_zero() {
            continue;
        }
        let result = bench.contend(&processes, LONG, lengths.long[index]).await;
        let what = format!("(c) with {count}");
        piece.long.extend(note(&mut piece.errors, &what, result).map(|one| (count, one)));
    }
    if kind.names() {
        let result = bench.names(NAMES, lengths.names).await;
        piece.names = note(&mut piece.errors, "(d)", result);
    }
    piece.server_loaded_kib = bench.loaded_kib;
    Ok(())
}

/// Runs a client for a moment, as soon as the servers serve: they have found a leader then, and
/// have run every part of their code.
async fn warm_up(bench: &mut Bench<'_>, system: &System) -> Result<()> {
    if !system.kind.alone() {
        return Ok(());
    }
    let begun = Instant::now();
    let processes = system.kind.processes_alone();
    loop {
        match bench.alone(processes, false, Duration::from_millis(300)).await {
            Ok(_) => return Ok(()),
            Err(error) if begun.elapsed() > START => {
                return Err(error).context("no lock was given at the beginning");
            }
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}

fn note<T>(errors: &mut Vec<String>, what: &str, result: Result<T>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            errors.push(format!("{what}: {error:#}"));
            None
        }
    }
}
