//! Elections, one algorithm a file.

mod bully;
mod chang_roberts;
mod invitation;

pub use bully::Bully;
pub use chang_roberts::ChangRoberts;
pub use invitation::{Group, Invitation};
