//! Queues: which there are, and holding them.

use std::sync::Arc;

use super::{Error, Host};
use crate::id::QueueName;
use crate::store::{Pause, QueueRow};
use crate::task::Ask;

impl Host {
    /// Every queue that is paused or has live tasks, by name.
    ///
    /// # Errors
    /// The store failed.
    pub async fn queues(&self) -> Result<Vec<QueueRow>, Error> {
        Ok(self.inner.store.read(|view| view.queues()).await?)
    }

    /// Nothing of the queue starts any more, or nothing below a priority. What runs goes on; budgets of what waits count
    /// on. Holds across restarts.
    ///
    /// # Errors
    /// The store failed.
    pub async fn pause(&self, queue: QueueName, below: Option<i8>, ask: Ask) -> Result<Pause, Error> {
        let pause = Pause { below, by: ask.by, why: ask.why, at: self.inner.clock.now() };
        let kept = pause.clone();
        let runner = Arc::clone(&self.inner.runner);
        let paused = self.inner.store.write_then(
            move |tx| tx.set_pause(&queue, Some(&kept)),
            // It may hold less than the one before it.
            move |()| runner.look_again(),
        );
        paused.await?;
        Ok(pause)
    }

    /// Lifts the pause of a queue; false if there was none.
    ///
    /// # Errors
    /// The store failed.
    pub async fn resume(&self, queue: QueueName) -> Result<bool, Error> {
        let runner = Arc::clone(&self.inner.runner);
        Ok(self
            .inner
            .store
            .write_then(
                move |tx| {
                    let paused = tx.pause(&queue)?.is_some();
                    tx.set_pause(&queue, None)?;
                    Ok(paused)
                },
                move |paused| {
                    runner.look_again();
                    paused
                },
            )
            .await?)
    }
}
