//! Measures of the whole node, on a real disk: durable lives, submissions over HTTP, claims. Guests run in executor processes.
//! `cargo bench --bench lives` prints the table; every figure beside what the machine itself can do.

#![allow(clippy::cast_precision_loss, reason = "figures are printed to a few digits")]

mod ground;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use atropos::host::NewTask;
use atropos::task::{Ask, Kind};
use ground::{Bench, Outcome, PATIENCE, fsync, micros, row};
use hdrhistogram::Histogram;

fn main() -> Outcome<()> {
    // `cargo test --benches` only wants to know that it builds.
    if std::env::args().any(|arg| arg == "--test") {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        fsync()?;
        lives(1, 500).await?;
        lives(1_000, 60_000).await?;
        for clients in [1, 8, 64] {
            submissions(clients, 1, 4_000 * clients.min(8)).await?;
        }
        submissions(8, 100, 60_000).await?;
        claims(2_000).await?;
        Ok(())
    })
}

/// Submit → SUCCESS on disk, with so many in flight.
async fn lives(in_flight: usize, count: usize) -> Outcome<()> {
    let bench = Bench::start(in_flight.min(1_000)).await?;
    let (left, times) = (Arc::new(AtomicUsize::new(count)), Arc::new(std::sync::Mutex::new(Histogram::<u64>::new(3)?)));
    let begun = Instant::now();
    let workers: Vec<_> = (0..in_flight)
        .map(|_| {
            let (host, left, times) = (bench.host.clone(), Arc::clone(&left), Arc::clone(&times));
            tokio::spawn(async move {
                while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok() {
                    let begun = Instant::now();
                    let new = NewTask::new("ok".parse().map_err(|e| format!("{e}"))?, "null");
                    let view = host.submit_and_wait(new, PATIENCE).await.map_err(|e| format!("{e}"))?;
                    if view.task.state.kind() != Kind::Success {
                        return Err(format!("{:?}", view.task.state));
                    }
                    times.lock().map_err(|e| e.to_string())?.record(micros(begun)).map_err(|e| e.to_string())?;
                }
                Ok::<(), String>(())
            })
        })
        .collect();
    for worker in workers {
        worker.await??;
    }
    let rate = count as f64 / begun.elapsed().as_secs_f64();
    let name = match in_flight {
        1 => "one task alone, submit to SUCCESS".to_owned(),
        _ => format!("durable lives, {in_flight} in flight"),
    };
    row(&name, Some(rate), &*times.lock().map_err(|e| e.to_string())?);
    bench.stop().await
}

/// Acknowledged durable submissions over HTTP, into a paused queue: what the front door takes.
async fn submissions(clients: usize, each: usize, count: usize) -> Outcome<()> {
    let bench = Bench::start(64).await?;
    let ask = Ask { by: "bench".into(), why: "measuring submissions alone".into() };
    bench.host.pause("default".parse()?, None, ask).await?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/v1/tasks", listener.local_addr()?);
    let server = tokio::spawn(atropos::api::serve(bench.host.clone(), listener, std::future::pending()));
    let times = Arc::new(std::sync::Mutex::new(Histogram::<u64>::new(3)?));
    let body = if each == 1 { task_json() } else { format!("[{}]", vec![task_json(); each].join(",")) };
    let requests = count / each / clients;
    let begun = Instant::now();
    let workers: Vec<_> = (0..clients)
        .map(|_| {
            let (url, body, times) = (url.clone(), body.clone(), Arc::clone(&times));
            tokio::spawn(async move {
                let http = reqwest::Client::new();
                for _ in 0..requests {
                    let begun = Instant::now();
                    let request = http.post(&url).header("content-type", "application/json").body(body.clone());
                    let response = request.send().await.map_err(|e| e.to_string())?;
                    let ok = response.status().is_success();
                    let text = response.text().await.map_err(|e| e.to_string())?;
                    if !ok {
                        return Err(text);
                    }
                    times.lock().map_err(|e| e.to_string())?.record(micros(begun)).map_err(|e| e.to_string())?;
                }
                Ok::<(), String>(())
            })
        })
        .collect();
    for worker in workers {
        worker.await??;
    }
    let rate = (requests * each * clients) as f64 / begun.elapsed().as_secs_f64();
    let name = match each {
        1 => format!("durable submissions over HTTP, clients: {clients}"),
        _ => format!("durable submissions over HTTP, arrays of {each}, clients: {clients}"),
    };
    row(&name, Some(rate), &*times.lock().map_err(|e| e.to_string())?);
    server.abort();
    bench.stop().await
}

fn task_json() -> String {
    r#"{"type":"ok","input":null}"#.to_owned()
}

/// Submit → guest entered, on an idle node: the claim is in the same commit.
async fn claims(count: usize) -> Outcome<()> {
    let bench = Bench::start(64).await?;
    let mut times = Histogram::<u64>::new(3)?;
    for _ in 0..count {
        let view = bench.host.submit_and_wait(NewTask::new("ok".parse()?, "null"), PATIENCE).await?;
        let attempts = bench.host.attempts(view.task.spec.id).await?;
        let Some(atropos::host::AttemptView::Over(attempt)) = attempts.first() else { return Err("no attempt".into()) };
        let entered = attempt.entered_at.ok_or("never entered")?;
        let waited = entered.since(view.task.spec.created_at).as_micros();
        times.record(u64::try_from(waited)?.max(1))?;
    }
    row("claim: submitted to guest entered, idle", None, &times);
    bench.stop().await
}
