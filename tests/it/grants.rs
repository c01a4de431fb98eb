//! Grants from end to end: registered, shown, kept with the version, given to the guest, and gone with it.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use atropos::Config;
use atropos::task::{Grants, Kind, Reason, Scratch, TermsDraft};
use serde_json::{Value, json};

use crate::bed::{self, assert_ends, finish, kill, new, submit, terms};
use crate::support::{Node, program, root, until};

/// The guest that does what its input says.
fn reach() -> Vec<u8> {
    std::fs::read(root().join("tests/guests/built/reach.wasm")).expect("a guest")
}

fn granted(grants: Grants) -> TermsDraft {
    TermsDraft { max_retries: Some(0), grants: Arc::new(grants), ..terms() }
}

fn scratch() -> Grants {
    Grants { scratch: Some(Scratch { bytes: 1 << 20, files: 100 }), ..Grants::default() }
}

fn script(kind: &str, script: &str) -> atropos::host::NewTask {
    atropos::host::NewTask { input: format!("\"{script}\""), ..new(kind) }
}

fn folders(scratch: &Path) -> usize {
    std::fs::read_dir(scratch).map_or(0, Iterator::count)
}

async fn put(node: &Node, name: &str, body: &Value) -> (u16, Value) {
    crate::support::answer(node.http.put(format!("{}/v1/types/{name}", node.url)).json(body)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn grants_are_taken_shown_and_kept() {
    let data = tempfile::tempdir().expect("a folder");
    let node = Node::start(data.path(), &[]);
    node.push("reach", reach(), json!({ "run_timeout": "1m" })).await;
    let (_, types) = node.get("/v1/types/reach").await;
    let component = types["items"][0]["component"].clone();
    assert_eq!(types["items"][0].get("grants"), None, "nothing is granted");
    let grants = json!({
        "environment": { "A": "1" },
        "scratch": { "bytes": 1_000_000 },
        "http": ["API.example.com", "*.example.org@private:*"],
        "tcp": ["10.0.0.0/8:5432"],
    });
    let body = json!({ "component": component, "terms": { "run_timeout": "1m" }, "grants": grants });
    let (status, answer) = put(&node, "reach", &body).await;
    let shown = json!({
        "environment": { "A": "1" },
        "scratch": { "bytes": 1_000_000, "files": 10_000 },
        "http": ["api.example.com", "*.example.org@private:*"],
        "tcp": ["10.0.0.0/8:5432"],
    });
    assert_eq!((status, &answer["version"], &answer["grants"]), (201, &json!(2), &shown));
    assert_eq!(put(&node, "reach", &body).await.0, 200, "the same again is the same");
    let task = node.submit(&json!({ "type": "reach", "input": "env" })).await;
    let task = node.ended(&task).await;
    assert_eq!((&task["state"], &task["grants"]), (&json!("SUCCESS"), &shown));
    assert_eq!(node.terminate().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_granted_is_refused_with_code_and_hint() {
    let data = tempfile::tempdir().expect("a folder");
    let node = Node::start(data.path(), &[]);
    node.push("reach", reach(), json!({ "run_timeout": "1m" })).await;
    let (_, types) = node.get("/v1/types/reach").await;
    let component = types["items"][0]["component"].clone();
    for (grants, code, says) in [
        (json!({ "http": ["https://example.com"] }), "grants_invalid", "`https://example.com` names no host"),
        (json!({ "tcp": ["example.com"] }), "grants_invalid", "says no port"),
        (json!({ "environment": { "A=B": "" } }), "grants_invalid", "no name of a variable"),
        (json!({ "scratch": { "bytes": 0 } }), "grants_invalid", "`scratch.bytes` is 0"),
        (json!({ "udp": [] }), "invalid_body", "udp"),
    ] {
        let body = json!({ "component": component, "grants": grants });
        let (status, problem) = put(&node, "reach", &body).await;
        assert_eq!((status, problem["code"].as_str()), (422, Some(code)), "{problem}");
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains(says)), "{problem}");
        assert!(problem["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{problem}");
    }
    let wider = json!({ "type": "reach", "input": "env", "grants": { "http": ["example.com"] } });
    let (status, problem) = node.post("/v1/tasks", &wider).await;
    assert_eq!(
        (status, problem["code"].as_str()),
        (422, Some("invalid_body")),
        "no submission widens what its type may reach"
    );
    assert_eq!(node.terminate().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_keeps_the_grants_that_it_was_born_with() {
    let host = bed::start(None, Config::default()).await;
    let environment = |value: &str| Grants { environment: vec![("A".into(), value.into())], ..Grants::default() };
    bed::put(&host, "reach", reach(), granted(environment("born"))).await;
    host.pause("default".parse().expect("a name"), None, bed::ask("later")).await.expect("it is paused");
    let id = submit(&host, script("reach", "env")).await;
    bed::put(&host, "reach", reach(), granted(environment("later"))).await;
    host.resume("default".parse().expect("a name")).await.expect("it goes on");
    assert_ends(&host, id, Kind::Success, Reason::Completed).await;
    let result = host.result(id).await.expect("it answers").expect("a result");
    assert_eq!(&*result.result, "[\"A=born\"]");
    finish(host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_gone_before_the_end_is_written() {
    let data = tempfile::tempdir().expect("a folder");
    let host = bed::start(Some(data.path()), Config::default()).await;
    let folder = data.path().join("scratch");
    bed::put(&host, "reach", reach(), granted(scratch())).await;
    let id = submit(&host, script("reach", "append a x;ls .")).await;
    assert_ends(&host, id, Kind::Success, Reason::Completed).await;
    assert_eq!(folders(&folder), 0);
    for command in ["wait", "spin", "forever a"] {
        let id = submit(&host, script("reach", &format!("append a x;{command}"))).await;
        until("a file", async || (folders(&folder) > 0).then_some(())).await;
        kill(&host, id).await;
        assert_eq!(folders(&folder), 0, "{command}");
    }
    finish(host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_node_left_is_removed_at_the_next_start() {
    let data = tempfile::tempdir().expect("a folder");
    let node = Node::start(data.path(), &[]);
    node.push("reach", reach(), json!({ "run_timeout": "10m", "max_retries": 0 })).await;
    let (_, types) = node.get("/v1/types/reach").await;
    let grants = json!({ "scratch": { "bytes": 1_000_000 } });
    let body = json!({
        "component": types["items"][0]["component"],
        "terms": { "run_timeout": "10m", "max_retries": 0 },
        "grants": grants,
    });
    assert_eq!(put(&node, "reach", &body).await.0, 201);
    let id = node.submit(&json!({ "type": "reach", "input": "mkdir a;append a/b x;wait" })).await;
    let folder = data.path().join("scratch");
    until("a folder", async || (folders(&folder) > 0).then_some(())).await;
    node.kill();
    assert_eq!(folders(&folder), 1, "nobody was there to remove it");
    let node = Node::start(data.path(), &[]);
    assert_eq!(node.ended(&id).await["state"], "INTERRUPTED");
    assert_eq!(folders(&folder), 0);
    assert_eq!(node.terminate().await, Some(0));
}

#[test]
fn flags_grant_what_a_run_may_reach() {
    let run = |flags: &[&str], script: &str| {
        let mut command = Command::new(program());
        command.arg("run").arg(root().join("tests/guests/built/reach.wasm"));
        let output = command.args(["--input", &format!("\"{script}\"")]).args(flags).output().expect("it runs");
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr),
        )
    };
    let (code, text) = run(&["--env", "A=1", "--scratch", "1MiB"], "env;append a x;ls .");
    assert!(code == Some(0) && text.contains("A=1"), "{text}");
    let (code, text) = run(&["--allow-tcp", "example.com"], "env");
    assert!(code == Some(2) && text.contains("says no port"), "{text}");
    let (code, text) = run(&["--allow-http", "http://example.com"], "env");
    assert!(code == Some(2) && text.contains("names no host"), "{text}");
}
