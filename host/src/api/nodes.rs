//! Nodes: how they are made up, and what somebody should know of.

use axum::Json;
use axum::extract::State;

use super::Api;
use super::problem::Problem;
use super::query::Query;
use super::wire::{Alert, Items, Node};

/// List the nodes: this one, with its executors and what is alive in them.
#[utoipa::path(
    get, path = "/v1/nodes", tag = "node", operation_id = "list_nodes",
    responses(
        (status = 200, description = "All of them.", body = Items<Node>),
        (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(State(api): State<Api>, query: Query) -> Result<Json<Items<Node>>, Problem> {
    query.end()?;
    Ok(Json(std::iter::once(Node::from(api.host.node())).collect()))
}

/// List what somebody should know of at once: leaks, zombies, executors that are down. Empty when all is well.
#[utoipa::path(
    get, path = "/v1/alerts", tag = "node", operation_id = "list_alerts",
    responses(
        (status = 200, description = "All that stand.", body = Items<Alert>),
        (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn alerts(State(api): State<Api>, query: Query) -> Result<Json<Items<Alert>>, Problem> {
    query.end()?;
    Ok(Json(api.host.alerts().iter().map(Alert::from).collect()))
}
