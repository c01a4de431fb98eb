//! Follows a task on a server to its end: its progress, its log lines, its changes.
//!
//! Looks again and again, so that nothing is lost when a line is dropped on the way.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::Shell;
use super::history::log_line;
use super::human::span;
use super::live::{Live, Row};
use super::signals::Signals;
use super::values::Patience;
use super::words;
use crate::api::client::{Client, ClientError};
use crate::api::wire::{LogLine, Task};
use crate::id::TaskId;
use crate::task::Kind;
use crate::time::{Clock, SystemClock};

/// While a person looks on, or log lines come.
const LOOK_EVERY: Duration = Duration::from_millis(200);
const LOG_PAGE: usize = 1_000;
/// How long a server may be away before it is given up: a restart takes less.
const OUTAGE_MAX: Duration = Duration::from_secs(30);
const OUTAGE_PAUSE: Duration = Duration::from_millis(500);

/// Where the story goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voice {
    /// Stdout is for the result: the story goes to stderr.
    Beside,
    /// The story is the result, for people.
    Story,
    /// The story is the result, for programs: a JSON document on each line.
    Records,
}

/// How it went.
#[derive(Debug)]
pub enum Followed {
    Ended(Box<Task>),
    /// Time was up, or somebody pressed Ctrl-C. The task goes on.
    GivenUp,
}

/// A document of the story.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Record<'a> {
    Task(&'a Task),
    Log(&'a LogLine),
}

/// Follows the task until it has ended, or patience has.
///
/// # Errors
/// The server does not answer, there is no such task, or nobody reads the story.
pub async fn follow(
    shell: &Shell,
    client: &Client,
    id: TaskId,
    patience: Patience,
    voice: Voice,
) -> anyhow::Result<Followed> {
    let mut signals = Signals::listen()?;
    let begun = Instant::now();
    let clock = SystemClock::default();
    let live = Live::new(shell.print, 0);
    let mut row = None;
    let mut outage = Outage::default();
    let mut story = Story { shell, live: &live, voice, seen: 0, attempt: 0, last: String::new() };
    loop {
        let left = match patience {
            Patience::Forever => None,
            Patience::AtMost(span) => Some(span.saturating_sub(begun.elapsed())),
        };
        let pause = left.map_or(LOOK_EVERY, |left| left.min(LOOK_EVERY));
        let look = async {
            let task = client.wait(id, pause).await?;
            story.logs(client, id).await?;
            story.change(&task)?;
            anyhow::Ok(task)
        };
        let task = tokio::select! {
            task = look => task,
            _ = signals.next() => {
                row.iter().for_each(Row::clear);
                return Ok(Followed::GivenUp);
            }
        };
        let task = match task {
            Ok(task) => task,
            Err(error) if row.is_some() && outage.goes_on(&error, &live) => {
                tokio::time::sleep(OUTAGE_PAUSE).await;
                continue;
            }
            Err(error) => return Err(error),
        };
        outage = Outage::default();
        let row = row.get_or_insert_with(|| live.row(task.task_type.as_str()));
        if task.state.is_terminal() {
            row.clear();
            return Ok(Followed::Ended(Box::new(task)));
        }
        if left.is_some_and(|left| left.is_zero()) {
            row.clear();
            return Ok(Followed::GivenUp);
        }
        row.show(&task, clock.now());
    }
}

/// A server that was there and does not answer now: it may be restarting.
#[derive(Default)]
struct Outage {
    since: Option<Instant>,
}

impl Outage {
    /// Whether this is one, and not for too long. Says so once.
    fn goes_on(&mut self, error: &anyhow::Error, live: &Live) -> bool {
        let out = error.downcast_ref::<ClientError>().is_some_and(|error| match error {
            ClientError::Unreachable { .. } => true,
            ClientError::Problem(problem) => problem.status == 503,
            ClientError::Protocol { .. } | ClientError::Address { .. } => false,
        });
        if out && self.since.is_none() {
            live.say(&format!("the server does not answer; looking for it for {}", span(OUTAGE_MAX)));
        }
        out && self.since.get_or_insert_with(Instant::now).elapsed() < OUTAGE_MAX
    }
}

struct Story<'a> {
    shell: &'a Shell,
    live: &'a Live,
    voice: Voice,
    /// The number of the last log line.
    seen: u64,
    /// The attempt that was last told of.
    attempt: u32,
    /// The last change that was told.
    last: String,
}

impl Story<'_> {
    /// Log lines that are new.
    async fn logs(&mut self, client: &Client, id: TaskId) -> anyhow::Result<()> {
        let print = self.shell.print;
        loop {
            let page = client.logs(id, self.seen, LOG_PAGE).await?;
            if page.items.is_empty() {
                return Ok(());
            }
            self.seen = page.next_after;
            for line in &page.items {
                self.begins(line.attempt)?;
                match self.voice {
                    Voice::Beside => self.live.say(&log_line(print.err, line)),
                    Voice::Story => self.live.away(|| print.line(log_line(print.out, line)))?,
                    Voice::Records => self.live.away(|| print.record(&Record::Log(line)))?,
                }
            }
        }
    }

    /// What changed since the last look, other than progress; for programs, progress too.
    fn change(&mut self, task: &Task) -> anyhow::Result<()> {
        let print = self.shell.print;
        if self.voice == Voice::Records {
            let now = serde_json::to_string(task)?;
            if now != self.last {
                self.live.away(|| print.record(&Record::Task(task)))?;
                self.last = now;
            }
            return Ok(());
        }
        if task.running.is_some() && task.stopping.is_none() {
            self.last.clear();
            return self.begins(task.attempts);
        }
        let (tone, word) = words::state(task);
        if self.voice == Voice::Story && word != self.last && !task.state.is_terminal() {
            let why = words::why(task, SystemClock::default().now());
            self.live.away(|| print.line(format!("{} {why}", print.out.paint(tone, &word))))?;
            self.last = word;
        }
        Ok(())
    }

    /// An attempt has begun, as the task says, or its first log line.
    fn begins(&mut self, attempt: u32) -> anyhow::Result<()> {
        let print = self.shell.print;
        if attempt > self.attempt && self.voice == Voice::Story {
            let word = print.out.paint(words::tone(Kind::Running), Kind::Running.code());
            self.live.away(|| print.line(format!("{word} attempt {attempt}")))?;
        }
        self.attempt = self.attempt.max(attempt);
        Ok(())
    }
}
