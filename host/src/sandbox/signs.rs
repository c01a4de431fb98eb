//! Signs of life: what can be known of a running attempt from outside, without touching its sandbox.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::log_tail::LogTail;
use super::scratch::Quota;
use super::stdio::Lines;
use super::stop::Token;
use crate::task::{CostReceipt, Death, Ending, Limits, LogLevel, LogLine, Phase, Progress, Scene};
use crate::time::{Clock, Timestamp};

/// Once the guest wrote as many lines as are kept, more are fetched at most this often: they would only push each other out.
const FLOOD_PAUSE: Duration = Duration::from_secs(1);

/// What became known of an attempt since it was last asked.
#[derive(Debug)]
pub(crate) struct News {
    pub entered_at: Option<Timestamp>,
    pub heartbeat_at: Option<Timestamp>,
    pub stop_seen_at: Option<Timestamp>,
    pub progress: Option<Progress>,
    pub log: Vec<LogLine>,
}

/// Hears of the guest's entry (0), and of each of its host calls by number and name before the call does anything.
pub type CallWatch = Box<dyn Fn(u64, &'static str) + Send + Sync>;

/// Shared between a guest's sandbox and whoever watches it.
pub(crate) struct Signs {
    pub(crate) token: Token,
    watch: Option<CallWatch>,
    pub(super) clock: Arc<dyn Clock>,
    /// Whether anything but the log has changed since the last news.
    changed: AtomicBool,
    logged: AtomicBool,
    entered_at: Instant,
    heartbeat_at: Instant,
    stop_seen_at: Instant,
    /// A place in [`Phase::ALL`].
    phase: AtomicU8,
    /// The host call that the guest was in when its sandbox was dropped.
    left_in: Mutex<Option<&'static str>>,
    progress: Mutex<Option<Progress>>,
    log: Mutex<Log>,
    log_lines_max: u64,
    memory_now: AtomicU64,
    memory_peak: AtomicU64,
    host_calls: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    fuel_used: AtomicU64,
    scratch: Mutex<Option<Arc<Quota>>>,
}

struct Log {
    tail: LogTail,
    stdout: Lines,
    stderr: Lines,
    fetched_at: Timestamp,
}

/// A timestamp that is set while others look; zero means never.
#[derive(Default)]
struct Instant(AtomicI64);

impl Instant {
    fn set(&self, at: Timestamp) {
        self.0.store(at.as_micros(), Ordering::Relaxed);
    }

    fn set_once(&self, at: impl FnOnce() -> Timestamp) -> bool {
        self.0.load(Ordering::Relaxed) == 0
            && self.0.compare_exchange(0, at().as_micros(), Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    fn get(&self) -> Option<Timestamp> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            micros => Some(Timestamp::from_micros(micros)),
        }
    }
}

impl Signs {
    pub(crate) fn new(clock: Arc<dyn Clock>, limits: &Limits, watch: Option<CallWatch>) -> Self {
        Self {
            token: Token::default(),
            watch,
            clock,
            changed: AtomicBool::new(false),
            logged: AtomicBool::new(false),
            entered_at: Instant::default(),
            heartbeat_at: Instant::default(),
            stop_seen_at: Instant::default(),
            phase: AtomicU8::new(0),
            left_in: Mutex::new(None),
            progress: Mutex::new(None),
            log: Mutex::new(Log {
                tail: LogTail::new(limits.log_lines_max, limits.log_bytes_max),
                stdout: Lines::default(),
                stderr: Lines::default(),
                fetched_at: Timestamp::default(),
            }),
            log_lines_max: limits.log_lines_max,
            memory_now: AtomicU64::new(0),
            memory_peak: AtomicU64::new(0),
            host_calls: AtomicU64::new(0),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            fuel_used: AtomicU64::new(0),
            scratch: Mutex::new(None),
        }
    }

    pub(super) fn enter(&self) {
        self.entered_at.set(self.clock.now());
        self.mark();
        if let Some(watch) = &self.watch {
            watch(0, "");
        }
    }

    pub(crate) fn reach(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    pub(super) fn phase(&self) -> Phase {
        Phase::ALL[usize::from(self.phase.load(Ordering::Relaxed)) % Phase::ALL.len()]
    }

    /// The sandbox is dropped.
    pub(super) fn leave(&self, call: Option<&'static str>) {
        *self.left_in.lock().unwrap_or_else(PoisonError::into_inner) = call;
    }

    /// What can be told of a death that left no scene of its own: there was no guest yet, or no trap. To be asked when
    /// the sandbox is gone.
    pub(crate) fn scene(&self, ending: &Ending, at: Timestamp) -> Option<Scene> {
        let in_a_call = matches!(ending, Ending::Killed | Ending::Died { cause: Death::HostFault, .. });
        if !in_a_call && !matches!(ending, Ending::Died { .. } | Ending::FuelSpent) {
            return None;
        }
        let call = *self.left_in.lock().unwrap_or_else(PoisonError::into_inner);
        let host_call = call.filter(|_| in_a_call).map(str::to_owned);
        Some(Scene { phase: Some(self.phase()), at: Some(at), host_call, ..Scene::default() })
    }

    pub(super) fn beat(&self) {
        self.heartbeat_at.set(self.clock.now());
        self.mark();
    }

    pub(super) fn see_stop(&self) {
        if self.stop_seen_at.set_once(|| self.clock.now()) {
            self.mark();
        }
    }

    pub(super) fn progress(&self, progress: Progress) {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = Some(progress);
        self.mark();
    }

    pub(super) fn log(&self, level: LogLevel, message: &str) {
        let at = self.clock.now();
        self.lock_log().tail.push(at, level, message);
        self.logged.store(true, Ordering::SeqCst);
    }

    /// Bytes that the guest wrote to its stdout or stderr. Whole lines go to the log.
    pub(super) fn print(&self, stream: Stream, bytes: &[u8]) {
        let at = self.clock.now();
        let log = &mut *self.lock_log();
        let (lines, level) = match stream {
            Stream::Stdout => (&mut log.stdout, LogLevel::Info),
            Stream::Stderr => (&mut log.stderr, LogLevel::Warn),
        };
        lines.push(bytes, |line| log.tail.push(at, level, line));
        self.logged.store(true, Ordering::SeqCst);
    }

    /// What was printed without a newline at its end becomes the last line.
    pub(super) fn end_prints(&self) {
        let at = self.clock.now();
        let log = &mut *self.lock_log();
        log.stdout.end(|line| log.tail.push(at, LogLevel::Info, line));
        log.stderr.end(|line| log.tail.push(at, LogLevel::Warn, line));
    }

    pub(super) fn count_call(&self, call: &'static str) {
        let before = self.host_calls.fetch_add(1, Ordering::Relaxed);
        if let Some(watch) = &self.watch {
            watch(before + 1, call);
        }
    }

    pub(super) fn count_in(&self, bytes: usize) {
        self.bytes_in.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn count_out(&self, bytes: usize) {
        self.bytes_out.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn memory(&self, bytes: u64) {
        self.memory_now.store(bytes, Ordering::Relaxed);
        self.memory_peak.fetch_max(bytes, Ordering::Relaxed);
    }

    /// From now on the guest has a scratch folder.
    pub(super) fn scratch(&self, quota: &Arc<Quota>) {
        *self.scratch.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(quota));
    }

    /// Files and folders that must be removed when the guest is gone.
    pub(crate) fn files_now(&self) -> u64 {
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map_or(0, |quota| quota.files())
    }

    pub(super) fn fuel(&self, used: u64) {
        self.fuel_used.store(used, Ordering::Relaxed);
    }

    /// Bytes of memory and tables that the guest holds.
    pub(crate) fn memory_now(&self) -> u64 {
        self.memory_now.load(Ordering::Relaxed)
    }

    pub(crate) fn entered_at(&self) -> Option<Timestamp> {
        self.entered_at.get()
    }

    /// Whether there may be something to tell since the last call of [`Signs::news`].
    pub(crate) fn changed(&self) -> bool {
        self.changed.load(Ordering::Relaxed) || self.logged.load(Ordering::Relaxed)
    }

    /// What there is to tell.
    pub(crate) fn news(&self, now: Timestamp) -> Option<News> {
        let changed = self.changed.swap(false, Ordering::SeqCst);
        let lines = self.lines(now);
        (changed || !lines.is_empty()).then(|| self.read(lines))
    }

    fn lines(&self, now: Timestamp) -> Vec<LogLine> {
        let mut log = self.lock_log();
        if log.tail.written() > self.log_lines_max && now.since(log.fetched_at) < FLOOD_PAUSE {
            return Vec::new();
        }
        self.logged.store(false, Ordering::SeqCst);
        log.fetched_at = now;
        log.tail.take()
    }

    /// The last news, with every line that is left.
    pub(crate) fn last_news(&self) -> News {
        let lines = self.lock_log().tail.take();
        self.read(lines)
    }

    fn read(&self, log: Vec<LogLine>) -> News {
        News {
            entered_at: self.entered_at.get(),
            heartbeat_at: self.heartbeat_at.get(),
            stop_seen_at: self.stop_seen_at.get(),
            progress: self.progress.lock().unwrap_or_else(PoisonError::into_inner).take(),
            log,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// What the attempt cost so far, but for time.
    pub(crate) fn cost(&self, metered: bool) -> CostReceipt {
        let log = self.lock_log();
        CostReceipt {
            wall_micros: 0,
            cpu_micros: 0,
            fuel: metered.then(|| self.fuel_used.load(Ordering::Relaxed)),
            memory_bytes_peak: self.memory_peak.load(Ordering::Relaxed),
            host_calls: self.host_calls.load(Ordering::Relaxed),
            bytes_in: self.bytes_in.load(Ordering::Relaxed),
            bytes_out: self.bytes_out.load(Ordering::Relaxed),
            log_lines: log.tail.written(),
            log_lines_dropped: log.tail.dropped(),
        }
    }

    fn mark(&self) {
        self.changed.store(true, Ordering::SeqCst);
    }

    fn lock_log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a guest prints to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}
