//! The algorithm that serves each name.
//!
//! A view may have any number of members from one to all of them, so every rule has a start for
//! every such size. Where the configured structure has none for a size (a projective plane, a full
//! binary tree, a list of edges or of sets), views of that size run on another one, which exists
//! for all sizes: see [`Setup::fallback`].

use std::sync::Arc;

use mutua_algorithms::{
    About, Mutex, NodeId, Outbox, Process, QuorumKind, SetsOf, Settings, Setup, Start, StartError,
    Topology,
    registry::{self, MutexVisitor},
};

use serde::{Deserialize, Serialize};

use crate::{
    Pattern,
    machine::{self, Machine},
    member::digest,
};

/// The algorithm of a name that no rule fits.
pub const DEFAULT_ALGORITHM: &str = registry::DEFAULT.name;

/// The algorithm of the names that fit a pattern.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// The names that the rule serves.
    pub names: Pattern,
    /// The algorithm's name.
    pub algorithm: String,
    /// Its variant.
    pub settings: Settings,
    /// The tree, where the algorithm needs one.
    pub topology: Topology,
    /// The quorums, where the algorithm needs some.
    pub quorums: QuorumKind,
    /// Sanders' sets, for a setting `sets` that names none of the built-in ones.
    pub sets: Option<SetsOf>,
}

impl Rule {
    /// This algorithm with its defaults for the names that fit the pattern.
    pub fn new(names: impl Into<String>, algorithm: impl Into<String>) -> Self {
        Self {
            names: Pattern::new(names),
            algorithm: algorithm.into(),
            settings: Settings::default(),
            topology: Topology::Binary,
            quorums: QuorumKind::Grid,
            sets: None,
        }
    }

    /// The same with an option of the algorithm set.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> Self {
        self.settings.set(key, value);
        self
    }
}

/// A rule that a node cannot follow. Nothing was made.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{why}")]
pub struct PlanError {
    /// The index of the rule among the rules.
    pub rule: usize,
    /// What is wrong with it, and what to do.
    pub why: RuleError,
}

/// Why a node cannot follow a rule.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// The cluster has too many members.
    #[error("a cluster has at most {} members, this one has {members}", u16::MAX)]
    TooManyMembers {
        /// The number of members.
        members: u32,
    },
    /// No algorithm for mutual exclusion has this name.
    #[error("unknown algorithm `{name}`: use one of {known}")]
    UnknownAlgorithm {
        /// The name in the rule.
        name: String,
        /// The algorithms that a node runs.
        known: String,
    },
    /// The rule needs a process beside those of the members.
    #[error(
        "{algorithm} with coordinator=dedicated needs a process beside the members: use \
         coordinator=member, where each name's home is its coordinator"
    )]
    DedicatedCoordinator {
        /// The algorithm's name.
        algorithm: &'static str,
    },
    /// The algorithm violates a property on purpose.
    #[error("{algorithm} is a negative control for the checker: use {DEFAULT_ALGORITHM}")]
    Control {
        /// The algorithm's name.
        algorithm: &'static str,
    },
    /// The variant violates a property on purpose.
    #[error(
        "{algorithm} with {key}={chosen} is a negative control for the checker: use {key}={right}"
    )]
    ControlVariant {
        /// The algorithm's name.
        algorithm: &'static str,
        /// The option.
        key: &'static str,
        /// Its value in the rule.
        chosen: String,
        /// The value to use.
        right: &'static str,
    },
    /// The algorithm cannot start with all members.
    #[error("{algorithm}: {error}")]
    NoStart {
        /// The algorithm's name.
        algorithm: &'static str,
        /// The reason.
        error: StartError,
    },
    /// The algorithm cannot start in a view of some members, not even on its fallback.
    #[error("{algorithm} cannot start in a view of {size} members: {error}")]
    NoStartForView {
        /// The algorithm's name.
        algorithm: &'static str,
        /// The number of members in the view.
        size: u32,
        /// The reason.
        error: StartError,
    },
}

/// All rules, checked; the first that fits a name serves it.
#[derive(Debug)]
pub struct Plan {
    members: u32,
    rules: Vec<Resolved>,
    digest: u64,
}

/// A rule and the code of its algorithm.
#[derive(Debug)]
pub(crate) struct Resolved {
    names: Pattern,
    pub(crate) about: &'static About,
    setup: Setup,
    code: Code,
    /// Processes send without having been called, so a name that is used at one member must be
    /// started at all of them, and its idle processes must be paced.
    pub(crate) moves_by_itself: bool,
}

#[derive(Clone, Copy, Debug)]
struct Code {
    start: fn(&Setup) -> Result<Start, StartError>,
    make: fn(NodeId, &Start) -> Box<dyn Machine>,
    sends_first: fn(NodeId, &Start) -> bool,
}

impl Plan {
    /// Checks the rules for a cluster of so many members, and adds a last rule with the default
    /// algorithm for all other names.
    ///
    /// # Errors
    ///
    /// The first rule that cannot be followed, in a view of all members or of fewer.
    pub fn new(members: u32, rules: &[Rule]) -> Result<Self, PlanError> {
        let plan = Self::of_any_size(members, rules)?;
        for (index, rule) in plan.rules.iter().enumerate() {
            let setup = Setup { nodes: members, ..rule.setup.clone() };
            let algorithm = rule.about.name;
            // The cluster as configured has the structure that was configured; only views of other
            // sizes fall back.
            (rule.code.start)(&setup).map_err(|error| PlanError {
                rule: index,
                why: RuleError::NoStart { algorithm, error },
            })?;
        }
        Ok(plan)
    }

    /// The same for a cluster whose members come and go: where a rule's structure has no form for
    /// so many members, they run on its fallback too.
    ///
    /// # Errors
    ///
    /// The first rule that cannot be followed in a view of some size up to this one.
    pub fn of_any_size(members: u32, rules: &[Rule]) -> Result<Self, PlanError> {
        let rest = Rule::new("*", DEFAULT_ALGORITHM);
        let rules: Vec<_> = rules
            .iter()
            .chain([&rest])
            .enumerate()
            .map(|(index, rule)| {
                resolve(members, rule).map_err(|why| PlanError { rule: index, why })
            })
            .collect::<Result<_, _>>()?;
        let text: Vec<_> = rules.iter().map(Resolved::text).collect();
        let digest = digest(text.join("\n").as_bytes());
        Ok(Self { members, rules, digest })
    }

    /// The number of members of the cluster.
    pub fn members(&self) -> u32 {
        self.members
    }

    /// The algorithm that serves a name.
    pub fn algorithm(&self, name: &[u8]) -> &'static About {
        self.rule(self.rule_of(name)).about
    }

    /// A number that plans of the same rules share: members compare it when they connect.
    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    pub(crate) fn rule_of(&self, name: &[u8]) -> u16 {
        let index = self.rules.iter().position(|rule| rule.names.fits(name));
        u16::try_from(index.expect("the last rule fits every name")).expect("few rules")
    }

    pub(crate) fn rule(&self, rule: u16) -> &Resolved {
        &self.rules[usize::from(rule)]
    }
}

impl Resolved {
    /// The start of a lock in a view of so many members, `home` being the home of its name and
    /// `holder` the member whose client holds the lock already.
    pub(crate) fn start(&self, nodes: u32, home: NodeId, holder: Option<NodeId>) -> Arc<Start> {
        let setup = Setup {
            nodes,
            holder: holder.unwrap_or(home),
            in_cs: holder.is_some(),
            coordinator: home,
            ..self.setup.clone()
        };
        // Holder and coordinator are members, and `resolve` has tried every size.
        Arc::new(start_or_fall_back(self.code, &setup).expect("a start for every size of a view"))
    }

    pub(crate) fn make(&self, me: NodeId, start: &Start) -> Box<dyn Machine> {
        (self.code.make)(me, start)
    }

    fn text(&self) -> String {
        let setup = &self.setup;
        let sets = setup.sets.as_ref().map(|sets| format!(" {sets:?}")).unwrap_or_default();
        format!(
            "{} {} {:?} {:?} {:?}{sets}",
            self.names.text(),
            self.about.name,
            setup.settings,
            setup.topology,
            setup.quorums
        )
    }
}

/// The rule with its code, or why a node cannot follow it.
fn resolve(members: u32, rule: &Rule) -> Result<Resolved, RuleError> {
    if u32::from(u16::MAX) < members {
        return Err(RuleError::TooManyMembers { members });
    }
    let (about, code) = registry::visit_mutex(&rule.algorithm, FindCode).ok_or_else(|| {
        let known: Vec<_> = usable().map(|about| about.name).collect();
        RuleError::UnknownAlgorithm { name: rule.algorithm.clone(), known: known.join(", ") }
    })?;
    let mut settings = rule.settings.clone();
    set_coordinator(about, &mut settings)?;
    if about.is_control(&settings) {
        return Err(refusal_of_a_control(about, &settings));
    }
    let setup = Setup {
        settings,
        topology: rule.topology.clone(),
        quorums: rule.quorums,
        sets: rule.sets.clone(),
        ..Setup::new(members)
    };
    let algorithm = about.name;
    let start = start_or_fall_back(code, &setup)
        .map_err(|error| RuleError::NoStart { algorithm, error })?;
    for size in 1..members {
        start_or_fall_back(code, &Setup { nodes: size, ..setup.clone() })
            .map_err(|error| RuleError::NoStartForView { algorithm, size, error })?;
    }
    let moves_by_itself = start.all().any(|node| (code.sends_first)(node, &start));
    Ok(Resolved { names: rule.names.clone(), about, setup, code, moves_by_itself })
}

/// The start on the configured structure, or on its fallback if it has no form for this size.
fn start_or_fall_back(code: Code, setup: &Setup) -> Result<Start, StartError> {
    (code.start)(setup).or_else(|_| (code.start)(&setup.fallback()))
}

/// The algorithms that a node runs.
pub fn usable() -> impl Iterator<Item = &'static About> {
    registry::ALGORITHMS
        .iter()
        .copied()
        .filter(|about| about.kind == mutua_algorithms::Kind::Mutex && !about.control)
}

/// A node has no process beside those of the members, so a coordinator is one of them.
fn set_coordinator(about: &'static About, settings: &mut Settings) -> Result<(), RuleError> {
    if !about.options.iter().any(|choice| choice.key == "coordinator") {
        return Ok(());
    }
    match settings.get("coordinator") {
        None => settings.set("coordinator", "member"),
        Some("dedicated") => {
            return Err(RuleError::DedicatedCoordinator { algorithm: about.name });
        }
        Some(_) => {}
    }
    Ok(())
}

fn refusal_of_a_control(about: &'static About, settings: &Settings) -> RuleError {
    let algorithm = about.name;
    let variant = about.options.iter().find_map(|choice| {
        let chosen = settings.get(choice.key)?;
        let variant = choice.values.iter().find(|variant| variant.name == chosen)?;
        let (key, chosen) = (choice.key, chosen.to_owned());
        let right = choice.values[0].name;
        (!variant.drops.is_empty()).then_some(RuleError::ControlVariant {
            algorithm,
            key,
            chosen,
            right,
        })
    });
    variant.filter(|_| !about.control).unwrap_or(RuleError::Control { algorithm })
}

struct FindCode;

impl MutexVisitor for FindCode {
    type Output = (&'static About, Code);

    fn visit<M: Mutex>(self) -> Self::Output {
        let code = Code {
            start: |setup| setup.start::<M>(),
            make: machine::make::<M>,
            sends_first: |me, start| {
                let mut out = Outbox::new();
                let mut process = Process::<M>::new(me, start);
                process.begin(&mut out);
                let mut sends = false;
                out.drain(|_| sends = true);
                sends
            },
        };
        (M::ABOUT, code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(rule: Rule) -> String {
        Plan::new(3, &[rule]).expect_err("a refusal").to_string()
    }

    #[test]
    fn controls_are_refused_by_name_with_what_would_be_right() {
        let text = refusal(Rule::new("*", "bakery-naive"));
        assert!(text.contains("bakery-naive is a negative control"), "{text}");
        let text = refusal(Rule::new("*", "ricart-agrawala").with("replies", "plain"));
        assert!(text.contains("replies=plain") && text.contains("replies=stamped"), "{text}");
        let text = refusal(Rule::new("*", "maekawa").with("corrections", "off"));
        assert!(text.contains("corrections=on"), "{text}");
    }

    #[test]
    fn an_unknown_algorithm_is_refused_with_the_list_of_known_ones() {
        let text = refusal(Rule::new("*", "bully"));
        assert!(text.contains("unknown algorithm `bully`") && text.contains("maekawa"), "{text}");
    }

    #[test]
    fn the_first_rule_that_fits_serves_a_name_and_all_others_have_the_default() {
        let rules = [Rule::new("votes/*", "maekawa"), Rule::new("v*", "ricart-agrawala")];
        let plan = Plan::new(3, &rules).expect("a plan");
        assert_eq!(plan.algorithm(b"votes/1").name, "maekawa");
        assert_eq!(plan.algorithm(b"value").name, "ricart-agrawala");
        assert_eq!(plan.algorithm(b"\xff\x00").name, DEFAULT_ALGORITHM);
        let other = Plan::new(3, &rules[..1]).expect("a plan");
        assert_ne!(plan.digest(), other.digest());
    }

    /// Makes every process of the rule's algorithm in every view, for every home and holder.
    fn start_in_every_view(members: u32, rule: &Rule) {
        let plan = Plan::new(members, std::slice::from_ref(rule)).expect("a plan");
        let rule = plan.rule(0);
        for size in 1..=members {
            for home in (0..size).map(NodeId) {
                for holder in [None].into_iter().chain((0..size).map(|node| Some(NodeId(node)))) {
                    let start = rule.start(size, home, holder);
                    assert_eq!(start.processes(), size);
                    assert_eq!(start.in_cs(), holder);
                    let machines = start.all().map(|node| rule.make(node, &start));
                    let in_cs = machines
                        .filter(|machine| machine.phase() == mutua_algorithms::Phase::InCs)
                        .count();
                    assert_eq!(in_cs, usize::from(holder.is_some()), "{}", rule.about.name);
                }
            }
        }
    }

    #[test]
    fn every_algorithm_starts_in_a_view_of_every_size() {
        for about in usable() {
            for members in [1, 2, 3, 5, 8] {
                start_in_every_view(members, &Rule::new("*", about.name));
            }
        }
    }

    #[test]
    fn every_structure_starts_in_a_view_of_every_size() {
        for about in usable() {
            for quorums in QuorumKind::ALL {
                let quorums = *quorums;
                start_in_every_view(7, &Rule { quorums, ..Rule::new("*", about.name) });
            }
            let edges = (0..6).map(|node| (NodeId(node), NodeId(6))).collect();
            for topology in [Topology::Line, Topology::Kary(3), Topology::Edges(edges)] {
                start_in_every_view(7, &Rule { topology, ..Rule::new("*", about.name) });
            }
            for choice in about.options {
                for value in choice.values {
                    let rule = Rule::new("*", about.name).with(choice.key, value.name);
                    if Plan::new(7, std::slice::from_ref(&rule)).is_ok() {
                        start_in_every_view(7, &Rule { quorums: QuorumKind::Plane, ..rule });
                    }
                }
            }
        }
    }

    #[test]
    fn given_sets_fall_back_in_smaller_views() {
        let sets = SetsOf::central(4, NodeId(2)).expect("sets");
        let rule = Rule::new("*", "sanders").with("sets", "given");
        start_in_every_view(4, &Rule { sets: Some(sets), ..rule });
    }

    #[test]
    fn a_structure_without_a_form_for_all_members_is_refused() {
        let rule = Rule { quorums: QuorumKind::Plane, ..Rule::new("*", "maekawa") };
        assert!(Plan::new(7, std::slice::from_ref(&rule)).is_ok());
        let refused = Plan::new(6, &[rule]).expect_err("no plane of order 6");
        assert!(matches!(refused.why, RuleError::NoStart { .. }), "{refused}");
    }
}
