//! Queues: looking at them and holding them.

use axum::Json;
use axum::extract::State;

use super::Api;
use super::extract::{Maybe, Named};
use super::problem::Problem;
use super::query::Query;
use super::wire::{Ask, Items, Pause, PauseAsk, Queue, Resumed};
use crate::id::QueueName;
use crate::task;

/// List every queue that is paused or has live tasks, by name.
#[utoipa::path(
    get, path = "/v1/queues", tag = "queues", operation_id = "list_queues",
    responses(
        (status = 200, description = "All of them.", body = Items<Queue>),
        (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(State(api): State<Api>, query: Query) -> Result<Json<Items<Queue>>, Problem> {
    query.end()?;
    let rows = api.host.queues().await.map_err(|error| api.problem(&error))?;
    Ok(Json(rows.into_iter().map(Into::into).collect()))
}

/// Pause a queue: nothing of it starts any more, or nothing below a priority.
///
/// What runs goes on, and the budgets of what waits count on. Holds across restarts. To pause again replaces the pause.
#[utoipa::path(
    post, path = "/v1/queues/{name}/pause", tag = "queues", operation_id = "pause_queue",
    params(("name" = QueueName, Path, description = "The queue; it need not have tasks.")),
    request_body(content = PauseAsk, description = "May be absent."),
    responses(
        (status = 200, description = "The pause.", body = Pause),
        (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn pause(
    State(api): State<Api>,
    Named(name): Named<QueueName>,
    query: Query,
    Maybe(wire): Maybe<PauseAsk>,
) -> Result<Json<Pause>, Problem> {
    query.end()?;
    let (below, ask) = wire.ask()?;
    let pause = api.host.pause(name, below, ask).await.map_err(|error| api.problem(&error))?;
    Ok(Json((&pause).into()))
}

/// Lift the pause of a queue.
#[utoipa::path(
    post, path = "/v1/queues/{name}/resume", tag = "queues", operation_id = "resume_queue",
    params(("name" = QueueName, Path, description = "The queue.")),
    request_body(content = Ask, description = "May be absent."),
    responses(
        (status = 200, description = "It is not paused.", body = Resumed),
        (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn resume(
    State(api): State<Api>,
    Named(name): Named<QueueName>,
    query: Query,
    Maybe(wire): Maybe<Ask>,
) -> Result<Json<Resumed>, Problem> {
    query.end()?;
    let ask = task::Ask::try_from(wire)?;
    let was_paused = api.host.resume(name.clone()).await.map_err(|error| api.problem(&error))?;
    if was_paused {
        tracing::info!(queue = %name, by = %ask.by, why = %ask.why, "the pause is lifted");
    }
    Ok(Json(Resumed { queue: name, was_paused }))
}
