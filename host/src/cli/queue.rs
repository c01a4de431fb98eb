//! `atropos queue`: the lines in which tasks wait, and holding them.

use clap::{Args, Subcommand};

use super::exit::Exit;
use super::human::age;
use super::print::{Tone, tame};
use super::table::{Cell, Table};
use super::{Shell, history};
use crate::api::wire::{Ask, Items, PauseAsk};
use crate::id::QueueName;
use crate::time::{Clock, SystemClock};

/// Show queues, pause and resume them
#[derive(Args, Debug)]
pub struct Queue {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the queues that are paused or have live tasks
    #[command(after_help = "Examples:\n  atropos queue list")]
    List,
    /// Let nothing of a queue start; what runs goes on
    #[command(after_help = "\
Examples:
  atropos queue pause default --reason \"the warehouse is down\"
  atropos queue pause default --below 50     only urgent tasks start")]
    Pause {
        name: QueueName,
        /// Hold only tasks of a lower priority than this
        #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(-100..=100))]
        below: Option<i32>,
        /// Why, for the record
        #[arg(long, short, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Let a paused queue go on
    #[command(after_help = "Examples:\n  atropos queue resume default")]
    Resume {
        name: QueueName,
        /// Why, for the record
        #[arg(long, short, value_name = "TEXT")]
        reason: Option<String>,
    },
}

impl Queue {
    pub async fn run(self, shell: &Shell) -> anyhow::Result<Exit> {
        let client = shell.client()?;
        let by = Some(shell.by.clone());
        match self.command {
            Command::List => list(shell, client.queues().await?)?,
            Command::Pause { name, below, reason } => {
                let pause = client.pause(&name, &PauseAsk { below, by, reason }).await?;
                if shell.print.json {
                    shell.print.document(&pause)?;
                } else {
                    let what = pause.below.map_or_else(String::new, |below| format!(" below priority {below}"));
                    shell.print.line(format!("paused: {name}{what}"))?;
                }
            }
            Command::Resume { name, reason } => {
                let resumed = client.resume(&name, &Ask { by, reason }).await?;
                if shell.print.json {
                    shell.print.document(&resumed)?;
                } else {
                    let what = if resumed.was_paused { "goes on" } else { "was not paused" };
                    shell.print.line(format!("{what}: {name}"))?;
                }
            }
        }
        Ok(Exit::Ok)
    }
}

fn list(shell: &Shell, items: Vec<crate::api::wire::Queue>) -> std::io::Result<()> {
    if shell.print.json {
        return shell.print.document(&Items { items });
    }
    if items.is_empty() {
        shell.print.say("no queue is paused or has live tasks");
        return Ok(());
    }
    let now = SystemClock::default().now();
    let mut table = Table::new(&["QUEUE", "STATE", "PENDING", "RUNNING", "OLDEST", "BY", "SINCE", "REASON"]);
    for queue in &items {
        let (tone, state) = match queue.pause.as_ref().map(|pause| pause.below) {
            None => (Tone::Good, "open".to_owned()),
            Some(None) => (Tone::Warn, "paused".to_owned()),
            Some(Some(below)) => (Tone::Warn, format!("paused below {below}")),
        };
        let pause = queue.pause.as_ref();
        table.row([
            queue.name.to_string().into(),
            Cell::new(tone, state),
            queue.pending.to_string().into(),
            queue.running.to_string().into(),
            queue.oldest_ready_at.map(|at| age(at, now)).unwrap_or_default().into(),
            pause.map(|pause| tame(&pause.by)).unwrap_or_default().into(),
            pause.map(|pause| history::moment(pause.at, now)).unwrap_or_default().into(),
            pause.map(|pause| tame(&pause.reason)).unwrap_or_default().into(),
        ]);
    }
    shell.print.text(&table.text(shell.print.out))
}
