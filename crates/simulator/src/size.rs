//! The sizes of the parts of a run, from which its memory can be told before it is made.

use mutua_algorithms::{Election, Mutex, registry, repairs::RepairMessage};

use crate::{Wheel, election, event::Event, repair, simulation};

/// The bytes of one part each.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sizes {
    /// A process with its client, without what it allocates.
    pub process: usize,
    /// An event to come, or a message in transit.
    pub event: usize,
}

impl Sizes {
    /// Of a run of the algorithm with this name, with a repair or without; none if no such
    /// algorithm is known.
    pub fn of(name: &str, repaired: bool) -> Option<Self> {
        registry::visit_mutex(name, Visitor { repaired })
            .or_else(|| registry::visit_election(name, Visitor { repaired }))
    }
}

struct Visitor {
    repaired: bool,
}

impl registry::MutexVisitor for Visitor {
    type Output = Sizes;

    fn visit<M: Mutex>(self) -> Sizes {
        match self.repaired {
            true => Sizes {
                process: size_of::<repair::Node<M>>(),
                event: Wheel::<Event<RepairMessage<M::Message>>>::EVENT,
            },
            false => Sizes {
                process: size_of::<simulation::Node<M>>(),
                event: Wheel::<Event<M::Message>>::EVENT,
            },
        }
    }
}

impl registry::ElectionVisitor for Visitor {
    type Output = Sizes;

    fn visit<E: Election>(self) -> Sizes {
        Sizes {
            process: size_of::<election::Node<E>>(),
            event: Wheel::<election::Event<E::Message>>::EVENT,
        }
    }
}
