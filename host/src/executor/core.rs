//! What all threads of an executor share: starts attempts, ends them, and reports.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedSender;

use super::attempt::{Attempt, Guest, Over, Return, Step};
use super::black_box::BlackBox;
use super::live::Live;
use super::protocol::{AttemptKey, Beat, Ended, Report, Start, StopOrder};
use super::pulse::Nudge;
use super::reaper::Grave;
use super::unloadable::ending_of;
use crate::component::{Compiler, LoadError, Loader};
use crate::id::Digest;
use crate::sandbox::{self, CallWatch, Metering, News, Outcome, Prepared, Remains, Room, Signs, StopNotice, Work};
use crate::task::{Ending, Loss, Phase};
use crate::time::{Clock, Timestamp};

/// A sandbox with more memory than this takes a while to drop.
const LARGE_BYTES: u64 = 1 << 20;

pub(super) struct Core {
    pub(super) room: Room,
    pub(super) loader: Arc<Loader>,
    pub(super) compiler: Option<Arc<Compiler>>,
    pub(super) live: Live,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) reports: UnboundedSender<Report>,
    /// One for each sandbox that the engines have room for: an exhausted pool is an error, not a wait.
    pub(super) slots: Arc<Semaphore>,
    pub(super) running: Arc<Running>,
    pub(super) threads: Handle,
    pub(super) grave: Grave,
    /// Where a process of its own leaves word of what it runs.
    pub(super) black_box: Option<BlackBox>,
}

/// How many guests are being polled: while it is zero, nobody needs ticks.
#[derive(Default)]
pub(super) struct Running(AtomicUsize);

impl Running {
    pub(super) fn any(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }
}

impl Core {
    pub(super) fn start(self: &Arc<Self>, start: Start, watch: Option<CallWatch>, ticker: &Nudge) {
        let signs = Arc::new(Signs::new(Arc::clone(&self.clock), &start.limits, watch));
        let (key, component) = (start.key, start.component);
        let work = work(start);
        let metered = work.fuel.is_some();
        let cached = self.loader.cached(component, work.metering());
        let guest: Guest = Box::pin(execute(
            Source { loader: Arc::clone(&self.loader), compiler: self.compiler.clone() },
            Arc::clone(&self.slots),
            self.room.clone(),
            cached,
            component,
            work,
            Arc::clone(&signs),
        ));
        let attempt = Arc::new(Attempt::new(key, signs, metered, guest, self.room.ledger.attempt()));
        if self.live.insert(&attempt) {
            let driver = Driver { attempt, core: Arc::clone(self), ticker: ticker.clone() };
            drop(self.threads.spawn(driver));
        }
    }

    pub(super) fn stop(&self, key: AttemptKey, stop: StopOrder) {
        let Some(attempt) = self.live.get(key) else { return };
        attempt.told(self.clock.now());
        attempt.signs.token.tell(StopNotice { reason: stop.reason, kill_at: stop.kill_at, message: stop.message });
    }

    pub(super) fn kill(&self, key: AttemptKey) {
        if let Some(attempt) = self.live.get(key) {
            self.kill_attempt(attempt);
        }
    }

    pub(super) fn kill_attempt(&self, attempt: Arc<Attempt>) {
        attempt.killed(self.clock.now());
        if attempt.signs.token.kill() {
            self.room.engines.interrupt();
            self.grave.reap(attempt);
        }
    }

    /// A killed guest is out of the hands of whoever polled it.
    pub(super) fn caught(&self, attempt: &Attempt) {
        self.report(Report::Caught(attempt.key));
    }

    /// Whether giving back what the attempt holds takes a while.
    pub(super) fn is_large(attempt: &Attempt) -> bool {
        attempt.signs.memory_now() > LARGE_BYTES || attempt.signs.files_now() > 0
    }

    /// Sees to the end of an attempt: here, unless there is much to be done first.
    pub(super) fn conclude(&self, attempt: &Arc<Attempt>, over: Over) {
        let over = if over.has_dump() { self.grave.bury(attempt, over) } else { Some(over) };
        if let Some(over) = over {
            if attempt.killed_at().is_some() && Self::is_large(attempt) {
                self.caught(attempt);
            }
            self.finish(attempt, over);
        }
    }

    /// Drops what is left of the attempt, and only then says that it is over.
    pub(super) fn finish(&self, attempt: &Attempt, over: Over) {
        let now = over.at;
        let Over { returned: Return { mut outcome, slot, unprepared }, husk, at: _ } = over;
        let mut remains = outcome.remains.take();
        let dropped = catch_unwind(AssertUnwindSafe(|| {
            let core_dump = remains.as_mut().and_then(Remains::write_dump);
            if let Some(scene) = &mut outcome.scene {
                scene.core_dump = core_dump;
            }
            drop(husk);
            drop(remains);
        }));
        if dropped.is_err() {
            tracing::error!(task = %attempt.key.task, attempt = attempt.key.attempt, "the host panicked while it dropped a sandbox");
        }
        drop(slot);
        self.live.remove(attempt.key);
        attempt.strike_out();
        let mut closed = attempt.reporting();
        *closed = true;
        let ended = self.ended(attempt, outcome, now);
        self.report(Report::Ended(Box::new(Ended { unprepared, ..ended })));
    }

    fn ended(&self, attempt: &Attempt, outcome: Outcome, over_at: Timestamp) -> Ended {
        let mut cost = attempt.signs.cost(attempt.metered);
        let micros = |span: std::time::Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        cost.wall_micros = attempt.signs.entered_at().map_or(0, |entered| micros(over_at.since(entered)));
        cost.cpu_micros = micros(attempt.cpu());
        Ended {
            last: beat(attempt.key, attempt.signs.last_news()),
            scene: outcome.scene.or_else(|| attempt.signs.scene(&outcome.ending, over_at)),
            ending: outcome.ending,
            result: outcome.result,
            cost,
            told_at: attempt.told_at(),
            killed_at: attempt.killed_at(),
            gone_at: self.clock.now(),
            unprepared: false,
        }
    }

    /// Reports what became known of every attempt since the last time.
    pub(super) fn beat(&self) {
        let now = self.clock.now();
        for attempt in self.live.select(|attempt| attempt.signs.changed()) {
            let closed = attempt.reporting();
            if *closed {
                continue;
            }
            if let Some(news) = attempt.signs.news(now) {
                self.report(Report::Beat(Box::new(beat(attempt.key, news))));
            }
        }
    }

    fn report(&self, report: Report) {
        // Nobody listens any more: the node is going down, and asks the store what it lost.
        let _ = self.reports.send(report);
    }
}

fn work(start: Start) -> Work {
    Work {
        task: start.key.task,
        attempt: start.key.attempt,
        task_type: start.task_type,
        trace: start.trace,
        creator: start.creator,
        input: start.input,
        run_timeout: start.run_timeout,
        fuel: start.fuel,
        core_dump: start.core_dump,
        limits: start.limits,
        grants: start.grants,
    }
}

fn beat(key: AttemptKey, news: News) -> Beat {
    Beat {
        key,
        entered_at: news.entered_at,
        heartbeat_at: news.heartbeat_at,
        stop_seen_at: news.stop_seen_at,
        progress: news.progress,
        log: news.log,
    }
}

/// Where components come from.
struct Source {
    loader: Arc<Loader>,
    compiler: Option<Arc<Compiler>>,
}

impl Source {
    async fn load(&self, component: Digest, metering: Metering) -> Result<Arc<Prepared>, LoadError> {
        let loaded = Arc::clone(&self.loader).load(component, metering).await;
        if let (Err(LoadError::NotCompiled(_)), Some(compiler)) = (&loaded, &self.compiler) {
            compiler.ensure(component, metering).await?;
            return Arc::clone(&self.loader).load(component, metering).await;
        }
        loaded
    }
}

/// The whole attempt: component, slot, guest. It looks for a kill after each wait, so that whoever polls a killed one
/// does not run anything of it.
async fn execute(
    source: Source,
    slots: Arc<Semaphore>,
    room: Room,
    cached: Option<Arc<Prepared>>,
    component: Digest,
    work: Work,
    signs: Arc<Signs>,
) -> Return {
    let killed = || Return::bare(Outcome::bare(Ending::Killed));
    if signs.token.is_dead() {
        return killed();
    }
    let prepared = match cached {
        Some(prepared) => prepared,
        None => match source.load(component, work.metering()).await {
            Ok(prepared) => prepared,
            Err(error) => {
                let unprepared = matches!(error, LoadError::NotCompiled(_));
                return Return { unprepared, ..Return::bare(Outcome::bare(ending_of(&error))) };
            }
        },
    };
    signs.reach(Phase::Waiting);
    let Ok(slot) = slots.acquire_owned().await else { return killed() };
    if signs.token.is_dead() {
        return killed();
    }
    let outcome = sandbox::run(prepared, work, room, signs).await;
    Return { outcome, slot: Some(slot), unprepared: false }
}

/// The task that polls a guest. If its runtime ends before it, it still says what became of the attempt.
struct Driver {
    attempt: Arc<Attempt>,
    core: Arc<Core>,
    ticker: Nudge,
}

impl Future for Driver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.core.running.0.fetch_add(1, Ordering::SeqCst);
        self.ticker.nudge();
        let seat = self.core.black_box.as_ref().and_then(|black_box| black_box.enter(self.attempt.key));
        let step = self.attempt.advance(cx);
        drop(seat);
        self.core.running.0.fetch_sub(1, Ordering::SeqCst);
        let over = match step {
            Step::Over(over) => Some(*over),
            Step::Gone => None,
            Step::Waiting => {
                fence(Ordering::SeqCst);
                if !self.attempt.signs.token.is_dead() {
                    return Poll::Pending;
                }
                self.attempt.reap()
            }
        };
        if let Some(over) = over {
            self.core.conclude(&self.attempt, over);
        }
        Poll::Ready(())
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(husk) = self.attempt.abandon() {
            let returned = Return::bare(Outcome::bare(Ending::Lost { loss: Loss::Executor, message: String::new() }));
            self.core.finish(&self.attempt, Over { returned, husk: Some(husk), at: self.core.clock.now() });
        }
    }
}
