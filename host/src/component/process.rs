//! Starts the process that compiles, feeds it, watches it, and says what became of it.
//!
//! Must not know who waits for the outcome, or how many there are.

use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};

use super::child::{self, Answer, Order};
use super::error::ComponentError;

/// The command of the program that becomes such a process.
const COMMAND: &str = "compile-component";
/// More than the longest lists of imports and exports.
const ANSWER_BYTES_MAX: u64 = 4 << 20;
/// As much of what it said as helps.
const SAID_BYTES_MAX: usize = 2 << 10;
/// What Rust's own allocator says before it aborts; there is no other sign of it.
const OUT_OF_MEMORY: &str = "memory allocation of";

/// Why the watch over a process is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    Ended,
    /// The node goes down.
    Closing,
}

/// Runs one order to its end. Returns when nothing of the process is left. Whoever has the sender of `over` can end it sooner.
pub(super) fn run(
    program: &Path,
    order: &Order,
    bytes: &[u8],
    wall: Duration,
    signal: &Sender<Over>,
    over: &Receiver<Over>,
) -> Answer {
    let fault = |detail: String| ComponentError::HostFault { detail };
    let mut child = Command::new(program)
        .arg0("atropos")
        .arg(COMMAND)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| fault(format!("the compiler `{}` cannot be started: {error}", program.display())))?;
    let ended = attend(&mut child, order, bytes, wall, signal, over);
    let ended = ended.map_err(|error| fault(format!("the compiler cannot be waited for: {error}")))?;
    judge(&ended, order, wall)
}

/// How a process ended, and what it said before.
struct Ended {
    status: ExitStatus,
    /// Who did not let it end by itself.
    cut: Option<Cut>,
    answer: Vec<u8>,
    said: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    WallTime,
    Closing,
}

fn attend(
    child: &mut Child,
    order: &Order,
    bytes: &[u8],
    wall: Duration,
    signal: &Sender<Over>,
    over: &Receiver<Over>,
) -> io::Result<Ended> {
    let pid = Pid::from_child(child);
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    thread::scope(|scope| {
        scope.spawn(move || {
            // That it does not listen is seen from how it ends.
            let _ = stdin.map(|mut stdin| child::send(&mut stdin, order, bytes));
        });
        let answer = scope.spawn(move || stdout.map(answer_of).unwrap_or_default());
        let said = scope.spawn(move || stderr.map(tail_of).unwrap_or_default());
        scope.spawn(move || {
            // It stays a zombie, and its number its own, until it is collected below.
            while waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
                .is_err_and(|error| error == rustix::io::Errno::INTR)
            {}
            // Nobody watches any more: then it was cut.
            let _ = signal.send(Over::Ended);
        });
        let cut = match over.recv_timeout(wall) {
            Ok(Over::Ended) => None,
            Ok(Over::Closing) | Err(RecvTimeoutError::Disconnected) => Some(Cut::Closing),
            Err(RecvTimeoutError::Timeout) => Some(Cut::WallTime),
        };
        if cut.is_some() {
            child.kill()?;
        }
        let status = child.wait()?;
        let lost = |_| io::Error::other("a thread that reads its output panicked");
        Ok(Ended { status, cut, answer: answer.join().map_err(lost)?, said: said.join().map_err(lost)? })
    })
}

fn answer_of(mut from: impl Read) -> Vec<u8> {
    let mut answer = Vec::new();
    // What is cut short is no answer, and taken as none.
    let _ = from.by_ref().take(ANSWER_BYTES_MAX).read_to_end(&mut answer);
    answer
}

/// The last of what is said, however much that is.
fn tail_of(mut from: impl Read) -> String {
    let mut tail = Vec::new();
    let mut part = [0; 4 << 10];
    while let Ok(count @ 1..) = from.read(&mut part) {
        tail.extend_from_slice(&part[..count]);
        let surplus = tail.len().saturating_sub(SAID_BYTES_MAX);
        tail.drain(..surplus);
    }
    String::from_utf8_lossy(&tail).trim().to_owned()
}

fn judge(ended: &Ended, order: &Order, wall: Duration) -> Answer {
    let spent = |limit: &'static str, max: String| ComponentError::CompileLimit { limit: limit.into(), max };
    let seconds = |seconds: u64| format!("{seconds} s");
    match ended.cut {
        Some(Cut::WallTime) => return Err(spent("time", seconds(wall.as_secs()))),
        Some(Cut::Closing) => return Err(closing()),
        None => (),
    }
    if ended.status.success()
        && let Some(answer) = child::read_answer(&ended.answer)
    {
        return answer;
    }
    let signal = ended.status.signal().and_then(Signal::from_named_raw);
    let memory = || spent("memory", mebibytes(order.caps.address_space_bytes));
    let said = if ended.said.is_empty() { String::new() } else { format!(": {}", ended.said) };
    Err(match signal {
        Some(Signal::XCPU) => spent("processor time", seconds(order.caps.cpu_seconds)),
        Some(Signal::XFSZ) => spent("machine code", mebibytes(order.caps.file_bytes)),
        Some(Signal::ABORT) if ended.said.contains(OUT_OF_MEMORY) => memory(),
        // From outside: by the kernel for want of memory, or by a person.
        Some(Signal::KILL | Signal::TERM | Signal::INT | Signal::HUP | Signal::QUIT) => {
            ComponentError::HostFault { detail: format!("the compiler was killed from outside{said}") }
        }
        Some(_) => ComponentError::Invalid { detail: format!("the compiler failed on it ({}){said}", ended.status) },
        None => ComponentError::HostFault { detail: format!("the compiler gave no answer ({}){said}", ended.status) },
    })
}

pub(super) fn closing() -> ComponentError {
    ComponentError::HostFault { detail: "the node is closing".to_owned() }
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}
