//! What attempts leave: receipts, scenes, log lines, results; and the history of their task.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::kept_json;
use crate::host::AttemptView;
use crate::id::{NodeId, TaskId, TraceParent};
use crate::store::{AttemptRow, AuditRow, LogRow, ResultRow};
use crate::task::{self, Kind, LogLevel, Phase, Reason};
use crate::time::Timestamp;

/// How far a guest says it is, in its own unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Progress {
    pub done: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// One execution of a task in one sandbox.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Attempt {
    /// From 1, over all generations.
    pub attempt: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
    pub node: NodeId,
    pub claimed_at: Timestamp,
    /// When the first instruction of the guest could run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entered_at: Option<Timestamp>,
    /// When the guest last called `heartbeat`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat_at: Option<Timestamp>,
    /// Absent while it runs, like everything below but the progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// How the attempt ended, whatever became of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Kind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// How its stop went, if it was asked to stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopReceipt>,
    /// Where it died, if it died.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scene: Option<Scene>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
}

/// What one attempt used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Cost {
    /// From entry to the end of the guest.
    pub wall_ms: f64,
    /// Processor time of the guest and of the host calls it made.
    pub cpu_ms: f64,
    /// Instructions, if they were metered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
    /// The most linear memory and tables that it held at one time.
    pub memory_bytes_peak: u64,
    pub host_calls: u64,
    /// Input and host call results.
    pub bytes_in: u64,
    /// Result and host call arguments.
    pub bytes_out: u64,
    pub log_lines: u64,
    /// Lines that the limits did not leave room for.
    pub log_lines_dropped: u64,
}

/// How a stop went, step by step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StopReceipt {
    /// When the request was made.
    pub asked_at: Timestamp,
    /// When the executor had it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_at: Option<Timestamp>,
    /// When the guest first saw it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_at: Option<Timestamp>,
    /// When force was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub killed_at: Option<Timestamp>,
    /// When sandbox and host calls were gone.
    pub gone_at: Timestamp,
    /// When the ending was handed to the store.
    pub written_at: Timestamp,
    /// The force it took: 1 the guest came back by itself, 2 its sandbox was interrupted or dropped, 3 its executor was
    /// killed.
    pub ring: u8,
    /// From the request to the writing.
    pub total_ms: f64,
}

/// The scene of a death.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Scene {
    /// How far it had come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// The instant that this is of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The guest's frames, innermost first, by name.
    pub backtrace: Vec<String>,
    /// The host call that the guest sat in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_call: Option<String>,
    /// What became of its core dump, if its terms ask for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_dump: Option<CoreDump>,
}

/// What became of a core dump. It is fetched from beside the attempt, until newer ones need its room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CoreDump {
    /// The size of its file. Absent: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

/// One change of a task: who, when, why, from what, to what.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// Counts up in the order of writing.
    pub number: u64,
    pub at: Timestamp,
    /// Absent at birth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Kind>,
    pub to: Kind,
    pub reason: Reason,
    pub by: String,
    pub detail: String,
    /// The attempt that was current, 0 before the first.
    pub attempt: u32,
    pub generation: u32,
    pub traceparent: TraceParent,
}

/// A line that a guest wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogLine {
    /// Counts up in the order of writing; give it as `after` to get the lines that follow.
    pub number: u64,
    pub attempt: u32,
    /// Counts within the attempt; a gap means that lines were dropped.
    pub line: u64,
    pub at: Timestamp,
    pub level: LogLevel,
    pub message: String,
}

/// Some lines of a task's log, in order.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct LogPage {
    pub items: Vec<LogLine>,
    /// Give this as `after` to get the lines that follow.
    pub next_after: u64,
}

/// What a task came to.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TaskResult {
    pub task: TaskId,
    pub attempt: u32,
    pub at: Timestamp,
    /// The JSON that the guest returned, as it is.
    #[schema(value_type = Value)]
    pub result: Box<RawValue>,
}

/// What a task was given.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TaskInput {
    pub task: TaskId,
    /// The JSON of the submission, as it was.
    #[schema(value_type = Value)]
    pub input: Box<RawValue>,
}

impl From<&task::Progress> for Progress {
    fn from(progress: &task::Progress) -> Self {
        Self { done: progress.done, total: progress.total, note: progress.note.clone() }
    }
}

impl From<AttemptView> for Attempt {
    fn from(view: AttemptView) -> Self {
        match view {
            AttemptView::Over(row) => (*row).into(),
            AttemptView::Live { attempt, node, hold, live } => Self {
                attempt,
                generation: None,
                node,
                claimed_at: hold.claimed_at,
                entered_at: live.entered_at,
                heartbeat_at: live.heartbeat_at,
                ended_at: None,
                outcome: None,
                reason: None,
                detail: None,
                cost: None,
                stop: None,
                scene: None,
                progress: live.progress.as_ref().map(Into::into),
            },
        }
    }
}

impl From<AttemptRow> for Attempt {
    fn from(row: AttemptRow) -> Self {
        Self {
            attempt: row.attempt,
            generation: Some(row.generation),
            node: row.node,
            claimed_at: row.claimed_at,
            entered_at: row.entered_at,
            heartbeat_at: row.heartbeat_at,
            ended_at: Some(row.ended_at),
            outcome: Some(row.outcome),
            reason: Some(row.reason),
            detail: Some(row.detail.to_string()).filter(|detail| !detail.is_empty()),
            cost: Some((&row.cost).into()),
            stop: row.stop.as_ref().map(Into::into),
            scene: row.scene.map(Into::into),
            progress: row.progress.as_ref().map(Into::into),
        }
    }
}

impl From<task::Scene> for Scene {
    fn from(scene: task::Scene) -> Self {
        Self {
            phase: scene.phase,
            at: scene.at,
            backtrace: scene.backtrace,
            host_call: scene.host_call,
            core_dump: scene.core_dump.map(|dump| match dump {
                task::CoreDump::Kept { bytes } => CoreDump { bytes: Some(bytes), missing: None },
                task::CoreDump::Missing { why } => CoreDump { bytes: None, missing: Some(why) },
            }),
        }
    }
}

impl From<&task::CostReceipt> for Cost {
    fn from(cost: &task::CostReceipt) -> Self {
        let ms = |micros| std::time::Duration::from_micros(micros).as_secs_f64() * 1e3;
        Self {
            wall_ms: ms(cost.wall_micros),
            cpu_ms: ms(cost.cpu_micros),
            fuel: cost.fuel,
            memory_bytes_peak: cost.memory_bytes_peak,
            host_calls: cost.host_calls,
            bytes_in: cost.bytes_in,
            bytes_out: cost.bytes_out,
            log_lines: cost.log_lines,
            log_lines_dropped: cost.log_lines_dropped,
        }
    }
}

impl From<&task::StopReceipt> for StopReceipt {
    fn from(stop: &task::StopReceipt) -> Self {
        Self {
            asked_at: stop.asked_at,
            told_at: stop.told_at,
            seen_at: stop.seen_at,
            killed_at: stop.killed_at,
            gone_at: stop.gone_at,
            written_at: stop.written_at,
            ring: stop.ring.number(),
            total_ms: stop.written_at.since(stop.asked_at).as_secs_f64() * 1e3,
        }
    }
}

impl From<AuditRow> for AuditEntry {
    fn from(row: AuditRow) -> Self {
        Self {
            number: row.number,
            at: row.at,
            from: row.from,
            to: row.to,
            reason: row.reason,
            by: row.by.to_string(),
            detail: row.detail.to_string(),
            attempt: row.attempt,
            generation: row.generation,
            traceparent: row.trace,
        }
    }
}

impl From<LogRow> for LogLine {
    fn from(row: LogRow) -> Self {
        Self {
            number: row.number,
            attempt: row.attempt,
            line: row.line.number,
            at: row.line.at,
            level: row.line.level,
            message: row.line.message,
        }
    }
}

impl TaskResult {
    /// As it is kept.
    pub(in crate::api) fn of(row: &ResultRow) -> Result<Self, serde_json::Error> {
        Ok(Self { task: row.task, attempt: row.attempt, at: row.at, result: kept_json(&row.result)? })
    }
}

impl TaskInput {
    /// As it is kept.
    pub(in crate::api) fn of(task: TaskId, input: &str) -> Result<Self, serde_json::Error> {
        Ok(Self { task, input: kept_json(input)? })
    }
}
