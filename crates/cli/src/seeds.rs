//! The options of a command that runs every system with several seeds.

use clap::Args;

use crate::system;

/// The first seed, and the number of seeds.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct SeedArguments {
    /// Number of seeds per system.
    #[arg(long, value_name = "R", default_value_t = 3, allow_hyphen_values = true,
          value_parser = system::runs)]
    pub(crate) runs: u64,

    /// First seed.
    #[arg(long, value_name = "S", default_value_t = 1, allow_hyphen_values = true,
          value_parser = system::whole)]
    pub(crate) seed: u64,
}
