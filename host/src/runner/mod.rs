//! The shell around the rule book, and the only place where effects happen: it claims, starts, tells, kills, and writes
//! down what became of it. What is decided is decided in `task` and `schedule`; what is kept is kept by `store`.
//!
//! It must not know wasmtime, HTTP or the command line.

mod alarms;
mod alerts;
mod carry_out;
mod claim;
mod drain;
mod finish;
mod live;
mod reconcile;
mod slots;
#[cfg(test)]
mod tests;
mod waiters;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

pub use alerts::{Alert, AlertKind};
pub use live::LiveView;
pub use waiters::Waiting;

use crate::config::Config;
use crate::executor::Executors;
use crate::executor::protocol::Report;
use crate::id::{NodeId, TaskId};
use crate::store::life::{self, Change};
use crate::store::{Store, StoreError};
use crate::task::Event;
use crate::time::Clock;

/// What every part of the runner holds.
pub struct Runner {
    pub(crate) node: NodeId,
    pub(crate) store: Store,
    pub(crate) clock: Arc<dyn Clock>,
    config: Config,
    executors: Executors,
    slots: slots::Slots,
    live: live::Registry,
    waiters: waiters::Waiters,
    /// Set once, when the node goes down: nothing is claimed any more.
    draining: AtomicBool,
    claims: AtomicU64,
    claim_wake: Notify,
    timer: alarms::Timer,
    alerts: alerts::Alerts,
    /// Rung when no attempt is in hand any more.
    empty: Notify,
    loops: Mutex<Vec<JoinHandle<()>>>,
}

impl Runner {
    /// Takes over the tasks of dead nodes, and begins to claim.
    ///
    /// # Errors
    /// The store failed.
    pub async fn start(
        config: Config,
        node: NodeId,
        store: Store,
        clock: Arc<dyn Clock>,
        executors: Executors,
        reports: mpsc::UnboundedReceiver<Report>,
    ) -> Result<Arc<Self>, StoreError> {
        let runner = Arc::new(Self {
            node,
            store,
            clock,
            slots: slots::Slots::new(config.slots),
            config,
            executors,
            live: live::Registry::default(),
            waiters: waiters::Waiters::default(),
            draining: AtomicBool::new(false),
            claims: AtomicU64::new(0),
            claim_wake: Notify::new(),
            timer: alarms::Timer::default(),
            alerts: alerts::Alerts::default(),
            empty: Notify::new(),
            loops: Mutex::new(Vec::new()),
        });
        runner.take_over().await?;
        let loops = vec![
            tokio::spawn(Arc::clone(&runner).hear(reports)),
            tokio::spawn(Arc::clone(&runner).claim_loop()),
            tokio::spawn(Arc::clone(&runner).pending_alarm_loop()),
            tokio::spawn(Arc::clone(&runner).live_alarm_loop()),
            tokio::spawn(Arc::clone(&runner).reconcile_loop()),
        ];
        runner.loops.lock().unwrap_or_else(PoisonError::into_inner).extend(loops);
        Ok(runner)
    }

    /// What this node knows of a running attempt beyond its record.
    #[must_use]
    pub fn live_view(&self, id: TaskId) -> Option<LiveView> {
        self.live.view(id)
    }

    /// Attempts in hand, and sandboxes that exist: equal but for moments, and both zero when nothing runs.
    #[must_use]
    pub fn ledger(&self) -> (usize, usize) {
        (self.live.len(), self.executors.live())
    }

    /// From this call on, no end of the task is missed.
    #[must_use]
    pub fn wait_for(&self, id: TaskId) -> Waiting {
        self.waiters.join(id)
    }

    /// A person does something to a task. Durable when this returns, and on its way to the guest.
    ///
    /// # Errors
    /// The store failed.
    pub async fn act(self: &Arc<Self>, id: TaskId, event: Event) -> Result<Change, StoreError> {
        let (deciding, acting) = (Arc::clone(self), Arc::clone(self));
        self.store
            .write_then(
                move |tx| life::change(tx, id, event.clone(), deciding.clock.now()),
                move |change| {
                    acting.follow(&change, None);
                    change
                },
            )
            .await
    }

    /// Something that held tasks back is gone.
    pub fn look_again(&self) {
        self.offer_work();
        self.timer.no_later_than(self.clock.now());
    }

    /// Whether one of the loops has ended, which only a panic can bring about.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.loops.lock().unwrap_or_else(PoisonError::into_inner).iter().any(JoinHandle::is_finished)
    }

    /// Whether the node is going down: then nothing is claimed any more.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    #[must_use]
    pub fn slots_free(&self) -> usize {
        self.slots.free()
    }

    #[must_use]
    pub fn executors(&self) -> &Executors {
        &self.executors
    }
}
