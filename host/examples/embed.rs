//! Atropos inside another program: a host of one's own, a type, three tasks, one of them cancelled.
//!
//! `cargo run --example embed`

use std::time::Duration;

use atropos::host::{NewTask, NewType};
use atropos::task::{Ask, Kind, TermsDraft};
use atropos::{Config, Host};

const MINUTE: Duration = Duration::from_mins(1);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // Without a folder the host is a throw-away one; with `data_dir` everything is on disk.
    let host = Host::start(Config::default()).await?;

    for (name, component) in [
        ("hello", &include_bytes!("../../examples/hello.wasm")[..]),
        ("runaway", &include_bytes!("../../examples/runaway.wasm")[..]),
    ] {
        let component = host.push(component.to_vec(), "embed".into()).await?;
        let terms = TermsDraft { run_timeout: Some(MINUTE), ..TermsDraft::default() };
        let new =
            NewType { name: name.parse()?, component: component.digest, terms, input_schema: None, by: "embed".into() };
        host.put_type(new).await?;
    }

    let hello = NewTask::new("hello".parse()?, r#"{"name": "Ada"}"#);
    let ended = host.submit_and_wait(hello.clone(), MINUTE).await?;
    let result = host.result(ended.task.spec.id).await?;
    println!("hello: {}, {}", ended.task.state.kind().code(), result.map(|row| row.result).unwrap_or_default());

    // The same key again is the same task.
    let keyed = NewTask { dedup_key: Some("hello:ada".into()), ..hello };
    let first = host.submit(keyed.clone()).await?;
    let second = host.submit(keyed).await?;
    anyhow::ensure!(second.existing && second.task.spec.id == first.task.spec.id, "one key, one task");

    // It never looks at anything, and stops all the same.
    let runaway = host.submit(NewTask::new("runaway".parse()?, "{}")).await?.task.spec.id;
    let ask = Ask { by: "embed".into(), why: "it never ends".into() };
    host.cancel(runaway, ask, Some(Duration::from_millis(100))).await?;
    let ended = host.wait(runaway, MINUTE).await?;
    println!("runaway: {}", ended.task.state.kind().code());
    anyhow::ensure!(ended.task.state.kind() == Kind::Cancelled, "cancelled means stopped");

    host.shut_down().await?;
    Ok(())
}
