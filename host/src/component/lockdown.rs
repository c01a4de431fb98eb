//! What a process that compiles gives up before it looks at a stranger's bytes.
//!
//! Must not know what is compiled.

use std::io;

use rustix::process::{Resource, setpriority_process};
use rustix::thread::set_no_new_privs;
use serde::{Deserialize, Serialize};

use crate::confine::{Calls, FORKS, Files, NEVER, Outcome, lower};

/// Everything else of the node goes first, guests included.
const NICE: i32 = 15;
/// Standard streams, the draft, and what opening them takes for a moment.
const FILES: u64 = 16;
/// Between being told that its time is over and the end of a process that does not care.
const CPU_MARGIN_SECONDS: u64 = 2;

/// How much a process may use.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Caps {
    pub(super) address_space_bytes: u64,
    pub(super) cpu_seconds: u64,
    pub(super) file_bytes: u64,
}

/// Limits what this process may use.
///
/// # Errors
/// The kernel refuses a limit, which it does only for one that is above what the process was given.
pub(super) fn limit(caps: &Caps) -> io::Result<()> {
    lower(Resource::As, caps.address_space_bytes, 0)?;
    lower(Resource::Cpu, caps.cpu_seconds, CPU_MARGIN_SECONDS)?;
    lower(Resource::Fsize, caps.file_bytes, 0)?;
    lower(Resource::Core, 0, 0)?;
    lower(Resource::Nofile, FILES, 0)?;
    set_no_new_privs(true)?;
    give_way()
}

/// Lowers the priority of the calling thread, and of a process that has but one.
///
/// # Errors
/// The kernel refuses.
pub(super) fn give_way() -> io::Result<()> {
    Ok(setpriority_process(None, NICE)?)
}

/// Gives up files, sockets, other processes and signals, as far as this kernel can hold a process to it. What is open
/// stays open.
pub(super) fn lock() -> Outcome {
    let files = Files { read: &[], written: &[], network: false }.keep_only();
    let calls = fewer_calls();
    files.and(calls)
}

fn fewer_calls() -> Outcome {
    let more = [libc::SYS_socket, libc::SYS_socketpair, libc::SYS_clone, libc::SYS_clone3];
    let calls = Calls::default().refuse(&NEVER).refuse(FORKS).refuse(&more);
    calls.refuse_signals_to_others()?.give_up(libc::EPERM)
}
