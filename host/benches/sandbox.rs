//! What starting, holding and stopping guests costs, printed as a table. `cargo bench --bench sandbox`

#![allow(clippy::unwrap_used, reason = "a benchmark that fails has nothing to say")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use atropos::component::{Artefacts, CompileLimits, Compiler, Folder};
use atropos::executor::protocol::{AttemptKey, Ended, Order, Report, Start};
use atropos::executor::{Executor, ExecutorConfig};
use atropos::id::{Digest, TaskId, TraceParent};
use atropos::task::{Ending, TermsDraft};
use atropos::time::SystemClock;
use hdrhistogram::Histogram;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

fn main() {
    println!("{:<58} {:>10} {:>10} {:>12}", "measure", "p50", "p99", "per second");
    start_run_drop();
    for spinners in [1, 8, 64] {
        stop(spinners);
    }
    suspended();
}

/// An executor with its reports.
struct Bed {
    executor: Executor,
    reports: UnboundedReceiver<Report>,
    folder: Folder,
    compiler: Arc<Compiler>,
    waiting: tokio::runtime::Runtime,
    _place: tempfile::TempDir,
}

impl Bed {
    fn new(slots: u32) -> Self {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path().join("components")).unwrap();
        let artefacts = Artefacts::open(place.path().join("cache"), slots, 1 << 30).unwrap();
        let compiler = Compiler::new(None, artefacts.clone(), folder.clone(), CompileLimits::default()).unwrap();
        let (sender, reports) = unbounded_channel();
        let config = ExecutorConfig { slots, memory_bytes_max: 64 << 30, ..ExecutorConfig::default() };
        let clock = Arc::new(SystemClock::default());
        let executor = Executor::start(config, artefacts, Some(Arc::clone(&compiler)), clock, sender).unwrap();
        let waiting = tokio::runtime::Builder::new_current_thread().build().unwrap();
        Self { executor, reports, folder, compiler, waiting, _place: place }
    }

    fn push(&self, name: &str) -> Digest {
        let path = format!("{}/../tests/guests/{name}.wat", env!("CARGO_MANIFEST_DIR"));
        let bytes = wat::parse_file(path).unwrap();
        self.waiting.block_on(self.compiler.check(bytes.clone())).unwrap();
        self.folder.put(&bytes).unwrap()
    }

    fn start(&self, component: Digest, like: &Like) -> AttemptKey {
        let key = AttemptKey { task: TaskId::new(), attempt: 1 };
        let Like { trace, limits } = like;
        self.executor.order(Order::Start(Box::new(Start {
            key,
            component,
            input: "null".into(),
            task_type: "bench".parse().unwrap(),
            trace: trace.clone(),
            creator: None,
            run_timeout: Duration::from_mins(10),
            fuel: None,
            core_dump: false,
            limits: limits.clone(),
            grants: Arc::default(),
        })));
        key
    }

    fn ended(&mut self) -> Ended {
        loop {
            match self.reports.blocking_recv().unwrap() {
                Report::Ended(ended) => return *ended,
                Report::Beat(_) | Report::Caught(_) => {}
            }
        }
    }

    fn entered(&mut self) {
        loop {
            match self.reports.blocking_recv().unwrap() {
                Report::Ended(ended) => panic!("{ended:?}"),
                Report::Beat(beat) if beat.entered_at.is_some() => return,
                Report::Beat(_) | Report::Caught(_) => {}
            }
        }
    }
}

/// What all attempts of a measure have in common.
struct Like {
    trace: TraceParent,
    limits: atropos::task::Limits,
}

impl Like {
    fn new() -> Self {
        let draft = TermsDraft { run_timeout: Some(Duration::from_mins(10)), ..TermsDraft::default() };
        Self { trace: TraceParent::generate(), limits: draft.resolve(Duration::ZERO).unwrap().limits }
    }
}

fn start_run_drop() {
    const ROUNDS: u32 = 200_000;
    let (mut bed, like) = (Bed::new(256), Like::new());
    let component = bed.push("ok");
    for _ in 0..1_000 {
        bed.start(component, &like);
        bed.ended();
    }
    let (mut alone, mut inside) = (histogram(), histogram());
    let begun = Instant::now();
    for _ in 0..ROUNDS / 10 {
        let asked = Instant::now();
        bed.start(component, &like);
        let ended = bed.ended();
        record(&mut alone, asked.elapsed());
        record(&mut inside, Duration::from_micros(ended.cost.wall_micros));
        assert_eq!(ended.ending, Ending::Succeeded);
    }
    row("tiny guest alone, order to report", &alone, Some(rate(ROUNDS / 10, begun)));
    row("  of that entry to end (whole microseconds)", &inside, None);
    for in_flight in [16, 64, 256] {
        let (mut cpu, begun) = (Duration::ZERO, Instant::now());
        for _ in 0..in_flight {
            bed.start(component, &like);
        }
        for round in 0..ROUNDS {
            cpu += Duration::from_micros(bed.ended().cost.cpu_micros);
            if round + in_flight < ROUNDS {
                bed.start(component, &like);
            }
        }
        let text =
            format!("tiny guest, {in_flight} in flight ({:.1} µs of processor each)", micros(cpu) / f64::from(ROUNDS));
        row(&text, &histogram(), Some(rate(ROUNDS, begun)));
    }
}

/// From the kill order to the report that the sandbox is gone, among spinners.
fn stop(spinners: usize) {
    const ROUNDS: usize = 500;
    let (mut bed, like) = (Bed::new(256), Like::new());
    let component = bed.push("spin");
    let mut keys = std::collections::VecDeque::new();
    for _ in 0..spinners {
        keys.push_back(bed.start(component, &like));
    }
    for _ in 0..spinners {
        bed.entered();
    }
    let mut latency = histogram();
    for _ in 0..ROUNDS {
        let key = keys.pop_front().unwrap();
        let asked = Instant::now();
        bed.executor.order(Order::Kill { key });
        assert_eq!(bed.ended().ending, Ending::Killed);
        record(&mut latency, asked.elapsed());
        keys.push_back(bed.start(component, &like));
        bed.entered();
    }
    row(&format!("stop of a spinner among {spinners}, kill order to report"), &latency, None);
    for key in &keys {
        bed.executor.order(Order::Kill { key: *key });
    }
    for _ in &keys {
        bed.ended();
    }
    assert_eq!(bed.executor.live(), 0);
}

/// What a guest costs that waits.
fn suspended() {
    const GUESTS: u32 = 2_000;
    let (mut bed, like) = (Bed::new(GUESTS), Like::new());
    let component = bed.push("sleep-forever");
    let before = resident_kib();
    let keys: Vec<_> = (0..GUESTS).map(|_| bed.start(component, &like)).collect();
    for _ in 0..GUESTS {
        bed.entered();
    }
    let each = (resident_kib() - before) / f64::from(GUESTS);
    println!("{:<58} {each:>6.1} KiB", format!("memory of a suspended tiny guest, {GUESTS} at once"));
    let begun = Instant::now();
    for key in &keys {
        bed.executor.order(Order::Kill { key: *key });
    }
    for _ in &keys {
        bed.ended();
    }
    println!("{:<58} {:>35.0}", "kills of suspended guests", rate(GUESTS, begun));
}

fn resident_kib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn histogram() -> Histogram<u64> {
    Histogram::new(3).unwrap()
}

fn record(histogram: &mut Histogram<u64>, span: Duration) {
    histogram.record(u64::try_from(span.as_nanos()).unwrap()).unwrap();
}

fn micros(span: Duration) -> f64 {
    span.as_secs_f64() * 1e6
}

fn rate(rounds: u32, begun: Instant) -> f64 {
    f64::from(rounds) / begun.elapsed().as_secs_f64()
}

fn row(name: &str, histogram: &Histogram<u64>, per_second: Option<f64>) {
    let at = |quantile| match histogram.len() {
        0 => String::new(),
        _ => format!("{:.1} µs", micros(Duration::from_nanos(histogram.value_at_quantile(quantile)))),
    };
    let rate = per_second.map_or(String::new(), |rate| format!("{rate:.0}"));
    println!("{name:<58} {:>10} {:>10} {rate:>12}", at(0.5), at(0.99));
}
