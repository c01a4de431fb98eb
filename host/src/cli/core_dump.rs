//! `atropos core-dump`: fetches what an attempt left of its guest's memory.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use clap::Args;

use super::Shell;
use super::exit::{Complaint, Exit};
use super::human::bytes;
use crate::id::TaskId;

/// Fetch the core dump of an attempt that trapped or was killed
///
/// There is one if the terms of the task asked for it (`--core-dump`), until newer ones need its room. It holds all that
/// the guest's memory held: keep it as you keep secrets. Tools for WebAssembly core dumps open it.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  atropos core-dump ID -o crash.coredump\n  atropos core-dump ID --attempt 2 -o crash.coredump"
)]
pub struct CoreDump {
    id: TaskId,
    /// Of this attempt [default: the last that has one]
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
    /// Where it is written; what is there is kept
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

impl CoreDump {
    pub async fn run(self, shell: &Shell) -> anyhow::Result<Exit> {
        let client = shell.client()?;
        let attempt = if let Some(attempt) = self.attempt {
            attempt
        } else {
            let attempts = client.attempts(self.id).await?;
            let kept = attempts.iter().rev().find(|attempt| {
                let dump = attempt.scene.as_ref().and_then(|scene| scene.core_dump.as_ref());
                dump.is_some_and(|dump| dump.bytes.is_some())
            });
            // Without one, the server says best what is missing.
            kept.or(attempts.last()).map_or(1, |attempt| attempt.attempt)
        };
        let dump = client.core_dump(self.id, attempt).await?;
        write(&self.output, &dump).map_err(|error| unwritable(&self.output, &error))?;
        let size = bytes(dump.len() as u64);
        shell.print.say(format!("{size} of attempt {attempt} in `{}`", self.output.display()));
        Ok(Exit::Ok)
    }
}

/// For its owner only, as it was on the server.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(bytes)
}

fn unwritable(path: &Path, error: &io::Error) -> Complaint {
    let message = format!("cannot write `{}`: {error}", path.display());
    Complaint { exit: Exit::Usage, code: "file_unwritable", message, hint: Some("name another file with `-o`".into()) }
}
