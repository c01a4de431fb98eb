//! How the node is.

use std::sync::atomic::Ordering;

use axum::Json;
use axum::extract::State;

use super::Api;
use super::problem::Problem;
use super::wire::{Alive, Health};

fn ok() -> Json<Alive> {
    Json(Alive { status: "ok".to_owned() })
}

fn going_down(api: &Api) -> bool {
    api.is_closing() || api.host.is_shutting_down()
}

/// Whether the process answers.
#[utoipa::path(
    get, path = "/livez", tag = "node", operation_id = "livez",
    responses(
        (status = 200, description = "It does.", body = Alive),
        (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn livez() -> Json<Alive> {
    ok()
}

/// Whether the node does its work: it is not going down, no part of it has failed, and its writes reach the disk.
#[utoipa::path(
    get, path = "/readyz", tag = "node", operation_id = "readyz",
    responses(
        (status = 200, description = "It does.", body = Alive),
        (status = 503, description = "It does not; the problem says why.", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Any other problem.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn readyz(State(api): State<Api>) -> Result<Json<Alive>, Problem> {
    if api.is_closing() {
        return Err(Problem::new("shutting_down", "the host is shutting down"));
    }
    api.host.ready().await.map_err(|error| api.problem(&error))?;
    Ok(ok())
}

/// Show how the node is.
#[utoipa::path(
    get, path = "/v1/health", tag = "node", operation_id = "health",
    responses(
        (status = 200, description = "In numbers.", body = Health),
        (status = 503, description = "The store does not answer.", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Any other problem.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn health(State(api): State<Api>) -> Result<Json<Health>, Problem> {
    let health = api.host.health().await.map_err(|error| api.problem(&error))?;
    Ok(Json(Health {
        status: if going_down(&api) { "shutting_down" } else { "ok" }.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        attempts: health.attempts,
        sandboxes: health.sandboxes,
        slots: health.slots,
        slots_free: health.slots_free,
        waits: api.waits.load(Ordering::Relaxed),
    }))
}
