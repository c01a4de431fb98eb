//! `kill -9`, for real: nothing acknowledged is lost, nothing runs twice at once, and every task ends lawfully.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::{Node, example, guest, until};

fn report(rows: u32) -> Value {
    json!({ "user": "u-1", "report_type": "orders", "from": "2026-01-01", "to": "2026-01-31", "format": "csv",
            "rows": rows, "row_ms": 20 })
}

async fn submit_many(node: &Node, task: &Value, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    while ids.len() < count {
        let part = (count - ids.len()).min(100);
        let (status, answer) = node.post("/v1/tasks", &json!(vec![task; part])).await;
        assert_eq!(status, 200, "{answer}");
        let items = answer.as_array().cloned().or_else(|| answer["items"].as_array().cloned()).expect("items");
        ids.extend(items.iter().map(|item| item["task"]["id"].as_str().expect("an id").to_owned()));
    }
    ids
}

async fn running(node: &Node) -> usize {
    let (_, page) = node.get("/v1/tasks?state=RUNNING&limit=500").await;
    page["items"].as_array().map_or(0, Vec::len)
}

/// No attempt begins before the one before it is over.
async fn assert_no_overlap(node: &Node, id: &str) {
    let (_, attempts) = node.get(&format!("/v1/tasks/{id}/attempts")).await;
    let attempts = attempts.as_array().cloned().or_else(|| attempts["items"].as_array().cloned()).expect("attempts");
    for pair in attempts.windows(2) {
        let (over, next) = (pair[0]["ended_at"].as_str(), pair[1]["claimed_at"].as_str());
        assert!(over.expect("it ended") <= next.expect("it was claimed"), "{pair:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_kill_every_task_ends_lawfully_and_none_is_lost_or_doubled() {
    let data = tempfile::tempdir().expect("a folder");
    let flags = ["--slots", "100"];
    let node = Node::start(data.path(), &flags);
    let terms = json!({ "run_timeout": "60s", "retry_base": "10ms", "max_retries": 9 });
    node.push("report", example("export-report"), terms).await;
    node.push("once", guest("polite"), json!({ "run_timeout": "60s", "max_retries": 0 })).await;
    node.push("nap", guest("sleep-once"), json!({ "run_timeout": "60s", "retry_base": "10ms" })).await;

    let once = submit_many(&node, &json!({ "type": "once", "input": null }), 10).await;
    let reports = submit_many(&node, &json!({ "type": "report", "input": report(25) }), 90).await;
    let naps = submit_many(&node, &json!({ "type": "nap", "input": null }), 1_000).await;
    until("100 running tasks", async || (running(&node).await == 100).then_some(())).await;
    node.kill();

    // And again while it recovers, at three other moments.
    for _ in 0..3 {
        let node = Node::start(data.path(), &flags);
        until("work to go on", async || (running(&node).await > 0).then_some(())).await;
        node.kill();
    }

    let node = Node::start(data.path(), &flags);
    let mut ends = BTreeMap::<(String, String), usize>::new();
    for id in once.iter().chain(&reports).chain(&naps) {
        let task = node.ended(id).await;
        let key = (task["type"].to_string(), format!("{} {}", task["state"], task["reason"]));
        *ends.entry(key).or_default() += 1;
        assert_no_overlap(&node, id).await;
    }
    let count = |kind: &str, end: &str| ends.get(&(format!("\"{kind}\""), end.to_owned())).copied().unwrap_or(0);
    assert_eq!(count("once", "\"INTERRUPTED\" \"node_lost\""), 10, "at most once: {ends:?}");
    assert_eq!(count("report", "\"SUCCESS\" \"completed\""), 90, "{ends:?}");
    // Three retries are the default, and four kills may have met the same nap four times.
    let lawful = count("nap", "\"SUCCESS\" \"completed\"") + count("nap", "\"INTERRUPTED\" \"node_lost\"");
    assert_eq!(lawful, 1_000, "{ends:?}");
    assert!(count("nap", "\"SUCCESS\" \"completed\"") > 900, "{ends:?}");

    let (_, health) = node.get("/v1/health").await;
    assert_eq!((&health["attempts"], &health["sandboxes"]), (&json!(0), &json!(0)));
    assert_eq!(node.terminate().await, Some(0));
    assert_store_is_whole(data.path());
}

/// From outside, with plain SQL: one terminal row in each generation, no attempt without a claim, no task left over.
fn assert_store_is_whole(data: &std::path::Path) {
    let store = rusqlite::Connection::open(data.join("atropos.db")).expect("the database");
    let count = |sql: &str| store.query_row(sql, [], |row| row.get::<_, i64>(0)).expect("a count");
    assert_eq!(count("SELECT count(*) FROM tasks WHERE state IN ('PENDING', 'RUNNING')"), 0);
    let twice = "SELECT count(*) FROM (SELECT 1 FROM audit WHERE to_state NOT IN ('PENDING', 'RUNNING') \
                 AND NOT EXISTS (SELECT 1 FROM audit AS next WHERE next.task = audit.task \
                 AND next.number = audit.number + 1 AND next.to_state = 'PENDING') \
                 GROUP BY task, generation HAVING count(*) > 1)";
    assert_eq!(count(twice), 0, "one terminal state in each generation");
    let claims = count("SELECT count(*) FROM audit WHERE reason = 'claimed'");
    assert_eq!(claims, count("SELECT count(*) FROM attempts"), "every claim came to an end, once");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_is_there_after_a_kill() {
    let data = tempfile::tempdir().expect("a folder");
    let node = Node::start(data.path(), &[]);
    node.push("hello", example("hello"), json!({ "run_timeout": "60s", "retry_base": "10ms" })).await;
    let acknowledged = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let (http, url, acknowledged) = (node.http.clone(), node.url.clone(), acknowledged.clone());
            tokio::spawn(async move {
                let body = json!({ "type": "hello", "input": { "name": "Ada" } });
                // Ends with the node.
                while let Ok(response) = http.post(format!("{url}/v1/tasks")).json(&body).send().await {
                    let Ok(body) = response.json::<Value>().await else { return };
                    acknowledged.lock().expect("no panic").push(body["id"].as_str().expect("an id").to_owned());
                }
            })
        })
        .collect();
    let enough = async || (acknowledged.lock().expect("no panic").len() > 500).then_some(());
    until("500 acknowledged tasks", enough).await;
    node.kill();
    for client in clients {
        client.await.expect("no panic");
    }
    let node = Node::start(data.path(), &[]);
    let ids = acknowledged.lock().expect("no panic").clone();
    for id in &ids {
        assert_eq!(node.ended(id).await["state"], "SUCCESS");
    }
    assert_eq!(node.terminate().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_process_on_the_same_folder_is_refused() {
    let data = tempfile::tempdir().expect("a folder");
    let node = Node::start(data.path(), &[]);
    let second = std::process::Command::new(crate::support::program())
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(data.path())
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&second.stderr);
    assert!(!second.status.success() && text.contains("in use by another atropos process"), "{text}");
    assert_eq!(node.terminate().await, Some(0), "and the first has not noticed");
}
