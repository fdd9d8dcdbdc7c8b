//! `mutua lock`: hold a lock while a command runs.

mod arguments;
mod child;
mod nested;
mod reach;
mod report;
mod signals;
mod terminal;

pub(crate) use arguments::{Arguments, HELP, USAGE};

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::Result;
use mutua_service::{
    Moment,
    client::{Event, Hold, Wish, hold},
    proto::v1,
};
use tokio::io::AsyncReadExt;

use crate::exit;
use arguments::Plan;
use report::Report;
use signals::Signals;

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let plan = Plan::new(arguments)?;
    // Before anything is opened here that could have the number of the status descriptor.
    let report = Report::new(&plan)?;
    super::locks::block_on(Box::pin(work(plan, report)))
}

/// Who runs this.
pub(crate) fn owner() -> String {
    let user = std::env::var("LOGNAME").or_else(|_| std::env::var("USER"));
    user.unwrap_or_else(|_| format!("uid {}", rustix::process::geteuid().as_raw()))
}

/// What it is inside with.
struct Grant {
    fence: u64,
    session: i64,
    good_until: Moment,
}

async fn work(plan: Plan, mut report: Report) -> Result<ExitCode> {
    let mut signals = Signals::new()?;
    let begun = Instant::now();
    let reached = tokio::select! {
        biased;
        reached = reach::reach(&plan) => reached?,
        signal = signals.ending() => return Ok(signals::code(signal)),
    };
    let client = v1::Client {
        owner: plan.owner.clone(),
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        pid: std::process::id(),
        command: plan.command_line(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let wish = Wish {
        name: plan.name.clone().into_bytes(),
        // Who had to look for a node has waited already; zero is not to wait at all.
        wait: plan.wait.map(|wait| match wait.is_zero() {
            true => wait,
            false => wait.saturating_sub(begun.elapsed()).max(Duration::from_millis(1)),
        }),
        ttl: plan.ttl,
        client,
        guarded: !plan.command.is_empty(),
        place: reached.place,
    };
    let mut hold = hold(reached.connector, reached.kind, wish);
    let granted = match wait(&plan, &mut hold, &mut signals, &mut report).await? {
        Ok(granted) => granted,
        Err(code) => return Ok(code),
    };
    if plan.command.is_empty() {
        keep(&plan, hold, granted, signals, report).await
    } else {
        child::run(&plan, hold, granted, signals, report).await
    }
}

/// Waits to be let in. The inner error is how to exit without.
async fn wait(
    plan: &Plan,
    hold: &mut Hold,
    signals: &mut Signals,
    report: &mut Report,
) -> Result<Result<Grant, ExitCode>> {
    let mut grant = Grant { fence: 0, session: 0, good_until: Moment::ZERO };
    let mut stopped = String::new();
    loop {
        let event = tokio::select! {
            biased;
            event = hold.events.recv() => event,
            signal = signals.ending() => {
                leave(hold).await;
                return Ok(Err(signals::code(signal)));
            }
        };
        match event {
            Some(Event::Opened { session, version }) => {
                grant.session = session;
                report.version(&version);
            }
            Some(Event::GoodUntil(until)) => grant.good_until = until,
            Some(Event::Waiting(waiting)) => {
                stopped.clone_from(&waiting.stopped);
                report.waiting(&waiting);
            }
            Some(Event::Granted { fence, waited }) => {
                grant.fence = fence;
                report.acquired(fence, waited);
                return Ok(Ok(grant));
            }
            Some(Event::Refused(refused)) => {
                report.refused(&refused);
                leave(hold).await;
                return Ok(Err(refusal(plan, &refused, &stopped)));
            }
            Some(Event::Note(text)) => report.note(&text),
            Some(Event::Lost(text) | Event::Unreachable(text)) => {
                return Err(exit::unavailable(text));
            }
            Some(Event::Left) | None => return Err(exit::unavailable("the node went away")),
        }
    }
}

fn refusal(plan: &Plan, refused: &v1::Refused, stopped: &str) -> ExitCode {
    match refused.reason() {
        // Who waited in vain because a member is gone was not kept out by anybody.
        v1::Reason::Busy | v1::Reason::Timeout if stopped.is_empty() => {
            ExitCode::from(plan.conflict)
        }
        v1::Reason::Deadlock | v1::Reason::Invalid => ExitCode::from(exit::USAGE),
        v1::Reason::Busy | v1::Reason::Timeout | v1::Reason::Unavailable | v1::Reason::Unknown => {
            ExitCode::from(exit::UNAVAILABLE)
        }
    }
}

/// Leaves, and waits a little until that is heard. If it is not, the lease frees the lock.
async fn leave(hold: &mut Hold) -> bool {
    hold.leave();
    let left = async {
        while let Some(event) = hold.events.recv().await {
            if matches!(event, Event::Left | Event::Unreachable(_)) {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(2), left).await.is_ok()
}

/// Holds the lock without a command, until a signal or the end of standard input.
async fn keep(
    plan: &Plan,
    mut hold: Hold,
    grant: Grant,
    mut signals: Signals,
    mut report: Report,
) -> Result<ExitCode> {
    println!("{}", grant.fence);
    let mut stdin = tokio::io::stdin();
    let mut buffer = [0; 512];
    let code = loop {
        tokio::select! {
            biased;
            signal = signals.ending() => break 128 + signal,
            event = hold.events.recv() => match event {
                Some(Event::Lost(why)) => {
                    report.lost(&plan.name, &why);
                    break i32::from(exit::LOST);
                }
                Some(_) => {}
                None => break i32::from(exit::LOST),
            },
            read = stdin.read(&mut buffer) => if matches!(read, Ok(0) | Err(_)) {
                break 0;
            },
        }
    };
    if leave(&mut hold).await {
        report.released();
    }
    // Reading standard input holds a thread that nothing wakes.
    std::process::exit(code)
}
