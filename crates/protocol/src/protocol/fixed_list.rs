//! The first [`ViewDecider`]: the list of members is fixed, and a view needs all of them.
//!
//! The first member of the list is the view coordinator. When it is in no view and linked to all
//! others, it gathers: every member leaves the view it is in and, once it is linked to all, reports
//! the highest epoch it knows and the locks it holds. With all reports, the coordinator decides the
//! next view, one epoch higher, of all members.
//!
//! Two processes may run as one member. Their incarnations differ. The two are never in one view,
//! nor does one replace the other in a view unnoticed:
//!
//! - A report names the incarnation of each member that the reporter is linked to, its own
//!   included. A member whose link passes to another incarnation before the view begins reports
//!   again.
//! - The coordinator decides when all reports of a round agree with each other and with its own
//!   links. Until then it waits: the processes of one member, each linked to some of the others,
//!   are all in no view.
//! - The decision names the incarnations. A member whose links have changed since it reported
//!   refuses the view (`views.rs`), which ends it for the others.
//!
//! So an incarnation takes part in a view only if every other member is linked to it, and a link
//! passes from one incarnation to the next only when the earlier one has closed its connection, or
//! has sent nothing for `lost_after` (`link.rs`). Only then do the locks of the earlier one count
//! as released: for all other members, its process has ended or is cut off from all of them. A
//! process that is cut off from all others and still runs, while a second one of the same member is
//! not cut off, looks like a restart. Only a lease between members can distinguish the two.
//!
//! Since all members are needed, the coordinator is no additional single point of failure.

use std::collections::{BTreeMap, HashMap};

use super::{
    Protocol,
    decider::{self, Decided, Step, Surroundings, ViewDecider},
};
use crate::{Member, view::Name, wire::Message};

/// The view coordinator.
const COORDINATOR: Member = Member(0);

/// The most bytes of names in one message.
const PART: usize = 256 << 10;

/// The state of one member's decider.
#[derive(Debug, Default)]
pub(super) struct FixedList {
    /// The round to which this member has to report.
    requested: Option<u64>,
    /// The round to which it has reported.
    reported: Option<u64>,
    /// The held locks of the next view that have arrived so far.
    held: HashMap<Name, Member>,
    gathering: Gathering,
}

/// The reports at the coordinator.
#[derive(Debug, Default)]
struct Gathering {
    round: u64,
    is_open: bool,
    reports: BTreeMap<Member, Report>,
    held: HashMap<Name, Member>,
}

/// The report of a member.
#[derive(Debug)]
struct Report {
    /// The highest epoch that it knows.
    epoch: u32,
    /// The incarnation of each member that it is linked to.
    incarnations: Vec<u64>,
}

impl ViewDecider for FixedList {
    fn propose(&mut self, node: &mut Surroundings<'_>) -> Option<Step> {
        if !node.is_linked_to_all() {
            return None;
        }
        if let Some(round) = self.requested.take() {
            self.reported = Some(round);
            report(node, round);
        }
        if node.me == COORDINATOR && !self.gathering.is_open {
            let round = self.gathering.round + 1;
            self.gathering = Gathering { round, is_open: true, ..Gathering::default() };
            node.send_to_all(&Message::Gather { round });
            return self.decide_if_all_reported(node);
        }
        None
    }

    fn receive(
        &mut self,
        node: &mut Surroundings<'_>,
        from: Member,
        message: Message<'_>,
    ) -> Option<Step> {
        let open = self.gathering.is_open.then_some(self.gathering.round);
        match message {
            Message::Gather { round } if from == COORDINATOR => {
                self.held.clear();
                self.requested = Some(round);
                Some(Step::Leave("a new view is being formed"))
            }
            Message::Holds { round, names } if open == Some(round) => {
                for name in names {
                    self.note_held(node, name.into(), from);
                }
                None
            }
            Message::Report { round, epoch, incarnations } if open == Some(round) => {
                self.gathering.reports.insert(from, Report { epoch, incarnations });
                self.decide_if_all_reported(node)
            }
            Message::Held { round, names } if self.is_decision(from, round) => {
                let names = names.into_iter().map(|(member, name)| (name.into(), member));
                self.held.extend(names);
                None
            }
            Message::Install { round, epoch, incarnations } if self.is_decision(from, round) => {
                self.reported = None;
                let held = std::mem::take(&mut self.held);
                Some(Step::Decided(decided(epoch, incarnations, held)))
            }
            // Of an earlier round, or of a member that is not the coordinator.
            _ => None,
        }
    }

    fn check(
        &self,
        protocol: &Protocol,
        from: Member,
        message: &Message<'_>,
    ) -> Result<(), &'static str> {
        let members = protocol.links.len();
        match message {
            Message::Held { names, .. } => {
                let known = names.iter().all(|(member, _)| member.index() < members);
                known.then_some(()).ok_or("a holder that is not in the list of members")
            }
            Message::Report { incarnations, .. } if incarnations.len() != members => {
                Err("a report of more or fewer members than there are")
            }
            Message::Install { incarnations, .. } if incarnations.len() != members => {
                Err("a view of more or fewer members than there are")
            }
            // This node has reported all locks it holds, and was granted none since. A view that
            // omits one would grant it to another member too.
            Message::Install { round, .. } if self.is_decision(from, *round) => {
                let held = |name| self.held.get(name) == Some(&protocol.config.me);
                let all = decider::held(&protocol.table).iter().all(held);
                all.then_some(()).ok_or("a view that omits a lock that this node holds")
            }
            _ => Ok(()),
        }
    }

    fn restarted(&mut self, peer: Member) {
        // Its report is void.
        self.gathering.is_open = false;
        if peer == COORDINATOR {
            self.requested = None;
            self.reported = None;
            self.held.clear();
        } else if self.requested.is_none() {
            // Our report named its earlier incarnation.
            self.requested = self.reported;
        }
    }
}

impl FixedList {
    /// Whether this is part of the decision of the round that we have reported to.
    fn is_decision(&self, from: Member, round: u64) -> bool {
        from == COORDINATOR && self.reported == Some(round)
    }

    fn decide_if_all_reported(&mut self, node: &mut Surroundings<'_>) -> Option<Step> {
        if !self.gathering.is_open || self.gathering.reports.len() + 1 < node.members() {
            return None;
        }
        let incarnations = node.incarnations();
        if let Some(why) = self.disagreement(node, &incarnations) {
            return Some(Step::Blocked(why));
        }
        let epochs = self.gathering.reports.values().map(|report| report.epoch);
        let epoch = 1 + epochs.max().unwrap_or(0).max(node.epoch);
        let round = self.gathering.round;
        for name in node.held() {
            self.note_held(node, name, node.me);
        }
        self.gathering.is_open = false;
        let all = std::mem::take(&mut self.gathering.held);
        let mut held: Vec<_> = all.iter().map(|(name, &member)| (member, &**name)).collect();
        held.sort_unstable();
        for part in parts(&held, |(_, name)| name.len()) {
            node.send_to_all(&Message::Held { round, names: part.to_vec() });
        }
        let install = Message::Install { round, epoch, incarnations: incarnations.clone() };
        node.send_to_all(&install);
        Some(Step::Decided(decided(epoch, incarnations, all)))
    }

    /// Why the members are not linked to the same processes, if they are not.
    fn disagreement(&self, node: &Surroundings<'_>, incarnations: &[u64]) -> Option<String> {
        let (&other, index) = self.gathering.reports.iter().find_map(|(member, report)| {
            let mut pairs = report.incarnations.iter().zip(incarnations);
            Some((member, pairs.position(|(theirs, ours)| theirs != ours)?))
        })?;
        let member = Member(u32::try_from(index).unwrap_or(u32::MAX));
        let (me, other, member) = (node.name(node.me), node.name(other), node.name(member));
        Some(format!("{me} and {other} are connected to different processes of member {member}"))
    }

    fn note_held(&mut self, node: &mut Surroundings<'_>, name: Name, member: Member) {
        let known = self.gathering.held.insert(name, member);
        if let Some(other) = known.filter(|&other| other != member) {
            // Every algorithm here is safe. If one were not, only the coordinator could see it.
            let (one, other) = (node.name(other), node.name(member));
            let text = format!("{one} and {other} both hold the same lock");
            node.warn(text);
        }
    }

    #[cfg(test)]
    pub(super) fn gathering_round(&self) -> u64 {
        self.gathering.round
    }

    #[cfg(test)]
    pub(super) fn reported_round(&self) -> Option<u64> {
        self.reported
    }
}

/// Reports what this node holds and knows to the coordinator.
fn report(node: &mut Surroundings<'_>, round: u64) {
    let names = node.held();
    let names: Vec<_> = names.iter().map(|name| &**name).collect();
    for part in parts(&names, |name| name.len()) {
        node.send(COORDINATOR, Message::Holds { round, names: part.to_vec() });
    }
    let (epoch, incarnations) = (node.epoch, node.incarnations());
    node.send(COORDINATOR, Message::Report { round, epoch, incarnations });
}

fn decided(epoch: u32, incarnations: Vec<u64>, held: HashMap<Name, Member>) -> Decided {
    let members = (0..).map(Member).zip(incarnations).collect();
    Decided { number: epoch.into(), epoch, members, held }
}

/// Cuts a list into parts that fit a message.
fn parts<T>(list: &[T], bytes: impl Fn(&T) -> usize) -> Vec<&[T]> {
    let mut parts = Vec::new();
    let (mut start, mut size) = (0, 0);
    for (index, item) in list.iter().enumerate() {
        size += bytes(item) + 8;
        if size > PART {
            parts.push(&list[start..index]);
            (start, size) = (index, bytes(item) + 8);
        }
    }
    if start < list.len() {
        parts.push(&list[start..]);
    }
    parts
}
