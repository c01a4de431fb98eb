//! The rules of a task's life, on a real store: retries, budgets, starts put off, and what people do.

use std::time::Duration;

use atropos::Config;
use atropos::host::NewTask;
use atropos::id::QueueName;
use atropos::task::{Kind, Manner, Reason, Ring, State, StopReason, TermsDraft};
use atropos::time::{Clock, SystemClock, Timestamp};

use crate::bed::{
    self, ask, assert_chained, assert_ends, attempts, audit, end, ended, entered, finish, kill, new, show, story,
    submit, terms,
};
use crate::support::until;

const SHORT: Duration = Duration::from_millis(50);

fn now() -> Timestamp {
    SystemClock::default().now()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_system_failure_is_retried_until_the_retries_are_spent_and_can_be_rerun_and_given_up() {
    let data = tempfile::tempdir().expect("a folder");
    let host = bed::start(Some(data.path()), Config::default()).await;
    bed::put_guests(&host, &["fail-system"], TermsDraft { max_retries: Some(2), ..terms() }).await;
    let id = submit(&host, new("fail-system")).await;
    let task = assert_ends(&host, id, Kind::Failed, Reason::RetriesSpent).await;
    assert!(end(&task).recoverable());
    let life = ["claimed", "system", "retry", "claimed", "system", "retry", "claimed", "retries_spent"];
    assert_eq!(story(&host, id).await, [&["submitted"][..], &life].concat());

    host.rerun(id, ask("the warehouse is back"), false).await.expect("it is recoverable");
    let task = assert_ends(&host, id, Kind::Failed, Reason::RetriesSpent).await;
    let tally = task.state.tally();
    assert_eq!((tally.generation, tally.attempts, tally.retries), (2, 6, 2), "retries count from new, attempts go on");
    let rows = audit(&host, id).await;
    assert_chained(&rows);
    assert_eq!(story(&host, id).await, [&["submitted"][..], &life, &["rerun"], &life].concat());
    let all = attempts(&host, id).await;
    assert_eq!(
        all.iter().map(|row| (row.attempt, row.generation)).collect::<Vec<_>>(),
        [(1, 1), (2, 1), (3, 1), (4, 2), (5, 2), (6, 2)]
    );
    assert!(all.windows(2).all(|pair| pair[0].ended_at <= pair[1].claimed_at), "{all:?}");

    host.give_up(id, ask("nobody needs it")).await.expect("it is recoverable");
    let task = assert_ends(&host, id, Kind::Cancelled, Reason::GivenUp).await;
    assert!(!end(&task).recoverable());
    assert_eq!(host.rerun(id, ask("after all"), true).await.expect_err("it is final").code(), "task_final");
    finish(host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wish_to_be_retried_later_is_honoured() {
    let data = tempfile::tempdir().expect("a folder");
    let host = bed::start(Some(data.path()), Config::default()).await;
    bed::put_guests(&host, &["fail-system-retry-after"], terms()).await;
    let id = submit(&host, new("fail-system-retry-after")).await;
    let waiting = until("the wait for the retry", async || match show(&host, id).await.task.state {
        State::Pending(pending) if pending.tally().attempts == 1 => Some(pending),
        _ => None,
    })
    .await;
    let over = attempts(&host, id).await.remove(0);
    assert!(waiting.ready_at() >= over.ended_at + Duration::from_millis(1_500), "{waiting:?} {over:?}");
    kill(&host, id).await;
    assert_eq!(story(&host, id).await.last(), Some(&"cancelled"), "something of it had run");
    finish(host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_is_retried_only_if_the_terms_say_so() {
    let data = tempfile::tempdir().expect("a folder");
    let host = bed::start(Some(data.path()), Config::default()).await;
    let short = TermsDraft { run_timeout: Some(SHORT), grace: Some(Duration::ZERO), max_retries: Some(1), ..terms() };
    bed::put_guests(&host, &["spin"], short).await;
    for (retry_timeouts, count) in [(false, 1), (true, 2)] {
        let mut task = new("spin");
        task.terms.retry_timeouts = Some(retry_timeouts);
        let id = submit(&host, task).await;
        let task = assert_ends(&host, id, Kind::TimedOut, Reason::RunTimeSpent).await;
        assert!(end(&task).recoverable());
        assert_eq!(end(&task).manner(), Manner::Killed);
        let all = attempts(&host, id).await;
        assert_eq!(all.len(), count);
        for row in &all {
            let entered_at = row.entered_at.expect("it was entered");
            let stop = row.stop.as_ref().expect("it was stopped");
            assert!(stop.asked_at >= entered_at + SHORT, "the budget counts from entry: {row:?}");
            assert_eq!((row.reason, stop.ring), (Reason::RunTimeSpent, Ring::Killed));
        }
        assert_chained(&audit(&host, id).await);
    }
    finish(host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_beats_lives_and_who_is_silent_is_stopped() {
    let data = tempfile::tempdir().expect("a folder");
    let host = bed::start(Some(data.path()), Config::default()).await;
    let watched = TermsDraft { heartbeat_timeout: Some(SHORT), grace: Some(Duration::ZERO), ..terms() };
    bed::put_guests(&host, &["beat", "sleep-forever"], watched).await;
    let silent = submit(&host, new("sleep-forever")).await;
    let beating = submit(&host, new("beat")).await;
    assert_ends(&host, silent, Kind::TimedOut, Reason::HeartbeatExpired).await;
    until("many heartbeats", async || {
        let view = show(&host, beating).await;
        assert_eq!(view.task.state.kind(), Kind::Running, "{:?}", view.task.state);
        view.live.and_then(|live| live.progress).filter(|progress| progress.done >= 100.0)
    })
    .await;
    kill(&host, beating).await;
    finish(host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_or_lives_for_ever() {
    let data = tempfile::tempdir().expect("a folder");
    let host = bed::start(Some(data.path()), Config::default()).await;
    bed::put_guests(&host, &["ok", "spin", "fail-system"], terms()).await;
    let held = QueueName::default();
    host.pause(held.clone(), None, ask("a freeze")).await.expect("it is paused");

    let mut waiting = new("ok");
    waiting.terms.queue_timeout = Some(SHORT);
    let mut old = new("ok");
    old.terms.max_age = Some(SHORT);
    let (waiting, old) = (submit(&host, waiting).await, submit(&host, old).await);
    for (id, reason) in [(waiting, Reason::QueueWaitSpent), (old, Reason::LifeSpent)] {
        let task = assert_ends(&host, id, Kind::TimedOut, reason).await;
        assert!(end(&task).at() >= task.spec.created_at + SHORT, "not before its time");
        assert!(attempts(&host, id).await.is_empty());
        assert_eq!(end(&task).manner(), Manner::NotRunning);
    }

    let mut running = new("spin");
    running.queue = "open".parse().expect("a name");
    running.terms.max_age = Some(2 * SHORT);
    running.terms.grace = Some(Duration::ZERO);
    running.terms.retry_timeouts = Some(true);
    let mut retrying = new("fail-system");
    retrying.queue = "open".parse().expect("a name");
    retrying.terms.max_age = Some(4 * SHORT);
    retrying.terms.max_retries = Some(1_000);
    for task in [running, retrying] {
        let id = submit(&host, task).await;
        assert_ends(&host, id, Kind::TimedOut, Reason::LifeSpent).await;
        assert_chained(&audit(&host, id).await);
    }
    finish(host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_is_put_off_comes_in_time_and_not_before_also_after_a_restart() {
    let data = tempfile::tempdir().expect("a folder");
    let host = bed::start(Some(data.path()), Config::default()).await;
    bed::put_guests(&host, &["ok"], terms()).await;
    let run_after = now() + Duration::from_millis(300);
    let later = || NewTask { run_after: Some(run_after), ..new("ok") };
    let (first, second, cancelled) =
        (submit(&host, later()).await, submit(&host, later()).await, submit(&host, later()).await);
    let view = host.cancel(cancelled, ask("not needed"), None).await.expect("it waits");
    assert_eq!(end(&view.task).reason(), Reason::SkippedBeforeStart);
    assert_ends(&host, first, Kind::Success, Reason::Completed).await;
    assert_eq!(host.shut_down().await.expect("it goes down"), atropos::host::Shutdown::Clean);
    drop(host);

    let host = bed::start(Some(data.path()), Config::default()).await;
    assert_ends(&host, second, Kind::Success, Reason::Completed).await;
    for id in [first, second] {
        let all = attempts(&host, id).await;
        assert!(all.len() == 1 && all[0].claimed_at >= run_after, "{all:?}");
    }
    // Its time has come, and nothing has started.
    assert_eq!(story(&host, cancelled).await, ["submitted", "skipped_before_start"]);
    assert!(attempts(&host, cancelled).await.is_empty());
    finish(host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_can_make_it_fail_whether_it_waits_or_runs() {
    let data = tempfile::tempdir().expect("a folder");
    let host = bed::start(Some(data.path()), Config { slots: 1, ..Config::default() }).await;
    bed::put_guests(&host, &["spin"], TermsDraft { grace: Some(Duration::from_hours(1)), ..terms() }).await;
    let running = submit(&host, new("spin")).await;
    let waiting = submit(&host, new("spin")).await;
    entered(&host, running).await;
    for (id, manner, count) in [(waiting, Manner::NotRunning, 0), (running, Manner::Killed, 1)] {
        host.fail(id, ask("it is wrong")).await.expect("it is live");
        let task = assert_ends(&host, id, Kind::Failed, Reason::Forced).await;
        assert_eq!((end(&task).manner(), end(&task).detail()), (manner, "it is wrong"));
        assert!(!end(&task).recoverable());
        assert_eq!(attempts(&host, id).await.len(), count);
        let last = audit(&host, id).await.pop().expect("a row");
        assert_eq!(&*last.by, "user:ada");
    }
    finish(host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_ended_is_not_changed_by_a_cancel() {
    let data = tempfile::tempdir().expect("a folder");
    let host = bed::start(Some(data.path()), Config::default()).await;
    let once = TermsDraft { max_retries: Some(0), ..terms() };
    bed::put_guests(&host, &["ok", "trap", "fail-system", "spin"], once).await;
    let mut ids = Vec::new();
    for kind in ["ok", "trap", "fail-system", "spin"] {
        ids.push(submit(&host, new(kind)).await);
    }
    ids.push(submit(&host, new("no-such-type")).await);
    kill(&host, ids[3]).await;
    for id in ids {
        let before = ended(&host, id).await;
        let rows = audit(&host, id).await;
        for refused in [
            host.cancel(id, ask("too late"), None).await.expect_err("it has ended"),
            host.fail(id, ask("too late")).await.expect_err("it has ended"),
        ] {
            assert_eq!(refused.code(), "task_ended");
        }
        assert_eq!(show(&host, id).await.task, before);
        assert_eq!(audit(&host, id).await, rows);
    }
    finish(host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_cancel_changes_nothing_unless_it_shortens_the_grace() {
    let data = tempfile::tempdir().expect("a folder");
    let host = bed::start(Some(data.path()), Config::default()).await;
    let patient = TermsDraft { grace: Some(Duration::from_hours(1)), ..terms() };
    bed::put_guests(&host, &["spin-after-stop"], patient).await;
    let id = submit(&host, new("spin-after-stop")).await;
    entered(&host, id).await;
    let first = host.cancel(id, ask("first"), None).await.expect("it is told");
    until("it has seen the request", async || show(&host, id).await.live.and_then(|live| live.stop_seen_at)).await;
    let second = host.cancel(id, ask("second"), Some(Duration::from_hours(2))).await.expect("it is accepted");
    assert_eq!(first.task.state, second.task.state, "a longer grace is none");
    let third = host.cancel(id, ask("third"), Some(Duration::ZERO)).await.expect("it is accepted");
    let State::Stopping(stopping) = &third.task.state else { panic!("{:?}", third.task.state) };
    assert_eq!((stopping.stop().reason, &*stopping.stop().why), (StopReason::Cancelled, "first"));
    assert_ends(&host, id, Kind::Cancelled, Reason::Cancelled).await;
    let asked = "stop_asked_cancelled";
    assert_eq!(story(&host, id).await, ["submitted", "claimed", asked, asked, "cancelled"]);
    let receipt = attempts(&host, id).await.remove(0).stop.expect("a stop receipt");
    assert_eq!(receipt.ring, Ring::Killed);
    assert!(receipt.seen_at.is_some());
    finish(host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_an_end_that_does_not_come_is_told_when_the_node_goes_down() {
    let data = tempfile::tempdir().expect("a folder");
    let host = bed::start(Some(data.path()), Config::default()).await;
    bed::put_guests(&host, &["ok"], terms()).await;
    host.pause(QueueName::default(), None, ask("a freeze")).await.expect("it is paused");
    let id = submit(&host, new("ok")).await;
    let waiting = tokio::spawn({
        let host = host.clone();
        async move { host.wait(id, Duration::from_hours(24)).await }
    });
    host.shut_down().await.expect("it goes down");
    let view = waiting.await.expect("no panic").expect("it is there");
    assert_eq!(view.task.state.kind(), Kind::Pending);
    let view = host.wait(id, Duration::from_hours(24)).await.expect("it is there");
    assert_eq!(view.task.state.kind(), Kind::Pending, "nor does anybody begin to wait");
    assert_eq!(host.shut_down().await.expect("it is down"), atropos::host::Shutdown::Clean);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_is_free_as_soon_as_its_node_is_down() {
    let data = tempfile::tempdir().expect("a folder");
    let mut down = Vec::new();
    for _ in 0..10 {
        let host = bed::start(Some(data.path()), Config::default()).await;
        bed::put_guests(&host, &["ok"], terms()).await;
        let id = submit(&host, new("ok")).await;
        assert_ends(&host, id, Kind::Success, Reason::Completed).await;
        host.shut_down().await.expect("it goes down");
        assert_eq!(host.submit(new("ok")).await.expect_err("it is down").code(), "shutting_down");
        // Somebody still holds it.
        down.push(host);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_dropped_without_a_shutdown_lets_go_and_loses_nothing() {
    let data = tempfile::tempdir().expect("a folder");
    let host = bed::start(Some(data.path()), Config::default()).await;
    bed::put_guests(&host, &["polite", "ok"], terms()).await;
    let running = submit(&host, new("polite")).await;
    entered(&host, running).await;
    drop(host);
    let config = || Config { data_dir: Some(data.path().to_owned()), ..Config::default() };
    let host = until("the folder to be free", async || atropos::Host::start(config()).await.ok()).await;
    until("the second attempt", async || {
        let view = show(&host, running).await;
        (view.task.state.tally().attempts == 2 && view.live.is_some()).then_some(())
    })
    .await;
    assert_eq!(attempts_over(&host, running).await, [Reason::NodeLost]);
    kill(&host, running).await;
    finish(host).await;
}

async fn attempts_over(host: &atropos::Host, id: atropos::id::TaskId) -> Vec<Reason> {
    let all = host.attempts(id).await.expect("its attempts");
    let over = all.into_iter().filter_map(|attempt| match attempt {
        atropos::host::AttemptView::Over(row) => Some(row.reason),
        atropos::host::AttemptView::Live { .. } => None,
    });
    over.collect()
}
