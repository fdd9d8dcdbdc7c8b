//! What an algorithm claims, checked at every event by somebody who sees everything.

use std::{fmt, rc::Rc};

use mutua_algorithms::{Claim, Fence, NodeId, NodeSet};

/// A claim that a schedule has refuted, or something that must hold of any algorithm.
#[derive(Debug)]
pub struct Violation {
    pub claim: Option<Claim>,
    what: String,
}

impl Violation {
    pub fn new(claim: impl Into<Option<Claim>>, what: impl Into<String>) -> Self {
        Self { claim: claim.into(), what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.claim.map_or("always", Claim::name), self.what)
    }
}

/// Follows one run.
pub struct Checks {
    claims: Vec<Claim>,
    inside: NodeSet,
    fence: Option<Fence>,
    /// For each process, how many requests of each process happened before now: a vector clock
    /// that counts nothing else.
    past: Vec<Rc<[u32]>>,
    open: Vec<Option<Request>>,
}

struct Request {
    number: u32,
    /// What had happened before it.
    past: Rc<[u32]>,
    /// How many of its messages are still under way.
    under_way: usize,
    /// Who has entered since they arrived.
    overtakers: NodeSet,
}

impl Checks {
    pub fn new(claims: Vec<Claim>, processes: u32, inside: Option<NodeId>) -> Self {
        let nobody: Rc<[u32]> = vec![0; processes as usize].into();
        Self {
            claims,
            inside: inside.into_iter().collect(),
            fence: None,
            past: vec![nobody; processes as usize],
            open: (0..processes).map(|_| None).collect(),
        }
    }

    pub fn inside(&self) -> &NodeSet {
        &self.inside
    }

    pub fn past(&self, of: NodeId) -> Rc<[u32]> {
        Rc::clone(&self.past[of.index()])
    }

    /// The number of the request that this process waits with.
    pub fn waits_with(&self, node: NodeId) -> Option<u32> {
        self.open[node.index()].as_ref().map(|request| request.number)
    }

    pub fn waiting(&self) -> impl Iterator<Item = NodeId> + '_ {
        let open = self.open.iter().enumerate();
        open.filter(|(_, request)| request.is_some()).map(|(at, _)| NodeId::from(at))
    }

    pub fn on_request(&mut self, node: NodeId) {
        let mut past = self.past[node.index()].to_vec();
        past[node.index()] += 1;
        let number = past[node.index()];
        let past: Rc<[u32]> = past.into();
        self.past[node.index()] = Rc::clone(&past);
        let overtakers = NodeSet::new();
        self.open[node.index()] = Some(Request { number, past, under_way: 0, overtakers });
    }

    /// A message of this process's request number `asks` has been sent.
    pub fn on_asking(&mut self, node: NodeId, asks: Option<u32>) {
        if let Some(request) = self.request(node, asks) {
            request.under_way += 1;
        }
    }

    pub fn on_arrival(&mut self, from: NodeId, to: NodeId, past: &Rc<[u32]>, asks: Option<u32>) {
        if let Some(request) = self.request(from, asks) {
            request.under_way -= 1;
        }
        let known = &self.past[to.index()];
        if known.iter().zip(past.iter()).any(|(known, new)| known < new) {
            let merged = known.iter().zip(past.iter()).map(|(a, b)| *a.max(b));
            self.past[to.index()] = merged.collect::<Vec<_>>().into();
        }
    }

    pub fn on_release(&mut self, node: NodeId) {
        self.inside.remove(node);
    }

    pub fn on_enter(&mut self, node: NodeId, fence: Fence) -> Result<(), Violation> {
        let granted = self.open[node.index()].take().expect("who enters has asked");
        self.safety(node)?;
        self.fence(node, fence)?;
        self.ordering(node, &granted)?;
        self.bypass(node)?;
        self.inside.insert(node);
        Ok(())
    }

    fn safety(&self, node: NodeId) -> Result<(), Violation> {
        self.demand(Claim::Safety, self.inside.is_empty(), || {
            format!("{node} enters while {:?} are inside", self.inside.iter().collect::<Vec<_>>())
        })
    }

    fn fence(&mut self, node: NodeId, fence: Fence) -> Result<(), Violation> {
        let last = self.fence.replace(fence);
        self.demand(Claim::Fence, last < Some(fence), || {
            format!("{node} enters with fence {fence} after {last:?}")
        })
    }

    fn ordering(&self, node: NodeId, granted: &Request) -> Result<(), Violation> {
        let known = |&(at, earlier): &(usize, &Request)| granted.past[at] >= earlier.number;
        let earlier = self.requests().find(known).map(|(at, _)| at);
        self.demand(Claim::Ordering, earlier.is_none(), || {
            format!("{node} enters before {earlier:?}, whose request happened before")
        })
    }

    fn bypass(&mut self, node: NodeId) -> Result<(), Violation> {
        let mut twice = None;
        for (at, waiting) in self.open.iter_mut().enumerate() {
            let Some(waiting) = waiting else { continue };
            if waiting.under_way == 0 && !waiting.overtakers.insert(node) {
                twice = Some(at);
            }
        }
        self.demand(Claim::BoundedBypass, twice.is_none(), || {
            format!("{node} enters twice before {twice:?}, whose request has arrived")
        })
    }

    /// A violation, if it is claimed and does not hold.
    pub fn demand(
        &self,
        claim: Claim,
        holds: bool,
        what: impl FnOnce() -> String,
    ) -> Result<(), Violation> {
        if holds || !self.claims.contains(&claim) {
            return Ok(());
        }
        Err(Violation::new(claim, what()))
    }

    fn requests(&self) -> impl Iterator<Item = (usize, &Request)> {
        let open = self.open.iter().enumerate();
        open.filter_map(|(at, request)| Some((at, request.as_ref()?)))
    }

    fn request(&mut self, node: NodeId, asks: Option<u32>) -> Option<&mut Request> {
        let open = self.open[node.index()].as_mut()?;
        (Some(open.number) == asks).then_some(open)
    }
}
