//! The document says what the routes do, and the table of problems is complete.

use std::collections::BTreeSet;

use axum::body::Body;
use axum::http::Request;

use super::Bed;
use crate::api::codes::{CODES, Code};
use crate::task::{Objection, Reason, Rejection};

const ROUTES: &[&str] = &[
    "GET /livez",
    "GET /openapi.json",
    "GET /problems",
    "GET /problems/{code}",
    "GET /readyz",
    "GET /v1/components",
    "GET /v1/components/{digest}",
    "GET /v1/alerts",
    "GET /v1/health",
    "GET /v1/nodes",
    "GET /v1/queues",
    "GET /v1/tasks",
    "GET /v1/tasks/{id}",
    "GET /v1/tasks/{id}/attempts",
    "GET /v1/tasks/{id}/attempts/{attempt}/core-dump",
    "GET /v1/tasks/{id}/audit",
    "GET /v1/tasks/{id}/input",
    "GET /v1/tasks/{id}/logs",
    "GET /v1/tasks/{id}/result",
    "GET /v1/types",
    "GET /v1/types/{name}",
    "POST /v1/components",
    "POST /v1/queues/{name}/pause",
    "POST /v1/queues/{name}/resume",
    "POST /v1/tasks",
    "POST /v1/tasks/{id}/cancel",
    "POST /v1/tasks/{id}/fail",
    "POST /v1/tasks/{id}/give-up",
    "POST /v1/tasks/{id}/rerun",
    "PUT /v1/types/{name}",
];

#[tokio::test(flavor = "multi_thread")]
async fn the_document_lists_the_routes_there_are() {
    let bed = Bed::new().await;
    let document = bed.get("/openapi.json").await.ok(200);
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"), "{}", document["openapi"]);
    let (mut listed, mut names) = (BTreeSet::new(), BTreeSet::new());
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            listed.insert(format!("{} {path}", method.to_uppercase()));
            assert!(operation["summary"].is_string(), "{method} {path}");
            assert!(names.insert(operation["operationId"].to_string()), "{method} {path}: its name is taken");
            assert!(operation["responses"].as_object().is_some_and(|all| !all.is_empty()), "{method} {path}");
            for varying in path.split('{').skip(1).map(|part| part.split('}').next().unwrap()) {
                let known = operation["parameters"].as_array().unwrap().iter().any(|p| p["name"] == varying);
                assert!(known, "{method} {path}: `{varying}`");
            }
        }
    }
    assert_eq!(listed, ROUTES.iter().map(|route| (*route).to_owned()).collect());
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_router_has_the_routes_that_the_document_lists_and_no_other_methods() {
    let bed = Bed::new().await;
    let paths: BTreeSet<_> = ROUTES.iter().map(|route| route.split_once(' ').unwrap().1).collect();
    for path in paths {
        let concrete = path
            .replace("{id}", "0192d3a4-5b6c-7d8e-9f00-112233445566")
            .replace("{digest}", &"0".repeat(64))
            .replace("{attempt}", "1")
            .replace("{name}", "name")
            .replace("{code}", "internal");
        for method in ["GET", "POST", "PUT", "DELETE", "PATCH"] {
            let request = Request::builder().method(method).uri(&concrete).header("host", "localhost");
            let reply = bed.send(request.body(Body::empty()).unwrap()).await;
            let there = ROUTES.contains(&format!("{method} {path}").as_str());
            let code = if reply.status >= 400 { reply.json()["code"].clone() } else { "".into() };
            assert_ne!(code, "route_not_found", "{method} {path}");
            assert_eq!(code != "method_not_allowed", there, "{method} {path}");
            if !there {
                assert!(reply.headers.contains_key("allow"), "{method} {path}");
            }
        }
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_reference_of_the_document_leads_somewhere() {
    let bed = Bed::new().await;
    let document = bed.get("/openapi.json").await.ok(200);
    let text = document.to_string();
    let names = text.split("\"#/components/schemas/").skip(1).map(|rest| rest.split('"').next().unwrap());
    for name in names {
        assert!(document["components"]["schemas"][name].is_object(), "{name}");
    }
    for name in ["Task", "NewTask", "Problem", "TermsDraft", "Attempt", "LogLine", "State", "Reason"] {
        assert!(document["components"]["schemas"][name].is_object(), "{name}");
    }
    bed.end().await;
}

#[test]
fn every_code_is_in_the_table_once_with_advice() {
    let mut seen = BTreeSet::new();
    for entry in CODES {
        assert!(seen.insert(entry.name), "{} is there twice", entry.name);
        assert!((400..600).contains(&entry.status), "{}", entry.name);
        assert!(!entry.title.is_empty() && !entry.advice.is_empty(), "{}", entry.name);
    }
    let objections = Objection::ALL.map(Objection::code);
    let rejections = Rejection::ALL.map(|rejection| Reason::Rejected(rejection).code());
    for code in objections.into_iter().chain(rejections) {
        assert!(Code::find(code).is_some(), "{code}");
    }
}

/// The codes that errors of the host have are in their `fn code`, and nowhere else.
#[test]
fn every_code_of_the_host_is_in_the_table() {
    let sources = [include_str!("../../host/error.rs"), include_str!("../../component/error.rs")];
    for source in sources {
        let (_, rest) = source.split_once("fn code(").unwrap();
        let (codes, _) = rest.split_once("fn hint(").unwrap();
        let codes: Vec<_> = codes.split("=> \"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
        assert!(codes.len() > 10, "{codes:?}");
        for code in codes {
            assert!(Code::find(code).is_some(), "{code}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_type_of_a_problem_leads_to_its_page() {
    let bed = Bed::new().await;
    let all = bed.get("/problems").await.ok(200);
    assert_eq!(all["items"].as_array().unwrap().len(), CODES.len());
    let problem = bed.get("/nowhere").await.problem(404, "route_not_found");
    let page = bed.get(problem["type"].as_str().unwrap()).await.ok(200);
    assert_eq!((&page["code"], &page["status"]), (&problem["code"], &problem["status"]));
    bed.get("/problems/nonsense").await.problem(404, "not_found");
    bed.end().await;
}
