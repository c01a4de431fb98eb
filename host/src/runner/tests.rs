//! The parts of the runner by themselves: what needs no store and no guest.

use std::sync::Arc;
use std::time::Duration;

use super::live::Registry;
use crate::executor::protocol::{AttemptKey, Beat};
use crate::id::{Digest, NodeId, QueueName, TaskId, TraceParent};
use crate::task::{Ask, DedupScope, Event, LogLevel, LogLine, Spec, Task, TermsDraft, apply, birth};
use crate::time::Timestamp;

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_micros(1_900_000_000_000_000) + Duration::from_secs(seconds)
}

/// A task at its birth, with a run budget of 60 s, a heartbeat every 10 s, and a life of 600 s.
pub(super) fn pending() -> Task {
    let seconds = |count| Some(Duration::from_secs(count));
    let draft = TermsDraft {
        run_timeout: seconds(60),
        heartbeat_timeout: seconds(10),
        max_age: seconds(600),
        ..TermsDraft::default()
    };
    let spec = Arc::new(Spec {
        id: TaskId::new(),
        task_type: "report".parse().unwrap(),
        component: Some((1, Digest::of(b"report"))),
        queue: QueueName::default(),
        priority: 0,
        dedup_key: None,
        dedup_scope: DedupScope::default(),
        creator: None,
        request_id: None,
        trace: TraceParent::generate(),
        labels: Vec::new(),
        created_at: at(0),
        run_after: None,
        terms: draft.resolve(Duration::ZERO).unwrap(),
    });
    let state = birth(&spec, None).state;
    Task { spec, state, version: 1 }
}

fn after(task: &Task, event: Event, now: Timestamp) -> Task {
    let state = apply(task.state.clone(), event, &task.context(now)).unwrap().state;
    Task { spec: Arc::clone(&task.spec), state, version: task.version + 1 }
}

fn running() -> (Task, AttemptKey) {
    let task = after(&pending(), Event::Claimed { node: NodeId::new() }, at(1));
    let key = AttemptKey { task: task.spec.id, attempt: 1 };
    (task, key)
}

fn sign(key: AttemptKey, entered_at: Timestamp) -> Beat {
    let blank = Beat { key, entered_at: None, heartbeat_at: None, stop_seen_at: None, progress: None, log: Vec::new() };
    Beat { entered_at: Some(entered_at), ..blank }
}

#[test]
fn the_run_budget_does_not_count_before_the_guest_is_entered() {
    let registry = Registry::default();
    let (task, key) = running();
    let life_ends_at = at(600);
    assert_eq!(registry.insert(task, key), Some(life_ends_at), "its component may take long to compile");
    let heard = registry.with_alarm(key, |live| live.hear(sign(key, at(100))));
    assert!(heard.is_some_and(|heard| heard >= at(110) && heard < at(111)), "from its entry on: {heard:?}");
}

#[test]
fn a_heartbeat_is_not_missed_before_its_sign_had_the_time_to_come() {
    let registry = Registry::default();
    let (task, key) = running();
    registry.insert(task, key);
    registry.with_alarm(key, |live| live.hear(sign(key, at(1))));
    assert!(registry.due(at(11)).0.is_empty());
    assert_eq!(registry.due(at(12)).0, [key]);
}

#[test]
fn a_flood_piles_nothing_up_while_the_store_takes_its_time() {
    let registry = Registry::default();
    let (task, key) = running();
    registry.insert(task.clone(), key);
    let log = |numbers: std::ops::Range<u64>| {
        let line = |number| LogLine { number, at: at(2), level: LogLevel::Info, message: "a line".into() };
        Beat { log: numbers.map(line).collect(), ..sign(key, at(1)) }
    };
    let kept = task.spec.terms.limits.log_lines_max;
    registry.with(key, |live| live.hear(log(1..10)));
    let first = registry.with(key, super::live::Live::begin_write).flatten().expect("lines");
    assert_eq!(first.new.len(), 9);
    for round in 0..10 {
        registry.with(key, |live| live.hear(log(10 + round * kept..10 + (round + 1) * kept)));
        assert!(registry.with(key, super::live::Live::begin_write).flatten().is_none(), "one write at a time");
    }
    registry.with(key, super::live::Live::end_write);
    let next = registry.with(key, super::live::Live::begin_write).flatten().expect("lines");
    assert_eq!((next.new.len() as u64, next.keep_from), (kept, 10 + 9 * kept));
}

#[test]
fn a_spent_budget_is_asked_for_once() {
    let registry = Registry::default();
    let (task, key) = running();
    registry.insert(task.clone(), key);
    registry.with(key, |live| live.asking = true);
    let alarm = registry.with_alarm(key, |live| live.hear(sign(key, at(1))));
    assert_eq!(alarm, None, "a sign of life does not ask again");
    let ask = Ask { by: "user:ada".into(), why: "".into() };
    let stopping = after(&task, Event::CancelAsked { ask, grace: None }, at(20));
    let kill_at = at(25);
    assert_eq!(
        registry.with_alarm(key, |live| {
            live.renew(&stopping);
        }),
        Some(kill_at),
        "but the kill has its time"
    );
}

#[test]
fn a_kill_that_was_brought_forward_is_not_put_off_by_older_news() {
    let registry = Registry::default();
    let (task, key) = running();
    registry.insert(task.clone(), key);
    let asked = |grace| Event::CancelAsked { ask: Ask { by: "user:ada".into(), why: "".into() }, grace: Some(grace) };
    let first = after(&task, asked(Duration::from_secs(5)), at(20));
    let second = after(&first, asked(Duration::from_secs(1)), at(20));
    assert_eq!(registry.with(key, |live| live.renew(&second)), Some(true));
    assert_eq!(registry.with(key, |live| live.renew(&first)), Some(false));
    assert_eq!(registry.with_alarm(key, |_| ()), Some(at(21)));
}
