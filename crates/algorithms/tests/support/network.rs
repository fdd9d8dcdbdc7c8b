//! Messages under way.

use std::{
    collections::{BTreeMap, VecDeque},
    rc::Rc,
};

use mutua_algorithms::{Links, NodeId, Time};

use super::dice::Dice;

/// A message under way, with what the checks know of it.
#[derive(Clone, Debug)]
pub struct Packet<M> {
    pub from: NodeId,
    pub to: NodeId,
    pub sent: Time,
    /// None: a message of the application.
    pub message: Option<M>,
    pub lazy: bool,
    /// How many requests of each process happened before it was sent.
    pub past: Rc<[u32]>,
    /// Whether it was sent by the sender's request, and by which one.
    pub asks: Option<u32>,
}

/// All links; those that have something under way can be found quickly.
pub struct Network<M> {
    order: Links,
    links: BTreeMap<(NodeId, NodeId), VecDeque<Packet<M>>>,
    busy: Vec<(NodeId, NodeId)>,
}

impl<M> Network<M> {
    pub fn new(order: Links) -> Self {
        Self { order, links: BTreeMap::new(), busy: Vec::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.busy.is_empty()
    }

    /// Whether all that is under way only keeps things going.
    pub fn is_idle(&self) -> bool {
        self.busy.iter().all(|link| self.links[link].iter().all(|packet| packet.lazy))
    }

    pub fn send(&mut self, packet: Packet<M>) {
        let key = (packet.from, packet.to);
        let link = self.links.entry(key).or_default();
        if link.is_empty() {
            self.busy.push(key);
        }
        link.push_back(packet);
    }

    /// Takes any message that may arrive next. Each has its chance, the lazy ones a smaller one.
    pub fn take(&mut self, dice: &mut Dice) -> Option<Packet<M>> {
        if self.busy.is_empty() {
            return None;
        }
        let mut place = (0, 0);
        for _ in 0..4 {
            place.0 = dice.below(self.busy.len());
            let link = &self.links[&self.busy[place.0]];
            place.1 = match self.order {
                Links::Fifo => 0,
                Links::Any => dice.below(link.len()),
            };
            if !link[place.1].lazy {
                break;
            }
        }
        let link = self.links.get_mut(&self.busy[place.0])?;
        let packet = link.remove(place.1);
        if link.is_empty() {
            self.busy.swap_remove(place.0);
        }
        packet
    }
}
