//! Rows come back as they went in, or not at all.

use std::sync::Arc;
use std::time::Duration;

use super::support::{
    at, cancel, change, claim, component, digest, ended, everything, finish, id, load, newborn, put_component, read,
    spec, submit, submit_to_start, trace, write,
};
use crate::id::Digest;
use crate::store::{AttemptRow, AuditRow, Backend, OutboxRow, Pause, ResultRow, StoreError, TypeRow, Write};
use crate::task::{
    CoreDump, CostReceipt, DedupScope, Ending, Grants, Kind, LogLevel, LogLine, Phase, Progress, Reason, Ring, Scene,
    Scratch, Spec, StopReceipt, Task, Terms, TermsDraft,
};

/// One of everything.
fn grants() -> Arc<Grants> {
    let hosts = |hosts: &[&str]| hosts.iter().map(|host| host.parse().unwrap()).collect();
    Arc::new(Grants {
        environment: vec![("Z".into(), "ü \" '".into()), ("A".into(), String::new())],
        scratch: Some(Scratch { bytes: u64::MAX, files: 1 }),
        http: hosts(&["*.example.com@private:*", "[fd00::/8]:443"]),
        tcp: hosts(&["10.0.0.0/8:5432"]),
    })
}

pub(super) fn a_task_comes_back_as_it_was(backend: &dyn Backend) {
    put_component(backend);
    let mut terms = Terms {
        max_age: Duration::from_nanos(86_400_000_000_001),
        heartbeat_timeout: Some(Duration::from_nanos(10_000_001)),
        fuel: Some(u64::MAX / 4),
        core_dump: true,
        grants: grants(),
        ..super::support::terms()
    };
    terms.retry.retry_timeouts = true;
    let full = Spec {
        task_type: "A.b_c-9".parse().unwrap(),
        component: Some((u32::MAX, Digest::of(b"other"))),
        queue: "mail".parse().unwrap(),
        priority: -100,
        dedup_key: Some("schlüssel \" ' \\ \u{1F600}".into()),
        dedup_scope: DedupScope::Live,
        creator: Some(String::new().into()),
        request_id: Some("req-1".into()),
        trace: trace("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ff"),
        labels: vec![("a".into(), "ü".into()), ("b".into(), String::new().into())],
        run_after: Some(at(500)),
        terms,
        ..spec(2)
    };
    let unknown = Spec { component: None, priority: 100, ..spec(3) };
    for spec in [spec(1), full, unknown] {
        let task = newborn(spec);
        write(backend, |tx| tx.insert(&task, None, true)).unwrap();
        assert_eq!(load(backend, task.spec.id), task);
    }
    // Running, stopping, and ended, each as the life left it.
    let Task { spec: running, .. } = submit_to_start(backend, spec(10));
    assert_eq!(claim(backend, 9, 0, at(11)), [id(3), id(1), running.id]);
    for event in [cancel(), crate::task::Event::FailAsked { ask: super::support::ask("") }] {
        let crate::store::life::Change::Done { task, .. } = change(backend, running.id, &event, at(12)) else {
            continue;
        };
        assert_eq!(load(backend, running.id), task);
    }
    let crate::store::life::Change::Done { task, .. } = finish(backend, &ended(running.id, 1, Ending::Stopped, at(13)))
    else {
        panic!("refused")
    };
    assert_eq!(task.state.kind(), Kind::Cancelled);
    assert_eq!(load(backend, running.id), task);
}

pub(super) fn an_input_stays_and_a_missing_one_is_none(backend: &dyn Backend) {
    let (small, large) = (newborn(spec(1)), newborn(spec(2)));
    let text = format!("\"{}\"", "ü".repeat(100_000));
    write(backend, |tx| {
        tx.insert(&small, None, false)?;
        tx.insert(&large, Some(&text), false)
    })
    .unwrap();
    assert_eq!(read(backend, |view| view.input(id(1))), None);
    assert_eq!(read(backend, |view| view.input(id(2))).as_deref(), Some(&*text));
    assert_eq!(read(backend, |view| view.input(id(3))), None);
    assert_eq!(read(backend, |view| view.task(id(3))), None);
}

pub(super) fn an_id_is_given_once(backend: &dyn Backend) {
    submit(backend, spec(1));
    let before = everything(backend, &[id(1)], at(9));
    let again = newborn(Spec { priority: 5, ..spec(1) });
    let refused = write(backend, |tx| tx.insert(&again, Some("1"), false));
    assert!(matches!(refused, Err(StoreError::Backend { .. })), "{refused:?}");
    assert_eq!(everything(backend, &[id(1)], at(9)), before);
}

pub(super) fn a_write_sees_its_own_changes(backend: &dyn Backend) {
    let task = newborn(Spec { dedup_key: Some("k".into()), ..spec(1) });
    write(backend, |tx| {
        tx.insert(&task, Some("7"), true)?;
        assert_eq!(tx.task(id(1))?.as_ref(), Some(&task));
        assert_eq!(tx.input(id(1))?.as_deref(), Some("7"));
        assert_eq!(tx.holder_of(&task.spec.task_type, "k")?.as_ref(), Some(&task));
        assert_eq!(tx.lines()?.len(), 1);
        assert_eq!(tx.pending_count(&task.spec.queue)?, 1);
        assert_eq!(tx.ready_in(&tx.lines()?[0], at(1), 9)?.len(), 1);
        assert_eq!(tx.tasks(&crate::store::TaskFilter::default(), None, 9)?.len(), 1);
        tx.append_logs(id(1), 1, &lines(1..3), 0)?;
        assert_eq!(tx.logs(id(1), 0, 9)?.len(), 2);
        Ok(())
    })
    .unwrap();
}

pub(super) fn replacing_needs_the_version_that_was_seen(backend: &dyn Backend) {
    let task = newborn(spec(1));
    let newer = Task { version: 2, ..task.clone() };
    write(backend, |tx| tx.insert(&task, None, false)).unwrap();
    assert!(!write(backend, |tx| tx.replace(&newer, 7, false)).unwrap());
    assert!(write(backend, |tx| tx.replace(&newer, 1, false)).unwrap());
    assert!(!write(backend, |tx| tx.replace(&newer, 1, false)).unwrap());
    assert_eq!(load(backend, id(1)).version, 2);
    let unknown = newborn(spec(2));
    assert!(!write(backend, |tx| tx.replace(&unknown, 1, false)).unwrap());
}

/// Changes something of every kind.
fn touch_everything(tx: &mut dyn Write, running: &Task) -> Result<(), StoreError> {
    let pending = newborn(Spec { dedup_key: Some("k".into()), labels: vec![("a".into(), "b".into())], ..spec(50) });
    tx.insert(&pending, Some("1"), true)?;
    tx.insert(&newborn(Spec { queue: "mail".parse().unwrap(), ..spec(51) }), None, false)?;
    let again = newborn(Spec::clone(&running.spec));
    tx.replace(&Task { version: running.version + 1, ..again }, running.version, true)?;
    tx.append_audit(&audit_row(id(50)))?;
    tx.append_outbox(&outbox_row(id(50)))?;
    tx.append_attempt(&attempt_row(1))?;
    tx.put_result(&ResultRow { task: id(50), attempt: 1, result: "1".into(), at: at(1) })?;
    tx.append_logs(id(1), 1, &lines(3..6), 3)?;
    tx.put_component(&crate::store::ComponentRow { digest: Digest::of(b"new"), ..component() })?;
    tx.put_type(&type_row(1))?;
    let pause = Pause { below: None, by: "ann".into(), why: "a test".into(), at: at(1) };
    tx.set_pause(&"paused".parse().unwrap(), None)?;
    tx.set_pause(&"other".parse().unwrap(), Some(&pause))
}

fn prepared(backend: &dyn Backend) -> Task {
    put_component(backend);
    let running = submit_to_start(backend, spec(1));
    assert_eq!(running.state.kind(), Kind::Running);
    write(backend, |tx| {
        tx.append_logs(id(1), 1, &lines(1..4), 0)?;
        let pause = Pause { below: Some(3), by: "ann".into(), why: "a test".into(), at: at(1) };
        tx.set_pause(&"paused".parse().unwrap(), Some(&pause))
    })
    .unwrap();
    running
}

pub(super) fn a_failed_write_changes_nothing(backend: &dyn Backend) {
    let running = prepared(backend);
    let ids = [id(1), id(50), id(51)];
    let before = everything(backend, &ids, at(99));
    for _ in 0..2 {
        let failed = write(backend, |tx| {
            touch_everything(tx, &running)?;
            Err::<(), _>(StoreError::Closed)
        });
        assert!(matches!(failed, Err(StoreError::Closed)), "{failed:?}");
        assert_eq!(everything(backend, &ids, at(99)), before);
    }
    // What the writer knows was taken back too, and numbers were not used up.
    write(backend, |tx| {
        assert_eq!(tx.task(id(1))?.as_ref(), Some(&running));
        assert_eq!(tx.lines()?, []);
        touch_everything(tx, &running)
    })
    .unwrap();
    assert_eq!(read(backend, |view| view.outbox(0, 9)).last().map(|row| row.number), Some(3));
    assert_ne!(everything(backend, &ids, at(99)), before);
}

pub(super) fn a_write_that_panics_changes_nothing(backend: &dyn Backend) {
    let running = prepared(backend);
    let before = everything(backend, &[id(1), id(50)], at(99));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = write(backend, |tx| {
            touch_everything(tx, &running)?;
            std::panic::resume_unwind(Box::new("on purpose")) as Result<(), StoreError>
        });
    }));
    assert!(panicked.is_err());
    assert_eq!(everything(backend, &[id(1), id(50)], at(99)), before);
    write(backend, |tx| touch_everything(tx, &running)).unwrap();
}

pub(super) fn a_priority_past_a_hundred_is_refused(backend: &dyn Backend) {
    for priority in [-101, 101, i8::MIN, i8::MAX] {
        let task = newborn(Spec { priority, ..spec(1) });
        assert!(write(backend, |tx| tx.insert(&task, None, false)).is_err(), "{priority}");
    }
}

fn audit_row(task: crate::id::TaskId) -> AuditRow {
    AuditRow {
        number: 0,
        task,
        at: at(4),
        from: Some(Kind::Running),
        to: Kind::TimedOut,
        reason: Reason::HeartbeatExpired,
        by: "host:watch".into(),
        detail: "ü".into(),
        attempt: 3,
        generation: 2,
        trace: trace("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
    }
}

fn outbox_row(task: crate::id::TaskId) -> OutboxRow {
    OutboxRow { number: 0, task, event: "task.timed_out".into(), audit: 1, created_at: at(4) }
}

pub(super) fn numbers_count_up_in_the_order_of_writing(backend: &dyn Backend) {
    let rows = [audit_row(id(1)), AuditRow { from: None, ..audit_row(id(2)) }, audit_row(id(1))];
    let given: Result<Vec<_>, _> = write(backend, |tx| {
        rows.iter().map(|row| Ok((tx.append_audit(row)?, tx.append_outbox(&outbox_row(row.task))?))).collect()
    });
    assert_eq!(given.unwrap(), vec![(1, 1), (2, 2), (3, 3)]);
    for reason in Reason::all() {
        let row = AuditRow { reason, ..audit_row(id(9)) };
        let number = write(backend, |tx| tx.append_audit(&row)).unwrap();
        assert_eq!(read(backend, |view| view.audit(id(9), number - 1, 1)), [AuditRow { number, ..row }]);
    }
    let of = |after, limit| read(backend, |view| view.audit(id(1), after, limit));
    assert_eq!(of(0, 9), [AuditRow { number: 1, ..rows[0].clone() }, AuditRow { number: 3, ..rows[2].clone() }]);
    assert_eq!(of(1, 9).len(), 1);
    assert_eq!(of(0, 1).len(), 1);
    assert_eq!(of(u64::MAX, 9), []);
    assert_eq!(read(backend, |view| view.audit(id(2), 0, 9)), [AuditRow { number: 2, ..rows[1].clone() }]);
    let outbox = read(backend, |view| view.outbox(1, 1));
    assert_eq!(outbox, [OutboxRow { number: 2, ..outbox_row(id(2)) }]);
    assert_eq!(read(backend, |view| view.outbox(3, 9)), []);
}

fn attempt_row(attempt: u32) -> AttemptRow {
    AttemptRow {
        task: id(1),
        attempt,
        generation: 1,
        node: super::support::NODE,
        claimed_at: at(1),
        entered_at: None,
        heartbeat_at: None,
        ended_at: at(2),
        outcome: Kind::Success,
        reason: Reason::Completed,
        detail: "".into(),
        cost: CostReceipt::default(),
        stop: None,
        scene: None,
        progress: None,
    }
}

pub(super) fn an_attempt_comes_back_as_it_was(backend: &dyn Backend) {
    let stop = StopReceipt {
        asked_at: at(3),
        told_at: Some(at(4)),
        seen_at: Some(at(5)),
        killed_at: Some(at(6)),
        gone_at: at(7),
        written_at: at(8),
        ring: Ring::Killed,
    };
    let full = AttemptRow {
        entered_at: Some(at(2)),
        heartbeat_at: Some(at(3)),
        outcome: Kind::Failed,
        reason: Reason::Died(crate::task::Death::Trap),
        detail: "wasm `unreachable`".into(),
        cost: CostReceipt {
            wall_micros: 1,
            cpu_micros: 2,
            fuel: Some(u64::MAX),
            memory_bytes_peak: 3,
            host_calls: 4,
            bytes_in: 5,
            bytes_out: 6,
            log_lines: 7,
            log_lines_dropped: 8,
        },
        stop: Some(stop.clone()),
        scene: Some(Scene {
            phase: Some(Phase::Instantiating),
            at: Some(at(77)),
            backtrace: vec!["a".into(), "\"ü\"".into()],
            host_call: Some("sleep".into()),
            core_dump: Some(CoreDump::Kept { bytes: u64::MAX }),
        }),
        progress: Some(Progress { done: 0.1 + 0.2, total: Some(f64::MAX), note: Some("half".into()) }),
        ..attempt_row(3)
    };
    let bare_stop = StopReceipt { told_at: None, seen_at: None, killed_at: None, ring: Ring::Asked, ..stop.clone() };
    let bare = AttemptRow {
        stop: Some(bare_stop),
        scene: Some(Scene { core_dump: Some(CoreDump::Missing { why: "no room".into() }), ..Scene::default() }),
        progress: Some(Progress { done: f64::INFINITY, total: None, note: None }),
        ..attempt_row(2)
    };
    let third = AttemptRow { stop: Some(StopReceipt { ring: Ring::ExecutorKilled, ..stop }), ..attempt_row(4) };
    let rows = [full, attempt_row(1), third, bare];
    write(backend, |tx| rows.iter().try_for_each(|row| tx.append_attempt(row))).unwrap();
    let [full, first, third, bare] = rows;
    assert_eq!(read(backend, |view| view.attempts(id(1))), [first, bare, full, third], "first to last");
    assert_eq!(read(backend, |view| view.attempts(id(2))), []);
}

pub(super) fn an_attempt_and_a_result_are_written_once(backend: &dyn Backend) {
    let row = ResultRow { task: id(1), attempt: 1, result: "{\"a\":[1,2]}".into(), at: at(2) };
    write(backend, |tx| tx.put_result(&row)).unwrap();
    write(backend, |tx| tx.append_attempt(&attempt_row(1))).unwrap();
    assert!(write(backend, |tx| tx.put_result(&ResultRow { result: "2".into(), ..row.clone() })).is_err());
    assert!(write(backend, |tx| tx.append_attempt(&attempt_row(1))).is_err());
    assert_eq!(read(backend, |view| view.result(id(1))), Some(row));
}

fn lines(numbers: std::ops::Range<u64>) -> Vec<LogLine> {
    let levels = LogLevel::ALL.into_iter().cycle();
    let line = |(number, level): (u64, LogLevel)| LogLine {
        number,
        at: at(i64::try_from(number).unwrap()),
        level,
        message: format!("line {number}"),
    };
    numbers.zip(levels).map(line).collect()
}

fn logged(backend: &dyn Backend, after: u64, limit: usize) -> Vec<(u64, u32, u64)> {
    let rows = read(backend, |view| view.logs(id(1), after, limit));
    assert!(rows.iter().all(|row| row.line.message == format!("line {}", row.line.number)));
    rows.into_iter().map(|row| (row.number, row.attempt, row.line.number)).collect()
}

pub(super) fn log_lines_are_kept_from_a_number_on(backend: &dyn Backend) {
    let append = |attempt, numbers, keep_from| {
        write(backend, |tx| tx.append_logs(id(1), attempt, &lines(std::ops::Range::clone(&numbers)), keep_from))
            .unwrap();
    };
    append(1, 1..4, 0);
    append(2, 1..3, 0);
    assert_eq!(logged(backend, 0, 9), [(1, 1, 1), (2, 1, 2), (3, 1, 3), (4, 2, 1), (5, 2, 2)]);
    assert_eq!(logged(backend, 2, 2), [(3, 1, 3), (4, 2, 1)]);
    append(2, 3..5, 3);
    assert_eq!(logged(backend, 3, 9), [(6, 2, 3), (7, 2, 4)], "the other attempt keeps its own");
    append(2, 5..8, 6);
    assert_eq!(logged(backend, 3, 9), [(8, 2, 6), (9, 2, 7)], "a line below is not even written");
    append(2, 0..0, u64::MAX);
    append(2, 8..9, 0);
    assert_eq!(logged(backend, 3, 9), [(10, 2, 8)], "numbers are not given again");
    assert_eq!(read(backend, |view| view.logs(id(1), 9, 1))[0].line, lines(8..9)[0]);
}

pub(super) fn log_lines_that_come_twice_are_kept_once(backend: &dyn Backend) {
    for _ in 0..2 {
        write(backend, |tx| tx.append_logs(id(1), 1, &lines(1..4), 0)).unwrap();
    }
    assert_eq!(logged(backend, 0, 9), [(1, 1, 1), (2, 1, 2), (3, 1, 3)]);
}

fn type_row(version: u32) -> TypeRow {
    TypeRow {
        name: "export".parse().unwrap(),
        version,
        component: digest(),
        terms: TermsDraft::default(),
        input_schema: None,
        created_at: at(1),
        created_by: "ann".into(),
    }
}

pub(super) fn versions_of_a_type_stay(backend: &dyn Backend) {
    let second = Duration::from_nanos(1_000_000_001);
    let full = TypeRow {
        terms: TermsDraft {
            queue_timeout: Some(second),
            run_timeout: Some(second),
            max_age: Some(Duration::MAX),
            grace: Some(Duration::ZERO),
            heartbeat_timeout: Some(second),
            fuel: Some(u64::MAX),
            core_dump: Some(true),
            max_retries: Some(0),
            retry_base: Some(second),
            retry_cap: Some(second),
            retry_timeouts: Some(false),
            memory_bytes_max: Some(1),
            table_elements_max: Some(2),
            instances_max: Some(3),
            result_bytes_max: Some(4),
            log_lines_max: Some(5),
            log_bytes_max: Some(6),
            host_call_bytes_max: Some(7),
            handles_max: Some(8),
            grants: grants(),
        },
        input_schema: Some("{\"type\":\"object\"}".into()),
        ..type_row(2)
    };
    let other = TypeRow { name: "a".parse().unwrap(), ..type_row(7) };
    write(backend, |tx| [type_row(1), full.clone(), other.clone()].iter().try_for_each(|row| tx.put_type(row)))
        .unwrap();
    assert!(write(backend, |tx| tx.put_type(&TypeRow { created_by: "bob".into(), ..type_row(1) })).is_err());
    let name = &full.name;
    let of = |version| read(backend, |view| view.task_type(name, version));
    assert_eq!((of(None), of(Some(1)), of(Some(3))), (Some(full.clone()), Some(type_row(1)), None));
    assert_eq!(read(backend, |view| view.type_versions(name)), [full.clone(), type_row(1)]);
    assert_eq!(read(backend, |view| view.task_types()), [other, full.clone()]);
}

pub(super) fn a_component_is_kept_as_it_came_first(backend: &dyn Backend) {
    put_component(backend);
    let later =
        crate::store::ComponentRow { digest: Digest::of(b"2"), uploaded_at: at(5), imports: vec![], ..component() };
    write(backend, |tx| {
        tx.put_component(&crate::store::ComponentRow { uploaded_by: "bob".into(), ..component() })?;
        tx.put_component(&later)
    })
    .unwrap();
    assert_eq!(read(backend, |view| view.component(digest())), Some(component()));
    assert_eq!(read(backend, |view| view.components()), [later, component()], "newest first");
    assert_eq!(read(backend, |view| view.component(Digest::of(b"3"))), None);
}
