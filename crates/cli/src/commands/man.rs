//! Completions and manual pages, generated from the arguments.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Arg, ArgAction, Args, Command, CommandFactory};
use clap_complete::Shell;

use crate::{names, out};

/// Print the manual, or the page of one command, in roff.
///
/// `mutua man lock | man -l -` shows it.
#[derive(Debug, Args)]
pub(crate) struct ManArguments {
    /// Command whose page to print [default: all pages].
    command: Option<String>,
}

/// Print a completion script for a shell.
#[derive(Debug, Args)]
pub(crate) struct CompletionArguments {
    /// Shell to complete for.
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
        let page = part.clone().bin_name(format!("mutua {}", part.get_name()));
        let page = page.display_name(&name).override_usage(synopsis(part));
        let source = concat!("mutua ", env!("CARGO_PKG_VERSION"));
        clap_mangen::Man::new(page).title(name).source(source).render(&mut pages)?;
    }
    out::write_bytes(&pages);
    Ok(ExitCode::SUCCESS)
}

/// The synopsis of a command: its options with their values, and its arguments.
fn synopsis(command: &Command) -> String {
    let shown = |argument: &&Arg| !argument.is_hide_set();
    let (last, positionals): (Vec<_>, Vec<_>) =
        command.get_positionals().filter(shown).partition(|argument| argument.is_last_set());
    let options = command.get_opts().filter(shown).map(option);
    let words = options.chain(positionals.into_iter().map(positional));
    let words =
        words.chain(last.into_iter().map(|argument| format!("[-- {}...]", value(argument))));
    let under = command.has_subcommands().then(|| "COMMAND".to_owned());
    let name = format!("mutua {}", command.get_name());
    [name].into_iter().chain(words).chain(under).collect::<Vec<_>>().join(" ")
}

fn option(argument: &Arg) -> String {
    let short = argument.get_short().map(|short| format!("-{short}"));
    let long = argument.get_long().map(|long| format!("--{long}"));
    let names = short.into_iter().chain(long).collect::<Vec<_>>().join("|");
    let text = match argument.get_action().takes_values() {
        true => format!("{names} {}", value(argument)),
        false => names,
    };
    if argument.is_required_set() { text } else { format!("[{text}]") }
}

fn positional(argument: &Arg) -> String {
    let many = matches!(argument.get_action(), ArgAction::Append);
    let text = format!("{}{}", value(argument), if many { "..." } else { "" });
    if argument.is_required_set() { text } else { format!("[{text}]") }
}

fn value(argument: &Arg) -> String {
    match argument.get_value_names() {
        Some(names) => names.join(" "),
        None => argument.get_id().as_str().to_uppercase(),
    }
}
