//! One attempt of one guest in wasmtime: engine, store, limits, stop, trap, and what a guest may call.
//!
//! Everything here is about a single guest. Must not know orders, reports, queues or where components come from.

mod attempt;
mod bindings;
mod context;
mod dump;
mod dumps;
mod engine;
mod gate;
mod guest;
mod ledger;
mod lifecycle;
mod limiter;
mod linker;
mod log;
mod log_tail;
mod mischief;
mod net;
mod scratch;
mod signs;
mod stdio;
mod stop;
mod store;
mod text;
mod trap;
mod waiting;
mod wasi;

pub(crate) use attempt::{Outcome, Prepared, Remains, Room, Work, run};
pub(crate) use bindings::Failure;
pub use dumps::Dumps;
pub(crate) use engine::{EngineSize, Engines, Metering, Workshop, code_print, kept_bytes};
pub use ledger::Counts;
pub(crate) use ledger::{Entry, Ledger};
pub(crate) use limiter::NodeMemory;
pub(crate) use linker::{is_offered, unoffered_reason};
pub use mischief::allow_mischief;
pub(crate) use net::Names;
pub(crate) use scratch::{remove as remove_scratch, remove_of as remove_scratch_of};
pub use signs::CallWatch;
pub(crate) use signs::{News, Signs};
pub(crate) use stop::StopNotice;
pub(crate) use text::clip;
