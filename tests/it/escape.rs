//! Guests that have broken out: a host call that misbehaves, which only the program of these tests has. The node survives
//! each, says what happened, and its other tasks end as they should.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Node, guest, program, root, until};

/// Atropos with the host call, built beside the program that has none.
fn mischief() -> &'static PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let folder = program().parent().expect("a folder").to_owned();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--package", "atropos-tests", "--example", "mischief", "--target-dir"]);
        cargo.arg(folder.parent().expect("a target folder"));
        if folder.ends_with("release") {
            cargo.arg("--release");
        }
        assert!(cargo.current_dir(root()).status().expect("cargo runs").success(), "the program builds");
        folder.join("examples/mischief")
    })
}

/// A node whose executors can be made to misbehave, and beside it a task that sleeps.
async fn start(flags: &[&str]) -> (tempfile::TempDir, Node, String) {
    let data = tempfile::tempdir().expect("a folder");
    let node = Node::start_program(mischief(), data.path(), flags);
    let retries =
        json!({ "run_timeout": "1m", "grace": "0s", "retry_base": "1ms", "retry_cap": "1ms", "max_retries": 1 });
    node.push("escape", guest("escape"), retries).await;
    node.push("sleep", guest("sleep-forever"), json!({ "run_timeout": "10m", "grace": "0s" })).await;
    node.push("ok", guest("ok"), json!({ "run_timeout": "1m" })).await;
    let bystander = node.submit(&json!({ "type": "sleep", "input": null })).await;
    entered(&node, &bystander).await;
    (data, node, bystander)
}

async fn entered(node: &Node, id: &str) {
    until("the guest to be entered", async || {
        let (_, task) = node.get(&format!("/v1/tasks/{id}")).await;
        (!task["running"]["entered_at"].is_null()).then_some(())
    })
    .await;
}

/// The node works, the bystander runs, and both can be ended.
async fn assert_unharmed(node: Node, bystander: &str) {
    let id = node.submit(&json!({ "type": "ok", "input": null })).await;
    assert_eq!(node.ended(&id).await["state"], "SUCCESS");
    entered(&node, bystander).await;
    let (_, audit) = node.get(&format!("/v1/tasks/{bystander}/audit")).await;
    let counted = audit["items"].as_array().expect("rows").iter().filter(|row| row["reason"] == "retry").count();
    assert_eq!(counted, 0, "it was nobody's fault but the other's: {audit}");
    let (status, _) = node.post(&format!("/v1/tasks/{bystander}/cancel"), &json!({ "reason": "enough" })).await;
    assert_eq!(status, 202);
    assert_eq!(node.ended(bystander).await["state"], "CANCELLED");
    assert_eq!(node.get("/v1/alerts").await.1["items"], json!([]));
    assert_eq!(node.terminate().await, Some(0));
}

/// What the audit says of the ends of the attempts.
async fn losses(node: &Node, id: &str) -> Vec<String> {
    let (_, audit) = node.get(&format!("/v1/tasks/{id}/audit")).await;
    let rows = audit["items"].as_array().expect("rows").clone();
    let lost = rows.iter().filter(|row| row["reason"] == "executor_lost");
    lost.map(|row| row["detail"].as_str().expect("a text").to_owned()).collect()
}

/// Each of these takes its executor along, is tried once more, and is then left to a person.
async fn assert_takes_its_executor_along(how: &str, said: &[&str]) {
    let (_data, node, bystander) = start(&["--executors", "2", "--guest-memory", "256MiB"]).await;
    let id = node.submit(&json!({ "type": "escape", "input": how })).await;
    let task = node.ended(&id).await;
    assert_eq!((&task["state"], &task["reason"]), (&json!("INTERRUPTED"), &json!("executor_lost")), "{how}: {task}");
    let losses = losses(&node, &id).await;
    assert_eq!(losses.len(), 2, "{how}: it is run once more, and no more than that: {losses:?}");
    for loss in &losses {
        assert!(said.iter().any(|said| loss.contains(said)), "{how}: {loss}");
    }
    assert_unharmed(node, &bystander).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_aborts_its_executor() {
    assert_takes_its_executor_along("abort", &["signal 6"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_ends_its_executor() {
    assert_takes_its_executor_along("exit", &["exit code 0"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_would_kill_the_node() {
    assert_takes_its_executor_along("kill the node", &["signal 6"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_would_leave_a_process_behind() {
    assert_takes_its_executor_along("fork", &["signal 6"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_uses_up_the_stack_of_its_executor() {
    assert_takes_its_executor_along("overflow", &["signal 6", "signal 11"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_makes_its_executor_take_memory_without_bound() {
    assert_takes_its_executor_along("allocate", &["bytes of memory"]).await;
}

/// Each of these holds a thread of its executor for ever: nothing but the death of the process helps.
async fn assert_only_the_third_ring_helps(how: &str) {
    let (_data, node, bystander) = start(&["--executors", "2"]).await;
    let id = node.submit(&json!({ "type": "escape", "input": how })).await;
    entered(&node, &id).await;
    let (status, _) = node.post(&format!("/v1/tasks/{id}/cancel"), &json!({ "reason": "enough" })).await;
    assert_eq!(status, 202);
    assert_eq!(node.ended(&id).await["state"], "CANCELLED");
    let (_, attempts) = node.get(&format!("/v1/tasks/{id}/attempts")).await;
    let stop: &Value = &attempts["items"][0]["stop"];
    assert_eq!(stop["ring"], 3, "{how}: {attempts}");
    assert_unharmed(node, &bystander).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_blocks_its_thread_for_ever() {
    assert_only_the_third_ring_helps("block").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_spins_in_the_host() {
    assert_only_the_third_ring_helps("spin").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_call_that_panics_is_the_end_of_its_attempt_alone() {
    let (_data, node, bystander) = start(&["--executors", "1"]).await;
    let id = node.submit(&json!({ "type": "escape", "input": "panic" })).await;
    let task = node.ended(&id).await;
    assert_eq!((&task["state"], &task["reason"]), (&json!("FAILED"), &json!("host_fault")), "{task}");
    assert_unharmed(node, &bystander).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_of_users_has_no_such_host_call() {
    let data = tempfile::tempdir().expect("a folder");
    let node = Node::start(data.path(), &[]);
    let upload = node.http.post(format!("{}/v1/components", node.url)).header("content-type", "application/wasm");
    let answer = upload.body(guest("escape")).timeout(Duration::from_mins(1)).send().await.expect("an answer");
    assert_eq!(answer.status().as_u16(), 422);
    let problem: Value = answer.json().await.expect("a problem");
    assert_eq!(problem["code"], "component_import_not_offered", "{problem}");
    assert_eq!(node.terminate().await, Some(0));
}
