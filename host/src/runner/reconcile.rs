//! The only recovery: what the store says is compared with what really runs, a plan is made, and carried out.
//! It runs at the start, where everything that runs belongs to the dead, and on a timer.

use std::collections::HashSet;
use std::sync::Arc;

use super::Runner;
use crate::executor::protocol::AttemptKey;
use crate::id::NodeId;
use crate::store::StoreError;
use crate::store::life::{self, Change, Finish};
use crate::task::{CostReceipt, Ending, Loss, State, Task};
use crate::time::Timestamp;

/// One thing to put right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Repair {
    /// The store has it running, but it runs nowhere.
    Lost(AttemptKey),
    /// It runs, but the store knows of no such attempt.
    Orphan(AttemptKey),
    /// The store has a request to stop that the attempt may not have heard.
    Tell(AttemptKey),
}

/// What is wrong. An attempt of this node that is missing for the first time may be on its way: it is only suspected,
/// and lost if it is missing again.
pub(super) fn plan(
    node: NodeId,
    stored: &[Task],
    in_hand: &[AttemptKey],
    untold: &HashSet<AttemptKey>,
    suspects: &HashSet<AttemptKey>,
) -> (Vec<Repair>, HashSet<AttemptKey>) {
    let in_hand: HashSet<_> = in_hand.iter().copied().collect();
    let mut repairs = Vec::new();
    let mut suspected = HashSet::new();
    let mut running = HashSet::new();
    for task in stored {
        let key = AttemptKey { task: task.spec.id, attempt: task.state.tally().attempts };
        running.insert(key);
        let (hold, stopping) = match &task.state {
            State::Running(s) => (s.hold(), false),
            State::Stopping(s) => (s.hold(), true),
            State::Pending(_) | State::Ended(_) => continue,
        };
        if in_hand.contains(&key) {
            if stopping && untold.contains(&key) {
                repairs.push(Repair::Tell(key));
            }
        } else if hold.node != node || suspects.contains(&key) {
            repairs.push(Repair::Lost(key));
        } else {
            suspected.insert(key);
        }
    }
    for key in in_hand.difference(&running) {
        if suspects.contains(key) {
            repairs.push(Repair::Orphan(*key));
        } else {
            suspected.insert(*key);
        }
    }
    (repairs, suspected)
}

impl Runner {
    /// At the start: every task that the store has running belongs to a process that is gone.
    pub(super) async fn take_over(self: &Arc<Self>) -> Result<(), StoreError> {
        self.reconcile(&mut HashSet::new()).await
    }

    pub(super) async fn reconcile_loop(self: Arc<Self>) {
        let mut suspects = HashSet::new();
        loop {
            tokio::time::sleep(self.config.reconcile_every).await;
            self.look_for_alerts();
            if let Err(error) = self.reconcile(&mut suspects).await {
                tracing::error!(error = %crate::chain(&error), "reconciling failed");
            }
        }
    }

    async fn reconcile(self: &Arc<Self>, suspects: &mut HashSet<AttemptKey>) -> Result<(), StoreError> {
        let in_hand = self.live.keys();
        let stored = self.store.read(|view| view.running()).await?;
        let untold = in_hand
            .iter()
            .copied()
            .filter(|key| self.live.with(*key, |live| live.stop().is_none() && !live.finishing).unwrap_or(false))
            .collect();
        let (repairs, suspected) = plan(self.node, &stored, &in_hand, &untold, suspects);
        *suspects = suspected;
        let lost: Vec<AttemptKey> = repairs
            .iter()
            .filter_map(|repair| if let Repair::Lost(key) = repair { Some(*key) } else { None })
            .collect();
        self.give_up_lost(lost).await?;
        for repair in repairs {
            match repair {
                Repair::Lost(_) => {}
                Repair::Orphan(key) => {
                    tracing::error!(task = %key.task, attempt = key.attempt, "an attempt runs that the store does not know");
                    self.kill_guest(key);
                }
                Repair::Tell(key) => {
                    if let Some(task) = stored.iter().find(|task| task.spec.id == key.task) {
                        self.tell_guest(task, key.attempt);
                    }
                }
            }
        }
        Ok(())
    }

    async fn give_up_lost(self: &Arc<Self>, lost: Vec<AttemptKey>) -> Result<(), StoreError> {
        const BATCH: usize = 500;
        for keys in lost.chunks(BATCH) {
            let (deciding, acting, keys) = (Arc::clone(self), Arc::clone(self), keys.to_vec());
            self.store
                .write_then(
                    move |tx| {
                        let now = deciding.clock.now();
                        // Whatever was claimed before this write is in hand by now: what was on its way is not lost.
                        let lost = keys.iter().filter(|key| deciding.live.with(**key, |_| ()).is_none());
                        lost.map(|key| life::finish(tx, &lost_attempt(*key, now), now)).collect()
                    },
                    move |changes: Vec<Change>| changes.iter().for_each(|change| acting.follow(change, None)),
                )
                .await?;
        }
        Ok(())
    }
}

/// All that is known of an attempt whose node is gone.
fn lost_attempt(key: AttemptKey, now: Timestamp) -> Finish {
    Finish {
        task: key.task,
        attempt: key.attempt,
        ending: Ending::Lost { loss: Loss::Node, message: String::new() },
        owed: None,
        result: None,
        cost: CostReceipt::default(),
        scene: None,
        progress: None,
        entered_at: None,
        heartbeat_at: None,
        told_at: None,
        seen_at: None,
        killed_at: None,
        gone_at: now,
    }
}
