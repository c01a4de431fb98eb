//! `atropos submit`: register a task, and, if wished, see it to its end.

use clap::{Args, ValueEnum};

use super::Shell;
use super::exit::Exit;
use super::follow::{Followed, Voice, follow};
use super::report::Report;
use super::terms::TermsArgs;
use super::values::{Json, Patience, When, map, pair};
use crate::api::wire::{NewTask, Scope, TermsDraft};
use crate::id::{QueueName, TaskId, TraceParent, TypeName};
use crate::time::{Clock, SystemClock};

/// Submit a task
///
/// Prints the task's id once its record is on disk. With --wait, shows its log and progress on stderr until it has ended, prints its result,
/// and ends with 0 if it is SUCCESS and 1 if it is not. A task that is refused is on record as REJECTED; the message says why.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  atropos submit hello --input '{\"name\": \"Ada\"}' --wait
  id=$(atropos submit export-report --input @input.json --label user=u-1001)
  atropos submit cleanup --run-after 10m --dedup-key nightly --dedup-scope live
  atropos submit import --input - --priority 10 --run-timeout 1h < rows.json")]
pub struct Submit {
    /// The task type
    #[arg(value_name = "TYPE")]
    task_type: TypeName,
    /// The input: JSON, @FILE, or - for stdin
    #[arg(long, short, value_name = "JSON", default_value = "{}")]
    input: Json,
    /// Wait for the end, or at most so long
    #[arg(long, short, value_name = "DURATION", num_args = 0..=1, require_equals = true, default_missing_value = "forever")]
    wait: Option<Patience>,
    /// Give back the task of this type that has the key already, instead of a new one
    #[arg(long, value_name = "KEY")]
    dedup_key: Option<String>,
    /// How long the key stays taken
    #[arg(long, value_enum, default_value = "record", requires = "dedup_key")]
    dedup_scope: ScopeArg,
    /// From -100 to 100, higher first
    #[arg(long, value_name = "N", default_value = "0", allow_negative_numbers = true,
          value_parser = clap::value_parser!(i32).range(-100..=100))]
    priority: i32,
    /// The line to wait in
    #[arg(long, value_name = "NAME")]
    queue: Option<QueueName>,
    /// Not before: how long from now, or an instant
    #[arg(long, value_name = "WHEN")]
    run_after: Option<When>,
    /// A label, to find it by; may be repeated
    #[arg(long = "label", short, value_name = "NAME=VALUE", value_parser = pair)]
    labels: Vec<(String, String)>,
    /// Who or what it is for [default: that of --by]
    #[arg(long, value_name = "NAME")]
    creator: Option<String>,
    /// The request that it comes from
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    /// The trace that it belongs to [default: a new one]
    #[arg(long, value_name = "TRACE")]
    traceparent: Option<TraceParent>,
    #[command(flatten)]
    terms: TermsArgs,
}

/// How long a deduplication key stays taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ScopeArg {
    /// As long as the record is kept
    Record,
    /// Until the task has ended
    Live,
}

impl Submit {
    pub async fn run(self, shell: &Shell) -> anyhow::Result<Exit> {
        let wait = self.wait;
        let new = self.task(shell)?;
        let client = shell.client()?;
        let submitted = client.submit(&new).await?;
        let id = submitted.task.id;
        if submitted.deduplicated {
            shell.print.say(format!("the task is there already: {id} is {}", submitted.task.state.code()));
        }
        let Some(patience) = wait else {
            if shell.print.json {
                shell.print.document(&submitted)?;
            } else {
                shell.print.line(id)?;
            }
            return Ok(Exit::Ok);
        };
        if !submitted.deduplicated {
            shell.print.say(format!("submitted {id}"));
        }
        match follow(shell, &client, id, patience, Voice::Beside).await? {
            Followed::Ended(task) => Report::of(&client, *task).await?.tell(shell),
            Followed::GivenUp => Ok(gave_up(shell, id)),
        }
    }

    fn task(self, shell: &Shell) -> anyhow::Result<NewTask> {
        let input = self.input.read("the input")?;
        Ok(NewTask {
            dedup_key: self.dedup_key,
            dedup_scope: match self.dedup_scope {
                ScopeArg::Record => Scope::Record,
                ScopeArg::Live => Scope::Live,
            },
            priority: self.priority,
            queue: self.queue,
            run_after: self.run_after.map(|when| when.from(SystemClock::default().now())),
            terms: TermsDraft::from(&self.terms.draft()?),
            creator: Some(self.creator.unwrap_or_else(|| shell.by.clone())),
            request_id: self.request_id,
            traceparent: self.traceparent,
            labels: map(&self.labels)?,
            ..NewTask::new(self.task_type, input.trim())?
        })
    }
}

/// Nobody waits any more, and the task goes on.
pub(super) fn gave_up(shell: &Shell, id: TaskId) -> Exit {
    shell.print.say(format!("no longer waiting; the task goes on: `atropos watch {id}`, `atropos cancel {id}`"));
    Exit::GaveUp
}
