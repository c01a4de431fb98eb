//! What went wrong, as RFC 9457 has it: the one mapping from errors to answers.
//!
//! Must not know which route was asked.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::codes::Code;
use super::wire;
use crate::chain;
use crate::host;
use crate::task::{Reason, State};
use crate::time::Timestamp;

pub use super::codes::CODES;

/// The media type of problems.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// Seconds after which a busy compiler is worth another try.
const BUSY_FOR: HeaderValue = HeaderValue::from_static("5");

/// A detail may repeat what was sent, but not all of it.
const DETAIL_CHARS_MAX: usize = 2_000;

/// What went wrong (RFC 9457).
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// `/problems/` and the code: a page of this API that says what to do.
    #[serde(rename = "type")]
    #[schema(value_type = String)]
    pub kind: Box<str>,
    #[schema(value_type = String)]
    pub title: Box<str>,
    /// The HTTP status.
    pub status: u16,
    /// What was wrong this time, with all causes.
    pub detail: String,
    /// Stable: programs may rely on it.
    #[schema(value_type = String)]
    pub code: Box<str>,
    /// What to do next.
    #[schema(value_type = String)]
    pub hint: Box<str>,
    /// In a request of many: the first item that is wrong, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
    /// The task as it is, if its state is what stands in the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Box<wire::Task>>,
}

impl Problem {
    /// A problem of this code, with the hint of the table.
    #[must_use]
    pub fn new(code: &'static str, detail: impl Into<String>) -> Self {
        let entry = Code::find(code);
        let (status, title, advice) =
            entry.map_or((500, "a defect of the host", ""), |entry| (entry.status, entry.title, entry.advice));
        Self {
            kind: format!("/problems/{code}").into(),
            title: title.into(),
            status,
            detail: shortened(detail.into()),
            code: code.into(),
            hint: advice.into(),
            index: None,
            task: None,
        }
    }

    #[must_use]
    pub(super) fn hinting(mut self, hint: impl Into<Box<str>>) -> Self {
        self.hint = hint.into();
        self
    }

    #[must_use]
    pub(super) const fn at(mut self, index: usize) -> Self {
        self.index = Some(index);
        self
    }

    #[must_use]
    pub(super) fn with_task(mut self, task: wire::Task) -> Self {
        self.task = Some(Box::new(task));
        self
    }

    /// What the host says, about a task as it is at `now`.
    pub(super) fn of(error: &host::Error, now: Timestamp) -> Self {
        let problem = Self::new(error.code(), chain(error)).hinting(error.hint());
        match error {
            host::Error::Refused { task, .. } => {
                let view = host::TaskView { task: (**task).clone(), live: None, held: None };
                problem.with_task(wire::Task::of(&view, now))
            }
            _ => problem,
        }
    }

    /// Why the task was refused at birth; `None` unless it was.
    pub(super) fn of_rejected(task: &crate::task::Task) -> Option<Self> {
        let State::Ended(ended) = &task.state else { return None };
        let Reason::Rejected(_) = ended.reason() else { return None };
        Some(Self::new(ended.reason().code(), ended.detail()))
    }

    /// A defect of the host.
    pub(super) fn internal(detail: impl Into<String>) -> Self {
        Self::new("internal", detail)
    }
}

fn shortened(detail: String) -> String {
    match detail.char_indices().nth(DETAIL_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &detail[..end]),
        None => detail,
    }
}

impl From<wire::Unfit> for Problem {
    fn from(unfit: wire::Unfit) -> Self {
        Self::new("invalid_field", unfit.to_string())
    }
}

/// What the host kept is no JSON.
impl From<serde_json::Error> for Problem {
    fn from(error: serde_json::Error) -> Self {
        Self::internal(format!("the store holds something that is not JSON: {error}"))
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let busy = &*self.code == "compiler_busy";
        let mut response = (status, Json(self)).into_response();
        if busy {
            response.headers_mut().insert(header::RETRY_AFTER, BUSY_FOR);
        }
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        response
    }
}
