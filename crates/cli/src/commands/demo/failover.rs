//! `mutua demo failover`: a bank on five nodes goes on through crashes and a partition.

mod bank;
mod branch;
mod faults;
mod ledger;
mod measure;
mod message;
mod network;
mod nodes;
mod result;
mod screen;

pub(crate) use branch::{ARGUMENT, main};

use std::{collections::BTreeSet, process::ExitCode, time::Duration};

use anyhow::Result;
use clap::Args;
use mutua_algorithms::durations;
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{Instant, sleep},
};

use super::Scratch;
use crate::exit::usage;
use bank::Bank;
use faults::{Fault, Outcome};
use ledger::Ledger;
use nodes::{NODES, Nodes};
use result::{RunResult, millis};
use screen::Screen;

/// The end of the help.
pub(crate) const HELP: &str = "\
Five processes, each with a node that votes, transfer money between ten accounts under one lock. \
The accounts are in this command's memory; it refuses writes with an old fencing token. Meanwhile \
nodes are killed and restarted, cut off and paused. A node that was removed from a view several \
times returns later each time (2, 4, 8 s ...).

Columns: longest gap, the longest time in which no node was granted the bank's lock; other locks, \
the longest pause of a lock that only one of the other nodes uses; holder knew before, the time \
between the report to a holder that its lock is lost and the next grant.

Exit codes: 0 the sum is right; 1 the sum is wrong, an old fencing token was used, or the nodes \
did not go on; 64 bad usage; 130 interrupted.";

/// The settings of --quick.
const QUICK_LEASE: Duration = Duration::from_millis(500);
const QUICK_CALM: Duration = Duration::from_millis(300);

/// Run a bank on five nodes, and kill, pause and cut off nodes meanwhile.
#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Time of undisturbed transfers before and after each fault, as in 3, 0.3 or 500ms; a number
    /// alone is seconds; at most 1h [default: 3s].
    #[arg(long, value_name = "DURATION", value_parser = durations::parse)]
    seconds: Option<Duration>,

    /// View lease of the nodes, 300ms to 30s [default: 1.5s, the default of a node].
    #[arg(long, value_name = "DURATION", value_parser = durations::parse)]
    view_lease: Option<Duration>,

    /// Same as --seconds 0.3 --view-lease 0.5.
    #[arg(long, conflicts_with_all = ["seconds", "view_lease"])]
    quick: bool,

    /// Measure instead: cause each fault this many times, 1 to 1000, each time in a new cluster.
    #[arg(long, value_name = "TIMES", conflicts_with_all = ["seconds", "quick"])]
    measure: Option<usize>,

    /// Cause only this fault.
    #[arg(long, value_name = "FAULT", value_enum)]
    only: Option<Fault>,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Arguments {
    fn faults(&self) -> Vec<Fault> {
        self.only.map_or(Fault::ALL.to_vec(), |only| vec![only])
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let quick = arguments.quick;
    let lease = if quick { QUICK_LEASE } else { mutua_node::VIEW_LEASE };
    let lease = arguments.view_lease.unwrap_or(lease);
    if !(Duration::from_millis(300)..=Duration::from_secs(30)).contains(&lease) {
        return Err(usage("--view-lease must be 300ms to 30s"));
    }
    let calm = if quick { QUICK_CALM } else { Duration::from_secs(3) };
    let calm = arguments.seconds.unwrap_or(calm);
    if calm > Duration::from_secs(3600) {
        return Err(usage("--seconds must be at most 1h"));
    }
    if arguments.measure.is_some_and(|times| !(1..=1000).contains(&times)) {
        return Err(usage("--measure must be 1 to 1000"));
    }
    super::super::block_on(async {
        let (mut interrupt, mut terminate) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let work = async {
            match arguments.measure {
                Some(samples) => {
                    measure::run(samples, &arguments.faults(), lease, arguments.json).await
                }
                None => show(&arguments.faults(), lease, calm, arguments.json).await,
            }
        };
        // Dropping the work kills the processes and removes their directory.
        tokio::select! {
            code = work => code,
            _ = interrupt.recv() => Ok(ExitCode::from(130)),
            _ = terminate.recv() => Ok(ExitCode::from(143)),
        }
    })
}

/// The processes and the bank. Dropping it kills the processes, and then removes the directory.
struct Failover {
    bank: Bank,
    nodes: Nodes,
    began: Instant,
    view_lease: Duration,
    _scratch: Scratch,
}

impl Failover {
    /// Starts the processes, and waits until all are in one view.
    async fn start(view_lease: Duration) -> Result<Self> {
        let scratch = Scratch::new("failover")?;
        let bank = Bank::open(&scratch.path().join(message::SOCKET), NODES)?;
        let nodes = Nodes::start(scratch.path(), view_lease).await?;
        let began = Instant::now();
        let failover = Self { bank, nodes, began, view_lease, _scratch: scratch };
        failover.await_all().await.map_err(|error| error.context(failover.nodes.logs()))?;
        Ok(failover)
    }

    fn result(&self, faults: Vec<Outcome>) -> RunResult {
        let state = self.bank.state();
        RunResult {
            nodes: NODES,
            view_lease_ms: u64::try_from(self.view_lease.as_millis()).unwrap_or(u64::MAX),
            seconds: self.began.elapsed().as_secs_f64(),
            transfers: state.ledger.transfers(),
            sum: state.ledger.sum(),
            expected_sum: Ledger::expected(),
            refused_writes: state.branches.iter().map(|branch| branch.refused).sum(),
            violations: state.violations.clone(),
            faults,
        }
    }
}

/// Shows all faults in one cluster.
async fn show(
    faults: &[Fault],
    view_lease: Duration,
    calm: Duration,
    json: bool,
) -> Result<ExitCode> {
    let screen = Screen::new(json);
    let mut failover = Failover::start(view_lease).await?;
    let names = failover.nodes.names().to_vec();
    screen.line(&format!("{NODES} nodes are in one view, and the bank is open"));
    let bank = failover.bank.clone();
    let played = tokio::select! {
        played = play(&mut failover, faults, &screen, calm) => played,
        () = screen.keep_drawing(&bank, &names) => unreachable!("it never ends"),
    };
    screen.clear();
    let outcomes = played.map_err(|error| error.context(failover.nodes.logs()))?;
    let result = failover.result(outcomes);
    if json {
        println!("{}", serde_json::to_string_pretty(&result)?);
    } else {
        print!("\n{}", result.text());
    }
    Ok(if result.is_right() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn play(
    failover: &mut Failover,
    faults: &[Fault],
    screen: &Screen,
    calm: Duration,
) -> Result<Vec<Outcome>> {
    failover.bank.run(true);
    let mut struck_nodes = BTreeSet::new();
    let mut outcomes = Vec::new();
    for &fault in faults {
        sleep(calm).await;
        let mut struck = failover.strike(fault, &struck_nodes).await?;
        screen.line(&format!("{}: {}", fault.title(), failover.names_of(&struck)));
        struck_nodes.extend(struck.nodes());
        failover.await_recovery(&struck).await?;
        let outcome = failover.outcome(&struck);
        screen.line(&format!(
            "  the others go on; {} without a grant, other locks {}",
            millis(outcome.longest_gap_ms),
            millis(outcome.other_locks_ms)
        ));
        sleep(calm).await;
        failover.repair(&mut struck).await?;
        screen.line("  all nodes are in one view again");
        outcomes.push(failover.outcome(&struck));
    }
    sleep(calm).await;
    failover.bank.run(false);
    Ok(outcomes)
}
