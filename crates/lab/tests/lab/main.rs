//! All integration tests of the crate in one binary, which is linked once.

mod any_mutex;
mod any_script;
mod language;
mod pictures;
mod repair_pictures;
mod reply;
mod scripts;
