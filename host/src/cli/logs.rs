//! `atropos logs`: what the guest of a task wrote.

use clap::Args;

use super::Shell;
use super::exit::Exit;
use super::history::log_line;
use crate::api::client::{Client, ClientError};
use crate::api::wire::{LogLine, LogPage};
use crate::id::TaskId;

const PAGE: usize = 1_000;

/// Print the log of a task
///
/// The host keeps the tail of each attempt's log, within the limits of the task's terms. With --follow and --json, a line is a document.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  atropos logs ID --tail 20\n  atropos logs ID --follow\n  atropos logs ID --attempt 2"
)]
pub struct Logs {
    id: TaskId,
    /// Go on until the task has ended
    #[arg(long, short)]
    follow: bool,
    /// Only of this attempt
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
    /// Only the last lines of what is there
    #[arg(long, short = 'n', value_name = "N")]
    tail: Option<usize>,
}

impl Logs {
    pub async fn run(self, shell: &Shell) -> anyhow::Result<Exit> {
        let client = shell.client()?;
        let LogPage { mut items, next_after } = all(&client, self.id).await?;
        items.retain(|line| self.wants(line));
        let surplus = self.tail.map_or(0, |tail| items.len().saturating_sub(tail));
        items.drain(..surplus);
        if shell.print.json && !self.follow {
            shell.print.document(&LogPage { items, next_after })?;
            return Ok(Exit::Ok);
        }
        for line in &items {
            tell(shell, line)?;
        }
        if self.follow {
            let mut stream = client.follow_logs(self.id, next_after).await?;
            while let Some(line) = stream.next().await? {
                if self.wants(&line) {
                    tell(shell, &line)?;
                }
            }
        }
        Ok(Exit::Ok)
    }

    fn wants(&self, line: &LogLine) -> bool {
        self.attempt.is_none_or(|attempt| line.attempt == attempt)
    }
}

fn tell(shell: &Shell, line: &LogLine) -> std::io::Result<()> {
    if shell.print.json { shell.print.record(line) } else { shell.print.line(log_line(shell.print.out, line)) }
}

/// Everything that is there of a task's log.
pub(super) async fn all(client: &Client, id: TaskId) -> Result<LogPage, ClientError> {
    let mut whole = client.logs(id, 0, PAGE).await?;
    loop {
        let page = client.logs(id, whole.next_after, PAGE).await?;
        if page.items.is_empty() {
            return Ok(whole);
        }
        whole.items.extend(page.items);
        whole.next_after = page.next_after;
    }
}
