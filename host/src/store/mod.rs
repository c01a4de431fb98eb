//! What is remembered: tasks and everything that is told of them. Backends store and find; they decide nothing.
//!
//! [`Read`] and [`Write`] are what a backend can do within one transaction, [`life`] is the one way in which a task
//! changes, and [`Store`] is the handle that the host holds: it queues writes into groups, one commit for each group.

#[cfg(test)]
mod contract;
mod handle;
pub mod life;
pub mod memory;
mod rows;
pub mod sqlite;

use std::path::PathBuf;
use std::sync::Arc;

pub use handle::Store;
pub use rows::{
    AttemptRow, AuditRow, ComponentRow, Line, LogRow, OutboxRow, Pause, QueueRow, ResultRow, TaskFilter, TypeRow,
};

use crate::id::{Digest, QueueName, TaskId, TypeName};
use crate::schedule::Candidate;
use crate::task::{Corrupt, Task};
use crate::time::Timestamp;

/// The store could not do what it was asked to. Nothing of the transaction was written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The database or the disk failed.
    #[error("the store failed to {what}")]
    Backend { what: &'static str, source: Arc<dyn std::error::Error + Send + Sync> },
    /// A row is not what it should be.
    #[error("task `{id}` is damaged in the store")]
    Corrupt { id: TaskId, source: Corrupt },
    /// A stored field does not parse.
    #[error("the store holds `{value}` where {expected} should be")]
    Unreadable { expected: &'static str, value: String },
    /// The row changed between load and replace; a single writer never sees this.
    #[error("task `{id}` was changed by another writer")]
    Conflict { id: TaskId },
    /// Another process has the store.
    #[error("`{}` is in use by another atropos process", path.display())]
    InUse { path: PathBuf },
    /// The database was written by a newer program.
    #[error("the database has schema version {found}, and this program knows versions up to {known}")]
    SchemaTooNew { found: i64, known: i64 },
    /// The store was closed before the write was on disk.
    #[error("the store is closed")]
    Closed,
}

/// What can be asked. Within a write it sees the transaction's own changes.
pub trait Read {
    fn task(&self, id: TaskId) -> Result<Option<Task>, StoreError>;
    /// The task that holds this deduplication key of this type.
    fn holder_of(&self, task_type: &TypeName, key: &str) -> Result<Option<Task>, StoreError>;
    /// Newest first, older than `before`.
    fn tasks(&self, filter: &TaskFilter, before: Option<TaskId>, limit: usize) -> Result<Vec<Task>, StoreError>;
    fn input(&self, id: TaskId) -> Result<Option<Arc<str>>, StoreError>;
    fn result(&self, id: TaskId) -> Result<Option<ResultRow>, StoreError>;
    /// In the order of writing, after the row with this number.
    fn audit(&self, id: TaskId, after: u64, limit: usize) -> Result<Vec<AuditRow>, StoreError>;
    /// The attempts that are over, first to last.
    fn attempts(&self, id: TaskId) -> Result<Vec<AttemptRow>, StoreError>;
    /// In the order of writing, after the row with this number.
    fn logs(&self, id: TaskId, after: u64, limit: usize) -> Result<Vec<LogRow>, StoreError>;

    /// The lines (queue and priority) in which tasks are pending, whether or not they are ready.
    fn lines(&self) -> Result<Vec<Line>, StoreError>;
    /// Pending tasks of one line with `ready_at` up to `now`, longest ready first; ties by id.
    fn ready_in(&self, line: &Line, now: Timestamp, limit: usize) -> Result<Vec<Candidate>, StoreError>;
    /// When the next pending task of the line becomes ready, after `now`.
    fn next_ready_in(&self, line: &Line, now: Timestamp) -> Result<Option<Timestamp>, StoreError>;
    /// Pending tasks whose alarm is at or before `now`, soonest first.
    fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<TaskId>, StoreError>;
    /// The soonest alarm of a pending task.
    fn next_alarm_at(&self) -> Result<Option<Timestamp>, StoreError>;
    /// Every running task.
    fn running(&self) -> Result<Vec<Task>, StoreError>;
    fn pending_count(&self, queue: &QueueName) -> Result<u64, StoreError>;

    fn component(&self, digest: Digest) -> Result<Option<ComponentRow>, StoreError>;
    /// Newest first.
    fn components(&self) -> Result<Vec<ComponentRow>, StoreError>;
    /// The latest version, or the one asked for.
    fn task_type(&self, name: &TypeName, version: Option<u32>) -> Result<Option<TypeRow>, StoreError>;
    /// The latest version of each, by name.
    fn task_types(&self) -> Result<Vec<TypeRow>, StoreError>;
    /// All versions of one, latest first.
    fn type_versions(&self, name: &TypeName) -> Result<Vec<TypeRow>, StoreError>;
    /// How this queue is paused, if it is.
    fn pause(&self, queue: &QueueName) -> Result<Option<Pause>, StoreError>;
    /// Every queue that is paused or has live tasks, by name.
    fn queues(&self) -> Result<Vec<QueueRow>, StoreError>;
    /// In the order of writing, after the row with this number.
    fn outbox(&self, after: u64, limit: usize) -> Result<Vec<OutboxRow>, StoreError>;
}

/// What can be changed, all of it within one transaction.
pub trait Write: Read {
    /// A new task. `takes_key` tells whether it holds its deduplication key from now on.
    fn insert(&mut self, task: &Task, input: Option<&str>, takes_key: bool) -> Result<(), StoreError>;
    /// Replaces the state and version of a task whose version is still `seen`; false if it is not.
    /// `keeps_key` tells whether it goes on holding its deduplication key, if it has one.
    fn replace(&mut self, task: &Task, seen: u64, keeps_key: bool) -> Result<bool, StoreError>;
    /// Gives the row its number.
    fn append_audit(&mut self, row: &AuditRow) -> Result<u64, StoreError>;
    /// Gives the row its number.
    fn append_outbox(&mut self, row: &OutboxRow) -> Result<u64, StoreError>;
    fn append_attempt(&mut self, row: &AttemptRow) -> Result<(), StoreError>;
    fn put_result(&mut self, row: &ResultRow) -> Result<(), StoreError>;
    /// Appends lines of one attempt and forgets those of it with a number below `keep_from`.
    fn append_logs(
        &mut self,
        id: TaskId,
        attempt: u32,
        lines: &[crate::task::LogLine],
        keep_from: u64,
    ) -> Result<(), StoreError>;
    /// A write that changes nothing that can be read: it shows whether writes reach the disk, if there is one.
    fn touch(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
    /// Does nothing if it is there already.
    fn put_component(&mut self, row: &ComponentRow) -> Result<(), StoreError>;
    fn put_type(&mut self, row: &TypeRow) -> Result<(), StoreError>;
    /// `None` lifts the pause.
    fn set_pause(&mut self, queue: &QueueName, pause: Option<&Pause>) -> Result<(), StoreError>;
}

/// A place where all this is kept.
pub trait Backend: Send + Sync + 'static {
    /// One transaction: it is on disk when this returns `Ok`, and undone if `run` or the commit fails.
    ///
    /// # Errors
    /// What `run` gave, or the failure of the backend.
    fn write(&self, run: &mut dyn FnMut(&mut dyn Write) -> Result<(), StoreError>) -> Result<(), StoreError>;

    /// One consistent view. Runs beside writes, and beside other reads.
    ///
    /// # Errors
    /// What `run` gave, or the failure of the backend.
    fn read(&self, run: &mut dyn FnMut(&dyn Read) -> Result<(), StoreError>) -> Result<(), StoreError>;

    /// Nothing is written any more: another owner may come. Reads go on as long as somebody has a handle.
    fn release(&self) {}
}
