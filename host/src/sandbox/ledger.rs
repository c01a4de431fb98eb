//! The leak ledger: what of guests is alive in this process, counted by guards, so that a leak shows as a number.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// How much of guests is alive. All zero when nothing runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub attempts: usize,
    pub sandboxes: usize,
    /// Linear memory and tables of all guests together.
    pub guest_memory_bytes: u64,
    pub scratch_folders: usize,
    /// Sockets of guests, and of look-ups and requests made for them.
    pub sockets: usize,
}

impl Counts {
    /// Of two processes together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            attempts: self.attempts + other.attempts,
            sandboxes: self.sandboxes + other.sandboxes,
            guest_memory_bytes: self.guest_memory_bytes + other.guest_memory_bytes,
            scratch_folders: self.scratch_folders + other.scratch_folders,
            sockets: self.sockets + other.sockets,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    attempts: AtomicUsize,
    sandboxes: AtomicUsize,
    scratch_folders: AtomicUsize,
    sockets: AtomicUsize,
    pub(super) guest_memory: AtomicU64,
}

impl Ledger {
    pub(crate) fn counts(&self) -> Counts {
        Counts {
            attempts: self.attempts.load(Ordering::SeqCst),
            sandboxes: self.sandboxes.load(Ordering::SeqCst),
            guest_memory_bytes: self.guest_memory.load(Ordering::SeqCst),
            scratch_folders: self.scratch_folders.load(Ordering::SeqCst),
            sockets: self.sockets.load(Ordering::SeqCst),
        }
    }

    pub(crate) fn attempt(self: &Arc<Self>) -> Entry {
        Entry::new(self, |ledger| &ledger.attempts)
    }

    pub(super) fn sandbox(self: &Arc<Self>) -> Entry {
        Entry::new(self, |ledger| &ledger.sandboxes)
    }

    pub(super) fn scratch_folder(self: &Arc<Self>) -> Entry {
        Entry::new(self, |ledger| &ledger.scratch_folders)
    }

    pub(super) fn socket(self: &Arc<Self>) -> Entry {
        Entry::new(self, |ledger| &ledger.sockets)
    }
}

/// Counts one thing for as long as it lives.
#[derive(Debug)]
pub(crate) struct Entry {
    ledger: Arc<Ledger>,
    column: fn(&Ledger) -> &AtomicUsize,
}

impl Entry {
    fn new(ledger: &Arc<Ledger>, column: fn(&Ledger) -> &AtomicUsize) -> Self {
        column(ledger).fetch_add(1, Ordering::SeqCst);
        Self { ledger: Arc::clone(ledger), column }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        (self.column)(&self.ledger).fetch_sub(1, Ordering::SeqCst);
    }
}
