//! One attempt as the executor holds it: its guest in a cell that both its task and the reaper can reach.
//!
//! Whoever holds the cell's lock is polling the guest; whoever takes the guest out of it finishes the attempt, once.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;

use super::protocol::AttemptKey;
use super::thread::cpu_time;
use crate::sandbox::{Entry, Outcome, Remains, Signs};
use crate::task::{Death, Ending};
use crate::time::Timestamp;

/// What the guest's future gives when it is over.
pub(super) struct Return {
    pub(super) outcome: Outcome,
    /// Kept until the sandbox is dropped.
    pub(super) slot: Option<OwnedSemaphorePermit>,
    /// Nothing ran, for want of compiled code.
    pub(super) unprepared: bool,
}

impl Return {
    pub(super) fn bare(outcome: Outcome) -> Self {
        Self { outcome, slot: None, unprepared: false }
    }
}

pub(super) type Guest = Pin<Box<dyn Future<Output = Return> + Send>>;

/// What is left of an attempt that is over. To be dropped before anybody is told.
pub(super) struct Over {
    pub(super) returned: Return,
    /// The guest's future, with the sandbox in it if the guest did not come back.
    pub(super) husk: Option<Guest>,
    /// When the guest was over.
    pub(super) at: Timestamp,
}

impl Over {
    pub(super) fn has_dump(&self) -> bool {
        self.returned.outcome.remains.as_ref().is_some_and(Remains::has_dump)
    }
}

/// Where polling the guest led.
pub(super) enum Step {
    Waiting,
    Over(Box<Over>),
    /// Somebody else has taken the guest.
    Gone,
}

pub(super) struct Attempt {
    pub(super) key: AttemptKey,
    pub(super) signs: Arc<Signs>,
    pub(super) metered: bool,
    cell: Mutex<Cell>,
    /// Whether the last report was sent.
    closed: Mutex<bool>,
    told_at: AtomicI64,
    killed_at: AtomicI64,
    cpu_nanos: AtomicU64,
    entry: Mutex<Option<Entry>>,
}

struct Cell {
    guest: Option<Guest>,
    waker: Option<Waker>,
}

impl Attempt {
    pub(super) fn new(key: AttemptKey, signs: Arc<Signs>, metered: bool, guest: Guest, entry: Entry) -> Self {
        Self {
            key,
            signs,
            metered,
            cell: Mutex::new(Cell { guest: Some(guest), waker: None }),
            closed: Mutex::new(false),
            told_at: AtomicI64::new(0),
            killed_at: AtomicI64::new(0),
            cpu_nanos: AtomicU64::new(0),
            entry: Mutex::new(Some(entry)),
        }
    }

    /// Polls the guest on the calling thread.
    pub(super) fn advance(&self, cx: &mut Context<'_>) -> Step {
        let mut cell = self.cell.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(guest) = &mut cell.guest else { return Step::Gone };
        match self.poll(guest, cx) {
            Poll::Ready(returned) => {
                Step::Over(Box::new(Over { returned, husk: cell.guest.take(), at: self.signs.now() }))
            }
            Poll::Pending => {
                if !cell.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                    cell.waker = Some(cx.waker().clone());
                }
                Step::Waiting
            }
        }
    }

    /// Takes the guest of a killed attempt away from its task, unless that is polling it. The task looks for the kill
    /// after each poll, so one of the two always finds it.
    pub(super) fn reap(&self) -> Option<Over> {
        fence(Ordering::SeqCst);
        let mut cell = match self.cell.try_lock() {
            Ok(cell) => cell,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let mut guest = cell.guest.take()?;
        let waker = cell.waker.take();
        drop(cell);
        // Wherever it is suspended, it sees first that it was killed, and comes back with a backtrace.
        let returned = match self.poll(&mut guest, &mut Context::from_waker(Waker::noop())) {
            Poll::Ready(returned) => returned,
            Poll::Pending => Return::bare(Outcome::bare(Ending::Killed)),
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        Some(Over { returned, husk: Some(guest), at: self.signs.now() })
    }

    /// Takes the guest out unless somebody has done so.
    pub(super) fn abandon(&self) -> Option<Guest> {
        self.cell.lock().unwrap_or_else(PoisonError::into_inner).guest.take()
    }

    fn poll(&self, guest: &mut Guest, cx: &mut Context<'_>) -> Poll<Return> {
        let before = cpu_time();
        let polled = catch_unwind(AssertUnwindSafe(|| guest.as_mut().poll(cx)));
        let spent = cpu_time().saturating_sub(before);
        self.cpu_nanos.fetch_add(u64::try_from(spent.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        polled.unwrap_or_else(|_| {
            tracing::error!(task = %self.key.task, attempt = self.key.attempt, "the host panicked under a guest");
            let message = "the host failed under the guest; the node's log says more".to_owned();
            Poll::Ready(Return::bare(Outcome::died(Death::HostFault, message)))
        })
    }

    pub(super) fn told(&self, at: Timestamp) {
        set_once(&self.told_at, at);
    }

    pub(super) fn killed(&self, at: Timestamp) {
        set_once(&self.killed_at, at);
    }

    pub(super) fn told_at(&self) -> Option<Timestamp> {
        get(&self.told_at)
    }

    pub(super) fn killed_at(&self) -> Option<Timestamp> {
        get(&self.killed_at)
    }

    pub(super) fn cpu(&self) -> Duration {
        Duration::from_nanos(self.cpu_nanos.load(Ordering::Relaxed))
    }

    /// Reports are sent under this lock, so that the last one is the last. True once that was sent.
    pub(super) fn reporting(&self) -> MutexGuard<'_, bool> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the attempt out of the ledger.
    pub(super) fn strike_out(&self) {
        drop(self.entry.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

fn set_once(instant: &AtomicI64, at: Timestamp) {
    // Not the first: the first stands.
    let _ = instant.compare_exchange(0, at.as_micros(), Ordering::SeqCst, Ordering::SeqCst);
}

fn get(instant: &AtomicI64) -> Option<Timestamp> {
    match instant.load(Ordering::SeqCst) {
        0 => None,
        micros => Some(Timestamp::from_micros(micros)),
    }
}
