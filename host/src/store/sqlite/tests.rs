//! What only SQLite has: a file that outlives the process, rows that others may have touched, plans.

use rusqlite::Connection;

use super::*;
use crate::id::{NodeId, QueueName, TaskId, TraceParent};
use crate::store::TaskFilter;
use crate::store::life::{self, Submission};
use crate::task::{Corrupt, DedupScope, Spec, Task, TermsDraft};
use crate::time::Timestamp;

fn spec(id: u8) -> Spec {
    let draft = TermsDraft { run_timeout: Some(Duration::from_secs(1)), ..TermsDraft::default() };
    Spec {
        id: TaskId::from_bytes([id; 16]),
        task_type: "t".parse().unwrap(),
        component: Some((1, crate::id::Digest::of(b""))),
        queue: QueueName::default(),
        priority: 0,
        dedup_key: None,
        dedup_scope: DedupScope::Record,
        creator: None,
        request_id: None,
        trace: TraceParent::generate(),
        labels: vec![("a".into(), "b".into())],
        created_at: Timestamp::from_micros(1_900_000_000_000_000),
        run_after: None,
        terms: draft.resolve(Duration::ZERO).unwrap(),
    }
}

fn submit(store: &Sqlite, spec: Spec, claim: bool) -> Result<(), StoreError> {
    let claim = claim.then_some(NodeId::from_bytes([1; 16]));
    let submission = Submission { spec: Arc::new(spec), input: Some("1".into()), refusal: None, claim };
    store.write(&mut |tx| life::submit(tx, &submission).map(drop))
}

fn load(store: &Sqlite, id: u8) -> Result<Option<Task>, StoreError> {
    let mut task = None;
    store.read(&mut |view| {
        task = view.task(TaskId::from_bytes([id; 16]))?;
        Ok(())
    })?;
    Ok(task)
}

/// A second way into the file, as an operator with a shell has it.
fn shell(folder: &tempfile::TempDir) -> Connection {
    Connection::open(folder.path().join(FILE)).unwrap()
}

#[test]
fn what_was_written_is_there_when_it_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path()).unwrap();
    submit(&store, spec(1), true).unwrap();
    submit(&store, spec(2), false).unwrap();
    let (first, second) = (load(&store, 1).unwrap(), load(&store, 2).unwrap());
    drop(store);
    let store = Sqlite::open(folder.path()).unwrap();
    assert!(first.is_some() && second.is_some());
    assert_eq!((load(&store, 1).unwrap(), load(&store, 2).unwrap()), (first, second));
    store
        .write(&mut |tx| {
            assert_eq!(tx.lines()?.len(), 1);
            assert_eq!(tx.pending_count(&QueueName::default())?, 1);
            assert_eq!(tx.outbox(0, 9)?.len(), 3);
            let next = tx.append_outbox(&tx.outbox(0, 1)?[0])?;
            assert_eq!(next, 4, "numbers go on");
            Ok(())
        })
        .unwrap();
}

#[test]
fn numbers_are_not_given_again_when_rows_are_gone() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path()).unwrap();
    submit(&store, spec(1), false).unwrap();
    drop(store);
    shell(&folder).execute_batch("DELETE FROM audit; DELETE FROM outbox").unwrap();
    let store = Sqlite::open(folder.path()).unwrap();
    submit(&store, spec(2), false).unwrap();
    store
        .read(&mut |view| {
            assert_eq!(view.outbox(0, 9)?[0].number, 2);
            assert_eq!(view.audit(TaskId::from_bytes([2; 16]), 0, 9)?[0].number, 2);
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_second_owner_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path()).unwrap();
    let refused = Sqlite::open(folder.path()).unwrap_err();
    assert!(matches!(&refused, StoreError::InUse { path } if path == folder.path()), "{refused:?}");
    drop(store);
    Sqlite::open(folder.path()).unwrap();
}

#[test]
fn a_schema_from_the_future_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    drop(Sqlite::open(folder.path()).unwrap());
    shell(&folder).pragma_update(None, "user_version", 99).unwrap();
    let refused = Sqlite::open(folder.path()).unwrap_err();
    assert!(matches!(refused, StoreError::SchemaTooNew { found: 99, known: 1 }), "{refused:?}");
}

#[test]
fn a_schema_of_another_making_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    drop(Sqlite::open(folder.path()).unwrap());
    shell(&folder).execute("UPDATE migrations SET sha256 = 'x'", []).unwrap();
    assert!(matches!(Sqlite::open(folder.path()).unwrap_err(), StoreError::Unreadable { .. }));
}

#[test]
fn a_file_that_is_no_database_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(FILE), "not a database, but long enough to look at".repeat(100)).unwrap();
    assert!(matches!(Sqlite::open(folder.path()).unwrap_err(), StoreError::Backend { .. }));
}

/// A store with a pending task 1 and a running task 2, of which `sql` changes something behind its back.
fn damaged(sql: &str) -> (Result<Sqlite, StoreError>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path()).unwrap();
    submit(&store, spec(2), true).unwrap();
    submit(&store, spec(1), false).unwrap();
    drop(store);
    let shell = shell(&folder);
    shell.execute_batch("PRAGMA ignore_check_constraints = ON").unwrap();
    assert_eq!(shell.execute(sql, []).unwrap(), 2, "{sql}");
    drop(shell);
    (Sqlite::open(folder.path()), folder)
}

#[test]
fn a_damaged_row_is_an_error_and_never_a_task() {
    let states = [
        "UPDATE tasks SET wait = NULL, ready_at = NULL, node = NULL",
        "UPDATE tasks SET node = x'00000000000000000000000000000000', claimed_at = 1",
        "UPDATE tasks SET reason = 'completed', manner = 'returned', ended_at = 1",
        "UPDATE tasks SET state = 'SUCCESS'",
        "UPDATE tasks SET generation = 0",
        "UPDATE tasks SET retries = 7",
    ];
    for sql in states {
        let (store, _folder) = damaged(sql);
        let store = store.unwrap();
        let errors = [1, 2].map(|id| load(&store, id));
        let corrupt = |read: &Result<_, _>| matches!(read, Err(StoreError::Corrupt { source: Corrupt { .. }, .. }));
        assert!(errors.iter().any(corrupt), "{sql}: {errors:?}");
    }
    let cells = [
        "UPDATE tasks SET state = 'ASLEEP'",
        "UPDATE tasks SET task_type = '-'",
        "UPDATE tasks SET queue = ''",
        "UPDATE tasks SET priority = 1000",
        "UPDATE tasks SET component = x'00'",
        "UPDATE tasks SET trace = zeroblob(25)",
        "UPDATE tasks SET labels = '{'",
        "UPDATE tasks SET attempts = -1",
        "UPDATE tasks SET max_age_ns = -1",
        "UPDATE tasks SET stop_reason = 'cancelled'",
        "UPDATE tasks SET dedup_scope = 'x'",
    ];
    for sql in cells {
        let (store, _folder) = damaged(sql);
        // What the writer has to know of all that waits is read at once.
        let read = store.and_then(|store| load(&store, 1));
        assert!(matches!(read, Err(StoreError::Unreadable { .. })), "{sql}: {read:?}");
    }
}

#[test]
fn an_illegal_row_is_refused_by_the_database() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path()).unwrap();
    submit(&store, spec(2), true).unwrap();
    submit(&store, spec(1), false).unwrap();
    submit(&store, spec(3), true).unwrap();
    let ask = crate::task::Ask { by: "ann".into(), why: "".into() };
    let cancel = crate::task::Event::CancelAsked { ask, grace: None };
    let (id, at) = (TaskId::from_bytes([3; 16]), Timestamp::from_micros(1_900_000_000_000_001));
    store.write(&mut |tx| life::change(tx, id, cancel.clone(), at).map(drop)).unwrap();
    let shell = shell(&folder);
    let (pending, running, ended) = ("state = 'PENDING'", "state = 'RUNNING'", "state = 'CANCELLED'");
    let cases = [
        (pending, "state = 'RUNNING', attempts = 1", "pending_and_nothing_else_waits"),
        (pending, "wait = NULL, ready_at = NULL, alarm_at = NULL", "pending_and_nothing_else_waits"),
        (pending, "alarm_at = NULL", "pending_and_nothing_else_waits"),
        (pending, "wait = 'later'", "wait_fits"),
        (pending, "wait = 'retry'", "wait_fits"),
        (pending, "wait = 'scheduled', attempts = 1", "wait_fits"),
        (pending, "node = zeroblob(16), claimed_at = 1", "running_and_nothing_else_has_node"),
        (pending, "reason = 'completed', manner = 'returned', ended_at = 1", "ended_and_nothing_else_has_reason"),
        (pending, "detail = 'x'", "ended_and_nothing_else_has_reason"),
        (pending, "priority = 101", "priority BETWEEN -100 AND 100"),
        (pending, "state = 'CANCELED'", "state_known"),
        (pending, "holds_key = 1", "held_key_exists"),
        (pending, "retries = 1", "retries_within_attempts"),
        (pending, "generation = 0", "generation >= 1"),
        (pending, "component = NULL", "component_has_version"),
        (pending, "trace = x'00'", "length(trace) = 25"),
        (running, "node = NULL", "running_and_nothing_else_has_node"),
        (running, "claimed_at = NULL", "running_and_nothing_else_has_node"),
        (running, "attempts = 0", "running_has_attempt"),
        (running, "stop_reason = 'cancelled'", "stop_is_whole"),
        (running, "wait = 'ready', ready_at = 1, alarm_at = 1", "pending_and_nothing_else_waits"),
        (ended, "reason = NULL", "ended_and_nothing_else_has_reason"),
        (ended, "manner = NULL", "ended_and_nothing_else_has_reason"),
        (ended, "manner = 'killed', attempts = 0", "manner_fits"),
        (ended, "manner = 'asleep'", "manner_fits"),
        (
            ended,
            "stop_reason = 'a', stop_by = 'b', stop_why = 'c', stop_asked_at = 1, stop_kill_at = 2",
            "running_and_nothing_else_has_node",
        ),
    ];
    for (which, change, rule) in cases {
        let error = shell.execute(&format!("UPDATE tasks SET {change} WHERE {which}"), []).unwrap_err().to_string();
        assert!(error.contains(rule), "{change}: {error}");
    }
    for change in ["state = NULL", "priority = 'high'", "version = NULL", "detail = NULL"] {
        assert!(shell.execute(&format!("UPDATE tasks SET {change}"), []).is_err(), "{change}");
    }
}

#[test]
fn readers_never_wait_for_the_writer_nor_see_half_a_write() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path()).unwrap();
    std::thread::scope(|scope| {
        // More readers than connections, while the log is copied again and again.
        let readers: Vec<_> = (0..3 * READERS_MAX)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..30 {
                        store
                            .read(&mut |view| {
                                let tasks = view.tasks(&TaskFilter::default(), None, 1_000)?;
                                assert_eq!(tasks.len() % 2, 0, "two are written at a time");
                                assert_eq!(view.outbox(0, 1_000)?.len(), tasks.len());
                                Ok(())
                            })
                            .unwrap();
                    }
                })
            })
            .collect();
        for n in 0..20 {
            store
                .write(&mut |tx| {
                    for id in [2 * n + 1, 2 * n + 2] {
                        let submission =
                            Submission { spec: Arc::new(spec(id)), input: None, refusal: None, claim: None };
                        life::submit(tx, &submission)?;
                    }
                    Ok(())
                })
                .unwrap();
            store.writer.lock().unwrap().conn.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(())).unwrap();
        }
        for reader in readers {
            reader.join().unwrap();
        }
    });
    let pool = store.pool();
    assert_eq!(pool.idle.len(), pool.open);
    assert!(pool.open <= READERS_MAX);
}

#[test]
fn the_log_begins_anew_when_readers_let_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path()).unwrap();
    let log = || std::fs::metadata(folder.path().join("atropos.db-wal")).unwrap().len();
    submit(&store, spec(1), false).unwrap();
    assert!(log() > 0);
    store.writer.lock().unwrap().log_bytes_max.set(1);
    submit(&store, spec(2), false).unwrap();
    assert_eq!(log(), 0);
    // A read that does not end in time: what is written stands, and the next try is later.
    store.writer.lock().unwrap().log_bytes_max.set(1);
    store
        .read(&mut |view| {
            assert!(view.task(TaskId::from_bytes([1; 16]))?.is_some());
            submit(&store, spec(3), false)
        })
        .unwrap();
    assert!(load(&store, 3).unwrap().is_some());
    assert!(store.writer.lock().unwrap().log_bytes_max.get() > 1);
}

#[test]
fn a_reader_that_panics_takes_no_place_away() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path()).unwrap();
    for _ in 0..2 * READERS_MAX {
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = store.read(&mut |_| std::panic::resume_unwind(Box::new("on purpose")));
        }));
        assert!(panicked.is_err());
    }
    assert_eq!(store.pool().open, 0);
    assert!(load(&store, 1).unwrap().is_none());
}
