//! Task types: registering and looking.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::Api;
use super::extract::{Named, Sent};
use super::problem::Problem;
use super::query::Query;
use super::wire::{Items, PutType, PutTypeAnswer, TaskType};
use crate::host::{Error, NewType};
use crate::id::TypeName;
use crate::task::{Grants, GrantsError, TermsDraft};

/// Register the next version of a task type.
///
/// The same again as the latest version changes nothing. Tasks keep the version they were born with.
#[utoipa::path(
    put, path = "/v1/types/{name}", tag = "types", operation_id = "put_type",
    params(("name" = TypeName, Path, description = "1 to 64 of A-Z a-z 0-9 _ - ., the first a letter or digit.")),
    request_body = PutType,
    responses(
        (status = 201, description = "A new version.", body = PutTypeAnswer),
        (status = 200, description = "The latest version says the same.", body = PutTypeAnswer),
        (status = 404, description = "The component is not there.", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "A field or a term cannot be taken.", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Any other problem.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn put(
    State(api): State<Api>,
    Named(name): Named<TypeName>,
    query: Query,
    Sent(wire): Sent<PutType>,
) -> Result<(StatusCode, Json<PutTypeAnswer>), Problem> {
    query.end()?;
    let grants: Grants = wire.grants.try_into().map_err(|error: GrantsError| api.problem(&error.into()))?;
    let before = match api.host.type_versions(&name).await {
        Ok(versions) => versions.first().map_or(0, |latest| latest.version),
        Err(Error::NotFound { .. }) => 0,
        Err(error) => return Err(api.problem(&error)),
    };
    let new = NewType {
        name,
        component: wire.component,
        terms: TermsDraft { grants: Arc::new(grants), ..wire.terms.into() },
        // As it is printed, not as it was spaced: the same schema is the same version.
        input_schema: wire.input_schema.map(|schema| schema.to_string()),
        by: super::wire::who(wire.by.as_deref())?,
    };
    let row = api.host.put_type(new).await.map_err(|error| api.problem(&error))?;
    let existing = row.version <= before;
    let status = if existing { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Json(PutTypeAnswer { task_type: TaskType::of(&row)?, existing })))
}

/// List the task types by name, each in its latest version.
#[utoipa::path(
    get, path = "/v1/types", tag = "types", operation_id = "list_types",
    responses(
        (status = 200, description = "All of them.", body = Items<TaskType>),
        (status = "default", description = "A problem.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(State(api): State<Api>, query: Query) -> Result<Json<Items<TaskType>>, Problem> {
    query.end()?;
    let rows = api.host.types().await.map_err(|error| api.problem(&error))?;
    let items = rows.iter().map(TaskType::of).collect::<Result<_, _>>()?;
    Ok(Json(Items { items }))
}

/// Show all versions of a task type, latest first.
#[utoipa::path(
    get, path = "/v1/types/{name}", tag = "types", operation_id = "list_type_versions",
    params(("name" = TypeName, Path, description = "The task type.")),
    responses(
        (status = 200, description = "All versions.", body = Items<TaskType>),
        (status = 404, description = "There is no such type.", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Any other problem.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn versions(
    State(api): State<Api>,
    Named(name): Named<TypeName>,
    query: Query,
) -> Result<Json<Items<TaskType>>, Problem> {
    query.end()?;
    let rows = api.host.type_versions(&name).await.map_err(|error| api.problem(&error))?;
    let items = rows.iter().map(TaskType::of).collect::<Result<_, _>>()?;
    Ok(Json(Items { items }))
}
