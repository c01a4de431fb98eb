//! `atropos audit`: every change of a task.

use clap::Args;

use super::exit::Exit;
use super::{Shell, history};
use crate::api::wire::Items;
use crate::id::TaskId;

/// Show every change of a task: who, when, why, from what, to what
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  atropos audit ID\n  atropos audit ID --json | jq -r '.items[] | [.at, .to, .by] | @tsv'"
)]
pub struct Audit {
    id: TaskId,
}

impl Audit {
    pub async fn run(self, shell: &Shell) -> anyhow::Result<Exit> {
        let items = shell.client()?.audit(self.id).await?;
        if shell.print.json {
            shell.print.document(&Items { items })?;
        } else {
            shell.print.text(&history::audit(shell.print.out, &items))?;
        }
        Ok(Exit::Ok)
    }
}
