//! Starts one executor process: what it is given, and nothing else.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::executor::black_box::BlackBox;
use crate::executor::process::COMMAND;

/// What of the node's environment an executor gets: how to log, and which certificates to trust.
const ENVIRONMENT: [&str; 5] = ["ATROPOS_LOG", "RUST_BACKTRACE", "SSL_CERT_FILE", "SSL_CERT_DIR", "TZ"];

/// A process that was just started.
pub(super) struct Launched {
    pub(super) child: Child,
    /// Survives a reuse of the number of the process.
    pub(super) handle: OwnedFd,
    pub(super) stream: UnixStream,
    /// What it says on its standard error. A socket, because our end of it can be closed whoever holds the other.
    pub(super) words: UnixStream,
    pub(super) black_box: BlackBox,
}

/// Must be called from a thread that outlives the process: the process is killed when that thread ends.
pub(super) fn launch(program: &Path) -> io::Result<Launched> {
    let (ours, theirs) = UnixStream::pair()?;
    let (black_box, memory) = BlackBox::create()?;
    let (words, said) = UnixStream::pair()?;
    let mut command = Command::new(program);
    command
        .arg0("atropos")
        .arg(COMMAND)
        .env_clear()
        .envs(std::env::vars_os().filter(|(name, _)| ENVIRONMENT.iter().any(|known| name == known)))
        .current_dir("/")
        .stdin(OwnedFd::from(theirs))
        .stdout(memory)
        .stderr(Stdio::from(OwnedFd::from(said)));
    let mut child = command.spawn()?;
    // The command holds copies of the child's ends; with them gone, the child's death ends our reading.
    drop(command);
    match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
        Ok(handle) => Ok(Launched { child, handle, stream: ours, words, black_box }),
        Err(error) => {
            // A process that nobody could kill must not be.
            let _ = child.kill();
            let _ = child.wait();
            Err(error.into())
        }
    }
}
