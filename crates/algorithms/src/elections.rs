//! Elections, one algorithm a file.

mod bully;
mod chang_roberts;
mod invitation;

pub use bully::{Bully, BullyMessage};
pub use chang_roberts::{ChangRoberts, ChangRobertsMessage};
pub use invitation::{Group, Invitation, InvitationMessage};
