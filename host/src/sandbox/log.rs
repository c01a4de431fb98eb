//! `atropos:task/log`: lines kept with the attempt.

use super::bindings::log::{Host, Level};
use super::guest::Guest;
use crate::task::LogLevel;

impl Host for Guest {
    fn write(&mut self, level: Level, message: String) -> wasmtime::Result<()> {
        self.enter("atropos:task/log.write");
        let level = match level {
            Level::Trace => LogLevel::Trace,
            Level::Debug => LogLevel::Debug,
            Level::Info => LogLevel::Info,
            Level::Warn => LogLevel::Warn,
            Level::Error => LogLevel::Error,
        };
        self.signs.count_out(message.len());
        self.signs.log(level, &message);
        Ok(())
    }
}
