//! Requests that are wrong: each a problem with its status, code and hint, and nothing comes of them.

use axum::body::Body;
use axum::http::Request;
use serde_json::json;

use super::{Bed, guest};

const ID: &str = "0192d3a4-5b6c-7d8e-9f00-112233445566";

#[tokio::test(flavor = "multi_thread")]
async fn bad_bodies() {
    let bed = Bed::new().await;
    bed.register("ok", json!({ "run_timeout": "30s" })).await;
    let before = bed.census().await;
    let deep_batch = "[".repeat(100_000);
    let long_name = format!(r#"{{"type":"ok","{}":1}}"#, "x".repeat(1_000_000));
    let cases: &[(&str, &[u8], u16, &str)] = &[
        ("empty", b"", 400, "malformed_json"),
        ("blank", b" \n ", 400, "malformed_json"),
        ("broken", br#"{"type":"ok""#, 400, "malformed_json"),
        ("more after it", br#"{"type":"ok"} {}"#, 400, "malformed_json"),
        ("not UTF-8", b"{\"type\":\"\xff\"}", 400, "malformed_json"),
        ("a NUL", b"\0", 400, "malformed_json"),
        ("a text", br#""ok""#, 422, "invalid_body"),
        ("null", b"null", 422, "invalid_body"),
        ("no type", b"{}", 422, "invalid_body"),
        ("unknown field", br#"{"type":"ok","prio":1}"#, 422, "invalid_body"),
        ("unknown term", br#"{"type":"ok","terms":{"timeout":"1s"}}"#, 422, "invalid_body"),
        ("twice", br#"{"type":"ok","type":"ok"}"#, 422, "invalid_body"),
        ("wrong type", br#"{"type":7}"#, 422, "invalid_body"),
        ("wrong name", br#"{"type":"a b"}"#, 422, "invalid_body"),
        ("wrong priority", br#"{"type":"ok","priority":"high"}"#, 422, "invalid_body"),
        ("a priority out of range", br#"{"type":"ok","priority":-101}"#, 422, "invalid_field"),
        ("a priority far out of range", br#"{"type":"ok","priority":99999}"#, 422, "invalid_field"),
        ("a bare number for a duration", br#"{"type":"ok","terms":{"run_timeout":60}}"#, 422, "invalid_body"),
        ("a bad duration", br#"{"type":"ok","terms":{"run_timeout":"soon"}}"#, 422, "invalid_body"),
        ("a negative duration", br#"{"type":"ok","terms":{"run_timeout":"-1s"}}"#, 422, "invalid_body"),
        (
            "an endless duration",
            br#"{"type":"ok","terms":{"run_timeout":"99999999999999999999y"}}"#,
            422,
            "invalid_body",
        ),
        ("a duration out of range", br#"{"type":"ok","terms":{"run_timeout":"99years"}}"#, 422, "terms_out_of_range"),
        ("a bad time", br#"{"type":"ok","run_after":"tomorrow"}"#, 422, "invalid_body"),
        ("a bad trace", br#"{"type":"ok","traceparent":"00-0-0-0"}"#, 422, "invalid_body"),
        ("a bad scope", br#"{"type":"ok","dedup_scope":"forever"}"#, 422, "invalid_body"),
        ("an empty key", br#"{"type":"ok","dedup_key":""}"#, 422, "invalid_field"),
        ("a label without a name", br#"{"type":"ok","labels":{"":"x"}}"#, 422, "invalid_field"),
        ("an input that is not JSON", br#"{"type":"ok","input":01}"#, 400, "malformed_json"),
        ("deep array", deep_batch.as_bytes(), 400, "malformed_json"),
        ("a field with a long name", long_name.as_bytes(), 422, "invalid_body"),
        ("an array with a bad item", br#"[{"type":"ok"},{"type":7}]"#, 422, "invalid_body"),
    ];
    for (name, body, status, code) in cases {
        let reply = bed.send_json("POST", "/v1/tasks", body.to_vec()).await;
        println!("{name}: {}", reply.problem(*status, code)["detail"]);
        assert!(reply.body.len() < 10_000, "{name}");
    }
    assert_eq!(bed.census().await, before);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deep_and_odd_json_overflows_nothing_on_its_way_through() {
    let bed = Bed::new().await;
    bed.register("echo", json!({ "run_timeout": "30s" })).await;
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for input in [deep.as_str(), r#""\ud800""#, "1e999999", r#"{"":{"":0},"":1}"#] {
        let reply = bed.send_json("POST", "/v1/tasks", format!(r#"{{"type":"echo","input":{input}}}"#)).await;
        if reply.status != 201 {
            reply.problem(422, "invalid_field");
            continue;
        }
        let id = reply.json()["id"].clone();
        let path = format!("/v1/tasks/{}", id.as_str().unwrap());
        let kept = bed.get(&format!("{path}/input")).await;
        assert!(kept.status == 200 && kept.body.ends_with(format!("{input}}}").as_bytes()));
        if bed.ended(&id).await["state"] == "SUCCESS" {
            let result = bed.get(&format!("{path}/result")).await;
            assert!(result.status == 200 && result.body.ends_with(format!("{input}}}").as_bytes()));
        }
    }
    let schema = format!(r#"{{"component":"{}","input_schema":{deep}}}"#, "0".repeat(64));
    bed.send_json("PUT", "/v1/types/deep", schema).await.problem(400, "malformed_json");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_detail_names_the_field() {
    let bed = Bed::new().await;
    let body = json!({ "type": "ok", "terms": { "grace": 5 } });
    let problem = bed.post("/v1/tasks", &body).await.problem(422, "invalid_body");
    assert!(problem["detail"].as_str().unwrap().contains("`terms.grace`"), "{}", problem["detail"]);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_sizes_and_media_types() {
    let bed = Bed::with(|config| config.component_bytes_max = 1_000_000).await;
    let large = format!(r#"{{"type":"ok","input":"{}"}}"#, "x".repeat(10_000_000));
    for path in ["/v1/tasks", &format!("/v1/tasks/{ID}/cancel"), "/v1/queues/q/pause"] {
        let problem = bed.send_json("POST", path, large.clone()).await.problem(413, "body_too_large");
        assert!(problem["detail"].as_str().unwrap().contains("2097152"));
    }
    // Without a length that is known before.
    let chunks = (0..100).map(|_| Ok::<_, std::io::Error>(vec![b' '; 50_000]));
    let endless = Body::from_stream(futures_util::stream::iter(chunks));
    bed.send_json("POST", "/v1/tasks", endless).await.problem(413, "body_too_large");
    let broken = [Ok(vec![b'{']), Err(std::io::Error::other("gone"))];
    let broken = Body::from_stream(futures_util::stream::iter(broken));
    bed.send_json("POST", "/v1/tasks", broken).await.problem(400, "body_incomplete");
    bed.upload(vec![0; 1_000_001]).await.problem(413, "body_too_large");

    let wrong = [
        ("/v1/tasks", Some("text/plain"), r#"{"type":"ok"}"#),
        ("/v1/tasks", Some("application/x-www-form-urlencoded"), "type=ok"),
        ("/v1/tasks", None, r#"{"type":"ok"}"#),
        ("/v1/components", Some("application/json"), "{}"),
        ("/v1/components", None, "x"),
        ("/v1/queues/q/pause", None, "{}"),
    ];
    for (path, media_type, body) in wrong {
        let mut request = Request::post(path).header("host", "localhost");
        if let Some(media_type) = media_type {
            request = request.header("content-type", media_type);
        }
        bed.send(request.body(body.into()).unwrap()).await.problem(415, "unsupported_media_type");
    }
    assert_eq!(bed.census().await, (0, 0, 0));
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_components() {
    let bed = Bed::new().await;
    let mut cut = guest("echo");
    cut.truncate(cut.len() / 2);
    let mut spoilt = guest("echo");
    let middle = spoilt.len() / 2;
    spoilt[middle..].fill(0xff);
    let cases = [
        ("empty", Vec::new(), "component_empty"),
        ("one byte", vec![0], "component_not_webassembly"),
        ("text", b"(component)".to_vec(), "component_is_text"),
        ("noise", b"\x7fELF and so on".to_vec(), "component_not_webassembly"),
        ("cut", cut, "component_invalid"),
        ("spoilt", spoilt, "component_invalid"),
        ("core module", guest("core-module"), "component_is_core_module"),
        ("unknown import", guest("imports-unknown"), "component_import_not_offered"),
        ("no run", guest("no-run"), "component_run_missing"),
        ("run of another type", guest("wrong-run-type"), "component_run_mistyped"),
    ];
    for (name, bytes, code) in cases {
        println!("{name}: {}", bed.upload(bytes).await.problem(422, code)["detail"]);
    }
    assert_eq!(bed.census().await, (0, 0, 0));
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_types() {
    let bed = Bed::new().await;
    let digest = bed.upload(guest("ok")).await.json()["digest"].clone();
    let none = "0".repeat(64);
    let cases = [
        ("ok", json!({ "component": none }), 404, "component_not_found"),
        ("ok", json!({ "component": "abc" }), 422, "invalid_body"),
        ("ok", json!({}), 422, "invalid_body"),
        ("ok", json!({ "component": digest, "schema": {} }), 422, "invalid_body"),
        ("ok", json!({ "component": digest, "terms": { "max_retries": 1_000_000 } }), 422, "terms_out_of_range"),
        ("ok", json!({ "component": digest, "terms": { "grace": "2h" } }), 422, "terms_out_of_range"),
        ("ok", json!({ "component": digest, "input_schema": { "type": "nonsense" } }), 422, "invalid_field"),
        ("ok", json!({ "component": digest, "by": "" }), 422, "invalid_field"),
        ("-ok", json!({ "component": digest }), 400, "invalid_path"),
        ("a%20b", json!({ "component": digest }), 400, "invalid_path"),
        ("%ff", json!({ "component": digest }), 400, "invalid_path"),
    ];
    for (name, body, status, code) in cases {
        bed.send_json("PUT", &format!("/v1/types/{name}"), body.to_string()).await.problem(status, code);
    }
    assert_eq!(bed.census().await, (0, 0, 1));
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_paths_and_queries() {
    let bed = Bed::new().await;
    let task = format!("/v1/tasks/{ID}");
    let cases = [
        ("/", 404, "route_not_found"),
        ("/v1/nothing", 404, "route_not_found"),
        ("/v1/tasks/", 404, "route_not_found"),
        ("/v1/tasks/7", 400, "invalid_path"),
        ("/v1/tasks/%ff", 400, "invalid_path"),
        ("/v1/components/abc", 400, "invalid_path"),
        (&format!("/v1/components/{}", "0".repeat(64)), 404, "component_not_found"),
        ("/v1/types/nobody", 404, "type_not_found"),
        (&task, 404, "task_not_found"),
        (&format!("{task}/audit"), 404, "task_not_found"),
        (&format!("{task}/attempts"), 404, "task_not_found"),
        (&format!("{task}/logs"), 404, "task_not_found"),
        (&format!("{task}/logs?follow=true"), 404, "task_not_found"),
        (&format!("{task}/result"), 404, "task_not_found"),
        (&format!("{task}/input"), 404, "task_not_found"),
        (&format!("{task}?wait=1s"), 404, "task_not_found"),
        (&format!("{task}?wait=-1s"), 400, "invalid_query"),
        (&format!("{task}?wait=30"), 400, "invalid_query"),
        (&format!("{task}?wait="), 400, "invalid_query"),
        (&format!("{task}?wait=61s"), 400, "invalid_query"),
        (&format!("{task}?wait=1s&wait=2s"), 400, "invalid_query"),
        (&format!("{task}?wiat=1s"), 400, "invalid_query"),
        (&format!("{task}/logs?after=-1"), 400, "invalid_query"),
        (&format!("{task}/logs?follow=yes"), 400, "invalid_query"),
        (&format!("{task}/logs?follow=true&limit=5"), 400, "invalid_query"),
        (&format!("{task}/logs?limit=1001"), 400, "invalid_query"),
        ("/v1/tasks?cursor=abc", 400, "invalid_query"),
        ("/v1/tasks?limit=0", 400, "invalid_query"),
        ("/v1/tasks?limit=501", 400, "invalid_query"),
        ("/v1/tasks?limit=many", 400, "invalid_query"),
        ("/v1/tasks?limit=-1", 400, "invalid_query"),
        ("/v1/tasks?state=success", 400, "invalid_query"),
        ("/v1/tasks?state=", 400, "invalid_query"),
        ("/v1/tasks?type=a+b", 400, "invalid_query"),
        ("/v1/tasks?label=x", 400, "invalid_query"),
        ("/v1/tasks?trace=xyz", 400, "invalid_query"),
        ("/v1/tasks?created_from=yesterday", 400, "invalid_query"),
        ("/v1/tasks?creator=%ff", 400, "invalid_query"),
        ("/v1/tasks?creator=%", 400, "invalid_query"),
        ("/v1/types?x=1", 400, "invalid_query"),
    ];
    for (path, status, code) in cases {
        println!("{path}: {}", bed.get(path).await.problem(status, code)["detail"]);
    }
    for verb in ["cancel", "rerun", "fail", "give-up"] {
        bed.post(&format!("{task}/{verb}"), &json!({})).await.problem(404, "task_not_found");
        bed.post(&format!("{task}/{verb}"), &json!({ "who": "ann" })).await.problem(422, "invalid_body");
        bed.post(&format!("{task}/{verb}"), &json!({ "by": "a\u{7}b" })).await.problem(422, "invalid_field");
        bed.post(&format!("{task}/{verb}"), &json!({ "reason": "x".repeat(2_001) }))
            .await
            .problem(422, "invalid_field");
    }
    bed.post(&format!("{task}/cancel"), &json!({ "grace": "soon" })).await.problem(422, "invalid_body");
    bed.post("/v1/queues/q/pause", &json!({ "below": 101 })).await.problem(422, "invalid_field");
    bed.post("/v1/queues/%20/pause", &json!({})).await.problem(400, "invalid_path");
    bed.send_json("DELETE", &task, Body::empty()).await.problem(405, "method_not_allowed");
    assert_eq!(bed.get("/v1/queues").await.json()["items"], json!([]));
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_names_and_other_sites_are_turned_away() {
    let bed = Bed::new().await;
    for host in [Some("evil.example"), Some("evil.example:80"), Some("192.168.1.7"), Some(""), None] {
        let mut request = Request::get("/v1/tasks");
        if let Some(host) = host {
            request = request.header("host", host);
        }
        bed.send(request.body(Body::empty()).unwrap()).await.problem(421, "host_not_allowed");
    }
    let twice = Request::get("/livez").header("host", "localhost").header("host", "localhost");
    bed.send(twice.body(Body::empty()).unwrap()).await.problem(421, "host_not_allowed");
    let absolute = Request::get("http://evil.example/livez").header("host", "localhost");
    bed.send(absolute.body(Body::empty()).unwrap()).await.problem(421, "host_not_allowed");
    let pause = |origin: &str| {
        let request = Request::post("/v1/queues/q/pause").header("host", "127.0.0.1:7717").header("origin", origin);
        request.body(Body::empty()).unwrap()
    };
    for origin in ["http://evil.example", "null", "http://127.0.0.1:80", "http://localhost:7717", "file://", ""] {
        bed.send(pause(origin)).await.problem(403, "origin_not_allowed");
    }
    assert_eq!(bed.get("/v1/queues").await.json()["items"], json!([]));
    bed.send(pause("http://127.0.0.1:7717")).await.ok(200);
    bed.end().await;
}
