//! A short story of a few tasks, with a crash at every write of it: whatever was acknowledged ends lawfully. And a disk
//! that is full for a while, which loses nothing.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use atropos::host::{Error, NewTask, Shutdown, Submitted};
use atropos::id::{QueueName, TaskId};
use atropos::store::TaskFilter;
use atropos::task::{Kind, Reason, TermsDraft};
use atropos::{Config, Host};

use crate::bed::{self, ask, assert_ends, attempts, end, ended, entered, finish, kill, new, show, submit, terms};
use crate::faulty::{Death, Faulty, Switch};
use crate::support::until;

fn config() -> Config {
    Config { slots: 8, guest_threads: 1, ..Config::default() }
}

async fn start_faulty(dir: &Path, death: Option<Death>) -> (Result<Host, Error>, Arc<Switch>) {
    let (backend, switch) = Faulty::open(dir, death);
    (Host::start_on(config(), backend, dir, None).await, switch)
}

/// A folder with the types that the story needs.
async fn prepare(dir: &Path) {
    let host = bed::start(Some(dir), config()).await;
    bed::put_guests(&host, &["polite", "ok", "spin"], terms()).await;
    bed::put_guests(&host, &["fail-system"], TermsDraft { max_retries: Some(2), ..terms() }).await;
    finish(host).await;
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("its type").is_dir() {
            std::fs::create_dir_all(&target).expect("a folder");
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("a copy");
        }
    }
}

/// What the story's teller was told before the crash.
#[derive(Default, Debug)]
struct Told {
    once: Option<TaskId>,
    retried: Option<TaskId>,
    held: Option<TaskId>,
    stopped: Option<TaskId>,
    cancelled: bool,
    paused: bool,
    resumed: bool,
}

fn id_of(answer: Result<Submitted, Error>) -> Option<TaskId> {
    answer.ok().map(|submitted| submitted.task.spec.id)
}

/// Waits for the end of the task, or of the process.
async fn ends(host: &Host, switch: &Switch, id: Option<TaskId>) {
    let Some(id) = id else { return };
    until("the end of a task, or of the process", async || {
        let over = match host.show(id).await {
            Ok(view) => view.task.state.kind().is_terminal(),
            Err(_) => false,
        };
        (over || switch.is_dead()).then_some(())
    })
    .await;
}

async fn tell_story(host: &Host, switch: &Switch) -> Told {
    let mut told = Told::default();
    let mut once = new("ok");
    once.terms.max_retries = Some(0);
    told.once = id_of(host.submit(once).await);
    told.retried = id_of(host.submit(new("fail-system")).await);
    told.stopped = id_of(host.submit(new("polite")).await);
    let held: QueueName = "held".parse().expect("a name");
    told.paused = host.pause(held.clone(), None, ask("a freeze")).await.is_ok();
    told.held = id_of(host.submit(NewTask { queue: held.clone(), ..new("ok") }).await);
    if let Some(id) = told.stopped {
        until("the guest to be in, or the end of the process", async || {
            let in_guest =
                host.show(id).await.is_ok_and(|view| view.live.is_some_and(|live| live.entered_at.is_some()));
            (in_guest || switch.is_dead()).then_some(())
        })
        .await;
        told.cancelled = host.cancel(id, ask("enough"), None).await.is_ok();
    }
    told.resumed = told.paused && host.resume(held).await.is_ok();
    for id in [told.once, told.retried, told.stopped] {
        ends(host, switch, id).await;
    }
    if told.resumed {
        ends(host, switch, told.held).await;
    }
    told
}

/// The next process on the folder: everything that was acknowledged is there, and ends lawfully.
async fn assert_recovers(dir: &Path, told: &Told) {
    let on_folder = || Config { data_dir: Some(dir.to_owned()), ..config() };
    let host = until("the folder to be free", async || Host::start(on_folder()).await.ok()).await;
    if let (Some(held), true, false) = (told.held, told.paused, told.resumed)
        && !show(&host, held).await.task.state.kind().is_terminal()
        && host.queues().await.expect("it answers").iter().any(|row| row.pause.is_some())
    {
        assert_eq!(show(&host, held).await.task.state.tally().attempts, 0, "the pause holds across the crash");
    }
    host.resume("held".parse().expect("a name")).await.expect("it answers");
    if let (Some(id), false) = (told.stopped, told.cancelled) {
        match host.cancel(id, ask("left over"), Some(Duration::ZERO)).await {
            Ok(_) => {}
            // The cancel was written, and nobody was told.
            Err(error) => assert_eq!(error.code(), "task_ended"),
        }
    }
    // What was written and not acknowledged ends too.
    for view in host.list(TaskFilter::default(), None, 100).await.expect("it answers").tasks {
        if told.stopped.is_none() && &*view.task.spec.task_type.to_string() == "polite" {
            drop(host.cancel(view.task.spec.id, ask("left over"), Some(Duration::ZERO)).await);
        }
        ended(&host, view.task.spec.id).await;
    }
    assert_lawful(&host, told).await;
    finish(host).await;
}

async fn assert_lawful(host: &Host, told: &Told) {
    let how = async |id: TaskId| {
        let task = ended(host, id).await;
        (end(&task).kind(), end(&task).reason(), task.state.tally())
    };
    if let Some(id) = told.once {
        let (kind, reason, tally) = how(id).await;
        let lawful = kind == Kind::Success || (kind, reason) == (Kind::Interrupted, Reason::NodeLost);
        assert!(lawful && tally.attempts == 1, "at most once: {kind:?} {reason:?} {tally:?}");
    }
    if let Some(id) = told.retried {
        let (kind, reason, tally) = how(id).await;
        let lawful = [(Kind::Failed, Reason::RetriesSpent), (Kind::Interrupted, Reason::NodeLost)];
        assert!(lawful.contains(&(kind, reason)) && tally.attempts == 3, "{kind:?} {reason:?} {tally:?}");
    }
    if let Some(id) = told.held {
        let (kind, ..) = how(id).await;
        assert_eq!(kind, Kind::Success);
    }
    if let Some(id) = told.stopped {
        let (kind, ..) = how(id).await;
        assert_eq!(kind, Kind::Cancelled);
    }
}

/// From outside, with plain SQL.
fn assert_store_is_whole(dir: &Path) {
    let store = rusqlite::Connection::open(dir.join("atropos.db")).expect("the database");
    let none = |what: &str, sql: &str| {
        let count: i64 = store.query_row(&format!("SELECT count(*) FROM ({sql})"), [], |row| row.get(0)).expect(what);
        assert_eq!(count, 0, "{what}");
    };
    none("a task that is not over", "SELECT 1 FROM tasks WHERE state IN ('PENDING', 'RUNNING')");
    none(
        "an audit that is not chained",
        "SELECT 1 FROM (SELECT from_state, lag(to_state) OVER (PARTITION BY task ORDER BY number) AS before FROM audit) \
         WHERE from_state IS NOT before",
    );
    none(
        "a second end in one generation",
        "SELECT 1 FROM (SELECT task, generation, to_state, lead(to_state) OVER (PARTITION BY task ORDER BY number) AS next \
         FROM audit) WHERE to_state NOT IN ('PENDING', 'RUNNING') AND next IS NOT 'PENDING' \
         GROUP BY task, generation HAVING count(*) > 1",
    );
    none(
        "a state that the audit does not end with",
        "SELECT 1 FROM tasks WHERE state IS NOT (SELECT to_state FROM audit WHERE audit.task = tasks.id ORDER BY number DESC LIMIT 1)",
    );
    none(
        "a claim without an end, or an end without a claim",
        "SELECT task, attempt FROM audit WHERE reason = 'claimed' EXCEPT SELECT task, attempt FROM attempts \
         UNION ALL SELECT task, attempt FROM attempts EXCEPT SELECT task, attempt FROM audit WHERE reason = 'claimed'",
    );
    none("a change that is not told", "SELECT number FROM audit EXCEPT SELECT audit FROM outbox");
    none("a result without success", "SELECT 1 FROM results JOIN tasks ON id = task WHERE state <> 'SUCCESS'");
    none("a success without result", "SELECT id FROM tasks WHERE state = 'SUCCESS' EXCEPT SELECT task FROM results");
    none("a retry too many", "SELECT 1 FROM tasks WHERE retries > 3");
}

/// Tells the story with a crash at this write; false if the story ends before it.
async fn crash(template: &Path, death: Death) -> bool {
    let data = tempfile::tempdir().expect("a folder");
    copy(template, data.path());
    let (host, switch) = start_faulty(data.path(), Some(death)).await;
    let told = match host {
        Ok(host) => tell_story(&host, &switch).await,
        Err(_) => Told::default(),
    };
    assert_recovers(data.path(), &told).await;
    assert_store_is_whole(data.path());
    switch.is_dead()
}

async fn crash_at_every_write(written: bool) {
    let template = tempfile::tempdir().expect("a folder");
    prepare(template.path()).await;
    let mut at = 1;
    while crash(template.path(), Death { at, written }).await {
        at += 1;
    }
    assert!(at > 8, "the story has more writes than {at}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_before_any_write_loses_nothing_that_was_acknowledged() {
    crash_at_every_write(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_after_any_write_that_nobody_was_told_of_ends_lawfully_too() {
    crash_at_every_write(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_is_full_for_a_while_loses_nothing_and_leaks_nothing() {
    let data = tempfile::tempdir().expect("a folder");
    prepare(data.path()).await;
    let (host, switch) = start_faulty(data.path(), None).await;
    let host = host.expect("it starts");
    let mut short = new("polite");
    short.terms.run_timeout = Some(Duration::from_millis(300));
    let stopping = submit(&host, new("polite")).await;
    let timed = submit(&host, short).await;
    entered(&host, stopping).await;
    entered(&host, timed).await;
    host.pause(QueueName::default(), None, ask("a freeze")).await.expect("it is paused");
    let mut waiting = Vec::new();
    for _ in 0..20 {
        waiting.push(submit(&host, new("ok")).await);
    }
    let resumed = host.resume(QueueName::default());
    switch.fill(true);
    drop(resumed.await);
    let refused = host.cancel(stopping, ask("enough"), None).await.expect_err("it cannot be written");
    assert_eq!(refused.code(), "store_failed");
    assert_eq!(host.submit(new("ok")).await.expect_err("it cannot be written").code(), "store_failed");
    let view = show(&host, stopping).await;
    assert!(view.task.state.kind() == Kind::Running && view.live.is_some(), "what was refused has changed nothing");
    switch.fill(false);

    host.resume(QueueName::default()).await.expect("it goes on");
    for id in waiting {
        assert_ends(&host, id, Kind::Success, Reason::Completed).await;
        assert_eq!(attempts(&host, id).await.len(), 1);
    }
    assert_ends(&host, timed, Kind::TimedOut, Reason::RunTimeSpent).await;
    kill(&host, stopping).await;
    finish(host).await;
    assert_store_is_whole(data.path());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_keeps_no_guest_alive_past_its_budget() {
    let data = tempfile::tempdir().expect("a folder");
    prepare(data.path()).await;
    let (host, switch) = start_faulty(data.path(), None).await;
    let host = host.expect("it starts");
    let mut rude = new("spin");
    rude.terms.run_timeout = Some(Duration::from_millis(300));
    rude.terms.grace = Some(Duration::from_millis(10));
    let id = submit(&host, rude).await;
    entered(&host, id).await;
    switch.fill(true);
    until("the guest to be gone", async || {
        let sandboxes = host.health().await.expect("it answers").sandboxes;
        (sandboxes == 0).then_some(())
    })
    .await;
    assert_eq!(show(&host, id).await.task.state.kind(), Kind::Running, "nothing is claimed that is not written");
    switch.fill(false);
    assert_ends(&host, id, Kind::TimedOut, Reason::RunTimeSpent).await;
    let over = attempts(&host, id).await;
    let receipt = over.first().and_then(|attempt| attempt.stop.clone()).expect("a stop receipt");
    let steps =
        [Some(receipt.asked_at), receipt.told_at, receipt.killed_at, Some(receipt.gone_at), Some(receipt.written_at)];
    assert!(steps.iter().all(Option::is_some) && steps.is_sorted(), "told as it was: {receipt:?}");
    finish(host).await;
    assert_store_is_whole(data.path());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_store_has_failed_still_goes_down_and_its_tasks_are_found_again() {
    let data = tempfile::tempdir().expect("a folder");
    prepare(data.path()).await;
    let (host, switch) = start_faulty(data.path(), None).await;
    let host = host.expect("it starts");
    let id = submit(&host, new("polite")).await;
    entered(&host, id).await;
    switch.fill(true);
    assert_eq!(host.shut_down().await.expect_err("it cannot be written").code(), "store_failed");
    assert_eq!(host.health().await.expect("it answers").sandboxes, 0, "guests do not outlive their node");
    drop(host);
    let on_folder = || Config { data_dir: Some(data.path().to_owned()), ..config() };
    let host = until("the folder to be free", async || Host::start(on_folder()).await.ok()).await;
    assert!(attempts_over(&host, id).await);
    kill(&host, id).await;
    assert_eq!(host.shut_down().await.expect("it goes down"), Shutdown::Clean);
    drop(host);
    assert_store_is_whole(data.path());
}

/// Whether its first attempt is written as lost with its node.
async fn attempts_over(host: &Host, id: TaskId) -> bool {
    let rows = host.audit(id).await.expect("its audit");
    rows.iter().any(|row| row.reason == Reason::NodeLost && row.attempt == 1)
}
