//! The log of a task: a page of it, or all of it as it is written.

use std::collections::VecDeque;
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream;

use super::extract::Named;
use super::problem::Problem;
use super::query::{Query, invalid};
use super::wire::{LogLine, LogPage};
use super::{Api, Wait};
use crate::host::Error;
use crate::id::TaskId;

const PAGE_DEFAULT: usize = 500;
const PAGE_MAX: usize = 1_000;
/// How often a followed log is looked at. The end of its task is heard at once.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Show the log of a task, or follow it.
///
/// With `follow=true` the answer is one JSON object a line (`application/x-ndjson`), until the task has ended and all its
/// lines are sent, or the host goes down.
#[utoipa::path(
    get, path = "/v1/tasks/{id}/logs", tag = "tasks", operation_id = "task_logs",
    params(
        ("id" = TaskId, Path, description = "The task."),
        ("after" = Option<u64>, Query, description = "Lines after the one with this number; 0 if absent."),
        ("limit" = Option<usize>, Query, minimum = 1, maximum = 1000, description = "The most lines of the page; 500 if absent. Not with `follow`."),
        ("follow" = Option<bool>, Query, description = "Go on until the task has ended."),
    ),
    responses(
        (status = 200, description = "Lines in order.", content(
            (LogPage = "application/json"),
            (LogLine = "application/x-ndjson"),
        )),
        (status = 404, description = "There is no such task.", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Any other problem.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn logs(
    State(api): State<Api>,
    Named(id): Named<TaskId>,
    mut query: Query,
) -> Result<Response, Problem> {
    let after = query.one("after")?.unwrap_or(0);
    let limit = query.number("limit", 1..=PAGE_MAX)?;
    let follow = query.one("follow")?.unwrap_or(false);
    query.end()?;
    if follow && limit.is_some() {
        return Err(invalid("limit", "does not go with `follow`"));
    }
    let limit = limit.unwrap_or(PAGE_DEFAULT);
    if follow {
        // What is wrong is told before the first line.
        api.host.show(id).await.map_err(|error| api.problem(&error))?;
        let counted = api.wait()?;
        let following = Following { api, id, after, over: false, ready: VecDeque::new(), _counted: counted };
        let body = Body::from_stream(stream::try_unfold(following, Following::next));
        return Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response());
    }
    let rows = api.host.logs(id, after, limit).await.map_err(|error| api.problem(&error))?;
    let next_after = rows.last().map_or(after, |row| row.number);
    Ok(Json(LogPage { items: rows.into_iter().map(Into::into).collect(), next_after }).into_response())
}

/// A log that is followed.
struct Following {
    api: Api,
    id: TaskId,
    after: u64,
    /// The task had ended before the lines were last looked for.
    over: bool,
    ready: VecDeque<Bytes>,
    _counted: Wait,
}

impl Following {
    /// The next lines. A fault breaks the answer off, so that nobody takes it for the end.
    async fn next(mut self) -> Result<Option<(Bytes, Self)>, Error> {
        loop {
            if let Some(lines) = self.ready.pop_front() {
                return Ok(Some((lines, self)));
            }
            let rows = self.api.host.logs(self.id, self.after, PAGE_DEFAULT).await?;
            if let Some(last) = rows.last() {
                self.after = last.number;
                self.ready.extend(rows.into_iter().map(|row| written(&row.into())));
                continue;
            }
            if self.over || self.api.is_closing() {
                return Ok(None);
            }
            let view = tokio::select! {
                view = self.api.host.wait(self.id, LOOK_EVERY) => view?,
                () = self.api.closing() => continue,
            };
            self.over = view.task.state.kind().is_terminal();
        }
    }
}

fn written(line: &LogLine) -> Bytes {
    let mut text = serde_json::to_vec(line).unwrap_or_default();
    text.push(b'\n');
    text.into()
}
