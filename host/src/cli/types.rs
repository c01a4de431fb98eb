//! `atropos type`: what can be run, and on which terms.

use clap::{Args, Subcommand};

use super::exit::Exit;
use super::human::bytes;
use super::print::{Tone, tame};
use super::push::short;
use super::table::Table;
use super::{Shell, history};
use crate::api::wire::{Component, Items, TaskType};
use crate::id::TypeName;
use crate::time::{Clock, SystemClock, Timestamp};

/// Show task types and components
#[derive(Args, Debug)]
pub struct Types {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the types, each in its latest version
    #[command(after_help = "Examples:\n  atropos type list")]
    List,
    /// Show all versions of a type, with their terms
    #[command(after_help = "Examples:\n  atropos type show export-report")]
    Show { name: TypeName },
    /// List the uploaded components
    #[command(after_help = "Examples:\n  atropos type components")]
    Components,
}

impl Types {
    pub async fn run(self, shell: &Shell) -> anyhow::Result<Exit> {
        let client = shell.client()?;
        let now = SystemClock::default().now();
        match self.command {
            Command::List => {
                let items = client.types().await?;
                tell(shell, items, |items| list(shell, items, now), "no type is registered: `atropos push TYPE FILE`")?;
            }
            Command::Show { name } => {
                let items = client.type_versions(&name).await?;
                tell(
                    shell,
                    items,
                    |items| items.iter().map(|version| show(shell, version, now)).collect::<Vec<_>>().join("\n"),
                    "",
                )?;
            }
            Command::Components => {
                let items = client.components().await?;
                tell(
                    shell,
                    items,
                    |items| components(shell, items, now),
                    "no component was uploaded: `atropos push TYPE FILE`",
                )?;
            }
        }
        Ok(Exit::Ok)
    }
}

fn tell<T: serde::Serialize>(
    shell: &Shell,
    items: Vec<T>,
    text: impl Fn(&[T]) -> String,
    none: &str,
) -> std::io::Result<()> {
    if shell.print.json {
        return shell.print.document(&Items { items });
    }
    if items.is_empty() {
        shell.print.say(none);
        return Ok(());
    }
    shell.print.text(&text(&items))
}

fn list(shell: &Shell, types: &[TaskType], now: Timestamp) -> String {
    let mut table =
        Table::new(&["TYPE", "VERSION", "COMPONENT", "RUN TIMEOUT", "GRACE", "RETRIES", "REGISTERED", "BY"]);
    for known in types {
        let terms = &known.terms;
        table.row([
            known.name.to_string().into(),
            known.version.to_string().into(),
            short(&known.component.to_string()).into(),
            terms.run_timeout.map_or_else(|| "-".into(), |span| span.to_string()).into(),
            terms.grace.map_or_else(|| "5s".into(), |span| span.to_string()).into(),
            terms.max_retries.unwrap_or(3).to_string().into(),
            history::moment(known.created_at, now).into(),
            tame(&known.created_by).into(),
        ]);
    }
    table.text(shell.print.out)
}

fn show(shell: &Shell, version: &TaskType, now: Timestamp) -> String {
    let ink = shell.print.out;
    let mut facts = vec![
        ("component".to_owned(), version.component.to_string()),
        (
            "registered".to_owned(),
            format!("{} by {}", history::moment(version.created_at, now), tame(&version.created_by)),
        ),
    ];
    // The terms are told as the API has them: only what differs from the defaults is there.
    if let Ok(serde_json::Value::Object(terms)) = serde_json::to_value(&version.terms) {
        facts.extend(
            terms
                .iter()
                .map(|(name, value)| (name.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned))),
        );
    }
    facts.extend(super::grants::facts(&version.grants).into_iter().map(|(name, value)| (name.to_owned(), value)));
    facts.extend(version.input_schema.as_ref().map(|schema| ("input_schema".to_owned(), schema.to_string())));
    let facts: Vec<_> = facts.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    let title = ink.paint(Tone::Strong, format!("{} version {}", version.name, version.version));
    format!("{title}\n{}", super::table::facts(ink, &facts))
}

fn components(shell: &Shell, components: &[Component], now: Timestamp) -> String {
    let mut table = Table::new(&["DIGEST", "SIZE", "UPLOADED", "BY"]);
    for component in components {
        table.row([
            component.digest.to_string().into(),
            bytes(component.bytes).into(),
            history::moment(component.uploaded_at, now).into(),
            tame(&component.uploaded_by).into(),
        ]);
    }
    table.text(shell.print.out)
}
