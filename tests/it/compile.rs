//! Compiling what strangers upload: bombs are refused or cut, nobody else notices, and the cache of code is never believed blindly.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use atropos::component::CompileLimits;
use atropos::task::{Kind, Reason};
use atropos::{Config, Host};
use serde_json::{Value, json};

use crate::bed::{self, assert_ends, finish, new, submit, terms};
use crate::support::{Node, answer, guest, program, until};

fn module(body: &str) -> Vec<u8> {
    wat::parse_str(format!("(component (core module {body}))")).expect("a component")
}

/// Each local is made of the one before it, in a loop of its own.
fn woven(locals: usize, loops: usize) -> String {
    let step = |at: usize| {
        let (from, to) = (at % locals, at % locals + 1);
        format!("(loop (local.set {to} (i32.add (local.get {from}) (i32.const 1))) (br_if 0 (local.get {to})))")
    };
    format!(
        "(func (param i32) (local {}) {})",
        "i32 ".repeat(locals),
        (0..loops).map(step).collect::<Vec<_>>().concat()
    )
}

fn alive(values: usize) -> String {
    let (all, sum) = ("(i32.load (i32.const 0))".repeat(values), "i32.add ".repeat(values - 1));
    format!("(memory 1) (func (result i32) {all} {sum})")
}

/// Each local depends on the one before it.
fn chained(locals: usize) -> String {
    let step = |at: usize| format!("(if (local.get {at}) (then (local.set {} (i32.const 1))))", at + 1);
    format!(
        "(func (param i32) (local {}) {})",
        "i32 ".repeat(locals),
        (0..locals).map(step).collect::<Vec<_>>().concat()
    )
}

fn calls(count: usize) -> String {
    let (values, gets) =
        ("i32 ".repeat(100), (0..100).map(|at| format!("local.get {at} ")).collect::<Vec<_>>().concat());
    format!(
        "(type $wide (func (param {values}) (result {values}))) (func $f (type $wide) unreachable)
         (func (type $wide) {gets} {})",
        "call $f ".repeat(count)
    )
}

/// More than any compiler is given, within every bound that is looked at before.
fn long_bomb() -> Vec<u8> {
    module(&woven(1_000, 1_990).repeat(10))
}

/// A component of its own for each number, that does the same.
fn variant(bytes: &[u8], number: u8) -> Vec<u8> {
    // A custom section: id, size, size of its name, name, content.
    [bytes, &[0, 3, 1, b'n', number]].concat()
}

/// Processes of a node that compile.
fn compilers(node: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("processes").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // Whoever ended meanwhile has neither.
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
        let compiles = command.split(|byte| *byte == 0).any(|word| word == b"compile-component");
        if compiles && parent == Some(&node.to_string()) {
            found.push(pid);
        }
    }
    found
}

/// Whether a process does something still.
fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()).is_some_and(|state| state != "Z")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("the cache").map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    files
}

async fn upload(node: &Node, component: Vec<u8>) -> (u16, Value) {
    let request = node.http.post(format!("{}/v1/components", node.url)).header("content-type", "application/wasm");
    answer(request.body(component)).await
}

fn config(program: impl Into<PathBuf>) -> Config {
    Config { program: Some(program.into()), ..Config::default() }
}

async fn refusal(host: &Host, bytes: Vec<u8>) -> (&'static str, String) {
    let error = host.push(bytes, "test".into()).await.expect_err("it is refused");
    assert!(!error.hint().is_empty());
    (error.code(), error.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_compile_bomb_is_refused_or_cut_and_leaves_nothing() {
    const REFUSED: &str = "component_too_complex";
    const CUT: &str = "component_compile_limit";
    let data = tempfile::tempdir().expect("a folder");
    let limits = CompileLimits {
        cpu: Duration::from_secs(1),
        cpu_per_mib: Duration::ZERO,
        memory_bytes_max: 512 << 20,
        ..CompileLimits::default()
    };
    let host = bed::start(Some(data.path()), Config { compile: limits, ..config(program()) }).await;
    let refs = |count: usize| format!("(table 1 funcref) (func $f) (elem (i32.const 0) func {})", "$f ".repeat(count));
    let cases: [(&str, Vec<u8>, &str, &str); 13] = [
        ("calls of 100 arguments", module(&calls(10_000)), REFUSED, "values passed"),
        ("locals times loops", module(&woven(5_000, 5_000)), REFUSED, "locals times loops"),
        ("live values", module(&alive(20_000)), REFUSED, "values on the stack"),
        ("locals", module(&chained(20_000)), REFUSED, "locals"),
        ("elements", module(&refs(100_001)), REFUSED, "elements"),
        ("types", module(&"(type (func))".repeat(100_001)), REFUSED, "types"),
        ("functions", module(&"(func)".repeat(200_001)), REFUSED, "functions"),
        ("data", module(&format!("(memory 1) {}", "(data \"a\")".repeat(100_001))), REFUSED, "segments"),
        ("instances", instances(1_001), REFUSED, "instances"),
        ("modules in components", nested(60), REFUSED, "within each other"),
        ("weaving below the bound", module(&woven(1_000, 1_990).repeat(3)), CUT, "1 s of processor time"),
        ("locals below the bound", module(&chained(4_990)), CUT, ""),
        ("functions below the bound", module(&"(func)".repeat(199_000)), CUT, ""),
    ];
    for (name, bytes, code, says) in cases {
        let (told, text) = refusal(&host, bytes).await;
        println!("{name}: {text}");
        assert_eq!(told, code, "{name}: {text}");
        assert!(text.contains(says), "{name}: {text}");
        assert_eq!(files(&data.path().join("cache")), [] as [PathBuf; 0], "{name}");
    }
    assert_eq!(refusal(&host, guest("no-run")).await.0, "component_run_missing", "and the next one is looked at");
    bed::put(&host, "ok", guest("ok"), terms()).await;
    finish(host).await;
}

fn instances(count: usize) -> Vec<u8> {
    let text = format!("(component (core module $m) {})", "(core instance (instantiate $m))".repeat(count));
    wat::parse_str(text).expect("a component")
}

fn nested(depth: usize) -> Vec<u8> {
    wat::parse_str(format!("{}{}", "(component ".repeat(depth), ")".repeat(depth))).expect("a component")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compile_that_takes_too_long_on_the_clock_is_cut() {
    let data = tempfile::tempdir().expect("a folder");
    let limits = CompileLimits { wall: Duration::from_secs(1), ..CompileLimits::default() };
    let host = bed::start(Some(data.path()), Config { compile: limits, ..config(program()) }).await;
    let (code, text) = refusal(&host, long_bomb()).await;
    assert_eq!((code, text.contains("1 s of time")), ("component_compile_limit", true), "{text}");
    assert_eq!(files(&data.path().join("cache")), [] as [PathBuf; 0]);
    finish(host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compile_that_takes_too_much_memory_ends_alone() {
    let data = tempfile::tempdir().expect("a folder");
    let limits = CompileLimits { memory_bytes_max: 256 << 20, ..CompileLimits::default() };
    let host = bed::start(Some(data.path()), Config { compile: limits, ..config(program()) }).await;
    let (code, text) = refusal(&host, module(&chained(4_990))).await;
    assert_eq!((code, text.contains("256 MiB of memory")), ("component_compile_limit", true), "{text}");
    assert_eq!(files(&data.path().join("cache")), [] as [PathBuf; 0]);
    bed::put(&host, "ok", guest("ok"), terms()).await;
    let id = submit(&host, new("ok")).await;
    assert_ends(&host, id, Kind::Success, Reason::Completed).await;
    finish(host).await;
}

/// Tasks that run to their end, and the API beside them.
async fn assert_undisturbed(node: &Node, tasks: usize) {
    let body = json!(vec![json!({ "type": "ok", "input": null }); tasks]);
    let (status, answer) = node.post("/v1/tasks", &body).await;
    assert_eq!(status, 200, "{answer}");
    for path in ["/livez", "/readyz", "/v1/health", "/v1/types", "/v1/components"] {
        assert_eq!(node.get(path).await.0, 200, "{path}");
    }
    for item in answer.as_array().expect("an answer for each") {
        let task = node.ended(item["task"]["id"].as_str().expect("an id")).await;
        assert_eq!((&task["state"], &task["attempts"]), (&json!("SUCCESS"), &json!(1)), "{task}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_a_bomb_tasks_run_and_its_compiler_may_be_killed() {
    let data = tempfile::tempdir().expect("a folder");
    let node = Node::start(data.path(), &[]);
    node.push("ok", guest("ok"), json!({ "run_timeout": "1m" })).await;
    let (bomb, killed) = tokio::join!(upload(&node, long_bomb()), async {
        let pid = until("a compiler", async || compilers(node.pid()).first().copied()).await;
        assert_undisturbed(&node, 100).await;
        assert_eq!(compilers(node.pid()), [pid], "the bomb is still being compiled");
        let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).expect("its limits");
        assert_locked_down(pid, &limits);
        kill(pid);
        pid
    });
    assert_eq!((bomb.0, &bomb.1["code"]), (500, &json!("component_check_failed")), "{}", bomb.1);
    assert!(bomb.1["detail"].as_str().is_some_and(|text| text.contains("killed from outside")), "{}", bomb.1);
    assert!(!runs(killed));
    let left = files(&data.path().join("cache"));
    assert!(left.len() == 1 && left[0].extension().is_some_and(|ending| ending == "code"), "{left:?}");
    node.push("echo", guest("echo"), json!({ "run_timeout": "1m" })).await;
    assert_eq!(node.terminate().await, Some(0));
}

/// As far as the kernel tells.
fn assert_locked_down(pid: u32, limits: &str) {
    let limit = |name: &str| {
        let line = limits.lines().find(|line| line.starts_with(name)).expect("a limit");
        line[name.len()..].split_whitespace().next().expect("a value").to_owned()
    };
    assert_eq!(limit("Max address space"), (2_u64 << 30).to_string());
    assert_eq!(limit("Max core file size"), "0");
    assert_ne!(limit("Max cpu time"), "unlimited");
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
    let of = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    assert_eq!((of("NoNewPrivs:"), of("Seccomp:")), (Some("1"), Some("2")), "{status}");
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("its state");
    let nice = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(16));
    assert_eq!(nice, Some("15"), "{stat}");
}

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.try_into().expect("a number")).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it is there");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_storm_is_turned_away_in_part_and_hurts_nobody() {
    let data = tempfile::tempdir().expect("a folder");
    let node = Node::start(data.path(), &[]);
    node.push("ok", guest("ok"), json!({ "run_timeout": "1m" })).await;
    let storm = async {
        let pid = until("a compiler", async || compilers(node.pid()).first().copied()).await;
        let fit = guest("echo");
        let uploads = (0..20).map(|number| upload(&node, variant(&fit, number)));
        let mut uploads: Vec<_> = uploads.map(Box::pin).collect();
        // None of the twenty has an answer while the bomb has the place, but for those that find the queue full.
        let answers = futures(&mut uploads, async {
            assert_undisturbed(&node, 100).await;
            assert_eq!(compilers(node.pid()), [pid], "one upload is compiled at a time");
            kill(pid);
        });
        answers.await
    };
    let (_, answers) = tokio::join!(upload(&node, long_bomb()), storm);
    let (taken, busy): (Vec<_>, Vec<_>) = answers.into_iter().partition(|(status, _)| *status == 201);
    assert_eq!((taken.len(), busy.len()), (8, 12), "as many as may wait: {busy:?}");
    for (status, problem) in &busy {
        assert_eq!((*status, &problem["code"]), (503, &json!("compiler_busy")), "{problem}");
    }
    assert_eq!(node.terminate().await, Some(0));
}

/// The answers of all, while something else happens.
async fn futures<F: Future<Output = (u16, Value)> + Unpin>(
    all: &mut Vec<F>,
    meanwhile: impl Future<Output = ()>,
) -> Vec<(u16, Value)> {
    let mut meanwhile = std::pin::pin!(meanwhile);
    let (mut answers, mut quiet) = (Vec::new(), false);
    std::future::poll_fn(|cx| {
        all.retain_mut(|one| match std::pin::Pin::new(one).poll(cx) {
            std::task::Poll::Ready(answer) => {
                answers.push(answer);
                false
            }
            std::task::Poll::Pending => true,
        });
        quiet = quiet || meanwhile.as_mut().poll(cx).is_ready();
        if quiet && all.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    answers
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_ends_takes_its_compilers_with_it() {
    let data = tempfile::tempdir().expect("a folder");
    let node = Node::start(data.path(), &[]);
    let (http, url) = (node.http.clone(), node.url.clone());
    let sent = tokio::spawn(async move {
        let request = http.post(format!("{url}/v1/components")).header("content-type", "application/wasm");
        request.body(long_bomb()).send().await.map(|response| response.status().as_u16())
    });
    let pid = until("a compiler", async || compilers(node.pid()).first().copied()).await;
    node.kill();
    until("the compiler to be gone", async || (!runs(pid)).then_some(())).await;
    assert!(sent.await.expect("no panic").is_err(), "nobody answered");
    let node = Node::start(data.path(), &[]);
    assert_eq!(files(&data.path().join("cache")), [] as [PathBuf; 0], "no draft is left");
    let (bomb, code) = {
        let (http, url) = (node.http.clone(), node.url.clone());
        let sent = tokio::spawn(async move {
            let request = http.post(format!("{url}/v1/components")).header("content-type", "application/wasm");
            answer(request.body(long_bomb())).await
        });
        let pid = until("a compiler", async || compilers(node.pid()).first().copied()).await;
        let code = node.terminate().await;
        assert!(!runs(pid));
        (sent.await.expect("no panic"), code)
    };
    assert_eq!(code, Some(0), "a shutdown does not wait for it");
    assert_eq!((bomb.0, &bomb.1["code"]), (500, &json!("component_check_failed")), "{}", bomb.1);
    assert_eq!(files(&data.path().join("cache")), [] as [PathBuf; 0]);
}

/// The program, but that it does something else first when it is to compile.
pub fn script(folder: &Path, first: &str) -> PathBuf {
    let script = folder.join("program");
    let compiles = format!("if [ \"$1\" = compile-component ]; then {first}; fi");
    let text = format!("#!/bin/sh\n{compiles}\nexec {} \"$@\"\n", program().display());
    std::fs::write(&script, text).expect("a script");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700)).expect("a program");
    script
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_compiles_nothing() {
    let data = tempfile::tempdir().expect("a folder");
    let host = bed::start(Some(data.path()), config(program())).await;
    bed::put_guests(&host, &["ok", "echo"], terms()).await;
    let before = files(&data.path().join("cache"));
    assert_eq!(before.len(), 2);
    finish(host).await;
    // A compiler that compiles nothing.
    let host = bed::start(Some(data.path()), config(script(data.path(), "exit 1"))).await;
    for name in ["ok", "echo"] {
        let id = submit(&host, new(name)).await;
        assert_ends(&host, id, Kind::Success, Reason::Completed).await;
    }
    assert_eq!(files(&data.path().join("cache")), before);
    assert_eq!(refusal(&host, guest("polite")).await.0, "component_check_failed");
    finish(host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_many_ask_for_is_compiled_once_for_each_kind_of_engine() {
    let data = tempfile::tempdir().expect("a folder");
    let counted = data.path().join("counted");
    let script = script(data.path(), &format!("echo 1 >> {}", counted.display()));
    let count = || std::fs::read_to_string(&counted).map_or(0, |text| text.lines().count());
    let host = bed::start(Some(data.path()), config(&script)).await;
    let bytes = guest("ok");
    let pushes: Vec<_> = (0..10)
        .map(|_| {
            let (host, bytes) = (host.clone(), bytes.clone());
            tokio::spawn(async move { host.push(bytes, "test".into()).await })
        })
        .collect();
    for push in pushes {
        push.await.expect("no panic").expect("it fits");
    }
    assert_eq!(count(), 1);
    bed::put(&host, "ok", bytes.clone(), terms()).await;
    let mut metered = terms();
    metered.fuel = Some(1_000_000);
    bed::put(&host, "metered", bytes, metered).await;
    let ids = host.submit_many(vec![new("metered"); 20]).await.map_err(|(_, error)| error).expect("they are taken");
    for born in ids {
        assert_ends(&host, born.task.spec.id, Kind::Success, Reason::Completed).await;
    }
    assert_eq!(count(), 2, "code that counts fuel is other code");
    finish(host).await;
}

/// Makes of an entry and another one what is to be found in its place.
type Spoil<'a> = &'a dyn Fn(&[u8], &[u8]) -> Vec<u8>;

#[tokio::test(flavor = "multi_thread")]
async fn code_that_is_not_as_it_was_written_is_made_anew() {
    let data = tempfile::tempdir().expect("a folder");
    let cache = data.path().join("cache");
    let host = bed::start(Some(data.path()), config(program())).await;
    bed::put_guests(&host, &["ok", "echo"], terms()).await;
    let written: Vec<_> = files(&cache).into_iter().map(|path| (std::fs::read(&path).expect("code"), path)).collect();
    assert_eq!(written.len(), 2);
    finish(host).await;

    let half = |bytes: &[u8]| bytes[..bytes.len() / 2].to_vec();
    let flipped = |bytes: &[u8], at: usize| {
        let mut bytes = bytes.to_vec();
        bytes[at] ^= 1;
        bytes
    };
    let spoilers: [Spoil; 7] = [
        &|own, _| half(own),
        &|_, _| Vec::new(),
        &|own, _| flipped(own, own.len() / 2),
        // Its seal says another length, digest, format.
        &|own, _| flipped(own, own.len() - 50),
        &|own, _| flipped(own, own.len() - 1),
        &|own, _| [own, b"and more"].concat(),
        // Whole, but another's.
        &|_, other| other.to_vec(),
    ];
    for (number, spoil) in spoilers.iter().enumerate() {
        for (at, (own, path)) in written.iter().enumerate() {
            std::fs::write(path, spoil(own, &written[1 - at].0)).expect("a file");
        }
        let host = bed::start(Some(data.path()), config(program())).await;
        for name in ["ok", "echo"] {
            let id = submit(&host, new(name)).await;
            assert_ends(&host, id, Kind::Success, Reason::Completed).await;
        }
        for (own, path) in &written {
            assert_eq!(&std::fs::read(path).expect("code"), own, "spoiler {number}: it is healed");
        }
        finish(host).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn code_of_an_engine_that_is_no_more_goes_away() {
    let data = tempfile::tempdir().expect("a folder");
    let cache = data.path().join("cache");
    let host = bed::start(Some(data.path()), config(program())).await;
    bed::put_guests(&host, &["ok"], terms()).await;
    let before = files(&cache);
    finish(host).await;
    std::fs::write(cache.join("a stranger's"), b"").expect("a file");
    // So many memories that each has less address space: other code.
    let host = bed::start(Some(data.path()), Config { slots: 4_096, executors: 1, ..config(program()) }).await;
    assert_eq!(files(&cache), [] as [PathBuf; 0]);
    let id = submit(&host, new("ok")).await;
    assert_ends(&host, id, Kind::Success, Reason::Completed).await;
    let after = files(&cache);
    assert!(after.len() == 1 && after != before, "{after:?}");
    finish(host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn compiled_code_cannot_be_uploaded_and_the_cache_is_nobody_elses() {
    let data = tempfile::tempdir().expect("a folder");
    let cache = data.path().join("cache");
    std::fs::create_dir(&cache).expect("a folder");
    std::fs::set_permissions(&cache, std::fs::Permissions::from_mode(0o755)).expect("rights");
    let host = bed::start(Some(data.path()), config(program())).await;
    bed::put_guests(&host, &["ok"], terms()).await;
    let code = std::fs::read(&files(&cache)[0]).expect("code");
    assert_eq!(refusal(&host, code).await.0, "component_is_precompiled");
    assert_eq!(files(&cache).len(), 1);
    let rights = |path: &Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!((rights(&cache), rights(&files(&cache)[0])), (0o700, 0o600));
    finish(host).await;
}
