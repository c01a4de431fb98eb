//! What an executor process gives up before it runs anything of a stranger: rights that no guest has, and that a guest
//! which broke out would not have either.
//!
//! Each lock is tried by itself; what the kernel does not allow is reported, and is not fatal.

use std::io;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getpid};
use rustix::thread::set_no_new_privs;
use seccompiler::{BackendError, SeccompCmpOp};

use super::{Lock, Setup};
use crate::confine::{self, Argument, Calls, FORKS, Files, NEVER, Outcome, die_with, lower, own_pid};

/// Descriptors: sockets and files of guests, and a few of its own.
const DESCRIPTORS_MAX: u64 = 16_384;
/// What standard libraries and name look-ups read. Nothing of it is secret.
const READABLE: [&str; 9] = [
    "/etc/hosts",
    "/etc/resolv.conf",
    "/etc/ssl",
    "/etc/pki",
    "/etc/ca-certificates",
    "/usr/lib/ssl",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
    "/sys/devices/system/cpu",
];

/// Commands of fcntl and ioctl, as the kernel has them on every machine that this is built for.
const F_SETOWN: u32 = 8;
const F_SETSIG: u32 = 10;
const F_SETOWN_EX: u32 = 15;
const FIOSETOWN: u32 = 0x8901;
const SIOCSPGRP: u32 = 0x8902;

/// Closes what whoever started the node had left open. Must be called before anything else is opened.
pub(super) fn close_what_was_inherited() -> io::Result<()> {
    const STDERR: u32 = 2;
    // SAFETY: nothing of this process has opened a descriptor yet but the three standard ones, which stay: no object of Rust
    // owns what is closed.
    let done = unsafe { libc::close_range(STDERR + 1, u32::MAX, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Locks what can be locked. Must be called while the process has one thread: later ones inherit it.
pub(super) fn lock(setup: &Setup, closed: io::Result<()>) -> Vec<Lock> {
    let locks: [(&str, Outcome); 9] = [
        ("no descriptors but its own", closed.map_err(Into::into)),
        ("dies with its node", die_with(setup.node_pid.cast_signed()).map_err(Into::into)),
        ("first to go when memory is short", first_to_go()),
        // One would hold what guests hold.
        ("no core files", lower(Resource::Core, 0, 0).map_err(Into::into)),
        ("bounded descriptors", lower(Resource::Nofile, DESCRIPTORS_MAX, 0).map_err(Into::into)),
        ("no capabilities of an administrator", confine::drop_capabilities().map_err(Into::into)),
        ("no new privileges", set_no_new_privs(true).map_err(Into::into)),
        ("no files but its own (landlock)", own_files_only(setup)),
        ("no system calls that it does not need (seccomp)", fewer_calls()),
    ];
    let failure = |outcome: Outcome| outcome.err().map(|error| crate::chain(&*error));
    locks.map(|(name, outcome)| Lock { name: name.to_owned(), failure: failure(outcome) }).into()
}

/// The kernel kills what has the highest score when it runs out of memory: rather this process than its node.
fn first_to_go() -> Outcome {
    Ok(std::fs::write("/proc/self/oom_score_adj", "800")?)
}

fn own_files_only(setup: &Setup) -> Outcome {
    let own = PathBuf::from(format!("/proc/{}", getpid().as_raw_nonzero()));
    let certificates = ["SSL_CERT_FILE", "SSL_CERT_DIR"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    let certificates: Vec<PathBuf> = certificates.collect();
    let written: Vec<&Path> = setup.dumps.iter().chain(&setup.scratch).map(PathBuf::as_path).collect();
    let read: Vec<&Path> = READABLE
        .iter()
        .map(Path::new)
        .chain(certificates.iter().map(PathBuf::as_path))
        .chain([setup.artefacts.as_path(), &own])
        .filter(|path| path.exists())
        .collect();
    Files { read: &read, written: &written, network: true }.keep_only()
}

/// Starting programs, looking into other processes, and changing the machine are refused.
fn fewer_calls() -> Outcome {
    let calls = Calls::default().refuse(&NEVER).refuse(FORKS).refuse_signals_to_others()?;
    let is_not = |domain: i32| -> Argument { (0, SeccompCmpOp::Ne, domain.unsigned_abs()) };
    let calls = calls.refuse_if(libc::SYS_socket, &[&[is_not(libc::AF_INET), is_not(libc::AF_INET6)]])?;
    refuse_ways_to_others(calls)?.give_up(libc::EPERM)?;
    // Its flags lie in memory, where no filter can look: without it, threads are made by `clone`, whose flags can be seen.
    Calls::default().refuse(&[libc::SYS_clone3]).give_up(libc::ENOSYS)?;
    let thread = libc::CLONE_THREAD.unsigned_abs();
    let is_none: Argument = (0, SeccompCmpOp::MaskedEq(thread.into()), 0);
    Calls::default().refuse_if(libc::SYS_clone, &[&[is_none]])?.give_up(libc::EPERM)
}

/// Limits of other processes, and who is signalled when there is something to read: all of one user's processes may do that
/// to each other, and the node is one.
fn refuse_ways_to_others(calls: Calls) -> Result<Calls, BackendError> {
    let command = |value: u32| -> [Argument; 1] { [(1, SeccompCmpOp::Eq, value)] };
    let (owner, signal, owner_too) = (command(F_SETOWN), command(F_SETSIG), command(F_SETOWN_EX));
    let (reader, group) = (command(FIOSETOWN), command(SIOCSPGRP));
    let other: [Argument; 2] = [(0, SeccompCmpOp::Ne, own_pid()), (0, SeccompCmpOp::Ne, 0)];
    calls
        .refuse_if(libc::SYS_prlimit64, &[&other])?
        .refuse_if(libc::SYS_fcntl, &[&owner, &signal, &owner_too])?
        .refuse_if(libc::SYS_ioctl, &[&reader, &group])
}
