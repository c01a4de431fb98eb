//! `atropos rerun`: take an ended task up again.

use clap::Args;

use super::Shell;
use super::exit::Exit;
use crate::api::wire::RerunAsk;
use crate::id::TaskId;

/// Take an ended task up again, as a new generation of the same task
///
/// For tasks that ended by spent retries, a timeout or an interruption. Others of FAILED and TIMED_OUT need --force and a reason; SUCCESS,
/// CANCELLED and REJECTED never change.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  atropos rerun ID && atropos watch ID
  atropos rerun ID --force --reason \"the account is open again\"")]
pub struct Rerun {
    id: TaskId,
    /// Even if it ended in a way that is not taken up again
    #[arg(long, requires = "reason")]
    force: bool,
    /// Why, for the record
    #[arg(long, short, value_name = "TEXT")]
    reason: Option<String>,
}

impl Rerun {
    pub async fn run(self, shell: &Shell) -> anyhow::Result<Exit> {
        let ask = RerunAsk { by: Some(shell.by.clone()), reason: self.reason, force: self.force };
        let task = shell.client()?.rerun(self.id, &ask).await?;
        shell.tell_task(&task)
    }
}
