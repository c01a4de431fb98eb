//! Who goes first, who is held, and what is taken at all: priorities, pauses, versions of types, refusals.

use std::time::Duration;

use atropos::host::{NewTask, NewType};
use atropos::id::{QueueName, TaskId};
use atropos::store::TaskFilter;
use atropos::task::{Kind, Reason, State};
use atropos::time::{Clock, SystemClock};
use atropos::{Config, Host};

use crate::bed::{self, ask, assert_ends, attempts, audit, end, entered, finish, kill, new, show, submit, terms};
use crate::support::{guest, until};

fn queue(name: &str) -> QueueName {
    name.parse().expect("a name")
}

async fn paused(data: &std::path::Path, slots: usize) -> Host {
    let host = bed::start(Some(data), Config { slots, ..Config::default() }).await;
    bed::put_guests(&host, &["ok", "polite", "echo"], terms()).await;
    host.pause(QueueName::default(), None, ask("a freeze")).await.expect("it is paused");
    host
}

async fn with_priority(host: &Host, priority: i8) -> TaskId {
    submit(host, NewTask { priority, ..new("ok") }).await
}

/// The tasks in the order of their claims.
async fn in_order_of_claims(host: &Host, ids: &[TaskId]) -> Vec<TaskId> {
    let mut claims = Vec::new();
    for id in ids {
        assert_ends(host, *id, Kind::Success, Reason::Completed).await;
        let rows = audit(host, *id).await;
        let claim = rows.iter().find(|row| row.reason == Reason::Claimed).expect("a claim");
        claims.push((claim.number, *id));
    }
    claims.sort_unstable();
    claims.into_iter().map(|(_, id)| id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn with_one_slot_the_higher_priority_goes_first_and_then_the_longer_wait() {
    let data = tempfile::tempdir().expect("a folder");
    let host = paused(data.path(), 1).await;
    let mut ids = Vec::new();
    for priority in [0, 5, -5, 5, 100, 0] {
        ids.push(with_priority(&host, priority).await);
    }
    assert!(host.resume(QueueName::default()).await.expect("it goes on"));
    let order = in_order_of_claims(&host, &ids).await;
    assert_eq!(order, [ids[4], ids[1], ids[3], ids[0], ids[5], ids[2]]);
    finish(host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_claim_in_ten_takes_the_oldest() {
    let data = tempfile::tempdir().expect("a folder");
    let host = paused(data.path(), 1).await;
    let mut ids = vec![with_priority(&host, -100).await];
    for _ in 0..30 {
        ids.push(with_priority(&host, 50).await);
    }
    host.resume(QueueName::default()).await.expect("it goes on");
    let order = in_order_of_claims(&host, &ids).await;
    assert_eq!(order.iter().position(|id| *id == ids[0]), Some(9));
    finish(host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_below_a_priority_holds_only_what_is_below_it_and_shows_who_and_why() {
    let data = tempfile::tempdir().expect("a folder");
    let host = paused(data.path(), 4).await;
    let (low, high) = (with_priority(&host, 4).await, with_priority(&host, 5).await);
    assert!(show(&host, high).await.held.is_some());
    // A pause that holds less than the one before sets free what it does not hold.
    host.pause(QueueName::default(), Some(5), ask("only what is urgent")).await.expect("it is paused");
    assert_ends(&host, high, Kind::Success, Reason::Completed).await;
    let held = show(&host, low).await.held.expect("it is held");
    assert_eq!((&*held.by, &*held.why, held.below), ("user:ada", "only what is urgent", Some(5)));
    assert!(attempts(&host, low).await.is_empty());
    host.resume(QueueName::default()).await.expect("it goes on");
    assert_ends(&host, low, Kind::Success, Reason::Completed).await;
    assert!(!host.resume(QueueName::default()).await.expect("it answers"), "there was no pause any more");
    finish(host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_survives_restarts_and_nothing_of_its_queue_starts() {
    let data = tempfile::tempdir().expect("a folder");
    let host = paused(data.path(), 4).await;
    let soon = SystemClock::default().now() + Duration::from_millis(20);
    let held = submit(&host, new("ok")).await;
    let put_off = submit(&host, NewTask { run_after: Some(soon), ..new("ok") }).await;
    finish(host).await;
    for _ in 0..10 {
        let host = bed::start(Some(data.path()), Config::default()).await;
        // Whatever looks for work at the start has looked when this one is done.
        let open = submit(&host, NewTask { queue: queue("open"), ..new("ok") }).await;
        assert_ends(&host, open, Kind::Success, Reason::Completed).await;
        for id in [held, put_off] {
            assert_eq!(show(&host, id).await.task.state.kind(), Kind::Pending);
            assert!(attempts(&host, id).await.is_empty());
        }
        let queues = host.queues().await.expect("it answers");
        let row = queues.iter().find(|row| row.name == QueueName::default()).expect("the queue");
        assert_eq!((row.pending, row.pause.as_ref().map(|pause| &*pause.why)), (2, Some("a freeze")));
        finish(host).await;
    }
    let host = bed::start(Some(data.path()), Config::default()).await;
    host.resume(QueueName::default()).await.expect("it goes on");
    for id in [held, put_off] {
        assert_ends(&host, id, Kind::Success, Reason::Completed).await;
    }
    finish(host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_when_a_pause_is_acknowledged_does_not_start() {
    let data = tempfile::tempdir().expect("a folder");
    let host = paused(data.path(), 3).await;
    host.resume(QueueName::default()).await.expect("it goes on");
    for _ in 0..100 {
        let submitting: Vec<_> = (0..8)
            .map(|_| {
                let host = host.clone();
                tokio::spawn(async move { submit(&host, new("ok")).await })
            })
            .collect();
        host.pause(QueueName::default(), None, ask("a race")).await.expect("it is paused");
        let after = submit(&host, new("ok")).await;
        let mut waiting = vec![after];
        let mut all = vec![after];
        for submitted in submitting {
            let id = submitted.await.expect("no panic");
            all.push(id);
            if show(&host, id).await.task.state.kind() == Kind::Pending {
                waiting.push(id);
            }
        }
        let open = submit(&host, NewTask { queue: queue("open"), ..new("ok") }).await;
        assert_ends(&host, open, Kind::Success, Reason::Completed).await;
        for id in waiting {
            let state = show(&host, id).await.task.state;
            assert!(state.kind() == Kind::Pending && state.tally().attempts == 0, "{state:?}");
        }
        host.resume(QueueName::default()).await.expect("it goes on");
        for id in all {
            assert_ends(&host, id, Kind::Success, Reason::Completed).await;
        }
    }
    finish(host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_version_of_a_type_does_not_change_tasks_born_with_the_old_one() {
    let data = tempfile::tempdir().expect("a folder");
    let host = paused(data.path(), 4).await;
    let first = bed::put(&host, "kind", guest("ok"), terms()).await;
    let same = bed::put(&host, "kind", guest("ok"), terms()).await;
    assert_eq!((first.version, same.version), (1, 1), "the same again is no new version");
    let input = || NewTask { input: "[7]".into(), ..new("kind") };
    let old = submit(&host, input()).await;
    let second = bed::put(&host, "kind", guest("echo"), terms()).await;
    assert_eq!(second.version, 2);
    let young = submit(&host, input()).await;
    host.resume(QueueName::default()).await.expect("it goes on");
    for (id, result, version) in [(old, "null", &first), (young, "[7]", &second)] {
        let task = assert_ends(&host, id, Kind::Success, Reason::Completed).await;
        assert_eq!(task.spec.component, Some((version.version, version.component)));
        assert_eq!(host.result(id).await.expect("it answers").map(|row| row.result), Some(result.into()));
    }
    assert_eq!(host.type_versions(&second.name).await.expect("it answers").len(), 2);
    finish(host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_was_lost_is_healed_by_its_next_upload() {
    let data = tempfile::tempdir().expect("a folder");
    let host = bed::start(Some(data.path()), Config::default()).await;
    let row = bed::put(&host, "ok", guest("ok"), terms()).await;
    finish(host).await;
    let file = data.path().join("components").join(format!("{}.wasm", row.component));
    std::fs::remove_file(&file).expect("its file");
    // Its compiled code alone would do.
    std::fs::remove_dir_all(data.path().join("cache")).expect("the cache");

    let host = bed::start(Some(data.path()), Config::default()).await;
    let id = submit(&host, new("ok")).await;
    assert_ends(&host, id, Kind::Failed, Reason::Died(atropos::task::Death::Unloadable)).await;
    host.push(guest("ok"), "test".into()).await.expect("it fits");
    assert!(file.exists());
    host.rerun(id, ask("it is back"), true).await.expect("it is forced");
    assert_ends(&host, id, Kind::Success, Reason::Completed).await;
    finish(host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_is_on_record() {
    let data = tempfile::tempdir().expect("a folder");
    let host = bed::start(Some(data.path()), Config { input_bytes_max: 1_000, ..Config::default() }).await;
    let component = host.push(guest("ok"), "test".into()).await.expect("it fits").digest;
    let schema = r#"{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}"#;
    let name = "strict".parse().expect("a name");
    let strict = NewType { name, component, terms: terms(), input_schema: Some(schema.into()), by: "test".into() };
    host.put_type(strict).await.expect("a type");
    bed::put_guests(&host, &["ok"], terms()).await;

    let json = |text: &str| NewTask { input: text.to_owned(), ..new("strict") };
    let sized = |bytes: usize| NewTask { input: format!("\"{}\"", "x".repeat(bytes - 2)), ..new("ok") };
    let mut too_late = new("ok");
    too_late.terms.max_age = Some(Duration::from_mins(1));
    too_late.run_after = Some(SystemClock::default().now() + Duration::from_mins(2));
    let refused = [
        (new("no-such-type"), "unknown_type", "no-such-type"),
        (json(r#"{"n": "seven"}"#), "input_invalid", "/n"),
        (json("{}"), "input_invalid", "\"n\""),
        (sized(1_001), "input_too_large", "1000"),
        (too_late, "run_after_too_late", "max_age"),
    ];
    let count = refused.len();
    for (task, reason, names) in refused {
        let keyed = NewTask { dedup_key: Some("one".into()), ..task };
        let id = submit(&host, keyed).await;
        let task = show(&host, id).await.task;
        assert_eq!((end(&task).kind(), end(&task).reason().code()), (Kind::Rejected, reason));
        assert!(end(&task).detail().contains(names), "{reason}: {}", end(&task).detail());
        let rows = audit(&host, id).await;
        assert!(rows.len() == 1 && rows[0].from.is_none(), "{rows:?}");
    }
    let filter = TaskFilter { kinds: vec![Kind::Rejected], ..TaskFilter::default() };
    assert_eq!(host.list(filter, None, 100).await.expect("it answers").tasks.len(), count);

    // Just within the limits, and with the key that none of those has kept.
    for task in [sized(999), sized(1_000), NewTask { dedup_key: Some("one".into()), ..json(r#"{"n": 7}"#) }] {
        let id = submit(&host, task).await;
        assert_ends(&host, id, Kind::Success, Reason::Completed).await;
    }
    let again =
        host.submit(NewTask { dedup_key: Some("one".into()), ..json(r#"{"n": 8}"#) }).await.expect("it answers");
    assert!(again.existing && again.task.state.kind() == Kind::Success);
    finish(host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_node_lets_newborns_wait_behind_those_that_wait_already() {
    let data = tempfile::tempdir().expect("a folder");
    let host = bed::start(Some(data.path()), Config { slots: 1, ..Config::default() }).await;
    bed::put_guests(&host, &["ok", "polite"], terms()).await;
    let blocker = submit(&host, new("polite")).await;
    entered(&host, blocker).await;
    let first = submit(&host, new("ok")).await;
    let State::Pending(_) = show(&host, first).await.task.state else { panic!("there is no slot") };
    // A stream of submissions, each of which could take the slot at its birth.
    let stream: Vec<_> = (0..4)
        .map(|_| {
            let host = host.clone();
            tokio::spawn(async move {
                let mut ids = Vec::new();
                for _ in 0..100 {
                    ids.push(submit(&host, new("ok")).await);
                }
                ids
            })
        })
        .collect();
    kill(&host, blocker).await;
    let mut ids = vec![first];
    for submitted in stream {
        ids.extend(submitted.await.expect("no panic"));
    }
    assert_eq!(in_order_of_claims(&host, &ids).await.first(), Some(&first));
    until("every slot to be free", async || {
        let health = host.health().await.expect("it answers");
        (health.slots_free == 1).then_some(())
    })
    .await;
    finish(host).await;
}
