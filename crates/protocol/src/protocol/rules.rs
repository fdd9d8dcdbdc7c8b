//! The rules in force: those of the view, which consensus decides with it.
//!
//! A change of the rules comes into force with a view: in it every lock starts anew from its
//! holder, by the algorithm that its name has from then on. All members take the rules from the
//! decided state, so that all agree. The configuration is read when the cluster is founded, and
//! says nothing afterwards.

use std::{collections::BTreeMap, sync::Arc};

use mutua_algorithms::split_mix::mix;

use super::{Protocol, ViewSource, decided::Layered};
use crate::{
    Level, Plan, Rule,
    views::{DecidedState, DecidedView},
};

/// The decided rules, ready to be followed.
#[derive(Debug)]
pub(super) struct DecidedRules {
    /// The rules that the cluster was founded with. Members compare them when they connect.
    pub(super) founding: Arc<Plan>,
    /// Later ones by their numbers, or why this node cannot follow them.
    later: BTreeMap<u64, Result<Arc<Plan>, String>>,
}

impl DecidedRules {
    pub(super) fn new(founding: Arc<Plan>) -> Self {
        Self { founding, later: BTreeMap::new() }
    }

    /// Takes up the rules that were decided, and drops those that no view has any more.
    fn follow(&mut self, state: &DecidedState) {
        let members = self.founding.members();
        self.later.retain(|number, _| state.rules(*number).is_some());
        for number in state.rules_numbers() {
            let rules = state.rules(number).unwrap_or_default();
            self.later.entry(number).or_insert_with(|| {
                let rules = decode(rules).ok_or("they cannot be read")?;
                let plan = Plan::of_any_size(members, &rules);
                plan.map(Arc::new).map_err(|error| error.why.to_string())
            });
        }
    }

    /// The plan of a view, or why this node cannot follow it.
    fn plan_of(&self, view: &DecidedView) -> Result<Arc<Plan>, String> {
        match view.rules_number() {
            0 => Ok(Arc::clone(&self.founding)),
            number => self.later.get(&number).cloned().unwrap_or(Err("they are unknown".into())),
        }
    }
}

/// Rules as they are decided.
pub fn encode(rules: &[Rule]) -> Vec<u8> {
    postcard::to_allocvec(rules).expect("plain data")
}

/// Rules as they were decided; none if this node cannot read them.
pub fn decode(bytes: &[u8]) -> Option<Vec<Rule>> {
    match postcard::take_from_bytes(bytes) {
        Ok((rules, [])) => Some(rules),
        Ok(_) | Err(_) => None,
    }
}

impl Layered {
    /// Why this node cannot follow the rules of the view that it is in or joins.
    pub(super) fn unfollowed_rules(&self) -> Option<String> {
        let why = self.rules.plan_of(self.layer.view()?).err()?;
        Some(format!(
            "this node cannot follow the decided rules of locks: {why}; run the version of the \
             other members, or change the rules with `mutua cluster rules`"
        ))
    }
}

impl Protocol {
    /// A digest of what members must share to connect: the rules that the cluster was founded with,
    /// its id or, with the fixed list, the number of members, and the length of view leases. A
    /// member that counts on a longer one than the others wait for would hold locks beside them.
    pub(super) fn rules_digest(&self) -> u64 {
        let founding = self.layered.as_ref().map(|layered| &layered.rules.founding);
        let plan = founding.unwrap_or(&self.config.plan);
        let shared = match &self.config.views {
            ViewSource::Decided { cluster, .. } => *cluster,
            ViewSource::FixedList | ViewSource::Unknown { .. } => u64::from(plan.members()),
        };
        let lease = self.view_lease().map_or(0, |lease| lease.as_nanos() as u64);
        mix(plan.digest() ^ mix(shared) ^ mix(lease.wrapping_add(1)))
    }

    /// Takes up decided rules.
    pub(super) fn sync_rules(&mut self) {
        let Some(layered) = &mut self.layered else { return };
        layered.rules.follow(layered.layer.state());
    }

    /// The rules of a view that begins are in force from now on: every lock has the algorithm that
    /// they give its name. No process of an earlier view is left.
    pub(super) fn follow_rules(&mut self, view: &DecidedView) -> Result<(), String> {
        let Some(layered) = &self.layered else { return Ok(()) };
        let plan = layered.rules.plan_of(view)?;
        if !Arc::ptr_eq(&plan, &self.config.plan) {
            for lock in self.table.ids() {
                let entry = self.table.entry(lock);
                entry.rule = plan.rule_of(&entry.name);
            }
            self.config.plan = plan;
            let number = view.rules_number();
            self.log(Level::Info, format!("the rules of locks are those of change {number}"));
        }
        Ok(())
    }

    /// The rules of the next view, if they are not those of the founding; `Err` if this node cannot
    /// read them.
    pub fn decided_rules(&self) -> Option<Result<Vec<Rule>, ()>> {
        let state = self.view_layer()?.state();
        state.rules(state.rules_number()).map(|rules| decode(rules).ok_or(()))
    }
}
