//! The live picture in a terminal; plain lines elsewhere.

use std::{
    cell::RefCell,
    io::{IsTerminal, stdout},
};

use tokio::time::{Duration, Instant, sleep};

use super::{
    bank::{Bank, State},
    ledger::Ledger,
    result::seconds,
};
use crate::out;

/// The pause between two pictures.
const REDRAW: Duration = Duration::from_millis(100);

/// Where the demonstration is shown.
pub(super) struct Screen {
    began: Instant,
    /// A terminal, or lines, or nothing at all.
    kind: Kind,
    drawn: RefCell<Drawn>,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Kind {
    Picture,
    Lines,
    Quiet,
}

#[derive(Default)]
struct Drawn {
    /// The number of lines of the picture on the screen.
    lines: usize,
    /// The number of transfers a second ago, about.
    rates: Vec<(Duration, u64)>,
}

impl Screen {
    pub(super) fn new(quiet: bool) -> Self {
        let kind = match quiet {
            true => Kind::Quiet,
            false if stdout().is_terminal() => Kind::Picture,
            false => Kind::Lines,
        };
        Self { began: Instant::now(), kind, drawn: RefCell::default() }
    }

    /// Prints a line above the picture.
    pub(super) fn line(&self, text: &str) {
        if self.kind != Kind::Quiet {
            self.clear();
            println!("{:6.1} s  {text}", self.began.elapsed().as_secs_f64());
            out::flush();
        }
    }

    /// Removes the picture.
    pub(super) fn clear(&self) {
        let lines = std::mem::take(&mut self.drawn.borrow_mut().lines);
        if lines > 0 {
            // Up to its first line, and clear all below.
            print!("\x1b[{lines}F\x1b[J");
        }
    }

    /// Draws the picture again and again; it never ends.
    pub(super) async fn keep_drawing(&self, bank: &Bank, names: &[String]) {
        loop {
            if self.kind == Kind::Picture {
                let rate = self.rate(bank.state().ledger.transfers());
                let picture = picture(&bank.state(), names, rate, Instant::now());
                self.clear();
                print!("{picture}");
                out::flush();
                self.drawn.borrow_mut().lines = picture.lines().count();
            }
            sleep(REDRAW).await;
        }
    }

    /// Transfers per second, over the last second.
    fn rate(&self, transfers: u64) -> u64 {
        let now = self.began.elapsed();
        let rates = &mut self.drawn.borrow_mut().rates;
        rates.push((now, transfers));
        rates.retain(|(at, _)| *at + Duration::from_secs(1) >= now);
        let (first, before) = rates[0];
        let passed = (now - first).as_secs_f64().max(REDRAW.as_secs_f64());
        ((transfers - before) as f64 / passed) as u64
    }
}

/// The nodes, one a line, and the bank.
fn picture(state: &State, names: &[String], rate: u64, now: Instant) -> String {
    let holder = state.ledger.holder();
    let leader = state.leader(names);
    let mut text = String::from("\n  node  state                 role    transfers\n");
    for (index, (name, branch)) in names.iter().zip(&state.branches).enumerate() {
        let condition = match &branch.status {
            None => "not running",
            Some(status) if status.suspended.is_some() => "grants suspended",
            Some(_) if holder == Some(index) => "holds the lock",
            Some(_) => "in the view",
        };
        let role = if leader == Some(index) { "leader" } else { "" };
        let transfers = branch.transfers;
        text += &format!("  {name:<5} {condition:<21} {role:<7} {transfers:>9}\n");
    }
    let members = state.branches.iter().filter_map(|branch| branch.status.as_ref());
    let latest = members.max_by_key(|status| status.view);
    let members = latest.map(|status| status.members.join(" ")).unwrap_or_default();
    text += &format!(
        "\n  view {} ({members}), {rate} transfers/s, sum {} of {}, no grant for {}\n",
        state.view(),
        state.ledger.sum(),
        Ledger::expected(),
        seconds(state.grants.since_last(now)),
    );
    text
}
