//! Bad guests hurt nobody else: not other tasks, not the API, not the node's memory.

use std::time::Duration;

use atropos::host::Submitted;
use atropos::id::TaskId;
use atropos::task::{Kind, Reason, TermsDraft};
use atropos::{Config, Host};
use serde_json::json;

use crate::bed::{self, ask, assert_ends, attempts, ended, entered, finish, new, show, submit, terms};
use crate::support::{answer, guest, root, until};

pub async fn crowd(host: &Host, kind: &str, count: usize) -> Vec<TaskId> {
    let born = host.submit_many(vec![new(kind); count]).await.map_err(|(_, error)| error).expect("they are taken");
    let ids: Vec<_> = born.into_iter().map(|Submitted { task, .. }| task.spec.id).collect();
    for id in &ids {
        entered(host, *id).await;
    }
    ids
}

pub async fn disperse(host: &Host, ids: Vec<TaskId>) {
    for id in &ids {
        host.cancel(*id, ask("enough"), Some(Duration::ZERO)).await.expect("it is told");
    }
    for id in ids {
        assert_eq!(ended(host, id).await.state.kind(), Kind::Cancelled);
    }
}

/// The API beside a crowd, in this process.
pub async fn with_api<T>(host: &Host, visit: impl AsyncFnOnce(&str) -> T) -> T {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (close, closed) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(atropos::api::serve(host.clone(), listener, async move { drop(closed.await) }));
    let seen = visit(&url).await;
    drop(close);
    serving.await.expect("no panic").expect("it ends well");
    seen
}

/// One request of each kind, and a task from its birth to its end.
async fn assert_answers(url: &str) {
    let http = reqwest::Client::new();
    let get = async |path: &str| answer(http.get(format!("{url}{path}"))).await;
    let post = async |path: &str, body: &serde_json::Value| answer(http.post(format!("{url}{path}")).json(body)).await;
    for path in
        ["/livez", "/readyz", "/v1/health", "/v1/tasks", "/v1/tasks?state=RUNNING&limit=500", "/v1/queues", "/v1/types"]
    {
        assert_eq!(get(path).await.0, 200, "{path}");
    }
    assert_eq!(get("/v1/types/ok").await.0, 200);
    assert_eq!(get("/v1/components").await.0, 200);
    assert_eq!(get("/openapi.json").await.0, 200);
    let upload =
        http.post(format!("{url}/v1/components")).header("content-type", "application/wasm").body(guest("echo"));
    let (status, component) = answer(upload).await;
    assert!(status == 200 || status == 201, "{component}");
    let type_of = json!({ "component": component["digest"], "terms": { "run_timeout": "1m" } });
    let (status, body) = answer(http.put(format!("{url}/v1/types/echo")).json(&type_of)).await;
    assert!(status == 200 || status == 201, "{body}");

    let (status, task) = post("/v1/tasks", &json!({ "type": "echo", "input": { "n": 7 } })).await;
    assert_eq!(status, 201, "{task}");
    let id = task["id"].as_str().expect("an id");
    let (_, task) = get(&format!("/v1/tasks/{id}?wait=60s")).await;
    assert_eq!(task["state"], "SUCCESS", "{task}");
    for part in ["audit", "attempts", "logs", "result", "input"] {
        assert_eq!(get(&format!("/v1/tasks/{id}/{part}")).await.0, 200, "{part}");
    }
    assert_eq!(post(&format!("/v1/tasks/{id}/cancel"), &json!({ "by": "user:ada" })).await.0, 409);
    assert_eq!(post("/v1/queues/night/pause", &json!({ "by": "user:ada", "reason": "a freeze" })).await.0, 200);
    let (_, held) = post("/v1/tasks", &json!({ "type": "echo", "input": 1, "queue": "night" })).await;
    let held = held["id"].as_str().expect("an id");
    assert_eq!(post(&format!("/v1/tasks/{held}/cancel"), &json!({ "by": "user:ada" })).await.1["state"], "CANCELLED");
    assert_eq!(post("/v1/queues/night/resume", &json!({ "by": "user:ada" })).await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_64_spinners_the_api_answers_and_other_tasks_run_to_their_end() {
    let data = tempfile::tempdir().expect("a folder");
    let host = bed::start(Some(data.path()), Config { slots: 80, ..Config::default() }).await;
    bed::put_guests(&host, &["spin", "ok", "sleep-once", "log-lines", "trap"], terms()).await;
    let spinners = crowd(&host, "spin", 64).await;
    with_api(&host, async |url: &str| assert_answers(url).await).await;
    for (kind, ends) in
        [("ok", Kind::Success), ("sleep-once", Kind::Success), ("log-lines", Kind::Success), ("trap", Kind::Failed)]
    {
        let id = submit(&host, new(kind)).await;
        assert_eq!(ended(&host, id).await.state.kind(), ends, "{kind}");
    }
    for id in &spinners {
        assert_eq!(show(&host, *id).await.task.state.kind(), Kind::Running, "nobody was killed for them");
    }
    disperse(&host, spinners).await;
    finish(host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_32_guests_that_fill_their_memory_other_tasks_run_and_the_api_answers() {
    let data = tempfile::tempdir().expect("a folder");
    let host = bed::start(Some(data.path()), Config { slots: 40, ..Config::default() }).await;
    bed::put_guests(&host, &["fill", "ok"], terms()).await;
    let fillers = crowd(&host, "fill", 32).await;
    with_api(&host, async |url: &str| assert_answers(url).await).await;
    let id = submit(&host, new("ok")).await;
    assert_ends(&host, id, Kind::Success, Reason::Completed).await;
    disperse(&host, fillers).await;
    finish(host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_of_all_guests_together_is_bounded_and_who_comes_too_late_may_come_again() {
    const MIB: u64 = 1 << 20;
    let data = tempfile::tempdir().expect("a folder");
    let config = Config { guest_memory_bytes_max: 80 * MIB, ..Config::default() };
    let host = bed::start(Some(data.path()), config).await;
    let patient = TermsDraft { retry_base: Some(Duration::from_millis(10)), max_retries: Some(1_000), ..terms() };
    bed::put_guests(&host, &["memory-hog", "ok"], patient.clone()).await;
    let hogs = crowd(&host, "memory-hog", 2).await;

    bed::put(&host, "late", hog_that_returns(), patient).await;
    let late = submit(&host, new("late")).await;
    let refused = until("a refusal", async || {
        let all = host.attempts(late).await.expect("its attempts");
        all.into_iter().find_map(|attempt| match attempt {
            atropos::host::AttemptView::Over(row) => Some(*row),
            atropos::host::AttemptView::Live { .. } => None,
        })
    })
    .await;
    assert_eq!(refused.reason, Reason::System, "it is not the guest's fault: {refused:?}");
    assert!(refused.detail.contains("all guests of the node together"), "{}", refused.detail);

    let small = submit(&host, new("ok")).await;
    assert_ends(&host, small, Kind::Success, Reason::Completed).await;
    for id in &hogs {
        let view = show(&host, *id).await;
        assert!(view.task.state.kind() == Kind::Running && view.live.is_some(), "who was there first stays");
    }
    disperse(&host, hogs).await;
    assert_ends(&host, late, Kind::Success, Reason::Completed).await;
    assert!(attempts(&host, late).await.len() > 1);
    finish(host).await;
}

/// As `memory-hog`, but it returns ok("null") once it has touched its memory.
fn hog_that_returns() -> Vec<u8> {
    let text = std::fs::read_to_string(root().join("tests/guests/memory-hog.wat")).expect("a guest");
    let (before, after) = text.split_once("(loop $forever").expect("its loop");
    let (_, after) = after.split_once("unreachable)").expect("its end");
    let ok = "(i32.store (i32.const 68) (i32.const 128)) (i32.store (i32.const 72) (i32.const 4)) (i32.const 64))";
    let text = format!("{before}{ok}\n(data (i32.const 128) \"null\"){after}");
    wat::parse_str(text).expect("a guest")
}
