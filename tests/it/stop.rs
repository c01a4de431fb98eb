//! Every guest that will not stop is stopped, and nothing of it is left. One row for each.

use std::time::Duration;

use atropos::host::{AttemptView, NewTask, NewType};
use atropos::task::{Ask, Kind, Reason, Ring, TermsDraft};
use atropos::{Config, Host};

use crate::bed::assert_nothing_is_left;
use crate::support::{PATIENCE, guest, until};

/// A guest, and what stops it: force, or a word.
const GUESTS: &[(&str, Ring)] = &[
    ("spin", Ring::Killed),
    ("spin-start", Ring::Killed),
    ("spin-realloc", Ring::Killed),
    ("spin-post-return", Ring::Killed),
    ("spin-tail-call", Ring::Killed),
    ("sleep-forever", Ring::Killed),
    ("check-flood", Ring::Killed),
    ("log-flood", Ring::Killed),
    ("fill", Ring::Killed),
    ("copy", Ring::Killed),
    ("memory-hog", Ring::Killed),
    ("polite", Ring::Asked),
    ("polite-check", Ring::Asked),
];

async fn host_with(guests: impl Iterator<Item = &str>) -> Host {
    let host = Host::start(Config { slots: 128, ..Config::default() }).await.expect("it starts");
    for name in guests {
        let component = host.push(guest(name), "test".into()).await.expect("it fits").digest;
        let terms = TermsDraft {
            run_timeout: Some(Duration::from_mins(10)),
            grace: Some(Duration::from_mins(1)),
            ..TermsDraft::default()
        };
        let name = name.parse().expect("a name");
        let new = NewType { name, component, terms, input_schema: None, by: "test".into() };
        host.put_type(new).await.expect("a type");
    }
    host
}

/// Cancels it once it is in the guest, and looks at what is written of it.
async fn assert_stops(host: &Host, name: &str, ring: Ring) {
    let id = host.submit(NewTask::new(name.parse().expect("a name"), "null")).await.expect("taken").task.spec.id;
    until("the guest is entered", async || {
        let live = host.show(id).await.expect("it is there").live;
        live.and_then(|live| live.entered_at)
    })
    .await;
    let grace = if ring == Ring::Asked { Duration::from_mins(1) } else { Duration::ZERO };
    let ask = Ask { by: "user:ada".into(), why: "enough".into() };
    host.cancel(id, ask, Some(grace)).await.expect("it is told");
    let task = host.wait(id, PATIENCE).await.expect("it is there").task;
    assert_eq!(task.state.kind(), Kind::Cancelled, "{name}: {:?}", task.state);

    let audit = host.audit(id).await.expect("its audit");
    let last = audit.last().expect("a row");
    assert_eq!((last.reason, &*last.by, &*last.detail), (Reason::Cancelled, "user:ada", "enough"), "{name}");
    let attempts = host.attempts(id).await.expect("its attempts");
    let [AttemptView::Over(attempt)] = &attempts[..] else { panic!("{name}: {attempts:?}") };
    let receipt = attempt.stop.as_ref().unwrap_or_else(|| panic!("{name}: no stop receipt"));
    assert_eq!(receipt.ring, ring, "{name}: {receipt:?}");
    assert!(receipt.asked_at <= receipt.gone_at && receipt.gone_at <= receipt.written_at, "{name}: {receipt:?}");
    assert_eq!(receipt.killed_at.is_some(), ring == Ring::Killed, "{name}: {receipt:?}");
    if ring == Ring::Asked {
        assert!(receipt.seen_at.is_some(), "{name}: {receipt:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_guest_stops_whatever_it_does() {
    let host = host_with(GUESTS.iter().map(|(name, _)| *name)).await;
    for (name, ring) in GUESTS {
        assert_stops(&host, name, *ring).await;
        assert_nothing_is_left(&host).await;
    }
    host.shut_down().await.expect("it goes down");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_guest_stops_beside_64_spinners() {
    let host = host_with(GUESTS.iter().map(|(name, _)| *name)).await;
    let spin = NewTask::new("spin".parse().expect("a name"), "null");
    let born = host.submit_many(vec![spin; 64]).await.map_err(|(_, error)| error).expect("they are taken");
    for (name, ring) in GUESTS {
        assert_stops(&host, name, *ring).await;
    }
    for task in born {
        let ask = Ask { by: "user:ada".into(), why: "enough".into() };
        host.cancel(task.task.spec.id, ask, Some(Duration::ZERO)).await.expect("it is told");
        let task = host.wait(task.task.spec.id, PATIENCE).await.expect("it is there").task;
        assert_eq!(task.state.kind(), Kind::Cancelled);
    }
    assert_nothing_is_left(&host).await;
    host.shut_down().await.expect("it goes down");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_ignores_its_budgets_is_timed_out() {
    let host = host_with(["spin", "sleep-forever"].into_iter()).await;
    for name in ["spin", "sleep-forever"] {
        let mut new = NewTask::new(name.parse().expect("a name"), "null");
        new.terms.run_timeout = Some(Duration::from_millis(50));
        new.terms.grace = Some(Duration::from_millis(50));
        let task = host.submit_and_wait(new, PATIENCE).await.expect("taken").task;
        assert_eq!(task.state.kind(), Kind::TimedOut, "{name}");
        let audit = host.audit(task.spec.id).await.expect("its audit");
        assert_eq!(audit.last().map(|row| row.reason), Some(Reason::RunTimeSpent), "{name}");
    }
    assert_nothing_is_left(&host).await;
    host.shut_down().await.expect("it goes down");
}
