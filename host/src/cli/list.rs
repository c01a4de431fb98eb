//! `atropos list`: many tasks, newest first.

use clap::Args;

use super::Shell;
use super::exit::{Complaint, Exit};
use super::history;
use super::values::{When, pair};
use crate::api::client::ListQuery;
use crate::api::wire::TaskPage;
use crate::id::{QueueName, TypeName};
use crate::task::Kind;
use crate::time::{Clock, SystemClock, Timestamp};

/// The most that the API gives at once.
const PAGE_MAX: usize = 500;

/// List tasks, newest first
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  atropos list --state running --state pending
  atropos list --type export-report --label user=u-1001 --since 24h
  atropos list --all --json | jq -r '.items[] | select(.recoverable) | .id'")]
pub struct List {
    /// Only in this state; may be repeated
    #[arg(long = "state", short, value_name = "STATE", value_parser = kind)]
    states: Vec<Kind>,
    /// Only of this type
    #[arg(long = "type", short, value_name = "TYPE")]
    task_type: Option<TypeName>,
    /// Only of this queue
    #[arg(long, value_name = "NAME")]
    queue: Option<QueueName>,
    /// Only with this label
    #[arg(long, short, value_name = "NAME=VALUE", value_parser = pair)]
    label: Option<(String, String)>,
    /// Only of this creator
    #[arg(long, value_name = "NAME")]
    creator: Option<String>,
    /// Only of this trace: 32 hexadecimal digits
    #[arg(long, value_name = "TRACE")]
    trace: Option<String>,
    /// Only created since: how long ago, or an instant
    #[arg(long, value_name = "WHEN")]
    since: Option<When>,
    /// Only created before: how long ago, or an instant
    #[arg(long, value_name = "WHEN")]
    until: Option<When>,
    /// How many
    #[arg(long, short = 'n', value_name = "N", default_value = "50", value_parser = clap::value_parser!(u16).range(1..=500))]
    limit: u16,
    /// Every one that there is
    #[arg(long, conflicts_with_all = ["limit", "cursor"])]
    all: bool,
    /// Go on where another list ended
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

/// A state by its name, however it is written.
fn kind(text: &str) -> Result<Kind, String> {
    Kind::parse(&text.to_ascii_uppercase().replace('-', "_")).ok_or_else(|| {
        let names = Kind::ALL.map(|kind| kind.code().to_ascii_lowercase());
        format!("expected one of {}", names.join(", "))
    })
}

impl List {
    pub async fn run(self, shell: &Shell) -> anyhow::Result<Exit> {
        let client = shell.client()?;
        let now = SystemClock::default().now();
        let ago = |when: When| -> Timestamp {
            match when {
                When::At(at) => at,
                When::In(span) => now - span,
            }
        };
        let mut query = ListQuery {
            states: self.states,
            task_type: self.task_type,
            queue: self.queue,
            label: self.label,
            creator: self.creator,
            trace: self.trace,
            created_from: self.since.map(ago),
            created_to: self.until.map(ago),
            limit: Some(if self.all { PAGE_MAX } else { usize::from(self.limit) }),
            cursor: self.cursor,
        };
        if let Some(trace) = &query.trace
            && (trace.len() != 32 || !trace.bytes().all(|b| b.is_ascii_hexdigit()))
        {
            return Err(Complaint::usage(format!("`{trace}` is no trace id: expected 32 hexadecimal digits")).into());
        }
        let mut page = client.list(&query).await?;
        while let (true, Some(cursor)) = (self.all, page.next_cursor.take()) {
            query.cursor = Some(cursor);
            let more = client.list(&query).await?;
            page =
                TaskPage { items: page.items.into_iter().chain(more.items).collect(), next_cursor: more.next_cursor };
        }
        if shell.print.json {
            shell.print.document(&page)?;
            return Ok(Exit::Ok);
        }
        if page.items.is_empty() {
            shell.print.say("no such tasks");
            return Ok(Exit::Ok);
        }
        shell.print.text(&history::tasks(shell.print.out, &page.items, now))?;
        if let Some(cursor) = page.next_cursor {
            shell.print.say(format!("there are more: --cursor {cursor}, or --all"));
        }
        Ok(Exit::Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_known_however_it_is_written() {
        for text in ["TIMED_OUT", "timed-out", "timed_out", "timeout"] {
            assert_eq!(kind(text), Ok(Kind::TimedOut), "{text}");
        }
        assert_eq!(kind("canceled"), Ok(Kind::Cancelled));
        assert!(kind("done").unwrap_err().contains("timed_out"));
    }
}
