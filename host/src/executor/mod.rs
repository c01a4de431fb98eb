//! Where guests run: takes orders, sends reports. Knows nothing of stores, queues or the API.

mod attempt;
mod core;
mod in_process;
mod live;
pub mod protocol;
mod pulse;
mod reaper;
#[cfg(test)]
mod tests;
mod thread;

pub use in_process::{Executor, ExecutorConfig, StartError};

pub use crate::sandbox::Counts;
