//! Atropos: a host for dynamic tasks. A task is a WebAssembly component; the host owns it from birth to death.
//!
//! [`Host`] is the way in: it registers components and types, takes submissions, runs them in sandboxes, stops them
//! when it must, and keeps a record that can be trusted.
//!
//! Inside, from the core outwards: [`task`] is the life of one task as pure functions, [`schedule`] which task is next,
//! [`store`] what is remembered, [`component`] what is uploaded, `sandbox` one attempt of one guest, [`executor`] where
//! guests run, `runner` the shell where effects happen, [`host`] the face of it all, [`api`] and [`cli`] the same over HTTP
//! and on the command line.

pub mod api;
pub mod cli;
pub mod component;
pub mod config;
mod confine;
pub mod executor;
pub mod host;
pub mod id;
mod runner;
mod sandbox;
pub mod schedule;
pub mod store;
pub mod task;
pub mod time;

pub use config::Config;
pub use host::Host;
#[doc(hidden)]
pub use sandbox::allow_mischief;

/// An error with all its causes, in one line.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
