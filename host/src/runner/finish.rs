//! What the executor reports: signs of life are taken in, endings are written down, and only then is a task over.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::Runner;
use crate::executor::protocol::{AttemptKey, Beat, Ended, Report};
use crate::store::life::{self, Change, Finish};
use crate::store::{StoreError, Write};
use crate::task::{CostReceipt, LogLine};

/// After a failure of the store, how long until it is tried again.
const PATIENCE: Duration = Duration::from_millis(500);

/// New log lines of one attempt.
#[derive(Clone)]
pub(super) struct Lines {
    pub(super) key: AttemptKey,
    pub(super) new: Vec<LogLine>,
    pub(super) keep_from: u64,
}

impl Lines {
    fn write(&self, tx: &mut dyn Write) -> Result<(), StoreError> {
        if self.new.is_empty() {
            return Ok(());
        }
        tx.append_logs(self.key.task, self.key.attempt, &self.new, self.keep_from)
    }
}

impl Runner {
    pub(super) async fn hear(self: Arc<Self>, mut reports: mpsc::UnboundedReceiver<Report>) {
        while let Some(report) = reports.recv().await {
            match report {
                Report::Beat(beat) => self.hear_beat(*beat),
                Report::Caught(key) => {
                    let now = self.clock.now();
                    self.live.with(key, |live| live.caught_at = Some(now));
                }
                Report::Ended(ended) => self.hear_end(*ended),
            }
        }
    }

    fn hear_beat(self: &Arc<Self>, beat: Beat) {
        let key = beat.key;
        let alarm_at = self.live.with_alarm(key, |live| live.hear(beat));
        self.watch_from(alarm_at);
        self.write_lines(key);
    }

    /// One write of lines for each attempt at a time: a store that takes long, or a guest that writes much, piles up
    /// nothing.
    fn write_lines(self: &Arc<Self>, key: AttemptKey) {
        let Some(lines) = self.live.with(key, super::live::Live::begin_write).flatten() else { return };
        // In the order of the reports: the write has its place before the task that waits for it.
        let written = self.store.write(move |tx| lines.write(tx));
        let runner = Arc::clone(self);
        tokio::spawn(async move {
            if let Err(error) = written.await {
                tracing::warn!(task = %key.task, error = %crate::chain(&error), "log lines of a task were lost");
            }
            runner.live.with(key, super::live::Live::end_write);
            runner.write_lines(key);
        });
    }

    fn hear_end(self: &Arc<Self>, ended: Ended) {
        let key = ended.last.key;
        let Ended { last, ending, result, cost, scene, told_at, killed_at, gone_at, unprepared: _ } = ended;
        let known = self.live.with(key, |live| {
            live.hear(last);
            live.finishing = true;
            (
                live.vitals,
                live.stop_seen_at,
                live.progress.clone(),
                live.logs.kept(),
                live.owed.take(),
                live.take_lines(),
            )
        });
        let Some((vitals, seen_at, progress, lines_kept, owed, lines)) = known else {
            tracing::error!(task = %key.task, attempt = key.attempt, "an attempt ended that was not in hand");
            return;
        };
        // The sandbox is gone: its slot is free, whatever the store says.
        self.vacate_slot();
        let cost = CostReceipt { log_lines_dropped: cost.log_lines.saturating_sub(lines_kept), ..cost };
        let finish = Finish {
            task: key.task,
            attempt: key.attempt,
            ending,
            owed,
            result: result.map(Into::into),
            cost,
            scene,
            progress,
            entered_at: vitals.entered_at,
            heartbeat_at: vitals.heartbeat_at,
            told_at,
            seen_at,
            killed_at,
            gone_at,
        };
        let end = Arc::new((finish, lines));
        let written = self.write_end(&end);
        tokio::spawn(Arc::clone(self).see_written(written, end));
    }

    /// The ending is written, in the order of the reports; only then is the attempt out of hand.
    fn write_end(
        self: &Arc<Self>,
        end: &Arc<(Finish, Lines)>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send + use<> {
        let (deciding, acting, end) = (Arc::clone(self), Arc::clone(self), Arc::clone(end));
        let key = end.1.key;
        self.store.write_then(
            move |tx| {
                let (finish, lines) = &*end;
                lines.write(tx)?;
                life::finish(tx, finish, deciding.clock.now())
            },
            move |change: Change| {
                acting.live.remove(key);
                acting.drained();
                if let Change::Refused { why, .. } = &change {
                    tracing::warn!(task = %key.task, attempt = key.attempt, why = why.code(), "a late report changes nothing");
                }
                acting.follow(&change, None);
            },
        )
    }

    /// Writes an ending as often as it takes: until then the task is RUNNING, and nobody else may have it.
    async fn see_written(
        self: Arc<Self>,
        written: impl Future<Output = Result<(), StoreError>>,
        end: Arc<(Finish, Lines)>,
    ) {
        let mut outcome = written.await;
        while let Err(error) = outcome {
            if matches!(error, StoreError::Closed) {
                return;
            }
            tracing::error!(task = %end.1.key.task, error = %crate::chain(&error), "writing the end of an attempt failed");
            tokio::time::sleep(PATIENCE).await;
            outcome = self.write_end(&end).await;
        }
    }
}
