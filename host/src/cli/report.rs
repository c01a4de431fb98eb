//! What a task came to: its end, its receipts, its result. `run`, `submit --wait` and `watch` end with it.
//!
//! Knows the streams, but not where the task ran.

use serde::Serialize;
use serde_json::value::RawValue;

use super::Shell;
use super::exit::Exit;
use super::print::json_text;
use super::receipt;
use crate::api::client::{Client, ClientError};
use crate::api::wire::{Attempt, Task};
use crate::task::Kind;

/// The task as the API has it, and what belongs to it.
#[derive(Serialize)]
pub struct Report {
    #[serde(flatten)]
    pub task: Task,
    /// Its attempts, first to last.
    pub receipts: Vec<Attempt>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
}

impl Report {
    /// # Errors
    /// The server does not tell.
    pub async fn of(client: &Client, task: Task) -> Result<Self, ClientError> {
        let receipts = client.attempts(task.id).await?;
        let result = if task.state == Kind::Success { Some(client.result(task.id).await?.result) } else { None };
        Ok(Self { task, receipts, result })
    }

    /// The result to stdout, the rest beside it.
    ///
    /// # Errors
    /// Nobody reads it.
    pub fn tell(&self, shell: &Shell) -> anyhow::Result<Exit> {
        let print = shell.print;
        if print.json {
            print.document(self)?;
        } else {
            if let Some(result) = &self.result {
                print.line(json_text(result.get(), print.out_terminal))?;
            }
            let ending = receipt::ending(print.err, &self.task, self.receipts.last());
            match ending.lines().next() {
                // That it failed is to be heard in any case.
                Some(verdict) if print.quiet && self.task.state != Kind::Success => print.shout(verdict),
                _ => print.say(ending.trim_end()),
            }
        }
        Ok(Exit::of(self.task.state))
    }
}
