//! Keeps one executor process alive: starts it, hears it, and when it dies says what became of its attempts, and starts
//! the next.

use std::fmt::Write as _;
use std::fs::DirBuilder;
use std::io::{self, BufReader, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitStatus;
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, pidfd_send_signal, waitpid};

use super::launch::{self, Launched};
use super::prepare::prepare;
use super::words::{self, LastWords};
use super::{Shared, State};
use crate::executor::executors::ExecutorView;
use crate::executor::protocol::{AttemptKey, Beat, Ended, Report};
use crate::executor::wire::{self, FromExecutor, FromNode, Lock, Setup};
use crate::sandbox::{Counts, remove_scratch_of};
use crate::task::{Ending, Loss};

/// A process that lived for less than this failed to start, and the next one has to wait.
const HEALTHY: Duration = Duration::from_millis(250);
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// One place in the fleet, and the process that has it.
#[derive(Default)]
pub(super) struct Member {
    process: Option<Process>,
    starts: u64,
    /// Why the last process could not begin.
    pub(super) unfit: Option<String>,
    pub(super) counts: Counts,
    locks: Vec<Lock>,
}

struct Process {
    pid: u32,
    handle: OwnedFd,
    ready: bool,
    outbox: Vec<u8>,
    /// Why it is being killed, and for whose sake.
    doom: Option<(String, Option<AttemptKey>)>,
    last_words: LastWords,
    /// Pings that were not answered yet; before it is ready, looks at it that found it so.
    unanswered: u32,
    over: bool,
}

impl Member {
    /// It said something that may be why it dies.
    pub(super) fn says(&mut self, line: String) {
        if let Some(process) = &mut self.process {
            process.last_words.push(line);
        }
    }

    /// Whether it takes attempts.
    pub(super) fn is_ready(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.ready && process.doom.is_none() && !process.over)
    }

    /// Whether there is a process.
    pub(super) fn is_up(&self) -> bool {
        self.process.is_some()
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(|process| process.pid)
    }

    /// Where messages to it are put.
    pub(super) fn outbox(&mut self) -> Option<&mut Vec<u8>> {
        self.process.as_mut().map(|process| &mut process.outbox)
    }

    /// Whether there is a process that has not become ready yet.
    pub(super) fn is_starting(&self) -> bool {
        self.process.as_ref().is_some_and(|process| !process.ready)
    }

    /// Counts a look at the process; gives at how many before it was silent.
    pub(super) fn look(&mut self) -> u32 {
        self.process.as_mut().map_or(0, |process| {
            process.unanswered += 1;
            process.unanswered - 1
        })
    }

    /// Kills its process. The first reason stands.
    pub(super) fn doom(&mut self, why: String, culprit: Option<AttemptKey>) {
        let Some(process) = &mut self.process else { return };
        if process.doom.is_none() {
            process.doom = Some((why, culprit));
        }
        // Fails only if it is dead already.
        let _ = pidfd_send_signal(&process.handle, Signal::KILL);
    }

    pub(super) fn view(&self, number: usize, attempts: usize) -> ExecutorView {
        ExecutorView {
            number,
            pid: self.pid(),
            ready: self.is_ready(),
            starts: self.starts,
            attempts,
            locks: self.locks.clone(),
        }
    }
}

/// Until the fleet closes, there is a process.
pub(super) fn keep(shared: &Arc<Shared>, number: usize) {
    let mut pause = Pause::default();
    loop {
        let begun = Instant::now();
        make_folders(shared);
        let launched = launch::launch(&shared.config.program);
        let is_launched = launched.is_ok();
        match launched {
            Ok(launched) => {
                if catch_unwind(AssertUnwindSafe(|| attend(shared, number, launched))).is_err() {
                    give_up(shared, number);
                }
            }
            Err(error) => {
                tracing::error!(executor = number, %error, "an executor process could not be started");
                shared.lock().members[number].unfit = Some(error.to_string());
            }
        }
        shared.changed.notify_all();
        let pause = pause.after(is_launched.then(|| begun.elapsed()));
        let state = shared.lock();
        let wait = shared.changed.wait_timeout_while(state, pause, |state| !state.closing);
        if wait.unwrap_or_else(PoisonError::into_inner).0.closing {
            return;
        }
    }
}

/// Executors cannot make the folders that they need: should one be gone, it is made again.
fn make_folders(shared: &Shared) {
    let each = &shared.config.each;
    let own = Some(shared.config.artefacts.path().to_owned());
    for folder in [&own, &each.dumps, &each.scratch].into_iter().flatten() {
        if let Err(error) = DirBuilder::new().recursive(true).mode(0o700).create(folder) {
            tracing::error!(folder = %folder.display(), %error, "a folder that executors need cannot be made");
        }
    }
}

/// A panic has left a process without a keeper: it ends, and its attempts are told of, as with any other.
fn give_up(shared: &Shared, number: usize) {
    let pid = {
        let mut state = shared.lock();
        let member = &mut state.members[number];
        member.doom("its keeper has panicked".to_owned(), None);
        member.pid()
    };
    if let Some(pid) = pid.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw) {
        // Fails if it was waited for before the panic: then it is gone as well.
        let _ = waitpid(Some(pid), WaitOptions::empty());
    }
    mourn(shared, number, "", &[]);
}

/// How long the next process has to wait for its start.
#[derive(Default)]
struct Pause {
    failures: u32,
}

impl Pause {
    /// `lived`: how long the last one did, if it could be started at all. The first that dies is followed at once.
    fn after(&mut self, lived: Option<Duration>) -> Duration {
        match lived {
            Some(lived) if lived >= HEALTHY => self.failures = 0,
            Some(_) | None => self.failures = self.failures.saturating_add(1),
        }
        let doubled = PAUSE_MIN.saturating_mul(2_u32.saturating_pow(self.failures)).min(PAUSE_MAX);
        if self.failures == 0 || lived.is_some() && self.failures == 1 { Duration::ZERO } else { doubled }
    }
}

/// The whole life of one process.
fn attend(shared: &Arc<Shared>, number: usize, launched: Launched) {
    let Launched { mut child, handle, stream, words, black_box } = launched;
    let pid = child.id();
    {
        let mut state = shared.lock();
        let closing = state.closing;
        let member = &mut state.members[number];
        member.starts += 1;
        member.process = Some(Process {
            pid,
            handle,
            ready: false,
            outbox: Vec::new(),
            doom: None,
            last_words: LastWords::default(),
            unanswered: 0,
            over: false,
        });
        if closing {
            member.doom("the node is closing".to_owned(), None);
        }
        shared.send(&mut state, number, &FromNode::Setup(setup(shared)));
    }
    let status = thread::scope(|scope| {
        let spawn = |name: &str| thread::Builder::new().name(format!("atropos-{name}-{number}"));
        let threads = spawn("send")
            .spawn_scoped(scope, || send(shared, number, &stream))
            .and_then(|_| spawn("hear").spawn_scoped(scope, || hear(shared, number, &stream)))
            .and_then(|_| spawn("listen").spawn_scoped(scope, || words::listen(shared, number, &words)));
        if let Err(error) = threads {
            // A process that nobody hears must not be: what it was given would never end.
            shared.lock().members[number].doom(format!("the node has no thread to hear it: {error}"), None);
        }
        let status = child.wait();
        shared.lock().members[number].set_over();
        shared.to_send[number].notify_all();
        // What it has sent and said can still be read, and then both end here, whoever else holds the other ends. Fails if
        // nobody does.
        let _ = stream.shutdown(Shutdown::Both);
        let _ = words.shutdown(Shutdown::Both);
        status
    });
    mourn(shared, number, &how(&status), &black_box.running());
}

fn setup(shared: &Shared) -> Setup {
    let each = &shared.config.each;
    Setup {
        slots: each.slots,
        guest_threads: each.guest_threads,
        memory_bytes_max: each.memory_bytes_max,
        artefacts: shared.config.artefacts.path().to_owned(),
        dumps: each.dumps.clone(),
        scratch: each.scratch.clone(),
        nameservers: each.nameservers.clone(),
        node_pid: std::process::id(),
    }
}

impl Member {
    fn set_over(&mut self) {
        if let Some(process) = &mut self.process {
            process.over = true;
        }
    }
}

/// Sends what is put into the outbox, until the process is over.
fn send(shared: &Shared, number: usize, mut stream: &UnixStream) {
    let mut batch = Vec::new();
    loop {
        {
            let state = shared.lock();
            let idle = |state: &mut State| {
                let process = state.members[number].process.as_ref();
                process.is_some_and(|process| process.outbox.is_empty() && !process.over)
            };
            let mut state = shared.to_send[number].wait_while(state, idle).unwrap_or_else(PoisonError::into_inner);
            match &mut state.members[number].process {
                Some(process) if !process.over => std::mem::swap(&mut process.outbox, &mut batch),
                Some(_) | None => return,
            }
        }
        if stream.write_all(&batch).is_err() {
            // It is gone, or going; whoever waits for it tells how.
            return;
        }
        batch.clear();
    }
}

/// Hears the process until it has closed its end.
fn hear(shared: &Arc<Shared>, number: usize, stream: &UnixStream) {
    let mut stream = BufReader::with_capacity(64 << 10, stream);
    let mut buffer = Vec::new();
    loop {
        match wire::read::<FromExecutor>(&mut stream, &mut buffer) {
            Ok(Some(message)) => take(shared, number, message),
            Ok(None) => return,
            // It died in the middle of a word.
            Err(error) if error.kind() != io::ErrorKind::InvalidData => return,
            Err(error) => {
                // Whoever talks nonsense is not obeyed: what it holds ends with it.
                shared.lock().members[number].doom(format!("it sent what nobody understands: {error}"), None);
                return;
            }
        }
    }
}

fn take(shared: &Arc<Shared>, number: usize, message: FromExecutor) {
    match message {
        FromExecutor::Ready(locks) => welcome(shared, number, locks),
        FromExecutor::Unfit(why) => {
            tracing::error!(executor = number, why, "an executor process cannot run guests");
            shared.lock().members[number].unfit = Some(why);
            shared.changed.notify_all();
        }
        FromExecutor::Pong(counts) => {
            let member = &mut shared.lock().members[number];
            member.counts = counts.into();
            if let Some(process) = &mut member.process {
                process.unanswered = 0;
            }
        }
        FromExecutor::Beat(beat) => {
            let beat = Beat::from(*beat);
            let mut state = shared.lock();
            let here = state.attempts.is_at(beat.key, number);
            if let Some(placed) = state.attempts.get_mut(beat.key).filter(|_| here) {
                placed.entered_at = beat.entered_at.or(placed.entered_at);
                drop(state);
                shared.report(Report::Beat(Box::new(beat)));
            }
        }
        FromExecutor::Caught(key) => {
            let key = key.into();
            // No process has a say in another's attempts.
            if shared.lock().attempts.is_at(key, number) {
                shared.report(Report::Caught(key));
            }
        }
        FromExecutor::Ended(ended) => end(shared, number, Ended::from(*ended)),
    }
}

fn welcome(shared: &Shared, number: usize, locks: Vec<Lock>) {
    let mut state = shared.lock();
    let member = &mut state.members[number];
    let starts = member.starts;
    if let Some(process) = &mut member.process {
        process.ready = true;
        process.unanswered = 0;
        tracing::info!(executor = number, pid = process.pid, starts, "executor ready");
    }
    for lock in locks.iter().filter(|lock| lock.failure.is_some()) {
        tracing::warn!(executor = number, lock = lock.name, failure = lock.failure, "an executor is less locked down");
    }
    member.locks = locks;
    shared.place_waiting(&mut state);
    drop(state);
    shared.changed.notify_all();
}

fn end(shared: &Arc<Shared>, number: usize, ended: Ended) {
    let key = ended.last.key;
    let mut state = shared.lock();
    if state.attempts.is_at(key, number) {
        if ended.unprepared {
            drop(state);
            return prepare(shared, key);
        }
        state.attempts.remove(key);
        shared.place_waiting(&mut state);
        drop(state);
        shared.report(Report::Ended(Box::new(ended)));
    }
}

/// Tells what became of the attempts of a process that is gone.
fn mourn(shared: &Shared, number: usize, how: &str, running: &[AttemptKey]) {
    let mut state = shared.lock();
    let closing = state.closing;
    let member = &mut state.members[number];
    member.counts = Counts::default();
    let Some(process) = member.process.take() else { return };
    let orphans = state.attempts.take_of(number);
    drop(state);
    let mut why = format!("executor {number} (process {})", process.pid);
    let culprit = if let Some((reason, culprit)) = process.doom {
        // Writing to a string does not fail.
        let _ = write!(why, " was killed: {reason}");
        culprit
    } else {
        let _ = write!(why, " {how}");
        let _ = write!(why, "{}", process.last_words);
        None
    };
    if closing {
        tracing::debug!(why, "an executor ended");
    } else {
        tracing::error!(attempts = orphans.len(), why, "an executor is gone");
    }
    for placed in orphans {
        clear_away(shared, placed.key());
        let suspect = culprit.is_none() && !closing && running.contains(&placed.key());
        let loss = if suspect { Loss::Suspect } else { Loss::Executor };
        shared.report_end(&placed, Ending::Lost { loss, message: why.clone() });
    }
}

/// Removes what a process could not remove of an attempt any more, before anybody is told that the attempt is over.
fn clear_away(shared: &Shared, key: AttemptKey) {
    let Some(scratch) = &shared.config.each.scratch else { return };
    if let Err(error) = remove_scratch_of(scratch, key.task, key.attempt) {
        tracing::error!(task = %key.task, attempt = key.attempt, %error, "a scratch folder could not be removed");
    }
}

/// What a process that nobody here killed died of.
fn how(status: &io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => match (status.signal(), status.code()) {
            (Some(signal), _) => format!("was ended by signal {signal}"),
            (None, Some(code)) => format!("ended with exit code {code}"),
            (None, None) => "ended".to_owned(),
        },
        Err(error) => format!("could not be waited for: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member() -> Member {
        let process = Process {
            pid: 1,
            handle: std::fs::File::open("/dev/null").unwrap().into(),
            ready: false,
            outbox: Vec::new(),
            doom: None,
            last_words: LastWords::default(),
            unanswered: 0,
            over: false,
        };
        Member { process: Some(process), ..Member::default() }
    }

    #[test]
    fn what_cannot_be_started_is_tried_again_after_a_pause_and_what_lived_long_is_followed_at_once() {
        let mut pause = Pause::default();
        assert_eq!(pause.after(Some(HEALTHY)), Duration::ZERO);
        assert_eq!(pause.after(None), PAUSE_MIN * 2, "however long the last one lived");
        assert_eq!(pause.after(None), PAUSE_MIN * 4);
        assert_eq!((0..99).map(|_| pause.after(None)).last(), Some(PAUSE_MAX));
        assert_eq!(pause.after(Some(HEALTHY)), Duration::ZERO);
        assert_eq!(pause.after(Some(Duration::ZERO)), Duration::ZERO, "one may die early");
        assert_eq!(pause.after(Some(Duration::ZERO)), PAUSE_MIN * 4);
    }

    #[test]
    fn a_process_that_is_over_is_given_nothing_more() {
        let mut member = member();
        assert!(member.is_starting() && !member.is_ready());
        member.process.as_mut().unwrap().ready = true;
        assert!(member.is_ready());
        member.set_over();
        assert!(!member.is_ready());
    }

    #[test]
    fn a_process_that_never_becomes_ready_is_found_out() {
        let mut member = member();
        assert_eq!([member.look(), member.look(), member.look()], [0, 1, 2]);
    }
}
