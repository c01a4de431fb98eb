//! `atropos demo`: the show for newcomers. Five tasks, a retry, a crash, a stop that nobody has to consent to.
//!
//! It checks itself: what it promises on the screen is compared with what the host has on record.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;

use super::compile_component::this_program;
use super::exit::{Complaint, Exit};
use super::live::{Live, Row};
use super::print::Tone;
use super::signals::Signals;
use super::table::{Cell, Table};
use super::{Shell, history, human, receipt, words};
use crate::api::wire;
use crate::config::Config;
use crate::host::{Health, Host, NewTask, NewType, Shutdown};
use crate::id::{TaskId, TypeName};
use crate::task::{Ask, Kind, Manner, Reason, TermsDraft};
use crate::time::{Clock, SystemClock};

/// Far longer than the show takes; only a defect gets here.
const PATIENCE: Duration = Duration::from_mins(1);
const LOOK_EVERY: Duration = Duration::from_millis(60);
const GRACE: Duration = Duration::from_secs(1);

const COMPONENTS: [(&str, &[u8]); 4] = [
    ("hello", include_bytes!("../../../examples/hello.wasm")),
    ("export-report", include_bytes!("../../../examples/export-report.wasm")),
    ("flaky", include_bytes!("../../../examples/flaky.wasm")),
    ("runaway", include_bytes!("../../../examples/runaway.wasm")),
];

/// One of the tasks of the show.
struct Role {
    name: &'static str,
    task_type: &'static str,
    input: &'static str,
    promise: &'static str,
}

const CAST: [Role; 5] = [
    Role { name: "hello", task_type: "hello", input: r#"{"name": "Ada"}"#, promise: "a small task succeeds" },
    Role {
        name: "export",
        task_type: "export-report",
        input: r#"{"user": "u-1001", "report_type": "orders", "from": "2026-01-01", "to": "2026-03-31",
                   "format": "csv", "rows": 250, "row_ms": 20}"#,
        promise: "a long one tells how far it is, and succeeds",
    },
    Role {
        name: "flaky",
        task_type: "flaky",
        input: r#"{"mode": "system", "system_until_attempt": 3}"#,
        promise: "one whose dependency is down is retried, and succeeds in attempt 3",
    },
    Role {
        name: "crash",
        task_type: "flaky",
        input: r#"{"mode": "panic"}"#,
        promise: "one that crashes has FAILED, with a backtrace",
    },
    Role {
        name: "runaway",
        task_type: "runaway",
        input: "{}",
        promise: "one that loops for ever and never listens is stopped all the same",
    },
];
const RUNAWAY: usize = 4;

/// See what Atropos does: progress, retries, a crash, a guaranteed stop
///
/// Starts a host in a temporary folder, runs five tasks in it, stops the one that would not stop by itself, and checks that all of it
/// ended as promised. Takes about ten seconds and leaves nothing behind.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  atropos demo\n  atropos demo --json | jq .promises")]
pub struct Demo {}

/// What was promised, and whether it was kept.
#[derive(Serialize)]
struct Promise {
    promise: &'static str,
    kept: bool,
}

/// What the show came to.
#[derive(Serialize)]
struct Outcome {
    tasks: Vec<wire::Task>,
    attempts: Vec<Vec<wire::Attempt>>,
    /// Of the task that was stopped.
    audit: Vec<wire::AuditEntry>,
    promises: Vec<Promise>,
}

impl Demo {
    pub async fn run(self, shell: &Shell) -> anyhow::Result<Exit> {
        let mut signals = Signals::listen()?;
        let folder = tempfile::Builder::new().prefix("atropos-demo-").tempdir()?;
        let outcome = tokio::select! {
            outcome = play(shell, folder.path()) => outcome?,
            _ = signals.next() => return Err(interrupted().into()),
        };
        let kept = outcome.promises.iter().all(|promise| promise.kept);
        if shell.print.json {
            shell.print.document(&outcome)?;
        } else {
            epilogue(shell, &outcome.promises)?;
        }
        Ok(if kept { Exit::Ok } else { Exit::TaskFailed })
    }
}

fn interrupted() -> Complaint {
    let message = "the demo was interrupted".into();
    Complaint { exit: Exit::TaskFailed, code: "interrupted", message, hint: None }
}

async fn play(shell: &Shell, folder: &Path) -> anyhow::Result<Outcome> {
    let config =
        Config { data_dir: Some(folder.to_owned()), slots: 8, program: Some(this_program()), ..Config::default() };
    let host = Host::start(config.clone()).await?;
    shell.tell("Atropos runs tasks in sandboxes, and stops them for certain. Five tasks in a host of their own:\n")?;
    register(shell, &host).await?;
    let mut ids = Vec::new();
    for role in &CAST {
        let creator = Some(shell.by.clone());
        let new = NewTask { creator, ..NewTask::new(role.task_type.parse()?, role.input) };
        ids.push(host.submit(new).await?.task.spec.id);
    }
    let stage = Stage::new(shell, &host, &ids);
    stage.until_ended(&ids[..RUNAWAY]).await?;
    let ask = Ask { by: shell.by.as_str().into(), why: "it would never end".into() };
    host.cancel(ids[RUNAWAY], ask, None).await?;
    stage.until_ended(&ids).await?;
    stage.close();

    let clock = SystemClock::default();
    let mut tasks = Vec::new();
    let mut attempts: Vec<Vec<wire::Attempt>> = Vec::new();
    for id in &ids {
        tasks.push(wire::Task::of(&host.show(*id).await?, clock.now()));
        attempts.push(host.attempts(*id).await?.into_iter().map(Into::into).collect());
    }
    let audit: Vec<_> = host.audit(ids[RUNAWAY]).await?.into_iter().map(Into::into).collect();
    let health = host.health().await?;
    let clean = host.shut_down().await? == Shutdown::Clean;
    drop(host);
    let remembered = clean && still_there(config, &ids, &tasks).await?;

    tell_the_crash(shell, &attempts[RUNAWAY - 1])?;
    tell_the_stop(shell, &attempts[RUNAWAY], &audit)?;
    tell_the_whole(shell, &tasks, &attempts)?;
    let promises = judge(&tasks, &attempts, health, remembered);
    Ok(Outcome { tasks, attempts, audit, promises })
}

async fn register(shell: &Shell, host: &Host) -> anyhow::Result<()> {
    let begun = Instant::now();
    let by: Arc<str> = shell.by.as_str().into();
    for (name, bytes) in COMPONENTS {
        let component = host.push(bytes.to_vec(), Arc::clone(&by)).await?.digest;
        let terms = TermsDraft {
            run_timeout: Some(PATIENCE),
            grace: Some(GRACE),
            retry_base: Some(Duration::from_secs(1)),
            ..TermsDraft::default()
        };
        let name: TypeName = name.parse()?;
        host.put_type(NewType { name, component, terms, input_schema: None, by: Arc::clone(&by) }).await?;
    }
    let took = human::span(begun.elapsed());
    shell.tell(&format!("  {} components checked, compiled and registered in {took}\n", COMPONENTS.len()))
}

/// Where the tasks are watched.
struct Stage<'a> {
    shell: &'a Shell,
    host: &'a Host,
    live: Live,
    rows: Vec<(TaskId, &'static str, Row)>,
    begun: Instant,
    /// What was last said of each task, where there is no live view.
    said: std::cell::RefCell<Vec<String>>,
}

impl<'a> Stage<'a> {
    fn new(shell: &'a Shell, host: &'a Host, ids: &[TaskId]) -> Self {
        let width = CAST.iter().map(|role| role.name.len()).max().unwrap_or(0);
        let live = Live::new(shell.print, width);
        let rows = ids.iter().zip(&CAST).map(|(id, role)| (*id, role.name, live.row(role.name))).collect();
        let said = vec![String::new(); ids.len()].into();
        Self { shell, host, live, rows, begun: Instant::now(), said }
    }

    /// Shows all of them until these have ended.
    async fn until_ended(&self, ids: &[TaskId]) -> anyhow::Result<()> {
        let clock = SystemClock::default();
        while self.begun.elapsed() < PATIENCE {
            let mut left = 0;
            for (place, (id, name, row)) in self.rows.iter().enumerate() {
                let task = wire::Task::of(&self.host.show(*id).await?, clock.now());
                let ended = task.state.is_terminal();
                left += usize::from(ids.contains(id) && !ended);
                if ended {
                    row.end(&task);
                } else {
                    row.show(&task, clock.now());
                }
                self.say(place, name, &task)?;
            }
            if left == 0 {
                return Ok(());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// A plain line for each change, where there is no live view.
    fn say(&self, place: usize, name: &str, task: &wire::Task) -> anyhow::Result<()> {
        let passing = task.waiting.as_ref().is_some_and(|waiting| waiting.what == wire::WaitingFor::Ready);
        if self.live.is_seen() || passing {
            return Ok(());
        }
        let key =
            format!("{}{}{}", words::state(task).1, task.attempts, task.reason.map_or("", |reason| reason.code()));
        if let Some(said) = self.said.borrow_mut().get_mut(place)
            && *said != key
        {
            *said = key;
            let why = words::why(task, SystemClock::default().now());
            let why = if why.is_empty() && task.attempts > 1 { format!("attempt {}", task.attempts) } else { why };
            let at = human::span(self.begun.elapsed());
            let text = format!("  {at:>7}  {name:8} {:18} {why}", words::state(task).1);
            self.shell.tell(text.trim_end())?;
        }
        Ok(())
    }

    fn close(self) {
        drop(self.rows);
        drop(self.live);
    }
}

impl Shell {
    /// A line of the story; programs are spared it.
    fn tell(&self, text: &str) -> anyhow::Result<()> {
        if !self.print.json {
            self.print.line(text)?;
        }
        Ok(())
    }

    fn title(&self, text: &str) -> anyhow::Result<()> {
        self.tell(&format!("\n{}", self.print.out.paint(Tone::Strong, text)))
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

/// Whether another host, started on the same folder, finds every task as it was.
async fn still_there(config: Config, ids: &[TaskId], tasks: &[wire::Task]) -> anyhow::Result<bool> {
    let host = Host::start(config).await?;
    let mut same = true;
    for (id, before) in ids.iter().zip(tasks) {
        let after = wire::Task::of(&host.show(*id).await?, SystemClock::default().now());
        same &= (after.state, after.reason, after.ended_at) == (before.state, before.reason, before.ended_at);
    }
    host.shut_down().await?;
    Ok(same)
}

fn tell_the_crash(shell: &Shell, attempts: &[wire::Attempt]) -> anyhow::Result<()> {
    let last = attempts.last().and_then(|attempt| Some((attempt, attempt.scene.as_ref()?)));
    let Some((attempt, scene)) = last else { return Ok(()) };
    shell.title("`crash` panicked. What it left behind:")?;
    shell.tell(&indented(&receipt::autopsy(shell.print.out, attempt, scene)))
}

fn tell_the_stop(shell: &Shell, attempts: &[wire::Attempt], audit: &[wire::AuditEntry]) -> anyhow::Result<()> {
    let grace = human::span(GRACE);
    shell.title(&format!(
        "`runaway` was cancelled, with {grace} of grace. It never looked, and was not asked for its consent:"
    ))?;
    if let Some(stop) = attempts.last().and_then(|attempt| attempt.stop.as_ref()) {
        shell.tell(&indented(&receipt::stop(shell.print.out, stop)))?;
    }
    shell.title("Its whole life, as the audit has it:")?;
    shell.tell(&indented(&history::audit(shell.print.out, audit)))
}

fn tell_the_whole(shell: &Shell, tasks: &[wire::Task], attempts: &[Vec<wire::Attempt>]) -> anyhow::Result<()> {
    let mut table = Table::new(&["TASK", "STATE", "REASON", "ENDED", "ATTEMPTS", "TOOK", "PROCESSOR", "PEAK MEMORY"]);
    for ((role, task), attempts) in CAST.iter().zip(tasks).zip(attempts) {
        let costs = || attempts.iter().filter_map(|attempt| attempt.cost.as_ref());
        let cpu = Duration::try_from_secs_f64(costs().map(|cost| cost.cpu_ms).sum::<f64>() / 1e3).unwrap_or_default();
        let peak = costs().map(|cost| cost.memory_bytes_peak).max().unwrap_or(0);
        let took = task.ended_at.map(|at| human::span(at.since(task.created_at))).unwrap_or_default();
        table.row([
            role.name.into(),
            Cell::new(words::tone(task.state), task.state.code()),
            task.reason.map_or("", |reason| reason.code()).into(),
            task.ended.map_or("", |manner| manner.code()).into(),
            task.attempts.to_string().into(),
            took.into(),
            human::span(cpu).into(),
            human::bytes(peak).into(),
        ]);
    }
    shell.title("All of them:")?;
    shell.tell(&indented(&table.text(shell.print.out)))
}

/// Compares what was promised with what is on record.
fn judge(tasks: &[wire::Task], attempts: &[Vec<wire::Attempt>], health: Health, remembered: bool) -> Vec<Promise> {
    let is = |place: usize, kind: Kind| tasks.get(place).is_some_and(|task| task.state == kind);
    let last = |place: usize| attempts.get(place).and_then(|attempts| attempts.last());
    let crashed = is(3, Kind::Failed)
        && tasks.get(3).is_some_and(|task| matches!(task.reason, Some(Reason::Died(_))))
        && last(3).and_then(|attempt| attempt.scene.as_ref()).is_some_and(|scene| !scene.backtrace.is_empty());
    let stopped = is(RUNAWAY, Kind::Cancelled)
        && tasks.get(RUNAWAY).is_some_and(|task| task.ended == Some(Manner::Killed))
        && last(RUNAWAY)
            .and_then(|attempt| attempt.stop.as_ref())
            .is_some_and(|stop| stop.ring > 1 && stop.seen_at.is_none());
    let kept = [
        is(0, Kind::Success),
        is(1, Kind::Success),
        is(2, Kind::Success) && attempts.get(2).is_some_and(|attempts| attempts.len() == 3),
        crashed,
        stopped,
    ];
    let mut promises: Vec<_> =
        CAST.iter().zip(kept).map(|(role, kept)| Promise { promise: role.promise, kept }).collect();
    let none_left = health.attempts == 0 && health.sandboxes == 0;
    promises.push(Promise { promise: "nothing is left: no sandbox, no attempt in hand", kept: none_left });
    promises.push(Promise { promise: "a new host on the same folder finds every record as it was", kept: remembered });
    promises
}

fn epilogue(shell: &Shell, promises: &[Promise]) -> anyhow::Result<()> {
    shell.title("What was promised, checked:")?;
    for Promise { promise, kept } in promises {
        let mark = if *kept {
            shell.print.out.paint(Tone::Good, "✓")
        } else {
            shell.print.out.paint(Tone::Bad, "✗ not kept:")
        };
        shell.tell(&format!("  {mark} {promise}"))?;
    }
    shell.title("Where to go next:")?;
    shell.tell(
        "  atropos run FILE.wasm --input '{…}'   run one task, without a server
  atropos serve                         start a server
  atropos push NAME FILE.wasm --run-timeout 60s && atropos submit NAME --wait
  atropos help                          everything else",
    )
}
