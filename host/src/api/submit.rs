//! Submissions: one task, or many at once.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::value::RawValue;

use super::Api;
use super::extract::{JsonText, decode};
use super::problem::Problem;
use super::query::Query;
use super::wire::{BatchItem, NewTask, Submitted};
use crate::host::{self, Error, TaskView};
use crate::id::TraceParent;

const BATCH_MAX: usize = 1_000;

/// One task, or many.
#[derive(serde::Serialize, utoipa::ToSchema)]
#[serde(untagged)]
#[expect(
    dead_code,
    clippy::large_enum_variant,
    reason = "only its schema is used: the body is looked at before it is decoded"
)]
pub(super) enum NewTasks {
    One(NewTask),
    /// 1 to 1,000. All of them are registered in one commit, or none if one is no task at all.
    Many(Vec<NewTask>),
}

/// One task, or what became of each of many.
#[derive(serde::Serialize, utoipa::ToSchema)]
#[serde(untagged)]
#[expect(dead_code, clippy::large_enum_variant, reason = "only its schema is used: the status depends on which it is")]
pub(super) enum SubmitAnswer {
    One(Submitted),
    Many(Vec<BatchItem>),
}

/// Submit a task, or an array of up to 1,000.
///
/// A task that is refused as such (its type is unknown, its input too large, …) is registered as REJECTED, and the problem
/// carries it. In an array, each item has the status that it would have had alone.
#[utoipa::path(
    post, path = "/v1/tasks", tag = "tasks", operation_id = "submit",
    params(("traceparent" = Option<String>, Header, description = "The W3C trace context of the request: the trace of tasks that name none.")),
    request_body = NewTasks,
    responses(
        (status = 201, description = "Registered, and on disk.", body = Submitted),
        (status = 200, description = "A task that was there already under this `dedup_key`; or, for an array, what became of each item.", body = SubmitAnswer),
        (status = 404, description = "REJECTED: the type is unknown.", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "REJECTED: the input is too large. Or the whole body is, and then nothing is on record.", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "REJECTED: the input does not fit the schema. Or a field is wrong, and then nothing is on record.", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Any other problem.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn submit(
    State(api): State<Api>,
    query: Query,
    headers: HeaderMap,
    JsonText(text): JsonText,
) -> Result<Response, Problem> {
    query.end()?;
    // One that is wrong is as none: https://www.w3.org/TR/trace-context/#considerations-for-traceparent-field
    let trace = headers.get("traceparent").and_then(|text| text.to_str().ok()?.parse().ok());
    if text.trim_ascii_start().starts_with('[') {
        let items = submit_many(&api, &text, trace.as_ref()).await?;
        return Ok(Json(items).into_response());
    }
    let new = decode::<NewTask>(&text)?.into_host(trace.as_ref())?;
    let submitted = api.host.submit(new).await.map_err(|error| api.problem(&error))?;
    let (status, submitted, problem) = told(&api, submitted);
    match problem {
        Some(problem) => Err(problem.with_task(submitted.task)),
        None => Ok((status, Json(submitted)).into_response()),
    }
}

async fn submit_many(api: &Api, text: &str, trace: Option<&TraceParent>) -> Result<Vec<BatchItem>, Problem> {
    let items: Vec<&RawValue> = decode(text)?;
    if items.is_empty() || items.len() > BATCH_MAX {
        let detail = format!("the array has {} items, and must have 1 to {BATCH_MAX}", items.len());
        return Err(Problem::new("invalid_batch", detail));
    }
    let read = |(index, item): (usize, &&RawValue)| {
        let task = decode::<NewTask>(item.get()).and_then(|task| Ok(task.into_host(trace)?));
        task.map_err(|problem| problem.at(index))
    };
    let tasks = items.iter().enumerate().map(read).collect::<Result<Vec<_>, Problem>>()?;
    let submitted = api.host.submit_many(tasks).await.map_err(|(index, error)| {
        let problem = api.problem(&error);
        if matches!(error, Error::Invalid { .. } | Error::Terms(_)) { problem.at(index) } else { problem }
    })?;
    let item = |submitted| {
        let (status, Submitted { task, deduplicated }, problem) = told(api, submitted);
        let status = problem.as_ref().map_or(status.as_u16(), |problem| problem.status);
        BatchItem { status, task, deduplicated, problem }
    };
    Ok(submitted.into_iter().map(item).collect())
}

/// What is answered to a submission, and why it was refused if it was.
fn told(api: &Api, submitted: host::Submitted) -> (StatusCode, Submitted, Option<Problem>) {
    let host::Submitted { task, existing } = submitted;
    let problem = Problem::of_rejected(&task);
    let task = api.task(&TaskView { task, live: None, held: None });
    let status = if existing { StatusCode::OK } else { StatusCode::CREATED };
    (status, Submitted { task, deduplicated: existing }, problem)
}
