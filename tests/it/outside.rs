//! What happens around a node: a log that nobody reads, a database that another program has locked, a folder in use.

use std::io::Read as _;
use std::process::Stdio;

use serde_json::json;

use crate::support::{Node, guest, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_log_whose_reader_has_gone_stops_nobody() {
    let data = tempfile::tempdir().expect("a folder");
    let mut node = Node::start_with(data.path(), &[], |program| {
        program.env("ATROPOS_LOG", "trace").stderr(Stdio::piped());
    });
    let mut log = node.take_stderr().expect("a pipe");
    log.read_exact(&mut [0; 8]).expect("the beginning of a log");
    drop(log);
    node.push("spin", guest("spin"), json!({ "run_timeout": "200ms", "grace": "0s" })).await;
    node.push("ok", guest("ok"), json!({ "run_timeout": "10s" })).await;
    let rude = node.submit(&json!({ "type": "spin", "input": null })).await;
    for _ in 0..20 {
        let id = node.submit(&json!({ "type": "ok", "input": null })).await;
        assert_eq!(node.ended(&id).await["state"], "SUCCESS");
    }
    assert_eq!(node.ended(&rude).await["reason"], "run_time_spent");
    assert_eq!(node.get("/readyz").await.0, 200);
    assert_eq!(node.terminate().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_database_keeps_no_guest_alive_and_the_node_says_that_it_is_not_ready() {
    let data = tempfile::tempdir().expect("a folder");
    let node = Node::start(data.path(), &[]);
    node.push("spin", guest("spin"), json!({ "run_timeout": "200ms", "grace": "0s" })).await;
    let other = rusqlite::Connection::open(data.path().join("atropos.db")).expect("the database");
    let id = node.submit(&json!({ "type": "spin", "input": null })).await;
    other.execute_batch("BEGIN IMMEDIATE").expect("the lock is free");
    let no_sandbox = async || (node.get("/v1/health").await.1["sandboxes"] == 0).then_some(());
    until("the guest to be gone", no_sandbox).await;
    let (status, problem) = node.get("/readyz").await;
    assert_eq!((status, &problem["code"]), (503, &json!("store_failed")), "{problem}");
    assert_eq!(node.get(&format!("/v1/tasks/{id}")).await.1["state"], "RUNNING", "what is not written is not said");
    other.execute_batch("ROLLBACK").expect("the lock is given back");
    let task = node.ended(&id).await;
    assert_eq!((&task["state"], &task["reason"]), (&json!("TIMED_OUT"), &json!("run_time_spent")), "{task}");
    until("the node to be ready", async || (node.get("/readyz").await.0 == 200).then_some(())).await;
    assert_eq!(node.terminate().await, Some(0));
}
