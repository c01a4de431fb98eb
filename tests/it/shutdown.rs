//! SIGTERM: bounded, every task written, exit code 0; and the next start goes on where this one left off.

use rustix::process::Signal;
use serde_json::json;

use crate::support::{Node, guest, until};

async fn running(node: &Node) -> usize {
    let (_, page) = node.get("/v1/tasks?state=RUNNING&limit=500").await;
    page["items"].as_array().map_or(0, Vec::len)
}

#[tokio::test(flavor = "multi_thread")]
async fn polite_and_rude_guests_are_all_written_and_go_on_at_the_next_start() {
    let data = tempfile::tempdir().expect("a folder");
    let flags = ["--slots", "12"];
    let node = Node::start(data.path(), &flags);
    let terms = json!({ "run_timeout": "10m", "grace": "300ms" });
    node.push("polite", guest("polite"), terms.clone()).await;
    node.push("rude", guest("spin"), terms.clone()).await;
    node.push("once", guest("spin"), json!({ "run_timeout": "10m", "grace": "100ms", "max_retries": 0 })).await;
    node.push("last-word", guest("polite-ok"), terms).await;

    let mut ids = Vec::new();
    for kind in ["polite", "rude", "once", "last-word"] {
        for _ in 0..3 {
            ids.push((kind, node.submit(&json!({ "type": kind, "input": null })).await));
        }
    }
    let waiting = node.submit(&json!({ "type": "polite", "input": null })).await;
    until("12 running tasks", async || (running(&node).await == 12).then_some(())).await;
    assert_eq!(node.terminate().await, Some(0));

    let store = rusqlite::Connection::open(data.path().join("atropos.db")).expect("the database");
    let left: i64 =
        store.query_row("SELECT count(*) FROM tasks WHERE state = 'RUNNING'", [], |row| row.get(0)).expect("a count");
    assert_eq!(left, 0, "nobody is left running on paper");
    drop(store);

    let node = Node::start(data.path(), &flags);
    for (kind, id) in ids {
        match kind {
            "once" => {
                let task = node.ended(&id).await;
                assert_eq!((&task["state"], &task["reason"]), (&json!("INTERRUPTED"), &json!("shutdown")), "{task}");
            }
            "last-word" => assert_eq!(node.ended(&id).await["state"], "SUCCESS", "its work was done"),
            _ => {
                let second = async || {
                    let (_, task) = node.get(&format!("/v1/tasks/{id}")).await;
                    (task["state"] == "RUNNING").then_some(task)
                };
                let task = until("the second attempt", second).await;
                assert_eq!((&task["attempts"], &task["retries"]), (&json!(2), &json!(0)), "a shutdown is not counted");
                node.post(&format!("/v1/tasks/{id}/cancel"), &json!({ "grace": "0s" })).await;
                assert_eq!(node.ended(&id).await["state"], "CANCELLED");
            }
        }
    }
    node.post(&format!("/v1/tasks/{waiting}/cancel"), &json!({ "grace": "0s" })).await;
    assert_eq!(node.ended(&waiting).await["state"], "CANCELLED");
    assert_eq!(node.terminate().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_cuts_the_grace() {
    let data = tempfile::tempdir().expect("a folder");
    let node = Node::start(data.path(), &["--shutdown-grace", "1h"]);
    node.push("rude", guest("spin"), json!({ "run_timeout": "2h", "grace": "1h" })).await;
    node.submit(&json!({ "type": "rude", "input": null })).await;
    until("it runs", async || (running(&node).await == 1).then_some(())).await;
    node.signal(Signal::TERM);
    // The second has to come after the first was taken: until then the node is ready.
    until("the node to go down", async || {
        let ready = node.http.get(format!("{}/readyz", node.url)).send().await;
        (!ready.is_ok_and(|answer| answer.status().is_success())).then_some(())
    })
    .await;
    assert_eq!(node.terminate().await, Some(0), "an hour of grace does not keep it");
}
