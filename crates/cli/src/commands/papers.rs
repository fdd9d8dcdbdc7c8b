//! Completions and the manual page, made from the arguments themselves.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::out;

/// Which shell.
#[derive(Debug, Args)]
pub(crate) struct CompletionArguments {
    /// The shell.
    shell: Shell,
}

pub(crate) fn completions(arguments: &CompletionArguments) -> Result<ExitCode> {
    let mut command = crate::Arguments::command();
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "mutua", &mut script);
    out::write_bytes(&script);
    Ok(ExitCode::SUCCESS)
}

/// The page of `mutua` and of each of its commands, one after the other.
pub(crate) fn man() -> Result<ExitCode> {
    let command = crate::Arguments::command();
    let mut pages = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut pages)?;
    for part in command.get_subcommands().filter(|part| !part.is_hide_set()) {
        let title = format!("mutua-{}", part.get_name());
        clap_mangen::Man::new(part.clone()).title(title).render(&mut pages)?;
    }
    out::write_bytes(&pages);
    Ok(ExitCode::SUCCESS)
}
