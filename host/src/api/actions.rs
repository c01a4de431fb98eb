//! What people do to tasks.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::Api;
use super::extract::{Maybe, Named};
use super::problem::Problem;
use super::query::Query;
use super::wire::{Ask, CancelAsk, RerunAsk, Task};
use crate::host::{Error, TaskView};
use crate::id::TaskId;

type Answer = Result<(StatusCode, Json<Task>), Problem>;

/// 202 while the task is still on its way to its end.
fn answer(api: &Api, done: Result<TaskView, Error>) -> Answer {
    let task = api.task(&done.map_err(|error| api.problem(&error))?);
    let status = if task.stopping.is_some() { StatusCode::ACCEPTED } else { StatusCode::OK };
    Ok((status, Json(task)))
}

/// Cancel a task.
///
/// A task that waits ends at once. One that runs is told to stop, and killed when its grace is over; it is CANCELLED only
/// once the guest is gone. To ask again changes nothing, unless it shortens the grace.
#[utoipa::path(
    post, path = "/v1/tasks/{id}/cancel", tag = "tasks", operation_id = "cancel_task",
    params(("id" = TaskId, Path, description = "The task.")),
    request_body(content = CancelAsk, description = "May be absent."),
    responses(
        (status = 202, description = "The request is on disk, and the task is being stopped. It ends as CANCELLED once its guest is gone; or as SUCCESS, if the guest was done before it looked.", body = Task),
        (status = 200, description = "The task has ended.", body = Task),
        (status = 404, description = "There is no such task.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "It had ended before; the problem carries it.", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Any other problem.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn cancel(
    State(api): State<Api>,
    Named(id): Named<TaskId>,
    query: Query,
    Maybe(wire): Maybe<CancelAsk>,
) -> Answer {
    query.end()?;
    answer(&api, api.host.cancel(id, wire.ask()?, wire.grace.map(Into::into)).await)
}

/// Take an ended task up again.
///
/// The same task, in a new generation. Without `force` only one that is recoverable; SUCCESS, CANCELLED and REJECTED never.
#[utoipa::path(
    post, path = "/v1/tasks/{id}/rerun", tag = "tasks", operation_id = "rerun_task",
    params(("id" = TaskId, Path, description = "The task.")),
    request_body(content = RerunAsk, description = "May be absent."),
    responses(
        (status = 200, description = "It is PENDING again.", body = Task),
        (status = 404, description = "There is no such task.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "Its state says no; the problem carries it.", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Any other problem.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn rerun(
    State(api): State<Api>,
    Named(id): Named<TaskId>,
    query: Query,
    Maybe(wire): Maybe<RerunAsk>,
) -> Answer {
    query.end()?;
    answer(&api, api.host.rerun(id, wire.ask()?, wire.force).await)
}

/// End a task as FAILED, with no grace and no retry.
#[utoipa::path(
    post, path = "/v1/tasks/{id}/fail", tag = "tasks", operation_id = "fail_task",
    params(("id" = TaskId, Path, description = "The task.")),
    request_body(content = Ask, description = "May be absent."),
    responses(
        (status = 202, description = "The request is on disk, and the task is being killed.", body = Task),
        (status = 200, description = "The task has ended.", body = Task),
        (status = 404, description = "There is no such task.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "Its state says no; the problem carries it.", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Any other problem.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn fail(
    State(api): State<Api>,
    Named(id): Named<TaskId>,
    query: Query,
    Maybe(wire): Maybe<Ask>,
) -> Answer {
    query.end()?;
    answer(&api, api.host.fail(id, wire.try_into()?).await)
}

/// Give a recoverable task up: it becomes CANCELLED, and is off the dead-letter list.
#[utoipa::path(
    post, path = "/v1/tasks/{id}/give-up", tag = "tasks", operation_id = "give_up_task",
    params(("id" = TaskId, Path, description = "The task.")),
    request_body(content = Ask, description = "May be absent."),
    responses(
        (status = 200, description = "It is CANCELLED.", body = Task),
        (status = 404, description = "There is no such task.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "Its state says no; the problem carries it.", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Any other problem.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn give_up(
    State(api): State<Api>,
    Named(id): Named<TaskId>,
    query: Query,
    Maybe(wire): Maybe<Ask>,
) -> Answer {
    query.end()?;
    answer(&api, api.host.give_up(id, wire.try_into()?).await)
}
