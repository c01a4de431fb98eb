//! The JSON of the API: what requests and answers look like, and how they become the host's own types and back.
//!
//! The only place where JSON meets those types. Must not know routes, statuses or headers.

mod asks;
mod attempts;
mod grants;
mod nodes;
mod queues;
mod submit;
mod tasks;
mod terms;
mod text;
mod types;

pub(super) use asks::who;
pub use asks::{Ask, CancelAsk, PauseAsk, RerunAsk};
pub use attempts::{
    Attempt, AuditEntry, CoreDump, Cost, LogLine, LogPage, Progress, Scene, StopReceipt, TaskInput, TaskResult,
};
pub use grants::{Grants, Scratch};
pub use nodes::{Alert, Executor, Ledger, Lock, Node};
pub use queues::{Alive, Health, Pause, Queue, Resumed};
pub use submit::{BatchItem, NewTask, Scope, Submitted};
pub use tasks::{Next, NextStep, Running, Stopping, Task, TaskPage, Waiting, WaitingFor};
pub use terms::{Terms, TermsDraft};
pub use text::Span;
pub use types::{Component, PutComponent, PutType, PutTypeAnswer, TaskType};

use serde::{Deserialize, Serialize};

/// Everything there is of one kind, in one answer.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Items<T> {
    pub items: Vec<T>,
}

impl<T> FromIterator<T> for Items<T> {
    fn from_iter<I: IntoIterator<Item = T>>(all: I) -> Self {
        Self { items: all.into_iter().collect() }
    }
}

/// A field of a request whose value cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` {problem}")]
pub struct Unfit {
    pub field: &'static str,
    pub problem: String,
}

impl Unfit {
    fn new(field: &'static str, problem: impl Into<String>) -> Self {
        Self { field, problem: problem.into() }
    }
}

/// JSON that the host kept, as it is.
///
/// # Errors
/// It is no JSON, and so not what the host keeps.
fn kept_json(text: &str) -> Result<Box<serde_json::value::RawValue>, serde_json::Error> {
    serde_json::value::RawValue::from_string(text.to_owned())
}
