//! The same machines in Stateright: its actors, its network, its search. Nothing of our own
//! successor function is in here, so equal counts are evidence.

use std::{borrow::Cow, marker::PhantomData};

use mutua_algorithms::{Effect, Links, Mutex, NodeId, Outbox, Phase, Process, Setup, Start, Time};
use stateright::{
    Expectation,
    actor::{Actor, ActorModel, Id, Network, Out, model_timeout},
};

/// One process of an algorithm and its client.
pub(crate) struct Peer<M> {
    start: Start,
    entries: u8,
    algorithm: PhantomData<M>,
}

/// When the client acts; Stateright lets a timer run out at any time.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum Client {
    /// It requests.
    Request,
    /// It leaves.
    Release,
}

/// A process and the entries that it has left.
pub(crate) type State<M> = (Process<M>, u8);

impl<M: Mutex> Peer<M> {
    /// Does what the machine wants done, and lets the client go on.
    fn flush(state: &State<M>, outbox: &mut Outbox<M::Message>, out: &mut Out<Self>) {
        let time = state.0.time();
        outbox.drain(|effect| match effect {
            Effect::Send { to, message, .. } => out.send(Id::from(to.index()), (time, message)),
            Effect::Multicast { to, message } => {
                for to in to {
                    out.send(Id::from(to.index()), (time, message.clone()));
                }
            }
            Effect::Enter => out.set_timer(Client::Release, model_timeout()),
            Effect::Nonsense { .. } => {}
        });
    }
}

impl<M: Mutex> Actor for Peer<M> {
    type Msg = (Time, M::Message);
    type Timer = Client;
    type State = State<M>;
    type Storage = ();
    type Random = ();

    fn on_start(&self, id: Id, _storage: &Option<()>, out: &mut Out<Self>) -> State<M> {
        let mut outbox = Outbox::new();
        let me = NodeId::from(usize::from(id));
        let mut state = (Process::new(me, &self.start), self.entries);
        state.0.begin(&mut outbox);
        Self::flush(&state, &mut outbox, out);
        if self.entries > 0 {
            out.set_timer(Client::Request, model_timeout());
        }
        state
    }

    fn on_msg(
        &self,
        _id: Id,
        state: &mut Cow<'_, State<M>>,
        src: Id,
        (sent, message): Self::Msg,
        out: &mut Out<Self>,
    ) {
        let mut outbox = Outbox::new();
        let state = state.to_mut();
        state.0.receive(NodeId::from(usize::from(src)), sent, message, &mut outbox);
        Self::flush(state, &mut outbox, out);
    }

    fn on_timeout(
        &self,
        _id: Id,
        state: &mut Cow<'_, State<M>>,
        client: &Client,
        out: &mut Out<Self>,
    ) {
        let mut outbox = Outbox::new();
        let state = state.to_mut();
        match client {
            Client::Request => {
                state.1 -= 1;
                state.0.request(&mut outbox);
            }
            Client::Release => {
                state.0.release(&mut outbox);
                if state.1 > 0 {
                    out.set_timer(Client::Request, model_timeout());
                }
            }
        }
        Self::flush(state, &mut outbox, out);
    }
}

/// The model of so many processes that enter so often.
pub(crate) fn model<M: Mutex>(nodes: u32, entries: u8) -> ActorModel<Peer<M>> {
    let start = Setup::new(nodes).start::<M>().expect("a plain system");
    let peer = |_| Peer { start: start.clone(), entries, algorithm: PhantomData };
    let network = match M::ABOUT.links {
        Links::Fifo => Network::new_ordered([]),
        Links::Any => Network::new_unordered_nonduplicating([]),
    };
    ActorModel::new((), ()).actors((0..nodes).map(peer)).init_network(network).property(
        Expectation::Always,
        "mutual-exclusion",
        |_, state| {
            let in_cs =
                state.actor_states.iter().filter(|state| state.0.machine().phase() == Phase::InCs);
            in_cs.count() <= 1
        },
    )
}
