//! One type that stands for every mutual exclusion algorithm, where the size of the code counts
//! more than its speed.
//!
//! Drivers are generic over the algorithm, so the compiler writes each of them once per algorithm:
//! the fastest code, and most of the size of a module that a browser loads. With [`AnyMutex`] it
//! writes them once. A handler costs a `match` and the copy of its effects more.

use serde::{Deserialize, Deserializer, de::Error};

use super::{AnyMessage, Outbox};
use crate::{About, Costs, Effect, Kind, Links, Partners, Structure};

/// Lets a machine handle an event, and passes its effects on as those of any machine.
pub(super) fn pass_on<M>(
    out: &mut Outbox<AnyMessage>,
    wrap: fn(M) -> AnyMessage,
    handle: impl FnOnce(&mut Outbox<M>),
) {
    let mut own = Outbox::new();
    handle(&mut own);
    move_effects(&mut own, wrap, out);
}

/// Apart from its caller, so that there is one for each algorithm and not for each handler.
#[inline(never)]
fn move_effects<M>(own: &mut Outbox<M>, wrap: fn(M) -> AnyMessage, out: &mut Outbox<AnyMessage>) {
    own.drain(|effect| match effect {
        Effect::Send { to, message, lazy: false } => out.send(to, wrap(message)),
        Effect::Send { to, message, lazy: true } => out.send_lazily(to, wrap(message)),
        Effect::Multicast { to, message } => out.multicast(to.iter().copied(), wrap(message)),
        Effect::Enter => out.enter(),
        Effect::Nonsense { from, why } => out.nonsense(from, why),
    });
}

/// A node knows the algorithm of every message, so this type is never read.
impl<'de> Deserialize<'de> for AnyMessage {
    fn deserialize<D: Deserializer<'de>>(_deserializer: D) -> Result<Self, D::Error> {
        Err(D::Error::custom("a message without its algorithm cannot be read"))
    }
}

/// The row of no algorithm: a driver that reads it instead of [`Start::about`](crate::Start::about)
/// shows it.
pub(super) const ANY: About = About {
    name: "any",
    title: "any algorithm",
    kind: Kind::Mutex,
    family: "",
    control: true,
    claims: &[],
    links: Links::Fifo,
    structure: Structure::Complete,
    partners: Partners::All,
    uses_stamps: true,
    options: &[],
    costs: Costs::NONE,
    order: "",
    source: "",
    idea: "",
    rules: &[],
    invariants: &[],
    known_failures: &[],
};

/// Defines [`AnyMutex`] and [`AnyMessage`] for these algorithms.
macro_rules! any_mutex {
    ($($mutex:ident),+) => {
        /// A process of any mutual exclusion algorithm; [`Setup::algorithm`] says of which.
        #[derive(Clone, Debug, Eq, Hash, PartialEq)]
        pub enum AnyMutex {
            $(
                #[doc = concat!("A process of `", stringify!($mutex), "`.")]
                $mutex($mutex)
            ),+
        }

        /// A message of any mutual exclusion algorithm; its bytes are those of the algorithm's own.
        #[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub enum AnyMessage {
            $(
                #[doc = concat!("A message of `", stringify!($mutex), "`.")]
                $mutex(<$mutex as Mutex>::Message)
            ),+
        }

        impl serde::Serialize for AnyMessage {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                match self { $(Self::$mutex(message) => message.serialize(to)),+ }
            }
        }

        impl Message for AnyMessage {
            fn kind(&self) -> &'static str {
                match self { $(Self::$mutex(message) => message.kind()),+ }
            }

            fn fields(&self) -> Fields {
                match self { $(Self::$mutex(message) => message.fields()),+ }
            }

            fn times(&mut self, visit: &mut dyn FnMut(&mut Time)) {
                match self { $(Self::$mutex(message) => message.times(visit)),+ }
            }

            fn rename(&mut self, renaming: &Renaming) {
                match self { $(Self::$mutex(message) => message.rename(renaming)),+ }
            }
        }

        impl Mutex for AnyMutex {
            type Message = AnyMessage;

            const ABOUT: &'static About = &any::ANY;

            fn about(setup: &Setup) -> &'static About {
                setup.algorithm.expect("a setup of any algorithm says of which")
            }

            fn check(start: &Start) -> Result<(), StartError> {
                $(if start.about().name == $mutex::ABOUT.name {
                    return $mutex::check(start);
                })+
                unreachable!("a start is one of an algorithm in the registry")
            }

            fn new(me: NodeId, start: &Start) -> Self {
                $(if start.about().name == $mutex::ABOUT.name {
                    return Self::$mutex($mutex::new(me, start));
                })+
                unreachable!("a start is one of an algorithm in the registry")
            }

            fn begin(&mut self, out: &mut Outbox<AnyMessage>) {
                match self {
                    $(Self::$mutex(it) => {
                        any::pass_on(out, AnyMessage::$mutex, |own| it.begin(own));
                    })+
                }
            }

            fn request(&mut self, stamp: Stamp, out: &mut Outbox<AnyMessage>) {
                match self {
                    $(Self::$mutex(it) => {
                        any::pass_on(out, AnyMessage::$mutex, |own| it.request(stamp, own));
                    })+
                }
            }

            fn receive(&mut self, from: NodeId, message: AnyMessage, out: &mut Outbox<AnyMessage>) {
                match (self, message) {
                    $((Self::$mutex(it), AnyMessage::$mutex(message)) => {
                        any::pass_on(out, AnyMessage::$mutex, |own| it.receive(from, message, own));
                    })+
                    _ => out.nonsense(from, "it is a message of another algorithm"),
                }
            }

            fn release(&mut self, out: &mut Outbox<AnyMessage>) {
                match self {
                    $(Self::$mutex(it) => {
                        any::pass_on(out, AnyMessage::$mutex, |own| it.release(own));
                    })+
                }
            }

            fn observed(&mut self, from: NodeId, sent: Time, out: &mut Outbox<AnyMessage>) {
                match self {
                    $(Self::$mutex(it) => {
                        any::pass_on(out, AnyMessage::$mutex, |own| it.observed(from, sent, own));
                    })+
                }
            }

            fn carries_clock(&self, message: Option<&AnyMessage>) -> bool {
                match (self, message) {
                    $((Self::$mutex(it), Some(AnyMessage::$mutex(message))) => {
                        it.carries_clock(Some(message))
                    })+
                    $((Self::$mutex(it), _) => it.carries_clock(None)),+
                }
            }
        }

        impl Inspect for AnyMutex {
            fn draws_ticket(start: &Start) -> bool {
                $(if start.about().name == $mutex::ABOUT.name {
                    return $mutex::draws_ticket(start);
                })+
                false
            }

            fn has_ticket(&self) -> bool {
                match self { $(Self::$mutex(it) => it.has_ticket()),+ }
            }

            fn phase(&self) -> Phase {
                match self { $(Self::$mutex(it) => it.phase()),+ }
            }

            fn would_enter_at_once(&self) -> bool {
                match self { $(Self::$mutex(it) => it.would_enter_at_once()),+ }
            }

            fn is_at_start(&self, start: &Start) -> bool {
                match self { $(Self::$mutex(it) => it.is_at_start(start)),+ }
            }

            fn waits_for(&self) -> Vec<NodeId> {
                match self { $(Self::$mutex(it) => it.waits_for()),+ }
            }

            fn variables(&self) -> Fields {
                match self { $(Self::$mutex(it) => it.variables()),+ }
            }

            fn times(&mut self, visit: &mut dyn FnMut(&mut Time)) {
                match self { $(Self::$mutex(it) => it.times(visit)),+ }
            }

            fn is_symmetric(start: &Start, renaming: &Renaming) -> bool {
                $(if start.about().name == $mutex::ABOUT.name {
                    return $mutex::is_symmetric(start, renaming);
                })+
                false
            }

            fn rename(&mut self, renaming: &Renaming) {
                match self { $(Self::$mutex(it) => it.rename(renaming)),+ }
            }

            fn resume(
                &mut self,
                start: &Start,
                pending: &[Stamp],
                out: &mut Outbox<AnyMessage>,
            ) -> bool {
                let mut is_resumed = false;
                match self {
                    $(Self::$mutex(it) => any::pass_on(out, AnyMessage::$mutex, |own| {
                        is_resumed = it.resume(start, pending, own);
                    }),)+
                }
                is_resumed
            }

            fn special_repair(start: &Start) -> SpecialRepair {
                $(if start.about().name == $mutex::ABOUT.name {
                    return $mutex::special_repair(start);
                })+
                SpecialRepair::None
            }

            fn can_go_without(&self, crashed: NodeId) -> bool {
                match self { $(Self::$mutex(it) => it.can_go_without(crashed)),+ }
            }

            fn go_without(&mut self, crashed: NodeId, out: &mut Outbox<AnyMessage>) {
                match self {
                    $(Self::$mutex(it) => {
                        any::pass_on(out, AnyMessage::$mutex, |own| it.go_without(crashed, own));
                    })+
                }
            }

            fn close_ring(&mut self, me: NodeId, start: &Start) {
                match self { $(Self::$mutex(it) => it.close_ring(me, start)),+ }
            }

            fn pass_again(&self) -> Option<AnyMessage> {
                match self { $(Self::$mutex(it) => it.pass_again().map(AnyMessage::$mutex)),+ }
            }

            fn requests_of(&self, node: NodeId, arbiter: NodeId) -> bool {
                match self { $(Self::$mutex(it) => it.requests_of(node, arbiter)),+ }
            }

            fn claim_at(&mut self, arbiter: NodeId) -> Option<ClaimAt<AnyMessage>> {
                match self {
                    $(Self::$mutex(it) => it.claim_at(arbiter).map(|claim| ClaimAt {
                        request: claim.request,
                        granted: claim.granted,
                        message: AnyMessage::$mutex(claim.message),
                    })),+
                }
            }

            fn stand_in(&self, arbiter: NodeId) -> Option<Self> {
                match self { $(Self::$mutex(it) => it.stand_in(arbiter).map(Self::$mutex)),+ }
            }
        }
    };
}
