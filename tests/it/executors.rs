//! Executor processes that die, hang or are left alone: every task ends lawfully, no attempt overlaps the next, and the
//! API never blinks.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};

use crate::support::{Node, guest, until};

const TASKS: usize = 50;

/// The processes of a node's executors, once all are ready.
async fn pids(node: &Node) -> Vec<u32> {
    until("the executors to be ready", async || {
        let (status, nodes) = node.get("/v1/nodes").await;
        assert_eq!(status, 200, "{nodes}");
        let executors = nodes["items"][0]["executors"].as_array().expect("executors").clone();
        let pid = |executor: &Value| executor["pid"].as_u64().filter(|_| executor["ready"] == true);
        executors.iter().map(|executor| pid(executor).map(|pid| u32::try_from(pid).expect("a pid"))).collect()
    })
    .await
}

fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).expect("a pid")).expect("not zero");
    kill_process(pid, signal).expect("the process is there");
}

fn is_there(pid: u32) -> bool {
    let pid = Pid::from_raw(i32::try_from(pid).expect("a pid")).expect("not zero");
    test_kill_process(pid).is_ok()
}

/// As many tasks as are said, all running.
async fn running(node: &Node, kind: &str) -> Vec<String> {
    let batch: Vec<Value> = (0..TASKS).map(|n| json!({ "type": kind, "input": n })).collect();
    let (status, born) = node.post("/v1/tasks", &Value::Array(batch)).await;
    assert_eq!(status, 200, "{born}");
    let born = born.as_array().expect("as many answers").clone();
    let ids: Vec<String> = born.iter().map(|item| item["task"]["id"].as_str().expect("an id").to_owned()).collect();
    for id in &ids {
        until("the guest to be entered", async || {
            let (_, task) = node.get(&format!("/v1/tasks/{id}")).await;
            (!task["running"]["entered_at"].is_null()).then_some(())
        })
        .await;
    }
    ids
}

/// The longest that the API took for an answer while something went on.
async fn longest_answer(node: &Node, until_then: impl Future<Output = ()>) -> Duration {
    let mut longest = Duration::ZERO;
    tokio::pin!(until_then);
    loop {
        let asked = Instant::now();
        tokio::select! {
            () = &mut until_then => return longest,
            (status, _) = node.get("/v1/health") => assert_eq!(status, 200),
        }
        longest = longest.max(asked.elapsed());
    }
}

/// Attempts follow each other, and each row of the audit follows lawfully from the one before.
async fn assert_lawful(node: &Node, id: &str) -> Vec<Value> {
    let (_, attempts) = node.get(&format!("/v1/tasks/{id}/attempts")).await;
    let attempts = attempts["items"].as_array().expect("attempts").clone();
    for pair in attempts.windows(2) {
        let (over, next) = (pair[0]["ended_at"].as_str(), pair[1]["claimed_at"].as_str());
        assert!(over.expect("it ended") <= next.expect("it began"), "{id}: {attempts:?}");
    }
    let (_, audit) = node.get(&format!("/v1/tasks/{id}/audit")).await;
    let rows = audit["items"].as_array().expect("rows").clone();
    for pair in rows.windows(2) {
        assert_eq!(pair[0]["to"], pair[1]["from"], "{id}: {rows:?}");
    }
    rows
}

fn reasons(rows: &[Value]) -> BTreeMap<String, usize> {
    let mut count = BTreeMap::new();
    for row in rows {
        *count.entry(row["reason"].as_str().expect("a reason").to_owned()).or_default() += 1;
    }
    count
}

async fn with_fifty(executors: &str) -> (tempfile::TempDir, Node) {
    let data = tempfile::tempdir().expect("a folder");
    let node = Node::start(data.path(), &["--executors", executors]);
    let terms = json!({ "run_timeout": "10m", "grace": "0s", "retry_base": "1ms", "retry_cap": "1ms" });
    node.push("sleep-forever", guest("sleep-forever"), terms.clone()).await;
    node.push("spin", guest("spin"), terms).await;
    node.push("ok", guest("ok"), json!({ "run_timeout": "1m" })).await;
    (data, node)
}

/// Cancels what runs, and sees that it stops.
async fn cancel_all(node: &Node, ids: &[String]) {
    for id in ids {
        let (status, task) = node.post(&format!("/v1/tasks/{id}/cancel"), &json!({ "reason": "enough" })).await;
        assert!(status == 202 || status == 200, "{status} {task}");
    }
    for id in ids {
        assert_eq!(node.ended(id).await["state"], "CANCELLED");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executor_that_is_killed_costs_its_innocent_attempts_no_retry() {
    let (_data, node) = with_fifty("2").await;
    let ids = running(&node, "sleep-forever").await;
    let victim = pids(&node).await[0];
    signal(victim, Signal::KILL);
    // Each executor had its half.
    until("the half of the dead one to be taken up again", async || {
        let (_, page) = node.get("/v1/tasks?limit=100").await;
        let tasks = page["items"].as_array().expect("tasks").clone();
        (tasks.iter().filter(|task| task["attempts"] == 2).count() == TASKS / 2).then_some(())
    })
    .await;
    let mut moved = 0;
    for id in &ids {
        until("the task to run", async || {
            let (_, task) = node.get(&format!("/v1/tasks/{id}")).await;
            assert!(matches!(task["state"].as_str(), Some("RUNNING" | "PENDING")), "{task}");
            (!task["running"]["entered_at"].is_null()).then_some(())
        })
        .await;
        let rows = assert_lawful(&node, id).await;
        let reasons = reasons(&rows);
        // Asleep, it cannot have killed anything.
        assert_eq!(reasons.get("retry"), None, "{rows:?}");
        moved += reasons.get("requeued").copied().unwrap_or(0);
    }
    assert_eq!(moved, TASKS / 2);
    assert!(!is_there(victim));
    assert_eq!(pids(&node).await.len(), 2, "a new one has taken its place");
    cancel_all(&node, &ids).await;
    assert_eq!(node.terminate().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executor_that_is_stopped_is_found_out_and_the_api_answers_all_through_it() {
    let (_data, node) = with_fifty("2").await;
    let ids = running(&node, "sleep-forever").await;
    let victim = pids(&node).await[1];
    signal(victim, Signal::STOP);
    let gone = async {
        until("the stopped executor to be killed", async || (!is_there(victim)).then_some(())).await;
    };
    // No promise, but far from what a person would call a pause.
    assert!(longest_answer(&node, gone).await < Duration::from_secs(2));
    for id in &ids {
        until("the task to run", async || {
            let (_, task) = node.get(&format!("/v1/tasks/{id}")).await;
            (!task["running"]["entered_at"].is_null()).then_some(())
        })
        .await;
        assert_lawful(&node, id).await;
    }
    cancel_all(&node, &ids).await;
    assert_eq!(node.terminate().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_does_not_wait_for_an_executor_that_hangs() {
    let (_data, node) = with_fifty("1").await;
    let ids = running(&node, "spin").await;
    let victim = pids(&node).await[0];
    signal(victim, Signal::STOP);
    let (status, _) = node.post(&format!("/v1/tasks/{}/cancel", ids[0]), &json!({ "reason": "now" })).await;
    assert_eq!(status, 202);
    let task = node.ended(&ids[0]).await;
    assert_eq!(task["state"], "CANCELLED", "{task}");
    let (_, attempts) = node.get(&format!("/v1/tasks/{}/attempts", ids[0])).await;
    assert_eq!(attempts["items"][0]["stop"]["ring"], 3, "{attempts}");
    assert!(!is_there(victim), "what is written is true");
    // The others were nobody's fault: they run again.
    for id in &ids[1..] {
        until("the task to run again", async || {
            let (_, task) = node.get(&format!("/v1/tasks/{id}")).await;
            (task["attempts"] == 2 && !task["running"]["entered_at"].is_null()).then_some(())
        })
        .await;
        let rows = assert_lawful(&node, id).await;
        let detail = rows.iter().find(|row| row["reason"] == "executor_lost").expect("it was lost")["detail"].clone();
        assert!(detail.as_str().expect("a text").contains(&ids[0]), "it says for whose sake: {detail}");
    }
    cancel_all(&node, &ids[1..]).await;
    assert_eq!(node.terminate().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn executors_do_not_outlive_their_node() {
    let (_data, node) = with_fifty("3").await;
    let ids = running(&node, "spin").await;
    assert_eq!(ids.len(), TASKS);
    let executors = pids(&node).await;
    node.kill();
    for pid in executors {
        until("the executor to be gone", async || (!is_there(pid)).then_some(())).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executor_has_no_more_rights_than_it_needs() {
    let data = tempfile::tempdir().expect("a folder");
    // A descriptor that is left open, as careless parents do.
    let (careless, _end) = std::io::pipe().expect("a pipe");
    let raw = std::os::fd::AsRawFd::as_raw_fd(&careless);
    rustix::io::fcntl_setfd(&careless, rustix::io::FdFlags::empty()).expect("a flag");
    let node = Node::start(data.path(), &["--executors", "1"]);
    let pid = pids(&node).await[0];
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
    for line in ["NoNewPrivs:\t1", "Seccomp:\t2"] {
        assert!(status.contains(line), "{status}");
    }
    assert!(!std::path::Path::new(&format!("/proc/{pid}/fd/{raw}")).exists(), "inherited descriptors are closed");
    let open: Vec<_> = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .expect("its descriptors")
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .map(|path| path.display().to_string())
        .filter(|path| path.starts_with('/') && !path.starts_with("/memfd:") && !path.starts_with("/proc/"))
        .collect();
    assert!(open.is_empty(), "no file is open: {open:?}");
    let environment = std::fs::read_to_string(format!("/proc/{pid}/environ")).expect("its environment");
    assert!(!environment.contains("PATH="), "what the node knows is not its business: {environment}");
    let (_, nodes) = node.get("/v1/nodes").await;
    let locks = nodes["items"][0]["executors"][0]["locks"].as_array().expect("locks").clone();
    let names: Vec<_> = locks.iter().map(|lock| lock["name"].as_str().expect("a name").to_owned()).collect();
    assert!(names.iter().any(|name| name.contains("seccomp")) && names.iter().any(|name| name.contains("landlock")));
    assert_eq!(node.terminate().await, Some(0));
}

/// As a terminal, or whoever ends a service, does it.
#[tokio::test(flavor = "multi_thread")]
async fn a_signal_to_all_processes_of_a_node_takes_no_grace_from_its_guests() {
    let data = tempfile::tempdir().expect("a folder");
    let node = Node::start(data.path(), &["--executors", "2"]);
    node.push("polite-ok", guest("polite-ok"), json!({ "run_timeout": "10m", "grace": "1m", "max_retries": 0 })).await;
    let ids = running(&node, "polite-ok").await;
    for pid in pids(&node).await {
        for sent in [Signal::INT, Signal::HUP, Signal::TERM] {
            signal(pid, sent);
        }
    }
    assert_eq!(node.terminate().await, Some(0));
    let node = Node::start(data.path(), &["--executors", "1"]);
    for id in &ids {
        let task = node.ended(id).await;
        assert_eq!(task["state"], "SUCCESS", "it could say its last word: {task}");
    }
    assert_eq!(node.terminate().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_data_folder_may_be_named_from_where_one_stands() {
    let place = tempfile::tempdir().expect("a folder");
    let here = place.path().to_owned();
    let node = Node::start_with(std::path::Path::new("./data"), &["--executors", "1"], move |command| {
        command.current_dir(here);
    });
    node.push("ok", guest("ok"), json!({ "run_timeout": "1m" })).await;
    let id = node.submit(&json!({ "type": "ok", "input": null })).await;
    assert_eq!(node.ended(&id).await["state"], "SUCCESS");
    assert!(place.path().join("data/cache").is_dir());
    assert_eq!(node.terminate().await, Some(0));
}
