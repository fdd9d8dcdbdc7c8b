//! The options of flock that scripts written for it use.

use anyhow::Result;
use clap::Args;

use crate::exit::usage;

/// Options of flock in addition to those with the same meaning here (-n, -w, -E, -c, -v).
#[derive(Debug, Args)]
#[command(next_help_heading = "Accepted as in flock")]
pub(super) struct Flock {
    /// Acquire an exclusive lock: the default and only kind.
    #[arg(short = 'x', long, visible_short_alias = 'e')]
    exclusive: bool,
    /// No effect: the command inherits no descriptor of the lock.
    #[arg(short = 'o', long)]
    close: bool,
    /// No effect: the command is always a child process, because `mutua lock` renews the lease.
    #[arg(short = 'F', long)]
    no_fork: bool,
    /// Not supported: shared locks.
    #[arg(short = 's', long)]
    shared: bool,
    /// Not supported: a lock is released when its command exits or its descriptor is closed.
    #[arg(short = 'u', long)]
    unlock: bool,
}

impl Flock {
    pub(super) fn check(&self) -> Result<()> {
        if self.shared {
            return Err(usage(
                "-s (--shared) is not supported: shared locks are planned, every lock is exclusive",
            ));
        }
        if self.unlock {
            return Err(usage(
                "-u (--unlock) is not supported: a lock is released when its command exits, and \
                 with --fd 9 when descriptor 9 is closed: `exec 9>&-`",
            ));
        }
        Ok(())
    }
}
