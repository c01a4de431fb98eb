//! Every setting of a node, with its default and its range. Read once, and passed down.

use std::path::PathBuf;
use std::time::Duration;

/// How a node runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where the database and the components are kept. Absent: a throw-away host, whose tasks are gone with it.
    pub data_dir: Option<PathBuf>,
    /// Attempts that run at one time, 1 to 4,096.
    pub slots: usize,
    /// Threads that run guests, 1 to 256.
    pub guest_threads: usize,
    /// Linear memory and tables of all guests together, in bytes.
    pub guest_memory_bytes_max: u64,
    /// Bytes of one task's input, up to 1 MiB.
    pub input_bytes_max: usize,
    /// Bytes of one uploaded component, up to 256 MiB.
    pub component_bytes_max: usize,
    /// The most grace that any guest gets when the node goes down.
    pub shutdown_grace_max: Duration,
    /// How long a killed guest may take to be gone before the node calls it a zombie, 10 ms to 1 min.
    pub kill_bound: Duration,
    /// How often the store is compared with what really runs, 10 ms to 1 min.
    pub reconcile_every: Duration,
}

/// A setting is out of its range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is {given}, but must be from {least} to {most}")]
pub struct ConfigError {
    name: &'static str,
    given: u64,
    least: u64,
    most: u64,
}

impl Default for Config {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            data_dir: None,
            slots: 64,
            guest_threads: cores,
            guest_memory_bytes_max: 4 << 30,
            input_bytes_max: 256 << 10,
            component_bytes_max: 64 << 20,
            shutdown_grace_max: Duration::from_secs(30),
            kill_bound: Duration::from_secs(1),
            reconcile_every: Duration::from_secs(2),
        }
    }
}

impl Config {
    /// Whether every setting is in its range.
    ///
    /// # Errors
    /// Names the first that is not.
    pub fn check(&self) -> Result<(), ConfigError> {
        let within = |name, given: u64, least, most| {
            if (least..=most).contains(&given) { Ok(()) } else { Err(ConfigError { name, given, least, most }) }
        };
        within("slots", self.slots as u64, 1, 4096)?;
        within("guest_threads", self.guest_threads as u64, 1, 256)?;
        within("guest_memory_bytes_max", self.guest_memory_bytes_max, 1 << 20, 1 << 40)?;
        within("input_bytes_max", self.input_bytes_max as u64, 2, 1 << 20)?;
        within("component_bytes_max", self.component_bytes_max as u64, 8, 256 << 20)?;
        let ms = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        within("kill_bound in milliseconds", ms(self.kill_bound), 10, 60_000)?;
        within("reconcile_every in milliseconds", ms(self.reconcile_every), 10, 60_000)
    }
}
