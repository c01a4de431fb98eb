//! `atropos result`: what a task came to.

use clap::Args;

use super::Shell;
use super::exit::Exit;
use super::print::json_text;
use crate::id::TaskId;

/// Print the result of a task that succeeded
///
/// The bare JSON that the task returned; with --json, the API's document around it.
#[derive(Args, Debug)]
#[command(name = "result", after_help = "Examples:\n  atropos result ID | jq .rows")]
pub struct ResultOf {
    id: TaskId,
}

impl ResultOf {
    pub async fn run(self, shell: &Shell) -> anyhow::Result<Exit> {
        let found = shell.client()?.result(self.id).await?;
        if shell.print.json {
            shell.print.document(&found)?;
        } else {
            shell.print.line(json_text(found.result.get(), shell.print.out_terminal))?;
        }
        Ok(Exit::Ok)
    }
}
