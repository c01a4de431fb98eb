//! `atropos watch`: a task as it goes, to its end.

use clap::Args;

use super::Shell;
use super::exit::Exit;
use super::follow::{Followed, Voice, follow};
use super::print::json_text;
use super::receipt;
use super::report::Report;
use super::submit::gave_up;
use super::values::Patience;
use crate::id::TaskId;

/// Watch a task to its end: progress, log lines, changes, result
///
/// Ends with 0 if the task is SUCCESS and 1 if it is not. Ctrl-C ends the watching, not the task. With --json, a document on each line:
/// {"task": …} whenever it changed, {"log": …} for each line of its log.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  atropos watch ID\n  atropos watch ID --timeout 1m --json | jq -r '.log.message // empty'"
)]
pub struct Watch {
    id: TaskId,
    /// Give up after this long
    #[arg(long, value_name = "DURATION", default_value = "forever")]
    timeout: Patience,
}

impl Watch {
    pub async fn run(self, shell: &Shell) -> anyhow::Result<Exit> {
        let client = shell.client()?;
        let print = shell.print;
        let voice = if print.json { Voice::Records } else { Voice::Story };
        let task = match follow(shell, &client, self.id, self.timeout, voice).await? {
            Followed::Ended(task) => *task,
            Followed::GivenUp => return Ok(gave_up(shell, self.id)),
        };
        let exit = Exit::of(task.state);
        if print.json {
            return Ok(exit);
        }
        let report = Report::of(&client, task).await?;
        print.text(&receipt::ending(print.out, &report.task, report.receipts.last()))?;
        if let Some(result) = &report.result {
            print.line(json_text(result.get(), print.out_terminal))?;
        }
        Ok(exit)
    }
}
