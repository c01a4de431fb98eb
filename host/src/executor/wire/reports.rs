//! From an executor process to its node.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Key, instant, micros};
use crate::executor::protocol::{Beat, Ended, Report};
use crate::sandbox::Counts;
use crate::task::{
    CoreDump, CostReceipt, Death, Ending, FailureClass, LogLevel, LogLine, Loss, Phase, Progress, Scene,
};
use crate::time::Timestamp;

#[derive(Debug, Serialize, Deserialize)]
pub(in crate::executor) enum FromExecutor {
    /// Guests can be started. Says what the process has given up.
    Ready(Vec<Lock>),
    /// It cannot run.
    Unfit(String),
    Beat(Box<WireBeat>),
    Caught(Key),
    Ended(Box<WireEnded>),
    /// The answer to a ping.
    Pong(WireCounts),
}

/// One thing that an executor process has given up, or could not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    pub name: String,
    /// Why it is not in force.
    pub failure: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(in crate::executor) struct WireCounts {
    attempts: usize,
    sandboxes: usize,
    guest_memory_bytes: u64,
    scratch_folders: usize,
    sockets: usize,
}

#[derive(Debug, Serialize, Deserialize)]
pub(in crate::executor) struct WireBeat {
    key: Key,
    entered_at: Option<i64>,
    heartbeat_at: Option<i64>,
    stop_seen_at: Option<i64>,
    progress: Option<(f64, Option<f64>, Option<String>)>,
    log: Vec<(u64, i64, u8, String)>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(in crate::executor) struct WireEnded {
    last: WireBeat,
    ending: WireEnding,
    result: Option<String>,
    cost: WireCost,
    scene: Option<WireScene>,
    told_at: Option<i64>,
    killed_at: Option<i64>,
    gone_at: i64,
    unprepared: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct WireScene {
    phase: Option<u8>,
    at: Option<i64>,
    backtrace: Vec<String>,
    host_call: Option<String>,
    core_dump: Option<Result<u64, String>>,
}

#[derive(Debug, Serialize, Deserialize)]
enum WireEnding {
    Succeeded,
    Stopped,
    Failed(u8, String, Option<Duration>),
    Died(u8, String),
    FuelSpent,
    Killed,
    Lost(String),
}

#[derive(Debug, Serialize, Deserialize)]
struct WireCost {
    wall_micros: u64,
    cpu_micros: u64,
    fuel: Option<u64>,
    memory_bytes_peak: u64,
    host_calls: u64,
    bytes_in: u64,
    bytes_out: u64,
    log_lines: u64,
    log_lines_dropped: u64,
}

impl From<Report> for FromExecutor {
    fn from(report: Report) -> Self {
        match report {
            Report::Beat(beat) => Self::Beat(Box::new((*beat).into())),
            Report::Caught(key) => Self::Caught(key.into()),
            Report::Ended(ended) => Self::Ended(Box::new((*ended).into())),
        }
    }
}

impl From<Beat> for WireBeat {
    fn from(beat: Beat) -> Self {
        let line = |line: LogLine| (line.number, line.at.as_micros(), place(&LogLevel::ALL, line.level), line.message);
        Self {
            key: beat.key.into(),
            entered_at: micros(beat.entered_at),
            heartbeat_at: micros(beat.heartbeat_at),
            stop_seen_at: micros(beat.stop_seen_at),
            progress: beat.progress.map(|progress| (progress.done, progress.total, progress.note)),
            log: beat.log.into_iter().map(line).collect(),
        }
    }
}

impl From<WireBeat> for Beat {
    fn from(beat: WireBeat) -> Self {
        let line = |(number, at, level, message): (u64, i64, u8, String)| LogLine {
            number,
            at: Timestamp::from_micros(at),
            level: at_place(&LogLevel::ALL, level).unwrap_or(LogLevel::Info),
            message,
        };
        Self {
            key: beat.key.into(),
            entered_at: instant(beat.entered_at),
            heartbeat_at: instant(beat.heartbeat_at),
            stop_seen_at: instant(beat.stop_seen_at),
            progress: beat.progress.map(|(done, total, note)| Progress { done, total, note }),
            log: beat.log.into_iter().map(line).collect(),
        }
    }
}

impl From<Ended> for WireEnded {
    fn from(ended: Ended) -> Self {
        Self {
            last: ended.last.into(),
            ending: ended.ending.into(),
            result: ended.result,
            cost: ended.cost.into(),
            scene: ended.scene.map(Into::into),
            told_at: micros(ended.told_at),
            killed_at: micros(ended.killed_at),
            gone_at: ended.gone_at.as_micros(),
            unprepared: ended.unprepared,
        }
    }
}

impl From<WireEnded> for Ended {
    fn from(ended: WireEnded) -> Self {
        Self {
            last: ended.last.into(),
            ending: ended.ending.into(),
            result: ended.result,
            cost: ended.cost.into(),
            scene: ended.scene.map(Into::into),
            told_at: instant(ended.told_at),
            killed_at: instant(ended.killed_at),
            gone_at: Timestamp::from_micros(ended.gone_at),
            unprepared: ended.unprepared,
        }
    }
}

impl From<Scene> for WireScene {
    fn from(scene: Scene) -> Self {
        Self {
            phase: scene.phase.map(|phase| place(&Phase::ALL, phase)),
            at: micros(scene.at),
            backtrace: scene.backtrace,
            host_call: scene.host_call,
            core_dump: scene.core_dump.map(|dump| match dump {
                CoreDump::Kept { bytes } => Ok(bytes),
                CoreDump::Missing { why } => Err(why),
            }),
        }
    }
}

impl From<WireScene> for Scene {
    fn from(scene: WireScene) -> Self {
        Self {
            phase: scene.phase.and_then(|phase| at_place(&Phase::ALL, phase)),
            at: instant(scene.at),
            backtrace: scene.backtrace,
            host_call: scene.host_call,
            core_dump: scene.core_dump.map(|dump| match dump {
                Ok(bytes) => CoreDump::Kept { bytes },
                Err(why) => CoreDump::Missing { why },
            }),
        }
    }
}

impl From<Ending> for WireEnding {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Succeeded => Self::Succeeded,
            Ending::Stopped => Self::Stopped,
            Ending::Failed { class, message, retry_after } => {
                Self::Failed(place(&FailureClass::ALL, class), message, retry_after)
            }
            Ending::Died { cause, message } => Self::Died(place(&Death::ALL, cause), message),
            Ending::FuelSpent => Self::FuelSpent,
            Ending::Killed => Self::Killed,
            Ending::Lost { message, .. } => Self::Lost(message),
        }
    }
}

impl From<WireEnding> for Ending {
    fn from(ending: WireEnding) -> Self {
        match ending {
            WireEnding::Succeeded => Self::Succeeded,
            WireEnding::Stopped => Self::Stopped,
            WireEnding::Failed(class, message, retry_after) => {
                let class = at_place(&FailureClass::ALL, class).unwrap_or(FailureClass::Fatal);
                Self::Failed { class, message, retry_after }
            }
            WireEnding::Died(cause, message) => {
                Self::Died { cause: at_place(&Death::ALL, cause).unwrap_or(Death::HostFault), message }
            }
            WireEnding::FuelSpent => Self::FuelSpent,
            WireEnding::Killed => Self::Killed,
            WireEnding::Lost(message) => Self::Lost { loss: Loss::Executor, message },
        }
    }
}

impl From<CostReceipt> for WireCost {
    fn from(cost: CostReceipt) -> Self {
        Self {
            wall_micros: cost.wall_micros,
            cpu_micros: cost.cpu_micros,
            fuel: cost.fuel,
            memory_bytes_peak: cost.memory_bytes_peak,
            host_calls: cost.host_calls,
            bytes_in: cost.bytes_in,
            bytes_out: cost.bytes_out,
            log_lines: cost.log_lines,
            log_lines_dropped: cost.log_lines_dropped,
        }
    }
}

impl From<WireCost> for CostReceipt {
    fn from(cost: WireCost) -> Self {
        Self {
            wall_micros: cost.wall_micros,
            cpu_micros: cost.cpu_micros,
            fuel: cost.fuel,
            memory_bytes_peak: cost.memory_bytes_peak,
            host_calls: cost.host_calls,
            bytes_in: cost.bytes_in,
            bytes_out: cost.bytes_out,
            log_lines: cost.log_lines,
            log_lines_dropped: cost.log_lines_dropped,
        }
    }
}

impl From<Counts> for WireCounts {
    fn from(counts: Counts) -> Self {
        let Counts { attempts, sandboxes, guest_memory_bytes, scratch_folders, sockets } = counts;
        Self { attempts, sandboxes, guest_memory_bytes, scratch_folders, sockets }
    }
}

impl From<WireCounts> for Counts {
    fn from(counts: WireCounts) -> Self {
        let WireCounts { attempts, sandboxes, guest_memory_bytes, scratch_folders, sockets } = counts;
        Self { attempts, sandboxes, guest_memory_bytes, scratch_folders, sockets }
    }
}

/// Where a value stands in the list of all of its kind.
fn place<T: PartialEq + Copy>(all: &[T], value: T) -> u8 {
    all.iter().position(|one| *one == value).and_then(|place| u8::try_from(place).ok()).unwrap_or(u8::MAX)
}

fn at_place<T: Copy>(all: &[T], place: u8) -> Option<T> {
    all.get(usize::from(place)).copied()
}
