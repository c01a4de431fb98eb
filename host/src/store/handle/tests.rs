//! What the handle adds to a backend: order, groups, and failures that stay alone.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::id::{Digest, NodeId, QueueName, TaskId, TraceParent};
use crate::store::OutboxRow;
use crate::store::life::{self, Born, Submission};
use crate::store::memory::Memory;
use crate::store::sqlite::Sqlite;
use crate::task::{DedupScope, Spec, TermsDraft};
use crate::time::Timestamp;

fn on_disk() -> (Store, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (Store::new(Sqlite::open(folder.path()).unwrap()).unwrap(), folder)
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn event(name: &str) -> OutboxRow {
    OutboxRow {
        number: 0,
        task: TaskId::from_bytes([1; 16]),
        event: name.into(),
        audit: 1,
        created_at: Timestamp::default(),
    }
}

/// A write of one event.
fn tell(store: &Store, name: &str) -> impl Future<Output = Result<u64, StoreError>> + Send + use<> {
    let row = event(name);
    store.write(move |tx| tx.append_outbox(&row))
}

fn told(store: &Store) -> Vec<String> {
    let mut rows = Vec::new();
    let read = &mut |view: &dyn Read| {
        rows = view.outbox(0, 10_000)?;
        Ok(())
    };
    store.inner.backend.read(read).unwrap();
    rows.into_iter().map(|row| row.event.to_string()).collect()
}

/// Keeps the writer busy until the sender is dropped, so that what is asked meanwhile shares a commit.
fn busy(store: &Store) -> mpsc::Sender<()> {
    let (free, wait) = mpsc::channel::<()>();
    let (begun, begins) = mpsc::channel();
    let mut wait = Some(wait);
    drop(store.write(move |_| {
        begun.send(()).unwrap();
        if let Some(wait) = wait.take() {
            assert!(wait.recv().is_err(), "the sender was dropped");
        }
        Ok(())
    }));
    begins.recv().unwrap();
    free
}

#[test]
fn writes_happen_in_the_order_they_were_asked_for() {
    let (store, _folder) = on_disk();
    let names: Vec<String> = (0..500).map(|n| n.to_string()).collect();
    let numbers = block_on(async {
        let answers: Vec<_> = names.iter().map(|name| tell(&store, name)).collect();
        let mut numbers = Vec::new();
        for answer in answers {
            numbers.push(answer.await.unwrap());
        }
        numbers
    });
    assert_eq!(numbers, (1..=500).collect::<Vec<_>>());
    assert_eq!(told(&store), names);
}

#[test]
fn what_follows_a_write_runs_in_the_order_of_the_writes() {
    let store = Store::new(Memory::default()).unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let answers: Vec<_> = (0..100)
        .map(|n| {
            let order = Arc::clone(&order);
            store.write_then(move |_| Ok(n), move |n| order.lock().unwrap().push(n))
        })
        .collect();
    block_on(async {
        for answer in answers {
            answer.await.unwrap();
        }
    });
    assert_eq!(*order.lock().unwrap(), (0..100).collect::<Vec<_>>());
}

#[test]
fn a_write_happens_even_if_nobody_waits_for_it() {
    let (store, _folder) = on_disk();
    drop(tell(&store, "unheard"));
    block_on(tell(&store, "heard")).unwrap();
    assert_eq!(told(&store), ["unheard", "heard"]);
}

/// One of many writes that share a commit goes wrong, as `fails` says.
fn one_of_a_group_goes_wrong(fails: fn() -> Result<u64, StoreError>) {
    let (store, _folder) = on_disk();
    let free = busy(&store);
    let before: Vec<_> = ["a", "b"].map(|name| tell(&store, name)).into();
    let row = event("lost");
    let wrong = store.write(move |tx| {
        tx.append_outbox(&row)?;
        fails()
    });
    let after: Vec<_> = ["c", "d"].map(|name| tell(&store, name)).into();
    drop(free);
    block_on(async {
        assert!(matches!(wrong.await, Err(StoreError::Backend { .. })));
        let mut numbers = Vec::new();
        for answer in before.into_iter().chain(after) {
            numbers.push(answer.await.unwrap());
        }
        assert_eq!(numbers, [1, 2, 3, 4]);
    });
    assert_eq!(told(&store), ["a", "b", "c", "d"]);
}

#[test]
fn one_failing_write_of_a_group_fails_alone() {
    one_of_a_group_goes_wrong(|| {
        Err(StoreError::Backend { what: "try", source: Arc::new(std::io::Error::other("on purpose")) })
    });
}

#[test]
fn a_panicking_write_of_a_group_fails_alone() {
    one_of_a_group_goes_wrong(|| std::panic::resume_unwind(Box::new("on purpose")));
}

#[test]
fn a_panic_in_what_follows_does_not_end_the_writer() {
    let store = Store::new(Memory::default()).unwrap();
    let row = event("stands");
    let panics = store
        .write_then(move |tx| tx.append_outbox(&row), |_| -> u64 { std::panic::resume_unwind(Box::new("on purpose")) });
    assert!(block_on(panics).is_err());
    block_on(tell(&store, "next")).unwrap();
    assert_eq!(told(&store), ["stands", "next"]);
}

/// A backend whose commit fails while more than so many writes share it.
struct Narrow {
    memory: Memory,
    commits: Arc<AtomicUsize>,
}

impl Backend for Narrow {
    fn write(&self, run: &mut dyn FnMut(&mut dyn Write) -> Result<(), StoreError>) -> Result<(), StoreError> {
        self.memory.write(&mut |tx| {
            let before = tx.outbox(0, 999)?.len();
            run(tx)?;
            if tx.outbox(0, 999)?.len() > before + 1 { Err(StoreError::Closed) } else { Ok(()) }
        })?;
        self.commits.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn read(&self, run: &mut dyn FnMut(&dyn Read) -> Result<(), StoreError>) -> Result<(), StoreError> {
        self.memory.read(run)
    }
}

#[test]
fn a_commit_that_fails_for_no_writes_fault_is_tried_in_parts() {
    let commits = Arc::new(AtomicUsize::new(0));
    let store = Store::new(Narrow { memory: Memory::default(), commits: Arc::clone(&commits) }).unwrap();
    let free = busy(&store);
    let names = ["a", "b", "c", "d", "e"];
    let answers = names.map(|name| tell(&store, name));
    drop(free);
    block_on(async {
        for answer in answers {
            answer.await.unwrap();
        }
    });
    assert_eq!(told(&store), names);
    assert!(commits.load(Ordering::Relaxed) >= names.len());
}

#[test]
fn closing_writes_what_was_asked_for_and_takes_nothing_more() {
    let (store, folder) = on_disk();
    let free = busy(&store);
    let names: Vec<String> = (0..200).map(|n| n.to_string()).collect();
    for name in &names {
        drop(tell(&store, name));
    }
    let closing = std::thread::spawn({
        let store = store.clone();
        move || store.close()
    });
    drop(free);
    closing.join().unwrap();
    assert_eq!(told(&store), names);
    assert!(matches!(block_on(tell(&store, "late")), Err(StoreError::Closed)));
    store.close();
    drop(store);
    let store = Store::new(Sqlite::open(folder.path()).unwrap()).unwrap();
    assert_eq!(told(&store), names, "the last handle gave the folder back");
}

fn keyed(id: u8) -> Submission {
    let draft = TermsDraft { run_timeout: Some(Duration::from_secs(1)), ..TermsDraft::default() };
    let spec = Spec {
        id: TaskId::from_bytes([id; 16]),
        task_type: "t".parse().unwrap(),
        component: Some((1, Digest::of(b""))),
        queue: QueueName::default(),
        priority: 0,
        dedup_key: Some("k".into()),
        dedup_scope: DedupScope::Live,
        creator: None,
        request_id: None,
        trace: TraceParent::generate(),
        labels: Vec::new(),
        created_at: Timestamp::from_micros(5),
        run_after: None,
        terms: draft.resolve(Duration::ZERO).unwrap(),
    };
    Submission { spec: Arc::new(spec), input: None, refusal: None, claim: Some(NodeId::from_bytes([1; 16])) }
}

#[test]
fn of_a_hundred_at_once_with_one_key_one_is_born() {
    let (store, _folder) = on_disk();
    let threads: Vec<_> = (0..100)
        .map(|n| {
            let (store, submission) = (store.clone(), keyed(n));
            std::thread::spawn(move || block_on(store.write(move |tx| life::submit(tx, &submission))).unwrap())
        })
        .collect();
    let born: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    let new: Vec<_> = born.iter().filter(|born| matches!(born, Born::New { .. })).collect();
    let [Born::New { task: first, .. }] = new[..] else { panic!("{} were born", new.len()) };
    for born in &born {
        let (Born::New { task, .. } | Born::Existing(task)) = born;
        assert_eq!(task.spec.id, first.spec.id);
    }
    assert_eq!(told(&store), ["task.created", "task.running"]);
}
