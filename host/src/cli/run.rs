//! `atropos run`: one task in a throw-away host, without a server.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::value::RawValue;

use super::Shell;
use super::compile_component::this_program;
use super::exit::{Complaint, Exit};
use super::files;
use super::grants::GrantsArgs;
use super::history::log_line;
use super::live::{Live, Row};
use super::report::Report;
use super::signals::Signals;
use super::terms::TermsArgs;
use super::values::Json;
use crate::api::wire;
use crate::config::Config;
use crate::host::{Host, NewTask, NewType};
use crate::id::{IdError, TaskId, TypeName};
use crate::task::{Ask, Kind, TermsDraft};
use crate::time::{Clock, SystemClock};

const RUN_TIMEOUT: Duration = Duration::from_mins(1);
/// How often the terminal hears of the task.
const LOOK_EVERY: Duration = Duration::from_millis(60);
const LOG_PAGE: usize = 500;

/// Run one task here and now, without a server
///
/// The result goes to stdout; log lines, progress and a receipt go to stderr. Nothing is kept. Unless flags say otherwise, the
/// task may run for 60s and is not retried. Ctrl-C asks it to stop, a second Ctrl-C kills it.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  atropos run hello.wasm --input '{\"name\": \"Ada\"}'
  atropos run export.wasm --input @input.json --run-timeout 5m
  atropos run fetch.wasm --allow-http api.example.com --scratch 64MiB
  jq -c .input order.json | atropos run export.wasm --input - | jq .rows")]
pub struct Run {
    /// The component
    file: PathBuf,
    /// The input: JSON, @FILE, or - for stdin
    #[arg(long, short, value_name = "JSON", default_value = "{}")]
    input: Json,
    #[command(flatten)]
    terms: TermsArgs,
    #[command(flatten)]
    grants: GrantsArgs,
}

impl Run {
    pub async fn run(self, shell: &Shell) -> anyhow::Result<Exit> {
        let input = self.input.read("the input")?;
        let draft = self.terms.draft()?;
        if draft.core_dump == Some(true) {
            let complaint = Complaint::usage("a throw-away host keeps no core dump, and `run` is one");
            return Err(complaint.hint("push it to a server: `atropos push TYPE FILE --core-dump`").into());
        }
        let grants = self.grants.grants()?;
        let defaults =
            TermsDraft { run_timeout: Some(RUN_TIMEOUT), max_retries: Some(0), grants, ..TermsDraft::default() };
        let bytes = files::component(&self.file)?;
        let name = type_name(&self.file)?;
        // Not before: until here a signal ends the program as it ends any other.
        let mut signals = Signals::listen()?;
        let host = Host::start(Config {
            slots: 1,
            guest_threads: 1,
            executors: 1,
            program: Some(this_program()),
            ..Config::default()
        })
        .await?;
        let id = tokio::select! {
            id = submit(shell, &host, &name, bytes, draft.over(&defaults), input) => id?,
            _ = signals.next() => return Err(interrupted().into()),
        };
        let live = Live::new(shell.print, 0);
        let row = live.row(name.as_str());
        let task = follow(shell, &host, id, &live, &row, &mut signals).await;
        row.clear();
        let task = task?;
        let receipts = host.attempts(id).await?.into_iter().map(Into::into).collect();
        let result = host.result(id).await?.map(|row| RawValue::from_string(row.result.to_string())).transpose()?;
        host.shut_down().await?;
        Report { task, receipts, result }.tell(shell)
    }
}

async fn submit(
    shell: &Shell,
    host: &Host,
    name: &TypeName,
    component: Vec<u8>,
    terms: TermsDraft,
    input: String,
) -> anyhow::Result<TaskId> {
    let by: Arc<str> = shell.by.as_str().into();
    let component = host.push(component, Arc::clone(&by)).await?.digest;
    host.put_type(NewType { name: name.clone(), component, terms, input_schema: None, by }).await?;
    let new = NewTask { creator: Some(shell.by.clone()), ..NewTask::new(name.clone(), input) };
    Ok(host.submit(new).await?.task.spec.id)
}

fn interrupted() -> Complaint {
    let message = "interrupted before the task began".into();
    Complaint { exit: Exit::TaskFailed, code: "interrupted", message, hint: None }
}

/// Shows the task until it has ended. A signal asks it to stop; the next one kills it.
async fn follow(
    shell: &Shell,
    host: &Host,
    id: TaskId,
    live: &Live,
    row: &Row,
    signals: &mut Signals,
) -> anyhow::Result<wire::Task> {
    let clock = SystemClock::default();
    let mut seen = 0;
    let mut asked = false;
    loop {
        let view = tokio::select! {
            view = host.wait(id, LOOK_EVERY) => view?,
            _ = signals.next() => {
                let grace = asked.then_some(Duration::ZERO);
                let ask = Ask { by: shell.by.as_str().into(), why: "Ctrl-C".into() };
                // It may have ended just now, and then there is nothing to stop.
                let stopping = host.cancel(id, ask, grace).await.is_ok();
                if stopping && !asked {
                    live.say("asked to stop; Ctrl-C again kills it now");
                }
                asked = true;
                continue;
            }
        };
        let task = wire::Task::of(&view, clock.now());
        loop {
            let lines = host.logs(id, seen, LOG_PAGE).await?;
            let Some(last) = lines.last() else { break };
            seen = last.number;
            for line in lines {
                live.say(&log_line(shell.print.err, &line.into()));
            }
        }
        if task.state.is_terminal() {
            return Ok(task);
        }
        if task.state != Kind::Pending || task.attempts > 0 {
            row.show(&task, clock.now());
        }
    }
}

/// The file's name, as far as it can name a type.
fn type_name(file: &Path) -> Result<TypeName, IdError> {
    let stem = file.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default();
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let name: String = stem.chars().map(|c| if allowed(c) { c } else { '-' }).take(64).collect();
    name.trim_start_matches(|c: char| !c.is_ascii_alphanumeric()).parse().or_else(|_| "task".parse())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_file_names_a_type() {
        for (file, name) in [("a/hello.wasm", "hello"), ("my task.wasm", "my-task"), ("…", "task"), ("-x", "x")] {
            assert_eq!(type_name(Path::new(file)).unwrap().as_str(), name);
        }
    }
}
