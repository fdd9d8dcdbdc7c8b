//! `mutua lock`: holds a lock while a command runs.

mod arguments;
mod child;
mod descriptor;
mod flock;
mod nested;
mod reach;
mod report;
mod signals;
mod terminal;

pub(crate) use arguments::{
    Arguments, HELP, HoldOptions, Plan, USAGE, check_name, words_after_dashes,
};
pub(crate) use descriptor::ARGUMENT as BACKGROUND;
pub(crate) use signals::{ARGUMENT as DIE, die};

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::Result;
use mutua_client::{Event, Hold, HoldRequest, Moment, Scope, hold, proto::v1};
use tokio::io::AsyncReadExt;

use crate::{exit, out};
use descriptor::Descriptor;
use reach::ANSWER;
use report::Report;
use signals::Signals;

/// Runs `mutua lock`.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let plan = Plan::new(arguments)?;
    if let Some(number) = plan.fd.filter(|_| !descriptor::is_background()) {
        return descriptor::start(number);
    }
    run_plan(plan)
}

/// Acquires a lock or a leadership and holds it as planned.
pub(crate) fn run_plan(plan: Plan) -> Result<ExitCode> {
    // Before anything is opened here that could have the number of the status descriptor.
    let report = Report::new(&plan)?;
    let descriptor = plan.fd.map(|number| Descriptor::take(number, report.status())).transpose()?;
    super::locks::block_on(Box::pin(work(plan, report, descriptor)))
}

/// The owner of a lock if none is given: the user.
pub(crate) fn owner() -> String {
    let user = std::env::var("LOGNAME").or_else(|_| std::env::var("USER"));
    user.unwrap_or_else(|_| {
        // Services and cron jobs may have neither variable.
        let id = nix::unistd::geteuid();
        let named = nix::unistd::User::from_uid(id).ok().flatten();
        named.map_or_else(|| format!("uid {id}"), |user| user.name)
    })
}

/// A granted lock.
struct Grant {
    fence: u64,
    session: i64,
    good_until: Moment,
    scope: Scope,
    /// The lease that the node has granted.
    ttl: Duration,
}

async fn work(plan: Plan, mut report: Report, descriptor: Option<Descriptor>) -> Result<ExitCode> {
    let mut signals = Signals::new()?;
    if let Some(descriptor) = &descriptor {
        signals.end_with(descriptor.caller()?);
    }
    let begun = Instant::now();
    let reached = tokio::select! {
        biased;
        reached = reach::reach(&plan, &mut report) => reached?,
        signal = signals.ending() => return Ok(signals::end(signal)),
    };
    let client = v1::Client {
        owner: plan.owner.clone(),
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        pid: std::process::id(),
        command: plan.command_line(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..Default::default()
    };
    let request = HoldRequest {
        name: plan.name.clone().into_bytes(),
        // The search for a node is part of the wait; zero means not to wait at all.
        wait: plan.wait.map(|wait| match wait.is_zero() {
            true => wait,
            false => wait.saturating_sub(begun.elapsed()).max(Duration::from_millis(1)),
        }),
        value: plan.value.clone().map(String::into_bytes),
        ttl: plan.ttl,
        client,
        supervised: !plan.command.is_empty() || plan.fd.is_some(),
        socket: reached.socket,
    };
    let mut hold = hold(reached.connector, reached.kind, request);
    // A node that this process had to start has used time that is not counted.
    let short = plan.wait.is_some_and(|wait| wait < ANSWER);
    let begun = if short && begun.elapsed() >= ANSWER { Instant::now() } else { begun };
    let granted = match wait(&plan, &mut hold, &mut signals, &mut report, begun).await? {
        Ok(granted) => granted,
        Err(code) => return Ok(code),
    };
    if let Some(descriptor) = descriptor {
        descriptor::keep(&plan, hold, granted, descriptor, report).await
    } else if plan.command.is_empty() {
        keep(&plan, hold, granted, signals, report).await
    } else {
        child::run(&plan, hold, granted, signals, report).await
    }
}

/// Waits for the grant. The inner error is the exit code if there is none.
async fn wait(
    plan: &Plan,
    hold: &mut Hold,
    signals: &mut Signals,
    report: &mut Report,
    begun: Instant,
) -> Result<Result<Grant, ExitCode>> {
    // The node itself ends the wait, if it answers.
    let mut limit = plan.wait.map(|wait| wait.max(ANSWER));
    let (scope, good_until) = (Scope::default(), Moment::ZERO);
    let mut grant = Grant { fence: 0, session: 0, good_until, scope, ttl: plan.ttl };
    let mut suspended = Suspended::default();
    loop {
        let event = tokio::select! {
            biased;
            event = hold.events.recv() => event,
            signal = signals.ending() => {
                leave(hold).await;
                return Ok(Err(signals::end(signal)));
            }
            () = over(begun, limit) => return Err(give_up(hold, limit).await),
        };
        match event {
            Some(Event::Opened { session, version, scope, ttl, suspended_for }) => {
                limit = plan.wait.map(|wait| wait.saturating_add(ANSWER));
                (grant.session, grant.ttl) = (session, ttl);
                suspended.until = mutua_client::now().after(suspended_for);
                report.version(&version);
                report.scope(&scope);
                grant.scope = scope;
            }
            Some(Event::ValidUntil(until)) => grant.good_until = until,
            Some(Event::Waiting(waiting)) => {
                suspended.reported = !waiting.suspended.is_empty();
                report.waiting(&waiting);
            }
            Some(Event::Granted { fencing_token, waited }) => {
                grant.fence = fencing_token;
                report.acquired(fencing_token, waited);
                return Ok(Ok(grant));
            }
            Some(Event::Refused(refused)) => {
                let code = refusal(plan, &refused, suspended);
                report.refused(&refused, code == exit::UNAVAILABLE);
                leave(hold).await;
                return Ok(Err(ExitCode::from(code)));
            }
            Some(Event::Note(text)) => report.note(&text),
            Some(Event::Lost(text) | Event::Unreachable(text)) => {
                return Err(exit::unavailable(format!("{} not acquired: {text}", plan.name)));
            }
            Some(Event::Released) | None => {
                return Err(exit::unavailable("the connection to the node closed"));
            }
        }
    }
}

/// Completes when the limit is over; never without one.
async fn over(begun: Instant, limit: Option<Duration>) {
    match limit.and_then(|limit| begun.checked_add(limit)) {
        Some(end) => tokio::time::sleep_until(end.into()).await,
        None => std::future::pending().await,
    }
}

/// Withdraws a request that is not answered. The node reads that when it goes on, and does not
/// grant the lock to a client that has ended.
async fn give_up(hold: &mut Hold, limit: Option<Duration>) -> anyhow::Error {
    let _ = tokio::time::timeout(Duration::from_millis(100), leave(hold)).await;
    let limit = limit.unwrap_or_default();
    exit::unavailable(format!(
        "no answer within {limit:?}: the node is stopped or very slow; it is unknown whether the \
         lock is held"
    ))
}

/// Whether the node grants nothing, as it last reported.
#[derive(Clone, Copy, Debug, Default)]
struct Suspended {
    reported: bool,
    /// It waits until then for the clients of its last process.
    until: Moment,
}

fn refusal(plan: &Plan, refused: &v1::Refused, suspended: Suspended) -> u8 {
    // While grants are suspended, no other client is the reason, unless it is known.
    let is_suspended = suspended.reported || mutua_client::now() < suspended.until;
    match refused.reason() {
        v1::Reason::Busy | v1::Reason::Timeout if refused.holder.is_some() || !is_suspended => {
            plan.conflict
        }
        v1::Reason::Invalid => exit::USAGE,
        v1::Reason::Denied => exit::DENIED,
        v1::Reason::Busy | v1::Reason::Timeout | v1::Reason::Unavailable | v1::Reason::Unknown => {
            exit::UNAVAILABLE
        }
    }
}

/// How long a release may take. If the node is lost, another member serves the lock within some two
/// seconds, and releases it.
const RELEASE: Duration = Duration::from_secs(5);

/// Releases the lock and waits for the confirmation. Without it, the lease expires.
async fn leave(hold: &mut Hold) -> bool {
    hold.release();
    let left = async {
        while let Some(event) = hold.events.recv().await {
            match event {
                Event::Released => return true,
                // Among them: the lease has expired before a node confirmed it.
                Event::Unreachable(_) => return false,
                _ => {}
            }
        }
        false
    };
    tokio::time::timeout(RELEASE, left).await.unwrap_or(false)
}

/// Why a lock that is held without a command is released.
enum End {
    /// Standard input has ended.
    Input,
    Signal(i32),
    Lost(String),
}

/// Holds without a command: a lock until a signal or the end of standard input, a leadership until
/// a signal.
async fn keep(
    plan: &Plan,
    mut hold: Hold,
    grant: Grant,
    mut signals: Signals,
    mut report: Report,
) -> Result<ExitCode> {
    if let Err(error) = out::try_line(grant.fence) {
        // Nobody would keep the lock until its lease expires.
        leave(&mut hold).await;
        out::end(&error);
    }
    let code = match until_end(plan, &mut hold, grant.good_until, &mut signals).await {
        End::Lost(why) => {
            report.lost(&plan.name, &why);
            // Our exit is the signal to those that rely on the lock, so nothing may delay it.
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
    // A thread is blocked in a read of standard input, and nothing wakes it.
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
        // A margin before the lock can be granted to the next waiter.
        let left = good_until.before(plan.margin).since(mutua_client::now());
        tokio::select! {
            biased;
            signal = signals.ending() => return End::Signal(signal),
            event = hold.events.recv() => match event {
                Some(Event::ValidUntil(until)) => good_until = until,
                Some(Event::Lost(why)) => return End::Lost(why),
                Some(_) => {}
                None => return End::Lost("the connection to the node closed".to_owned()),
            },
            // The runtime's clock stops while the machine is suspended, so poll once a second.
            () = tokio::time::sleep(left.min(Duration::from_secs(1))) => if left.is_zero() {
                return End::Lost("the lease expires".to_owned());
            },
            read = stdin.read(&mut buffer), if plan.value.is_none() => {
                if matches!(read, Ok(0) | Err(_)) {
                    return End::Input;
                }
            }
        }
    }
}
