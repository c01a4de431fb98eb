//! One attempt of one guest in wasmtime: engine, store, limits, stop, trap, and what a guest may call.
//!
//! Everything here is about a single guest. Must not know orders, reports, queues or where components come from.

mod attempt;
mod bindings;
mod context;
mod engine;
mod gate;
mod guest;
mod ledger;
mod lifecycle;
mod limiter;
mod linker;
mod log;
mod log_tail;
mod signs;
mod stdio;
mod stop;
mod store;
mod text;
mod trap;
mod wasi;

pub(crate) use attempt::{Outcome, Prepared, Room, Work, run};
pub(crate) use bindings::Failure;
pub(crate) use engine::{EngineSize, Engines, Metering, Workshop};
pub use ledger::Counts;
pub(crate) use ledger::{Entry, Ledger};
pub(crate) use limiter::NodeMemory;
pub(crate) use linker::{is_offered, unoffered_reason};
pub(crate) use signs::{News, Signs};
pub(crate) use stop::StopNotice;
pub(crate) use text::clip;
