//! Completions and the manual page, made from the arguments themselves.

use std::{io, process::ExitCode};

use anyhow::Result;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

/// Which shell.
#[derive(Debug, Args)]
pub(crate) struct CompletionArguments {
    /// The shell.
    shell: Shell,
}

pub(crate) fn completions(arguments: &CompletionArguments) -> Result<ExitCode> {
    let mut command = crate::Arguments::command();
    clap_complete::generate(arguments.shell, &mut command, "mutua", &mut io::stdout());
    Ok(ExitCode::SUCCESS)
}

/// The page of `mutua` and of each of its commands, one after the other.
pub(crate) fn man() -> Result<ExitCode> {
    let command = crate::Arguments::command();
    clap_mangen::Man::new(command.clone()).render(&mut io::stdout())?;
    for part in command.get_subcommands().filter(|part| !part.is_hide_set()) {
        let title = format!("mutua-{}", part.get_name());
        clap_mangen::Man::new(part.clone()).title(title).render(&mut io::stdout())?;
    }
    Ok(ExitCode::SUCCESS)
}
