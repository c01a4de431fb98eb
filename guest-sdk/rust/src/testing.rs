//! A stand-in for the host, so that a task can be tested where it is written.
//!
//! It is there on every target but WebAssembly, and takes no time: a [`sleep`](crate::sleep) is only counted.
//!
//! ```
//! use atropos_guest::testing::Host;
//! use atropos_guest::{Failure, StopReason, check_cancel};
//!
//! fn run(n: u64) -> Result<u64, Failure> {
//!     let mut sum = 0;
//!     for i in 1..=n {
//!         check_cancel()?;
//!         sum += i;
//!     }
//!     Ok(sum)
//! }
//!
//! let (result, _) = Host::new().run(|| run(10));
//! assert_eq!(result, Ok(55));
//!
//! let (result, seen) = Host::new().stop_after(3, StopReason::Cancelled).run(|| run(10));
//! assert_eq!(result, Err(Failure::Stopped));
//! assert_eq!(seen.looks, 4);
//! ```

use std::cell::RefCell;
use std::time::Duration;

use crate::{Identity, Level, Progress, StopReason, StopRequest};

/// A host that a test sets up. It serves the thread that calls [`Host::run`], so tests do not disturb each other.
#[derive(Clone, Debug)]
pub struct Host {
    identity: Identity,
    time_left_ms: u32,
    stop: Option<(u64, StopRequest)>,
}

/// What a task did to its host.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Seen {
    /// Calls that would have told it of a stop, and so also its heartbeats and waits.
    pub looks: u64,
    /// Its heartbeats, in order; `None` for one that says no more than that the task is alive.
    pub heartbeats: Vec<Option<Progress>>,
    /// How long it asked to wait, in all.
    pub slept: Duration,
    /// Its log.
    pub log: Vec<(Level, String)>,
}

impl Host {
    /// A host that lets a first attempt run for as long as it likes.
    #[must_use]
    pub fn new() -> Self {
        Self {
            identity: Identity {
                task_id: "01900000-0000-7000-8000-000000000000".to_owned(),
                task_type: "test".to_owned(),
                attempt: 1,
                traceparent: "00-00000000000000000000000000000001-0000000000000001-01".to_owned(),
                creator: None,
            },
            time_left_ms: u32::MAX,
            stop: None,
        }
    }

    /// What [`whoami`](crate::whoami) says.
    #[must_use]
    pub fn identity(mut self, identity: Identity) -> Self {
        self.identity = identity;
        self
    }

    /// Which attempt this is; 1 is the first.
    #[must_use]
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.identity.attempt = attempt;
        self
    }

    /// What [`time_left`](crate::time_left) says.
    #[must_use]
    pub fn time_left(mut self, left: Duration) -> Self {
        self.time_left_ms = u32::try_from(left.as_millis()).unwrap_or(u32::MAX);
        self
    }

    /// Asks the task to stop once it has looked `looks` times without being told anything; with 0, from the start.
    #[must_use]
    pub fn stop_after(mut self, looks: u64, reason: StopReason) -> Self {
        let request = StopRequest { reason, grace: Duration::from_secs(5), message: String::new() };
        self.stop = Some((looks, request));
        self
    }

    /// Runs `task` against this host, and tells what it did.
    pub fn run<T>(self, task: impl FnOnce() -> T) -> (T, Seen) {
        #[cfg(feature = "log")]
        crate::logging::install("");
        let outer = CURRENT.replace((self, Seen::default()));
        let result = task();
        let (_, seen) = CURRENT.replace(outer);
        (result, seen)
    }
}

impl Default for Host {
    fn default() -> Self {
        Self::new()
    }
}

thread_local! {
    /// A task that is called outside `Host::run` gets a host that never stops it.
    static CURRENT: RefCell<(Host, Seen)> = RefCell::new((Host::new(), Seen::default()));
}

pub(crate) fn check_cancel() -> Option<StopRequest> {
    CURRENT.with_borrow_mut(|(host, seen)| {
        seen.looks += 1;
        host.stop.as_ref().filter(|(looks, _)| seen.looks > *looks).map(|(_, request)| request.clone())
    })
}

pub(crate) fn heartbeat(progress: Option<Progress>) -> Option<StopRequest> {
    CURRENT.with_borrow_mut(|(_, seen)| seen.heartbeats.push(progress));
    check_cancel()
}

pub(crate) fn sleep(ms: u32) -> Option<StopRequest> {
    let stop = check_cancel();
    if stop.is_none() {
        CURRENT.with_borrow_mut(|(_, seen)| seen.slept += Duration::from_millis(ms.into()));
    }
    stop
}

pub(crate) fn whoami() -> Identity {
    CURRENT.with_borrow(|(host, _)| host.identity.clone())
}

pub(crate) fn time_left_ms() -> u32 {
    CURRENT.with_borrow(|(host, _)| host.time_left_ms)
}

pub(crate) fn write(level: Level, message: &str) {
    CURRENT.with_borrow_mut(|(_, seen)| seen.log.push((level, message.to_owned())));
}
