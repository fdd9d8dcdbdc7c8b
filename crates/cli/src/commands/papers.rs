//! Completions and the manual page, made from the arguments themselves.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::{names, out};

/// Which page.
#[derive(Debug, Args)]
pub(crate) struct ManArguments {
    /// Only the page of this command.
    command: Option<String>,
}

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

/// The page of one command, or of `mutua` and of each of its commands, one after the other.
pub(crate) fn man(arguments: &ManArguments) -> Result<ExitCode> {
    let command = crate::Arguments::command();
    let mut pages = Vec::new();
    let mut parts: Vec<_> = command.get_subcommands().filter(|part| !part.is_hide_set()).collect();
    if let Some(wanted) = &arguments.command {
        let names: Vec<_> = parts.iter().map(|part| part.get_name().to_owned()).collect();
        parts.retain(|part| part.get_name() == wanted);
        if parts.is_empty() {
            return Err(names::unknown("command", wanted, names.iter().map(String::as_str)));
        }
    } else {
        clap_mangen::Man::new(command.clone()).render(&mut pages)?;
    }
    for part in parts {
        let name = format!("mutua-{}", part.get_name());
        let page = part.clone().bin_name(name.replace('-', " "));
        clap_mangen::Man::new(page).title(name).render(&mut pages)?;
    }
    out::write_bytes(&pages);
    Ok(ExitCode::SUCCESS)
}
