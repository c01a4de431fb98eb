//! The attempt's token: whether it was told to stop, whether it was killed, and what wakes a host call that waits.
//!
//! Once the token is dead, no host call of the attempt has any effect.

use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use crate::task::StopReason;
use crate::time::Timestamp;

/// What the guest is told when it is asked to stop.
#[derive(Clone, Debug)]
pub(crate) struct StopNotice {
    pub reason: StopReason,
    /// The guest will be killed then.
    pub kill_at: Timestamp,
    pub message: Arc<str>,
}

/// The error of a host call whose attempt was killed.
#[derive(Debug)]
pub(super) struct Killed;

impl fmt::Display for Killed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the attempt was killed")
    }
}

impl std::error::Error for Killed {}

/// One attempt's licence to act.
#[derive(Debug, Default)]
pub(crate) struct Token {
    dead: AtomicBool,
    told: AtomicBool,
    notice: Mutex<Option<StopNotice>>,
    changed: Notify,
}

impl Token {
    /// Tells the guest to stop. A later notice replaces an earlier one.
    pub(crate) fn tell(&self, notice: StopNotice) {
        *self.notice.lock().unwrap_or_else(PoisonError::into_inner) = Some(notice);
        self.told.store(true, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    /// Ends the licence. Returns whether it was this call that ended it.
    pub(crate) fn kill(&self) -> bool {
        let first = !self.dead.swap(true, Ordering::SeqCst);
        if first {
            self.changed.notify_waiters();
        }
        first
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    /// The stop request that is pending.
    pub(super) fn pending(&self) -> Option<StopNotice> {
        if !self.told.load(Ordering::SeqCst) {
            return None;
        }
        self.notice.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// An error if the attempt was killed.
    pub(super) fn check(&self) -> wasmtime::Result<()> {
        if self.is_dead() { Err(Killed.into()) } else { Ok(()) }
    }

    /// Waits until the attempt is killed.
    pub(super) async fn killed(&self) -> wasmtime::Error {
        self.wait_for(|| self.is_dead()).await;
        Killed.into()
    }

    /// Waits until the attempt is killed, which is an error, or told to stop.
    pub(super) async fn told_or_killed(&self) -> wasmtime::Result<()> {
        self.wait_for(|| self.is_dead() || self.told.load(Ordering::SeqCst)).await;
        self.check()
    }

    async fn wait_for(&self, met: impl Fn() -> bool) {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if met() {
                return;
            }
            changed.await;
        }
    }
}
