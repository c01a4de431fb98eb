//! `atropos:task/lifecycle`: stop requests, heartbeats, waiting.

use std::time::Duration;

use super::bindings::lifecycle::{Host, Progress, StopReason as GuestReason, StopRequest};
use super::guest::Guest;
use super::text::clip;
use crate::task::{Progress as Known, StopReason};

/// A progress note is cut here.
const NOTE_BYTES_MAX: usize = 1 << 10;

impl Host for Guest {
    fn check_cancel(&mut self) -> wasmtime::Result<Option<StopRequest>> {
        self.enter("atropos:task/lifecycle.check-cancel");
        Ok(self.stop_request())
    }

    fn heartbeat(&mut self, progress: Option<Progress>) -> wasmtime::Result<Option<StopRequest>> {
        self.enter("atropos:task/lifecycle.heartbeat");
        self.signs.beat();
        if let Some(known) = progress.and_then(known) {
            self.signs.count_out(known.note.as_ref().map_or(0, String::len));
            self.signs.progress(known);
        }
        Ok(self.stop_request())
    }

    async fn sleep(&mut self, ms: u32) -> wasmtime::Result<Option<StopRequest>> {
        self.enter("atropos:task/lifecycle.sleep");
        let span = Duration::from_millis(u64::from(ms));
        tokio::select! {
            biased;
            told = self.signs.token.told_or_killed() => told?,
            () = tokio::time::sleep(span) => {}
        }
        Ok(self.stop_request())
    }
}

impl Guest {
    fn stop_request(&self) -> Option<StopRequest> {
        let notice = self.signs.token.pending()?;
        self.signs.see_stop();
        let left = notice.kill_at.since(self.signs.clock.now());
        let message = notice.message.to_string();
        self.signs.count_in(message.len());
        Some(StopRequest {
            reason: match notice.reason {
                StopReason::Cancelled | StopReason::Forced => GuestReason::Cancelled,
                StopReason::RunSpent | StopReason::LifeSpent | StopReason::HeartbeatMissed => GuestReason::TimedOut,
                StopReason::Shutdown => GuestReason::ShuttingDown,
            },
            grace_ms: u32::try_from(left.as_millis()).unwrap_or(u32::MAX),
            message,
        })
    }
}

/// The progress, if it is a number that says how far.
fn known(progress: Progress) -> Option<Known> {
    let counts = |number: &f64| number.is_finite() && *number >= 0.0;
    counts(&progress.done).then(|| Known {
        done: progress.done,
        total: progress.total.filter(counts),
        note: progress.note.map(|note| clip(&note, NOTE_BYTES_MAX)),
    })
}
