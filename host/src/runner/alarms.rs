//! Budgets and delays: whatever ends by the clock. Alarms are worked out from the state; nothing of them is stored.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use super::Runner;
use crate::executor::protocol::{AttemptKey, Order};
use crate::store::life::{self, Change};
use crate::task::{Event, Task, apply};
use crate::time::Timestamp;

/// However far the next alarm is, look again after this: the wall clock may have been set.
const NAP_MAX: Duration = Duration::from_secs(5);
/// After a failure of the store, how long until it is tried again.
const PATIENCE: Duration = Duration::from_millis(500);
const BATCH: usize = 500;
/// A guest that will never run again may take so many times the kill bound until what it held is given back: much memory
/// takes long, and hurts nobody meanwhile.
const CLEAN_UP_BOUNDS: u32 = 20;

/// When the two loops below have to wake.
pub(super) struct Timer {
    pending_at: AtomicI64,
    pending_bell: Notify,
    live_at: AtomicI64,
    live_bell: Notify,
}

impl Default for Timer {
    fn default() -> Self {
        Self {
            pending_at: AtomicI64::new(0),
            pending_bell: Notify::new(),
            live_at: AtomicI64::new(0),
            live_bell: Notify::new(),
        }
    }
}

impl Timer {
    /// A pending task wants to be looked at then.
    pub(super) fn no_later_than(&self, at: Timestamp) {
        if at.as_micros() < self.pending_at.load(Ordering::Acquire) {
            self.pending_bell.notify_one();
        }
    }
}

impl Runner {
    /// An attempt in hand wants to be looked at then.
    pub(super) fn watch_from(&self, at: Option<Timestamp>) {
        if at.is_some_and(|at| at.as_micros() < self.timer.live_at.load(Ordering::Acquire)) {
            self.timer.live_bell.notify_one();
        }
    }

    /// Ends pending tasks whose time is over, and offers those whose time has come.
    pub(super) async fn pending_alarm_loop(self: Arc<Self>) {
        loop {
            // Until the new time is known, whatever comes rings.
            self.timer.pending_at.store(i64::MAX, Ordering::Release);
            let nap = match self.pending_alarms().await {
                Ok(next) => {
                    let at = next.unwrap_or(Timestamp::FAR);
                    self.timer.pending_at.store(at.as_micros(), Ordering::Release);
                    at.since(self.clock.now()).min(NAP_MAX)
                }
                Err(error) => {
                    tracing::error!(error = %crate::chain(&error), "looking for spent waits failed");
                    PATIENCE
                }
            };
            tokio::select! {
                () = tokio::time::sleep(nap) => {}
                () = self.timer.pending_bell.notified() => {}
            }
        }
    }

    async fn pending_alarms(self: &Arc<Self>) -> Result<Option<Timestamp>, crate::store::StoreError> {
        let now = self.clock.now();
        let due = self.store.read(move |view| Ok(!view.due(now, 1)?.is_empty())).await?;
        if due {
            let acting = Arc::clone(self);
            let more = self
                .store
                .write_then(
                    move |tx| life::expire_due(tx, now, BATCH),
                    move |changes| {
                        changes.iter().for_each(|change| acting.follow(change, None));
                        changes.len() == BATCH
                    },
                )
                .await?;
            if more {
                return Ok(Some(now));
            }
        }
        self.offer_work();
        self.store.read(move |view| life::next_wake_at(view, now)).await
    }

    /// Stops attempts whose budgets are spent, and kills those whose grace is.
    pub(super) async fn live_alarm_loop(self: Arc<Self>) {
        loop {
            self.timer.live_at.store(i64::MAX, Ordering::Release);
            let now = self.clock.now();
            let (due, next) = self.live.due(now);
            due.into_iter().for_each(|key| self.ring(key, now));
            let at = next.unwrap_or(Timestamp::FAR);
            self.timer.live_at.store(at.as_micros(), Ordering::Release);
            let nap = at.since(self.clock.now()).min(NAP_MAX);
            tokio::select! {
                () = tokio::time::sleep(nap) => {}
                () = self.timer.live_bell.notified() => {}
            }
        }
    }

    fn ring(self: &Arc<Self>, key: AttemptKey, now: Timestamp) {
        let look = self.live.with(key, |live| {
            let kill = live.killed_at.map(|at| (at, live.caught_at.is_some()));
            if live.finishing { None } else { Some((live.task.clone(), live.alarm(), kill)) }
        });
        let Some(Some((task, alarm, kill))) = look else { return };
        if let Some((killed_at, caught)) = kill {
            return self.insist(key, killed_at, caught, now);
        }
        match alarm {
            Some((at, event)) if at <= now => self.go_off(key, &task, event, now),
            Some((at, _)) => self.live.remind(key, at),
            None => {}
        }
    }

    /// A killed guest is not gone though it should be: its executor has to die for it.
    fn insist(&self, key: AttemptKey, killed_at: Timestamp, caught: bool, now: Timestamp) {
        let bound = self.config.kill_bound;
        let over_at = killed_at + if caught { bound * CLEAN_UP_BOUNDS } else { bound };
        // What rings may be an alarm from before the kill.
        if now < over_at {
            self.live.remind(key, over_at);
            return self.watch_from(Some(over_at));
        }
        let what = if caught { "was not cleared away" } else { "did not go" };
        let why =
            format!("the guest of task {} {what} within {:?} after it was killed", key.task, now.since(killed_at));
        let killed = self.executors.put_down(key, &why);
        if !killed {
            tracing::error!(task = %key.task, attempt = key.attempt, why, "zombie: a killed guest is still there");
            self.executors.order(Order::Kill { key });
        }
        self.live.remind(key, now + bound);
        self.watch_from(Some(now + bound));
    }

    fn go_off(self: &Arc<Self>, key: AttemptKey, task: &Task, event: Event, now: Timestamp) {
        // Force needs no leave of the store: the request to stop is already in it.
        if matches!(event, Event::GraceSpent { .. }) {
            if apply(task.state.clone(), event, &task.context(now)).is_ok() {
                self.kill_guest(key);
            }
            return;
        }
        // Once, however many signs of life come while the store takes its time.
        let first = self.live.with(key, |live| !std::mem::replace(&mut live.asking, true));
        if first == Some(true) {
            tokio::spawn(Arc::clone(self).ask_to_stop(key, event));
        }
    }

    /// Writes the request to stop, and then tells the guest. A store that fails does not keep the guest alive.
    async fn ask_to_stop(self: Arc<Self>, key: AttemptKey, event: Event) {
        // However late the store takes it, this is when it was asked.
        let at = self.clock.now();
        let (acting, asked) = (Arc::clone(&self), event.clone());
        let outcome = self.store.write_then(
            move |tx| life::change(tx, key.task, asked.clone(), at),
            move |change: Change| {
                acting.follow(&change, None);
                // Refused: the attempt is over or the task is stopping already. Its own alarm goes on.
                acting.watch_from(acting.live.with_alarm(key, |live| live.asking = false));
            },
        );
        let why = match tokio::time::timeout(PATIENCE, outcome).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => crate::chain(&error),
            Err(_) => "the store does not answer".to_owned(),
        };
        tracing::error!(task = %key.task, why, "a spent budget could not be written; the guest is stopped all the same");
        self.stop_unwritten(key, &event, at);
    }

    /// Stops an attempt whose spent budget the store would not take: it is written with the attempt's end.
    fn stop_unwritten(&self, key: AttemptKey, event: &Event, at: Timestamp) {
        let decided = self.live.with(key, |live| {
            let state = apply(live.task.state.clone(), event.clone(), &live.task.context(at)).ok()?.state;
            live.owed = Some((event.clone(), at));
            Some(Task { state, ..live.task.clone() })
        });
        if let Some(Some(task)) = decided {
            self.tell_guest(&task, key.attempt);
        }
        self.watch_from(self.live.with_alarm(key, |live| live.asking = false));
    }
}
