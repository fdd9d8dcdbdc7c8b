//! Explores every interleaving of a small system, on the same state machines that run in
//! production.
//!
//! # What a model checker does
//!
//! A test runs a system once, in one order of events. This crate runs it in *every* order. It
//! starts with all processes at rest and no message under way, and asks what can happen next: a
//! client requests or exits, a message arrives, a timer runs out, and if the task allows faults, a
//! process crashes or a message is lost. Each of these *steps* leads to another *state*. The crate
//! takes every step of every state, breadth first, until no new state appears. A property that no
//! state and no step violates *holds* for this system: for this number of processes and entries,
//! and for no other. If one is violated, the way back from there to the start is a
//! *counterexample*, and a shortest one, since the search is breadth first.
//!
//! ```
//! use mutua_algorithms::{Claim, Setup};
//! use mutua_checker::{Limits, NoClock, Reduction, System, Task, check};
//!
//! // Two processes that enter once each, by Ricart and Agrawala's algorithm.
//! let mut task = Task {
//!     name: "ricart-agrawala".to_owned(),
//!     system: System::new(Setup::new(2), 1),
//!     properties: Some(vec![Claim::MutualExclusion, Claim::DeadlockFree]),
//!     reduction: Reduction::None,
//!     limits: Limits::default(),
//!     first: false,
//!     walks: None,
//!     invariants: Vec::new(),
//! };
//! let report = check(&task, &mut NoClock)?;
//! assert_eq!(report.searches[0].states, 35);
//! assert!(report.verdicts.iter().all(|verdict| verdict.holds == Some(true)));
//!
//! // Simple majority is a negative control: two requests can block each other.
//! task.name = "majority".to_owned();
//! task.system = System::new(Setup::new(4), 1);
//! task.properties = Some(vec![Claim::DeadlockFree]);
//! task.first = true;
//! let report = check(&task, &mut NoClock)?;
//! assert_eq!(report.verdicts[0].holds, Some(false));
//! for step in &report.verdicts[0].trail.as_ref().expect("a counterexample").steps {
//!     println!("{}", step.sentence());
//! }
//! # Ok::<(), mutua_checker::CheckError>(())
//! ```
//!
//! # Interning
//!
//! Small systems have millions of states, but few different parts. A process of the example is in
//! one of a dozen *local situations*, whatever the other one does. Each distinct situation, message
//! and outbox (the messages that one process has sent and that have not arrived) is kept once, in
//! the *catalogue*, and known by its number. A state is then an array of numbers: one situation and
//! one outbox for each process. With two processes, `[3, 1, 2, 0]` reads: process 0 is in situation
//! 3, process 1 in situation 1, process 0 has the messages of outbox 2 under way, process 1 has
//! none. Such an array is copied, hashed and compared without knowing the algorithm, in about 40
//! bytes. An algorithm's handler runs once for each pair of situation and message; after that a
//! step is a look-up.
//!
//! # Ghosts
//!
//! Mutual exclusion shows in one state: two processes are in the critical section. Other properties
//! are about the past: ordering asks whether a request that happened before another one is granted
//! first. No process knows that, so the checker adds a *ghost*: a few bits at each process and on
//! each message that record what the property needs, and that no handler can see. They travel with
//! the messages, as happens-before does. For ordering: the set of open requests that happened
//! before this point; a process that enters while its own set is not empty has overtaken. For
//! fencing: one bit, whether the last exit happened before this point. For bounded bypass: the
//! processes that have entered since the messages of the request here have arrived (not what other
//! processes forward for it). A ghost multiplies the states, so each property that needs one has
//! its own search. Ghosts are the only place in this crate that judges ordering, bypass and
//! fencing.
//!
//! # Reductions
//!
//! Many states differ in nothing that matters. Three reductions leave them out; none changes a
//! verdict, and the tests compare each with the full search.
//!
//! - *Shifts of clocks.* Algorithms compare timestamps and add to them, so all timestamps lowered
//!   by the same number give the same behaviour. Every state is lowered until its lowest is zero.
//! - *Symmetry.* If two clients of a coordinator exchange their names, the system does the same
//!   under other names. Of all states that such renamings map to each other one is kept.
//! - *Partial order.* If P0 receives and P1 receives, both orders end in the same state. Where that
//!   is sure for a set of processes, only the steps of the set are taken first.
//!
//! Counterexamples are searched again without reductions: the run that is shown is a real one.
//!
//! # Cycles and liveness
//!
//! "Every request is granted in the end" has no violation in any finite run: one could always wait
//! longer. It is violated by a run that goes on for ever. In a finite graph such a run ends in a
//! state at rest, with a process still waiting (a deadlock), or it goes round in a cycle in which
//! the process waits all the time (starvation). The second kind is looked for in the strongly
//! connected components of the graph, the parts in which every state leads to every other one. Not
//! every cycle counts: one in which a message is never delivered proves nothing, since links
//! deliver in the end. A cycle is a violation only if it is *fair*: every delivery, exit and timer
//! that must happen in the end happens on it, or cannot happen somewhere on it.
//!
//! # From the caller
//!
//! The crate reads no clock. The caller passes a [`Host`] with a clock, a gauge of memory and a
//! view of progress ([`NoClock`] has none of them), and the number of workers in
//! [`Limits::threads`]. Without the feature `threads` one worker runs on the caller's thread, and
//! the crate compiles for `wasm32-unknown-unknown`.

mod actor;
mod budget;
mod catalogue;
mod check;
mod cycles;
mod evidence;
mod ghost;
mod graph;
mod host;
mod ids;
mod intern;
mod invariant;
mod kinds;
mod known;
mod limits;
mod model;
mod repairing;
mod rest;
mod ring;
mod search;
mod step;
mod store;
mod symmetry;
mod system;
pub mod table;
mod trail;
mod walk;
mod words;

pub use actor::Event;
pub use check::{Goal, Reduction, Report, Search, Task, Verdict, check, checkable};
pub use evidence::CheckError;
pub use graph::{Graph, GraphState, GraphStep, graph};
pub use host::{Host, NoClock};
pub use invariant::{FORMS as INVARIANT_FORMS, Invariant, InvariantError, KindError};
pub use limits::{Limits, Progress, Stop};
pub use model::MOST_PROCESSES;
pub use system::{Detector, Faults, Repair, System, Timers};
pub use trail::{Happening, Message, Trail, What};
pub use walk::Walks;
pub use words::name_of;
