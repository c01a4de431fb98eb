//! One key, one task, however many ask at once.

use serde_json::json;

use crate::support::{Node, example};

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_parallel_submissions_of_one_key_make_one_task() {
    let data = tempfile::tempdir().expect("a folder");
    let node = Node::start(data.path(), &[]);
    node.push("hello", example("hello"), json!({ "run_timeout": "30s" })).await;
    let body = json!({ "type": "hello", "input": { "name": "Ada" }, "dedup_key": "hello:ada:2030-01-31" });
    let asked: Vec<_> = (0..100)
        .map(|_| {
            let request = node.http.post(format!("{}/v1/tasks", node.url)).json(&body);
            tokio::spawn(crate::support::answer(request))
        })
        .collect();
    let mut answers = Vec::new();
    for answer in asked {
        answers.push(answer.await.expect("no panic"));
    }
    let of_status = |wanted: u16| answers.iter().filter(|(status, _)| *status == wanted).count();
    assert_eq!((of_status(201), of_status(200)), (1, 99));
    let id = answers[0].1["id"].as_str().expect("an id").to_owned();
    assert!(answers.iter().all(|(_, body)| body["id"] == id.as_str()), "they all speak of one task");

    let task = node.ended(&id).await;
    assert_eq!(task["state"], "SUCCESS");
    let (_, all) = node.get("/v1/tasks").await;
    assert_eq!(all["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(node.terminate().await, Some(0));

    let store = rusqlite::Connection::open(data.path().join("atropos.db")).expect("the database");
    let created: i64 = store
        .query_row("SELECT count(*) FROM outbox WHERE event = 'task.created'", [], |row| row.get(0))
        .expect("a count");
    assert_eq!(created, 1, "the world is told once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_key_is_free_again_when_its_task_has_ended_and_a_kept_one_is_not() {
    let data = tempfile::tempdir().expect("a folder");
    let node = Node::start(data.path(), &[]);
    node.push("hello", example("hello"), json!({ "run_timeout": "30s" })).await;
    for (scope, again) in [("live", 201), ("record", 200)] {
        let body = json!({ "type": "hello", "input": { "name": "Ada" }, "dedup_key": scope, "dedup_scope": scope });
        let id = node.submit(&body).await;
        node.ended(&id).await;
        assert_eq!(node.post("/v1/tasks", &body).await.0, again, "{scope}");
    }
    assert_eq!(node.terminate().await, Some(0));
}
