//! Every interleaving of a small system, on the state machines that run in production.

mod actor;
mod budget;
mod catalogue;
mod check;
mod cycles;
mod evidence;
mod ghost;
mod intern;
mod known;
mod limits;
mod model;
mod rest;
mod ring;
mod script;
mod search;
mod step;
mod store;
mod symmetry;
mod system;
pub mod table;
mod trail;
mod walk;

pub use actor::Event;
pub use check::{Goal, Reduction, Report, Search, Task, Verdict, check, checkable};
pub use evidence::CheckError;
pub use limits::{Limits, Progress, Stop};
pub use script::{Scripted, name_of};
pub use system::{Faults, System, Timers};
pub use trail::{Happening, Message, Trail, What};
pub use walk::Walks;
