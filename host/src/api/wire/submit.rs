//! Submissions and their answers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::tasks::Task;
use super::terms::TermsDraft;
use super::{Unfit, kept_json};
use crate::api::problem::Problem;
use crate::host;
use crate::id::{QueueName, TraceParent, TypeName};
use crate::task::DedupScope;
use crate::time::Timestamp;

/// How long a deduplication key stays taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// As long as the record is kept.
    #[default]
    Record,
    /// Until the task ends.
    Live,
}

/// A task to be registered.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewTask {
    /// The registered task type.
    #[serde(rename = "type")]
    pub task_type: TypeName,
    /// Any JSON; `null` if absent. Handed to the guest as it is written here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub input: Option<Box<RawValue>>,
    /// The task of the same type that has this key already is given back instead of a new one. Up to 200 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedup_key: Option<String>,
    /// How long the key stays taken.
    #[serde(default)]
    pub dedup_scope: Scope,
    /// −100 to 100, higher first.
    #[serde(default)]
    pub priority: i32,
    /// `default` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueName>,
    /// Not before this time; up to a year ahead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_after: Option<Timestamp>,
    /// Where these speak, they go before the type's.
    #[serde(default)]
    pub terms: TermsDraft,
    /// Who or what submits it. Up to 200 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creator: Option<String>,
    /// The request that it comes from. Up to 200 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The trace that it belongs to. If absent, that of the request's `traceparent` header, or a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<TraceParent>,
    /// Up to 16, each name up to 64 bytes and each value up to 200.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

impl NewTask {
    /// A task of this type with this input (JSON), and nothing else said.
    ///
    /// # Errors
    /// The input is not JSON.
    pub fn new(task_type: TypeName, input: &str) -> Result<Self, serde_json::Error> {
        Ok(Self {
            task_type,
            input: Some(kept_json(input)?),
            dedup_key: None,
            dedup_scope: Scope::default(),
            priority: 0,
            queue: None,
            run_after: None,
            terms: TermsDraft::default(),
            creator: None,
            request_id: None,
            traceparent: None,
            labels: BTreeMap::new(),
        })
    }

    /// As the host has it; `trace` is that of the request.
    pub(in crate::api) fn into_host(self, trace: Option<&TraceParent>) -> Result<host::NewTask, Unfit> {
        let priority = i8::try_from(self.priority)
            .map_err(|_| Unfit::new("priority", format!("is {}, but must be from -100 to 100", self.priority)))?;
        Ok(host::NewTask {
            task_type: self.task_type,
            input: self.input.map_or_else(|| "null".to_owned(), |input| Box::<str>::from(input).into_string()),
            dedup_key: self.dedup_key,
            dedup_scope: match self.dedup_scope {
                Scope::Record => DedupScope::Record,
                Scope::Live => DedupScope::Live,
            },
            priority,
            queue: self.queue.unwrap_or_default(),
            run_after: self.run_after,
            terms: self.terms.into(),
            creator: self.creator,
            request_id: self.request_id,
            trace: self.traceparent.or_else(|| trace.cloned()),
            labels: self.labels,
        })
    }
}

impl From<DedupScope> for Scope {
    fn from(scope: DedupScope) -> Self {
        match scope {
            DedupScope::Record => Self::Record,
            DedupScope::Live => Self::Live,
        }
    }
}

/// The task that a submission came to.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Submitted {
    #[serde(flatten)]
    pub task: Task,
    /// The task was there already under this `dedup_key`, and the submission changed nothing.
    pub deduplicated: bool,
}

/// What became of one submission of many.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct BatchItem {
    /// The HTTP status that it would have had alone: 201 new, 200 existing, or that of its refusal.
    pub status: u16,
    pub task: Task,
    /// The task was there already under this `dedup_key`, and the submission changed nothing.
    pub deduplicated: bool,
    /// Why the task was REJECTED, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
}
