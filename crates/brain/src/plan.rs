//! Which algorithm serves which names.

use std::sync::Arc;

use mutua_algorithms::{
    About, Mutex, NodeId, Outbox, Process, QuorumKind, Settings, Setup, Start, StartError,
    Topology,
    registry::{self, MutexVisitor},
};

use crate::{
    Pattern,
    machine::{self, Machine},
    member::digest,
};

/// The algorithm of a name that no rule speaks of.
///
/// Naimi and Trehel's: a node that has the token enters again for nothing, a hand-over is one
/// message, finding the token costs about log N, links may reorder, and its state does not grow
/// with the cluster. In a small cluster on a LAN nothing else is as cheap at both ends of the load.
pub const DEFAULT_ALGORITHM: &str = "naimi-trehel";

/// The algorithm of the names that fit a pattern.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Which names.
    pub names: Pattern,
    /// The algorithm's name.
    pub algorithm: String,
    /// Its variant.
    pub settings: Settings,
    /// The tree, where it needs one.
    pub topology: Topology,
    /// The quorums, where it needs some.
    pub quorums: QuorumKind,
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
        }
    }

    /// The same with an option of the algorithm set.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> Self {
        self.settings.set(key, value);
        self
    }
}

/// Why a rule cannot be followed. Nothing was made.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{why}")]
pub struct PlanError {
    /// The rule's place among the rules.
    pub rule: usize,
    /// What is wrong with it and what would be right.
    pub why: String,
}

/// All rules, checked; the first that fits a name serves it.
#[derive(Debug)]
pub struct Plan {
    members: u32,
    rules: Vec<Resolved>,
    digest: u64,
}

/// A rule and the code that its algorithm's name stands for.
#[derive(Debug)]
pub(crate) struct Resolved {
    names: Pattern,
    pub(crate) about: &'static About,
    setup: Setup,
    code: Code,
    /// Processes begin to speak by themselves, so somebody must call them to life where a name is
    /// used first elsewhere, and an idle one must be paced.
    pub(crate) moves_by_itself: bool,
}

#[derive(Clone, Copy, Debug)]
struct Code {
    start: fn(&Setup) -> Result<Start, StartError>,
    make: fn(NodeId, &Start) -> Box<dyn Machine>,
    speaks_first: fn(NodeId, &Start) -> bool,
}

impl Plan {
    /// Checks the rules for a cluster of so many members; a last rule with the default algorithm
    /// for all other names is added.
    pub fn new(members: u32, rules: &[Rule]) -> Result<Self, PlanError> {
        let rest = Rule::new("*", DEFAULT_ALGORITHM);
        let rules: Vec<_> = rules
            .iter()
            .chain([&rest])
            .enumerate()
            .map(|(place, rule)| {
                resolve(members, rule).map_err(|why| PlanError { rule: place, why })
            })
            .collect::<Result<_, _>>()?;
        let text: Vec<_> = rules.iter().map(Resolved::text).collect();
        let digest = digest(format!("{members} {}", text.join("\n")).as_bytes());
        Ok(Self { members, rules, digest })
    }

    /// How many members the cluster has.
    pub fn members(&self) -> u32 {
        self.members
    }

    /// The algorithm that serves a name.
    pub fn algorithm(&self, name: &[u8]) -> &'static About {
        self.rule(self.rule_of(name)).about
    }

    /// A number that two plans share if they say the same: members compare it when they meet.
    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    pub(crate) fn rule_of(&self, name: &[u8]) -> u16 {
        let place = self.rules.iter().position(|rule| rule.names.fits(name));
        u16::try_from(place.expect("the last rule fits every name")).expect("few rules")
    }

    pub(crate) fn rule(&self, rule: u16) -> &Resolved {
        &self.rules[usize::from(rule)]
    }
}

impl Resolved {
    /// The start of a lock at home with `home`, `inside` being who is inside it already.
    pub(crate) fn start(&self, nodes: u32, home: NodeId, inside: Option<NodeId>) -> Arc<Start> {
        let setup = Setup {
            nodes,
            holder: inside.unwrap_or(home),
            inside: inside.is_some(),
            coordinator: home,
            ..self.setup.clone()
        };
        // Checked when the plan was made, for every size of a view that can come.
        Arc::new((self.code.start)(&setup).expect("a start that was possible for this rule"))
    }

    pub(crate) fn make(&self, me: NodeId, start: &Start) -> Box<dyn Machine> {
        (self.code.make)(me, start)
    }

    fn text(&self) -> String {
        let setup = &self.setup;
        format!(
            "{} {} {:?} {:?} {:?}",
            self.names.text(),
            self.about.name,
            setup.settings,
            setup.topology,
            setup.quorums
        )
    }
}

/// The rule with its code, or why a node does not run it.
fn resolve(members: u32, rule: &Rule) -> Result<Resolved, String> {
    if u32::from(u16::MAX) < members {
        return Err(format!("{members} members are more than the {} that there may be", u16::MAX));
    }
    let (about, code) = registry::visit_mutex(&rule.algorithm, FindCode).ok_or_else(|| {
        let known: Vec<_> = usable().map(|about| about.name).collect();
        format!(
            "`{}` is no algorithm of mutual exclusion; there are: {}",
            rule.algorithm,
            known.join(", ")
        )
    })?;
    let mut settings = rule.settings.clone();
    seat_the_coordinator(about, &mut settings)?;
    if about.is_control(&settings) {
        return Err(refusal_of_a_control(about, &settings));
    }
    let setup = Setup {
        settings,
        topology: rule.topology.clone(),
        quorums: rule.quorums,
        ..Setup::new(members)
    };
    let start = (code.start)(&setup).map_err(|error| format!("{}: {error}", about.name))?;
    let moves_by_itself = start.all().any(|node| (code.speaks_first)(node, &start));
    Ok(Resolved { names: rule.names.clone(), about, setup, code, moves_by_itself })
}

/// The algorithms that a node runs.
pub fn usable() -> impl Iterator<Item = &'static About> {
    registry::ALGORITHMS
        .iter()
        .copied()
        .filter(|about| about.kind == mutua_algorithms::Kind::Mutex && !about.control)
}

/// A node has no process beside the members, so a coordinator is one of them.
fn seat_the_coordinator(about: &About, settings: &mut Settings) -> Result<(), String> {
    if !about.options.iter().any(|choice| choice.key == "coordinator") {
        return Ok(());
    }
    match settings.get("coordinator") {
        None => settings.set("coordinator", "member"),
        Some("dedicated") => {
            return Err(format!(
                "{} with coordinator=dedicated needs a process that is no member; \
                 a node takes coordinator=member, where each name's home coordinates it",
                about.name
            ));
        }
        Some(_) => {}
    }
    Ok(())
}

fn refusal_of_a_control(about: &About, settings: &Settings) -> String {
    if about.control {
        return format!(
            "{} is a negative control, kept to be found broken; a node runs {DEFAULT_ALGORITHM}, \
             for example",
            about.name
        );
    }
    let culprit = about.options.iter().find_map(|choice| {
        let chosen = settings.get(choice.key)?;
        let variant = choice.values.iter().find(|variant| variant.name == chosen)?;
        (!variant.drops.is_empty()).then(|| (choice.key, chosen, choice.values[0].name))
    });
    let (key, chosen, right) = culprit.unwrap_or(("", "", ""));
    format!(
        "{} with {key}={chosen} is a negative control, kept to be found broken; \
         a node takes {key}={right}",
        about.name
    )
}

struct FindCode;

impl MutexVisitor for FindCode {
    type Output = (&'static About, Code);

    fn visit<M: Mutex>(self) -> Self::Output {
        let code = Code {
            start: |setup| setup.start::<M>(),
            make: machine::make::<M>,
            speaks_first: |me, start| {
                let mut out = Outbox::new();
                let mut process = Process::<M>::new(me, start);
                process.begin(&mut out);
                let mut speaks = false;
                out.drain(|_| speaks = true);
                speaks
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
    fn what_is_no_mutex_is_refused_with_the_list_of_those_there_are() {
        let text = refusal(Rule::new("*", "bully"));
        assert!(text.contains("`bully` is no algorithm") && text.contains("maekawa"), "{text}");
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
}
