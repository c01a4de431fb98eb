//! One key, one task, however many ask at once.

use serde_json::json;

use super::Bed;

#[tokio::test(flavor = "multi_thread")]
async fn of_a_hundred_submissions_with_one_key_one_is_new() {
    let bed = Bed::new().await;
    bed.register("ok", json!({ "run_timeout": "30s" })).await;
    let task = json!({ "type": "ok", "dedup_key": "order-7" });
    let replies = futures_util::future::join_all((0..100).map(|_| bed.post("/v1/tasks", &task))).await;
    let new = replies.iter().filter(|reply| reply.status == 201).count();
    let existing = replies.iter().filter(|reply| reply.status == 200).count();
    assert_eq!((new, existing), (1, 99));
    for reply in &replies {
        let told = reply.json();
        assert_eq!(told["deduplicated"], reply.status == 200);
        assert_eq!(told["id"], replies[0].json()["id"]);
    }
    bed.ended(&replies[0].json()["id"]).await;
    assert_eq!(bed.census().await.0, 1);
    bed.end().await;
}
