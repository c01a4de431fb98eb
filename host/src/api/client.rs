//! The API from the other side: one method for each route, the same types, errors that keep their code and hint.
//!
//! Must not know the host's insides: it could as well be another machine.

use std::time::{Duration, Instant};

use reqwest::{Method, RequestBuilder, Response, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::problem::Problem;
use super::wire::{
    Alive, Ask, Attempt, AuditEntry, BatchItem, CancelAsk, Component, Health, Items, LogLine, LogPage, NewTask,
    PauseAsk, PutComponent, PutType, PutTypeAnswer, Queue, RerunAsk, Resumed, Span, Submitted, Task, TaskInput,
    TaskPage, TaskResult, TaskType,
};
use crate::id::{Digest, QueueName, TaskId, TypeName};
use crate::task::Kind;
use crate::time::Timestamp;

/// The longest that the API lets one request wait.
pub const WAIT_MAX: Duration = Duration::from_mins(1);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// An upload is compiled before it is answered.
const UPLOAD_TIMEOUT: Duration = Duration::from_mins(5);

/// A request did not come to what it was for.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The API said no.
    #[error("{}", .0.detail)]
    Problem(Box<Problem>),
    /// Nobody answers there.
    #[error("cannot reach `{url}`: {}", innermost(source))]
    Unreachable { url: String, source: reqwest::Error },
    /// What answers there does not speak this API.
    #[error("`{url}` does not answer as an Atropos host would: {detail}")]
    Protocol { url: String, detail: String },
    /// The address is none.
    #[error("`{given}` is not an address such as `http://127.0.0.1:7717`")]
    Address { given: String },
}

impl ClientError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> &str {
        match self {
            Self::Problem(problem) => &problem.code,
            Self::Unreachable { .. } => "unreachable",
            Self::Protocol { .. } => "protocol",
            Self::Address { .. } => "address_invalid",
        }
    }

    /// What to do next.
    #[must_use]
    pub fn hint(&self) -> &str {
        match self {
            Self::Problem(problem) => &problem.hint,
            Self::Unreachable { .. } => "start the host with `atropos serve`, or name the right one with `--url`",
            Self::Protocol { .. } => "check the address; host and command line should be of the same version",
            Self::Address { .. } => "give the host's address with its scheme and port",
        }
    }

    /// What the API said, if it said anything.
    #[must_use]
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Problem(problem) => Some(problem),
            Self::Unreachable { .. } | Self::Protocol { .. } | Self::Address { .. } => None,
        }
    }
}

/// What it comes down to: the rest of the chain repeats the address.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |cause| cause.source());
    causes.last().map(ToString::to_string).unwrap_or_default()
}

/// Which tasks to list. Empty: all, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListQuery {
    pub states: Vec<Kind>,
    pub task_type: Option<TypeName>,
    pub queue: Option<QueueName>,
    /// A label's name and value.
    pub label: Option<(String, String)>,
    pub creator: Option<String>,
    /// 32 hexadecimal digits.
    pub trace: Option<String>,
    pub created_from: Option<Timestamp>,
    /// Not including.
    pub created_to: Option<Timestamp>,
    /// 1 to 500.
    pub limit: Option<usize>,
    /// The `next_cursor` of the page before.
    pub cursor: Option<String>,
}

impl ListQuery {
    fn pairs(&self) -> Vec<(&'static str, String)> {
        let mut pairs: Vec<_> = self.states.iter().map(|state| ("state", state.code().to_owned())).collect();
        let mut push = |name, value: Option<String>| pairs.extend(value.map(|value| (name, value)));
        push("type", self.task_type.as_ref().map(ToString::to_string));
        push("queue", self.queue.as_ref().map(ToString::to_string));
        push("label", self.label.as_ref().map(|(name, value)| format!("{name}:{value}")));
        push("creator", self.creator.clone());
        push("trace", self.trace.clone());
        push("created_from", self.created_from.map(|at| at.to_string()));
        push("created_to", self.created_to.map(|at| at.to_string()));
        push("limit", self.limit.map(|limit| limit.to_string()));
        push("cursor", self.cursor.clone());
        pairs
    }
}

/// A host that is reached over HTTP. Clones share its connections.
#[derive(Clone, Debug)]
pub struct Client {
    base: Url,
    http: reqwest::Client,
}

type Answer<T> = Result<T, ClientError>;
const NO_QUERY: &[(&str, String)] = &[];

impl Client {
    /// A host at an address such as `http://127.0.0.1:7717`. Nothing is sent yet.
    ///
    /// # Errors
    /// The text is no address.
    pub fn new(base_url: &str) -> Answer<Self> {
        let wrong = || ClientError::Address { given: base_url.to_owned() };
        let base: Url = base_url.parse().map_err(|_| wrong())?;
        if base.cannot_be_a_base() || base.host_str().is_none() {
            return Err(wrong());
        }
        // The host is on this machine: what the environment says of proxies is not for it.
        let http = reqwest::Client::builder().connect_timeout(CONNECT_TIMEOUT).no_proxy().build();
        Ok(Self { base, http: http.map_err(|_| wrong())? })
    }

    /// The address it was made with.
    #[must_use]
    pub fn base_url(&self) -> &str {
        self.base.as_str()
    }

    // Components and types.

    /// Uploads a component.
    pub async fn push_component(&self, bytes: Vec<u8>, by: Option<&str>) -> Answer<PutComponent> {
        let query: Vec<_> = by.map(|by| ("by", by)).into_iter().collect();
        let request = self.request(Method::POST, "/v1/components", &query);
        let request = request.header("content-type", "application/wasm").timeout(UPLOAD_TIMEOUT).body(bytes);
        self.send(request).await
    }

    /// Every component, newest first.
    pub async fn components(&self) -> Answer<Vec<Component>> {
        self.items("/v1/components").await
    }

    pub async fn component(&self, digest: Digest) -> Answer<Component> {
        self.get(&format!("/v1/components/{digest}"), NO_QUERY).await
    }

    /// Registers the next version of a type.
    pub async fn put_type(&self, name: &TypeName, new: &PutType) -> Answer<PutTypeAnswer> {
        let request = self.request(Method::PUT, &format!("/v1/types/{name}"), NO_QUERY);
        self.send(request.timeout(ANSWER_TIMEOUT).json(new)).await
    }

    /// The latest version of each type, by name.
    pub async fn types(&self) -> Answer<Vec<TaskType>> {
        self.items("/v1/types").await
    }

    /// All versions of a type, latest first.
    pub async fn type_versions(&self, name: &TypeName) -> Answer<Vec<TaskType>> {
        self.items(&format!("/v1/types/{name}")).await
    }

    // Tasks.

    /// Registers a task. One that was refused (REJECTED) is a [`Problem`] with the task in it.
    pub async fn submit(&self, task: &NewTask) -> Answer<Submitted> {
        self.post("/v1/tasks", task).await
    }

    /// Registers up to 1,000 tasks at once: all of them, or none if one is no task at all.
    pub async fn submit_many(&self, tasks: &[NewTask]) -> Answer<Vec<BatchItem>> {
        self.post("/v1/tasks", tasks).await
    }

    pub async fn list(&self, query: &ListQuery) -> Answer<TaskPage> {
        self.get("/v1/tasks", &query.pairs()).await
    }

    pub async fn show(&self, id: TaskId) -> Answer<Task> {
        self.get(&format!("/v1/tasks/{id}"), NO_QUERY).await
    }

    /// The task as it is when it has ended, or when `patience` is over.
    pub async fn wait(&self, id: TaskId, patience: Duration) -> Answer<Task> {
        let begun = Instant::now();
        loop {
            let left = patience.saturating_sub(begun.elapsed());
            let wait = Duration::from_millis(u64::try_from(left.min(WAIT_MAX).as_millis()).unwrap_or(u64::MAX));
            let request = self.request(Method::GET, &format!("/v1/tasks/{id}"), &[("wait", Span(wait).to_string())]);
            let task: Task = self.send(request.timeout(wait + ANSWER_TIMEOUT)).await?;
            if task.state.is_terminal() || left.is_zero() {
                return Ok(task);
            }
            // A host that goes down answers its waits early.
            if begun.elapsed() < patience {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    /// Cancels. The answer shows it stopping, or ended if it did not run.
    pub async fn cancel(&self, id: TaskId, ask: &CancelAsk) -> Answer<Task> {
        self.post(&format!("/v1/tasks/{id}/cancel"), ask).await
    }

    /// Takes an ended task up again.
    pub async fn rerun(&self, id: TaskId, ask: &RerunAsk) -> Answer<Task> {
        self.post(&format!("/v1/tasks/{id}/rerun"), ask).await
    }

    /// Ends a task as FAILED, with no grace and no retry.
    pub async fn fail(&self, id: TaskId, ask: &Ask) -> Answer<Task> {
        self.post(&format!("/v1/tasks/{id}/fail"), ask).await
    }

    /// Takes a recoverable task off the dead-letter list.
    pub async fn give_up(&self, id: TaskId, ask: &Ask) -> Answer<Task> {
        self.post(&format!("/v1/tasks/{id}/give-up"), ask).await
    }

    /// Every change of the task, in order.
    pub async fn audit(&self, id: TaskId) -> Answer<Vec<AuditEntry>> {
        self.items(&format!("/v1/tasks/{id}/audit")).await
    }

    /// Every attempt, first to last.
    pub async fn attempts(&self, id: TaskId) -> Answer<Vec<Attempt>> {
        self.items(&format!("/v1/tasks/{id}/attempts")).await
    }

    /// The core dump of an attempt. Without one: a [`Problem`] `no_core_dump`.
    pub async fn core_dump(&self, id: TaskId, attempt: u32) -> Answer<Vec<u8>> {
        let path = format!("/v1/tasks/{id}/attempts/{attempt}/core-dump");
        let response = self.answer(self.request(Method::GET, &path, NO_QUERY).timeout(ANSWER_TIMEOUT)).await?;
        let url = response.url().to_string();
        Ok(response.bytes().await.map_err(|error| broken(&url, &error))?.into())
    }

    /// Up to `limit` (1 to 1,000) log lines after that number; 0 begins at the beginning.
    pub async fn logs(&self, id: TaskId, after: u64, limit: usize) -> Answer<LogPage> {
        let query = [("after", after.to_string()), ("limit", limit.to_string())];
        self.get(&format!("/v1/tasks/{id}/logs"), &query).await
    }

    /// Log lines after that number as they are written, until the task has ended or the host goes down.
    pub async fn follow_logs(&self, id: TaskId, after: u64) -> Answer<LogStream> {
        let query = [("after", after.to_string()), ("follow", "true".to_owned())];
        let request = self.request(Method::GET, &format!("/v1/tasks/{id}/logs"), &query);
        let response = self.answer(request).await?;
        Ok(LogStream { url: response.url().to_string(), response, rest: Vec::new(), seen: 0 })
    }

    /// What the task came to. Without a result: a [`Problem`] `no_result`.
    pub async fn result(&self, id: TaskId) -> Answer<TaskResult> {
        self.get(&format!("/v1/tasks/{id}/result"), NO_QUERY).await
    }

    pub async fn input(&self, id: TaskId) -> Answer<TaskInput> {
        self.get(&format!("/v1/tasks/{id}/input"), NO_QUERY).await
    }

    // Queues and the node.

    /// Every queue that is paused or has live tasks, by name.
    pub async fn queues(&self) -> Answer<Vec<Queue>> {
        self.items("/v1/queues").await
    }

    pub async fn pause(&self, queue: &QueueName, ask: &PauseAsk) -> Answer<super::wire::Pause> {
        self.post(&format!("/v1/queues/{queue}/pause"), ask).await
    }

    pub async fn resume(&self, queue: &QueueName, ask: &Ask) -> Answer<Resumed> {
        self.post(&format!("/v1/queues/{queue}/resume"), ask).await
    }

    /// The process answers.
    pub async fn livez(&self) -> Answer<Alive> {
        self.get("/livez", NO_QUERY).await
    }

    /// The node takes work. A [`Problem`] says why it does not.
    pub async fn readyz(&self) -> Answer<Alive> {
        self.get("/readyz", NO_QUERY).await
    }

    pub async fn health(&self) -> Answer<Health> {
        self.get("/v1/health", NO_QUERY).await
    }

    /// The API's own description.
    pub async fn openapi(&self) -> Answer<serde_json::Value> {
        self.get("/openapi.json", NO_QUERY).await
    }

    // How it is done.

    /// Names, ids and digests need no escaping in a path.
    fn request<N: AsRef<str>, V: AsRef<str>>(&self, method: Method, path: &str, query: &[(N, V)]) -> RequestBuilder {
        let mut url = self.base.clone();
        url.set_path(&format!("{}{path}", self.base.path().trim_end_matches('/')));
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        self.http.request(method, url)
    }

    async fn get<T: DeserializeOwned>(&self, path: &str, query: &[(&str, String)]) -> Answer<T> {
        self.send(self.request(Method::GET, path, query).timeout(ANSWER_TIMEOUT)).await
    }

    async fn items<T: DeserializeOwned>(&self, path: &str) -> Answer<Vec<T>> {
        self.get::<Items<T>>(path, NO_QUERY).await.map(|all| all.items)
    }

    async fn post<T: DeserializeOwned>(&self, path: &str, body: &(impl Serialize + ?Sized + Sync)) -> Answer<T> {
        self.send(self.request(Method::POST, path, NO_QUERY).timeout(ANSWER_TIMEOUT).json(body)).await
    }

    async fn send<T: DeserializeOwned>(&self, request: RequestBuilder) -> Answer<T> {
        let response = self.answer(request).await?;
        let url = response.url().to_string();
        let body = response.bytes().await.map_err(|error| broken(&url, &error))?;
        serde_json::from_slice(&body).map_err(|error| ClientError::Protocol { url, detail: error.to_string() })
    }

    /// A good answer, or the problem.
    async fn answer(&self, request: RequestBuilder) -> Answer<Response> {
        let url = self.base.to_string();
        let response = request.send().await.map_err(|source| ClientError::Unreachable { url, source })?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let url = response.url().to_string();
        let body = response.bytes().await.map_err(|error| broken(&url, &error))?;
        match serde_json::from_slice(&body) {
            Ok(problem) => Err(ClientError::Problem(Box::new(problem))),
            Err(_) => Err(ClientError::Protocol { url, detail: format!("status {status} without a problem") }),
        }
    }
}

fn broken(url: &str, error: &reqwest::Error) -> ClientError {
    ClientError::Protocol { url: url.to_owned(), detail: format!("the answer broke off: {}", innermost(error)) }
}

/// Log lines as they are written.
#[derive(Debug)]
pub struct LogStream {
    url: String,
    response: Response,
    /// Bytes that have come and are not read yet.
    rest: Vec<u8>,
    /// How many of them are known to hold no line end.
    seen: usize,
}

impl LogStream {
    /// The next line; `None` when the task has ended and all lines are read, or when the host goes down.
    pub async fn next(&mut self) -> Answer<Option<LogLine>> {
        loop {
            if let Some(end) = self.rest[self.seen..].iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=self.seen + end).collect();
                self.seen = 0;
                let parsed = serde_json::from_slice(&line);
                let failed = |error: serde_json::Error| ClientError::Protocol {
                    url: self.url.clone(),
                    detail: error.to_string(),
                };
                return parsed.map(Some).map_err(failed);
            }
            self.seen = self.rest.len();
            match self.response.chunk().await {
                Ok(Some(chunk)) => self.rest.extend_from_slice(&chunk),
                Ok(None) if self.rest.is_empty() => return Ok(None),
                Ok(None) => {
                    let detail = "the log broke off within a line".to_owned();
                    return Err(ClientError::Protocol { url: self.url.clone(), detail });
                }
                Err(error) => return Err(broken(&self.url, &error)),
            }
        }
    }
}
