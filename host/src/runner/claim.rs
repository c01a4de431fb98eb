//! From pending to running: whenever a slot is free and a task is ready, at once.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Runner;
use crate::store::life::{self, Born, Change, Submission};
use crate::store::{StoreError, Write};
use crate::task::{Effect, Task};

/// After a failure of the store, how long until it is tried again.
const PATIENCE: Duration = Duration::from_millis(500);

impl Runner {
    /// Registers tasks, and starts those that can start at once in the same commit.
    ///
    /// # Errors
    /// The store failed; then none is registered.
    pub async fn admit(self: &Arc<Self>, submissions: Vec<Submission>) -> Result<Vec<(Task, bool)>, StoreError> {
        let taken = self.slots.take_for_newborn(submissions.len());
        let (deciding, acting) = (Arc::clone(self), Arc::clone(self));
        let slot_guard = SlotGuard { runner: Arc::clone(self), count: taken };
        self.store
            .write_then(
                move |tx| {
                    let mut free = if deciding.is_draining() { 0 } else { taken };
                    let mut born = Vec::with_capacity(submissions.len());
                    for submission in &submissions {
                        let claim = (free > 0).then_some(deciding.node);
                        let outcome = life::submit(tx, &Submission { claim, ..submission.clone() })?;
                        free -= usize::from(starts(&outcome));
                        born.push((outcome, submission.input.clone()));
                    }
                    Ok(born)
                },
                move |born| {
                    let started = born.iter().filter(|(outcome, _)| starts(outcome)).count();
                    slot_guard.keep(started);
                    born.into_iter().map(|(outcome, input)| acting.welcome(outcome, input.as_ref())).collect()
                },
            )
            .await
    }

    fn welcome(&self, outcome: Born, input: Option<&Arc<str>>) -> (Task, bool) {
        match outcome {
            Born::Existing(task) => (task, true),
            Born::New { task, effects, trail } => {
                self.follow_up(&task, &effects, &trail, input);
                (task, false)
            }
        }
    }

    pub(super) async fn claim_loop(self: Arc<Self>) {
        loop {
            self.claim_wake.notified().await;
            while !self.is_draining()
                && let Some(slots) = self.slots.take_for_work()
            {
                if let Err(error) = self.claim(slots).await {
                    tracing::error!(error = %crate::chain(&error), "claiming failed");
                    self.slots.work_waits();
                    tokio::time::sleep(PATIENCE).await;
                }
            }
        }
    }

    async fn claim(self: &Arc<Self>, slots: usize) -> Result<(), StoreError> {
        let (deciding, acting) = (Arc::clone(self), Arc::clone(self));
        let slot_guard = SlotGuard { runner: Arc::clone(self), count: slots };
        let claims = self.claims.load(Ordering::Relaxed);
        self.store
            .write_then(
                move |tx| {
                    if deciding.is_draining() {
                        return Ok(Vec::new());
                    }
                    let now = deciding.clock.now();
                    let changes = life::claim(tx, deciding.node, slots, claims, now)?;
                    changes.into_iter().map(|change| with_input(tx, change)).collect()
                },
                move |changes| {
                    let started = changes.iter().filter(|(change, _)| begins(change)).count();
                    acting.claims.fetch_add(started as u64, Ordering::Relaxed);
                    slot_guard.keep(started);
                    // All slots used, or one lost to a task that was over: there may be more.
                    if changes.len() == slots {
                        acting.offer_work();
                    }
                    changes.into_iter().for_each(|(change, input)| acting.follow(&change, input.as_ref()));
                },
            )
            .await
    }

    /// The guest of an attempt is gone.
    pub(super) fn vacate_slot(&self) {
        if self.slots.vacate() {
            self.claim_wake.notify_one();
        }
    }
}

/// Slots that go back unless a guest is started in them, whatever becomes of the write.
struct SlotGuard {
    runner: Arc<Runner>,
    count: usize,
}

impl SlotGuard {
    fn keep(mut self, used: usize) {
        self.runner.slots.use_up(used);
        self.count = self.count.saturating_sub(used);
    }
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        if self.runner.slots.give_back(self.count) {
            self.runner.claim_wake.notify_one();
        }
    }
}

fn starts(outcome: &Born) -> bool {
    matches!(outcome, Born::New { effects, .. } if has_start(effects))
}

fn begins(change: &Change) -> bool {
    matches!(change, Change::Done { effects, .. } if has_start(effects))
}

fn has_start(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::StartGuest { .. }))
}

fn with_input(tx: &dyn Write, change: Change) -> Result<(Change, Option<Arc<str>>), StoreError> {
    let input = match &change {
        Change::Done { task, .. } if begins(&change) => tx.input(task.spec.id)?,
        _ => None,
    };
    Ok((change, input))
}
