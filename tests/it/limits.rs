//! What becomes of guests that break the contract or fail: state, reason, scene and log. Hostile ones: `hostile_rows.rs`.

use atropos::store::LogRow;
use atropos::task::{Ended, Kind, LogLevel, Reason, TermsDraft};
use atropos::{Config, Host};

use crate::bed::{self, assert_ends, attempts, end, ended, finish, kill, new, submit, terms};
use crate::support::{guest, root, until};

/// A guest, and what becomes of it.
struct Case {
    guest: &'static str,
    terms: fn(TermsDraft) -> TermsDraft,
    ends: (Kind, &'static str),
    /// Words of the record's detail, or the result.
    says: &'static str,
    /// Names of the backtrace, innermost first; others may stand between them.
    frames: &'static [&'static str],
}

const PLAIN: Case =
    Case { guest: "ok", terms: |terms| terms, ends: (Kind::Success, "completed"), says: "null", frames: &[] };

const CASES: &[Case] = &[
    PLAIN,
    Case {
        guest: "trap",
        ends: (Kind::Failed, "trap"),
        says: "unreachable",
        frames: &["sink", "sail", "run"],
        ..PLAIN
    },
    Case { guest: "not-json", ends: (Kind::Failed, "bad_result"), says: "not JSON", ..PLAIN },
    Case { guest: "odd-progress", ..PLAIN },
    Case { guest: "stopped-unasked", ends: (Kind::Failed, "stopped_unasked"), says: "nobody", ..PLAIN },
    Case { guest: "fail-business", ends: (Kind::Failed, "business"), says: "the account is closed", ..PLAIN },
    Case { guest: "fail-fatal", ends: (Kind::Failed, "guest_fatal"), says: "the totals do not add up", ..PLAIN },
    Case {
        guest: "spin",
        terms: |terms| TermsDraft { fuel: Some(1_000_000), ..terms },
        ends: (Kind::TimedOut, "fuel_spent"),
        says: "",
        frames: &["run"],
    },
];

/// Whether the names stand in the backtrace, in this order.
pub fn names(backtrace: &[String], frames: &[&str]) -> bool {
    let mut rest = backtrace.iter();
    frames.iter().all(|name| rest.any(|frame| frame.ends_with(&format!("!{name}"))))
}

async fn assert_case(host: &Host, case: &Case) {
    let id = submit(host, new(case.guest)).await;
    let task = ended(host, id).await;
    let name = case.guest;
    let told = |ended: &Ended| format!("{name}: {:?} {} `{}`", ended.kind(), ended.reason().code(), ended.detail());
    let over = end(&task);
    assert_eq!((over.kind(), over.reason().code()), case.ends, "{}", told(over));
    let result = host.result(id).await.expect("it answers");
    if over.kind() == Kind::Success {
        assert_eq!(result.as_ref().map(|row| &*row.result), Some(case.says), "{name}");
    } else {
        assert!(result.is_none(), "{name}: a failure has no result");
        assert!(over.detail().contains(case.says), "{}", told(over));
    }
    assert!(!over.recoverable(), "{name}: run again, it would do the same again");
    let rows = attempts(host, id).await;
    assert_eq!(rows.len(), 1, "{name}: it is not retried");
    let backtrace = rows[0].scene.as_ref().map_or(&[][..], |scene| &scene.backtrace);
    assert!(names(backtrace, case.frames), "{name}: {backtrace:?}");
    assert!(rows[0].cost.memory_bytes_peak <= 64 << 20, "{name}: {:?}", rows[0].cost);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_guest_ends_as_it_must() {
    let host = bed::start(None, Config::default()).await;
    for case in CASES {
        bed::put(&host, case.guest, guest(case.guest), (case.terms)(terms())).await;
        assert_case(&host, case).await;
    }
    finish(host).await;
}

/// An upload that is none, its code, and what the message names.
const MISFITS: &[(&str, &str, &str)] = &[
    ("imports-unknown", "component_import_not_offered", "acme:db/sql"),
    ("imports-checkpoint", "component_import_not_offered", "atropos:task/checkpoint@0.1.0"),
    ("no-run", "component_run_missing", "walk"),
    ("wrong-run-type", "component_run_mistyped", "func(input: u32) -> u32"),
    ("core-module", "component_is_core_module", "core module"),
];

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_is_refused_at_the_upload_and_named() {
    let host = bed::start(None, Config::default()).await;
    for (name, code, names) in MISFITS {
        let error = host.push(guest(name), "test".into()).await.expect_err(name);
        assert_eq!(error.code(), *code, "{name}: {error}");
        assert!(error.to_string().contains(names), "{name}: {error}");
        assert!(!error.hint().is_empty(), "{name}");
    }
    assert!(host.components().await.expect("it answers").is_empty(), "nothing of them is kept");
    finish(host).await;
}

/// Every guest is in one of the tables of these tests.
#[test]
fn no_guest_is_forgotten() {
    let source = |name| std::fs::read_to_string(root().join("tests/it").join(name)).expect("a file of the tests");
    let folder = std::fs::read_dir(root().join("tests/it")).expect("the tests").map(|entry| entry.expect("an entry"));
    let sources: String = folder.map(|entry| source(entry.file_name())).collect();
    let sandbox = std::fs::read_dir(root().join("host/src/executor/tests")).expect("the tests of the executor");
    let sandbox = sandbox.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_file());
    let sources = sandbox.fold(sources, |all, path| all + &std::fs::read_to_string(path).expect("a file of the tests"));
    for entry in std::fs::read_dir(root().join("tests/guests")).expect("the guests") {
        let file = entry.expect("an entry").file_name().into_string().expect("a name");
        if let Some(name) = file.strip_suffix(".wat") {
            assert!(sources.contains(&format!("\"{name}\"")), "no test runs the guest `{name}`");
        }
    }
    for entry in std::fs::read_dir(root().join("tests/guests/built")).expect("the guests that are built") {
        let name = entry.expect("an entry").file_name().into_string().expect("a name");
        assert!(sources.contains(&format!("built/{name}")), "no test runs the guest `{name}`");
    }
}

async fn logs(host: &Host, name: &str, bytes: Vec<u8>, terms: TermsDraft) -> (Vec<LogRow>, atropos::task::CostReceipt) {
    bed::put(host, name, bytes, terms).await;
    let id = submit(host, new(name)).await;
    assert_ends(host, id, Kind::Success, Reason::Completed).await;
    let rows = host.logs(id, 0, usize::MAX).await.expect("its log");
    (rows, attempts(host, id).await.remove(0).cost)
}

#[tokio::test(flavor = "multi_thread")]
async fn log_lines_keep_their_level_and_their_order() {
    let host = bed::start(None, Config::default()).await;
    let (rows, cost) = logs(&host, "log-lines", guest("log-lines"), terms()).await;
    let told: Vec<_> = rows.iter().map(|row| (row.line.number, row.line.level, &*row.line.message)).collect();
    let levels = LogLevel::ALL.into_iter().zip(1..).map(|(level, number)| (number, level, level.code()));
    assert_eq!(told, levels.collect::<Vec<_>>());
    assert_eq!((cost.log_lines, cost.log_lines_dropped, cost.host_calls), (5, 0, 5));
    finish(host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_giant_line_is_cut_and_says_so() {
    let host = bed::start(None, Config::default()).await;
    let text = std::fs::read_to_string(root().join("tests/guests/giant-log.wat")).expect("a guest");
    let shorter =
        text.replace("(i32.const 0x10000) (i32.const 0x1000000))", "(i32.const 0x10000) (i32.const 0x80000))");
    assert_ne!(text, shorter, "the guest has changed");
    let (rows, _) = logs(&host, "giant-line", wat::parse_str(shorter).expect("a guest"), terms()).await;
    let [row] = &rows[..] else { panic!("{} lines", rows.len()) };
    assert!(row.line.message.ends_with("(cut)") && row.line.message.len() < 9 << 10, "{}", row.line.message.len());
    finish(host).await;
}

/// The flood of `log-flood`, for so many lines.
fn bounded_flood(lines: u32) -> Vec<u8> {
    let text = std::fs::read_to_string(root().join("tests/guests/log-flood.wat")).expect("a guest");
    let next = format!(
        "(br_if $forever (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const {lines}))))"
    );
    let bounded = text
        .replace("(result i32)\n      (loop $forever", "(result i32) (local $n i32)\n      (loop $forever")
        .replace("(br $forever))", &next)
        .replace("unreachable)", "(i32.store (i32.const 68) (i32.const 100))\n      (i32.store (i32.const 72) (i32.const 4))\n      (i32.const 64))")
        .replace("(data (i32.const 128)", "(data (i32.const 100) \"null\")\n    (data (i32.const 128)");
    wat::parse_str(bounded).expect("a guest")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_leaves_its_tail_and_the_gap_shows() {
    let host = bed::start(None, Config::default()).await;
    let few = TermsDraft { log_lines_max: Some(100), ..terms() };
    for lines in [100, 101, 5_000, 200_000] {
        let (rows, cost) = logs(&host, &format!("flood-{lines}"), bounded_flood(lines), few.clone()).await;
        let numbers: Vec<_> = rows.iter().map(|row| row.line.number).collect();
        let lines = u64::from(lines);
        assert_eq!(numbers, (lines - 99..=lines).collect::<Vec<_>>());
        assert_eq!((cost.log_lines, cost.log_lines_dropped), (lines, lines - 100));
    }
    let small = TermsDraft { log_bytes_max: Some(430), ..terms() };
    let (rows, _) = logs(&host, "flood-bytes", bounded_flood(5_000), small).await;
    assert_eq!(rows.iter().map(|row| row.line.number).collect::<Vec<_>>(), (4_991..=5_000).collect::<Vec<_>>());
    finish(host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_an_endless_flood_is_bounded_while_it_lasts() {
    let data = tempfile::tempdir().expect("a folder");
    let host = bed::start(Some(data.path()), Config::default()).await;
    bed::put_guests(&host, &["log-flood"], TermsDraft { log_lines_max: Some(100), ..terms() }).await;
    let id = submit(&host, new("log-flood")).await;
    let mut newest = 0;
    for _ in 0..3 {
        newest = until("more lines", async || {
            let rows = host.logs(id, 0, usize::MAX).await.expect("its log");
            assert!(rows.len() <= 100, "{} lines", rows.len());
            rows.last().map(|row| row.line.number).filter(|number| *number > newest)
        })
        .await;
    }
    assert!(newest > 100, "the gap shows: {newest}");
    kill(&host, id).await;
    assert!(host.logs(id, 0, usize::MAX).await.expect("its log").len() <= 100);
    finish(host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fuel_is_counted_alike_each_time_and_ends_the_task_for_good() {
    let host = bed::start(None, Config::default()).await;
    let metered = TermsDraft { fuel: Some(50_000_000), retry_timeouts: Some(true), ..terms() };
    bed::put_guests(&host, &["grow", "spin"], metered).await;
    let mut used = Vec::new();
    for _ in 0..2 {
        let id = submit(&host, new("grow")).await;
        assert_ends(&host, id, Kind::Success, Reason::Completed).await;
        used.push(attempts(&host, id).await[0].cost.fuel);
    }
    assert!(used[0] == used[1] && used[0].is_some_and(|fuel| fuel > 1_000), "{used:?}");
    let id = submit(&host, new("spin")).await;
    let task = assert_ends(&host, id, Kind::TimedOut, Reason::FuelSpent).await;
    assert!(!end(&task).recoverable());
    assert_eq!(attempts(&host, id).await[0].cost.fuel, Some(50_000_000));
    let refused = host.rerun(id, bed::ask(""), false).await.expect_err("it is not recoverable");
    assert_eq!(refused.code(), "not_recoverable");
    finish(host).await;
}
