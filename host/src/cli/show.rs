//! `atropos show`: everything there is of one task.

use clap::Args;
use serde::Serialize;
use serde_json::value::RawValue;

use super::attempts::leavings;
use super::exit::Exit;
use super::human::{bytes, count};
use super::print::{Ink, Tone, json_text, tame};
use super::push::short;
use super::table::facts;
use super::{Shell, history, logs, words};
use crate::api::client::{Client, ClientError};
use crate::api::wire::{Attempt, AuditEntry, LogLine, NextStep, Task, Terms};
use crate::id::TaskId;
use crate::task::Kind;
use crate::time::{Clock, SystemClock, Timestamp};

/// The log lines that are shown.
const LOG_TAIL: usize = 20;

/// Show everything of a task: state, budgets, history, receipts, log, result
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  atropos show ID\n  atropos show ID --json | jq '.receipts[-1].stop'")]
pub struct Show {
    id: TaskId,
}

/// The task as the API has it, and everything that belongs to it.
#[derive(Serialize)]
struct Whole {
    #[serde(flatten)]
    task: Task,
    audit: Vec<AuditEntry>,
    /// Its attempts, first to last.
    receipts: Vec<Attempt>,
    log: Vec<LogLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Box<RawValue>>,
}

impl Show {
    pub async fn run(self, shell: &Shell) -> anyhow::Result<Exit> {
        let client = shell.client()?;
        let whole = Whole::of(&client, self.id).await?;
        if shell.print.json {
            shell.print.document(&whole)?;
        } else {
            shell.print.text(&whole.text(shell.print.out, SystemClock::default().now()))?;
        }
        Ok(Exit::Ok)
    }
}

/// What is not there is no error here.
fn if_there<T>(answer: Result<T, ClientError>) -> Result<Option<T>, ClientError> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(ClientError::Problem(problem)) if problem.status == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

impl Whole {
    async fn of(client: &Client, id: TaskId) -> Result<Self, ClientError> {
        let task = client.show(id).await?;
        let succeeded = task.state == Kind::Success;
        Ok(Self {
            audit: client.audit(id).await?,
            receipts: client.attempts(id).await?,
            log: logs::all(client, id).await?.items,
            input: if_there(client.input(id).await)?.map(|found| found.input),
            result: if succeeded { if_there(client.result(id).await)?.map(|found| found.result) } else { None },
            task,
        })
    }

    fn text(&self, ink: Ink, now: Timestamp) -> String {
        let mut text = head(ink, &self.task, now);
        let mut part = |title: &str, body: &str| {
            if !body.is_empty() {
                text.extend(["\n", &ink.paint(Tone::Strong, title), "\n", body.trim_end(), "\n"]);
            }
        };
        part("History", &history::audit(ink, &self.audit));
        if !self.receipts.is_empty() {
            let leavings: String = self.receipts.iter().map(|attempt| leavings(ink, attempt)).collect();
            part("Attempts", &(history::attempts(ink, &self.receipts, now) + &leavings));
        }
        let tail = &self.log[self.log.len().saturating_sub(LOG_TAIL)..];
        let lines: String = tail.iter().map(|line| history::log_line(ink, line) + "\n").collect();
        let title = if tail.len() < self.log.len() {
            format!("Log, the last {} of {}", tail.len(), count(self.log.len() as u64, "line"))
        } else {
            "Log".to_owned()
        };
        part(&title, &lines);
        part("Input", &self.input.as_deref().map(|input| json_text(input.get(), true)).unwrap_or_default());
        part("Result", &self.result.as_deref().map(|result| json_text(result.get(), true)).unwrap_or_default());
        text
    }
}

/// What the task is, and where it is.
fn head(ink: Ink, task: &Task, now: Timestamp) -> String {
    let (tone, word) = words::state(task);
    let component =
        task.component.map(|digest| format!(", component {}", short(&digest.to_string()))).unwrap_or_default();
    let version = task.type_version.map(|version| format!(" version {version}")).unwrap_or_default();
    let by = task.creator.as_deref().map(|creator| format!(" by {}", tame(creator))).unwrap_or_default();
    let labels: Vec<_> = task.labels.iter().map(|(name, value)| format!("{}={}", tame(name), tame(value))).collect();
    let ended = task.ended_at.map(|at| {
        let manner = task.ended.map(|manner| format!(", {}", manner.code().replace('_', " "))).unwrap_or_default();
        format!("{}{manner}", history::moment(at, now))
    });
    let recoverable = if task.recoverable == Some(true) {
        format!("`atropos rerun {}`, or `give-up`", task.id)
    } else {
        String::new()
    };
    let next = task.next.as_ref().map(|next| {
        let what = match next.what {
            NextStep::WaitSpent => "its queue wait is spent",
            NextStep::LifeSpent => "its life is spent",
            NextStep::RunTimeSpent => "its run time is spent",
            NextStep::HeartbeatExpired => "its heartbeat is missed",
            NextStep::Kill => "it is killed",
        };
        format!("{what}: {}", history::moment(next.at, now))
    });
    facts(
        ink,
        &[
            ("task", ink.paint(Tone::Strong, task.id)),
            ("state", ink.paint(tone, word)),
            ("why", words::why(task, now)),
            ("hint", task.reason.and_then(words::hint).unwrap_or_default().into()),
            ("recover", recoverable),
            ("type", format!("{}{version}{component}", task.task_type)),
            ("created", history::moment(task.created_at, now) + &by),
            ("start", task.run_after.map(|at| history::moment(at, now)).unwrap_or_default()),
            ("ended", ended.unwrap_or_default()),
            ("next", next.unwrap_or_default()),
            ("attempts", attempts(task)),
            ("queue", format!("{}, priority {}", task.queue, task.priority)),
            ("budgets", task.terms.as_ref().map(|terms| budgets(terms, task, now)).unwrap_or_default()),
            ("limits", task.terms.as_ref().map(limits).unwrap_or_default()),
            ("grants", super::grants::line(&task.grants)),
            ("labels", labels.join(" ")),
            ("key", task.dedup_key.as_deref().map(tame).unwrap_or_default()),
            ("request", task.request_id.as_deref().map(tame).unwrap_or_default()),
            ("trace", task.trace_id.clone()),
        ],
    )
}

fn attempts(task: &Task) -> String {
    let Some(terms) = &task.terms else { return String::new() };
    let generation = if task.generation > 1 { format!(", generation {}", task.generation) } else { String::new() };
    format!(
        "{}, {} of {} used{generation}",
        task.attempts,
        task.retries,
        count(terms.max_retries.into(), "retry").replace("retrys", "retries")
    )
}

fn budgets(terms: &Terms, task: &Task, now: Timestamp) -> String {
    let mut parts = vec![
        format!("run {}", terms.run_timeout),
        format!("grace {}", terms.grace),
        format!("queue wait {}", terms.queue_timeout),
        format!("life {}", terms.max_age),
    ];
    parts.extend(terms.heartbeat_timeout.map(|span| format!("heartbeat {span}")));
    parts.extend(terms.fuel.map(|fuel| format!("fuel {fuel}")));
    let until = task.life_ends_at.map(|at| format!(", until {}", history::moment(at, now))).unwrap_or_default();
    parts.join(" · ") + &until
}

fn limits(terms: &Terms) -> String {
    format!(
        "memory {} · result {} · log {} or {}",
        bytes(terms.memory_bytes_max),
        bytes(terms.result_bytes_max),
        count(terms.log_lines_max, "line"),
        bytes(terms.log_bytes_max)
    )
}
