//! What an attempt leaves behind for people to read: what it cost, how its stop went, where it died.

use crate::time::Timestamp;

/// How far a guest says it is, in its own unit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// What is behind it.
    pub done: f64,
    /// What there is to do, if it knows.
    pub total: Option<f64>,
    /// In the guest's words.
    pub note: Option<String>,
}

/// What one attempt used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CostReceipt {
    /// From entry to the end of the guest, in microseconds.
    pub wall_micros: u64,
    /// Processor time of the guest and of the host calls it made, in microseconds.
    pub cpu_micros: u64,
    /// Instructions, if they were metered.
    pub fuel: Option<u64>,
    /// The most linear memory and tables that it held at one time, in bytes.
    pub memory_bytes_peak: u64,
    /// How many it made.
    pub host_calls: u64,
    /// Input and host call results.
    pub bytes_in: u64,
    /// Result and host call arguments.
    pub bytes_out: u64,
    /// How many it wrote, those that were dropped included.
    pub log_lines: u64,
    /// Lines that the limits did not leave room for.
    pub log_lines_dropped: u64,
}

/// Which force a stop needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ring {
    /// The guest came back by itself.
    Asked,
    /// The sandbox was interrupted or dropped.
    Killed,
    /// The executor was killed.
    ExecutorKilled,
}

impl Ring {
    /// Each of them once.
    pub const ALL: [Self; 3] = [Self::Asked, Self::Killed, Self::ExecutorKilled];

    /// 1, 2 or 3.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Asked => 1,
            Self::Killed => 2,
            Self::ExecutorKilled => 3,
        }
    }

    /// Reads what `number` gives.
    #[must_use]
    pub fn parse(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|ring| ring.number() == number)
    }
}

/// How a stop went, step by step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopReceipt {
    /// When the request was made.
    pub asked_at: Timestamp,
    /// When the executor had it.
    pub told_at: Option<Timestamp>,
    /// When the guest first saw it.
    pub seen_at: Option<Timestamp>,
    /// When force was used.
    pub killed_at: Option<Timestamp>,
    /// When sandbox and host calls were gone.
    pub gone_at: Timestamp,
    /// When the ending was handed to the store.
    pub written_at: Timestamp,
    /// How much force it took.
    pub ring: Ring,
}

/// How far an attempt has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Its component is fetched, and compiled if it must be.
    Loading,
    /// It waits for room for its sandbox.
    Waiting,
    /// Its start functions run.
    Instantiating,
    /// Its `run` does, and what takes its input in.
    Running,
    /// Its `run` has come back, and its result is read.
    Returning,
}

impl Phase {
    /// Each of them once, in their order.
    pub const ALL: [Self; 5] = [Self::Loading, Self::Waiting, Self::Instantiating, Self::Running, Self::Returning];

    /// The stable code of the API and the store.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Loading => "loading",
            Self::Waiting => "waiting",
            Self::Instantiating => "instantiating",
            Self::Running => "running",
            Self::Returning => "returning",
        }
    }

    /// Reads what `code` gives.
    #[must_use]
    pub fn parse(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.code() == code)
    }
}

/// What became of the core dump that the terms ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CoreDump {
    /// It is in the node's folder of dumps, until newer ones need its room.
    Kept {
        /// The size of its file.
        bytes: u64,
    },
    /// There is none.
    Missing {
        /// What kept it from being made.
        why: String,
    },
}

/// The scene of a death.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scene {
    /// How far it had come. Absent in records of before this was noted.
    pub phase: Option<Phase>,
    /// The instant that the scene is of. Absent like the phase.
    pub at: Option<Timestamp>,
    /// The guest's frames, innermost first, by name.
    pub backtrace: Vec<String>,
    /// The host call that the guest sat in.
    pub host_call: Option<String>,
    /// Absent unless the terms ask for one.
    pub core_dump: Option<CoreDump>,
}

/// How bad a log line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// Every step.
    Trace,
    /// For who looks for a fault.
    Debug,
    /// What goes on.
    Info,
    /// What may turn bad.
    Warn,
    /// What went wrong.
    Error,
}

impl LogLevel {
    /// Each of them once.
    pub const ALL: [Self; 5] = [Self::Trace, Self::Debug, Self::Info, Self::Warn, Self::Error];

    /// The stable code of the API and the store.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }

    /// Reads what `code` gives.
    #[must_use]
    pub fn parse(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.code() == code)
    }
}

/// A line that the guest wrote. `number` counts within the attempt; a gap means that lines were dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Counts up within the attempt.
    pub number: u64,
    /// When it was written.
    pub at: Timestamp,
    /// How bad it is.
    pub level: LogLevel,
    /// The text, cut at the host's limit.
    pub message: String,
}
