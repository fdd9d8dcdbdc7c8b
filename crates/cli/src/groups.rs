//! The list of commands in `mutua --help`, in groups.
//!
//! clap lists subcommands without groups, so the list is a part of the help template here. Names
//! and descriptions come from the subcommands themselves.

use std::fmt::Write;

use clap::{Command, builder::Styles};

/// The groups, in the order of the help; every command is in one of them.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Locks", &["lock", "elect", "ls", "show", "watch", "verify", "break"]),
    ("Nodes and clusters", &["node", "cluster", "status", "top", "cert", "config"]),
    (
        "Study of algorithms",
        &["lab", "algorithms", "simulate", "compare", "choose", "check", "replay", "quorums"],
    ),
    ("Other", &["demo", "completions", "man", "help"]),
];

/// The command with its subcommands listed in groups.
pub(crate) fn grouped(command: Command) -> Command {
    let mut built = command.clone();
    // Adds `help`.
    built.build();
    let styles = Styles::default();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let mut groups = String::new();
    for (title, names) in GROUPS {
        // Writing to a string cannot fail.
        let _ = writeln!(groups, "{header}{title}:{header:#}");
        for subcommand in names.iter().filter_map(|name| built.find_subcommand(name)) {
            let about = subcommand.get_about().map(ToString::to_string).unwrap_or_default();
            let name = subcommand.get_name();
            let _ = writeln!(groups, "  {literal}{name:<11}{literal:#}  {about}");
        }
        groups.push('\n');
    }
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}\
         {header}Options:{header:#}\n{{options}}"
    ))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::{GROUPS, grouped};

    #[test]
    fn every_command_is_in_exactly_one_group() {
        let mut command = crate::Arguments::command();
        command.build();
        let mut commands: Vec<_> =
            command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
        let mut listed: Vec<_> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        commands.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, commands);
    }

    #[test]
    fn the_help_lists_each_command_below_its_group() {
        let help = grouped(crate::Arguments::command()).render_help().to_string();
        let position = |text: &str| help.find(text).unwrap_or_else(|| panic!("{text} in {help}"));
        for (title, names) in GROUPS {
            for name in names {
                assert!(position(&format!("{title}:\n")) < position(&format!("\n  {name} ")));
            }
        }
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    }
}
