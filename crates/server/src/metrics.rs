//! Figures for monitors: counted here as they happen, or taken from the node at each request.

use std::{
    collections::HashMap,
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use mutua_node::{Moment, NodeFigures, NodeStatus};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, text::encode},
    metrics::{
        counter::{ConstCounter, Counter},
        family::Family,
        gauge::ConstGauge,
        histogram::Histogram,
        info::Info,
    },
    registry::{Registry, Unit},
};

use crate::{Service, leases::Outcome, process};

/// The bounds of waits and holds, in seconds: from a hand-over between processes to a night's job.
const BOUNDS: [f64; 14] =
    [0.0001, 0.0005, 0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 14_400.0];

/// The most locks that are named.
const NAMES: usize = 1000;

/// The bounds of what is left of a lease when it is renewed, in seconds. A client renews each third
/// of its lease, so by default 6.7 s are left.
const MARGINS: [f64; 10] = [0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 120.0];

/// Figures that are counted as they happen.
#[derive(Debug)]
pub(crate) struct Metrics {
    waits: Histogram,
    holds: Histogram,
    requests: Family<ByOutcome, Counter>,
    lost: Counter,
    margins: Histogram,
    /// When the locks that are held were granted, by fencing token.
    granted: HashMap<u64, Moment>,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct ByOutcome {
    outcome: &'static str,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            waits: Histogram::new(BOUNDS),
            holds: Histogram::new(BOUNDS),
            requests: Family::default(),
            lost: Counter::default(),
            margins: Histogram::new(MARGINS),
            granted: HashMap::new(),
        }
    }
}

impl Metrics {
    /// Counts the outcome of a client's request.
    pub(crate) fn replied(&mut self, now: Moment, outcome: &Outcome) {
        let outcome = match outcome {
            Outcome::Granted { fencing_token, waited } => {
                self.waits.observe(waited.as_secs_f64());
                self.granted.insert(*fencing_token, now);
                "granted"
            }
            Outcome::Busy => "busy",
            Outcome::TimedOut => "timed-out",
            Outcome::Unavailable(_) => "unavailable",
            // Nothing was decided about the lock.
            Outcome::Already { .. } | Outcome::NoSession | Outcome::Cancelled => return,
        };
        self.requests.get_or_create(&ByOutcome { outcome }).inc();
    }

    /// A hold has ended, in one way or another.
    pub(crate) fn ended(&mut self, now: Moment, fencing_token: u64) {
        if let Some(since) = self.granted.remove(&fencing_token) {
            self.holds.observe(now.since(since).as_secs_f64());
        }
    }

    /// A holder has lost its lock.
    pub(crate) fn lost(&self) {
        self.lost.inc();
    }

    /// A client has renewed its lease when so much of it was left.
    pub(crate) fn renewed(&self, left: Duration) {
        self.margins.observe(left.as_secs_f64());
    }

    fn register(&self, registry: &mut Registry) {
        let help = "Time from a client's request to its grant";
        registry.register_with_unit("wait", help, Unit::Seconds, self.waits.clone());
        let help = "Time from a grant to its release, expiry or loss";
        registry.register_with_unit("hold", help, Unit::Seconds, self.holds.clone());
        let help = "Requests of clients by outcome";
        registry.register("requests", help, self.requests.clone());
        let help = "Time that was left of a client's lease when it was renewed";
        registry.register_with_unit("lease_margin", help, Unit::Seconds, self.margins.clone());
        registry.register("lost", "Holders that lost their lock", self.lost.clone());
    }
}

/// The registry of a server: its counted figures, and those of its node at the time of asking.
pub(crate) fn registry(service: &Arc<Service>, names: bool) -> Registry {
    let mut registry = Registry::with_prefix("mutua");
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let labels = [
        ("version".to_owned(), version),
        ("cluster".to_owned(), service.node.status().cluster.unwrap_or_default()),
        ("node".to_owned(), service.name.clone()),
    ];
    registry.register("build", "Version and names", Info::new(labels.to_vec()));
    service.call(|core, _| core.metrics.register(&mut registry));
    registry.register_collector(Box::new(OfNode { service: Arc::downgrade(service), names }));
    registry
}

/// All figures as text in the format OpenMetrics.
pub(crate) fn text(registry: &Registry) -> Result<String, fmt::Error> {
    let mut text = String::new();
    encode(&mut text, registry)?;
    // Figures of the process have the names that dashboards know, without a prefix.
    let end = text.rfind("# EOF").unwrap_or(text.len());
    text.insert_str(end, &process::figures());
    Ok(text)
}

#[derive(Debug)]
struct OfNode {
    service: std::sync::Weak<Service>,
    /// Whether locks are named.
    names: bool,
}

impl Collector for OfNode {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(service) = self.service.upgrade() else { return Ok(()) };
        let status = service.status();
        let (sessions, longest, waited_for) = service.call(|core, now| {
            let leases = &core.leases;
            (leases.sessions(), leases.longest_queue(), leases.quarantine(now).as_secs_f64())
        });
        let mut out = Out(&mut encoder);
        out.gauge("sessions", "Sessions of clients", sessions as f64)?;
        let help = "Waiters at this node for the lock with most of them";
        out.gauge("longest_queue", help, longest as f64)?;
        let help = "Seconds for which leases of before a crash are still waited for";
        out.gauge("quarantine_seconds", help, waited_for)?;
        node(&mut out, &status)?;
        links(&mut encoder, &status)?;
        since_start(&mut encoder, &service.handle.figures())?;
        if self.names {
            locks(&mut encoder, &service)?;
        }
        if let Some(identity) = service.node.identity() {
            let until = identity.certificate().until;
            let until = until.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let help = "When the node's certificate expires, in seconds since 1970";
            let mut out = Out(&mut encoder);
            out.gauge("certificate_expiry_timestamp_seconds", help, until.as_secs_f64())?;
        }
        Ok(())
    }
}

fn node(out: &mut Out<'_, '_>, status: &NodeStatus) -> fmt::Result {
    out.counter("grants", "Grants to clients of this node", status.grants)?;
    out.counter("messages", "Messages of the algorithms", status.messages)?;
    let help = "Messages that algorithms send without a request";
    out.counter("lazy_messages", help, status.lazy)?;
    out.gauge("locks", "Names that the node knows", status.locks as f64)?;
    out.gauge("held", "Locks that clients of this node hold", status.held as f64)?;
    out.gauge("waiting", "Waiters at this node", status.waiting as f64)?;
    let epoch = f64::from(status.epoch.unwrap_or_default());
    out.gauge("view_epoch", "Epoch of the view; 0 in none", epoch)?;
    let suspended = f64::from(u8::from(status.suspended.is_some()));
    out.gauge("suspended", "Whether grants are suspended", suspended)?;
    let left = status.lease_left_ms.unwrap_or_default() as f64 / 1000.0;
    out.gauge("view_lease_seconds", "Time until the view lease lapses unless it is renewed", left)
}

fn since_start(encoder: &mut DescriptorEncoder<'_>, figures: &NodeFigures) -> fmt::Result {
    let NodeFigures { messages, views, round_trips } = figures;
    Out(encoder).counter("view_changes", "Views that have begun at this node", *views)?;
    let help = "Round trip of the last request for the view lease to a voter";
    let trips = round_trips.iter().map(|(member, time)| (&**member, time.as_secs_f64()));
    each(encoder, "link_round_trip_seconds", help, trips)?;
    let help = "Messages of the algorithms by algorithm and type, lazy ones included";
    let kind = ConstCounter::new(0_u64).metric_type();
    let mut metric = encoder.encode_descriptor("messages_sent", help, None, kind)?;
    for (algorithm, kind, count) in messages {
        let labels = [("algorithm", *algorithm), ("type", *kind)];
        ConstCounter::new(*count).encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}

fn links(encoder: &mut DescriptorEncoder<'_>, status: &NodeStatus) -> fmt::Result {
    let others = || status.members.iter().filter(|member| member.name != status.node);
    let help = "Whether the link to a member is connected";
    each(encoder, "link_up", help, others().map(|one| (&*one.name, f64::from(u8::from(one.up)))))?;
    let help = "Messages that a member has not acknowledged";
    each(encoder, "link_backlog", help, others().map(|one| (&*one.name, one.backlog as f64)))
}

/// Each lock that is held or waited for at this node, by its name.
fn locks(encoder: &mut DescriptorEncoder<'_>, service: &Arc<Service>) -> fmt::Result {
    let mut locks = service.call(|core, now| core.leases.list(now, b""));
    locks.truncate(NAMES);
    let named: Vec<_> = locks.iter().map(|lock| shown(&lock.name)).collect();
    let held = named.iter().zip(&locks).filter_map(|(name, lock)| {
        let elapsed = lock.holder.as_ref()?.elapsed;
        Some((&**name, elapsed.as_secs_f64()))
    });
    let help = "Time for which a client of this node holds a lock";
    each_with(encoder, "lock", "lock_held_seconds", help, held)?;
    let waiting = named.iter().zip(&locks).map(|(name, lock)| (&**name, lock.waiting.len() as f64));
    each_with(encoder, "lock", "lock_waiting", "Waiters at this node for a lock", waiting)
}

fn shown(name: &[u8]) -> String {
    str::from_utf8(name).map_or_else(|_| name.escape_ascii().to_string(), str::to_owned)
}

/// A gauge for each member.
fn each<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: impl Iterator<Item = (&'a str, f64)>,
) -> fmt::Result {
    each_with(encoder, "member", name, help, values)
}

/// A gauge for each value of a label.
fn each_with<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    label: &str,
    name: &str,
    help: &str,
    values: impl Iterator<Item = (&'a str, f64)>,
) -> fmt::Result {
    let gauge = ConstGauge::new(0.0);
    let mut metric = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
    for (of, value) in values {
        let labels = [(label, of)];
        ConstGauge::new(value).encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}

/// Writes single figures.
struct Out<'a, 'b>(&'a mut DescriptorEncoder<'b>);

impl Out<'_, '_> {
    fn gauge(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        let gauge = ConstGauge::new(value);
        let metric = self.0.encode_descriptor(name, help, None, gauge.metric_type())?;
        gauge.encode(metric)
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let counter = ConstCounter::new(value);
        let metric = self.0.encode_descriptor(name, help, None, counter.metric_type())?;
        counter.encode(metric)
    }
}
