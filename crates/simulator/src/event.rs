//! What the wheel holds: the events to come, and the messages in transit.

use mutua_algorithms::{NodeId, Time, Timer};

use crate::app_messages::AppMessage;

/// An event to come.
#[derive(Debug)]
pub(crate) enum Event<M> {
    Deliver(Parcel<M>),
    Request {
        node: NodeId,
        incarnation: u32,
    },
    Exit {
        node: NodeId,
        incarnation: u32,
    },
    Burst,
    /// This process sends a message of the application.
    AppSend {
        node: NodeId,
    },
    AppReceive(AppMessage),
    Crash {
        node: NodeId,
    },
    /// The process with the part of this chosen crash crashes.
    CrashChosen {
        index: usize,
    },
    Restart {
        node: NodeId,
    },
    /// The failure detector reports to `node` how often `about` has crashed and restarted.
    Report {
        node: NodeId,
        about: NodeId,
        changes: u32,
    },
    /// This process sends its heartbeats, and looks for those that are missing.
    Beat {
        node: NodeId,
    },
    /// A heartbeat arrives.
    Heartbeat {
        from: NodeId,
        to: NodeId,
    },
    /// A timer of a repair's election runs out.
    Timeout {
        node: NodeId,
        timer: Timer,
        generation: u32,
    },
}

/// A message in transit.
#[derive(Clone, Debug)]
pub(crate) struct Parcel<M> {
    pub(crate) message: M,
    pub(crate) sent: Time,
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) lazy: bool,
    /// The number of the message's kind.
    pub(crate) kind: u8,
}
