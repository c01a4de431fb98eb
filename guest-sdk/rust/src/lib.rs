//! Write a task for Atropos as an ordinary function.
//!
//! This crate is the guest's side of the contract and nothing more: it must not know how the host keeps, schedules or
//! stops tasks.
//!
//! A task is a function from an input that serde can read to a result that serde can write:
//!
#![cfg_attr(feature = "log", doc = "```")]
#![cfg_attr(not(feature = "log"), doc = "```ignore")]
//! use atropos_guest::{Failure, check_cancel, log, progress};
//!
//! #[derive(serde::Deserialize)]
//! struct Input {
//!     words: Vec<String>,
//! }
//!
//! #[derive(serde::Serialize)]
//! struct Output {
//!     letters: usize,
//! }
//!
//! fn run(input: Input) -> Result<Output, Failure> {
//!     log::info!("counting {} words", input.words.len());
//!     let total = input.words.len() as u64;
//!     let mut letters = 0;
//!     for (i, word) in input.words.iter().enumerate() {
//!         check_cancel()?; // returns from `run` when the host asks the task to stop
//!         if word.is_empty() {
//!             return Err(Failure::business(format!("word {i} is empty")));
//!         }
//!         letters += word.chars().count();
//!         progress(i as u64 + 1, total, "")?;
//!     }
//!     Ok(Output { letters })
//! }
//!
//! atropos_guest::task!(run);
//! # fn main() {}
//! ```
//!
//! The crate of a task is a `cdylib`. Built for `wasm32-unknown-unknown`, the module becomes a component with
//! `wasm-tools component new`; built for `wasm32-wasip2` it is one already.
//!
//! # Stopping
//!
//! The host may ask a task to stop: a person cancelled it, it ran longer than it may, or the host shuts down. From then
//! on [`check_cancel`], [`heartbeat`], [`progress`] and [`sleep`] return [`Stopped`], and `?` turns that into the right
//! [`Failure`]. So call one of them in every loop: it costs next to nothing. A task that must tidy up first looks with
//! [`stop_requested`], or keeps the error and returns it later. Whoever has not returned when the grace is over is
//! stopped by force.
//!
//! # Failing
//!
//! | how | what follows |
//! | --- | --- |
//! | [`Failure::business`] | the task has failed; never retried |
//! | [`Failure::system`], [`Failure::system_retry_after`] | retried, with growing delays, while retries are left |
//! | [`Failure::fatal`] | a defect: never retried, and the scene is kept for a person |
//! | `?` on any other error | fatal, because nobody has said what it means; say so with `.map_err(Failure::system)?` |
//! | a panic | fatal; its message is the last line of the log |
//! | an input that does not parse | business, and `run` is not called |
//!
//! # Logging
//!
//! The macros of the `log` crate write to the attempt's log, also those called by other libraries. Everything from
//! `debug` on is written; `log::set_max_level` changes that. The feature `log` is on by default; without it there is
//! [`log_line`].
//!
//! # Testing
//!
//! A task compiles for the machine it is written on too. There, [`testing::Host`] stands in for the host, so that an
//! ordinary `#[test]` can show that the task stops when it is asked to.

#![warn(missing_docs)]

// Generated: see bindings.sh.
#[allow(warnings, clippy::all, clippy::pedantic)]
#[rustfmt::skip]
#[cfg(target_family = "wasm")]
#[doc(hidden)]
pub mod bindings;
mod context;
mod entry;
mod failure;
#[cfg(target_family = "wasm")]
mod host;
mod lifecycle;
mod logging;
#[cfg(not(target_family = "wasm"))]
pub mod testing;

/// The host's functions: the real ones in a component, the stand-in's elsewhere.
#[cfg(not(target_family = "wasm"))]
use testing as host;

pub use context::{Identity, time_left, whoami};
pub use failure::Failure;
pub use lifecycle::{
    Progress, StopReason, StopRequest, Stopped, alive, check_cancel, heartbeat, progress, sleep, stop_requested,
};
#[cfg(feature = "log")]
pub use log;
pub use logging::{Level, log_line};

/// For the macro [`task!`] only.
#[doc(hidden)]
pub mod __private {
    #[cfg(target_family = "wasm")]
    pub use crate::bindings;
    pub use crate::entry::{run, start};
    #[cfg(target_family = "wasm")]
    pub use crate::host::to_wire;
}
