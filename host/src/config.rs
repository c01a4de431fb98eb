//! Every setting of a node, with its default and its range. Read once, and passed down.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::component::CompileLimits;

/// How a node runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where the database and the components are kept. Absent: a throw-away host, whose tasks are gone with it.
    pub data_dir: Option<PathBuf>,
    /// Attempts that run at one time, 1 to 4,096.
    pub slots: usize,
    /// Threads that run guests, 1 to 256, of all executors together; each has at least one.
    pub guest_threads: usize,
    /// Linear memory and tables of all guests together, in bytes. Each executor has an equal share.
    pub guest_memory_bytes_max: u64,
    /// Bytes of one task's input, up to 1 MiB.
    pub input_bytes_max: usize,
    /// Bytes of one uploaded component, up to 256 MiB.
    pub component_bytes_max: usize,
    /// The `atropos` program, of this version. Guests then run, and uploads are compiled, in processes of their own, which
    /// are locked down, watched, and killed if nothing else ends what they do.
    ///
    /// Absent: all of it happens in this process, for programs that embed a host and trust what they load. wasmtime keeps
    /// guests in, but a fault of wasmtime, or of the host under a guest, takes this program along; a guest that does not go
    /// within the kill bound stays, is called a zombie, and keeps its slot; an upload can take any time and memory.
    pub program: Option<PathBuf>,
    /// Processes in which guests run, 1 to 64, if there is a `program`.
    pub executors: usize,
    /// What compiling may take; its `upload_bytes_max` is `component_bytes_max`.
    pub compile: CompileLimits,
    /// Compiled components that are kept on disk, in bytes: 16 MiB to 1 TiB. Those not used for the longest time go first.
    pub cache_bytes_max: u64,
    /// The most grace that any guest gets when the node goes down.
    pub shutdown_grace_max: Duration,
    /// How long a killed guest may take to be gone before its executor is killed for it, 10 ms to 1 min.
    pub kill_bound: Duration,
    /// Whom the names of hosts are asked of that guests may reach. Empty: those that the machine is set up with.
    pub nameservers: Vec<SocketAddr>,
    /// How often the store is compared with what really runs, 10 ms to 1 min.
    pub reconcile_every: Duration,
}

const EXECUTORS_MAX: usize = 64;

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
            guest_memory_bytes_max: Self::guest_memory_for(cores),
            input_bytes_max: 256 << 10,
            component_bytes_max: 64 << 20,
            program: None,
            executors: cores.min(EXECUTORS_MAX),
            compile: CompileLimits::default(),
            cache_bytes_max: 8 << 30,
            shutdown_grace_max: Duration::from_secs(30),
            kill_bound: Duration::from_millis(750),
            nameservers: Vec::new(),
            reconcile_every: Duration::from_secs(2),
        }
    }
}

impl Config {
    /// The default memory of all guests together: each executor's share has room for the largest guest.
    #[must_use]
    pub const fn guest_memory_for(executors: usize) -> u64 {
        let gib = if executors < 4 { 4 } else { executors as u64 };
        gib << 30
    }

    /// Whether every setting is in its range.
    ///
    /// # Errors
    /// Names the first that is not.
    pub fn check(&self) -> Result<(), ConfigError> {
        let within = |name, given: u64, least, most| {
            if (least..=most).contains(&given) { Ok(()) } else { Err(ConfigError { name, given, least, most }) }
        };
        within("slots", self.slots as u64, 1, 4096)?;
        within("executors", self.executors as u64, 1, EXECUTORS_MAX as u64)?;
        within("guest_threads", self.guest_threads as u64, 1, 256)?;
        within("guest_memory_bytes_max", self.guest_memory_bytes_max, 1 << 20, 1 << 40)?;
        within("input_bytes_max", self.input_bytes_max as u64, 2, 1 << 20)?;
        within("component_bytes_max", self.component_bytes_max as u64, 8, 256 << 20)?;
        within("cache_bytes_max", self.cache_bytes_max, 16 << 20, 1 << 40)?;
        self.check_compile(within)?;
        within("the number of nameservers", self.nameservers.len() as u64, 0, 8)?;
        let ms = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        within("kill_bound in milliseconds", ms(self.kill_bound), 10, 60_000)?;
        within("reconcile_every in milliseconds", ms(self.reconcile_every), 10, 60_000)
    }

    fn check_compile(
        &self,
        within: impl Fn(&'static str, u64, u64, u64) -> Result<(), ConfigError>,
    ) -> Result<(), ConfigError> {
        let limits = &self.compile;
        within("compile.at_once", limits.at_once as u64, 1, 64)?;
        within("compile.waiting_max", limits.waiting_max as u64, 1, 1_000)?;
        // Less, and the program itself has no room.
        within("compile.memory_bytes_max", limits.memory_bytes_max, 256 << 20, 1 << 40)?;
        within("compile.cpu in seconds", limits.cpu.as_secs(), 1, 3_600)?;
        within("compile.cpu_per_mib in seconds", limits.cpu_per_mib.as_secs(), 0, 3_600)?;
        within("compile.wall in seconds", limits.wall.as_secs(), 1, 24 * 3_600)?;
        within("compile.code_bytes_max", limits.code_bytes_max, 1 << 20, 1 << 36)
    }

    /// With the size of an upload.
    pub(crate) fn compile_limits(&self) -> CompileLimits {
        CompileLimits { upload_bytes_max: self.component_bytes_max, ..self.compile }
    }
}
