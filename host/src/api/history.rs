//! What a task leaves behind: its history, its attempts, its input and its result.

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

use super::Api;
use super::extract::{Named, OfTask};
use super::problem::Problem;
use super::query::Query;
use super::wire::{Attempt, AuditEntry, Items, TaskInput, TaskResult};
use crate::id::TaskId;

/// Show every change of a task, in order.
#[utoipa::path(
    get, path = "/v1/tasks/{id}/audit", tag = "tasks", operation_id = "task_audit",
    params(("id" = TaskId, Path, description = "The task.")),
    responses(
        (status = 200, description = "Who, when, why, from what, to what.", body = Items<AuditEntry>),
        (status = 404, description = "There is no such task.", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Any other problem.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn audit(
    State(api): State<Api>,
    Named(id): Named<TaskId>,
    query: Query,
) -> Result<Json<Items<AuditEntry>>, Problem> {
    query.end()?;
    let rows = api.host.audit(id).await.map_err(|error| api.problem(&error))?;
    Ok(Json(rows.into_iter().map(Into::into).collect()))
}

/// Show every attempt of a task, first to last, with its receipts.
#[utoipa::path(
    get, path = "/v1/tasks/{id}/attempts", tag = "tasks", operation_id = "task_attempts",
    params(("id" = TaskId, Path, description = "The task.")),
    responses(
        (status = 200, description = "All of them; the last may be running.", body = Items<Attempt>),
        (status = 404, description = "There is no such task.", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Any other problem.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn attempts(
    State(api): State<Api>,
    Named(id): Named<TaskId>,
    query: Query,
) -> Result<Json<Items<Attempt>>, Problem> {
    query.end()?;
    let views = api.host.attempts(id).await.map_err(|error| api.problem(&error))?;
    Ok(Json(views.into_iter().map(Into::into).collect()))
}

/// Fetch the core dump of an attempt.
///
/// It holds what the guest's memory held, secrets and all.
#[utoipa::path(
    get, path = "/v1/tasks/{id}/attempts/{attempt}/core-dump", tag = "tasks", operation_id = "core_dump",
    params(
        ("id" = TaskId, Path, description = "The task."),
        ("attempt" = u32, Path, description = "The number of the attempt."),
    ),
    responses(
        (status = 200, description = "A core dump in the format of the WebAssembly tool conventions.", content_type = "application/wasm"),
        (status = 404, description = "There is no such task, or the attempt has no core dump.", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Any other problem.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn core_dump(
    State(api): State<Api>,
    OfTask(id, attempt): OfTask,
    query: Query,
) -> Result<impl IntoResponse, Problem> {
    query.end()?;
    let dump = api.host.core_dump(id, attempt).await.map_err(|error| api.problem(&error))?;
    Ok(([(CONTENT_TYPE, "application/wasm")], dump))
}

/// Show what a task came to.
#[utoipa::path(
    get, path = "/v1/tasks/{id}/result", tag = "tasks", operation_id = "task_result",
    params(("id" = TaskId, Path, description = "The task.")),
    responses(
        (status = 200, description = "The result, as the guest returned it.", body = TaskResult),
        (status = 404, description = "There is no such task, or it has no result: the problem carries it.", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Any other problem.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn result(
    State(api): State<Api>,
    Named(id): Named<TaskId>,
    query: Query,
) -> Result<Json<TaskResult>, Problem> {
    query.end()?;
    if let Some(row) = api.host.result(id).await.map_err(|error| api.problem(&error))? {
        return Ok(Json(TaskResult::of(&row)?));
    }
    let task = api.task(&api.host.show(id).await.map_err(|error| api.problem(&error))?);
    let state = task.state.code();
    let problem = Problem::new("no_result", format!("task `{id}` is {state}, and has no result"));
    let problem = if task.state.is_terminal() {
        problem.hinting(format!("only a task in SUCCESS has one; `atropos show {id}` tells how it ended"))
    } else {
        problem.hinting(format!("wait for its end: `GET /v1/tasks/{id}?wait=60s`"))
    };
    Err(problem.with_task(task))
}

/// Show what a task was given.
#[utoipa::path(
    get, path = "/v1/tasks/{id}/input", tag = "tasks", operation_id = "task_input",
    params(("id" = TaskId, Path, description = "The task.")),
    responses(
        (status = 200, description = "The input, as it was submitted.", body = TaskInput),
        (status = 404, description = "There is no such task, or its input was too large to be kept.", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Any other problem.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn input(
    State(api): State<Api>,
    Named(id): Named<TaskId>,
    query: Query,
) -> Result<Json<TaskInput>, Problem> {
    query.end()?;
    match api.host.input(id).await.map_err(|error| api.problem(&error))? {
        Some(input) => Ok(Json(TaskInput::of(id, &input)?)),
        None => Err(Problem::new("no_input", format!("the input of task `{id}` was too large to be kept"))),
    }
}
