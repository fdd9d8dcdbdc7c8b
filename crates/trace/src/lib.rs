//! The events of a run, in one format that every driver writes and every picture reads.
//!
//! # The trace format, version 1
//!
//! A trace is a text file of JSON lines. The first line is the [`Header`]; every other line is one
//! [`Event`]. Processes go by their names, values are text as a reader wants them.
//!
//! ```json
//! {"mutua-trace":1,"algorithm":"central","processes":["A","B"],"unit":"step"}
//! {"at":0,"who":"A","what":"start","clock":0,"state":{"Q":"[]"}}
//! {"at":1,"who":"B","what":"request","clock":1}
//! {"at":1,"who":"B","what":"send","to":"A","id":1,"kind":"request","clock":1}
//! {"at":2,"who":"A","what":"receive","from":"B","id":1,"kind":"request","clock":2}
//! {"at":2,"who":"A","what":"send","to":"B","id":2,"kind":"reply","fields":{"n":"1"},"clock":2}
//! {"at":3,"who":"B","what":"receive","from":"A","id":2,"kind":"reply","clock":3}
//! {"at":3,"who":"B","what":"enter","fencing_token":3,"clock":3}
//! ```
//!
//! - `at` never falls from line to line. Its unit is the header's: a script counts its steps, a
//!   simulator its virtual time, a node its clock.
//! - What happens to a process (`start`, `request`, `exit`, `receive`, `observed`, `timeout`, ...)
//!   comes first, and carries in `state` those variables of the machine that it changed (`start`:
//!   all of them). What the process does about it (`send`, `multicast`, `enter`, `elected`,
//!   `timer`, ...) follows at the same `at`, in order.
//! - `id` is unique among the messages of one sender. Every copy of a multicast has the same one,
//!   so sender, `id` and receiver name one delivery.
//! - `clock` is the process's Lamport clock after the event, as one number; elections have none.
//! - A reader ignores members it does not know, so new ones may be added; a change that is not of
//!   this kind raises the version.

pub mod describe;
mod event;
mod file;
mod header;
mod values;
mod views;
mod watch;

pub use event::{APP, Event, Message, What};
pub use file::{ReadError, Reader, WriteError, Writer};
pub use header::{FORMAT, Header, Unit};
pub use values::Values;
pub use views::Views;
pub use watch::Watch;
