//! The examples do what `examples/README.md` says: as they lie there, and as built from their sources.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use atropos::host::NewTask;
use atropos::id::TaskId;
use atropos::task::{Kind, LogLevel, Reason, Ring, State, TermsDraft};
use atropos::{Config, Host};
use serde_json::{Value, json};

use crate::bed::{self, ask, assert_ends, attempts, end, entered, finish, show, story, submit, terms};
use crate::support::{root, until};

fn with(kind: &str, input: &Value) -> NewTask {
    NewTask { input: input.to_string(), ..bed::new(kind) }
}

/// A report that takes at least this many rows times this many milliseconds.
fn report(rows: u32, row_ms: u32) -> Value {
    json!({ "user": "u-1001", "report_type": "orders", "from": "2026-01-01", "to": "2026-03-31", "format": "csv",
            "rows": rows, "row_ms": row_ms })
}

async fn result(host: &Host, id: TaskId) -> Value {
    let row = host.result(id).await.expect("it answers").expect("a result");
    serde_json::from_str(&row.result).expect("JSON")
}

async fn log(host: &Host, id: TaskId) -> Vec<(LogLevel, String)> {
    let rows = host.logs(id, 0, usize::MAX).await.expect("its log");
    rows.into_iter().map(|row| (row.line.level, row.line.message)).collect()
}

async fn hello(host: &Host) {
    let id = submit(host, with("hello", &json!({ "name": " Ada " }))).await;
    assert_ends(host, id, Kind::Success, Reason::Completed).await;
    assert_eq!(result(host, id).await, json!({ "greeting": "Hello, Ada!" }));
    assert_eq!(log(host, id).await, [(LogLevel::Info, "greeting Ada".to_owned())]);
    for (input, says) in [(json!({ "name": " " }), "nobody to greet"), (json!({ "nam": "Ada" }), "nam")] {
        let id = submit(host, with("hello", &input)).await;
        let task = assert_ends(host, id, Kind::Failed, Reason::Business).await;
        assert!(end(&task).detail().contains(says), "{}", end(&task).detail());
    }
}

async fn export_report(host: &Host) {
    let id = submit(host, with("export-report", &report(200, 2))).await;
    until("its progress", async || {
        let view = show(host, id).await;
        let live = view.live.and_then(|live| live.progress);
        live.filter(|progress| progress.done > 0.0 && progress.total == Some(200.0)).map(drop)
    })
    .await;
    assert_ends(host, id, Kind::Success, Reason::Completed).await;
    let report_is = result(host, id).await;
    assert_eq!((&report_is["user"], &report_is["rows"]), (&json!("u-1001"), &json!(200)), "{report_is}");
    let progress = attempts(host, id).await.remove(0).progress.expect("a last progress");
    assert!(progress.done >= 200.0, "{progress:?}");

    let id = submit(host, with("export-report", &report(100_000, 20))).await;
    entered(host, id).await;
    host.cancel(id, ask("changed my mind"), None).await.expect("it is told");
    assert_ends(host, id, Kind::Cancelled, Reason::Cancelled).await;
    let receipt = attempts(host, id).await.remove(0).stop.expect("a stop receipt");
    assert!(receipt.ring == Ring::Asked && receipt.seen_at.is_some() && receipt.killed_at.is_none(), "{receipt:?}");
    let last = log(host, id).await.pop().expect("a line");
    assert!(last.0 == LogLevel::Warn && last.1.starts_with("stopped after "), "{last:?}");
}

async fn flaky(host: &Host) {
    let ways = [
        ("ok", Kind::Success, Reason::Completed, ""),
        ("business", Kind::Failed, Reason::Business, "the account is closed"),
        ("fatal", Kind::Failed, Reason::GuestFatal, "the totals do not add up"),
        ("system", Kind::Failed, Reason::RetriesSpent, "the warehouse does not answer (attempt 4)"),
    ];
    for (mode, kind, reason, says) in ways {
        let id = submit(host, with("flaky", &json!({ "mode": mode }))).await;
        let task = assert_ends(host, id, kind, reason).await;
        assert_eq!(end(&task).detail(), says, "{mode}");
        assert_eq!(task.state.tally().attempts, if mode == "system" { 4 } else { 1 }, "{mode}");
    }

    let id = submit(host, with("flaky", &json!({ "mode": "system", "system_until_attempt": 3 }))).await;
    assert_ends(host, id, Kind::Success, Reason::Completed).await;
    assert_eq!(result(host, id).await, json!({ "attempt": 3 }));
    let twice = ["claimed", "system", "retry"].repeat(2);
    assert_eq!(story(host, id).await, [&["submitted"][..], &twice, &["claimed", "completed"]].concat());

    let wish = json!({ "mode": "system", "retry_after_ms": 3_600_000 });
    let id = submit(host, with("flaky", &wish)).await;
    let waiting = until("the wait for the retry", async || match show(host, id).await.task.state {
        State::Pending(pending) if pending.tally().retries == 1 => Some(pending),
        _ => None,
    })
    .await;
    let over = attempts(host, id).await.remove(0);
    assert!(waiting.ready_at() >= over.ended_at + Duration::from_hours(1), "{waiting:?}");
    bed::kill(host, id).await;

    let id = submit(host, with("flaky", &json!({ "mode": "panic" }))).await;
    assert_ends(host, id, Kind::Failed, Reason::Died(atropos::task::Death::Trap)).await;
    let lines = log(host, id).await;
    assert!(lines.iter().any(|(_, line)| line.contains("a ledger has at least one entry")), "{lines:?}");
    let scene = attempts(host, id).await.remove(0).scene.expect("a scene");
    assert!(scene.backtrace.iter().any(|frame| frame.contains("flaky::audit")), "{:?}", scene.backtrace);
}

async fn runaway(host: &Host) {
    let id = submit(host, with("runaway", &json!({}))).await;
    entered(host, id).await;
    host.cancel(id, ask("it never ends"), Some(Duration::from_millis(10))).await.expect("it is told");
    assert_ends(host, id, Kind::Cancelled, Reason::Cancelled).await;
    let receipt = attempts(host, id).await.remove(0).stop.expect("a stop receipt");
    assert!(receipt.ring == Ring::Killed && receipt.seen_at.is_none(), "{receipt:?}");
}

async fn assert_examples(folder: &Path) {
    let data = tempfile::tempdir().expect("a folder");
    let host = bed::start(Some(data.path()), Config::default()).await;
    let generous =
        TermsDraft { grace: Some(Duration::from_mins(1)), retry_cap: Some(Duration::from_hours(1)), ..terms() };
    for name in ["hello", "export-report", "flaky", "runaway"] {
        let path = folder.join(name).with_extension("wasm");
        let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        bed::put(&host, name, bytes, generous.clone()).await;
    }
    hello(&host).await;
    export_report(&host).await;
    flaky(&host).await;
    runaway(&host).await;
    finish(host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_that_are_there_do_what_is_said_of_them() {
    assert_examples(&root().join("examples")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_as_built_from_their_sources_do_the_same() {
    const TOOL_MISSING: i32 = 3;
    let folder = tempfile::tempdir().expect("a folder");
    let test = std::env::current_exe().expect("this test has a path");
    // <target>/<profile>/deps/<test>
    let target = test.ancestors().nth(3).expect("the test lies in a target folder").join("examples");
    let mut build = Command::new("sh");
    build.arg(root().join("examples/build.sh")).arg(folder.path()).env("CARGO_TARGET_DIR", target);
    // What cargo tells this test is not meant for another build.
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CARGO_") && name != "CARGO_HOME") {
        if name != "CARGO_TARGET_DIR" {
            build.env_remove(name);
        }
    }
    let output = build.env_remove("RUSTFLAGS").output().expect("a shell");
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(TOOL_MISSING) {
        println!("not built from source: {}", said.trim());
        return;
    }
    assert!(output.status.success(), "{said}");
    assert_examples(folder.path()).await;
}
