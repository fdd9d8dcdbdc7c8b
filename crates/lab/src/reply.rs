//! Answers for the page: one pure function, [`reply`].
//!
//! A [`Query`] carries everything that it is about, such as the whole script, and a [`Reply`]
//! depends on the query alone. Nothing is kept between two queries, so a step back is a line less,
//! a link is a query, and a server in the next process and a module in the browser give the same
//! bytes. Every query is bounded: one that would take too long or too much memory is refused with
//! a sentence.

mod bounds;
mod catalogue;
mod choices;
mod compared;
mod controls;
mod finding;
mod played;
mod position;
mod risk;
mod simulated;
mod traced;
mod transfer;

pub use self::{
    bounds::{MOST_BYTES, Refused},
    catalogue::{AlgorithmItem, Catalogue, ControlItem, ExampleItem, SceneItem},
    choices::{Act, Choice},
    compared::{CompareQuery, Compared, Point},
    finding::{Finding, Problem, Wait, Why},
    played::{Arrow, Diagram, Goal, Played, Structure},
    position::{Row, Sent, Step},
    risk::{Risk, RiskLevel},
    simulated::{Figure, RunMessage, RunSpan, SimulateQuery, Simulated},
};

use serde::{Deserialize, Serialize};

/// A question of the page.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "query", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Query {
    /// The examples, negative controls, scenes and algorithms that there are.
    Catalogue,
    /// A script, played step by step.
    Play {
        /// The script as text.
        script: String,
    },
    /// A worked example or a scene, played step by step.
    Example {
        /// Its name, as in the catalogue.
        name: String,
    },
    /// A negative control: the shortest counterexample that the checker finds, played.
    Control {
        /// Its name, as in the catalogue.
        name: String,
    },
    /// A script's steps under another algorithm; steps that cannot be taken there are left out.
    Under {
        /// The script as text.
        script: String,
        /// The algorithm to play it with.
        algorithm: String,
    },
    /// Whether a property can still be violated from the end of this script.
    Risk {
        /// The script as text.
        script: String,
    },
    /// The shortest ways to a violation from the start of this script, by the checker.
    Goals {
        /// The script as text.
        script: String,
    },
    /// The traces of the nodes of a cluster, as steps.
    Trace {
        /// The text of each trace file.
        parts: Vec<String>,
    },
    /// One run of the simulator.
    Simulate(SimulateQuery),
    /// Figures of one algorithm over several sizes.
    Compare(CompareQuery),
}

/// The answer to a query.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum Reply {
    /// The lists to choose from.
    Catalogue(Catalogue),
    /// A script and all its positions.
    Played(Box<Played>),
    /// The risk from the present state.
    Risk(Risk),
    /// The goals with the checker's shortest lengths.
    Goals {
        /// A goal for each property that can be violated.
        goals: Vec<Goal>,
    },
    /// A run of the simulator.
    Simulated(Box<Simulated>),
    /// Figures over sizes.
    Compared(Compared),
    /// The query was refused; nothing was done.
    Refused {
        /// The reason, and what would be right.
        why: String,
    },
}

/// Answers a query.
pub fn reply(query: &Query) -> Reply {
    answer(query).unwrap_or_else(|refused| Reply::Refused { why: refused.to_string() })
}

/// Answers a query in JSON by a reply in JSON; the same bytes in every place that runs it.
pub fn reply_json(query: &str) -> String {
    let reply = match bounds::size(query).and_then(|()| read(query)) {
        Ok(query) => reply(&query),
        Err(refused) => Reply::Refused { why: refused.to_string() },
    };
    // Only maps with keys other than strings could fail, and there are none.
    serde_json::to_string(&reply).unwrap_or_default()
}

fn read(query: &str) -> Result<Query, Refused> {
    serde_json::from_str(query).map_err(|error| Refused::Query(error.to_string()))
}

fn answer(query: &Query) -> Result<Reply, Refused> {
    Ok(match query {
        Query::Catalogue => Reply::Catalogue(catalogue::catalogue()?),
        Query::Play { script } => Reply::Played(Box::new(played::play("", script)?)),
        Query::Example { name } => Reply::Played(Box::new(catalogue::example(name)?)),
        Query::Control { name } => Reply::Played(Box::new(controls::control(name)?)),
        Query::Under { script, algorithm } => {
            Reply::Played(Box::new(transfer::under(script, algorithm)?))
        }
        Query::Risk { script } => Reply::Risk(risk::risk(script)?),
        Query::Goals { script } => Reply::Goals { goals: controls::goals(script)? },
        Query::Trace { parts } => Reply::Played(Box::new(traced::trace(parts)?)),
        Query::Simulate(query) => Reply::Simulated(Box::new(simulated::simulate(query)?)),
        Query::Compare(query) => Reply::Compared(compared::compare(query)?),
    })
}
