//! A ring that passes one process over: the token goes round for ever, and that one starves.

use mutua_algorithms::{
    About, Claim, Costs, Fields, Inspect, Kind, Links, Message, Mutex, NodeId, Outbox, Partners,
    Phase, Renaming, Setup, Stamp, Start, Structure,
};
use serde::{Deserialize, Serialize};

use super::*;
use crate::{
    ghost::Ghost,
    host::NoClock,
    limits::Limits,
    model::{Build, bit},
    search::{Wanted, search},
    system::System,
    trail::trail_round,
};

/// A process of a token ring of three in which the last is passed over, if `FAIR` is false.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Ring<const FAIR: bool> {
    me: NodeId,
    phase: Phase,
}

#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
struct Token;

impl Message for Token {
    fn kind(&self) -> &'static str {
        "token"
    }
}

impl<const FAIR: bool> Ring<FAIR> {
    fn pass(&self, out: &mut Outbox<Token>) {
        let members = if FAIR { 3 } else { 2 };
        out.send_lazily(NodeId((self.me.0 + 1) % members), Token);
    }
}

impl<const FAIR: bool> Mutex for Ring<FAIR> {
    type Message = Token;

    const ABOUT: &'static About = &ABOUT;

    fn new(me: NodeId, _start: &Start) -> Self {
        Self { me, phase: Phase::Idle }
    }

    fn begin(&mut self, out: &mut Outbox<Token>) {
        if self.me == NodeId(0) {
            self.pass(out);
        }
    }

    fn request(&mut self, _ours: Stamp, _out: &mut Outbox<Token>) {
        self.phase = Phase::Requesting;
    }

    fn receive(&mut self, _from: NodeId, _token: Token, out: &mut Outbox<Token>) {
        if self.phase == Phase::Requesting {
            self.phase = Phase::InCs;
            out.enter();
        } else {
            self.pass(out);
        }
    }

    fn release(&mut self, out: &mut Outbox<Token>) {
        self.phase = Phase::Idle;
        self.pass(out);
    }
}

impl<const FAIR: bool> Inspect for Ring<FAIR> {
    fn phase(&self) -> Phase {
        self.phase
    }

    fn would_enter_at_once(&self) -> bool {
        false
    }

    fn is_at_start(&self, _start: &Start) -> bool {
        false
    }

    fn waits_for(&self) -> Vec<NodeId> {
        Vec::new()
    }

    fn variables(&self) -> Fields {
        Fields::new()
    }

    /// Those that are passed over are all alike.
    fn is_symmetric(_start: &Start, renaming: &Renaming) -> bool {
        !FAIR && [0, 1].map(NodeId).into_iter().all(|node| renaming.of(node) == node)
    }

    fn rename(&mut self, renaming: &Renaming) {
        self.me = renaming.of(self.me);
    }
}

const ABOUT: About = About {
    name: "test-ring",
    title: "",
    kind: Kind::Mutex,
    family: "token",
    control: true,
    claims: &[],
    links: Links::Any,
    structure: Structure::Ring,
    partners: Partners::All,
    uses_stamps: false,
    options: &[],
    costs: Costs::NONE,
    order: "",
    source: "",
    idea: "",
    rules: &[],
    invariants: &[],
    known_failures: &[],
};

/// Whether a process starves, and if so the run that shows it: its length and where it repeats.
fn starves<const FAIR: bool>() -> Option<(usize, Option<usize>)> {
    let system = System::new(Setup::new(3), 1);
    let model = Model::of_mutex::<Ring<FAIR>>(&system, Build::plain(Ghost::None)).expect("a ring");
    let wanted = Wanted {
        properties: bit(Claim::MutualExclusion) | bit(Claim::DeadlockFree) | bit(Claim::Liveness),
        first: false,
    };
    let limits = Limits { threads: 1, ..Limits::default() };
    let reached = search(&model, wanted, &limits, &mut NoClock);
    assert!(reached.found.is_empty() && reached.stopped.is_none(), "nothing is ever at rest");
    assert!(reached.backward > 0, "the token goes round");
    let trap = find_trap(&model, &reached, Links::Any)?;
    let (way, begin) = trap.way_round(&model, &reached);
    let trail = trail_round(&model, &reached, &way, begin);
    Some((trail.steps.len(), trail.cycle))
}

#[test]
fn a_process_passed_over_for_ever_is_found_though_nothing_is_ever_at_rest() {
    // It requests, and the token goes there and back.
    assert_eq!(starves::<false>(), Some((3, Some(1))));
}

#[test]
fn a_token_that_goes_round_for_ever_is_no_starvation() {
    assert_eq!(starves::<true>(), None);
}

/// Where names are merged, the starving process may change its name from round to round. It is not
/// looked for there; but that runs go round must be seen, so that it is looked for with nothing
/// merged.
#[test]
fn a_cycle_is_seen_though_names_are_merged() {
    let system = System::new(Setup::new(4), 1);
    let limits = Limits { threads: 1, ..Limits::default() };
    let wanted = Wanted { properties: bit(Claim::Liveness), first: false };
    let plain = Build::plain(Ghost::None);
    let reached = [plain, Build { symmetry: true, ..plain }].map(|build| {
        let model = Model::of_mutex::<Ring<false>>(&system, build).expect("a ring");
        assert_eq!(model.symmetries.len(), usize::from(build.symmetry), "the last two");
        let reached = search(&model, wanted, &limits, &mut NoClock);
        assert!(go_round(&model, &reached));
        reached.states()
    });
    assert!(reached[1] < reached[0], "{reached:?}");
}
