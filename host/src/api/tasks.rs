//! Looking at tasks: one, or a list.

use std::time::Duration;

use axum::Json;
use axum::extract::State;

use super::Api;
use super::client::WAIT_MAX;
use super::extract::Named;
use super::problem::Problem;
use super::query::{Query, Text, invalid};
use super::wire::{Span, Task, TaskPage};
use crate::id::{QueueName, TaskId, TypeName};
use crate::store::TaskFilter;
use crate::task::Kind;
use crate::time::Timestamp;

const PAGE_DEFAULT: usize = 50;
const PAGE_MAX: usize = 500;

/// List tasks, newest first.
#[utoipa::path(
    get, path = "/v1/tasks", tag = "tasks", operation_id = "list_tasks",
    params(
        ("state" = Option<Vec<Kind>>, Query, description = "Repeated, or divided by commas: any of these."),
        ("type" = Option<TypeName>, Query, description = "Of this task type."),
        ("queue" = Option<QueueName>, Query, description = "Of this queue."),
        ("label" = Option<String>, Query, description = "With this label: `name:value`."),
        ("creator" = Option<String>, Query, description = "Submitted by this creator."),
        ("trace" = Option<String>, Query, description = "Of this trace: 32 hexadecimal digits."),
        ("created_from" = Option<Timestamp>, Query, description = "Created at this time or later."),
        ("created_to" = Option<Timestamp>, Query, description = "Created before this time."),
        ("limit" = Option<usize>, Query, minimum = 1, maximum = 500, description = "The most items of the page; 50 if absent."),
        ("cursor" = Option<String>, Query, description = "The `next_cursor` of the page before."),
    ),
    responses(
        (status = 200, description = "One page.", body = TaskPage),
        (status = 400, description = "A parameter is not what it should be.", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Any other problem.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(State(api): State<Api>, mut query: Query) -> Result<Json<TaskPage>, Problem> {
    let filter = filter(&mut query)?;
    let limit = query.number("limit", 1..=PAGE_MAX)?.unwrap_or(PAGE_DEFAULT);
    let before = query.one::<Text>("cursor")?.map(|Text(cursor)| {
        cursor.parse::<TaskId>().map_err(|_| invalid("cursor", "is not the `next_cursor` of a page"))
    });
    query.end()?;
    let page = api.host.list(filter, before.transpose()?, limit).await.map_err(|error| api.problem(&error))?;
    let next_cursor = page.next.map(|id| id.to_string());
    Ok(Json(TaskPage { items: page.tasks.iter().map(|view| api.task(view)).collect(), next_cursor }))
}

fn filter(query: &mut Query) -> Result<TaskFilter, Problem> {
    let kind = |text: &str| {
        Kind::parse(text).ok_or_else(|| {
            let names = Kind::ALL.map(Kind::code).join(", ");
            invalid("state", format!("`{}` is none of {names}", text.chars().take(80).collect::<String>()))
        })
    };
    let states = query.all("state");
    let kinds = states.iter().flat_map(|some| some.split(',')).map(kind).collect::<Result<_, _>>()?;
    let label = query.one::<Text>("label")?.map(|Text(label)| {
        let pair = label.split_once(':').filter(|(name, _)| !name.is_empty());
        pair.map(|(name, value)| (name.to_owned(), value.to_owned()))
            .ok_or_else(|| invalid("label", "should be `name:value`"))
    });
    let trace = query.one::<Text>("trace")?.map(|Text(trace)| {
        let fits = trace.len() == 32 && trace.bytes().all(|byte| byte.is_ascii_hexdigit());
        if fits { Ok(trace.to_ascii_lowercase()) } else { Err(invalid("trace", "should be 32 hexadecimal digits")) }
    });
    Ok(TaskFilter {
        kinds,
        task_type: query.one("type")?,
        queue: query.one("queue")?,
        label: label.transpose()?,
        creator: query.one::<Text>("creator")?.map(|text| text.0),
        trace_id: trace.transpose()?,
        created_from: query.one("created_from")?,
        created_to: query.one("created_to")?,
    })
}

/// Show a task, or wait for its end.
#[utoipa::path(
    get, path = "/v1/tasks/{id}", tag = "tasks", operation_id = "show_task",
    params(
        ("id" = TaskId, Path, description = "The task."),
        ("wait" = Option<Span>, Query, description = "Answer when the task has ended, or after this time: up to `60s`."),
    ),
    responses(
        (status = 200, description = "The task as it is.", body = Task),
        (status = 404, description = "There is no such task.", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Any other problem.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn show(
    State(api): State<Api>,
    Named(id): Named<TaskId>,
    mut query: Query,
) -> Result<Json<Task>, Problem> {
    let patience = query.one::<Span>("wait")?.map_or(Duration::ZERO, Into::into);
    query.end()?;
    if patience > WAIT_MAX {
        return Err(invalid("wait", format!("is {}, but may be at most {}", Span(patience), Span(WAIT_MAX))));
    }
    let view = if patience.is_zero() {
        api.host.show(id).await
    } else {
        let _counted = api.wait()?;
        tokio::select! {
            view = api.host.wait(id, patience) => view,
            () = api.closing() => api.host.show(id).await,
        }
    };
    Ok(Json(api.task(&view.map_err(|error| api.problem(&error))?)))
}
