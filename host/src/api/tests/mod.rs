//! The API over a throw-away host with real guests. Every test ends with the ledger at zero.

mod bad;
mod dedup;
mod described;
mod good;
mod refused;
mod served;

use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Request, header};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::codes::Code;
use super::{Api, build, problem};
use crate::host::Shutdown;
use crate::{Config, Host};

/// Long enough for any test on any machine; nothing waits this long when all is well.
const PATIENCE: Duration = Duration::from_mins(1);

struct Bed {
    host: Host,
    api: Api,
    router: Router,
}

/// An answer, read to its end.
struct Reply {
    status: u16,
    headers: HeaderMap,
    body: Bytes,
}

impl Reply {
    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {:?}", self.body))
    }

    /// The answer's JSON, if it has this status.
    #[track_caller]
    fn ok(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self.json()
    }

    /// The problem, if it has this status and code, and everything that a problem should have.
    #[track_caller]
    fn problem(&self, status: u16, code: &str) -> Value {
        let problem = self.ok(status);
        assert_eq!(self.headers[header::CONTENT_TYPE], problem::MEDIA_TYPE);
        assert_eq!(problem["code"], code, "{problem:#}");
        assert_eq!(problem["status"], status, "{problem:#}");
        assert_eq!(problem["type"], format!("/problems/{code}"));
        for text in ["title", "detail", "hint"] {
            assert!(problem[text].as_str().is_some_and(|text| !text.is_empty()), "no {text}: {problem:#}");
        }
        let entry = Code::find(code).unwrap_or_else(|| panic!("`{code}` is not in the table"));
        assert_eq!(entry.status, status, "{code}");
        problem
    }
}

/// The bytes of a guest of `tests/guests`.
fn guest(name: &str) -> Vec<u8> {
    let path = format!("{}/../tests/guests/{name}.wat", env!("CARGO_MANIFEST_DIR"));
    wat::parse_file(&path).unwrap_or_else(|error| panic!("{error}"))
}

impl Bed {
    async fn new() -> Self {
        Self::with(|_| ()).await
    }

    async fn with(change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config { slots: 4, guest_threads: 1, ..Config::default() };
        change(&mut config);
        let host = Host::start(config).await.unwrap();
        let api = Api::new(host.clone());
        Self { router: build(api.clone()), api, host }
    }

    async fn send(&self, request: Request<Body>) -> Reply {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        Reply { status: parts.status.as_u16(), headers: parts.headers, body }
    }

    async fn get(&self, path: &str) -> Reply {
        self.send(Request::get(path).header("host", "localhost").body(Body::empty()).unwrap()).await
    }

    async fn send_json(&self, method: &str, path: &str, body: impl Into<Body>) -> Reply {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        self.send(request.header("content-type", "application/json").body(body.into()).unwrap()).await
    }

    async fn post(&self, path: &str, body: &Value) -> Reply {
        self.send_json("POST", path, body.to_string()).await
    }

    async fn upload(&self, bytes: Vec<u8>) -> Reply {
        let request = Request::post("/v1/components?by=tests").header("host", "localhost");
        self.send(request.header("content-type", "application/wasm").body(bytes.into()).unwrap()).await
    }

    /// Registers a guest under its own name.
    async fn register(&self, name: &str, terms: Value) {
        let component = self.upload(guest(name)).await.json();
        let body = json!({ "component": component["digest"], "terms": terms });
        let reply = self.send_json("PUT", &format!("/v1/types/{name}"), body.to_string()).await;
        assert!(reply.status < 300, "{:?}", reply.body);
    }

    async fn submit(&self, task: &Value) -> Value {
        self.post("/v1/tasks", task).await.ok(201)
    }

    /// The task when it has ended.
    async fn ended(&self, id: &Value) -> Value {
        let id = id.as_str().unwrap();
        let task = self.get(&format!("/v1/tasks/{id}?wait=60s")).await.ok(200);
        assert!(task["ended_at"].is_string(), "{task:#}");
        task
    }

    /// The task when it looks like this.
    async fn seen(&self, id: &Value, looks: impl Fn(&Value) -> bool) -> Value {
        let path = format!("/v1/tasks/{}", id.as_str().unwrap());
        let looking = async {
            loop {
                let task = self.get(&path).await.ok(200);
                if looks(&task) {
                    return task;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, looking).await.expect("the task should come to look like this")
    }

    /// How many tasks, types and components there are.
    async fn census(&self) -> (usize, usize, usize) {
        let count = |value: Value| value["items"].as_array().unwrap().len();
        let tasks = count(self.get("/v1/tasks?limit=500").await.ok(200));
        let types = count(self.get("/v1/types").await.ok(200));
        (tasks, types, count(self.get("/v1/components").await.ok(200)))
    }

    /// Nothing is left, and the host goes down cleanly.
    async fn end(self) {
        let quiet = async {
            loop {
                let health = self.host.health().await.unwrap();
                let waits = self.api.waits.load(std::sync::atomic::Ordering::Relaxed);
                if (health.attempts, health.sandboxes, waits) == (0, 0, 0) {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, quiet).await.expect("attempts, sandboxes and waits should come to zero");
        assert_eq!(self.host.shut_down().await.unwrap(), Shutdown::Clean);
    }
}
