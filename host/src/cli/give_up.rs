//! `atropos give-up`: take a dead task off the list of those that may be rerun.

use clap::Args;

use super::Shell;
use super::exit::Exit;
use crate::api::wire::Ask;
use crate::id::TaskId;

/// Give up a task that could be rerun: it becomes CANCELLED
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  atropos give-up ID --reason \"the customer has left\"")]
pub struct GiveUp {
    id: TaskId,
    /// Why, for the record
    #[arg(long, short, value_name = "TEXT")]
    reason: String,
}

impl GiveUp {
    pub async fn run(self, shell: &Shell) -> anyhow::Result<Exit> {
        let ask = Ask { by: Some(shell.by.clone()), reason: Some(self.reason) };
        let task = shell.client()?.give_up(self.id, &ask).await?;
        shell.tell_task(&task)
    }
}
