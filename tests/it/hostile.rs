//! Every hostile guest, by itself and beside 64 spinners: each ends as the table says, nothing of it is left, no executor is
//! lost for it, and the API answers all through.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use atropos::executor::Counts;
use atropos::host::NewTask;
use atropos::id::TaskId;
use atropos::store::AttemptRow;
use atropos::task::{Kind, Phase, Reason, Ring, Scene, TermsDraft};
use atropos::{Config, Host};

use crate::bed::{
    self, ask, assert_ends, attempts, audit, end, ended, entered, finish, kill, new, show, submit, terms,
};
use crate::hostile_rows::{Ends, Outside, PIPE, REACH, ROWS, Row};
use crate::limits::names;
use crate::neighbours::{crowd, disperse, with_api};
use crate::support::{guest, root, until};

/// How often a guest is killed before it must have been caught where it is said to be.
const TRIES: usize = 100;

fn bytes(row: &Row) -> Vec<u8> {
    let guests = root().join("tests/guests");
    if row.guest == REACH {
        return std::fs::read(guests.join("built/reach.wasm")).expect("a guest");
    }
    if row.repeat == 0 {
        return guest(row.guest);
    }
    let text = std::fs::read_to_string(guests.join(row.guest).with_extension("wat")).expect("a guest");
    let line = text.lines().find(|line| line.ends_with(";; repeat")).expect("the line to repeat");
    let lines = format!("(loop $forever\n{}(br $forever))\n", format!("{line}\n").repeat(row.repeat));
    wat::parse_str(text.replace(line, &lines)).expect("a guest")
}

/// A host, the places that its guests may reach, and what is to be seen of it from outside.
struct Bed {
    host: Host,
    outside: Outside,
    data: tempfile::TempDir,
}

impl Bed {
    /// With every row as a type, but for those that are refused.
    async fn new(start: impl AsyncFnOnce(&Path, Config) -> Host) -> Self {
        let (outside, data) = (Outside::new().await, tempfile::tempdir().expect("a folder"));
        let config = Config { slots: 128, nameservers: vec![outside.mute], ..Config::default() };
        let host = start(data.path(), config).await;
        for row in ROWS {
            if let Ends::Refused(code, word) = row.ends {
                let error = host.push(bytes(row), "test".into()).await.expect_err(row.name);
                assert_eq!(error.code(), code, "{}: {error}", row.name);
                assert!(error.to_string().contains(word) && !error.hint().is_empty(), "{}: {error}", row.name);
                continue;
            }
            let grants = Arc::new((row.grants)(&outside));
            let grace = Some(Duration::from_mins(1));
            bed::put(&host, row.name, bytes(row), TermsDraft { grants, grace, ..terms() }).await;
        }
        Self { host, outside, data }
    }

    async fn with_processes() -> Self {
        Self::new(async |data, config| bed::start(Some(data), config).await).await
    }

    async fn run(&self, row: &Row) -> TaskId {
        let Some(script) = row.script else { return submit(&self.host, new(row.name)).await };
        let script = script.replace("{tcp}", &self.outside.full.to_string());
        let script = script.replace("{http}", &self.outside.silent.to_string());
        let id = submit(&self.host, NewTask { input: format!("\"{script}\""), ..new(row.name) }).await;
        if let Some(first) = script.strip_prefix(PIPE).map(|_| PIPE) {
            self.noted(id, first).await;
            let mut folders = std::fs::read_dir(self.data.path().join("scratch")).expect("the scratch folders");
            let folder = folders.next().expect("its folder").expect("an entry").path();
            let made = std::process::Command::new("mkfifo").arg(folder.join("pipe")).status().expect("it runs");
            assert!(made.success(), "a pipe");
            std::fs::write(folder.join("go"), "").expect("a file");
        } else if matches!(row.ends, Ends::Killed(..)) {
            self.noted(id, &script).await;
        }
        id
    }

    /// Waits until the guest has said that it begins with this.
    async fn noted(&self, id: TaskId, command: &str) {
        until(command, async || {
            let view = show(&self.host, id).await;
            assert!(!view.task.state.kind().is_terminal(), "{command}: {:?}", view.task.state);
            let progress = view.live?.progress?;
            progress.note.filter(|note| &**note == command)
        })
        .await;
    }

    /// Each row as often as it takes to see it where the table says; and how long each kill took.
    async fn run_all(&self) -> BTreeMap<&'static str, Duration> {
        let mut took = BTreeMap::new();
        let before = self.held();
        for row in ROWS {
            match row.ends {
                Ends::Refused(..) => continue,
                Ends::Killed(phase, sits) => {
                    let span = self.killed(row, phase, sits).await;
                    took.insert(row.name, span);
                }
                Ends::Asked => self.asked(row).await,
                Ends::Died(reason, word) => self.died(row, reason, word).await,
                Ends::Returns(result) => self.returns(row, result).await,
            }
            self.assert_back(row, &before).await;
        }
        // A thread that has loaded a component waits some seconds for more to do.
        until("threads to be given back", async || {
            self.held().iter().all(|(pid, now)| now.threads <= before[pid].threads).then_some(())
        })
        .await;
        took
    }

    /// The attempt, of which there was but one.
    async fn attempt(&self, row: &Row, id: TaskId) -> AttemptRow {
        let mut rows = attempts(&self.host, id).await;
        assert_eq!(rows.len(), 1, "{}: it is not run again: {rows:?}", row.name);
        assert!(rows[0].cost.memory_bytes_peak <= 64 << 20, "{}: {:?}", row.name, rows[0].cost);
        rows.remove(0)
    }

    async fn killed(&self, row: &Row, phase: Phase, sits: Option<&str>) -> Duration {
        let mut seen = Vec::new();
        for _ in 0..TRIES {
            let id = self.run(row).await;
            entered(&self.host, id).await;
            kill(&self.host, id).await;
            let last = audit(&self.host, id).await.pop().expect("a row");
            assert_eq!(
                (last.reason, &*last.by, &*last.detail),
                (Reason::Cancelled, "user:ada", "enough"),
                "{}",
                row.name
            );
            let attempt = self.attempt(row, id).await;
            let took = assert_ring(row, &attempt, Ring::Killed);
            let scene = attempt.scene.unwrap_or_else(|| panic!("{}: no scene", row.name));
            if was_there(&scene, phase, sits, row.frames) {
                return took;
            }
            seen.push(scene);
        }
        panic!("{}: never where it was said to be: {:?}", row.name, seen.last());
    }

    async fn asked(&self, row: &Row) {
        let id = self.run(row).await;
        entered(&self.host, id).await;
        self.host.cancel(id, ask("enough"), None).await.expect("it is told");
        assert_ends(&self.host, id, Kind::Cancelled, Reason::Cancelled).await;
        let attempt = self.attempt(row, id).await;
        assert_ring(row, &attempt, Ring::Asked);
    }

    async fn died(&self, row: &Row, reason: &str, word: &str) {
        let id = self.run(row).await;
        let task = ended(&self.host, id).await;
        let over = end(&task);
        assert_eq!((over.kind(), over.reason().code()), (Kind::Failed, reason), "{}: {}", row.name, over.detail());
        assert!(over.detail().contains(word) && !over.recoverable(), "{}: {}", row.name, over.detail());
        assert!(self.host.result(id).await.expect("it answers").is_none(), "{}: a failure has no result", row.name);
        let attempt = self.attempt(row, id).await;
        assert!(attempt.stop.is_none(), "{}: nobody stopped it: {attempt:?}", row.name);
        let backtrace = attempt.scene.map(|scene| scene.backtrace).unwrap_or_default();
        assert!(names(&backtrace, row.frames), "{}: {backtrace:?}", row.name);
    }

    async fn returns(&self, row: &Row, result: &str) {
        let id = self.run(row).await;
        assert_ends(&self.host, id, Kind::Success, Reason::Completed).await;
        let told = self.host.result(id).await.expect("it answers").expect("a result");
        assert_eq!(&*told.result, result, "{}", row.name);
        assert!(self.attempt(row, id).await.stop.is_none(), "{}", row.name);
    }

    /// By each executor that has a process.
    fn held(&self) -> BTreeMap<u32, Held> {
        self.host.node().executors.iter().filter_map(|executor| executor.pid).map(|pid| (pid, held_by(pid))).collect()
    }

    /// Nothing is left of the guest, and no executor was lost for it.
    async fn assert_back(&self, row: &Row, before: &BTreeMap<u32, Held>) {
        until(&format!("{}: descriptors to be given back", row.name), async || {
            let now = self.held();
            assert!(now.keys().eq(before.keys()), "{}: an executor was lost", row.name);
            now.iter().all(|(pid, now)| now.descriptors <= before[pid].descriptors).then_some(())
        })
        .await;
        for executor in self.host.node().executors {
            assert!(executor.starts <= 1, "{}: ring 2 is enough: {executor:?}", row.name);
        }
        let folders = std::fs::read_dir(self.data.path().join("scratch")).expect("the scratch folders").count();
        assert_eq!(folders, 0, "{}", row.name);
    }

    async fn finish(self) {
        assert_eq!(self.host.alerts().len(), 0);
        finish(self.host).await;
    }
}

struct Held {
    descriptors: usize,
    threads: usize,
}

/// Descriptors, but for what the engine keeps of a component for the next attempt; and threads.
fn held_by(pid: u32) -> Held {
    let links = |entry: std::io::Result<std::fs::DirEntry>| std::fs::read_link(entry.ok()?.path()).ok();
    let kept = |path: &PathBuf| {
        path.to_string_lossy().starts_with("/memfd:") || path.extension().is_some_and(|ending| ending == "code")
    };
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("its descriptors").filter_map(links);
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("its threads").count();
    Held { descriptors: open.filter(|path| !kept(path)).count(), threads }
}

/// The receipt of a stop on this ring, its steps in order; gives the time from force, or from the request, to its end.
fn assert_ring(row: &Row, attempt: &AttemptRow, ring: Ring) -> Duration {
    let receipt = attempt.stop.as_ref().unwrap_or_else(|| panic!("{}: no stop receipt: {attempt:?}", row.name));
    assert_eq!(receipt.ring, ring, "{}: {receipt:?}", row.name);
    let steps = [Some(receipt.asked_at), receipt.killed_at, Some(receipt.gone_at), Some(receipt.written_at)];
    let words = [Some(receipt.asked_at), receipt.told_at, receipt.seen_at, Some(receipt.gone_at)];
    for steps in [steps, words] {
        assert!(steps.iter().flatten().is_sorted(), "{}: {receipt:?}", row.name);
    }
    assert_eq!(receipt.killed_at.is_some(), ring == Ring::Killed, "{}: {receipt:?}", row.name);
    assert!(ring == Ring::Killed || receipt.seen_at.is_some(), "{}: {receipt:?}", row.name);
    receipt.gone_at.since(receipt.killed_at.unwrap_or(receipt.asked_at))
}

/// Whether it was caught where it is said to be. A kill may come before it is there.
fn was_there(scene: &Scene, phase: Phase, sits: Option<&str>, frames: &[&str]) -> bool {
    let there = sits.is_none_or(|call| scene.host_call.as_deref().is_some_and(|at| at.starts_with(call)));
    scene.phase == Some(phase) && there && names(&scene.backtrace, frames)
}

/// Asks the API all through what is done meanwhile; gives what came of that, how many answers there were, and the longest wait.
async fn answering<T>(host: &Host, meanwhile: impl Future<Output = T>) -> (T, usize, Duration) {
    with_api(host, async |url: &str| {
        let over = Arc::new(AtomicBool::new(false));
        let (url, asked_enough) = (url.to_owned(), Arc::clone(&over));
        let asking = tokio::spawn(async move {
            let http = reqwest::Client::new();
            let (mut answers, mut longest) = (0, Duration::ZERO);
            for path in ["/v1/health", "/v1/tasks?limit=20", "/v1/nodes", "/livez"].iter().cycle() {
                if asked_enough.load(Ordering::Relaxed) {
                    break;
                }
                let asked = Instant::now();
                let (status, body) = crate::support::answer(http.get(format!("{url}{path}"))).await;
                assert_eq!(status, 200, "{path}: {body}");
                longest = longest.max(asked.elapsed());
                answers += 1;
            }
            (answers, longest)
        });
        let came = meanwhile.await;
        over.store(true, Ordering::Relaxed);
        let (answers, longest) = asking.await.expect("it is always answered");
        (came, answers, longest)
    })
    .await
}

/// What was measured, for who wants to see it: `--nocapture`.
fn tell(how: &str, took: &BTreeMap<&str, Duration>) {
    for row in ROWS {
        match took.get(row.name) {
            Some(took) => println!("{how} | {} | {:?} | {took:?}", row.name, row.ends),
            None => println!("{how} | {} | {:?} |", row.name, row.ends),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_hostile_guest_ends_and_leaves_nothing() {
    let bed = Bed::with_processes().await;
    let (took, answers, longest) = answering(&bed.host, bed.run_all()).await;
    tell("alone", &took);
    println!("alone: {answers} answers, the longest after {longest:?}");
    assert!(answers > ROWS.len(), "{answers} answers");
    bed.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_hostile_guest_ends_beside_64_spinners() {
    let bed = Bed::with_processes().await;
    let spinners = crowd(&bed.host, "spin", 64).await;
    let (took, answers, longest) = answering(&bed.host, bed.run_all()).await;
    tell("beside 64", &took);
    println!("beside 64: {answers} answers, the longest after {longest:?}");
    assert!(answers > ROWS.len(), "{answers} answers");
    for id in &spinners {
        let view = show(&bed.host, *id).await;
        let running = view.task.state.kind() == Kind::Running && attempts_made(&bed.host, *id).await == 1;
        assert!(running, "nobody was killed for them: {:?}", view.task.state);
    }
    disperse(&bed.host, spinners).await;
    bed.finish().await;
}

async fn attempts_made(host: &Host, id: TaskId) -> usize {
    host.attempts(id).await.expect("its attempts").len()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_hostile_guest_ends_where_there_are_no_other_processes() {
    let start = async |data: &Path, config| {
        Host::start(Config { data_dir: Some(data.to_owned()), ..config }).await.expect("it starts")
    };
    let bed = Bed::new(start).await;
    let took = bed.run_all().await;
    tell("in this process", &took);
    bed.finish().await;
}

/// The largest memory that terms can give. It is one instruction that an engine runs to its end, if nobody cuts it up.
#[tokio::test(flavor = "multi_thread")]
async fn a_fill_of_a_gibibyte_is_killed_on_the_second_ring() {
    let text = std::fs::read_to_string(root().join("tests/guests/fill.wat")).expect("a guest");
    let larger = text.replace("\"memory\") 1024)", "\"memory\") 16384)").replace("0x4000000", "0x40000000");
    assert_eq!(larger.matches("16384").count() + larger.matches("0x40000000").count(), 2, "the guest has changed");
    let host = bed::start(None, Config::default()).await;
    let large = TermsDraft { memory_bytes_max: Some(1 << 30), ..terms() };
    bed::put(&host, "fill", wat::parse_str(larger).expect("a guest"), large).await;
    let id = submit(&host, new("fill")).await;
    entered(&host, id).await;
    until("its memory to be counted", async || (host.node().counts.guest_memory_bytes >= 1 << 30).then_some(())).await;
    kill(&host, id).await;
    let attempt = attempts(&host, id).await.remove(0);
    let row = ROWS.iter().find(|row| row.name == "fill").expect("a row");
    println!("a fill of 1 GiB: {:?}", assert_ring(row, &attempt, Ring::Killed));
    assert!(host.node().executors.iter().all(|executor| executor.starts == 1), "no executor was lost");
    until("the ledger to be at zero", async || (host.node().counts == Counts::default()).then_some(())).await;
    finish(host).await;
}

/// Queued, waiting for a slot, compiling. The other phases are rows of the table: instantiating (`spin-start`), running
/// (`spin`), in a host call (`sleep-forever`).
#[tokio::test(flavor = "multi_thread")]
async fn a_kill_before_the_guest_begins_leaves_as_little() {
    let data = tempfile::tempdir().expect("a folder");
    let host = bed::start(Some(data.path()), Config::default()).await;
    bed::put_guests(&host, &["spin"], terms()).await;
    finish(host).await;
    for code in std::fs::read_dir(data.path().join("cache")).expect("the cache") {
        std::fs::remove_file(code.expect("code").path()).expect("it is removed");
    }
    let (started, held) = (data.path().join("started"), data.path().join("held"));
    assert!(std::process::Command::new("mkfifo").arg(&held).status().expect("it runs").success(), "a pipe");
    let first = format!("touch {}; cat {}", started.display(), held.display());
    let program = Some(crate::compile::script(data.path(), &first));
    let host = bed::start(Some(data.path()), Config { slots: 1, program, ..Config::default() }).await;

    let compiling = submit(&host, new("spin")).await;
    until("its compiler to be at work", async || started.exists().then_some(())).await;
    let waiting = submit(&host, new("spin")).await;
    let queued = submit(&host, NewTask { queue: "night".parse().expect("a name"), ..new("spin") }).await;
    host.pause("night".parse().expect("a name"), None, ask("later")).await.expect("it is paused");
    for id in [queued, waiting] {
        kill(&host, id).await;
        assert_eq!(audit(&host, id).await.pop().map(|row| row.reason), Some(Reason::SkippedBeforeStart));
        assert_eq!(attempts(&host, id).await, [], "nothing of it ran");
    }
    kill(&host, compiling).await;
    let attempt = attempts(&host, compiling).await.remove(0);
    assert_eq!(attempt.scene.as_ref().and_then(|scene| scene.phase), Some(Phase::Loading), "{attempt:?}");
    assert_ring(&ROWS[0], &attempt, Ring::Killed);
    // It is compiled all the same: somebody else may want it.
    std::fs::write(&held, "").expect("the compiler goes on");
    let id = submit(&host, new("spin")).await;
    entered(&host, id).await;
    kill(&host, id).await;
    finish(host).await;
}
