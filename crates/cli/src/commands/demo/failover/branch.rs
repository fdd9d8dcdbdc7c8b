//! A branch of the bank: a process with a node, which transfers money under a lock.

use std::{cell::Cell, ffi::OsString, path::Path, process::ExitCode, time::Duration};

use anyhow::{Context, Result, bail};
use mutua_algorithms::split_mix;
use mutua_node::{Config, Guard, Node};
use tokio::{
    net::UnixStream,
    signal::unix::{SignalKind, signal},
    sync::{mpsc, watch},
    time::{Instant, sleep},
};

use super::{
    ledger::ACCOUNTS,
    message::{BranchStatus, FromBank, Messages, SOCKET, ToBank, sender},
};

/// The first argument of a branch.
pub(crate) const ARGUMENT: &str = "__branch";

/// The time between reading the balances and writing the new ones.
const THINKING: Duration = Duration::from_millis(2);

/// The pause between two reports.
const REPORT: Duration = Duration::from_millis(40);

/// The pause between two uses of the branch's own lock.
const OWN_PAUSE: Duration = Duration::from_millis(4);

/// How long a node that is stopped waits until the others go on without it.
const HAND_OVER: Duration = Duration::from_secs(5);

/// Runs this process as a branch: its arguments are its index and its configuration, beside which
/// the bank's socket is.
pub(crate) fn main(arguments: &[OsString]) -> ExitCode {
    match crate::commands::block_on(work(arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mutua: a branch: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn work(arguments: &[OsString]) -> Result<()> {
    let [_, index, file] = arguments else { bail!("{ARGUMENT} is internal to mutua") };
    let index = index.to_string_lossy().parse()?;
    let file = Path::new(file);
    crate::commands::log_to_stderr(tracing::Level::INFO, crate::commands::LogFormat::Text);
    let socket = file.parent().context("no directory")?.join(SOCKET);
    let (reader, writer) = UnixStream::connect(socket).await?.into_split();
    let bank = sender(writer);
    bank.send(ToBank::Branch(index))?;
    let config = Config::read(file)?;
    let own = format!("branches/{}", config.node);
    let node = Node::start(config).await?;
    let (to_replies, replies) = mpsc::unbounded_channel();
    let (to_running, running) = watch::channel(false);
    let longest = Cell::new(Duration::ZERO);
    // The branch ends with the bank.
    tokio::select! {
        over = receive(Messages::new(reader), to_replies, to_running) => over,
        over = transfer(&node, &bank, replies, running) => over,
        over = use_own_lock(&node, &own, &longest) => over,
        over = report(&node, &bank, &longest) => over,
        over = hand_over_when_stopped(&node) => over,
    }
}

/// Stops in order at SIGTERM.
async fn hand_over_when_stopped(node: &Node) -> Result<()> {
    signal(SignalKind::terminate())?.recv().await;
    node.hand_over(HAND_OVER).await;
    Ok(())
}

async fn receive(
    mut messages: Messages,
    replies: mpsc::UnboundedSender<FromBank>,
    running: watch::Sender<bool>,
) -> Result<()> {
    while let Some(message) = messages.next().await? {
        match message {
            FromBank::Go => drop(running.send_replace(true)),
            FromBank::Pause => drop(running.send_replace(false)),
            reply => replies.send(reply)?,
        }
    }
    Ok(())
}

/// Transfers between accounts, again and again.
async fn transfer(
    node: &Node,
    bank: &mpsc::UnboundedSender<ToBank>,
    mut replies: mpsc::UnboundedReceiver<FromBank>,
    mut running: watch::Receiver<bool>,
) -> Result<()> {
    let lock = node.lock("bank");
    let mut state = u64::from(std::process::id());
    loop {
        running.wait_for(|running| *running).await?;
        let guard = lock.acquire().await?;
        let token = guard.fencing_token().number();
        let done = tokio::select! {
            biased;
            () = guard.lost() => false,
            done = one_transfer(&guard, bank, &mut replies, &mut state) => done?,
        };
        if !done {
            // It must not write now: another branch may hold the lock soon.
            bank.send(ToBank::Lost { token })?;
        }
        guard.release();
    }
}

/// One transfer; returns whether the lock was held until the bank had written it.
async fn one_transfer(
    guard: &Guard,
    bank: &mpsc::UnboundedSender<ToBank>,
    replies: &mut mpsc::UnboundedReceiver<FromBank>,
    state: &mut u64,
) -> Result<bool> {
    let token = guard.fencing_token().number();
    let mut draw = |limit: u64| usize::try_from(split_mix::next(state) % limit).unwrap_or(0);
    let from = draw(ACCOUNTS as u64);
    let to = (from + 1 + draw(ACCOUNTS as u64 - 1)) % ACCOUNTS;
    let amount = i64::try_from(1 + draw(100)).unwrap_or(1);
    let accounts = [from, to];
    bank.send(ToBank::Begin { token, accounts })?;
    let Some(FromBank::Balances { balances: [gives, takes], .. }) = reply(replies, token).await
    else {
        return Ok(false);
    };
    sleep(THINKING).await;
    if !guard.is_good() {
        return Ok(false);
    }
    let balances = [gives - amount, takes + amount];
    bank.send(ToBank::Write { token, accounts, balances })?;
    Ok(matches!(reply(replies, token).await, Some(FromBank::Written { .. })))
}

/// The bank's reply in this critical section. One to an earlier section, which was lost before the
/// reply came, counts for nothing.
async fn reply(replies: &mut mpsc::UnboundedReceiver<FromBank>, token: u64) -> Option<FromBank> {
    loop {
        let reply = replies.recv().await?;
        if reply.token() == Some(token) {
            return Some(reply);
        }
    }
}

/// Uses a lock that no other branch requests: it pauses only while its node grants nothing.
async fn use_own_lock(node: &Node, name: &str, longest: &Cell<Duration>) -> Result<()> {
    let lock = node.lock(name);
    drop(lock.acquire().await?);
    let mut last = Instant::now();
    loop {
        sleep(OWN_PAUSE).await;
        drop(lock.acquire().await?);
        longest.set(longest.get().max(last.elapsed()));
        last = Instant::now();
    }
}

async fn report(
    node: &Node,
    bank: &mpsc::UnboundedSender<ToBank>,
    longest: &Cell<Duration>,
) -> Result<()> {
    loop {
        let status = node.status();
        let members = status.members.into_iter().filter(|member| member.in_view);
        bank.send(ToBank::Status(BranchStatus {
            view: status.view.unwrap_or(0),
            members: members.map(|member| member.name).collect(),
            leader: status.leader,
            suspended: status.suspended,
            own_pause_ms: u64::try_from(longest.take().as_millis()).unwrap_or(u64::MAX),
        }))?;
        sleep(REPORT).await;
    }
}
