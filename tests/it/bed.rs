//! A host inside this process with guests as its types, and what can be asked of it in one line.

use std::path::Path;
use std::time::Duration;

use atropos::executor::Counts;
use atropos::host::{AttemptView, NewTask, NewType, Submitted, TaskView};
use atropos::id::TaskId;
use atropos::store::{AttemptRow, AuditRow, TypeRow};
use atropos::task::{Ask, Ended, Kind, Reason, State, Task, TermsDraft};
use atropos::{Config, Host};

use crate::support::{PATIENCE, guest, program, until};

/// A host on a folder, or one that is thrown away. Its guests run in processes of their own.
pub async fn start(data: Option<&Path>, config: Config) -> Host {
    let program = config.program.clone().or_else(|| Some(program().to_owned()));
    let config = Config { data_dir: data.map(Path::to_owned), program, ..config };
    Host::start(config).await.expect("it starts")
}

/// Ten minutes to run, no time to wait for retries.
pub fn terms() -> TermsDraft {
    TermsDraft {
        run_timeout: Some(Duration::from_mins(10)),
        retry_base: Some(Duration::from_millis(1)),
        retry_cap: Some(Duration::from_millis(2)),
        ..TermsDraft::default()
    }
}

/// Registers bytes as a type.
pub async fn put(host: &Host, name: &str, bytes: Vec<u8>, terms: TermsDraft) -> TypeRow {
    let component = host.push(bytes, "test".into()).await.expect("it fits").digest;
    let name = name.parse().expect("a name");
    host.put_type(NewType { name, component, terms, input_schema: None, by: "test".into() }).await.expect("a type")
}

/// Registers guests of `tests/guests`, each as a type of its own name.
pub async fn put_guests(host: &Host, names: &[&str], terms: TermsDraft) {
    for name in names {
        put(host, name, guest(name), terms.clone()).await;
    }
}

pub fn new(kind: &str) -> NewTask {
    NewTask::new(kind.parse().expect("a name"), "null")
}

pub async fn submit(host: &Host, task: NewTask) -> TaskId {
    let Submitted { task, existing } = host.submit(task).await.expect("it is taken");
    assert!(!existing, "it is new");
    task.spec.id
}

pub fn ask(why: &str) -> Ask {
    Ask { by: "user:ada".into(), why: why.into() }
}

pub async fn show(host: &Host, id: TaskId) -> TaskView {
    host.show(id).await.expect("it is there")
}

/// The task once it has ended.
pub async fn ended(host: &Host, id: TaskId) -> Task {
    let task = host.wait(id, PATIENCE).await.expect("it is there").task;
    assert!(task.state.kind().is_terminal(), "it does not end: {:?}", task.state);
    task
}

/// How it ended.
pub fn end(task: &Task) -> &Ended {
    let State::Ended(ended) = &task.state else { panic!("it has not ended: {:?}", task.state) };
    ended
}

pub async fn assert_ends(host: &Host, id: TaskId, kind: Kind, reason: Reason) -> Task {
    let task = ended(host, id).await;
    assert_eq!((end(&task).kind(), end(&task).reason()), (kind, reason), "{:?}", task.state);
    task
}

/// Waits until the guest is in.
pub async fn entered(host: &Host, id: TaskId) {
    let what = format!("task {id} to be entered");
    until(&what, async || show(host, id).await.live.and_then(|live| live.entered_at)).await;
}

/// The attempts that are over, when none is under way.
pub async fn attempts(host: &Host, id: TaskId) -> Vec<AttemptRow> {
    let all = host.attempts(id).await.expect("its attempts");
    let over = |attempt| match attempt {
        AttemptView::Over(row) => *row,
        AttemptView::Live { attempt, .. } => panic!("attempt {attempt} is under way"),
    };
    all.into_iter().map(over).collect()
}

pub async fn audit(host: &Host, id: TaskId) -> Vec<AuditRow> {
    host.audit(id).await.expect("its audit")
}

/// The reasons of its history, in order.
pub async fn story(host: &Host, id: TaskId) -> Vec<&'static str> {
    audit(host, id).await.iter().map(|row| row.reason.code()).collect()
}

/// Each row takes up where the one before it ended.
pub fn assert_chained(audit: &[AuditRow]) {
    assert!(audit.first().is_some_and(|row| row.from.is_none()), "{audit:?}");
    assert!(
        audit.windows(2).all(|pair| pair[1].from == Some(pair[0].to) && pair[0].number < pair[1].number),
        "{audit:?}"
    );
}

/// Cancels it with no grace, and waits for the end.
pub async fn kill(host: &Host, id: TaskId) {
    host.cancel(id, ask("enough"), Some(Duration::ZERO)).await.expect("it is told");
    assert_eq!(ended(host, id).await.state.kind(), Kind::Cancelled);
}

/// Nothing of any attempt is left. A sandbox is gone before its ending is written; the attempt is out of hand right after.
pub async fn assert_nothing_is_left(host: &Host) {
    let health = until("no attempt to be in hand", async || {
        let health = host.health().await.expect("it answers");
        (health.attempts == 0).then_some(health)
    })
    .await;
    assert_eq!(health.sandboxes, 0);
    assert_eq!(health.slots_free, health.slots);
    // Executors are asked what they count now and then.
    until("the ledger to be at zero", async || (host.node().counts == Counts::default()).then_some(())).await;
}

/// Nothing of any attempt is left, and the node ends cleanly.
pub async fn finish(host: Host) {
    assert_nothing_is_left(&host).await;
    assert_eq!(host.shut_down().await.expect("it goes down"), atropos::host::Shutdown::Clean);
}
