//! `atropos doctor`: what this machine gives a node, and which locks are in force. Asked of a throw-away host.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use futures_util::FutureExt as _;
use serde::Serialize;

use super::Shell;
use super::compile_component::this_program;
use super::exit::Exit;
use super::human::{bytes, span};
use super::print::Tone;
use super::signals::Signals;
use super::table::{Cell, Table};
use crate::config::Config;
use crate::host::{Host, Lock};

/// Sandboxes take so many mappings of memory each.
const MAPPINGS_PER_SANDBOX: u64 = 5;
/// A commit waits for the disk as long as this at most, if all is well.
const SYNC_SLOW: Duration = Duration::from_millis(20);
const SYNCS: u32 = 20;

/// Look at this machine, and at how far executors are locked down on it
///
/// Starts an executor as `atropos serve` does, and asks it. Ends with 0 if nothing is missing, and with 6 otherwise.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  atropos doctor\n  atropos doctor --data /var/lib/atropos --json")]
pub struct Doctor {
    /// Where a node would keep its data: its disk is measured
    #[arg(long, value_name = "FOLDER", env = "ATROPOS_DATA", hide_env_values = true)]
    data: Option<PathBuf>,
}

/// One thing that was looked at.
#[derive(Serialize)]
struct Finding {
    name: String,
    good: bool,
    found: String,
}

impl Doctor {
    pub async fn run(self, shell: &Shell) -> anyhow::Result<Exit> {
        let mut signals = Signals::listen()?;
        let begun = Instant::now();
        let config =
            Config { slots: 1, guest_threads: 1, executors: 1, program: Some(this_program()), ..Config::default() };
        let host = Host::start(config).await?;
        let took = begun.elapsed();
        let locks: Vec<Lock> = host.node().executors.into_iter().flat_map(|executor| executor.locks).collect();
        host.shut_down().await?;
        if let Some(signal) = signals.next().now_or_never() {
            return Err(anyhow::anyhow!("ended by {signal}"));
        }
        let mut findings = vec![Finding { name: "an executor process starts".into(), good: true, found: span(took) }];
        findings.extend(locks.into_iter().map(of_lock));
        findings.extend(machine());
        let folder = self.data.filter(|data| data.is_dir()).unwrap_or_else(std::env::temp_dir);
        findings.push(disk(&folder)?);
        tell(shell, &findings)?;
        Ok(if findings.iter().all(|finding| finding.good) { Exit::Ok } else { Exit::Unavailable })
    }
}

fn of_lock(lock: Lock) -> Finding {
    let found = lock.failure.as_ref().map_or_else(|| "in force".to_owned(), |why| format!("not in force: {why}"));
    Finding { name: lock.name, good: lock.failure.is_none(), found }
}

/// What the kernel allows.
fn machine() -> Vec<Finding> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut findings = vec![Finding { name: "processors".into(), good: true, found: cores.to_string() }];
    let slots = Config::default().slots as u64;
    if let Some(mappings) = number_in("/proc/sys/vm/max_map_count") {
        let room = mappings / MAPPINGS_PER_SANDBOX;
        let found = format!("{mappings}, enough for about {room} sandboxes in one executor");
        findings.push(Finding { name: "mappings of memory (vm.max_map_count)".into(), good: room >= slots, found });
    }
    let descriptors = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    let found = descriptors.map_or_else(|| "no limit".to_owned(), |most| most.to_string());
    findings.push(Finding { name: "descriptors".into(), good: descriptors.is_none_or(|most| most >= 1_024), found });
    if let Some(free) = available_memory() {
        let found = format!("{} available", bytes(free));
        findings.push(Finding { name: "memory".into(), good: free >= 512 << 20, found });
    }
    findings
}

fn number_in(file: &str) -> Option<u64> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

fn available_memory() -> Option<u64> {
    let all = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = all.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
}

/// How long a write takes until it is on the disk: every commit waits that long.
fn disk(folder: &Path) -> std::io::Result<Finding> {
    use std::io::Write as _;
    let mut file = tempfile::tempfile_in(folder)?;
    let mut times = Vec::new();
    for _ in 0..SYNCS {
        file.write_all(&[0; 4096])?;
        let begun = Instant::now();
        file.sync_data()?;
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    let median = times[times.len() / 2];
    let found = format!("{} until a write of 4 KiB is on it", span(median));
    Ok(Finding { name: format!("disk of {}", folder.display()), good: median <= SYNC_SLOW, found })
}

fn tell(shell: &Shell, findings: &[Finding]) -> std::io::Result<()> {
    if shell.print.json {
        return shell.print.document(&crate::api::wire::Items { items: findings.iter().collect::<Vec<_>>() });
    }
    let mut table = Table::new(&["", "WHAT", "FOUND"]);
    for finding in findings {
        let mark = if finding.good { Cell::new(Tone::Good, "✓") } else { Cell::new(Tone::Warn, "!") };
        table.row([mark, finding.name.clone().into(), finding.found.clone().into()]);
    }
    shell.print.text(&table.text(shell.print.out))
}
