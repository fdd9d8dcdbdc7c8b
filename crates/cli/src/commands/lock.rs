//! `mutua lock`: hold a lock while a command runs.

mod arguments;
mod child;
mod nested;
mod reach;
mod report;
mod signals;
mod terminal;

pub(crate) use arguments::{Arguments, HELP, USAGE};
pub(crate) use signals::{ARGUMENT as DIE, die};

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
        signal = signals.ending() => return Ok(signals::end(signal)),
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
                return Ok(Err(signals::end(signal)));
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

/// How a lock that is held without a command ends.
enum End {
    /// Standard input has ended.
    Input,
    Signal(i32),
    Lost(String),
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
    let code = match until_end(plan, &mut hold, grant.good_until, &mut signals).await {
        End::Lost(why) => {
            report.lost(&plan.name, &why);
            // Whoever relies on us knows when we are gone, so we do not wait for anybody.
            std::process::exit(i32::from(exit::LOST));
        }
        End::Input => 0,
        End::Signal(signal) => 128 + signal,
    };
    if leave(&mut hold).await {
        report.released();
    }
    if code > 128 {
        signals::end(code - 128);
    }
    // Reading standard input holds a thread that nothing wakes.
    std::process::exit(code)
}

async fn until_end(
    plan: &Plan,
    hold: &mut Hold,
    mut good_until: Moment,
    signals: &mut Signals,
) -> End {
    let mut stdin = tokio::io::stdin();
    let mut buffer = [0; 512];
    loop {
        // A margin before the next one can get in.
        let left = good_until.before(plan.margin).since(mutua_service::now());
        tokio::select! {
            biased;
            signal = signals.ending() => return End::Signal(signal),
            event = hold.events.recv() => match event {
                Some(Event::GoodUntil(until)) => good_until = until,
                Some(Event::Lost(why)) => return End::Lost(why),
                Some(_) => {}
                None => return End::Lost("the node went away".to_owned()),
            },
            // The runtime's clock stands still while the machine sleeps, so look now and then.
            () = tokio::time::sleep(left.min(Duration::from_secs(1))) => if left.is_zero() {
                return End::Lost("the lease runs out".to_owned());
            },
            read = stdin.read(&mut buffer) => if matches!(read, Ok(0) | Err(_)) {
                return End::Input;
            },
        }
    }
}
