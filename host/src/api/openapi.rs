//! The API's description of itself: the OpenAPI document, made from the handlers, and the table of problems.

use std::sync::LazyLock;

use axum::Json;
use axum::http::header;
use axum::response::IntoResponse;
use serde::Serialize;
use utoipa::{OpenApi, ToSchema};

use super::codes::{CODES, Code};
use super::extract::Named;
use super::problem::Problem;
use super::query::Text;
use super::wire::Items;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Atropos",
        description = "A host for dynamic tasks. JSON both ways; durations are texts such as `90s`, times RFC 3339 in UTC. \
                       What goes wrong is told as `application/problem+json` (RFC 9457) with a stable `code` and a `hint`. \
                       Unknown fields and parameters are refused.",
    ),
    tags(
        (name = "tasks", description = "Work: submitted, watched, stopped, taken up again."),
        (name = "types", description = "Names under which components are registered with their terms."),
        (name = "components", description = "Uploaded WebAssembly."),
        (name = "queues", description = "Lines of waiting tasks."),
        (name = "node", description = "How the node is, and what it can do."),
    )
)]
pub(super) struct Document;

static TEXT: LazyLock<String> = LazyLock::new(|| {
    let document = super::routes().split_for_parts().1;
    document.to_pretty_json().unwrap_or_default()
});

/// A kind of problem, and what to do about it.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub(super) struct ProblemKind {
    /// Stable: programs may rely on it.
    code: &'static str,
    /// The HTTP status.
    status: u16,
    title: &'static str,
    /// What to do about it.
    advice: &'static str,
}

impl From<&Code> for ProblemKind {
    fn from(code: &Code) -> Self {
        Self { code: code.name, status: code.status, title: code.title, advice: code.advice }
    }
}

/// Show this document.
#[utoipa::path(
    get, path = "/openapi.json", tag = "node", operation_id = "openapi",
    responses((status = 200, description = "OpenAPI 3.1.", body = Object, content_type = "application/json"))
)]
pub(super) async fn document() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], TEXT.as_str())
}

/// List every problem that the API can answer with.
#[utoipa::path(
    get, path = "/problems", tag = "node", operation_id = "list_problems",
    responses((status = 200, description = "All of them.", body = Items<ProblemKind>))
)]
pub(super) async fn problems() -> Json<Items<ProblemKind>> {
    Json(CODES.iter().map(Into::into).collect())
}

/// Show what to do about a problem: this is where its `type` leads.
#[utoipa::path(
    get, path = "/problems/{code}", tag = "node", operation_id = "show_problem",
    params(("code" = String, Path, description = "The problem's `code`.")),
    responses(
        (status = 200, description = "What it is, and what to do.", body = ProblemKind),
        (status = 404, description = "There is no such code.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn problem(Named(Text(code)): Named<Text>) -> Result<Json<ProblemKind>, Problem> {
    if let Some(entry) = Code::find(&code) {
        return Ok(Json(entry.into()));
    }
    let code: String = code.chars().take(80).collect();
    Err(Problem::new("not_found", format!("there is no problem code `{code}`")).hinting("see `/problems`"))
}
