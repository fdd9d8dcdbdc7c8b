//! Estimates whether a system fits into memory before it is built.

use mutua_algorithms::{About, Partners, QuorumKind, Setup, registry, repairs::ElectionName};
use mutua_simulator::{Detector, Load, Plan, RepairPlan, Sizes, Who};

use crate::{
    Script,
    script::{Command, Item},
};

/// What is run of a system, as far as it decides the memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Run {
    /// An algorithm for mutual exclusion, or an election.
    Plain {
        /// How many critical sections there are.
        sections: u32,
        /// How many processes may have messages in transit at the same time.
        senders: u32,
    },
    /// An algorithm with a repair.
    Repaired {
        /// The election of the repair.
        election: ElectionName,
        /// Whether every process sends heartbeats to every other one.
        heartbeats: bool,
    },
    /// A ring under a daemon, which has flags and no messages.
    Daemon,
    /// A script, which keeps its whole trace.
    Script {
        /// How many critical sections there are.
        sections: u32,
        /// How many steps make a process send messages to its partners.
        requests: u32,
        /// The highest process that takes such a step, counted from 1: its number is the length of
        /// what processes and messages know of requests.
        highest: u32,
    },
}

impl Run {
    /// One critical section, with one request at a time.
    pub const LIGHT: Self = Self::Plain { sections: 1, senders: 1 };

    /// One critical section, for which all processes may request at the same time, or an election.
    pub const BUSY: Self = Self::Plain { sections: 1, senders: u32::MAX };

    /// The run of this plan.
    pub fn of(plan: &Plan) -> Self {
        let requesters = match plan.workload.who {
            Who::All | Who::Zipf(_) => u32::MAX,
            Who::Hot(count) => count,
            Who::One(_) => 1,
        };
        let requests = match &plan.workload.load {
            Load::Light { .. } => 1,
            Load::Script(requests) => u32::try_from(requests.len()).unwrap_or(u32::MAX),
            Load::Saturated | Load::Think(_) | Load::Poisson { .. } | Load::Bursts { .. } => {
                u32::MAX
            }
        };
        Self::Plain { sections: plan.sections.count, senders: requesters.min(requests) }
    }

    /// The run of this script.
    pub fn script(script: &Script) -> Self {
        let senders = script.lines.iter().filter_map(|line| match line.item {
            Item::Command(Command::Request(who) | Command::Start(who) | Command::Exit(who)) => {
                Some(who.0)
            }
            _ => None,
        });
        let (requests, highest) =
            senders.fold((0, 0), |(count, highest), who| (count + 1, who.max(highest)));
        let sections = u32::try_from(script.system.sections.len()).unwrap_or(u32::MAX).max(1);
        Self::Script { sections, requests, highest: highest + 1 }
    }

    /// The run of this plan with a repair.
    pub fn repaired(plan: &RepairPlan) -> Self {
        let heartbeats = matches!(plan.detector, Detector::Timeout(_));
        Self::Repaired { election: plan.election, heartbeats }
    }
}

/// The bytes beside a process and its client: what both allocate, its place in the structure, and
/// its share of what is measured and judged.
const BESIDE_PROCESS: f64 = 128.0;
/// The bytes that a process keeps about another one.
const ABOUT_PARTNER: f64 = 32.0;
/// The bytes of a process under a daemon: its flag at the start, now, after the next step, at a
/// landmark and in the report, and whether it is privileged.
const OF_A_FLAG: f64 = 32.0;
/// The bytes of an event of a trace, beside what it shows of other processes: of a script the trace
/// is kept twice, for the run and for the outcome.
const OF_AN_EVENT: f64 = 1024.0;
/// The bytes by which an event grows with each partner of its process.
const SHOWN_OF_PARTNER: f64 = 48.0;
/// The bytes by which a message grows with each process that has requested or could have.
const KNOWN: f64 = 4.0;
/// What holds events grows by doubling.
const GROWTH: f64 = 2.0;

/// The messages of a request to a few partners.
const FEW: f64 = 4.0;

const GIB: f64 = 1024.0 * 1024.0 * 1024.0;
const MIB: f64 = 1024.0 * 1024.0;

/// A system whose estimated size exceeds the memory.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(
    "{algorithm} with {nodes} processes needs about {} of memory, and a run can have {}: {}",
    bytes(*estimate),
    bytes(*memory),
    advice(*most)
)]
pub struct TooLarge {
    /// The algorithm.
    pub algorithm: &'static str,
    /// How many processes contend.
    pub nodes: u32,
    /// The bytes that it needs, about.
    pub estimate: f64,
    /// The bytes that it may use.
    pub memory: f64,
    /// How many processes would fit, about.
    pub most: u32,
}

/// Refuses a system that is estimated to need more than so many bytes.
pub fn check(about: &About, setup: &Setup, run: Run, memory: u64) -> Result<(), TooLarge> {
    let needs = |nodes: u32| estimate(about, setup, run, nodes);
    let (estimate, memory) = (needs(setup.nodes), memory as f64);
    if estimate <= memory {
        return Ok(());
    }
    let (mut most, mut nodes) = (0, setup.nodes);
    while most + 1 < nodes {
        let middle = most + (nodes - most) / 2;
        if needs(middle) <= memory { most = middle } else { nodes = middle }
    }
    // An estimate has no more digits than two.
    let digits = 10_u32.pow(most.max(1).ilog10().saturating_sub(1));
    let most = most / digits * digits;
    Err(TooLarge { algorithm: about.name, nodes: setup.nodes, estimate, memory, most })
}

fn estimate(about: &About, setup: &Setup, run: Run, nodes: u32) -> f64 {
    let all = f64::from(nodes);
    let partners_of = |about: &About| match about.partners {
        Partners::Few => 0.0,
        Partners::Quorum if setup.quorums != QuorumKind::Majority => 2.0 * all.sqrt(),
        Partners::Quorum | Partners::All => all,
    };
    let (sections, senders, partners) = match run {
        Run::Plain { sections, senders } => (sections, senders, partners_of(about)),
        Run::Repaired { heartbeats: true, .. } => (1, u32::MAX, all),
        Run::Repaired { election, .. } => {
            let election = registry::about(election.name()).map_or(all, partners_of);
            (1, u32::MAX, partners_of(about).max(election))
        }
        Run::Daemon => return all * OF_A_FLAG,
        Run::Script { sections, requests, highest } => {
            let (partners, requests) = (partners_of(about), f64::from(requests));
            let instances = all * f64::from(sections);
            let messages = requests * partners.max(FEW);
            let shown = OF_AN_EVENT + SHOWN_OF_PARTNER * partners;
            let knowing = instances.min(messages) + messages;
            let known = KNOWN * f64::from(highest).min(instances);
            return (instances + 2.0 * messages) * shown + knowing * known;
        }
    };
    let repaired = matches!(run, Run::Repaired { .. });
    let Some(Sizes { process, event }) = Sizes::of(about.name, repaired) else { return 0.0 };
    let event = GROWTH * event as f64;
    let instance = process as f64 + BESIDE_PROCESS + ABOUT_PARTNER * partners;
    // Each process has an event to come, and a message in transit.
    let in_transit = all * 2.0 * event + f64::from(senders.min(nodes)) * partners * event;
    all * f64::from(sections) * instance + in_transit
}

/// A number of bytes for people.
fn bytes(count: f64) -> String {
    match count {
        count if count >= 10.0 * 1024.0 * GIB => format!("{:.0} TiB", count / 1024.0 / GIB),
        count if count >= 10.0 * GIB => format!("{:.0} GiB", count / GIB),
        count if count >= GIB => format!("{:.1} GiB", count / GIB),
        count => format!("{:.0} MiB", count / MIB),
    }
}

fn advice(most: u32) -> String {
    match most {
        0 => "free memory, or raise its limit".to_owned(),
        most => format!("give at most {most} processes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(name: &str, nodes: u32, run: Run, memory: u64) -> Option<TooLarge> {
        let about = registry::about(name).expect("an algorithm");
        check(about, &Setup::new(nodes), run, memory).err()
    }

    #[test]
    fn what_is_said_to_fit_fits() {
        for name in ["raymond", "lamport", "maekawa", "bully", "central"] {
            let large = refusal(name, 1_000_000_000, Run::BUSY, 8 << 30).expect("it is large");
            assert!(large.most > 1000, "{large}");
            assert_eq!(refusal(name, large.most, Run::BUSY, 8 << 30), None, "{name}");
            assert!(large.to_string().contains("a run can have 8.0 GiB: give at most"), "{large}");
        }
        let small = refusal("raymond", 1_000_000_000, Run::BUSY, 10).expect("nothing fits");
        assert!(small.to_string().ends_with("free memory, or raise its limit"), "{small}");
    }

    #[test]
    fn the_estimate_depends_on_what_is_run() {
        let most = |name, run| refusal(name, u32::MAX, run, 8 << 30).expect("it is large").most;
        let crowded = |sections| Run::Plain { sections, senders: u32::MAX };
        assert!(most("raymond", crowded(1)) > 5 * most("raymond", crowded(10)));
        assert!(most("lamport", Run::LIGHT) > most("lamport", Run::BUSY));
        let repaired = |election| Run::Repaired { election, heartbeats: false };
        let ring = most("raymond", repaired(ElectionName::ChangRoberts));
        assert!(ring > 100 * most("raymond", repaired(ElectionName::Bully)));
        assert!(most("dijkstra", Run::Daemon) > most("dijkstra", Run::LIGHT));
    }
}
