//! An executor in this process: its threads, its orders, and its end.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedSender;

use super::black_box::BlackBox;
use super::core::{Core, Running};
use super::live::Live;
use super::protocol::{Order, Report, Start};
use super::pulse::{Nudge, Pulse};
use super::{reaper, thread as os};
use crate::component::{Artefacts, Compiler, Loader, LoaderSize};
use crate::sandbox::{CallWatch, Counts, Dumps, EngineSize, Engines, Ledger, Names, NodeMemory, Room};
use crate::time::Clock;

/// Time slice of a guest, and the longest that a running guest goes on after a kill unless a bulk instruction holds it.
const TICK: Duration = Duration::from_millis(1);
const BEAT: Duration = Duration::from_millis(50);
/// How long closing waits for killed guests, and for what is being loaded.
const CLOSE_MAX: Duration = Duration::from_secs(5);
/// Between two looks at the timers, in polls of guests: one poll may take a whole tick.
const TIMERS_EVERY: u32 = 8;
/// Threads that read components from the cache.
const LOADERS: usize = 2;

#[derive(Clone, Debug)]
pub struct ExecutorConfig {
    /// Sandboxes at one time. Further starts wait.
    pub slots: u32,
    pub guest_threads: usize,
    /// Memory of all guests together.
    pub memory_bytes_max: u64,
    pub cached_components_max: usize,
    /// Machine code of all components in memory together.
    pub cached_bytes_max: usize,
    /// Where core dumps are kept. Absent: there are none.
    pub dumps: Option<PathBuf>,
    /// Where the scratch folders of attempts are made, which nobody else may use. Absent: none can be had.
    pub scratch: Option<PathBuf>,
    /// Whom names are asked of. Empty: those that the machine is set up with.
    pub nameservers: Vec<SocketAddr>,
}

impl Default for ExecutorConfig {
    fn default() -> Self {
        Self {
            slots: 1_000,
            guest_threads: thread::available_parallelism().map_or(2, usize::from),
            memory_bytes_max: 4 << 30,
            cached_components_max: 256,
            cached_bytes_max: 1 << 30,
            dumps: None,
            scratch: None,
            nameservers: Vec::new(),
        }
    }
}

/// The executor cannot run.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("could not set up the sandbox engine for {slots} slots: {detail}")]
    Engine { slots: u32, detail: String },
    #[error("could not start a thread for guests")]
    Thread(#[from] io::Error),
    #[error("could not start an executor process: {detail}")]
    Process { detail: String },
}

/// Runs guests until it is closed.
pub struct Executor {
    core: Arc<Core>,
    running: Mutex<Option<Threads>>,
    ticker: Nudge,
    beats: Nudge,
}

struct Threads {
    guests: Runtime,
    ticker: Pulse,
    beats: Pulse,
    reapers: Vec<JoinHandle<()>>,
}

impl Executor {
    /// Runs what is in `artefacts`. What is not is asked of `compiler`; without one, it cannot be run.
    ///
    /// # Errors
    /// The machine has not the address space or the threads.
    pub fn start(
        config: ExecutorConfig,
        artefacts: Artefacts,
        compiler: Option<Arc<Compiler>>,
        clock: Arc<dyn Clock>,
        reports: UnboundedSender<Report>,
    ) -> Result<Self, StartError> {
        Self::start_recorded(config, artefacts, compiler, clock, reports, None)
    }

    /// As [`Executor::start`], and leaves word of what it runs in a black box.
    pub(super) fn start_recorded(
        config: ExecutorConfig,
        artefacts: Artefacts,
        compiler: Option<Arc<Compiler>>,
        clock: Arc<dyn Clock>,
        reports: UnboundedSender<Report>,
        black_box: Option<BlackBox>,
    ) -> Result<Self, StartError> {
        let engines = Engines::new(EngineSize { slots: config.slots })
            .map_err(|error| StartError::Engine { slots: config.slots, detail: format!("{error:#}") })?;
        let engines = Arc::new(engines);
        let ledger = Arc::new(Ledger::default());
        let memory = Arc::new(NodeMemory::new(Arc::clone(&ledger), config.memory_bytes_max));
        let guests = guest_runtime(config.guest_threads)?;
        let size = LoaderSize { cached: config.cached_components_max, cached_bytes: config.cached_bytes_max };
        let (grave, pit) = reaper::dig();
        let running = Arc::new(Running::default());
        let core = Arc::new(Core {
            loader: Loader::new(Arc::clone(&engines), artefacts, size, guests.handle().clone()),
            compiler,
            room: Room {
                engines: Arc::clone(&engines),
                ledger,
                memory,
                dumps: config.dumps.map(|folder| Arc::new(Dumps::new(folder))),
                scratch: config.scratch.map(Into::into),
                names: Arc::new(Names::new(config.nameservers)),
            },
            live: Live::new(),
            clock,
            reports,
            slots: Arc::new(Semaphore::new(config.slots as usize)),
            running: Arc::clone(&running),
            threads: guests.handle().clone(),
            grave,
            black_box,
        });
        let reapers = reaper::start(&core, pit, config.guest_threads.max(1))?;
        let ticker = Pulse::start("atropos-tick", TICK, move || running.any(), move || engines.tick())?;
        let beating = Arc::clone(&core);
        let watched = Arc::clone(&core);
        let any_live = move || watched.room.ledger.counts().attempts > 0;
        let beats = Pulse::start("atropos-beat", BEAT, any_live, move || beating.beat())?;
        Ok(Self {
            core,
            ticker: ticker.nudge(),
            beats: beats.nudge(),
            running: Mutex::new(Some(Threads { guests, ticker, beats, reapers })),
        })
    }

    /// Takes an order. Never blocks; orders of one caller are taken one after the other.
    pub fn order(&self, order: Order) {
        match order {
            Order::Start(start) => {
                self.core.start(*start, None, &self.ticker);
                self.beats.nudge();
            }
            Order::Stop { key, stop } => self.core.stop(key, stop),
            Order::Kill { key } => self.core.kill(key),
        }
    }

    /// As [`Order::Start`], with somebody who hears of every host call, on the guest's thread. No message carries such a
    /// thing: it is only for whoever has the executor in hand.
    pub fn start_watched(&self, start: Start, watch: CallWatch) {
        self.core.start(start, Some(watch), &self.ticker);
        self.beats.nudge();
    }

    /// Attempts that have not ended.
    #[must_use]
    pub fn live(&self) -> usize {
        self.ledger().attempts
    }

    /// What is alive of guests. All zero when nothing runs.
    #[must_use]
    pub fn ledger(&self) -> Counts {
        self.core.room.ledger.counts()
    }

    /// Kills what runs, and ends every thread. Blocks, for some seconds at most; returns how many attempts it had to leave.
    pub fn close(&self) -> usize {
        self.kill_all();
        let deadline = Instant::now() + CLOSE_MAX;
        while self.live() > 0 && Instant::now() < deadline {
            thread::sleep(TICK);
        }
        let left = self.live();
        if let Some(threads) = self.take_threads() {
            self.core.grave.quit();
            let pulses = [threads.ticker.close(), threads.beats.close()];
            threads.guests.shutdown_timeout(CLOSE_MAX);
            for thread in pulses.into_iter().chain(threads.reapers) {
                // A thread that panicked has said so itself.
                let _ = thread.join();
            }
        }
        left
    }

    fn take_threads(&self) -> Option<Threads> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn kill_all(&self) {
        for attempt in self.core.live.select(|_| true) {
            self.core.kill_attempt(attempt);
        }
    }
}

/// Without [`Executor::close`]: the same, but nobody waits.
impl Drop for Executor {
    fn drop(&mut self) {
        if let Some(threads) = self.take_threads() {
            self.kill_all();
            self.core.grave.quit();
            drop(threads.ticker.close());
            drop(threads.beats.close());
            threads.guests.shutdown_background();
        }
    }
}

fn guest_runtime(threads: usize) -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(threads.max(1))
        .max_blocking_threads(LOADERS)
        .thread_name("atropos-guest")
        .on_thread_start(os::give_way)
        .event_interval(TIMERS_EVERY)
        .enable_all()
        .build()
}
