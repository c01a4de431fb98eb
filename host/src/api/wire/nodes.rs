//! Nodes, their executors, and alerts.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::host;
use crate::time::Timestamp;

/// One program that runs tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Node {
    pub id: String,
    pub slots: usize,
    pub slots_free: usize,
    /// Attempts in hand.
    pub attempts: usize,
    pub ledger: Ledger,
    pub executors: Vec<Executor>,
}

/// What is alive of guests, as the executors counted it when they were last asked. All zero when nothing runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Ledger {
    pub attempts: usize,
    pub sandboxes: usize,
    /// Linear memory and tables of all guests together.
    pub guest_memory_bytes: u64,
    pub scratch_folders: usize,
    /// Sockets of guests, and of look-ups and requests made for them.
    pub sockets: usize,
}

/// A process in which guests run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Executor {
    pub number: usize,
    /// Absent while there is no process, and where guests run in the node itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Whether it takes guests.
    pub ready: bool,
    /// How often its process was started.
    pub starts: u64,
    /// Attempts that it was given.
    pub attempts: usize,
    /// What its process has given up before it took any guest.
    pub locks: Vec<Lock>,
}

/// Something that an executor process has given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Lock {
    pub name: String,
    pub in_force: bool,
    /// Why it is not in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// Something is wrong, and has been for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Alert {
    /// `leak`, `zombie`, `executor_down` or `store_fails`.
    pub code: String,
    pub since: Timestamp,
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

impl From<host::NodeView> for Node {
    fn from(node: host::NodeView) -> Self {
        Self {
            id: node.id.to_string(),
            slots: node.slots,
            slots_free: node.slots_free,
            attempts: node.attempts,
            ledger: Ledger {
                attempts: node.counts.attempts,
                sandboxes: node.counts.sandboxes,
                guest_memory_bytes: node.counts.guest_memory_bytes,
                scratch_folders: node.counts.scratch_folders,
                sockets: node.counts.sockets,
            },
            executors: node.executors.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<host::ExecutorView> for Executor {
    fn from(executor: host::ExecutorView) -> Self {
        let lock = |lock: host::Lock| Lock { name: lock.name, in_force: lock.failure.is_none(), failure: lock.failure };
        Self {
            number: executor.number,
            pid: executor.pid,
            ready: executor.ready,
            starts: executor.starts,
            attempts: executor.attempts,
            locks: executor.locks.into_iter().map(lock).collect(),
        }
    }
}

impl From<&host::Alert> for Alert {
    fn from(alert: &host::Alert) -> Self {
        Self {
            code: alert.kind.code().to_owned(),
            since: alert.since,
            message: alert.message.clone(),
            hint: alert.kind.hint().to_owned(),
        }
    }
}
