//! Who and what this attempt is.

use std::time::Duration;

use crate::host;

/// Who and what this attempt is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The task's id; the same in every attempt.
    pub task_id: String,
    /// The name under which the component was registered.
    pub task_type: String,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// W3C trace context; pass it on with every outgoing call.
    pub traceparent: String,
    /// Who made the task, if that is known.
    pub creator: Option<String>,
}

/// Who and what this attempt is.
pub fn whoami() -> Identity {
    host::whoami()
}

/// How long this attempt may still run before it is asked to stop; `None` means longer than the host can tell.
pub fn time_left() -> Option<Duration> {
    match host::time_left_ms() {
        u32::MAX => None,
        ms => Some(Duration::from_millis(ms.into())),
    }
}
