//! The executor as a process of its own: takes its node's orders from standard input, which is a socket, and answers there.
//!
//! Whatever happens here, the node lives on; and when the node is gone, this process is too.

mod lockdown;

use std::io::{self, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustix::process::{Signal, getpid, kill_process};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::black_box::BlackBox;
use super::in_process::{Executor, ExecutorConfig};
use super::protocol::{Beat, Order, Report};
use super::wire::{self, FromExecutor, FromNode, Lock, Setup};
use crate::component::Artefacts;
use crate::confine;
use crate::time::{Clock, SystemClock};

/// The word that makes the program an executor. Not for people: what it reads is no text.
pub const COMMAND: &str = "executor-process";

/// What is sent at one time is no more than this, but for a single large message.
const BATCH_BYTES: usize = 256 << 10;

/// Signs of life that wait to be sent are no more than this: a node that does not read for long misses some.
const BACKLOG_BYTES_MAX: usize = 16 << 20;

/// What is on its way to the node.
enum Outgoing {
    /// With what it counts for in the backlog.
    Report(Report, usize),
    Message(FromExecutor),
    /// Everything before this is to be sent; then the process is over.
    Last,
}

/// Serves a node until it is gone. Must be called before the program has any other thread.
///
/// # Errors
/// Standard input is no socket, or the node sends nonsense.
pub fn serve() -> io::Result<()> {
    let closed = lockdown::close_what_was_inherited();
    confine::leave_signals_to_the_node();
    // So that `ps` and `pgrep` find it.
    rustix::thread::set_name(c"atropos-exec")?;
    let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let black_box = BlackBox::open(io::stdout())?;
    let mut reader = BufReader::with_capacity(64 << 10, stream.try_clone()?);
    let mut buffer = Vec::new();
    let Some(FromNode::Setup(setup)) = wire::read(&mut reader, &mut buffer)? else {
        return Err(io::Error::other("this is for a node to start, not for people"));
    };
    let locks = lockdown::lock(&setup, closed);
    let (reports, taken) = unbounded_channel();
    let (outgoing, queue) = unbounded_channel();
    let executor = match start(&setup, black_box, reports) {
        Ok(executor) => executor,
        Err(error) => {
            let mut out = Vec::new();
            wire::write(&mut out, &FromExecutor::Unfit(crate::chain(&*error)));
            return (&stream).write_all(&out);
        }
    };
    let forward = outgoing.clone();
    let backlog = Arc::new(AtomicUsize::new(0));
    let sent = Arc::clone(&backlog);
    let sender = thread::Builder::new().name("atropos-send".to_owned()).spawn(move || send(&stream, queue, &sent))?;
    thread::Builder::new().name("atropos-forward".to_owned()).spawn(move || pass_on(taken, &forward, &backlog))?;
    say(&outgoing, FromExecutor::Ready(locks));
    loop {
        match wire::read(&mut reader, &mut buffer) {
            Ok(Some(FromNode::Close)) => break,
            Ok(Some(message)) => obey(&executor, message, &outgoing),
            // The node is gone. Nothing of this process has a right to go on, and nobody is there to be told.
            Ok(None) | Err(_) => vanish(),
        }
    }
    executor.close();
    // Nobody to send to is nobody to wait for.
    let _ = outgoing.send(Outgoing::Last);
    let _ = sender.join();
    Ok(())
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn start(setup: &Setup, black_box: BlackBox, reports: UnboundedSender<Report>) -> Result<Executor, Failure> {
    let config = ExecutorConfig {
        slots: setup.slots,
        guest_threads: setup.guest_threads,
        memory_bytes_max: setup.memory_bytes_max,
        dumps: setup.dumps.clone(),
        scratch: setup.scratch.clone(),
        nameservers: setup.nameservers.clone(),
        ..ExecutorConfig::default()
    };
    let artefacts = Artefacts::open(&setup.artefacts, setup.slots, u64::MAX)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    Ok(Executor::start_recorded(config, artefacts, None, clock, reports, Some(black_box))?)
}

fn obey(executor: &Executor, message: FromNode, outgoing: &UnboundedSender<Outgoing>) {
    match message {
        FromNode::Start(start) => match (*start).try_into() {
            Ok(start) => executor.order(Order::Start(Box::new(start))),
            // Both ends are the same program: what it sends is what it took.
            Err(error) => tracing::error!(%error, "an order could not be read"),
        },
        FromNode::Stop(key, stop) => executor.order(Order::Stop { key: key.into(), stop: stop.into() }),
        FromNode::Kill(key) => executor.order(Order::Kill { key: key.into() }),
        FromNode::Ping => say(outgoing, FromExecutor::Pong(executor.ledger().into())),
        // Given once, at the start; the loop sees to the end.
        FromNode::Setup(_) | FromNode::Close => {}
    }
}

fn say(outgoing: &UnboundedSender<Outgoing>, message: FromExecutor) {
    // The sender ends only when the node is gone, and then this process is over.
    let _ = outgoing.send(Outgoing::Message(message));
}

fn pass_on(mut taken: UnboundedReceiver<Report>, outgoing: &UnboundedSender<Outgoing>, backlog: &AtomicUsize) {
    while let Some(report) = taken.blocking_recv() {
        let bytes = weight(&report);
        // The next one says again when the guest was entered and what it has seen; lines that are missing are a gap.
        if bytes > 0 && backlog.load(Ordering::Relaxed) + bytes > BACKLOG_BYTES_MAX {
            continue;
        }
        backlog.fetch_add(bytes, Ordering::Relaxed);
        let _ = outgoing.send(Outgoing::Report(report, bytes));
    }
}

/// Nothing for what comes once for an attempt: that must arrive.
fn weight(report: &Report) -> usize {
    match report {
        Report::Beat(beat) => {
            size_of::<Beat>() + beat.log.iter().map(|line| size_of_val(line) + line.message.len()).sum::<usize>()
        }
        Report::Caught(_) | Report::Ended(_) => 0,
    }
}

/// Sends what is there in as few writes as it takes.
fn send(mut stream: &UnixStream, mut queue: UnboundedReceiver<Outgoing>, backlog: &AtomicUsize) {
    let mut batch = Vec::new();
    let mut next = queue.blocking_recv();
    while let Some(outgoing) = next {
        match outgoing {
            Outgoing::Report(report, bytes) => {
                wire::write(&mut batch, &FromExecutor::from(report));
                backlog.fetch_sub(bytes, Ordering::Relaxed);
            }
            Outgoing::Message(message) => wire::write(&mut batch, &message),
            Outgoing::Last => {
                // A node that is gone needs no last word.
                let _ = stream.write_all(&batch);
                return;
            }
        }
        next = queue.try_recv().ok();
        if next.is_none() || batch.len() >= BATCH_BYTES {
            if stream.write_all(&batch).is_err() {
                vanish();
            }
            batch.clear();
            next = next.or_else(|| queue.blocking_recv());
        }
    }
}

/// Ends this process at once, whatever its threads are doing.
fn vanish() -> ! {
    // There is no signal that could be refused less.
    let _ = kill_process(getpid(), Signal::KILL);
    std::process::abort()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::protocol::AttemptKey;
    use crate::id::TaskId;
    use crate::task::{LogLevel, LogLine};
    use crate::time::Timestamp;

    #[test]
    fn a_node_that_does_not_read_misses_signs_of_life_but_no_end() {
        const LINE_BYTES: usize = 1 << 20;
        let key = AttemptKey { task: TaskId::new(), attempt: 1 };
        let (reports, taken) = unbounded_channel();
        let (outgoing, mut queue) = unbounded_channel();
        for number in 0..2 * (BACKLOG_BYTES_MAX / LINE_BYTES) as u64 {
            let (at, message) = (Timestamp::from_micros(1), "x".repeat(LINE_BYTES));
            let log = vec![LogLine { number, at, level: LogLevel::Info, message }];
            let (entered_at, heartbeat_at, stop_seen_at, progress) = (None, None, None, None);
            let beat = Beat { key, entered_at, heartbeat_at, stop_seen_at, progress, log };
            reports.send(Report::Beat(Box::new(beat))).unwrap();
        }
        reports.send(Report::Caught(key)).unwrap();
        drop(reports);
        let backlog = AtomicUsize::new(0);
        pass_on(taken, &outgoing, &backlog);
        let (mut beats, mut caught) = (0, 0);
        while let Ok(Outgoing::Report(report, _)) = queue.try_recv() {
            match report {
                Report::Beat(_) => beats += 1,
                Report::Caught(_) | Report::Ended(_) => caught += 1,
            }
        }
        assert_eq!((beats, caught), (BACKLOG_BYTES_MAX / LINE_BYTES - 1, 1));
        assert!(backlog.into_inner() <= BACKLOG_BYTES_MAX);
    }
}
