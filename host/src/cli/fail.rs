//! `atropos fail`: end a task by force.

use clap::Args;

use super::Shell;
use super::exit::Exit;
use crate::api::wire::Ask;
use crate::id::TaskId;

/// End a task as FAILED, with no grace and no retry
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  atropos fail ID --reason \"hangs since the last release\"")]
pub struct Fail {
    id: TaskId,
    /// Why, for the record
    #[arg(long, short, value_name = "TEXT")]
    reason: String,
}

impl Fail {
    pub async fn run(self, shell: &Shell) -> anyhow::Result<Exit> {
        let ask = Ask { by: Some(shell.by.clone()), reason: Some(self.reason) };
        let task = shell.client()?.fail(self.id, &ask).await?;
        shell.tell_task(&task)
    }
}
