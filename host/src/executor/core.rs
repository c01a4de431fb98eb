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
use super::live::Live;
use super::protocol::{AttemptKey, Beat, Ended, Report, Start, StopOrder};
use super::pulse::Nudge;
use super::reaper::Grave;
use crate::component::{ComponentError, LoadError, Loader};
use crate::id::Digest;
use crate::sandbox::{self, News, Outcome, Prepared, Room, Signs, StopNotice, Work};
use crate::task::{Death, Ending, FailureClass, Loss};
use crate::time::{Clock, Timestamp};

pub(super) struct Core {
    pub(super) room: Room,
    pub(super) loader: Arc<Loader>,
    pub(super) live: Live,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) reports: UnboundedSender<Report>,
    /// One for each sandbox that the engines have room for: an exhausted pool is an error, not a wait.
    pub(super) slots: Arc<Semaphore>,
    pub(super) running: Arc<Running>,
    pub(super) threads: Handle,
    pub(super) grave: Grave,
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
    pub(super) fn start(self: &Arc<Self>, start: Start, ticker: &Nudge) {
        let signs = Arc::new(Signs::new(Arc::clone(&self.clock), &start.limits));
        let (key, component) = (start.key, start.component);
        let work = work(start);
        let metered = work.fuel.is_some();
        let cached = self.loader.cached(component, work.metering());
        let guest: Guest = Box::pin(execute(
            Arc::clone(&self.loader),
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

    /// Drops what is left of the attempt, and only then says that it is over.
    pub(super) fn finish(&self, attempt: &Attempt, over: Over) {
        let now = self.clock.now();
        let Over { returned: Return { mut outcome, slot }, husk } = over;
        let remains = outcome.remains.take();
        let dropped = catch_unwind(AssertUnwindSafe(|| {
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
        self.report(Report::Ended(Box::new(self.ended(attempt, outcome, now))));
    }

    fn ended(&self, attempt: &Attempt, outcome: Outcome, over_at: Timestamp) -> Ended {
        let mut cost = attempt.signs.cost(attempt.metered);
        let micros = |span: std::time::Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        cost.wall_micros = attempt.signs.entered_at().map_or(0, |entered| micros(over_at.since(entered)));
        cost.cpu_micros = micros(attempt.cpu());
        Ended {
            last: beat(attempt.key, attempt.signs.last_news()),
            ending: outcome.ending,
            result: outcome.result,
            cost,
            scene: outcome.scene,
            told_at: attempt.told_at(),
            killed_at: attempt.killed_at(),
            gone_at: self.clock.now(),
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
        limits: start.limits,
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

/// The whole attempt: component, slot, guest. It looks for a kill after each wait, so that whoever polls a killed one
/// does not run anything of it.
async fn execute(
    loader: Arc<Loader>,
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
        None => match loader.load(component, work.metering()).await {
            Ok(prepared) => prepared,
            Err(error) => return Return::bare(unloadable(&error)),
        },
    };
    let Ok(slot) = slots.acquire_owned().await else { return killed() };
    if signs.token.is_dead() {
        return killed();
    }
    let outcome = sandbox::run(prepared, work, room, signs).await;
    Return { outcome, slot: Some(slot) }
}

/// What cannot be read may be read later: that is the node's want. What is missing or does not fit stays so.
fn unloadable(error: &LoadError) -> Outcome {
    let message = match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    };
    let cause = match error {
        LoadError::Unreadable { .. } => {
            return Outcome::bare(Ending::Failed { class: FailureClass::System, message, retry_after: None });
        }
        LoadError::Unfit { source: ComponentError::HostFault { .. }, .. } => Death::HostFault,
        LoadError::Missing(_) | LoadError::Unfit { .. } => Death::Unloadable,
    };
    Outcome::died(cause, message)
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
        let step = self.attempt.advance(cx);
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
            self.core.finish(&self.attempt, over);
        }
        Poll::Ready(())
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(husk) = self.attempt.abandon() {
            let returned = Return::bare(Outcome::bare(Ending::Lost(Loss::Executor)));
            self.core.finish(&self.attempt, Over { returned, husk: Some(husk) });
        }
    }
}
