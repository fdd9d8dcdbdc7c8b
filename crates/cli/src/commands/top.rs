//! `mutua top`: members, locks, holders, queues and rates, live.

mod frame;
pub(crate) mod sample;

use std::{
    io::{IsTerminal, stdout},
    process::ExitCode,
    sync::mpsc as std_mpsc,
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use clap::Args;
use ratatui::{
    Terminal,
    backend::TestBackend,
    crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
};
use tokio::sync::mpsc;

use crate::{
    exit::usage,
    local::{Selection, Target},
};
use frame::View;
use sample::Sample;

/// The end of the help.
pub(crate) const HELP: &str = "\
Keys: q quits, the arrows and page keys select a lock, whose queue is shown below. Rates are of the \
node that is connected; locks are those of all members.

Exit codes: 0 success; 64 bad usage; 69 no node, or not supported by the server (etcd); 77 \
permission denied; 78 bad configuration, or another node than the required one.";

/// The least width of what `--once` prints.
const WIDTH: u16 = 80;
/// How long the thread that reads keys waits before it looks whether it should end.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Print one frame as text, with the rates of one interval, and exit.
    #[arg(long)]
    once: bool,

    /// Time between two readings, for example 200ms or 2s; 100ms or more.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = interval)]
    interval: Duration,

    /// Show only locks whose names start with this prefix.
    #[arg(long, value_name = "PREFIX", default_value = "")]
    prefix: String,

    #[command(flatten)]
    node: Selection,
}

fn interval(text: &str) -> Result<Duration, String> {
    let parsed = mutua_algorithms::durations::parse(text).map_err(|error| error.to_string())?;
    match parsed {
        short if short < Duration::from_millis(100) => {
            Err(format!("invalid interval `{text}`: it must be at least 100ms"))
        }
        interval => Ok(interval),
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    if !arguments.once && !stdout().is_terminal() {
        return Err(usage("standard output is not a terminal: use --once"));
    }
    let target = arguments.node.find()?;
    super::block_on(async {
        // Before the terminal is taken: an error is shown as in every other command.
        let first = Sample::take(&target, &arguments.prefix).await?;
        let view = View::new(first);
        match arguments.once {
            true => once(arguments, &target, view.printed()).await,
            false => live(arguments, &target, view).await,
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

async fn once(arguments: &Arguments, target: &Target, mut view: View) -> Result<()> {
    tokio::time::sleep(arguments.interval).await;
    view.update(Sample::take(target, &arguments.prefix).await);
    // In a terminal as wide as that, else so wide that nothing is cut.
    let width = match stdout().is_terminal() {
        true => ratatui::crossterm::terminal::size().map_or(WIDTH, |(width, _)| width),
        false => view.full_width(),
    };
    let width = width.max(WIDTH);
    let mut terminal = Terminal::new(TestBackend::new(width, view.full_height()))?;
    terminal.draw(|frame| view.draw(frame))?;
    let buffer = terminal.backend().buffer();
    for row in buffer.content().chunks(usize::from(width)) {
        let line: String = row.iter().map(|cell| cell.symbol()).collect();
        println!("{}", line.trim_end());
    }
    Ok(())
}

async fn live(arguments: &Arguments, target: &Target, mut view: View) -> Result<()> {
    let (mut keys, _reader) = read_keys();
    let mut terminal = ratatui::try_init()?;
    let mut ticks = tokio::time::interval(arguments.interval);
    let done = loop {
        if let Err(error) = terminal.draw(|frame| view.draw(frame)) {
            break Err(error.into());
        }
        tokio::select! {
            key = keys.recv() => match key {
                Some(Event::Key(key)) if is_quit(key) => break Ok(()),
                Some(Event::Key(key)) if key.kind == KeyEventKind::Press => view.select(key.code),
                // Drawn again in its new size.
                Some(_) => {}
                // The terminal is gone.
                None => break Ok(()),
            },
            _ = ticks.tick() => {
                let begun = Instant::now();
                let sample = Sample::take(target, &arguments.prefix).await;
                view.update(sample);
                if begun.elapsed() > arguments.interval {
                    ticks.reset();
                }
            }
        }
    };
    ratatui::try_restore()?;
    done
}

fn is_quit(key: KeyEvent) -> bool {
    let interrupt = key.code == KeyCode::Char('c') && key.modifiers == KeyModifiers::CONTROL;
    interrupt || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
}

/// The events of the terminal, read by a thread that ends when the second value is dropped.
fn read_keys() -> (mpsc::UnboundedReceiver<Event>, std_mpsc::Sender<()>) {
    let (sender, events) = mpsc::unbounded_channel();
    let (keep, ended) = std_mpsc::channel();
    thread::spawn(move || {
        while let Err(std_mpsc::TryRecvError::Empty) = ended.try_recv() {
            match event::poll(LOOK).and_then(|ready| ready.then(event::read).transpose()) {
                Ok(None) => {}
                Ok(Some(event)) => {
                    if sender.send(event).is_err() {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
    });
    (events, keep)
}
