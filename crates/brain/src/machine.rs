//! A process of any algorithm, with its messages as bytes: where the choice of an algorithm by
//! name ends and code that is generic over it begins.

use mutua_algorithms::{
    Effect, Fence, Fields, Message, Mutex, NodeId, Outbox, Phase, Process, Start, Time,
};

use crate::brain::CLOCK_BROKEN;

/// One process of some algorithm.
pub(crate) trait Machine: Send {
    /// The system begins; called once, first.
    fn begin(&mut self, posts: &mut Posts);
    /// The client asks; the fence if it is inside at once.
    fn request(&mut self, posts: &mut Posts) -> Option<Fence>;
    /// A message arrives; the fence if that lets the client in.
    fn receive(
        &mut self,
        from: NodeId,
        sent: Time,
        message: &[u8],
        posts: &mut Posts,
    ) -> Result<Option<Fence>, Malformed>;
    /// The client leaves.
    fn release(&mut self, posts: &mut Posts);
    /// The clock, which goes with every message.
    fn time(&self) -> Time;
    /// Raises the clock to at least this.
    fn raise_time(&mut self, at_least: Time);
    fn phase(&self) -> Phase;
    fn token_here(&self) -> bool;
    fn at_start(&self, start: &Start) -> bool;
    fn waits_for(&self) -> Vec<NodeId>;
    fn variables(&self) -> Fields;
    /// What a message is called and carries, for whoever looks on.
    fn show(&self, message: &[u8]) -> Option<(&'static str, Fields)>;
}

/// The bytes of a message are none of the algorithm's.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Malformed;

/// What a machine wants sent, in order, and what it found to be nonsense.
#[derive(Debug, Default)]
pub(crate) struct Posts {
    pub(crate) list: Vec<Post>,
    pub(crate) nonsense: Vec<(NodeId, &'static str)>,
}

/// One message to one or several.
#[derive(Debug)]
pub(crate) struct Post {
    pub(crate) to: Recipients,
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
    /// Kept with the process, so that entering again allocates nothing.
    out: Outbox<M::Message>,
}

impl<M: Mutex> Machine for Erased<M> {
    fn begin(&mut self, posts: &mut Posts) {
        self.process.begin(&mut self.out);
        self.drain(posts);
    }

    fn request(&mut self, posts: &mut Posts) -> Option<Fence> {
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
    ) -> Result<Option<Fence>, Malformed> {
        let mut message = decode::<M>(message).ok_or(Malformed)?;
        // A clock that nobody has reached, or that is about to run over, could not be counted on.
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

    fn token_here(&self) -> bool {
        self.process.machine().token_here()
    }

    fn at_start(&self, start: &Start) -> bool {
        self.process.machine().at_start(start)
    }

    fn waits_for(&self) -> Vec<NodeId> {
        self.process.machine().waits_for()
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
                let to = Recipients::One(to);
                posts.list.push(Post { to, message: encode(&message), lazy });
            }
            Effect::Multicast { to, message } => {
                let to = Recipients::Several(to.into());
                posts.list.push(Post { to, message: encode(&message), lazy: false });
            }
            Effect::Nonsense { from, why } => posts.nonsense.push((from, why)),
            // The fence says it.
            Effect::Enter => {}
            Effect::Elected { .. } | Effect::SetTimer { .. } | Effect::CancelTimer { .. } => {
                unreachable!("an effect of elections from an algorithm of mutual exclusion")
            }
        });
    }
}

fn encode<T: Message>(message: &T) -> Box<[u8]> {
    // Plain data into memory: nothing can fail but the memory.
    postcard::to_allocvec(message).expect("a message of an algorithm is plain data").into()
}

fn decode<M: Mutex>(bytes: &[u8]) -> Option<M::Message> {
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Some(message),
        Ok(_) | Err(_) => None,
    }
}
