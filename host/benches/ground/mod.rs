//! What the measures stand on: a node as people run it, and a table.

#![allow(clippy::cast_precision_loss, reason = "figures are printed to a few digits")]

use std::io::Write as _;
use std::time::{Duration, Instant};

use atropos::host::NewType;
use atropos::task::TermsDraft;
use atropos::{Config, Host};
use hdrhistogram::Histogram;

pub type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

pub const PATIENCE: Duration = Duration::from_mins(1);

pub fn row(name: &str, rate: Option<f64>, times: &Histogram<u64>) {
    let rate = rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}"));
    let time = |quantile| format!("{:.2} ms", times.value_at_quantile(quantile) as f64 / 1000.0);
    println!("{name:<64} {rate:>12} {:>12} {:>12}", time(0.5), time(0.99));
}

pub fn micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX).max(1)
}

/// The head of the table, and what the disk can do: every durable figure stands beside this.
pub fn fsync() -> Outcome<()> {
    println!("{:<64} {:>12} {:>12} {:>12}", "measure", "per second", "p50", "p99");
    let folder = tempfile::tempdir()?;
    let mut file = std::fs::File::create(folder.path().join("probe"))?;
    let mut times = Histogram::<u64>::new(3)?;
    for _ in 0..500 {
        file.write_all(&[7; 4096])?;
        let begun = Instant::now();
        file.sync_data()?;
        times.record(micros(begun))?;
    }
    row("the disk alone: fdatasync of 4 KiB", None, &times);
    Ok(())
}

/// A node on a disk, whose guests run in processes of the real program.
pub struct Bench {
    pub host: Host,
    _folder: tempfile::TempDir,
}

impl Bench {
    pub async fn start(slots: usize) -> Outcome<Self> {
        let folder = tempfile::tempdir()?;
        let config = Config {
            data_dir: Some(folder.path().to_owned()),
            slots,
            guest_memory_bytes_max: 8 << 30,
            program: Some(env!("CARGO_BIN_EXE_atropos").into()),
            ..Config::default()
        };
        let bench = Self { host: Host::start(config).await?, _folder: folder };
        for guest in ["ok", "spin"] {
            bench.put(guest, guest_bytes(guest)?, TermsDraft::default()).await?;
        }
        Ok(bench)
    }

    /// Registers a component as a type that may run for a minute.
    pub async fn put(&self, name: &str, bytes: Vec<u8>, terms: TermsDraft) -> Outcome<()> {
        let component = self.host.push(bytes, "bench".into()).await?.digest;
        let terms = TermsDraft { run_timeout: Some(PATIENCE), ..terms };
        let new = NewType { name: name.parse()?, component, terms, input_schema: None, by: "bench".into() };
        self.host.put_type(new).await?;
        Ok(())
    }

    pub async fn stop(self) -> Outcome<()> {
        self.host.shut_down_within(Duration::ZERO).await?;
        Ok(())
    }
}

/// A guest of the tests.
pub fn guest_bytes(name: &str) -> Outcome<Vec<u8>> {
    let text = std::fs::read(format!("{}/../tests/guests/{name}.wat", env!("CARGO_MANIFEST_DIR")))?;
    Ok(wat::parse_bytes(&text)?.into_owned())
}
