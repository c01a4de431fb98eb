//! The help as a whole: commands in groups, and the exit codes.
//!
//! Takes every word from the commands themselves.

use std::fmt::Write;

use clap::CommandFactory;

use super::Cli;
use super::exit::TABLE;

/// Commands by what one wants of them, in the order of the help.
const GROUPS: &[(&str, &[&str])] = &[
    ("Without a server", &["run", "demo", "check", "doctor"]),
    ("Server and task types", &["serve", "push", "type"]),
    ("Work", &["submit", "list", "show", "watch", "logs", "result", "attempts", "core-dump", "audit"]),
    ("Operate", &["cancel", "rerun", "fail", "give-up", "queue"]),
];

/// The grammar, with its help.
pub fn command() -> clap::Command {
    let command = Cli::command();
    let template = template(&command);
    command.help_template(template)
}

fn template(command: &clap::Command) -> String {
    let styles = command.get_styles();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let mut text = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    for (title, names) in GROUPS {
        let _ = writeln!(text, "\n{header}{title}:{header:#}");
        for name in *names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {literal}{name:10}{literal:#} {about}");
        }
    }
    let _ = writeln!(text, "\n{header}Exit codes:{header:#}\n{TABLE}");
    text.push_str("\n{options}\n\n`atropos help COMMAND` tells more of each, with examples.");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grammar_holds_together() {
        command().debug_assert();
    }

    #[test]
    fn every_command_is_in_one_group_and_says_what_it_is_for() {
        let command = Cli::command();
        let grouped: Vec<_> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let seen = || command.get_subcommands().filter(|sub| !sub.is_hide_set());
        let there: Vec<_> = seen().map(clap::Command::get_name).collect();
        assert!(there.iter().all(|name| grouped.iter().filter(|at| *at == name).count() == 1), "{there:?}");
        assert_eq!(there.len(), grouped.len());
        for sub in seen() {
            let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(!about.is_empty() && about.len() < 80, "{}: {about}", sub.get_name());
            assert!(sub.get_after_help().is_some() || sub.has_subcommands(), "{} has no example", sub.get_name());
        }
    }
}
