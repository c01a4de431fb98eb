//! Being stopped, and being seen alive.
//!
//! Every function here but [`stop_requested`] returns [`Stopped`] once the host has asked the task to stop.

use std::error::Error;
use std::fmt::{self, Display};
use std::time::Duration;

use crate::host;

/// Why the host wants the task to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// Somebody cancelled the task, or the task that it belongs to.
    Cancelled,
    /// The task ran longer than it may.
    TimedOut,
    /// The host is going down; the task may be run again elsewhere.
    ShuttingDown,
}

impl Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed out",
            Self::ShuttingDown => "shutting down",
        })
    }
}

/// The host's request to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopRequest {
    /// Why.
    pub reason: StopReason,
    /// How long the task may still run. What has not returned by then is stopped by force.
    pub grace: Duration,
    /// A word from whoever asked; may be empty.
    pub message: String,
}

/// The task was asked to stop: the error that `?` turns into [`Failure::Stopped`](crate::Failure::Stopped).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped(pub StopRequest);

impl Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "asked to stop: {}", self.0.reason)?;
        if !self.0.message.is_empty() {
            write!(f, ", {}", self.0.message)?;
        }
        Ok(())
    }
}

impl Error for Stopped {}

/// How far a task is, in a unit of its own: rows, bytes, per cent.
///
/// ```
/// use atropos_guest::Progress;
///
/// let half = Progress::new(50.0).of(100.0).note("writing");
/// assert_eq!(half.total, Some(100.0));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// How much is done.
    pub done: f64,
    /// How much there is to do, if that is known.
    pub total: Option<f64>,
    /// What the task is at, for people.
    pub note: Option<String>,
}

impl Progress {
    /// So much is done, out of nobody knows how much.
    pub fn new(done: f64) -> Self {
        Self { done, total: None, note: None }
    }

    /// With the amount there is to do.
    #[must_use]
    pub fn of(mut self, total: f64) -> Self {
        self.total = Some(total);
        self
    }

    /// With a word for people.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }
}

/// Looks whether the task was asked to stop. Costs well under a microsecond: call it in every loop.
///
/// # Errors
/// [`Stopped`] if it was.
pub fn check_cancel() -> Result<(), Stopped> {
    or_stopped(host::check_cancel())
}

/// The request to stop, if there is one; for a task that winds up in a way of its own.
///
/// ```
/// use atropos_guest::{Failure, stop_requested};
///
/// fn run(rows: Vec<u32>) -> Result<u32, Failure> {
///     let mut sum = 0;
///     for row in rows {
///         if let Some(stop) = stop_requested() {
///             // There is `stop.grace` left to put things in order.
///             return Err(Failure::Stopped);
///         }
///         sum += row;
///     }
///     Ok(sum)
/// }
/// # assert_eq!(run(vec![1, 2]), Ok(3));
/// ```
pub fn stop_requested() -> Option<StopRequest> {
    host::check_cancel()
}

/// Tells the host that the task is alive and how far it is.
///
/// # Errors
/// [`Stopped`] if the task was asked to stop; the progress is told all the same.
pub fn heartbeat(progress: Progress) -> Result<(), Stopped> {
    or_stopped(host::heartbeat(Some(progress)))
}

/// [`heartbeat`] for what can be counted: so many of so many. An empty note is none.
///
/// # Errors
/// [`Stopped`] if the task was asked to stop.
pub fn progress(done: u64, total: u64, note: &str) -> Result<(), Stopped> {
    // Exact up to 2^53, and nobody counts further.
    #[allow(clippy::cast_precision_loss)]
    let progress = Progress::new(done as f64).of(total as f64);
    heartbeat(if note.is_empty() { progress } else { progress.note(note) })
}

/// Tells the host that the task is alive, and nothing else.
///
/// # Errors
/// [`Stopped`] if the task was asked to stop.
pub fn alive() -> Result<(), Stopped> {
    or_stopped(host::heartbeat(None))
}

/// Waits, and wakes early when the task is asked to stop. Counts in whole milliseconds, rounded up.
///
/// # Errors
/// [`Stopped`] if the task was asked to stop, before or while it waited.
pub fn sleep(duration: Duration) -> Result<(), Stopped> {
    let mut left_ms = duration.as_nanos().div_ceil(1_000_000);
    loop {
        // The host counts to 49 days; longer waits are several.
        let step_ms = u32::try_from(left_ms).unwrap_or(u32::MAX);
        or_stopped(host::sleep(step_ms))?;
        left_ms -= u128::from(step_ms);
        if left_ms == 0 {
            return Ok(());
        }
    }
}

fn or_stopped(request: Option<StopRequest>) -> Result<(), Stopped> {
    request.map_or(Ok(()), |request| Err(Stopped(request)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Host;

    #[test]
    fn every_call_tells_of_a_stop() {
        let ((), _) = Host::new().stop_after(0, StopReason::TimedOut).run(|| {
            assert_eq!(check_cancel().unwrap_err().0.reason, StopReason::TimedOut);
            assert!(stop_requested().is_some());
            assert!(alive().is_err());
            assert!(progress(1, 2, "").is_err());
            assert!(sleep(Duration::from_secs(1)).is_err());
        });
    }

    #[test]
    fn a_wait_is_rounded_up_and_cut_into_what_the_host_can_count() {
        for (asked, waited) in [
            (Duration::ZERO, Duration::ZERO),
            (Duration::from_micros(1), Duration::from_millis(1)),
            (Duration::from_millis(50), Duration::from_millis(50)),
            (Duration::from_secs(100 * 86_400), Duration::from_secs(100 * 86_400)),
        ] {
            let (result, seen) = Host::new().run(|| sleep(asked));
            assert_eq!((result, seen.slept), (Ok(()), waited));
        }
    }

    #[test]
    fn an_empty_note_is_none() {
        let (_, seen) = Host::new().run(|| progress(1, 4, "").and_then(|()| progress(2, 4, "half")));
        assert_eq!(seen.heartbeats, [Some(Progress::new(1.0).of(4.0)), Some(Progress::new(2.0).of(4.0).note("half"))]);
    }
}
