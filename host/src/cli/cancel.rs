//! `atropos cancel`: ask tasks to stop, and see to it that they do.

use std::time::Duration;

use clap::Args;

use super::Shell;
use super::exit::{Complaint, Exit};
use super::follow::{Followed, Voice, follow};
use super::receipt;
use super::submit::gave_up;
use super::values::{Patience, duration};
use crate::api::client::Client;
use crate::api::wire::{CancelAsk, Items, Task};
use crate::id::TaskId;
use crate::task::Kind;

/// Cancel tasks: they are told to stop, and killed when their grace is over
///
/// A task that waits ends at once. One that runs is CANCELLED only when its guest is gone; --wait waits for that and shows the receipt. If a
/// task ends otherwise before the cancel takes hold, the exit code is 4.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  atropos cancel ID --reason \"wrong month\" --wait
  atropos cancel ID --grace 0          kill it now
  atropos list --state pending --json | jq -r '.items[].id' | xargs atropos cancel")]
pub struct Cancel {
    #[arg(required = true, value_name = "ID")]
    ids: Vec<TaskId>,
    /// Why, for the record
    #[arg(long, short, value_name = "TEXT")]
    reason: Option<String>,
    /// A shorter grace than the task's own; 0 kills at once
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    grace: Option<Duration>,
    /// Wait until they are gone, or at most so long
    #[arg(long, short, value_name = "DURATION", num_args = 0..=1, require_equals = true, default_missing_value = "forever")]
    wait: Option<Patience>,
}

impl Cancel {
    pub async fn run(self, shell: &Shell) -> anyhow::Result<Exit> {
        let client = shell.client()?;
        let ask =
            CancelAsk { by: Some(shell.by.clone()), reason: self.reason.clone(), grace: self.grace.map(Into::into) };
        let mut asked = Vec::new();
        let mut exit = Exit::Ok;
        for id in &self.ids {
            match client.cancel(*id, &ask).await {
                Ok(task) => asked.push(task),
                // The others are asked all the same.
                Err(error) if self.ids.len() > 1 => exit = exit.or(shell.error(&error.into())),
                Err(error) => return Err(error.into()),
            }
        }
        if let Some(patience) = self.wait {
            for task in &mut asked {
                exit = exit.or(see_out(shell, &client, task, patience).await?);
            }
        }
        if shell.print.json {
            // One asked for gives one; many give a list, as everywhere.
            match asked.as_slice() {
                [task] if self.ids.len() == 1 => shell.print.document(task)?,
                _ => shell.print.document(&Items { items: asked })?,
            }
        } else if self.wait.is_none() {
            for task in &asked {
                shell.tell_task(task)?;
            }
        }
        Ok(exit)
    }
}

/// Waits for the end, and shows how the stop went.
async fn see_out(shell: &Shell, client: &Client, task: &mut Task, patience: Patience) -> anyhow::Result<Exit> {
    let id = task.id;
    match follow(shell, client, id, patience, Voice::Beside).await? {
        Followed::Ended(ended) => *task = *ended,
        Followed::GivenUp => return Ok(gave_up(shell, id)),
    }
    if !shell.print.json {
        let last = client.attempts(id).await?.pop();
        let text = receipt::ending(shell.print.out, task, last.as_ref());
        shell.print.line(format!("{id} {}", text.trim_end()))?;
    }
    if task.state == Kind::Cancelled {
        return Ok(Exit::Ok);
    }
    let message = format!("task `{id}` was {} before it could be cancelled", task.state.code());
    Ok(shell.error(&Complaint { exit: Exit::Conflict, code: "ended_otherwise", message, hint: None }.into()))
}
