//! The options of a command that runs every system with several seeds.

use clap::Args;

use crate::system;

/// From which seed on, and how many.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct SeedArguments {
    /// How many seeds each system is run with.
    #[arg(long, value_name = "R", default_value_t = 3, allow_hyphen_values = true,
          value_parser = system::positive)]
    pub(crate) runs: u64,

    /// The first seed.
    #[arg(long, value_name = "S", default_value_t = 1, allow_hyphen_values = true,
          value_parser = system::whole)]
    pub(crate) seed: u64,
}
