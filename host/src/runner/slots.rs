//! How many attempts this node may begin, and whether a ready task waits to be one of them.
//!
//! Both under one lock: a slot that comes free while the claim loop finds none is never overlooked.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Free slots. A slot is taken before a claim and given back when its sandbox is gone.
pub(super) struct Slots {
    all: usize,
    inner: Mutex<Inner>,
}

struct Inner {
    free: usize,
    /// With a guest in them; what is neither free nor used is on its way through a claim.
    used: usize,
    /// A task may be ready that no slot has been offered to.
    work_waits: bool,
}

impl Slots {
    /// All free, and nobody has looked for work yet.
    pub(super) const fn new(all: usize) -> Self {
        Self { all, inner: Mutex::new(Inner { free: all, used: 0, work_waits: true }) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A task may be ready. Whoever says so rings the claim loop.
    pub(super) fn work_waits(&self) {
        self.lock().work_waits = true;
    }

    /// For the claim loop: all that are free, if work waits. Whoever takes them looks for it.
    pub(super) fn take_for_work(&self) -> Option<usize> {
        let mut inner = self.lock();
        if !inner.work_waits || inner.free == 0 {
            return None;
        }
        inner.work_waits = false;
        Some(std::mem::take(&mut inner.free))
    }

    /// For newborn tasks: up to `wanted`, but none past those that wait already.
    pub(super) fn take_for_newborn(&self, wanted: usize) -> usize {
        let mut inner = self.lock();
        if inner.work_waits {
            return 0;
        }
        let taken = wanted.min(inner.free);
        inner.free -= taken;
        taken
    }

    /// Guests are started in these.
    pub(super) fn use_up(&self, count: usize) {
        self.lock().used += count;
    }

    /// The guest in one is gone. See [`Slots::give_back`].
    pub(super) fn vacate(&self) -> bool {
        let mut inner = self.lock();
        inner.used = inner.used.saturating_sub(1);
        inner.free += 1;
        inner.work_waits
    }

    /// Nothing was started in these. Whether somebody waits for one: then the claim loop is to be rung.
    pub(super) fn give_back(&self, count: usize) -> bool {
        let mut inner = self.lock();
        inner.free += count;
        count > 0 && inner.work_waits
    }

    /// Those without a guest.
    pub(super) fn free(&self) -> usize {
        self.all.saturating_sub(self.lock().used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_that_comes_free_after_the_claim_loop_found_none_rings_it() {
        let slots = Slots::new(1);
        assert_eq!(slots.take_for_work(), Some(1));
        slots.work_waits();
        assert_eq!(slots.take_for_work(), None, "there is none left");
        assert!(slots.give_back(1));
        assert_eq!(slots.take_for_work(), Some(1));
        assert!(!slots.give_back(1), "nobody has asked since");
    }

    #[test]
    fn a_newborn_takes_no_slot_past_those_that_wait() {
        let slots = Slots::new(2);
        assert_eq!(slots.take_for_newborn(1), 0, "nobody has looked yet whether work waits");
        assert_eq!(slots.take_for_work(), Some(2));
        assert!(!slots.give_back(2));
        assert_eq!(slots.take_for_newborn(1), 1);
        slots.use_up(1);
        slots.work_waits();
        assert_eq!(slots.take_for_newborn(1), 0);
        assert_eq!(slots.free(), 1);
        assert!(slots.vacate());
        assert_eq!((slots.free(), slots.take_for_work()), (2, Some(2)));
        assert_eq!(slots.free(), 2, "a look for work is no work");
    }
}
