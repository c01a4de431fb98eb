//! The rows beside the task itself.

use std::sync::Arc;

use crate::id::{Digest, NodeId, QueueName, TaskId, TraceParent, TypeName};
use crate::task::{CostReceipt, Kind, LogLine, Progress, Reason, Scene, StopReceipt, TermsDraft};
use crate::time::Timestamp;

/// Which tasks a list shows. Empty: all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskFilter {
    pub kinds: Vec<Kind>,
    pub task_type: Option<TypeName>,
    pub queue: Option<QueueName>,
    pub label: Option<(String, String)>,
    pub creator: Option<String>,
    /// 32 hexadecimal digits.
    pub trace_id: Option<String>,
    pub created_from: Option<Timestamp>,
    /// Not including.
    pub created_to: Option<Timestamp>,
}

/// One change of a task: who, when, why, from what, to what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRow {
    /// Given by the store; counts up in the order of writing.
    pub number: u64,
    pub task: TaskId,
    pub at: Timestamp,
    pub from: Option<Kind>,
    pub to: Kind,
    pub reason: Reason,
    pub by: Arc<str>,
    pub detail: Arc<str>,
    pub attempt: u32,
    pub generation: u32,
    pub trace: TraceParent,
}

/// An event for the world, written with the change it tells of. Its contents are those of the audit row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxRow {
    /// Given by the store; counts up in the order of writing.
    pub number: u64,
    pub task: TaskId,
    /// `task.created`, `task.running`, `task.stopping`, `task.attempt_ended`, `task.success` and so on.
    pub event: Arc<str>,
    /// The number of the audit row.
    pub audit: u64,
    pub created_at: Timestamp,
}

/// An attempt that is over.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptRow {
    pub task: TaskId,
    pub attempt: u32,
    pub generation: u32,
    pub node: NodeId,
    pub claimed_at: Timestamp,
    pub entered_at: Option<Timestamp>,
    pub heartbeat_at: Option<Timestamp>,
    pub ended_at: Timestamp,
    /// How the attempt ended, whatever became of the task.
    pub outcome: Kind,
    pub reason: Reason,
    pub detail: Arc<str>,
    pub cost: CostReceipt,
    pub stop: Option<StopReceipt>,
    pub scene: Option<Scene>,
    pub progress: Option<Progress>,
}

/// What a task came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultRow {
    pub task: TaskId,
    pub attempt: u32,
    /// JSON.
    pub result: Arc<str>,
    pub at: Timestamp,
}

/// A log line with its number in the store, which counts up in the order of writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRow {
    pub number: u64,
    pub attempt: u32,
    pub line: LogLine,
}

/// Tasks of one queue and one priority.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Line {
    pub queue: QueueName,
    pub priority: i8,
}

/// A component that was uploaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComponentRow {
    pub digest: Digest,
    pub bytes: u64,
    pub uploaded_at: Timestamp,
    pub uploaded_by: Arc<str>,
    pub imports: Vec<String>,
    pub exports: Vec<String>,
}

/// One version of a task type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeRow {
    pub name: TypeName,
    /// From 1.
    pub version: u32,
    pub component: Digest,
    pub terms: TermsDraft,
    /// JSON Schema of the input.
    pub input_schema: Option<Arc<str>>,
    pub created_at: Timestamp,
    pub created_by: Arc<str>,
}

/// Nothing of the queue starts; with `below`, nothing of a lower priority than that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    pub below: Option<i8>,
    pub by: Arc<str>,
    pub why: Arc<str>,
    pub at: Timestamp,
}

impl Pause {
    /// Whether it holds back a task of this priority.
    #[must_use]
    pub fn holds(&self, priority: i8) -> bool {
        self.below.is_none_or(|below| priority < below)
    }
}

/// A queue as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueRow {
    pub name: QueueName,
    pub pause: Option<Pause>,
    pub pending: u64,
    pub running: u64,
    /// Since when the longest waiting task has been ready.
    pub oldest_ready_at: Option<Timestamp>,
}
