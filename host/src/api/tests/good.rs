//! Each route as it should go.

use serde_json::{Value, json};

use super::{Bed, guest};

#[tokio::test(flavor = "multi_thread")]
async fn a_component_is_taken_once_and_shown() {
    let bed = Bed::new().await;
    let first = bed.upload(guest("echo")).await.ok(201);
    assert_eq!(first["existing"], false);
    assert_eq!(first["uploaded_by"], "tests");
    let again = bed.upload(guest("echo")).await.ok(200);
    assert_eq!(again["existing"], true);
    assert_eq!(again["digest"], first["digest"]);
    let shown = bed.get(&format!("/v1/components/{}", first["digest"].as_str().unwrap())).await.ok(200);
    assert_eq!(shown["uploaded_at"], first["uploaded_at"]);
    assert_eq!(bed.get("/v1/components").await.ok(200)["items"], json!([shown]));
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_has_versions_and_the_same_again_is_none() {
    let bed = Bed::new().await;
    let digest = bed.upload(guest("echo")).await.json()["digest"].clone();
    let put = async |body: Value| bed.send_json("PUT", "/v1/types/echo", body.to_string()).await;
    let terms = json!({ "run_timeout": "1m 30s", "grace": "250ms", "max_retries": 0 });
    let first = put(json!({ "component": digest, "terms": terms, "by": "ann" })).await.ok(201);
    assert_eq!(
        (&first["version"], &first["existing"], &first["created_by"]),
        (&json!(1), &json!(false), &json!("ann"))
    );
    assert_eq!(first["terms"], terms);
    let same = json!({ "component": digest, "terms": { "run_timeout": "90s", "grace": "0s 250ms", "max_retries": 0 } });
    assert_eq!(put(same).await.ok(200)["version"], 1);
    let schema = json!({ "type": "object", "required": ["a"] });
    let second = put(json!({ "component": digest, "terms": terms, "input_schema": schema })).await.ok(201);
    assert_eq!((&second["version"], &second["input_schema"]), (&json!(2), &schema));
    let versions = bed.get("/v1/types/echo").await.ok(200);
    assert_eq!(versions["items"].as_array().unwrap().iter().map(|v| &v["version"]).collect::<Vec<_>>(), [2, 1]);
    let latest = bed.get("/v1/types").await.ok(200);
    assert_eq!(latest["items"], json!([versions["items"][0]]));
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_goes_from_submission_to_result_and_everything_of_it_is_shown() {
    let bed = Bed::new().await;
    bed.register("echo", json!({ "run_timeout": "30s" })).await;
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    // Text as it is: spaces, order and numbers that no float holds come back.
    let input = r#"{"b": 1, "a": [12345678901234567890, 1.10]}"#;
    let body = format!(
        r#"{{"type":"echo","input":{input},"creator":"ann","request_id":"r-1","labels":{{"team":"blue"}},"priority":5,
            "queue":"q","traceparent":"{trace}","terms":{{"max_retries":1}}}}"#
    );
    let born = bed.send_json("POST", "/v1/tasks", body).await.ok(201);
    assert_eq!(born["deduplicated"], false);
    let task = bed.ended(&born["id"]).await;
    let expected = json!({
        "id": born["id"], "type": "echo", "type_version": 1, "state": "SUCCESS", "reason": "completed",
        "ended": "returned", "recoverable": false, "queue": "q", "priority": 5, "creator": "ann", "request_id": "r-1",
        "labels": { "team": "blue" }, "traceparent": trace, "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
        "generation": 1, "attempts": 1, "retries": 0,
    });
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(&task[field], value, "{field}");
    }
    assert_eq!((&task["terms"]["run_timeout"], &task["terms"]["max_retries"]), (&json!("30s"), &json!(1)));
    for absent in ["waiting", "running", "stopping", "next", "life_ends_at", "dedup_key", "dedup_scope", "detail"] {
        assert!(task.get(absent).is_none(), "{absent}");
    }
    let path = format!("/v1/tasks/{}", task["id"].as_str().unwrap());
    let result = String::from_utf8(bed.get(&format!("{path}/result")).await.body.to_vec()).unwrap();
    assert!(result.contains(&format!(r#""result":{input}"#)), "{result}");
    let kept = String::from_utf8(bed.get(&format!("{path}/input")).await.body.to_vec()).unwrap();
    assert!(kept.contains(&format!(r#""input":{input}"#)), "{kept}");
    let audit = bed.get(&format!("{path}/audit")).await.ok(200);
    let trail: Vec<_> = audit["items"].as_array().unwrap().iter().map(|row| row["to"].as_str().unwrap()).collect();
    assert_eq!(trail, ["PENDING", "RUNNING", "SUCCESS"]);
    let attempts = bed.get(&format!("{path}/attempts")).await.ok(200);
    let attempt = &attempts["items"][0];
    assert_eq!((&attempt["attempt"], &attempt["outcome"]), (&json!(1), &json!("SUCCESS")));
    assert!(attempt["cost"]["memory_bytes_peak"].as_u64().unwrap() > 0, "{attempt:#}");
    assert!(attempt.get("stop").is_none());
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_of_the_request_is_taken_and_one_that_is_none_is_not() {
    let bed = Bed::new().await;
    bed.register("ok", json!({ "run_timeout": "30s" })).await;
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for (given, taken) in [(trace, true), ("nonsense", false)] {
        let request = axum::http::Request::post("/v1/tasks").header("host", "localhost").header("traceparent", given);
        let request = request.header("content-type", "application/json").body(r#"{"type":"ok"}"#.into()).unwrap();
        let task = bed.send(request).await.ok(201);
        assert_eq!(task["traceparent"] == trace, taken);
        bed.ended(&task["id"]).await;
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_task_is_cancelled_with_a_receipt() {
    let bed = Bed::new().await;
    bed.register("polite", json!({ "run_timeout": "60s", "grace": "30s" })).await;
    let id = bed.submit(&json!({ "type": "polite" })).await["id"].clone();
    let running = bed.seen(&id, |task| task["running"]["entered_at"].is_string()).await;
    assert_eq!((&running["state"], &running["next"]["what"]), (&json!("RUNNING"), &json!("run_time_spent")));
    let live = bed.get(&format!("/v1/tasks/{}/attempts", id.as_str().unwrap())).await.ok(200);
    assert!(live["items"][0].get("outcome").is_none(), "{live:#}");
    let path = format!("/v1/tasks/{}/cancel", id.as_str().unwrap());
    let stopping = bed.post(&path, &json!({ "by": "ann", "reason": "no longer needed" })).await.ok(202);
    let stop = &stopping["stopping"];
    assert_eq!(
        (&stop["reason"], &stop["by"], &stop["why"]),
        (&json!("cancelled"), &json!("ann"), &json!("no longer needed"))
    );
    assert_eq!(stopping["next"]["what"], "kill");
    let ended = bed.ended(&id).await;
    assert_eq!((&ended["state"], &ended["ended"]), (&json!("CANCELLED"), &json!("returned")));
    let attempts = bed.get(&format!("/v1/tasks/{}/attempts", id.as_str().unwrap())).await.ok(200);
    let receipt = &attempts["items"][0]["stop"];
    assert_eq!(receipt["ring"], 1);
    for step in ["asked_at", "told_at", "seen_at", "gone_at", "written_at"] {
        assert!(receipt[step].is_string(), "{step}: {receipt:#}");
    }
    assert!(receipt["total_ms"].as_f64().unwrap() > 0.0);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spinner_is_killed_without_grace_and_can_be_forced_to_run_again() {
    let bed = Bed::new().await;
    bed.register("spin", json!({ "run_timeout": "60s", "grace": "1h" })).await;
    let id = bed.submit(&json!({ "type": "spin" })).await["id"].clone();
    let path = |verb: &str| format!("/v1/tasks/{}/{verb}", id.as_str().unwrap());
    bed.seen(&id, |task| task["running"]["entered_at"].is_string()).await;
    bed.post(&path("fail"), &json!({ "by": "ann", "reason": "stuck" })).await;
    let failed = bed.ended(&id).await;
    assert_eq!(
        (&failed["state"], &failed["reason"], &failed["ended"]),
        (&json!("FAILED"), &json!("forced"), &json!("killed"))
    );
    bed.post(&path("rerun"), &json!({})).await.problem(409, "not_recoverable");
    bed.post(&path("rerun"), &json!({ "force": true })).await.problem(409, "reason_missing");
    let again = bed.post(&path("rerun"), &json!({ "force": true, "reason": "mended" })).await.ok(200);
    assert_eq!((&again["state"], &again["generation"]), (&json!("PENDING"), &json!(2)));
    bed.seen(&id, |task| task["running"]["entered_at"].is_string()).await;
    // No body at all, and then one that cuts the grace.
    let bare = axum::http::Request::post(path("cancel")).header("host", "127.0.0.1").body(axum::body::Body::empty());
    bed.send(bare.unwrap()).await.ok(202);
    bed.post(&path("cancel"), &json!({ "grace": "0s" })).await;
    let ended = bed.ended(&id).await;
    assert_eq!((&ended["state"], &ended["attempts"]), (&json!("CANCELLED"), &json!(2)));
    let problem = bed.post(&path("cancel"), &json!({})).await.problem(409, "task_ended");
    assert_eq!(problem["task"]["state"], "CANCELLED");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timed_out_task_is_given_up() {
    let bed = Bed::new().await;
    bed.register("spin", json!({ "run_timeout": "20ms", "grace": "0s" })).await;
    let id = bed.submit(&json!({ "type": "spin" })).await["id"].clone();
    let ended = bed.ended(&id).await;
    assert_eq!((&ended["state"], &ended["recoverable"]), (&json!("TIMED_OUT"), &json!(true)));
    let path = format!("/v1/tasks/{}/give-up", id.as_str().unwrap());
    let given_up = bed.post(&path, &json!({ "by": "ann" })).await.ok(200);
    assert_eq!((&given_up["state"], &given_up["reason"]), (&json!("CANCELLED"), &json!("given_up")));
    bed.post(&path, &json!({})).await.problem(409, "task_final");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_queue_holds_its_tasks_and_says_who_holds_them() {
    let bed = Bed::new().await;
    bed.register("ok", json!({ "run_timeout": "30s" })).await;
    let pause = bed.post("/v1/queues/slow/pause", &json!({ "by": "ann", "reason": "repairs" })).await.ok(200);
    let id = bed.submit(&json!({ "type": "ok", "queue": "slow" })).await["id"].clone();
    let held = bed.get(&format!("/v1/tasks/{}", id.as_str().unwrap())).await.ok(200);
    assert_eq!((&held["waiting"]["for"], &held["waiting"]["held"]), (&json!("held"), &pause));
    assert_eq!(held["next"]["what"], "wait_spent");
    let queues = bed.get("/v1/queues").await.ok(200);
    assert_eq!((&queues["items"][0]["name"], &queues["items"][0]["pending"]), (&json!("slow"), &json!(1)));
    let cancelled = bed.submit(&json!({ "type": "ok", "queue": "slow" })).await["id"].clone();
    let path = format!("/v1/tasks/{}/cancel", cancelled.as_str().unwrap());
    assert_eq!(bed.post(&path, &json!({})).await.ok(200)["reason"], "skipped_before_start");
    assert_eq!(bed.post("/v1/queues/slow/resume", &json!({})).await.ok(200)["was_paused"], true);
    assert_eq!(bed.ended(&id).await["state"], "SUCCESS");
    assert_eq!(bed.post("/v1/queues/slow/resume", &json!({})).await.ok(200)["was_paused"], false);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_filtered_and_paged_without_gaps() {
    let bed = Bed::new().await;
    bed.register("ok", json!({ "run_timeout": "30s" })).await;
    bed.register("fail-business", json!({ "run_timeout": "30s" })).await;
    let mut ids = Vec::new();
    for n in 0..5 {
        let name = if n == 2 { "fail-business" } else { "ok" };
        let label = format!("n{n}");
        let task = json!({ "type": name, "labels": { "n": label }, "creator": "ann", "queue": format!("q{n}") });
        let id = bed.submit(&task).await["id"].clone();
        bed.ended(&id).await;
        ids.push(id);
    }
    ids.reverse();
    let listed = async |query: &str| {
        let page = bed.get(&format!("/v1/tasks?{query}")).await.ok(200);
        page["items"].as_array().unwrap().iter().map(|task| task["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(listed("").await, ids);
    assert_eq!(listed("state=FAILED").await, [ids[2].clone()]);
    assert_eq!(listed("state=FAILED,SUCCESS&state=CANCELED").await, ids);
    assert_eq!(listed("state=TIMEOUT").await, [] as [Value; 0]);
    assert_eq!(listed("type=fail-business").await, [ids[2].clone()]);
    assert_eq!(listed("queue=q4&creator=ann").await, [ids[0].clone()]);
    assert_eq!(listed("label=n%3An1").await, [ids[3].clone()]);
    let middle = bed.get(&format!("/v1/tasks/{}", ids[2].as_str().unwrap())).await.ok(200);
    let (at, trace) = (middle["created_at"].as_str().unwrap(), middle["trace_id"].as_str().unwrap());
    assert_eq!(listed(&format!("trace={trace}")).await, [ids[2].clone()]);
    assert_eq!(listed(&format!("created_from={at}")).await, ids[..3]);
    assert_eq!(listed(&format!("created_to={at}")).await, ids[3..]);
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = bed.get(&format!("/v1/tasks?limit=2{cursor}")).await.ok(200);
        seen.extend(page["items"].as_array().unwrap().iter().map(|task| task["id"].clone()));
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen, ids);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_paged() {
    let bed = Bed::new().await;
    bed.register("log-lines", json!({ "run_timeout": "30s" })).await;
    let id = bed.submit(&json!({ "type": "log-lines" })).await["id"].clone();
    bed.ended(&id).await;
    let path = format!("/v1/tasks/{}/logs", id.as_str().unwrap());
    let all = bed.get(&path).await.ok(200);
    let lines = all["items"].as_array().unwrap();
    assert!(lines.len() > 1 && lines[0]["message"].is_string(), "{all:#}");
    let first = bed.get(&format!("{path}?limit=1")).await.ok(200);
    assert_eq!(first["items"], json!([lines[0]]));
    let rest = bed.get(&format!("{path}?after={}", first["next_after"])).await.ok(200);
    assert_eq!(rest["items"], json!(lines[1..]));
    let after_all = bed.get(&format!("{path}?after={}", all["next_after"])).await.ok(200);
    assert_eq!((&after_all["items"], &after_all["next_after"]), (&json!([]), &all["next_after"]));
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_node_says_how_it_is() {
    let bed = Bed::new().await;
    assert_eq!(bed.get("/livez").await.ok(200)["status"], "ok");
    assert_eq!(bed.get("/readyz").await.ok(200)["status"], "ok");
    let health = bed.get("/v1/health").await.ok(200);
    assert_eq!((&health["slots"], &health["slots_free"], &health["attempts"]), (&json!(4), &json!(4), &json!(0)));
    bed.api.close();
    bed.get("/readyz").await.problem(503, "shutting_down");
    assert_eq!(bed.get("/v1/health").await.ok(200)["status"], "shutting_down");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_gone_is_a_problem_and_no_panic() {
    let bed = Bed::new().await;
    bed.host.shut_down().await.unwrap();
    bed.get("/readyz").await.problem(503, "shutting_down");
    for path in ["/v1/health", "/v1/tasks", "/v1/types", "/v1/components", "/v1/queues"] {
        let reply = bed.get(path).await;
        // What needs no writing may still be told.
        if reply.status != 200 {
            reply.problem(503, "shutting_down");
        }
    }
    let digest = "0".repeat(64);
    let put = json!({ "component": digest, "terms": { "run_timeout": "1s" } }).to_string();
    bed.send_json("PUT", "/v1/types/ok", put).await.problem(503, "shutting_down");
    bed.post("/v1/tasks", &json!({ "type": "ok" })).await.problem(503, "shutting_down");
    bed.post("/v1/queues/q/pause", &json!({})).await.problem(503, "shutting_down");
    assert_eq!(bed.get("/livez").await.ok(200)["status"], "ok");
}
