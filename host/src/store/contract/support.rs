//! Tasks to try things with, and short ways to write and to ask.

use std::sync::Arc;
use std::time::Duration;

use crate::id::{Digest, NodeId, TaskId, TraceParent};
use crate::store::life::{self, Born, Change, Finish, Submission};
use crate::store::sqlite::Sqlite;
use crate::store::{Backend, ComponentRow, Read, StoreError, Write};
use crate::task::{Ask, CostReceipt, DedupScope, Ending, Event, Kind, Spec, Task, Terms, TermsDraft, birth};
use crate::time::Timestamp;

pub(super) const NODE: NodeId = NodeId::from_bytes([0xab; 16]);

pub(super) fn on_disk() -> (Sqlite, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (Sqlite::open(folder.path()).unwrap(), folder)
}

/// So many milliseconds after the beginning of the test.
pub(super) fn at(millis: i64) -> Timestamp {
    Timestamp::from_micros((1_900_000_000_000 + millis) * 1000)
}

/// An id that was made at this time.
pub(super) fn id(millis: i64) -> TaskId {
    let mut bytes = [7; 16];
    bytes[..6].copy_from_slice(&(1_900_000_000_000 + millis).to_be_bytes()[2..]);
    TaskId::from_bytes(bytes)
}

pub(super) fn digest() -> Digest {
    Digest::of(b"a component")
}

pub(super) fn terms() -> Terms {
    let draft = TermsDraft { run_timeout: Some(Duration::from_mins(1)), ..TermsDraft::default() };
    draft.resolve(Duration::ZERO).unwrap()
}

/// A plain task, born at this time.
pub(super) fn spec(millis: i64) -> Spec {
    Spec {
        id: id(millis),
        task_type: "export".parse().unwrap(),
        component: Some((1, digest())),
        queue: "default".parse().unwrap(),
        priority: 0,
        dedup_key: None,
        dedup_scope: DedupScope::Record,
        creator: None,
        request_id: None,
        trace: format!("00-{millis:032x}-00000000000000ab-01")
            .replace("00-00000000000000000000000000000000-", "00-0000000000000000000000000000ffff-")
            .parse()
            .unwrap(),
        labels: Vec::new(),
        created_at: at(millis),
        run_after: None,
        terms: terms(),
    }
}

pub(super) fn trace(text: &str) -> TraceParent {
    text.parse().unwrap()
}

/// The task as it is born, without a store.
pub(super) fn newborn(spec: Spec) -> Task {
    let state = birth(&spec, None).state;
    Task { spec: Arc::new(spec), state, version: 1 }
}

pub(super) fn write<T>(
    backend: &dyn Backend,
    mut run: impl FnMut(&mut dyn Write) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let mut value = None;
    backend.write(&mut |tx| {
        value = Some(run(tx)?);
        Ok(())
    })?;
    Ok(value.unwrap())
}

pub(super) fn read<T>(backend: &dyn Backend, mut run: impl FnMut(&dyn Read) -> Result<T, StoreError>) -> T {
    let mut value = None;
    backend
        .read(&mut |view| {
            value = Some(run(view)?);
            Ok(())
        })
        .unwrap();
    value.unwrap()
}

pub(super) fn load(backend: &dyn Backend, id: TaskId) -> Task {
    read(backend, |view| view.task(id)).unwrap()
}

pub(super) fn kind(backend: &dyn Backend, id: TaskId) -> Kind {
    load(backend, id).state.kind()
}

pub(super) fn submission(spec: Spec) -> Submission {
    Submission { spec: Arc::new(spec), input: Some("{}".into()), refusal: None, claim: None }
}

pub(super) fn submit(backend: &dyn Backend, spec: Spec) -> Born {
    let submission = submission(spec);
    write(backend, |tx| life::submit(tx, &submission)).unwrap()
}

/// Submits all of them in one transaction.
pub(super) fn submit_all(backend: &dyn Backend, specs: impl IntoIterator<Item = Spec>) {
    let all: Vec<_> = specs.into_iter().map(submission).collect();
    write(backend, |tx| all.iter().try_for_each(|one| life::submit(tx, one).map(drop))).unwrap();
}

/// Submits with a free slot at hand.
pub(super) fn submit_to_start(backend: &dyn Backend, spec: Spec) -> Task {
    let submission = Submission { claim: Some(NODE), ..submission(spec) };
    match write(backend, |tx| life::submit(tx, &submission)).unwrap() {
        Born::New { task, .. } => task,
        Born::Existing(task) => panic!("there was one already: {task:?}"),
    }
}

pub(super) fn put_component(backend: &dyn Backend) {
    write(backend, |tx| tx.put_component(&component())).unwrap();
}

pub(super) fn component() -> ComponentRow {
    ComponentRow {
        digest: digest(),
        bytes: 4096,
        uploaded_at: at(0),
        uploaded_by: "ann".into(),
        imports: vec!["wasi:clocks".into(), "atropos:task/log".into()],
        exports: vec!["run".into()],
    }
}

pub(super) fn change(backend: &dyn Backend, id: TaskId, event: &Event, now: Timestamp) -> Change {
    write(backend, |tx| life::change(tx, id, event.clone(), now)).unwrap()
}

pub(super) fn claim(backend: &dyn Backend, slots: usize, claims: u64, now: Timestamp) -> Vec<TaskId> {
    let changes = write(backend, |tx| life::claim(tx, NODE, slots, claims, now)).unwrap();
    let id = |change| match change {
        Change::Done { task, .. } => task.spec.id,
        other => panic!("{other:?}"),
    };
    changes.into_iter().map(id).collect()
}

pub(super) fn ended(task: TaskId, attempt: u32, ending: Ending, gone_at: Timestamp) -> Finish {
    Finish {
        task,
        attempt,
        result: (ending == Ending::Succeeded).then(|| "[1]".into()),
        ending,
        owed: None,
        cost: CostReceipt { wall_micros: 17, ..CostReceipt::default() },
        scene: None,
        progress: None,
        entered_at: None,
        heartbeat_at: None,
        told_at: None,
        seen_at: None,
        killed_at: None,
        gone_at,
    }
}

pub(super) fn finish(backend: &dyn Backend, finish: &Finish) -> Change {
    write(backend, |tx| life::finish(tx, finish, finish.gone_at)).unwrap()
}

pub(super) fn ask(why: &str) -> Ask {
    Ask { by: "ann".into(), why: why.into() }
}

pub(super) fn cancel() -> Event {
    Event::CancelAsked { ask: ask("no longer wanted"), grace: None }
}

/// Everything that can be asked about these tasks, in words.
pub(super) fn everything(backend: &dyn Backend, ids: &[TaskId], now: Timestamp) -> String {
    read(backend, |view| {
        let mut told = Vec::new();
        for id in ids {
            told.push(format!("{:?}", view.task(*id)?));
            told.push(format!("{:?} {:?}", view.input(*id)?, view.result(*id)?));
            told.push(format!("{:?}", view.audit(*id, 0, 1_000)?));
            told.push(format!("{:?}", view.attempts(*id)?));
            told.push(format!("{:?}", view.logs(*id, 0, 1_000)?));
        }
        let listed = view.tasks(&crate::store::TaskFilter::default(), None, 10_000)?;
        told.push(format!("{:?}", listed.iter().map(|task| task.spec.id.to_string()).collect::<Vec<_>>()));
        for line in view.lines()? {
            told.push(format!("{line:?} {:?}", view.ready_in(&line, now, 100)?));
            told.push(format!("{:?} {}", view.next_ready_in(&line, now)?, view.pending_count(&line.queue)?));
        }
        told.push(format!("{:?} {:?}", view.due(now, 100)?, view.next_alarm_at()?));
        told.push(format!("{:?}", view.running()?));
        told.push(format!("{:?}", view.queues()?));
        told.push(format!("{:?}", view.outbox(0, 10_000)?));
        told.push(format!("{:?} {:?}", view.components()?, view.task_types()?));
        Ok(told.join("\n"))
    })
}
