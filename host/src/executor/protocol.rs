//! The messages between a node and its executor. Nothing else passes between them, so that the executor can be
//! a process of its own.

use std::sync::Arc;
use std::time::Duration;

use crate::id::{Digest, TaskId, TraceParent, TypeName};
use crate::task::{CostReceipt, Ending, Grants, Limits, LogLine, Progress, Scene, StopReason};
use crate::time::Timestamp;

/// One attempt of one task. An executor never has the same key twice at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttemptKey {
    pub task: TaskId,
    pub attempt: u32,
}

/// From the node to the executor. Orders for a key that the executor does not hold are ignored: its `Ended` is under way.
#[derive(Debug)]
pub enum Order {
    Start(Box<Start>),
    /// Tell the guest. A second one replaces the first.
    Stop {
        key: AttemptKey,
        stop: StopOrder,
    },
    /// End it now, in whatever it is. Answered by [`Report::Ended`] when it is gone.
    Kill {
        key: AttemptKey,
    },
}

/// What the guest is told by `check-cancel` and every waiting call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopOrder {
    pub reason: StopReason,
    /// The guest will be killed then.
    pub kill_at: Timestamp,
    pub message: Arc<str>,
}

/// Everything that one attempt needs.
#[derive(Debug)]
pub struct Start {
    pub key: AttemptKey,
    pub component: Digest,
    /// JSON.
    pub input: Arc<str>,
    pub task_type: TypeName,
    pub trace: TraceParent,
    pub creator: Option<Arc<str>>,
    pub run_timeout: Duration,
    pub fuel: Option<u64>,
    /// Whether a trap or a kill is to leave a core dump.
    pub core_dump: bool,
    pub limits: Limits,
    pub grants: Arc<Grants>,
}

/// From the executor to the node.
#[derive(Debug)]
pub enum Report {
    /// What became known of a live attempt since the last beat. Sent only when there is something to say, and at most
    /// every few dozen milliseconds for each attempt.
    Beat(Box<Beat>),
    /// The guest of a killed attempt will never run again, but what it held takes a while to be given back.
    Caught(AttemptKey),
    /// The attempt is over, and nothing of it is left: sandbox dropped, host calls over. The last report of its key.
    Ended(Box<Ended>),
}

/// A sign of life. Fields that did not change since the last beat may be absent or repeated.
#[derive(Debug)]
pub struct Beat {
    pub key: AttemptKey,
    /// When the first instruction of the guest could run (its start functions included).
    pub entered_at: Option<Timestamp>,
    /// When the guest last called `heartbeat`.
    pub heartbeat_at: Option<Timestamp>,
    /// When the guest was first given the stop request.
    pub stop_seen_at: Option<Timestamp>,
    pub progress: Option<Progress>,
    /// New lines, in order. A gap in their numbers means that lines were dropped.
    pub log: Vec<LogLine>,
}

/// The end of an attempt.
#[derive(Debug)]
pub struct Ended {
    /// What became known since the last beat.
    pub last: Beat,
    pub ending: Ending,
    /// The result, JSON, if and only if the ending is [`Ending::Succeeded`].
    pub result: Option<String>,
    pub cost: CostReceipt,
    pub scene: Option<Scene>,
    /// When the executor had the first stop order.
    pub told_at: Option<Timestamp>,
    /// When force was used.
    pub killed_at: Option<Timestamp>,
    /// When nothing of the attempt was left.
    pub gone_at: Timestamp,
    /// Nothing of the guest ran, because its component has to be compiled first. Whoever starts executor processes sees to
    /// that and starts the attempt again; nobody else is told.
    pub unprepared: bool,
}
