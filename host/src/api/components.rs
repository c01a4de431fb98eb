//! Components: uploading and looking.

use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;

use super::Api;
use super::extract::{Named, check_media_type, read};
use super::problem::Problem;
use super::query::{Query, Text};
use super::wire::{Component, Items, PutComponent};
use crate::host::Error;
use crate::id::Digest;

const UPLOAD_TIMEOUT: Duration = Duration::from_mins(5);

/// A component's bytes.
#[derive(utoipa::ToSchema)]
#[schema(value_type = String, format = Binary)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct Upload(Vec<u8>);

/// Upload a component.
///
/// The body is the component itself. It is checked and compiled before the answer. The same bytes are the same component.
#[utoipa::path(
    post, path = "/v1/components", tag = "components", operation_id = "push_component",
    params(("by" = Option<String>, Query, description = "Who uploads it, for the record: up to 200 bytes. `api` if absent.")),
    request_body(content = inline(Upload), content_type = "application/wasm", description = "The component; `application/octet-stream` is taken too."),
    responses(
        (status = 201, description = "Taken.", body = PutComponent),
        (status = 200, description = "It was there already.", body = PutComponent),
        (status = 413, description = "Larger than the node takes.", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "It does not fit; the detail says why, the hint what would.", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "As many uploads wait as the node takes; `Retry-After` says when to come again.", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Any other problem.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn push(
    State(api): State<Api>,
    mut query: Query,
    request: Request,
) -> Result<(StatusCode, Json<PutComponent>), Problem> {
    let by = query.one::<Text>("by")?.map(|text| text.0);
    query.end()?;
    let by = super::wire::who(by.as_deref())?;
    let fits = |given: &str| matches!(given, "application/wasm" | "application/octet-stream");
    check_media_type(request.headers(), fits, "`application/wasm`")?;
    let _place = api.host.upload_place().map_err(|error| api.problem(&error))?;
    let bytes = Vec::from(read(request, api.host.config().component_bytes_max, UPLOAD_TIMEOUT).await?);
    let hashed = tokio::task::spawn_blocking(move || (Digest::of(&bytes), bytes)).await;
    let (digest, bytes) = hashed.map_err(|error| Problem::internal(error.to_string()))?;
    let existing = match api.host.component(digest).await {
        Ok(_) => true,
        Err(Error::NotFound { .. }) => false,
        Err(error) => return Err(api.problem(&error)),
    };
    let row = api.host.push(bytes, by).await.map_err(|error| api.problem(&error))?;
    let status = if existing { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Json(PutComponent { component: row.into(), existing })))
}

/// List the components, newest first.
#[utoipa::path(
    get, path = "/v1/components", tag = "components", operation_id = "list_components",
    responses(
        (status = 200, description = "All of them.", body = Items<Component>),
        (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(State(api): State<Api>, query: Query) -> Result<Json<Items<Component>>, Problem> {
    query.end()?;
    let rows = api.host.components().await.map_err(|error| api.problem(&error))?;
    Ok(Json(rows.into_iter().map(Into::into).collect()))
}

/// Show a component.
#[utoipa::path(
    get, path = "/v1/components/{digest}", tag = "components", operation_id = "show_component",
    params(("digest" = Digest, Path, description = "The SHA-256 of its bytes.")),
    responses(
        (status = 200, description = "The component.", body = Component),
        (status = 404, description = "There is none of this digest.", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Any other problem.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn show(
    State(api): State<Api>,
    Named(digest): Named<Digest>,
    query: Query,
) -> Result<Json<Component>, Problem> {
    query.end()?;
    let row = api.host.component(digest).await.map_err(|error| api.problem(&error))?;
    Ok(Json(row.into()))
}
