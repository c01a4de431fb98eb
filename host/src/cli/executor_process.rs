//! What a node starts to run guests in. Not for people.

use std::process::ExitCode;

use tracing_subscriber::EnvFilter;

use super::exit::Exit;
use crate::executor::process;
pub(super) use crate::executor::process::COMMAND;

pub(super) fn run() -> ExitCode {
    // Its node puts the time, and which executor it was, before each line.
    let filter = EnvFilter::try_from_env("ATROPOS_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).without_time();
    let _ = log.with_ansi(false).log_internal_errors(false).try_init();
    match process::serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            Exit::Usage.code().into()
        }
    }
}
