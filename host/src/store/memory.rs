//! The store in memory, for throw-away hosts; nothing of it survives the process.
//!
//! Changes are made in place, and each leaves what undoes it: a failed transaction is taken back from the end.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use super::{
    AttemptRow, AuditRow, Backend, ComponentRow, Line, LogRow, OutboxRow, Pause, QueueRow, Read, ResultRow, StoreError,
    TaskFilter, TypeRow, Write,
};
use crate::id::{Digest, QueueName, TaskId, TypeName};
use crate::schedule::Candidate;
use crate::task::{LogLine, State, Task, Vitals};
use crate::time::Timestamp;

/// A store without a disk.
#[derive(Debug, Default)]
pub struct Memory {
    tables: RwLock<Tables>,
}

/// A task, and whether it holds its deduplication key.
#[derive(Clone, Debug)]
struct Row {
    task: Task,
    holds_key: bool,
}

#[derive(Debug, Default)]
struct Tables {
    tasks: BTreeMap<TaskId, Row>,
    pending: BTreeMap<Line, BTreeSet<(Timestamp, TaskId)>>,
    alarms: BTreeSet<(Timestamp, TaskId)>,
    running: BTreeSet<TaskId>,
    keys: HashMap<(TypeName, Arc<str>), TaskId>,
    inputs: HashMap<TaskId, Arc<str>>,
    results: HashMap<TaskId, ResultRow>,
    attempts: HashMap<TaskId, BTreeMap<u32, AttemptRow>>,
    audit: Vec<AuditRow>,
    audit_of: HashMap<TaskId, Vec<usize>>,
    outbox: Vec<OutboxRow>,
    logs: HashMap<TaskId, BTreeMap<u64, LogRow>>,
    log_lines: BTreeMap<(TaskId, u32, u64), u64>,
    logs_given: u64,
    components: HashMap<Digest, ComponentRow>,
    types: BTreeMap<TypeName, BTreeMap<u32, TypeRow>>,
    pauses: BTreeMap<QueueName, Pause>,
}

/// What the store refuses, as a database would.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refusal(&'static str);

fn refuse(what: &'static str, why: &'static str) -> StoreError {
    StoreError::Backend { what, source: Arc::new(Refusal(why)) }
}

impl Tables {
    fn line_of(task: &Task) -> Line {
        Line { queue: task.spec.queue.clone(), priority: task.spec.priority }
    }

    fn alarm_of(task: &Task) -> Option<Timestamp> {
        task.alarm(Vitals::default()).map(|(at, _)| at)
    }

    /// Puts a row where the look-ups find it.
    fn put(&mut self, row: Row) {
        let id = row.task.spec.id;
        match &row.task.state {
            State::Pending(pending) => {
                self.pending.entry(Self::line_of(&row.task)).or_default().insert((pending.ready_at(), id));
                self.alarms.extend(Self::alarm_of(&row.task).map(|at| (at, id)));
            }
            State::Running(_) | State::Stopping(_) => drop(self.running.insert(id)),
            State::Ended(_) => {}
        }
        if let (true, Some(key)) = (row.holds_key, &row.task.spec.dedup_key) {
            self.keys.insert((row.task.spec.task_type.clone(), Arc::clone(key)), id);
        }
        self.tasks.insert(id, row);
    }

    /// Takes a row away, and gives it.
    fn take(&mut self, id: TaskId) -> Option<Row> {
        let row = self.tasks.remove(&id)?;
        match &row.task.state {
            State::Pending(pending) => {
                let line = Self::line_of(&row.task);
                if let Some(waiting) = self.pending.get_mut(&line) {
                    waiting.remove(&(pending.ready_at(), id));
                    if waiting.is_empty() {
                        self.pending.remove(&line);
                    }
                }
                if let Some(at) = Self::alarm_of(&row.task) {
                    self.alarms.remove(&(at, id));
                }
            }
            State::Running(_) | State::Stopping(_) => drop(self.running.remove(&id)),
            State::Ended(_) => {}
        }
        if let (true, Some(key)) = (row.holds_key, &row.task.spec.dedup_key) {
            self.keys.remove(&(row.task.spec.task_type.clone(), Arc::clone(key)));
        }
        Some(row)
    }

    /// Whether another task holds the key that this one would take.
    fn key_is_taken(&self, row: &Row) -> bool {
        let spec = &row.task.spec;
        let key = spec.dedup_key.as_ref().filter(|_| row.holds_key);
        let holder = key.and_then(|key| self.keys.get(&(spec.task_type.clone(), Arc::clone(key))));
        holder.is_some_and(|holder| *holder != spec.id)
    }

    fn next_in(&self, line: &Line, after: Timestamp) -> Option<Timestamp> {
        let last = (after, TaskId::from_bytes([0xff; 16]));
        self.pending
            .get(line)?
            .range((std::ops::Bound::Excluded(last), std::ops::Bound::Unbounded))
            .next()
            .map(|(at, _)| *at)
    }
}

fn shows(filter: &TaskFilter, task: &Task) -> bool {
    let spec = &task.spec;
    let label = |(name, value): &(String, String)| {
        spec.labels.iter().any(|(n, v)| **n == *name.as_str() && **v == *value.as_str())
    };
    (filter.kinds.is_empty() || filter.kinds.contains(&task.state.kind()))
        && filter.task_type.as_ref().is_none_or(|name| *name == spec.task_type)
        && filter.queue.as_ref().is_none_or(|queue| *queue == spec.queue)
        && filter.label.as_ref().is_none_or(label)
        && filter.creator.as_deref().is_none_or(|creator| spec.creator.as_deref() == Some(creator))
        && filter.trace_id.as_ref().is_none_or(|id| id.eq_ignore_ascii_case(spec.trace.trace_id()))
        && filter.created_from.is_none_or(|from| spec.created_at >= from)
        && filter.created_to.is_none_or(|to| spec.created_at < to)
}

fn after<T: Clone>(rows: &[T], number: u64, limit: usize) -> Vec<T> {
    // The row with number n stands at place n − 1.
    let start = usize::try_from(number).unwrap_or(usize::MAX).min(rows.len());
    rows[start..].iter().take(limit).cloned().collect()
}

impl Read for Tables {
    fn task(&self, id: TaskId) -> Result<Option<Task>, StoreError> {
        Ok(self.tasks.get(&id).map(|row| row.task.clone()))
    }

    fn holder_of(&self, task_type: &TypeName, key: &str) -> Result<Option<Task>, StoreError> {
        let holder = self.keys.get(&(task_type.clone(), key.into()));
        holder.map_or(Ok(None), |id| self.task(*id))
    }

    fn tasks(&self, filter: &TaskFilter, before: Option<TaskId>, limit: usize) -> Result<Vec<Task>, StoreError> {
        let older: Box<dyn Iterator<Item = &Row>> = match before {
            Some(id) => Box::new(self.tasks.range(..id).rev().map(|(_, row)| row)),
            None => Box::new(self.tasks.values().rev()),
        };
        Ok(older.map(|row| &row.task).filter(|task| shows(filter, task)).take(limit).cloned().collect())
    }

    fn input(&self, id: TaskId) -> Result<Option<Arc<str>>, StoreError> {
        Ok(self.inputs.get(&id).cloned())
    }

    fn result(&self, id: TaskId) -> Result<Option<ResultRow>, StoreError> {
        Ok(self.results.get(&id).cloned())
    }

    fn audit(&self, id: TaskId, after: u64, limit: usize) -> Result<Vec<AuditRow>, StoreError> {
        let places = self.audit_of.get(&id).into_iter().flatten();
        let rows = places.filter_map(|place| self.audit.get(*place)).filter(|row| row.number > after);
        Ok(rows.take(limit).cloned().collect())
    }

    fn attempts(&self, id: TaskId) -> Result<Vec<AttemptRow>, StoreError> {
        Ok(self.attempts.get(&id).into_iter().flat_map(BTreeMap::values).cloned().collect())
    }

    fn logs(&self, id: TaskId, after: u64, limit: usize) -> Result<Vec<LogRow>, StoreError> {
        let rows = self.logs.get(&id).into_iter().flat_map(BTreeMap::values).filter(|row| row.number > after);
        Ok(rows.take(limit).cloned().collect())
    }

    fn lines(&self) -> Result<Vec<Line>, StoreError> {
        Ok(self.pending.keys().cloned().collect())
    }

    fn ready_in(&self, line: &Line, now: Timestamp, limit: usize) -> Result<Vec<Candidate>, StoreError> {
        let ready = self.pending.get(line).into_iter().flatten().take_while(|(at, _)| *at <= now).take(limit);
        Ok(ready.map(|(at, id)| Candidate { id: *id, priority: line.priority, ready_at: *at }).collect())
    }

    fn next_ready_in(&self, line: &Line, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.next_in(line, now))
    }

    fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<TaskId>, StoreError> {
        Ok(self.alarms.iter().take_while(|(at, _)| *at <= now).take(limit).map(|(_, id)| *id).collect())
    }

    fn next_alarm_at(&self) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.alarms.first().map(|(at, _)| *at))
    }

    fn running(&self) -> Result<Vec<Task>, StoreError> {
        Ok(self.running.iter().filter_map(|id| self.tasks.get(id)).map(|row| row.task.clone()).collect())
    }

    fn pending_count(&self, queue: &QueueName) -> Result<u64, StoreError> {
        let lines = self.pending.iter().filter(|(line, _)| line.queue == *queue);
        Ok(lines.map(|(_, waiting)| waiting.len() as u64).sum())
    }

    fn component(&self, digest: Digest) -> Result<Option<ComponentRow>, StoreError> {
        Ok(self.components.get(&digest).cloned())
    }

    fn components(&self) -> Result<Vec<ComponentRow>, StoreError> {
        let mut rows: Vec<_> = self.components.values().cloned().collect();
        rows.sort_unstable_by_key(|row| std::cmp::Reverse((row.uploaded_at, row.digest)));
        Ok(rows)
    }

    fn task_type(&self, name: &TypeName, version: Option<u32>) -> Result<Option<TypeRow>, StoreError> {
        let versions = self.types.get(name);
        Ok(versions.and_then(|versions| match version {
            Some(version) => versions.get(&version).cloned(),
            None => versions.values().next_back().cloned(),
        }))
    }

    fn task_types(&self) -> Result<Vec<TypeRow>, StoreError> {
        Ok(self.types.values().filter_map(|versions| versions.values().next_back()).cloned().collect())
    }

    fn type_versions(&self, name: &TypeName) -> Result<Vec<TypeRow>, StoreError> {
        Ok(self.types.get(name).into_iter().flat_map(|versions| versions.values().rev()).cloned().collect())
    }

    fn pause(&self, queue: &QueueName) -> Result<Option<Pause>, StoreError> {
        Ok(self.pauses.get(queue).cloned())
    }

    fn queues(&self) -> Result<Vec<QueueRow>, StoreError> {
        let mut found = BTreeMap::<QueueName, QueueRow>::new();
        let mut row = |name: &QueueName, change: &mut dyn FnMut(&mut QueueRow)| {
            let blank = || QueueRow { name: name.clone(), pause: None, pending: 0, running: 0, oldest_ready_at: None };
            change(found.entry(name.clone()).or_insert_with(blank));
        };
        for (name, pause) in &self.pauses {
            row(name, &mut |row| row.pause = Some(pause.clone()));
        }
        for (line, waiting) in &self.pending {
            row(&line.queue, &mut |row| {
                row.pending += waiting.len() as u64;
                let first = waiting.first().map(|(at, _)| *at);
                row.oldest_ready_at = row.oldest_ready_at.into_iter().chain(first).min();
            });
        }
        for task in self.running()? {
            row(&task.spec.queue, &mut |row| row.running += 1);
        }
        Ok(found.into_values().collect())
    }

    fn outbox(&self, number: u64, limit: usize) -> Result<Vec<OutboxRow>, StoreError> {
        Ok(after(&self.outbox, number, limit))
    }
}

type Undo = Box<dyn FnOnce(&mut Tables)>;

/// A transaction: undone when dropped, unless it was kept.
struct Open<'a> {
    tables: &'a mut Tables,
    undo: Vec<Undo>,
}

impl Open<'_> {
    fn on_undo(&mut self, undo: impl FnOnce(&mut Tables) + 'static) {
        self.undo.push(Box::new(undo));
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        while let Some(undo) = self.undo.pop() {
            undo(self.tables);
        }
    }
}

/// A transaction reads the tables as they are in it.
macro_rules! reads {
    ($($name:ident($($arg:ident: $of:ty),*) -> $gives:ty;)+) => {
        impl Read for Open<'_> {
            $(fn $name(&self $(, $arg: $of)*) -> Result<$gives, StoreError> {
                self.tables.$name($($arg),*)
            })+
        }
    };
}

reads! {
    task(id: TaskId) -> Option<Task>;
    holder_of(task_type: &TypeName, key: &str) -> Option<Task>;
    tasks(filter: &TaskFilter, before: Option<TaskId>, limit: usize) -> Vec<Task>;
    input(id: TaskId) -> Option<Arc<str>>;
    result(id: TaskId) -> Option<ResultRow>;
    audit(id: TaskId, after: u64, limit: usize) -> Vec<AuditRow>;
    attempts(id: TaskId) -> Vec<AttemptRow>;
    logs(id: TaskId, after: u64, limit: usize) -> Vec<LogRow>;
    lines() -> Vec<Line>;
    ready_in(line: &Line, now: Timestamp, limit: usize) -> Vec<Candidate>;
    next_ready_in(line: &Line, now: Timestamp) -> Option<Timestamp>;
    due(now: Timestamp, limit: usize) -> Vec<TaskId>;
    next_alarm_at() -> Option<Timestamp>;
    running() -> Vec<Task>;
    pending_count(queue: &QueueName) -> u64;
    component(digest: Digest) -> Option<ComponentRow>;
    components() -> Vec<ComponentRow>;
    task_type(name: &TypeName, version: Option<u32>) -> Option<TypeRow>;
    task_types() -> Vec<TypeRow>;
    type_versions(name: &TypeName) -> Vec<TypeRow>;
    pause(queue: &QueueName) -> Option<Pause>;
    queues() -> Vec<QueueRow>;
    outbox(after: u64, limit: usize) -> Vec<OutboxRow>;
}

impl Write for Open<'_> {
    fn insert(&mut self, task: &Task, input: Option<&str>, takes_key: bool) -> Result<(), StoreError> {
        let what = "write a new task";
        let id = task.spec.id;
        let row = Row { task: task.clone(), holds_key: takes_key && task.spec.dedup_key.is_some() };
        if self.tables.tasks.contains_key(&id) {
            return Err(refuse(what, "there is a task with this id"));
        }
        if self.tables.key_is_taken(&row) {
            return Err(refuse(what, "another task holds its deduplication key"));
        }
        if !(-100..=100).contains(&task.spec.priority) {
            return Err(refuse(what, "its priority is not from -100 to 100"));
        }
        self.tables.put(row);
        if let Some(input) = input {
            self.tables.inputs.insert(id, input.into());
        }
        self.on_undo(move |tables| {
            tables.take(id);
            tables.inputs.remove(&id);
        });
        Ok(())
    }

    fn replace(&mut self, task: &Task, seen: u64, keeps_key: bool) -> Result<bool, StoreError> {
        let id = task.spec.id;
        if self.tables.tasks.get(&id).is_none_or(|row| row.task.version != seen) {
            return Ok(false);
        }
        let row = Row { task: task.clone(), holds_key: keeps_key && task.spec.dedup_key.is_some() };
        if self.tables.key_is_taken(&row) {
            return Err(refuse("write a task", "another task holds its deduplication key"));
        }
        let before = self.tables.take(id);
        self.tables.put(row);
        self.on_undo(move |tables| {
            tables.take(id);
            if let Some(row) = before {
                tables.put(row);
            }
        });
        Ok(true)
    }

    fn append_audit(&mut self, row: &AuditRow) -> Result<u64, StoreError> {
        let (id, place) = (row.task, self.tables.audit.len());
        let number = place as u64 + 1;
        self.tables.audit.push(AuditRow { number, ..row.clone() });
        self.tables.audit_of.entry(id).or_default().push(place);
        self.on_undo(move |tables| {
            tables.audit.pop();
            tables.audit_of.entry(id).or_default().pop();
        });
        Ok(number)
    }

    fn append_outbox(&mut self, row: &OutboxRow) -> Result<u64, StoreError> {
        let number = self.tables.outbox.len() as u64 + 1;
        self.tables.outbox.push(OutboxRow { number, ..row.clone() });
        self.on_undo(|tables| drop(tables.outbox.pop()));
        Ok(number)
    }

    fn append_attempt(&mut self, row: &AttemptRow) -> Result<(), StoreError> {
        let (id, number) = (row.task, row.attempt);
        let attempts = self.tables.attempts.entry(id).or_default();
        if attempts.contains_key(&number) {
            return Err(refuse("write an attempt", "it is there already"));
        }
        attempts.insert(number, row.clone());
        self.on_undo(move |tables| drop(tables.attempts.entry(id).or_default().remove(&number)));
        Ok(())
    }

    fn put_result(&mut self, row: &ResultRow) -> Result<(), StoreError> {
        let id = row.task;
        if self.tables.results.contains_key(&id) {
            return Err(refuse("write a result", "it is there already"));
        }
        self.tables.results.insert(id, row.clone());
        self.on_undo(move |tables| drop(tables.results.remove(&id)));
        Ok(())
    }

    fn append_logs(&mut self, id: TaskId, attempt: u32, lines: &[LogLine], keep_from: u64) -> Result<(), StoreError> {
        for line in lines.iter().filter(|line| line.number >= keep_from) {
            let place = (id, attempt, line.number);
            if self.tables.log_lines.contains_key(&place) {
                continue;
            }
            self.tables.logs_given += 1;
            let number = self.tables.logs_given;
            self.tables.log_lines.insert(place, number);
            self.tables.logs.entry(id).or_default().insert(number, LogRow { number, attempt, line: line.clone() });
            self.on_undo(move |tables| {
                tables.logs_given -= 1;
                tables.log_lines.remove(&place);
                tables.logs.entry(id).or_default().remove(&number);
            });
        }
        let old = self.tables.log_lines.range((id, attempt, 0)..(id, attempt, keep_from));
        let old: Vec<_> = old.map(|(place, number)| (*place, *number)).collect();
        for (place, number) in old {
            self.tables.log_lines.remove(&place);
            let row = self.tables.logs.entry(id).or_default().remove(&number);
            self.on_undo(move |tables| {
                tables.log_lines.insert(place, number);
                tables.logs.entry(id).or_default().extend(row.map(|row| (number, row)));
            });
        }
        Ok(())
    }

    fn put_component(&mut self, row: &ComponentRow) -> Result<(), StoreError> {
        let digest = row.digest;
        if let Entry::Vacant(place) = self.tables.components.entry(digest) {
            place.insert(row.clone());
            self.on_undo(move |tables| drop(tables.components.remove(&digest)));
        }
        Ok(())
    }

    fn put_type(&mut self, row: &TypeRow) -> Result<(), StoreError> {
        let (name, version) = (row.name.clone(), row.version);
        let versions = self.tables.types.entry(name.clone()).or_default();
        if versions.contains_key(&version) {
            return Err(refuse("write a task type", "this version is there already"));
        }
        versions.insert(version, row.clone());
        self.on_undo(move |tables| drop(tables.types.entry(name).or_default().remove(&version)));
        Ok(())
    }

    fn set_pause(&mut self, queue: &QueueName, pause: Option<&Pause>) -> Result<(), StoreError> {
        let queue = queue.clone();
        let before = match pause {
            Some(pause) => self.tables.pauses.insert(queue.clone(), pause.clone()),
            None => self.tables.pauses.remove(&queue),
        };
        self.on_undo(move |tables| match before {
            Some(pause) => drop(tables.pauses.insert(queue, pause)),
            None => drop(tables.pauses.remove(&queue)),
        });
        Ok(())
    }
}

impl Backend for Memory {
    fn write(&self, run: &mut dyn FnMut(&mut dyn Write) -> Result<(), StoreError>) -> Result<(), StoreError> {
        // A write that panicked was undone on its way out: nothing is half done behind a poisoned lock.
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        let mut open = Open { tables: &mut tables, undo: Vec::new() };
        run(&mut open)?;
        open.undo.clear();
        Ok(())
    }

    fn read(&self, run: &mut dyn FnMut(&dyn Read) -> Result<(), StoreError>) -> Result<(), StoreError> {
        run(&*self.tables.read().unwrap_or_else(PoisonError::into_inner))
    }
}
