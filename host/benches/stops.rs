//! How long it takes from a cancel at the API, without grace, to the terminal state on disk: by what the guest is doing,
//! and by what else runs. `cargo bench --bench stops` prints the table.

mod ground;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use atropos::host::NewTask;
use atropos::id::TaskId;
use atropos::task::{Grants, Kind, TermsDraft};
use ground::{Bench, Outcome, fsync, guest_bytes, micros, row};
use hdrhistogram::Histogram;

const TIMES: usize = 300;
const GIB: u64 = 1 << 30;

/// What a guest does when it is cancelled: a name, the type, its input, and how often it is measured.
const GUESTS: [(&str, &str, &str, usize); 7] = [
    ("a spinner", "spin", "null", TIMES),
    ("a fill of 1 GiB", "fill-gib", "null", TIMES / 10),
    ("a start function that spins", "spin-start", "null", TIMES),
    ("a host call that waits", "sleep-forever", "null", TIMES),
    ("a flood of host calls", "check-flood", "null", TIMES),
    ("a TCP connect that is never answered", "reach", "tcp", TIMES),
    ("a file written without end", "reach", "file", TIMES),
];

fn main() -> Outcome<()> {
    // `cargo test --benches` only wants to know that it builds.
    if std::env::args().any(|arg| arg == "--test") {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        fsync()?;
        for spinners in [0, 64] {
            for (name, kind, input, times) in GUESTS {
                stops(spinners, name, kind, input, times).await?;
            }
        }
        third_ring().await
    })
}

/// A node with its API, and a server that answers nobody.
struct Ground {
    bench: Bench,
    url: String,
    http: reqwest::Client,
    mute: SocketAddr,
    _queue: (tokio::net::TcpListener, Vec<tokio::net::TcpStream>),
}

impl Ground {
    async fn new(spinners: usize) -> Outcome<Self> {
        let bench = Bench::start(128).await?;
        let (mute, queue) = mute_server().await?;
        for guest in ["spin-start", "sleep-forever", "check-flood"] {
            bench.put(guest, guest_bytes(guest)?, TermsDraft::default()).await?;
        }
        let gib = TermsDraft { memory_bytes_max: Some(GIB), ..TermsDraft::default() };
        bench.put("fill-gib", fill_of_a_gib()?, gib).await?;
        let reach = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/guests/built/reach.wasm"))?;
        let scratch = Some(atropos::task::Scratch { bytes: GIB, files: 10 });
        let grants = Grants { tcp: vec!["127.0.0.1:*".parse()?], scratch, ..Grants::default() };
        bench.put("reach", reach, TermsDraft { grants: Arc::new(grants), ..TermsDraft::default() }).await?;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/v1/tasks", listener.local_addr()?);
        tokio::spawn(atropos::api::serve(bench.host.clone(), listener, std::future::pending()));
        let ground = Self { bench, url, http: reqwest::Client::new(), mute, _queue: queue };
        for _ in 0..spinners {
            ground.start("spin", "null").await?;
        }
        Ok(ground)
    }

    /// Starts a guest, and waits until it is in its code.
    async fn start(&self, kind: &str, input: &str) -> Outcome<TaskId> {
        let input = match input {
            "tcp" => format!("\"tcp {} x\"", self.mute),
            "file" => "\"forever f\"".to_owned(),
            other => other.to_owned(),
        };
        let id = self.bench.host.submit(NewTask::new(kind.parse()?, input)).await?.task.spec.id;
        while self.bench.host.show(id).await?.live.and_then(|live| live.entered_at).is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // So that it is at what it does, and not at the same point each time.
        tokio::time::sleep(Duration::from_micros(500 + 37 * u64::from(id.as_bytes()[15]))).await;
        Ok(id)
    }

    /// Cancels over HTTP, and waits over HTTP until the end is on disk.
    async fn cancel(&self, id: TaskId) -> Outcome<u64> {
        let begun = Instant::now();
        let cancel = self.http.post(format!("{}/{id}/cancel", self.url));
        cancel.json(&serde_json::json!({ "grace": "0s" })).send().await?.error_for_status()?;
        self.http.get(format!("{}/{id}?wait=60s", self.url)).send().await?.error_for_status()?;
        let took = micros(begun);
        let task = self.bench.host.show(id).await?.task;
        if task.state.kind() != Kind::Cancelled {
            return Err(format!("{:?}", task.state).into());
        }
        Ok(took)
    }
}

async fn stops(spinners: usize, name: &str, kind: &str, input: &str, count: usize) -> Outcome<()> {
    let ground = Ground::new(spinners).await?;
    let mut times = Histogram::<u64>::new(3)?;
    for _ in 0..count {
        let id = ground.start(kind, input).await?;
        times.record(ground.cancel(id).await?)?;
    }
    row(&format!("cancel to the end on disk: {name}, other spinners: {spinners}"), None, &times);
    ground.bench.stop().await
}

/// What only the death of its process ends: here the process hangs.
async fn third_ring() -> Outcome<()> {
    let (mut stopped, mut back) = (Histogram::<u64>::new(3)?, Histogram::<u64>::new(3)?);
    let ground = Ground::new(0).await?;
    for _ in 0..10 {
        let id = ground.start("spin", "null").await?;
        let busy = ground.bench.host.node().executors.into_iter().find(|executor| executor.attempts > 0);
        let pid = busy.and_then(|executor| executor.pid).ok_or("no executor has it")?;
        let process = rustix::process::Pid::from_raw(i32::try_from(pid)?).ok_or("no process")?;
        rustix::process::kill_process(process, rustix::process::Signal::STOP)?;
        stopped.record(ground.cancel(id).await?)?;
        let begun = Instant::now();
        while !ground.bench.host.node().executors.iter().all(|executor| executor.ready) {
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        back.record(micros(begun))?;
    }
    row("ring 3: cancel to the end on disk, executor hangs", None, &stopped);
    row("ring 3: from that end until a new executor is ready", None, &back);
    ground.bench.stop().await?;

    Ok(())
}

/// A listener whose queue is full: whoever connects now waits for ever.
async fn mute_server() -> Outcome<(SocketAddr, (tokio::net::TcpListener, Vec<tokio::net::TcpStream>))> {
    let socket = tokio::net::TcpSocket::new_v4()?;
    socket.bind("127.0.0.1:0".parse()?)?;
    let listener = socket.listen(1)?;
    let address = listener.local_addr()?;
    let mut queue = Vec::new();
    while let Ok(Ok(stream)) =
        tokio::time::timeout(Duration::from_millis(200), tokio::net::TcpStream::connect(address)).await
    {
        queue.push(stream);
    }
    Ok((address, (listener, queue)))
}

/// The guest `fill` with 16 times the memory.
fn fill_of_a_gib() -> Outcome<Vec<u8>> {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/guests/fill.wat"))?;
    let text = text.replace("(memory (export \"memory\") 1024)", "(memory (export \"memory\") 16384)");
    Ok(wat::parse_str(text.replace("0x4000000", "0x40000000"))?)
}
