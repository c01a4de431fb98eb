//! The node's side of its executor processes: places attempts, passes orders on, and ends a process that does not obey.
//!
//! Must not know wasmtime: whatever a guest does to a process, it does to that process.

mod attempts;
mod keeper;
mod launch;
mod prepare;
mod watch;
mod words;

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::mpsc::UnboundedSender;

use self::attempts::{Attempts, Placed};
use self::keeper::Member;
use super::executors::ExecutorView;
use super::in_process::{ExecutorConfig, StartError};
use super::protocol::{AttemptKey, Order, Report};
use super::wire::{self, FromNode};
use crate::component::{Artefacts, Compiler};
use crate::sandbox::Counts;
use crate::task::Ending;
use crate::time::Clock;

/// How long the first start of an executor may take.
const START_MAX: Duration = Duration::from_secs(30);
/// How long closing waits for processes that were asked to end, before it kills them.
const CLOSE_MAX: Duration = Duration::from_secs(7);

#[derive(Clone, Debug)]
pub struct FleetConfig {
    /// The program that is an executor when it is asked to be: this one.
    pub program: PathBuf,
    pub executors: usize,
    /// Of each executor.
    pub each: ExecutorConfig,
    pub artefacts: Artefacts,
}

impl FleetConfig {
    /// The share of one executor of so many.
    #[must_use]
    pub fn share(whole: &ExecutorConfig, executors: usize) -> ExecutorConfig {
        let count = executors.max(1);
        ExecutorConfig {
            slots: whole.slots.div_ceil(u32::try_from(count).unwrap_or(u32::MAX)).max(1),
            guest_threads: whole.guest_threads.div_ceil(count).max(1),
            memory_bytes_max: whole.memory_bytes_max / count as u64,
            ..whole.clone()
        }
    }
}

/// A node's executor processes. There are always as many as were asked for: one that dies is followed by another.
pub struct Fleet {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What all threads of a fleet hold.
struct Shared {
    config: FleetConfig,
    compiler: Arc<Compiler>,
    /// Where compiling is waited for.
    waiting: Handle,
    clock: Arc<dyn Clock>,
    reports: UnboundedSender<Report>,
    state: Mutex<State>,
    /// For each member: something is to be sent, or its process is over.
    to_send: Vec<Condvar>,
    /// A process became ready, or ended.
    changed: Condvar,
}

struct State {
    attempts: Attempts,
    members: Vec<Member>,
    closing: bool,
}

impl Fleet {
    /// Starts the processes, and waits until they are ready.
    ///
    /// # Errors
    /// A process cannot be started, or cannot run guests here.
    pub fn start(
        config: FleetConfig,
        compiler: Arc<Compiler>,
        waiting: Handle,
        clock: Arc<dyn Clock>,
        reports: UnboundedSender<Report>,
    ) -> Result<Self, StartError> {
        let count = config.executors.max(1);
        let shared = Arc::new(Shared {
            config,
            compiler,
            waiting,
            clock,
            reports,
            state: Mutex::new(State {
                attempts: Attempts::default(),
                members: (0..count).map(|_| Member::default()).collect(),
                closing: false,
            }),
            to_send: (0..count).map(|_| Condvar::new()).collect(),
            changed: Condvar::new(),
        });
        let fleet = Self { shared: Arc::clone(&shared), threads: Mutex::default() };
        for number in 0..count {
            let shared = Arc::clone(&shared);
            fleet.spawn(format!("atropos-keep-{number}"), move || keeper::keep(&shared, number))?;
        }
        fleet.spawn("atropos-watch".to_owned(), move || watch::watch(&shared))?;
        fleet.wait_until_ready()?;
        Ok(fleet)
    }

    fn spawn(&self, name: String, body: impl FnOnce() + Send + 'static) -> Result<(), StartError> {
        let thread = thread::Builder::new().name(name).spawn(body)?;
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
    }

    fn wait_until_ready(&self) -> Result<(), StartError> {
        let deadline = Instant::now() + START_MAX;
        let mut state = self.shared.lock();
        loop {
            if let Some(detail) = state.members.iter_mut().find_map(|member| member.unfit.take()) {
                drop(state);
                self.close();
                return Err(StartError::Process { detail });
            }
            if state.members.iter().all(Member::is_ready) {
                return Ok(());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                drop(state);
                self.close();
                return Err(StartError::Process { detail: format!("it was not ready within {START_MAX:?}") });
            }
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Takes an order. Never blocks; orders of one caller are taken one after the other.
    pub fn order(&self, order: Order) {
        let mut state = self.shared.lock();
        match order {
            Order::Start(start) => {
                let key = start.key;
                if state.attempts.insert(Placed::new(*start)) {
                    self.shared.place(&mut state, key);
                }
            }
            Order::Stop { key, stop } => {
                let now = self.shared.clock.now();
                let Some(placed) = state.attempts.get_mut(key) else { return };
                placed.told_at = placed.told_at.or(Some(now));
                let message = FromNode::Stop(key.into(), (&stop).into());
                placed.stop = Some(stop);
                if let Some(number) = placed.member {
                    self.shared.send(&mut state, number, &message);
                } else {
                    // There is nobody who could look, and nothing to wait for: it is taken away at once.
                    placed.killed_at = placed.killed_at.or(Some(now));
                    self.shared.end_unplaced(&mut state, key);
                }
            }
            Order::Kill { key } => {
                let now = self.shared.clock.now();
                let Some(placed) = state.attempts.get_mut(key) else { return };
                placed.killed_at = placed.killed_at.or(Some(now));
                match placed.member {
                    Some(number) => self.shared.send(&mut state, number, &FromNode::Kill(key.into())),
                    // Nothing of it runs anywhere.
                    None => self.shared.end_unplaced(&mut state, key),
                }
            }
        }
    }

    /// Kills the process that has this attempt. False if none has.
    pub fn put_down(&self, key: AttemptKey, why: &str) -> bool {
        let mut state = self.shared.lock();
        let Some(number) = state.attempts.get_mut(key).and_then(|placed| placed.member) else { return false };
        state.members[number].doom(why.to_owned(), Some(key));
        true
    }

    /// Attempts that have not ended.
    #[must_use]
    pub fn live(&self) -> usize {
        self.shared.lock().attempts.len()
    }

    /// What the processes counted when they were last asked.
    #[must_use]
    pub fn ledger(&self) -> Counts {
        let state = self.shared.lock();
        state.members.iter().fold(Counts::default(), |sum, member| sum.and(member.counts))
    }

    /// Each of them.
    #[must_use]
    pub fn views(&self) -> Vec<ExecutorView> {
        let state = self.shared.lock();
        let view = |(number, member): (usize, &Member)| member.view(number, state.attempts.at(number));
        state.members.iter().enumerate().map(view).collect()
    }

    /// Kills what runs, and ends every process. Blocks, for some seconds at most; returns how many attempts had not ended
    /// when their process was killed.
    pub fn close(&self) -> usize {
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        if threads.is_empty() {
            return 0;
        }
        let deadline = Instant::now() + CLOSE_MAX;
        let mut state = self.shared.begin_close();
        while state.members.iter().any(Member::is_up) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        let left = state.attempts.len();
        state.members.iter_mut().for_each(|member| member.doom("the node is closing".to_owned(), None));
        drop(state);
        for thread in threads {
            // A thread that panicked has said so itself.
            let _ = thread.join();
        }
        left
    }
}

/// Without [`Fleet::close`]: the processes are killed, and nobody waits.
impl Drop for Fleet {
    fn drop(&mut self) {
        let mut state = self.shared.begin_close();
        state.members.iter_mut().for_each(|member| member.doom("the node is gone".to_owned(), None));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin_close(&self) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        state.closing = true;
        for number in 0..state.members.len() {
            self.send(&mut state, number, &FromNode::Close);
        }
        self.changed.notify_all();
        state
    }

    /// Puts a message on its way, if there is a process to take it.
    fn send(&self, state: &mut State, number: usize, message: &FromNode) {
        if let Some(outbox) = state.members[number].outbox() {
            wire::write(outbox, message);
            self.to_send[number].notify_one();
        }
    }

    /// Gives an attempt to the process that has the fewest, if one has room. Otherwise it waits here, where every process
    /// can still have it: in a process it would wait for that one.
    fn place(&self, state: &mut State, key: AttemptKey) {
        let room = |number: &usize| state.attempts.at(*number) < self.config.each.slots as usize;
        let ready = state.members.iter().enumerate().filter(|(_, member)| member.is_ready());
        let with_room = ready.map(|(number, _)| number).filter(room);
        let Some(number) = with_room.min_by_key(|number| state.attempts.at(*number)) else {
            return state.attempts.wait(key);
        };
        let Some(messages) = state.attempts.place(key, number) else { return };
        for message in messages {
            self.send(state, number, &message);
        }
    }

    /// There is room again, or another process.
    fn place_waiting(&self, state: &mut State) {
        for key in state.attempts.take_waiting() {
            self.place(state, key);
        }
    }

    fn report(&self, report: Report) {
        // Nobody listens any more: the node is going down, and asks the store what it lost.
        let _ = self.reports.send(report);
    }

    fn report_end(&self, placed: &Placed, ending: Ending) {
        self.report(Report::Ended(Box::new(placed.ended(ending, self.clock.now()))));
    }

    /// Ends an attempt that no process has.
    fn end_unplaced(&self, state: &mut State, key: AttemptKey) {
        if let Some(placed) = state.attempts.remove(key) {
            let mut ended = placed.ended(Ending::Killed, self.clock.now());
            ended.scene = Some(placed.scene(ended.gone_at));
            self.report(Report::Ended(Box::new(ended)));
        }
    }
}
