//! Queues, and how the node is.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::id::QueueName;
use crate::store;
use crate::time::Timestamp;

/// A queue as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Queue {
    pub name: QueueName,
    /// There while it is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<Pause>,
    pub pending: u64,
    pub running: u64,
    /// Since when the longest waiting task has been ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_ready_at: Option<Timestamp>,
}

/// Nothing of the queue starts; with `below`, nothing of a lower priority than that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Pause {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below: Option<i8>,
    pub by: String,
    /// In the words of who asked; may be empty.
    pub reason: String,
    pub at: Timestamp,
}

/// A queue is no longer paused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Resumed {
    pub queue: QueueName,
    /// False: there was no pause, and nothing changed.
    pub was_paused: bool,
}

/// The process answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Alive {
    /// Always `ok`.
    pub status: String,
}

/// How the node is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `ok`, or `shutting_down`.
    pub status: String,
    /// Of the program.
    pub version: String,
    /// Attempts in hand.
    pub attempts: usize,
    /// Sandboxes that exist.
    pub sandboxes: usize,
    pub slots: usize,
    pub slots_free: usize,
    /// Requests that wait for the end of a task, and logs that are followed.
    pub waits: usize,
}

impl From<store::QueueRow> for Queue {
    fn from(row: store::QueueRow) -> Self {
        Self {
            name: row.name,
            pause: row.pause.as_ref().map(Into::into),
            pending: row.pending,
            running: row.running,
            oldest_ready_at: row.oldest_ready_at,
        }
    }
}

impl From<&store::Pause> for Pause {
    fn from(pause: &store::Pause) -> Self {
        Self { below: pause.below, by: pause.by.to_string(), reason: pause.why.to_string(), at: pause.at }
    }
}
