//! Elections, one algorithm a file.

mod bully;

pub use bully::Bully;
