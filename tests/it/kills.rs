//! Killing without end: memory, descriptors, threads, mappings and files of a node and of its executors stay where they were.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::flat::{Use, used_by};
use crate::support::{Node, guest, root, until};

/// As many as the environment says; by itself, what an ordinary run of the tests has time for.
fn kills() -> usize {
    std::env::var("ATROPOS_TEST_KILLS").ok().and_then(|count| count.parse().ok()).unwrap_or(10_000)
}

const BATCH: usize = 60;

/// Starts a batch of guests that never end, and kills each wherever it is.
async fn kill_batch(node: &Node, number: usize) {
    let kinds = ["spin", "sleep-forever", "fill", "writes"];
    let kind = |n: usize| kinds[(number + n) % kinds.len()];
    let input = |kind: &str| if kind == "writes" { json!("forever f") } else { Value::Null };
    let tasks: Vec<Value> = (0..BATCH).map(|n| json!({ "type": kind(n), "input": input(kind(n)) })).collect();
    let (status, born) = node.post("/v1/tasks", &Value::Array(tasks)).await;
    assert_eq!(status, 200, "{born}");
    let ids: Vec<String> = born.as_array().expect("as many answers").iter().map(id).collect();
    let cancels = ids.iter().map(|id| {
        let request = node.http.post(format!("{}/v1/tasks/{id}/cancel", node.url)).json(&json!({ "reason": "enough" }));
        tokio::spawn(async move { request.send().await.expect("an answer").status().as_u16() })
    });
    for cancel in cancels.collect::<Vec<_>>() {
        let status = cancel.await.expect("no panic");
        assert!(matches!(status, 200 | 202), "{status}");
    }
    for id in &ids {
        let task = node.ended(id).await;
        assert_eq!(task["state"], "CANCELLED", "{task}");
    }
}

fn id(item: &Value) -> String {
    item["task"]["id"].as_str().expect("an id").to_owned()
}

/// The node's process and those of its executors.
async fn processes(node: &Node) -> BTreeMap<String, u32> {
    let (_, nodes) = node.get("/v1/nodes").await;
    let executors = nodes["items"][0]["executors"].as_array().expect("executors").clone();
    let mut all = BTreeMap::from([("node".to_owned(), node.pid())]);
    for executor in executors {
        assert_eq!(executor["starts"], 1, "ring 2 was enough: {executor}");
        let pid = u32::try_from(executor["pid"].as_u64().expect("a pid")).expect("a pid");
        all.insert(format!("executor {}", executor["number"]), pid);
    }
    all
}

/// Waits until the executors have counted what is alive, and found nothing.
async fn assert_nothing_is_alive(node: &Node) {
    until("the ledger to be at zero", async || {
        let (_, nodes) = node.get("/v1/nodes").await;
        let ledger = nodes["items"][0]["ledger"].as_object().expect("a ledger").clone();
        ledger.values().all(|count| count == 0).then_some(())
    })
    .await;
}

fn files_in(folder: &Path) -> usize {
    std::fs::read_dir(folder).expect("a folder").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_without_end_leave_nothing_behind() {
    let data = tempfile::tempdir().expect("a folder");
    let node = Node::start(data.path(), &["--slots", "64"]);
    let terms = json!({ "run_timeout": "10m", "grace": "0s" });
    for name in ["spin", "sleep-forever", "fill"] {
        node.push(name, guest(name), terms.clone()).await;
    }
    let reach = std::fs::read(root().join("tests/guests/built/reach.wasm")).expect("a guest");
    node.push_granted("writes", reach, terms, json!({ "scratch": { "bytes": 1 << 20 } })).await;

    let total = kills();
    let warm = total / 5;
    let mut before: BTreeMap<String, Use> = BTreeMap::new();
    let mut done = 0;
    while done < total {
        if before.is_empty() && done >= warm {
            assert_nothing_is_alive(&node).await;
            before = processes(&node).await.into_iter().map(|(name, pid)| (name, used_by(pid))).collect();
        }
        kill_batch(&node, done).await;
        done += BATCH;
    }
    assert_nothing_is_alive(&node).await;
    for (name, pid) in processes(&node).await {
        let (before, after) = (&before[&name], used_by(pid));
        assert!(after.descriptors <= before.descriptors + 4, "{name}: {before:?} → {after:?}");
        assert!(after.threads <= before.threads + 2, "{name}: {before:?} → {after:?}");
        assert!(after.mappings <= before.mappings + 128, "{name}: {before:?} → {after:?}");
        // What is cached and what is kept by slots is bounded, and still fills up a little.
        let grown = after.resident_kib.saturating_sub(before.resident_kib);
        assert!(grown < 48 << 10, "{name}: {before:?} → {after:?}");
    }
    assert_eq!(files_in(&data.path().join("scratch")), 0);
    assert_eq!(files_in(&data.path().join("dumps")), 0);
    assert_eq!(files_in(&data.path().join("cache")), 4, "one for each component");
    assert_eq!(node.get("/v1/alerts").await.1["items"], json!([]));
    println!("{done} kills: {before:?}");
    assert_eq!(node.terminate().await, Some(0));
}
