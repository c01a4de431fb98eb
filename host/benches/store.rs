//! Measures of the store alone, on a real disk: what it costs to remember a task.
//! `cargo bench -p atropos --bench store` prints the table; every figure beside what the machine itself can do.

#![expect(clippy::cast_precision_loss, reason = "figures for people")]

use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use atropos::id::{Digest, NodeId, QueueName, TaskId, TraceParent};
use atropos::store::life::{self, Born, Finish, Submission};
use atropos::store::sqlite::Sqlite;
use atropos::store::{Store, TaskFilter, Write};
use atropos::task::{CostReceipt, DedupScope, Ending, Kind, Spec, Terms, TermsDraft};
use atropos::time::{Clock, SystemClock, Timestamp};
use hdrhistogram::Histogram;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    // `cargo test --benches` only wants to know that it builds.
    if std::env::args().any(|arg| arg == "--test") {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        println!("{:<58} {:>12} {:>12} {:>12}", "measure", "per second", "p50", "p99");
        fsync()?;
        raw_inserts()?;
        for (in_flight, count) in [(1, 2_000), (1_000, 200_000)] {
            lives(in_flight, count).await?;
        }
        crowd(number("PENDING", 100_000), number("ENDED", 200_000)).await
    })
}

/// A figure that the environment may change.
fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn row(name: &str, rate: Option<f64>, times: &Histogram<u64>) {
    let rate = rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}"));
    let time = |quantile| format!("{:.2} ms", times.value_at_quantile(quantile) as f64 / 1000.0);
    println!("{name:<58} {rate:>12} {:>12} {:>12}", time(0.5), time(0.99));
}

fn micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX).max(1)
}

fn folder() -> std::io::Result<tempfile::TempDir> {
    tempfile::tempdir_in(std::env::var_os("BENCH_DIR").unwrap_or_else(|| std::env::temp_dir().into_os_string()))
}

fn fsync() -> Outcome<()> {
    let folder = folder()?;
    let mut file = std::fs::File::create(folder.path().join("probe"))?;
    let mut times = Histogram::<u64>::new(3)?;
    for _ in 0..500 {
        file.write_all(&[7; 4096])?;
        let begun = Instant::now();
        file.sync_data()?;
        times.record(micros(begun))?;
    }
    row("this disk: append 4 KiB and fdatasync", None, &times);
    Ok(())
}

/// One narrow table, groups of 1,024, every commit on disk: what SQLite itself can do here.
fn raw_inserts() -> Outcome<()> {
    let folder = folder()?;
    let conn = rusqlite::Connection::open(folder.path().join("raw.db"))?;
    conn.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
         CREATE TABLE raw (id BLOB PRIMARY KEY, body TEXT) WITHOUT ROWID",
    )?;
    let (mut times, body, groups) = (Histogram::<u64>::new(3)?, "x".repeat(200), 200);
    let begun = Instant::now();
    for _ in 0..groups {
        let start = Instant::now();
        conn.execute_batch("BEGIN IMMEDIATE")?;
        let mut insert = conn.prepare_cached("INSERT INTO raw VALUES (?1, ?2)")?;
        for _ in 0..1024 {
            insert.execute((TaskId::new().as_bytes(), &body))?;
        }
        conn.execute_batch("COMMIT")?;
        times.record(micros(start))?;
    }
    let rate = f64::from(groups * 1024) / begun.elapsed().as_secs_f64();
    row("raw SQLite: inserts of 200 bytes, by 1,024", Some(rate), &times);
    Ok(())
}

/// What all tasks of a run have in common.
struct Mould {
    clock: SystemClock,
    node: NodeId,
    terms: Terms,
    component: Digest,
}

impl Mould {
    fn new() -> Outcome<Arc<Self>> {
        let draft = TermsDraft { run_timeout: Some(Duration::from_mins(1)), ..TermsDraft::default() };
        let terms = draft.resolve(Duration::ZERO)?;
        Ok(Arc::new(Self {
            clock: SystemClock::default(),
            node: NodeId::new(),
            terms,
            component: Digest::of(b"guest"),
        }))
    }

    fn submission(&self, claim: bool, run_after: Option<Timestamp>, queue: &QueueName, priority: i8) -> Submission {
        let created_at = self.clock.now();
        let terms = Terms {
            max_age: self.terms.max_age + run_after.map_or(Duration::ZERO, |at| at.since(created_at)),
            ..self.terms.clone()
        };
        let spec = Spec {
            id: TaskId::new(),
            task_type: "export_report".parse().unwrap_or_else(|_| unreachable!()),
            component: Some((1, self.component)),
            queue: queue.clone(),
            priority,
            dedup_key: None,
            dedup_scope: DedupScope::Record,
            creator: Some("bench".into()),
            request_id: None,
            trace: TraceParent::generate(),
            labels: Vec::new(),
            created_at,
            run_after,
            terms,
        };
        Submission {
            spec: Arc::new(spec),
            input: Some(r#"{"report":"monthly","month":"2030-01","format":"pdf","rows":[1,2,3,4,5,6,7,8]}"#.into()),
            refusal: None,
            claim: claim.then_some(self.node),
        }
    }

    fn finish(&self, task: TaskId) -> Finish {
        let now = self.clock.now();
        Finish {
            task,
            attempt: 1,
            ending: Ending::Succeeded,
            owed: None,
            result: Some(r#"{"url":"https://example.org/reports/1234567890.pdf"}"#.into()),
            cost: CostReceipt {
                wall_micros: 1_000,
                cpu_micros: 900,
                memory_bytes_peak: 65_536,
                host_calls: 3,
                ..CostReceipt::default()
            },
            scene: None,
            progress: None,
            entered_at: Some(now),
            heartbeat_at: None,
            told_at: None,
            seen_at: None,
            killed_at: None,
            gone_at: now,
        }
    }
}

fn open(dir: &Path) -> Outcome<Store> {
    Ok(Store::new(Sqlite::open(dir)?)?)
}

/// Born running, then finished: two durable writes for each life.
async fn lives(in_flight: usize, count: usize) -> Outcome<()> {
    let folder = folder()?;
    let (store, mould) = (open(folder.path())?, Mould::new()?);
    let left = Arc::new(AtomicI64::new(i64::try_from(count)?));
    let times = Arc::new(Mutex::new(Histogram::<u64>::new(3)?));
    let begun = Instant::now();
    let workers: Vec<_> = (0..in_flight)
        .map(|_| {
            let (store, mould, left, times) =
                (store.clone(), Arc::clone(&mould), Arc::clone(&left), Arc::clone(&times));
            tokio::spawn(async move {
                while left.fetch_sub(1, Ordering::Relaxed) > 0 {
                    let submission = mould.submission(true, None, &QueueName::default(), 0);
                    let start = Instant::now();
                    let born = store.write(move |tx| life::submit(tx, &submission)).await.map_err(|e| e.to_string())?;
                    let first = micros(start);
                    let Born::New { task, .. } = born else { return Err("not new".to_owned()) };
                    let finish = mould.finish(task.spec.id);
                    let (start, now) = (Instant::now(), mould.clock.now());
                    store.write(move |tx| life::finish(tx, &finish, now)).await.map_err(|e| e.to_string())?;
                    let mut times = times.lock().map_err(|e| e.to_string())?;
                    times.record(first).and_then(|()| times.record(micros(start))).map_err(|e| e.to_string())?;
                }
                Ok(())
            })
        })
        .collect();
    for worker in workers {
        worker.await??;
    }
    let rate = count as f64 / begun.elapsed().as_secs_f64();
    row(
        &format!("durable lives, {in_flight} in flight (times: of one write)"),
        Some(rate),
        &*times.lock().map_err(|e| e.to_string())?,
    );
    let (db, wal) = (size(folder.path(), "atropos.db")?, size(folder.path(), "atropos.db-wal")?);
    println!("    on disk: {} bytes a life; log: {} MiB", db / count as u64, wal >> 20);
    store.close();
    Ok(())
}

fn size(dir: &Path, file: &str) -> std::io::Result<u64> {
    std::fs::metadata(dir.join(file)).map(|meta| meta.len())
}

/// A store with many tasks that wait and many that have ended: what looking at it costs.
async fn crowd(pending: usize, ended: usize) -> Outcome<()> {
    let folder = folder()?;
    let (store, mould) = (open(folder.path())?, Mould::new()?);
    let begun = Instant::now();
    for _ in 0..ended.div_ceil(1_000) {
        let mould = Arc::clone(&mould);
        store.write(move |tx| (0..1_000).try_for_each(|n| ended_task(&mould, tx, n))).await?;
    }
    println!("    {ended} ended tasks: {:.0} a second", ended as f64 / begun.elapsed().as_secs_f64());
    let begun = Instant::now();
    for group in 0..pending.div_ceil(1_000) {
        let mould = Arc::clone(&mould);
        let insert = move |tx: &mut dyn Write| {
            for n in 0..1_000 {
                let queue: QueueName = ["default", "reports", "mail"][n % 3].parse().unwrap_or_default();
                let later = (group > 0).then(|| mould.clock.now() + Duration::from_hours(24));
                life::submit(tx, &mould.submission(false, later, &queue, i8::try_from(n % 5).unwrap_or(0)))?;
            }
            Ok(())
        };
        store.write(insert).await?;
    }
    println!("    {pending} pending tasks: {:.0} a second", pending as f64 / begun.elapsed().as_secs_f64());
    let claims = AtomicUsize::new(0);
    let mut times = Histogram::<u64>::new(3)?;
    for _ in 0..100 {
        let (mould, start) = (Arc::clone(&mould), Instant::now());
        let node = mould.node;
        let claim = move |tx: &mut dyn Write| life::claim(tx, node, 10, 0, mould.clock.now());
        claims.fetch_add(store.write(claim).await?.len(), Ordering::Relaxed);
        times.record(micros(start))?;
    }
    row(&format!("claim of 10 ({} claimed)", claims.into_inner()), None, &times);
    let mut times = Histogram::<u64>::new(3)?;
    for _ in 0..100 {
        let (now, start) = (mould.clock.now(), Instant::now());
        store.read(move |view| life::next_wake_at(view, now)).await?;
        times.record(micros(start))?;
    }
    row("next wake-up", None, &times);
    let mut times = Histogram::<u64>::new(3)?;
    for _ in 0..20 {
        let start = Instant::now();
        store.read(|view| view.queues()).await?;
        times.record(micros(start))?;
    }
    row("queues", None, &times);
    pages(&store).await?;
    store.close();
    let begun = Instant::now();
    drop(store);
    let store = open(folder.path())?;
    println!("    opened again in {:.1} ms", begun.elapsed().as_secs_f64() * 1000.0);
    store.close();
    Ok(())
}

fn ended_task(mould: &Mould, tx: &mut dyn Write, n: usize) -> Result<(), atropos::store::StoreError> {
    let submission = mould.submission(true, None, &QueueName::default(), 0);
    life::submit(tx, &submission)?;
    let mut finish = mould.finish(submission.spec.id);
    if n.is_multiple_of(100) {
        finish.result = None;
        finish.ending =
            Ending::Failed { class: atropos::task::FailureClass::Business, message: "no".into(), retry_after: None };
    }
    life::finish(tx, &finish, mould.clock.now()).map(drop)
}

async fn pages(store: &Store) -> Outcome<()> {
    let all = TaskFilter::default();
    let kinds = |kinds: &[Kind]| TaskFilter { kinds: kinds.to_vec(), ..TaskFilter::default() };
    let filters = [
        ("all", all.clone()),
        ("FAILED", kinds(&[Kind::Failed])),
        ("PENDING", kinds(&[Kind::Pending])),
        (
            "FAILED, TIMED_OUT of a type",
            TaskFilter { task_type: "export_report".parse().ok(), ..kinds(&[Kind::Failed, Kind::TimedOut]) },
        ),
        ("of a creator", TaskFilter { creator: Some("bench".into()), ..all.clone() }),
        ("REJECTED of a creator: none", TaskFilter { creator: Some("bench".into()), ..kinds(&[Kind::Rejected]) }),
        ("queue default", TaskFilter { queue: Some(QueueName::default()), ..all.clone() }),
        ("queue mail, SUCCESS: none", TaskFilter { queue: "mail".parse().ok(), ..kinds(&[Kind::Success]) }),
        ("created long ago: none", TaskFilter { created_to: Some(Timestamp::from_micros(1)), ..all }),
    ];
    for (name, filter) in filters {
        let mut times = Histogram::<u64>::new(3)?;
        for _ in 0..50 {
            let (filter, start) = (filter.clone(), Instant::now());
            store.read(move |view| view.tasks(&filter, None, 100)).await?;
            times.record(micros(start))?;
        }
        row(&format!("page of 100: {name}"), None, &times);
    }
    Ok(())
}
