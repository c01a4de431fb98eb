//! Going down: nothing more is claimed, every live attempt is told, what does not come back in time is killed, and
//! every task is written before the store is closed.

use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Runner;
use crate::store::StoreError;
use crate::store::life;
use crate::task::Event;

impl Runner {
    /// Begins to go down, or hurries: every live attempt is told to stop, with at most this much grace.
    ///
    /// # Errors
    /// The store failed.
    pub async fn begin_shutdown(self: &Arc<Self>, grace_max: Duration) -> Result<(), StoreError> {
        self.draining.store(true, Ordering::Release);
        // Whatever was claimed before is in hand once this write is through.
        self.store.write(|_| Ok(())).await?;
        let (deciding, acting) = (Arc::clone(self), Arc::clone(self));
        self.store
            .write_then(
                move |tx| {
                    let mut changes = Vec::new();
                    for key in deciding.live.keys() {
                        let event = Event::ShutdownBegan { attempt: key.attempt, grace_max };
                        changes.push(life::change(tx, key.task, event, deciding.clock.now())?);
                    }
                    Ok(changes)
                },
                move |changes| changes.iter().for_each(|change| acting.follow(change, None)),
            )
            .await
    }

    /// Waits until no attempt is in hand. The graces and the kill bound see to it that this ends, unless a guest is a
    /// zombie: then after `patience` it is given up, and false is returned.
    pub async fn drained_within(&self, patience: Duration) -> bool {
        let none_left = async {
            loop {
                let bell = self.empty.notified();
                if self.live.len() == 0 {
                    return;
                }
                bell.await;
            }
        };
        tokio::time::timeout(patience, none_left).await.is_ok()
    }

    pub(super) fn drained(&self) {
        if self.live.len() == 0 {
            self.empty.notify_waiters();
        }
    }

    /// Whether there were any: not so once the node has gone down.
    fn end_loops(&self) -> bool {
        let loops = std::mem::take(&mut *self.loops.lock().unwrap_or_else(PoisonError::into_inner));
        loops.iter().for_each(tokio::task::JoinHandle::abort);
        !loops.is_empty()
    }

    /// The node ends without a word, as if its process had died: what runs is killed, and found again at the next start.
    /// Does not wait.
    pub fn abandon(self: &Arc<Self>) {
        if self.end_loops() {
            let runner = Arc::clone(self);
            let closing = std::thread::Builder::new().name("atropos-close".into()).spawn(move || runner.close());
            if let Err(error) = closing {
                tracing::error!(%error, "the node could not be closed");
            }
        }
    }

    /// The last step: guests, threads and the store are gone after this. Blocks.
    pub fn close(&self) {
        self.end_loops();
        self.executors.close();
        self.store.close();
        self.waiters.dismiss();
    }
}
