//! Tasks that are refused at birth, alone and among others, and tasks without a result.

use serde_json::json;

use super::Bed;

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_task_is_on_record_and_in_the_problem() {
    let bed = Bed::with(|config| config.input_bytes_max = 1_000).await;
    bed.register("ok", json!({ "run_timeout": "30s" })).await;
    let digest = bed.get("/v1/components").await.json()["items"][0]["digest"].clone();
    let typed = json!({ "component": digest, "terms": { "run_timeout": "1s" }, "input_schema": { "type": "object" } });
    bed.send_json("PUT", "/v1/types/typed", typed.to_string()).await.ok(201);
    let cases = [
        (json!({ "type": "nobody" }), 404, "unknown_type"),
        (json!({ "type": "ok", "input": "x".repeat(1_001) }), 413, "input_too_large"),
        (json!({ "type": "typed", "input": [] }), 422, "input_invalid"),
        (
            json!({ "type": "ok", "run_after": "2999-01-01T00:00:00Z", "terms": { "max_age": "1s" } }),
            422,
            "invalid_field",
        ),
    ];
    let mut recorded = 0;
    for (task, status, code) in &cases {
        let problem = bed.post("/v1/tasks", task).await.problem(*status, code);
        if *code == "invalid_field" {
            continue;
        }
        recorded += 1;
        assert_eq!((&problem["task"]["state"], &problem["task"]["reason"]), (&json!("REJECTED"), &json!(code)));
        assert!(problem["task"].get("terms").is_none());
        let id = problem["task"]["id"].as_str().unwrap().to_owned();
        assert_eq!(bed.get(&format!("/v1/tasks/{id}")).await.ok(200)["state"], "REJECTED");
        bed.get(&format!("/v1/tasks/{id}/result")).await.problem(404, "no_result");
        if *code == "input_too_large" {
            bed.get(&format!("/v1/tasks/{id}/input")).await.problem(404, "no_input");
        }
    }
    assert_eq!(bed.get("/v1/tasks?state=REJECTED").await.json()["items"].as_array().unwrap().len(), recorded);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_after_the_end_of_life_is_refused() {
    let bed = Bed::new().await;
    bed.register("ok", json!({ "run_timeout": "30s" })).await;
    let soon = crate::time::Clock::now(&*bed.api.clock) + std::time::Duration::from_hours(1);
    let task = json!({ "type": "ok", "run_after": soon.to_string(), "terms": { "max_age": "1s" } });
    bed.post("/v1/tasks", &task).await.problem(422, "run_after_too_late");
    let task = json!({ "type": "ok", "run_after": soon.to_string() });
    let waiting = bed.submit(&task).await;
    assert_eq!(waiting["waiting"]["for"], "scheduled");
    let path = format!("/v1/tasks/{}", waiting["id"].as_str().unwrap());
    let problem = bed.get(&format!("{path}/result")).await.problem(404, "no_result");
    assert!(problem["detail"].as_str().unwrap().contains("PENDING"));
    bed.post(&format!("{path}/cancel"), &json!({})).await.ok(200);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_at_once_are_answered_one_by_one() {
    let bed = Bed::new().await;
    bed.register("ok", json!({ "run_timeout": "30s" })).await;
    let batch = json!([
        { "type": "ok", "dedup_key": "a" },
        { "type": "ok", "dedup_key": "a" },
        { "type": "nobody" },
    ]);
    let items = bed.post("/v1/tasks", &batch).await.ok(200);
    let statuses: Vec<_> = items.as_array().unwrap().iter().map(|item| item["status"].as_u64().unwrap()).collect();
    assert_eq!(statuses, [201, 200, 404]);
    assert_eq!(items[0]["task"]["id"], items[1]["task"]["id"]);
    assert_eq!((&items[1]["deduplicated"], &items[2]["problem"]["code"]), (&json!(true), &json!("unknown_type")));
    bed.ended(&items[0]["task"]["id"]).await;
    assert_eq!(bed.census().await.0, 2);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_with_one_bad_item_registers_nothing_and_names_it() {
    let bed = Bed::new().await;
    bed.register("ok", json!({ "run_timeout": "30s" })).await;
    let good = json!({ "type": "ok" });
    let cases = [
        (json!([good, good, { "type": "ok", "prio": 1 }]), "invalid_body", Some(2)),
        (json!([good, 7]), "invalid_body", Some(1)),
        (json!([good, { "type": "ok", "priority": 101 }]), "invalid_field", Some(1)),
        (json!([{ "type": "ok", "priority": 1000 }, good]), "invalid_field", Some(0)),
        (json!([good, { "type": "ok", "terms": { "run_timeout": "0s" } }]), "terms_out_of_range", Some(1)),
        (json!([good, { "type": "ok", "dedup_key": "" }]), "invalid_field", Some(1)),
        (json!([]), "invalid_batch", None),
        (json!(vec![good.clone(); 1_001]), "invalid_batch", None),
    ];
    for (batch, code, index) in cases {
        let problem = bed.post("/v1/tasks", &batch).await.problem(422, code);
        assert_eq!(problem["index"].as_u64(), index, "{problem:#}");
    }
    assert_eq!(bed.census().await.0, 0);
    bed.end().await;
}
