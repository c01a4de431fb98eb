//! Where guests run: takes orders, sends reports. Knows nothing of stores, queues or the API.

mod attempt;
mod black_box;
mod core;
mod executors;
mod fleet;
mod in_process;
mod live;
pub mod process;
pub mod protocol;
mod pulse;
mod reaper;
#[cfg(test)]
mod tests;
mod thread;
mod unloadable;
mod wire;

pub use executors::{ExecutorView, Executors};
pub use fleet::{Fleet, FleetConfig};
pub use in_process::{Executor, ExecutorConfig, StartError};
pub use wire::Lock;

pub(crate) use crate::sandbox::remove_scratch;
pub use crate::sandbox::{CallWatch, Counts, Dumps};
