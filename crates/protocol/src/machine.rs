//! A process of any algorithm, with its messages as bytes: where the choice of an algorithm by
//! name ends and code that is generic over it begins.

use mutua_algorithms::{
    Effect, FencingToken, Fields, Message, Mutex, NodeId, Outbox, Phase, Process, Start, Time,
};

use crate::protocol::CLOCK_BROKEN;

/// One process of some algorithm.
pub(crate) trait Machine: Send {
    /// The system begins; called once, first.
    fn begin(&mut self, posts: &mut Posts);
    /// The client requests; returns the fencing token if the process enters at once.
    fn request(&mut self, posts: &mut Posts) -> Option<FencingToken>;
    /// A message arrives; returns the fencing token if the process enters.
    fn receive(
        &mut self,
        from: NodeId,
        sent: Time,
        message: &[u8],
        posts: &mut Posts,
    ) -> Result<Option<FencingToken>, Malformed>;
    /// The client exits the critical section.
    fn release(&mut self, posts: &mut Posts);
    /// The clock, which goes with every message.
    fn time(&self) -> Time;
    /// Raises the clock to at least this.
    fn raise_time(&mut self, at_least: Time);
    fn phase(&self) -> Phase;
    fn would_enter_at_once(&self) -> bool;
    fn is_at_start(&self, start: &Start) -> bool;
    fn variables(&self) -> Fields;
    /// The kind and the fields of a message, for the trace.
    fn show(&self, message: &[u8]) -> Option<(&'static str, Fields)>;
}

/// The bytes are not a message of the algorithm.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Malformed;

/// The messages that a machine sends, in order, and the malformed ones it received.
#[derive(Debug, Default)]
pub(crate) struct Posts {
    pub(crate) list: Vec<Post>,
    pub(crate) nonsense: Vec<(NodeId, &'static str)>,
}

/// One message to one or several processes.
#[derive(Debug)]
pub(crate) struct Post {
    pub(crate) to: Recipients,
    /// The type of the message.
    pub(crate) kind: &'static str,
    pub(crate) message: Box<[u8]>,
    pub(crate) lazy: bool,
}

#[derive(Debug)]
pub(crate) enum Recipients {
    One(NodeId),
    Several(Box<[NodeId]>),
}

impl Recipients {
    pub(crate) fn as_slice(&self) -> &[NodeId] {
        match self {
            Self::One(node) => std::slice::from_ref(node),
            Self::Several(nodes) => nodes,
        }
    }
}

/// A process of `M` at the start.
pub(crate) fn make<M: Mutex>(me: NodeId, start: &Start) -> Box<dyn Machine> {
    Box::new(Erased::<M> { process: Process::new(me, start), out: Outbox::new() })
}

struct Erased<M: Mutex> {
    process: Process<M>,
    /// Kept with the process, so that a re-entry allocates nothing.
    out: Outbox<M::Message>,
}

impl<M: Mutex> Machine for Erased<M> {
    fn begin(&mut self, posts: &mut Posts) {
        self.process.begin(&mut self.out);
        self.drain(posts);
    }

    fn request(&mut self, posts: &mut Posts) -> Option<FencingToken> {
        let fence = self.process.request(&mut self.out);
        self.drain(posts);
        fence
    }

    fn receive(
        &mut self,
        from: NodeId,
        sent: Time,
        message: &[u8],
        posts: &mut Posts,
    ) -> Result<Option<FencingToken>, Malformed> {
        let mut message = decode::<M>(message).ok_or(Malformed)?;
        // No process has such a clock, or it is about to overflow.
        let mut known = true;
        message.times(&mut |time| {
            known &= time.epoch() <= sent.epoch() && time.count() <= CLOCK_BROKEN;
        });
        if !known {
            return Err(Malformed);
        }
        let fence = self.process.receive(from, sent, message, &mut self.out);
        self.drain(posts);
        Ok(fence)
    }

    fn release(&mut self, posts: &mut Posts) {
        self.process.release(&mut self.out);
        self.drain(posts);
    }

    fn time(&self) -> Time {
        self.process.time()
    }

    fn raise_time(&mut self, at_least: Time) {
        self.process.raise_time(at_least);
    }

    fn phase(&self) -> Phase {
        self.process.machine().phase()
    }

    fn would_enter_at_once(&self) -> bool {
        self.process.machine().would_enter_at_once()
    }

    fn is_at_start(&self, start: &Start) -> bool {
        self.process.machine().is_at_start(start)
    }

    fn variables(&self) -> Fields {
        self.process.machine().variables()
    }

    fn show(&self, message: &[u8]) -> Option<(&'static str, Fields)> {
        let message = decode::<M>(message)?;
        Some((message.kind(), message.fields()))
    }
}

impl<M: Mutex> Erased<M> {
    fn drain(&mut self, posts: &mut Posts) {
        self.out.drain(|effect| match effect {
            Effect::Send { to, message, lazy } => {
                let (to, kind) = (Recipients::One(to), message.kind());
                posts.list.push(Post { to, kind, message: encode(&message), lazy });
            }
            Effect::Multicast { to, message } => {
                let (to, kind) = (Recipients::Several(to.into()), message.kind());
                posts.list.push(Post { to, kind, message: encode(&message), lazy: false });
            }
            Effect::Nonsense { from, why } => posts.nonsense.push((from, why)),
            // The returned fencing token stands for it.
            Effect::Enter => {}
        });
    }
}

fn encode<T: Message>(message: &T) -> Box<[u8]> {
    // Encoding plain data cannot fail.
    postcard::to_allocvec(message).expect("a message of an algorithm is plain data").into()
}

fn decode<M: Mutex>(bytes: &[u8]) -> Option<M::Message> {
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Some(message),
        Ok(_) | Err(_) => None,
    }
}
