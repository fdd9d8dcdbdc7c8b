//! The type that stands for all algorithms does what each of them does.

use mutua_algorithms::{
    Effect, Kind, Message, Mutex, NodeId, Outbox, Process, Setup, Start,
    registry::{self, MutexVisitor},
    repairs::{ElectionName, Plan},
    split_mix::Dice,
};
use mutua_lab::{Cluster, RepairCluster};
use mutua_trace::{Header, Unit};

/// One random schedule of a system, and what was observed of it.
struct Schedule {
    setup: Setup,
    seed: u64,
}

impl MutexVisitor for Schedule {
    type Output = Vec<String>;

    fn visit<M: Mutex>(self) -> Vec<String> {
        let start = self.setup.start::<M>().expect("the defaults suit four processes");
        let mut seen = vec![format!("{:?}", M::special_repair(&start))];
        seen.extend(encoded_requests::<M>(&start));
        let mut dice = Dice(self.seed);
        let about = start.about();
        let header = Header::new(about.name, &start, Header::default_names(&start), Unit::Step);
        let mut cluster = Cluster::<M>::new(start.clone(), about.links, header.clone());
        for _ in 0..400 {
            let who = NodeId(dice.below(u64::from(start.contenders())) as u32);
            // What cannot happen now is refused and changes nothing.
            let _ = cluster.request(who);
            for _ in 0..dice.index(4) {
                if cluster.in_flight_count() > 0 {
                    cluster.deliver_nth(dice.index(cluster.in_flight_count()));
                }
            }
            let _ = cluster.release(NodeId(dice.below(u64::from(start.contenders())) as u32));
            let waits: Vec<_> =
                start.all().map(|who| cluster.process(who).machine().waits_for()).collect();
            seen.push(format!("{waits:?}"));
        }
        seen.extend(cluster.events().iter().map(|event| format!("{event:?}")));
        seen.extend(repaired::<M>(&self.setup, header));
        seen
    }
}

/// The messages of first requests, as they are encoded.
fn encoded_requests<M: Mutex>(start: &Start) -> Vec<String> {
    let mut all = Vec::new();
    let mut note = |message: &M::Message| {
        let encoded = serde_json::to_string(message).expect("plain data");
        all.push(format!("{} {encoded}", message.kind()));
    };
    for me in start.all().take(start.contenders() as usize) {
        let mut out = Outbox::new();
        let mut process = Process::<M>::new(me, start);
        process.begin(&mut out);
        if !start.is_in_cs(me) {
            process.request(&mut out);
        }
        out.drain(|effect| match effect {
            Effect::Send { message, .. } | Effect::Multicast { message, .. } => note(&message),
            Effect::Enter | Effect::Nonsense { .. } => {}
        });
    }
    all
}

/// The trace of a system with its special repair, one of whose processes crashes.
fn repaired<M: Mutex>(setup: &Setup, header: Header) -> Vec<String> {
    let plan = Plan::new::<M>(setup, ElectionName::default()).expect("a plan").with_special();
    let mut cluster = RepairCluster::<M>::new(plan, header);
    for who in [1, 2].map(NodeId) {
        let _ = cluster.request(who);
    }
    let _ = cluster.crash(NodeId(3));
    for to in [0, 1, 2].map(NodeId) {
        let _ = cluster.report(NodeId(3), to);
    }
    let _ = cluster.deliver_all();
    cluster.events().iter().map(|event| format!("{event:?}")).collect()
}

#[test]
fn any_mutex_does_what_the_algorithm_does() {
    for about in registry::ALGORITHMS.iter().filter(|about| about.kind == Kind::Mutex) {
        for seed in 0..6 {
            let schedule = || Schedule { setup: Setup::new(4).of(about.name), seed };
            let own = registry::visit_each(about.name, schedule()).expect("a known name");
            let any = registry::visit_any(about.name, schedule()).expect("a known name");
            assert!(own.len() > 100, "{}: {} events", about.name, own.len());
            for (number, (own, any)) in own.iter().zip(&any).enumerate() {
                assert_eq!(own, any, "{}, seed {seed}, line {number}", about.name);
            }
            assert_eq!(own.len(), any.len(), "{}, seed {seed}", about.name);
        }
    }
}
