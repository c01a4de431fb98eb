//! `atropos serve`: a host with its API, until it is told to go down.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tracing_subscriber::EnvFilter;

use super::compile_component::this_program;
use super::exit::{Complaint, Exit};
use super::print::Ink;
use super::signals::Signals;
use super::values::{duration, size};
use super::{DEFAULT_ADDRESS, Shell};
use crate::api;
use crate::config::Config;
use crate::host::{self, Host, Shutdown};

/// Start a server: a host with its HTTP API
///
/// Prints one line on stdout once it is ready, and its log on stderr (filtered by ATROPOS_LOG, such as `atropos=debug`). On SIGTERM or
/// SIGINT it starts nothing more, tells every running task to stop, gives it its grace up to --shutdown-grace, writes every task, and ends;
/// a second signal cuts the grace to 0. Ends with 0 when every task was written.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  atropos serve
  atropos serve --data /var/lib/atropos --listen 127.0.0.1:0 --json
  ATROPOS_LOG=atropos=debug atropos serve --slots 16")]
pub struct Serve {
    /// Where the database and the components are kept
    #[arg(long, value_name = "FOLDER", env = "ATROPOS_DATA", default_value = "./atropos-data", hide_env_values = true)]
    data: PathBuf,
    /// Where to answer; only addresses of this machine are taken; port 0 takes any that is free
    #[arg(long, value_name = "ADDRESS", default_value = DEFAULT_ADDRESS, value_parser = address)]
    listen: SocketAddr,
    /// Attempts that run at one time [default: 64]
    #[arg(long, value_name = "N")]
    slots: Option<usize>,
    /// Processes in which guests run [default: one for each processor]
    #[arg(long, value_name = "N")]
    executors: Option<usize>,
    /// Threads that run guests [default: one for each processor]
    #[arg(long, value_name = "N")]
    guest_threads: Option<usize>,
    /// Memory of all guests together; each executor has an equal share [default: 1GiB for each, and 4GiB at least]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    guest_memory: Option<u64>,
    /// Size of one task's input [default: 256KiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_input: Option<u64>,
    /// Size of one component [default: 64MiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_component: Option<u64>,
    /// The most grace that any guest gets when the server goes down [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    shutdown_grace: Option<Duration>,
    /// Whom names are asked of that guests look up; may be given several times [default: as the machine is set up]
    #[arg(long, value_name = "ADDRESS:PORT")]
    nameserver: Vec<SocketAddr>,
}

/// An address with its port; `localhost` is this machine.
fn address(text: &str) -> Result<SocketAddr, String> {
    let text = text.strip_prefix("localhost:").map_or_else(|| text.to_owned(), |port| format!("127.0.0.1:{port}"));
    text.parse().map_err(|_| format!("expected an address with its port, such as `{DEFAULT_ADDRESS}`"))
}

impl Serve {
    pub async fn run(self, shell: &Shell) -> anyhow::Result<Exit> {
        let mut signals = Signals::listen()?;
        api::check_bind(self.listen).map_err(|error| Complaint::usage(error.to_string()))?;
        start_log(shell)?;
        let config = self.config();
        config.check().map_err(host::Error::from)?;
        let listener = listen(self.listen).await?;
        let address = listener.local_addr()?;
        // A start that has begun is ended by a shutdown, not broken off.
        let mut starting = tokio::spawn(Host::start(config));
        let (started, stopped_early) = tokio::select! {
            started = &mut starting => (started, None),
            signal = signals.next() => ((&mut starting).await, Some(signal)),
        };
        let host = started.context("the start was broken off")??;
        if let Some(signal) = stopped_early {
            tracing::info!(signal, "going down before the start was over");
            return Ok(ended(host.shut_down().await?));
        }
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(api::serve(host.clone(), listener, async {
            let _ = stopped.await;
        }));
        let url = format!("http://{address}");
        // That nobody reads it is no reason to end.
        let _ = if shell.print.json {
            shell.print.record(&serde_json::json!({ "url": url, "pid": std::process::id() }))
        } else {
            shell.print.line(format!("listening on {url}"))
        };
        tracing::info!(%url, data = %self.data.display(), "ready");
        let outcome = until_down(&host, &mut signals).await;
        // Reads are answered until every task is written.
        let _ = stop.send(());
        serving.await.context("the server broke")?.context("the server failed")?;
        Ok(ended(outcome?))
    }

    fn config(&self) -> Config {
        let defaults = Config::default();
        let executors = self.executors.unwrap_or(defaults.executors);
        let whole = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        Config {
            nameservers: self.nameserver.clone(),
            data_dir: Some(self.data.clone()),
            slots: self.slots.unwrap_or(defaults.slots),
            executors,
            guest_threads: self.guest_threads.unwrap_or(defaults.guest_threads),
            guest_memory_bytes_max: self.guest_memory.unwrap_or(Config::guest_memory_for(executors)),
            input_bytes_max: self.max_input.map_or(defaults.input_bytes_max, whole),
            component_bytes_max: self.max_component.map_or(defaults.component_bytes_max, whole),
            program: Some(this_program()),
            shutdown_grace_max: self.shutdown_grace.unwrap_or(defaults.shutdown_grace_max),
            ..defaults
        }
    }
}

async fn listen(address: SocketAddr) -> Result<TcpListener, Complaint> {
    TcpListener::bind(address).await.map_err(|error| Complaint {
        exit: Exit::Unavailable,
        code: "cannot_listen",
        message: format!("cannot listen on {address}: {error}"),
        hint: Some("is a server running there already? `--listen 127.0.0.1:0` takes a port that is free".into()),
    })
}

fn start_log(shell: &Shell) -> Result<(), Complaint> {
    let level = if shell.print.quiet { "warn" } else { "info" };
    let filter = match std::env::var("ATROPOS_LOG") {
        Ok(wanted) if !wanted.is_empty() => EnvFilter::try_new(&wanted)
            .map_err(|error| Complaint::usage(format!("ATROPOS_LOG is `{wanted}`: {error}")))?,
        _ => EnvFilter::new(level),
    };
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| Stderr).log_internal_errors(false);
    // A program that embeds this may have set a log up already; then that one is used.
    let _ = log.with_ansi(shell.print.err != Ink::OFF).try_init();
    Ok(())
}

/// Standard error, whose failures are nobody's concern: a reader of the log that has gone, or a full disk under it, must
/// not stop the node.
struct Stderr;

impl std::io::Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let _ = std::io::stderr().write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let _ = std::io::stderr().flush();
        Ok(())
    }
}

/// Waits for a signal, then for the end of every task. The next signal hurries it.
async fn until_down(host: &Host, signals: &mut Signals) -> Result<Shutdown, host::Error> {
    let signal = signals.next().await;
    tracing::info!(signal, grace = ?host.config().shutdown_grace_max, "going down; once more cuts the grace to 0");
    let shutdown = host.shut_down();
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            outcome = &mut shutdown => return outcome,
            signal = signals.next() => {
                tracing::warn!(signal, "hurrying: what still runs is killed");
                // If this fails the shutdown itself tells why.
                let _ = host.hurry().await;
            }
        }
    }
}

fn ended(outcome: Shutdown) -> Exit {
    match outcome {
        Shutdown::Clean => {
            tracing::info!("down; every task is written");
            Exit::Ok
        }
        Shutdown::Unfinished(left) => {
            tracing::error!(left, "down; attempts could not be ended in time, and are found again at the next start");
            Exit::Unavailable
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_port() {
        assert_eq!(address("localhost:0"), Ok(([127, 0, 0, 1], 0).into()));
        assert_eq!(address("[::1]:80").map(|at| at.port()), Ok(80));
        assert!(address("127.0.0.1").is_err());
    }
}
