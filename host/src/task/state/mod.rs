//! The states of a task, one file each. A move consumes the old state, so two moves from one state do not compile.

mod ended;
mod pending;
mod running;
mod stopping;

pub(super) use ended::lawful;
pub use ended::{Ended, Manner};
pub use pending::{Pending, Wait};
pub use running::Running;
pub use stopping::{Stop, StopReason, Stopping};

use super::event::{Context, Event, Refused, Step};
use crate::id::NodeId;
use crate::time::Timestamp;

/// Where a task is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It waits for its turn.
    Pending(Pending),
    /// An attempt is in the hands of a node.
    Running(Running),
    /// RUNNING, and asked to stop.
    Stopping(Stopping),
    /// It is over, unless an operator says otherwise.
    Ended(Ended),
}

/// The state's name, as the API, the store and the audit have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// It waits for its turn.
    Pending,
    /// An attempt is in the hands of a node; perhaps it has been asked to stop.
    Running,
    /// The work is done. Final.
    Success,
    /// It could not be done, or was forced to fail.
    Failed,
    /// A person did not want it any more. Final.
    Cancelled,
    /// A budget was spent.
    TimedOut,
    /// The host went from under it.
    Interrupted,
    /// It was not taken, or not started. Final.
    Rejected,
}

impl Kind {
    /// Each of them once.
    pub const ALL: [Self; 8] = [
        Self::Pending,
        Self::Running,
        Self::Success,
        Self::Failed,
        Self::Cancelled,
        Self::TimedOut,
        Self::Interrupted,
        Self::Rejected,
    ];

    /// The stable name of the API, the store and the audit.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Running => "RUNNING",
            Self::Success => "SUCCESS",
            Self::Failed => "FAILED",
            Self::Cancelled => "CANCELLED",
            Self::TimedOut => "TIMED_OUT",
            Self::Interrupted => "INTERRUPTED",
            Self::Rejected => "REJECTED",
        }
    }

    /// Reads a name; `CANCELED` and `TIMEOUT` are understood too.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "CANCELED" => Some(Self::Cancelled),
            "TIMEOUT" => Some(Self::TimedOut),
            _ => Self::ALL.into_iter().find(|kind| kind.code() == text),
        }
    }

    /// Whether nothing follows by itself.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        !matches!(self, Self::Pending | Self::Running)
    }
}

/// What is counted over a task's whole life, and goes from state to state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    /// 1 at birth; each rerun begins a new one.
    pub generation: u32,
    /// When this generation began: `max_age` counts from here.
    pub generation_at: Timestamp,
    /// Attempts so far, over all generations. The number of the current one fences reports.
    pub attempts: u32,
    /// Retries used in this generation.
    pub retries: u32,
}

impl Tally {
    /// Nothing done yet.
    #[must_use]
    pub const fn at_birth(now: Timestamp) -> Self {
        Self { generation: 1, generation_at: now, attempts: 0, retries: 0 }
    }

    const fn next_attempt(self) -> Self {
        Self { attempts: self.attempts.saturating_add(1), ..self }
    }

    const fn next_retry(self) -> Self {
        Self { retries: self.retries.saturating_add(1), ..self }
    }

    const fn next_generation(self, now: Timestamp) -> Self {
        Self { generation: self.generation.saturating_add(1), generation_at: now, retries: 0, ..self }
    }

    /// When `max_age` is over.
    fn life_ends_at(self, cx: &Context) -> Timestamp {
        self.generation_at + cx.terms.max_age
    }
}

/// An attempt in the hands of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Who has it.
    pub node: NodeId,
    /// Since when.
    pub claimed_at: Timestamp,
}

impl Hold {
    /// Whether the attempt can have spent its run budget: entry is never before the claim.
    fn run_may_be_spent(self, cx: &Context) -> bool {
        cx.now >= self.claimed_at + cx.terms.run_timeout
    }

    /// Whether the attempt can have missed a heartbeat, which is only so if its terms ask for one.
    fn beat_may_be_missed(self, cx: &Context) -> bool {
        cx.terms.heartbeat_timeout.is_some_and(|timeout| cx.now >= self.claimed_at + timeout)
    }
}

/// What only the process that runs the guest knows of it. Not stored: an alarm that is missed is found again from the claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vitals {
    /// When the first instruction of the guest could run.
    pub entered_at: Option<Timestamp>,
    /// When the guest last called the host's heartbeat.
    pub heartbeat_at: Option<Timestamp>,
}

impl State {
    /// The state's name.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Pending(_) => Kind::Pending,
            Self::Running(_) | Self::Stopping(_) => Kind::Running,
            Self::Ended(ended) => ended.kind(),
        }
    }

    /// What was counted up to now.
    #[must_use]
    pub const fn tally(&self) -> Tally {
        match self {
            Self::Pending(s) => s.tally(),
            Self::Running(s) => s.tally(),
            Self::Stopping(s) => s.tally(),
            Self::Ended(s) => s.tally(),
        }
    }

    /// When this state is over by itself, and with which event. Every live state has an alarm that moves it.
    ///
    /// The alarm of a stopping task orders the kill, and stays due until the end of the attempt is reported: whoever
    /// serves it leaves some time between one order and the next.
    #[must_use]
    pub fn alarm(&self, cx: &Context, vitals: Vitals) -> Option<(Timestamp, Event)> {
        match self {
            Self::Pending(s) => Some(s.alarm(cx)),
            Self::Running(s) => Some(s.alarm(cx, vitals)),
            Self::Stopping(s) => Some(s.alarm()),
            Self::Ended(_) => None,
        }
    }

    pub(super) fn on(self, event: Event, cx: &Context) -> Result<Step, Refused> {
        match self {
            Self::Pending(s) => s.on(event, cx),
            Self::Running(s) => s.on(event, cx),
            Self::Stopping(s) => s.on(event, cx),
            Self::Ended(s) => s.on(event, cx),
        }
    }
}
