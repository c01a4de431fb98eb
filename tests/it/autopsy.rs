//! What a death leaves, as the API and the command line tell it: the scene, and the core dump.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Node, guest, program};

async fn attempt(node: &Node, id: &str) -> Value {
    let (status, body) = node.get(&format!("/v1/tasks/{id}/attempts")).await;
    assert_eq!(status, 200, "{body}");
    body["items"][0].clone()
}

fn fetch(node: &Node, id: &str, file: &std::path::Path) -> Option<i32> {
    let mut command = Command::new(program());
    command.args(["core-dump", id, "-o"]).arg(file).env("ATROPOS_URL", &node.url);
    command.output().expect("the program runs").status.code()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_core_dump_is_kept_and_fetched_if_the_type_asks_for_it() {
    let data = tempfile::tempdir().expect("a folder");
    let node = Node::start(data.path(), &[]);
    node.push("dumped", guest("trap"), json!({ "run_timeout": "1m", "core_dump": true })).await;
    node.push("plain", guest("trap"), json!({ "run_timeout": "1m" })).await;

    let id = node.submit(&json!({ "type": "dumped", "input": {} })).await;
    node.ended(&id).await;
    let scene = attempt(&node, &id).await["scene"].clone();
    let bytes = scene["core_dump"]["bytes"].as_u64().unwrap_or_else(|| panic!("no dump: {scene}"));
    assert_eq!((&scene["phase"], scene["backtrace"].as_array().map(Vec::len)), (&json!("running"), Some(3)), "{scene}");
    let path = format!("{}/v1/tasks/{id}/attempts/1/core-dump", node.url);
    let answer = node.http.get(&path).send().await.expect("it answers");
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["content-type"]),
        (200, &"application/wasm".parse().unwrap())
    );
    let dump = answer.bytes().await.expect("a body");
    assert!(dump.starts_with(b"\0asm") && dump.len() as u64 == bytes, "{}", dump.len());

    let file = data.path().join("crash");
    assert_eq!(fetch(&node, &id, &file), Some(0));
    assert_eq!(std::fs::read(&file).expect("the dump"), dump);
    assert_eq!(fetch(&node, &id, &file), Some(2), "what is there is kept");

    let (status, body) = node.get(&format!("/v1/tasks/{id}/attempts/2/core-dump")).await;
    assert_eq!((status, &body["code"]), (404, &json!("no_core_dump")), "{body}");
    let id = node.submit(&json!({ "type": "plain", "input": {} })).await;
    node.ended(&id).await;
    assert!(attempt(&node, &id).await["scene"].get("core_dump").is_none());
    assert_eq!(fetch(&node, &id, &data.path().join("none")), Some(3));
    assert_eq!(node.terminate().await, Some(0));
}
