//! One run of the simulator for the page: figures beside theory, and the run to look at.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use mutua_algorithms::{About, Kind, NodeId, Setup, Start, registry};
use mutua_simulator::{
    Detector, Distribution, Load, MakeRecorder, Network, Outage, Plan, Recorder, RepairPlan,
    RepairReport, Report, TheoryLoad, Who, Workload, simulate_repaired, simulate_watched,
    theory_of,
};
use serde::{Deserialize, Serialize};

use super::bounds::Refused;
use crate::{Event, Header, Unit, What, durations};

/// The most processes of a run on the page.
const MOST_NODES: u32 = 256;
/// The most entries of a run.
const MOST_ENTRIES: u64 = 5_000;
/// The most events of a run, its warm-up included.
const MOST_EVENTS: u64 = 400_000;
/// The most messages that are sent to the page.
const MOST_MESSAGES: usize = 12_000;

/// A run of the simulator.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SimulateQuery {
    /// The algorithm.
    pub algorithm: String,
    /// How many processes contend.
    pub nodes: u32,
    /// The tree, for algorithms on one.
    #[serde(default)]
    pub topology: Option<String>,
    /// The quorums, for algorithms with them.
    #[serde(default)]
    pub quorums: Option<String>,
    /// `light`, `saturated` or `think:TIME`.
    pub load: String,
    /// The hold time.
    pub hold: String,
    /// The latency.
    pub latency: String,
    /// Whether links may reorder.
    #[serde(default)]
    pub reorder: bool,
    /// A process that crashes, and when, as in `2@10ms` or `2@10ms..20ms`.
    #[serde(default)]
    pub crash: Option<String>,
    /// The repair of crashes: `generic` or `special`; without it, there is none.
    #[serde(default)]
    pub repair: Option<String>,
    /// How many entries are measured.
    pub entries: u64,
    /// The seed.
    pub seed: u64,
}

/// A run and its figures.
#[derive(Clone, Debug, Serialize)]
pub struct Simulated {
    /// The version of the program.
    pub version: &'static str,
    /// The algorithm's name as people write it.
    pub title: &'static str,
    /// The command that repeats it.
    pub command: String,
    /// The figures, measured and in theory.
    pub figures: Vec<Figure>,
    /// Why there is no theory beside the figures; empty if there is.
    pub without_theory: String,
    /// The names of the processes.
    pub processes: Vec<String>,
    /// The kinds of messages, as the messages number them.
    pub kinds: Vec<String>,
    /// The messages, in order of sending.
    pub messages: Vec<RunMessage>,
    /// The times of waiting and of critical sections.
    pub spans: Vec<RunSpan>,
    /// The time of the last event, in nanoseconds.
    pub end: u64,
    /// Whether the run went on after the last message here.
    pub cut: bool,
    /// The entries so far, over the whole run that is shown.
    pub entered: Vec<(u64, usize)>,
    /// Violations in words.
    pub violations: Vec<String>,
    /// The hash over all events.
    pub hash: String,
}

/// A message of a run: sender, receiver, sent, received (0 if never), kind.
pub type RunMessage = (usize, usize, u64, u64, usize);

/// A period of a process: process, 0 waiting or 1 in the critical section or 2 down, from, until.
pub type RunSpan = (usize, u8, u64, u64);

/// A figure of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub measured: Option<f64>,
    /// The value in theory.
    pub theory: Option<f64>,
    /// The formula.
    pub formula: Option<String>,
}

pub(super) fn simulate(query: &SimulateQuery) -> Result<Simulated, Refused> {
    let about = registry::about(&query.algorithm)
        .filter(|about| about.kind == Kind::Mutex)
        .ok_or_else(|| Refused::Unknown { what: "algorithm", name: query.algorithm.clone() })?;
    let unknown = || Refused::Unknown { what: "algorithm", name: query.algorithm.clone() };
    let plan = plan(query)?;
    let seen = Rc::new(RefCell::new(Seen::default()));
    let make = |_: &'static str, start: &Start| {
        let names = Header::default_names(start);
        seen.borrow_mut().names.clone_from(&names);
        let seen = Rc::clone(&seen);
        let header = Header::new(about.name, start, names, Unit::Nanoseconds);
        Recorder::new(header, move |event| seen.borrow_mut().note(&event))
    };
    let (report, repaired) = match query.repair() {
        None => {
            let report = simulate_watched(about.name, &plan, Some(&make), &mut |_, _| ());
            (report.ok_or_else(unknown)??, Vec::new())
        }
        Some(name) => {
            let report = repaired(about.name, name, &plan, &make).ok_or_else(unknown)??;
            let figures = repair_figures(&plan, &report);
            (report.report, figures)
        }
    };
    let mut simulated = whole(query, about, &plan, &report, seen.take());
    simulated.figures.extend(repaired);
    Ok(simulated)
}

impl SimulateQuery {
    /// The repair, if there is one.
    fn repair(&self) -> Option<&str> {
        self.repair.as_deref().filter(|name| !name.is_empty() && *name != "none")
    }
}

/// Reports of a crash come after this many mean latencies.
const DETECTION: f64 = 5.0;

fn repaired(
    algorithm: &str,
    repair: &str,
    plan: &Plan,
    make: MakeRecorder<'_>,
) -> Option<Result<RepairReport, Refused>> {
    let special = match repair {
        "generic" => false,
        "special" => true,
        _ => return Some(Err(figure("repair", repair, "none, generic or special"))),
    };
    if !plan.network.fifo {
        let why = "a repair needs links that keep order: leave out Reorder, or the repair";
        return Some(Err(Refused::Unsuited(why.to_owned())));
    }
    let delay = Distribution::Constant((DETECTION * plan.network.mean_latency()) as u64);
    let plan = RepairPlan {
        plan: plan.clone(),
        election: mutua_algorithms::repairs::ElectionName::default(),
        special,
        chosen: Vec::new(),
        detector: Detector::Perfect(delay),
        transmission: None,
        handling: None,
        gap_at: None,
    };
    Some(simulate_repaired(algorithm, &plan, Some(make))?.map_err(Refused::from))
}

/// What a run with a repair has beside the figures of every run.
fn repair_figures(plan: &Plan, report: &RepairReport) -> Vec<Figure> {
    let latencies = |time: u64| time as f64 / plan.network.mean_latency();
    let stopped = report.repairs.iter().filter_map(|repair| repair.stopped_for()).max();
    let purpose = |name: &str| {
        let kinds = report.messages_by_purpose.get(name);
        kinds.map_or(0, |kinds| kinds.values().sum::<u64>()) as f64
    };
    let figure = |name, measured| Figure { name, measured, theory: None, formula: None };
    vec![
        figure("repairs", Some(report.repairs.len() as f64)),
        figure("longest time without an entry, in latencies", stopped.map(latencies)),
        figure("messages of elections", Some(purpose("election"))),
        figure("messages of repairs", Some(purpose("repair"))),
        figure("requests lost", Some(report.requests_lost as f64)),
    ]
}

fn plan(query: &SimulateQuery) -> Result<Plan, Refused> {
    bounded("number of processes", query.nodes.into(), 1, MOST_NODES.into())?;
    bounded("number of entries", query.entries, 1, MOST_ENTRIES)?;
    let mut setup = Setup::new(query.nodes);
    if let Some(topology) = &query.topology {
        setup.topology = topology.parse().map_err(named)?;
    }
    if let Some(quorums) = &query.quorums {
        setup.quorums = quorums.parse().map_err(named)?;
    }
    let latency = duration(&query.latency)?;
    let hold = duration(&query.hold)?;
    let mut network = Network::new(latency);
    network.fifo = !query.reorder;
    if let Some(crash) = query.crash.as_deref().filter(|crash| !crash.is_empty()) {
        network.outages.push(outage(crash, query.nodes)?);
    }
    let load = match query.load.split_once(':').unwrap_or((&query.load, "")) {
        ("light", "") => Workload::light(query.nodes, network.mean_latency(), hold).load,
        ("saturated", "") => Load::Saturated,
        ("think", time) => Load::Think(duration(time)?),
        _ => return Err(figure("load", &query.load, "light, saturated or think:10ms")),
    };
    let workload = Workload { load, who: Who::All, hold };
    let mut plan = Plan::new(setup, network, workload, query.entries);
    plan.seed = query.seed;
    plan.max_events = MOST_EVENTS;
    plan.warm_up_events = Some(MOST_EVENTS / 2);
    Ok(plan)
}

fn figure(what: &'static str, given: &str, right: &str) -> Refused {
    Refused::Figure { what, given: given.to_owned(), right: right.to_owned() }
}

fn named(unknown: mutua_algorithms::UnknownName) -> Refused {
    Refused::Unsuited(unknown.to_string())
}

fn bounded(what: &'static str, given: u64, least: u64, most: u64) -> Result<(), Refused> {
    if (least..=most).contains(&given) {
        return Ok(());
    }
    Err(figure(what, &given.to_string(), &format!("{least} to {most}")))
}

fn duration(text: &str) -> Result<mutua_simulator::Distribution, Refused> {
    durations::distribution(text).map_err(|error| Refused::Unsuited(error.to_string()))
}

fn outage(text: &str, nodes: u32) -> Result<Outage, Refused> {
    let wrong = || figure("crash", text, "ID@FROM or ID@FROM..UNTIL, as in 2@10ms..20ms");
    let time = |text: &str| durations::nanoseconds(text).map_err(|_| wrong());
    let (node, times) = text.split_once('@').ok_or_else(wrong)?;
    let node: u32 = node.trim().parse().map_err(|_| wrong())?;
    let (from, until) = match times.split_once("..") {
        None => (time(times)?, None),
        Some((from, until)) => (time(from)?, Some(time(until)?)),
    };
    if node >= nodes || until.is_some_and(|until| until < from) {
        return Err(wrong());
    }
    Ok(Outage { node: NodeId(node), from, until })
}

/// The run as the page shows it, put together while it is recorded.
#[derive(Default)]
struct Seen {
    names: Vec<String>,
    kinds: Vec<String>,
    messages: Vec<RunMessage>,
    /// The messages in flight by sender, number and receiver: their index in `messages`.
    under_way: BTreeMap<(usize, u64, usize), usize>,
    spans: Vec<RunSpan>,
    /// The open span of each process: its kind and beginning.
    open: BTreeMap<usize, (u8, u64)>,
    entered: Vec<(u64, usize)>,
    end: u64,
    cut: bool,
}

const WAITING: u8 = 0;
const IN_CS: u8 = 1;
const DOWN: u8 = 2;

impl Seen {
    fn note(&mut self, event: &Event) {
        if self.cut || self.messages.len() >= MOST_MESSAGES {
            self.cut = true;
            return;
        }
        let (at, who) = (event.at, event.who.index());
        self.end = at;
        match &event.what {
            What::Request => self.begin(who, WAITING, at),
            What::Enter { .. } => {
                self.finish(who, at);
                self.begin(who, IN_CS, at);
                self.entered.push((at, who));
            }
            What::Exit | What::Restart => self.finish(who, at),
            What::Crash => {
                self.finish(who, at);
                self.begin(who, DOWN, at);
            }
            What::Send { to, message, .. } => self.sent(who, to.index(), message, at),
            What::Multicast { to, message } => {
                to.iter().for_each(|to| self.sent(who, to.index(), message, at));
            }
            What::Receive { from, message } => {
                if let Some(index) = self.under_way.remove(&(from.index(), message.id, who)) {
                    self.messages[index].3 = at;
                }
            }
            _ => {}
        }
    }

    fn begin(&mut self, who: usize, kind: u8, at: u64) {
        self.open.insert(who, (kind, at));
    }

    fn finish(&mut self, who: usize, at: u64) {
        if let Some((kind, from)) = self.open.remove(&who) {
            self.spans.push((who, kind, from, at));
        }
    }

    fn sent(&mut self, from: usize, to: usize, message: &crate::Message, at: u64) {
        let known = self.kinds.iter().position(|kind| *kind == message.kind);
        let kind = known.unwrap_or_else(|| {
            self.kinds.push(message.kind.to_string());
            self.kinds.len() - 1
        });
        self.under_way.insert((from, message.id, to), self.messages.len());
        self.messages.push((from, to, at, 0, kind));
    }
}

fn whole(
    query: &SimulateQuery,
    about: &'static About,
    plan: &Plan,
    report: &Report,
    mut seen: Seen,
) -> Simulated {
    for who in 0..seen.names.len() {
        seen.finish(who, seen.end);
    }
    let (theory, without_theory) = theory(query, about, plan);
    Simulated {
        version: env!("CARGO_PKG_VERSION"),
        title: about.title,
        command: command(query),
        figures: figures(report, &theory),
        without_theory,
        processes: seen.names,
        kinds: seen.kinds,
        messages: seen.messages,
        spans: seen.spans,
        end: seen.end,
        cut: seen.cut,
        entered: seen.entered,
        violations: report.violations.iter().map(|violation| violation.what.clone()).collect(),
        hash: report.trace_hash.clone(),
    }
}

/// The theory of the run, or why there is none.
fn theory(
    query: &SimulateQuery,
    about: &'static About,
    plan: &Plan,
) -> (mutua_simulator::Theory, String) {
    let steady = plan.network.fifo && query.crash.as_deref().is_none_or(str::is_empty);
    let load = match plan.workload.load {
        Load::Light { .. } => Some(TheoryLoad::Light),
        Load::Saturated => Some(TheoryLoad::Saturated),
        Load::Think(_) | Load::Bursts { .. } | Load::Poisson { .. } | Load::Script(_) => None,
    };
    match load {
        Some(load) if steady => (theory_of(about, &plan.setup, load), String::new()),
        Some(_) => (
            mutua_simulator::Theory::default(),
            "The formulas assume links that keep order, and no crashes.".to_owned(),
        ),
        None => (
            mutua_simulator::Theory::default(),
            "There are formulas for light and saturated load only.".to_owned(),
        ),
    }
}

fn figures(report: &Report, theory: &mutua_simulator::Theory) -> Vec<Figure> {
    let figure = |name, measured: Option<f64>, theory: Option<&mutua_simulator::Expected>| Figure {
        name,
        measured: measured.filter(|value| value.is_finite()),
        theory: theory.map(|expected| expected.value),
        formula: theory.map(|expected| expected.formula.clone()),
    };
    let waiting = report.waiting_time.as_ref();
    vec![
        figure("messages per entry", Some(report.messages_per_entry), theory.messages.as_ref()),
        figure("client delay, in latencies", report.client_delay, theory.client_delay.as_ref()),
        figure("sync delay, in latencies", report.sync_delay, theory.sync_delay.as_ref()),
        figure("waiting time, mean, in latencies", waiting.map(|time| time.mean), None),
        figure("entries per second", Some(report.throughput), None),
        figure("entries measured", Some(report.entries as f64), None),
    ]
}

/// The command that repeats the run.
fn command(query: &SimulateQuery) -> String {
    let mut words = format!("mutua simulate {} --nodes {}", query.algorithm, query.nodes);
    for (option, value) in [("topology", &query.topology), ("quorums", &query.quorums)] {
        if let Some(value) = value {
            words += &format!(" --{option} {value}");
        }
    }
    words += &format!(
        " --load {} --hold {} --latency {} --entries {} --seed {}",
        query.load, query.hold, query.latency, query.entries, query.seed
    );
    if query.reorder {
        words += " --reorder";
    }
    if let Some(crash) = query.crash.as_deref().filter(|crash| !crash.is_empty()) {
        words += &format!(" --crash {crash}");
    }
    if let Some(repair) = query.repair() {
        words += &format!(" --repair {repair}");
    }
    words
}
