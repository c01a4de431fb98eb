//! What happens to a task, and what follows: events go in, a [`Step`] or a [`Refused`] comes out.

use std::sync::Arc;
use std::time::Duration;

use super::failure::{Death, Ending};
use super::state::{Kind, State, StopReason};
use super::terms::Terms;
use crate::id::{NodeId, TaskId};
use crate::time::Timestamp;

/// What a decision may look at beside the state and the event.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The task; spreads its retries.
    pub id: TaskId,
    /// The instant of the decision, which the state gets too.
    pub now: Timestamp,
    /// The terms it was born with.
    pub terms: &'a Terms,
}

/// A person's wish, for the audit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Who: the name of a person, a token, or an [`actor`].
    pub by: Arc<str>,
    /// In the person's own words; may be empty.
    pub why: Arc<str>,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A node takes the task to run it.
    Claimed { node: NodeId },
    /// The pre-check before the start failed for good.
    PrecheckFailed(Rejection),
    /// A person does not want it any more. `grace` is the asker's own: it can shorten the terms' grace, not lengthen it.
    CancelAsked { ask: Ask, grace: Option<Duration> },
    /// An operator wants it FAILED, at once.
    FailAsked { ask: Ask },
    /// The node that holds this attempt is going down; `grace_max` is its ceiling for every grace.
    ShutdownBegan { attempt: u32, grace_max: Duration },
    /// `queue_timeout` is over.
    WaitSpent,
    /// `max_age` is over.
    AgeSpent,
    /// `run_timeout` is over for this attempt.
    RunSpent { attempt: u32 },
    /// The guest of this attempt has not called for longer than `heartbeat_timeout`.
    HeartbeatMissed { attempt: u32 },
    /// The attempt was asked to stop, and its time to do so is over.
    GraceSpent { attempt: u32 },
    /// The attempt is over, and everything of it is gone.
    AttemptEnded { attempt: u32, ending: Ending },
    /// An operator wants it run again. `force` revives even what is not recoverable, and needs a reason.
    RerunAsked { ask: Ask, force: bool },
    /// An operator takes it off the dead-letter list.
    GiveUpAsked { ask: Ask },
}

impl Event {
    /// The event's name, for messages.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Claimed { .. } => "claim",
            Self::PrecheckFailed(_) => "failed pre-check",
            Self::CancelAsked { .. } => "cancel",
            Self::FailAsked { .. } => "fail",
            Self::ShutdownBegan { .. } => "shutdown",
            Self::WaitSpent => "spent queue wait",
            Self::AgeSpent => "spent life",
            Self::RunSpent { .. } => "spent run time",
            Self::HeartbeatMissed { .. } => "missed heartbeat",
            Self::GraceSpent { .. } => "spent grace",
            Self::AttemptEnded { .. } => "end of the attempt",
            Self::RerunAsked { .. } => "rerun",
            Self::GiveUpAsked { .. } => "give-up",
        }
    }
}

/// Why a task was not taken, or not started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rejection {
    /// No such task type.
    UnknownType,
    /// The input has more bytes than the host takes.
    InputTooLarge,
    /// The input does not match the type's schema.
    InputInvalid,
    /// The start that was asked for lies past `max_age`.
    RunAfterTooLate,
    /// The component is not there any more, or does not load.
    ComponentMissing,
}

impl Rejection {
    /// Each of them once.
    pub const ALL: [Self; 5] =
        [Self::UnknownType, Self::InputTooLarge, Self::InputInvalid, Self::RunAfterTooLate, Self::ComponentMissing];
}

/// Why a state is what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It was born.
    Submitted,
    /// A node took it.
    Claimed,
    /// It was asked to stop, for this reason.
    StopAsked(StopReason),
    /// The guest returned ok.
    Completed,
    /// The guest says that the business said no.
    Business,
    /// A system failure that is retried.
    System,
    /// A system failure with no retry left.
    RetriesSpent,
    /// The guest says that it has a defect.
    GuestFatal,
    /// The guest returned `stopped`, and nobody had asked it to.
    StoppedUnasked,
    /// The guest died of this.
    Died(Death),
    /// An operator made it fail.
    Forced,
    /// It was cancelled after something of it had run.
    Cancelled,
    /// It was cancelled before anything of it ran.
    SkippedBeforeStart,
    /// An operator gave it up.
    GivenUp,
    /// It waited for longer than `queue_timeout`.
    QueueWaitSpent,
    /// An attempt ran for longer than `run_timeout`.
    RunTimeSpent,
    /// It lived for longer than `max_age`.
    LifeSpent,
    /// Its guest was silent for longer than `heartbeat_timeout`.
    HeartbeatExpired,
    /// Its guest used up its fuel.
    FuelSpent,
    /// Its node went down in good order.
    Shutdown,
    /// Its node died.
    NodeLost,
    /// Its executor died for another guest's sake.
    ExecutorLost,
    /// It was not taken, or not started.
    Rejected(Rejection),
    /// The next attempt follows after a delay, and counts as a retry.
    Retry,
    /// The next attempt follows at once, and does not count.
    Requeued,
    /// An operator began a new generation.
    Rerun,
}

impl Reason {
    /// Every reason there is.
    pub fn all() -> impl Iterator<Item = Self> {
        let plain = [
            Self::Submitted,
            Self::Claimed,
            Self::Completed,
            Self::Business,
            Self::System,
            Self::RetriesSpent,
            Self::GuestFatal,
            Self::StoppedUnasked,
            Self::Forced,
            Self::Cancelled,
            Self::SkippedBeforeStart,
            Self::GivenUp,
            Self::QueueWaitSpent,
            Self::RunTimeSpent,
            Self::LifeSpent,
            Self::HeartbeatExpired,
            Self::FuelSpent,
            Self::Shutdown,
            Self::NodeLost,
            Self::ExecutorLost,
            Self::Retry,
            Self::Requeued,
            Self::Rerun,
        ];
        plain
            .into_iter()
            .chain(Rejection::ALL.map(Self::Rejected))
            .chain(Death::ALL.map(Self::Died))
            .chain(StopReason::ALL.map(Self::StopAsked))
    }

    /// The stable code of the API, the store and the audit.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::Claimed => "claimed",
            Self::StopAsked(StopReason::Cancelled) => "stop_asked_cancelled",
            Self::StopAsked(StopReason::Forced) => "stop_asked_forced",
            Self::StopAsked(StopReason::RunSpent) => "stop_asked_run_time_spent",
            Self::StopAsked(StopReason::LifeSpent) => "stop_asked_life_spent",
            Self::StopAsked(StopReason::HeartbeatMissed) => "stop_asked_heartbeat_expired",
            Self::StopAsked(StopReason::Shutdown) => "stop_asked_shutdown",
            Self::Completed => "completed",
            Self::Business => "business",
            Self::System => "system",
            Self::RetriesSpent => "retries_spent",
            Self::GuestFatal => "guest_fatal",
            Self::StoppedUnasked => "stopped_unasked",
            Self::Died(Death::Trap) => "trap",
            Self::Died(Death::OutOfMemory) => "out_of_memory",
            Self::Died(Death::StackOverflow) => "stack_overflow",
            Self::Died(Death::BadResult) => "bad_result",
            Self::Died(Death::HostCallLimit) => "host_call_limit",
            Self::Died(Death::Unloadable) => "component_unloadable",
            Self::Died(Death::HostFault) => "host_fault",
            Self::Forced => "forced",
            Self::Cancelled => "cancelled",
            Self::SkippedBeforeStart => "skipped_before_start",
            Self::GivenUp => "given_up",
            Self::QueueWaitSpent => "queue_wait_spent",
            Self::RunTimeSpent => "run_time_spent",
            Self::LifeSpent => "life_spent",
            Self::HeartbeatExpired => "heartbeat_expired",
            Self::FuelSpent => "fuel_spent",
            Self::Shutdown => "shutdown",
            Self::NodeLost => "node_lost",
            Self::ExecutorLost => "executor_lost",
            Self::Rejected(Rejection::UnknownType) => "unknown_type",
            Self::Rejected(Rejection::InputTooLarge) => "input_too_large",
            Self::Rejected(Rejection::InputInvalid) => "input_invalid",
            Self::Rejected(Rejection::RunAfterTooLate) => "run_after_too_late",
            Self::Rejected(Rejection::ComponentMissing) => "component_missing",
            Self::Retry => "retry",
            Self::Requeued => "requeued",
            Self::Rerun => "rerun",
        }
    }

    /// Reads what `code` gives.
    #[must_use]
    pub fn parse(code: &str) -> Option<Self> {
        Self::all().find(|reason| reason.code() == code)
    }
}

/// One line of a task's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// Absent at birth.
    pub from: Option<Kind>,
    /// The same as `from` when a running task is asked to stop.
    pub to: Kind,
    /// Why.
    pub reason: Reason,
    /// Who did it: a person's name, or an [`actor`].
    pub by: Arc<str>,
    /// In words, if there is more to say; may be empty.
    pub detail: Arc<str>,
    /// The attempt that was current, 0 before the first.
    pub attempt: u32,
}

/// What the shell has to do once the step is on disk. Each may be lost or repeated: reconcile finds the gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Start the guest of this attempt.
    StartGuest { attempt: u32 },
    /// Give the guest the request to stop, as it stands in the state.
    TellGuest { attempt: u32 },
    /// End the guest by force. Its end is reported by [`Event::AttemptEnded`] as any other.
    KillGuest { attempt: u32 },
}

/// A decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The state from now on.
    pub state: State,
    /// What is written to the audit, in order. Empty: nothing to write.
    pub trail: Vec<Transition>,
    /// What to do once the state is on disk.
    pub effects: Vec<Effect>,
}

impl Step {
    pub(super) fn to(state: impl Into<State>) -> Self {
        Self { state: state.into(), trail: Vec::new(), effects: Vec::new() }
    }

    pub(super) fn told(mut self, line: Transition) -> Self {
        self.trail.push(line);
        self
    }

    pub(super) fn and(mut self, effect: Effect) -> Self {
        self.effects.push(effect);
        self
    }

    /// Whether the store has to be written.
    #[must_use]
    pub const fn changes(&self) -> bool {
        !self.trail.is_empty()
    }
}

/// The state says no. It is given back unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// As it was.
    pub state: State,
    /// As it came.
    pub event: Event,
    /// Why not.
    pub why: Objection,
}

/// Why an event is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Objection {
    /// The task has ended, and the event comes too late.
    Ended,
    /// The task has not ended yet.
    StillLive,
    /// Only a task that waits can be claimed.
    NotPending,
    /// No attempt is running.
    NotRunning,
    /// It speaks of an attempt that is not the current one.
    StaleAttempt,
    /// The time for this has not come.
    TooEarly,
    /// A budget is already spent.
    TooLate,
    /// Only a recoverable ending can be taken up again; `force` overrides where that is lawful.
    NotRecoverable,
    /// SUCCESS, CANCELLED and REJECTED never change.
    Final,
    /// It is being stopped for another reason, which stands.
    StoppingAlready,
    /// `force` needs a reason.
    ReasonMissing,
    /// Another task has taken its deduplication key since it ended.
    KeyTaken,
}

impl Objection {
    /// Each of them once.
    pub const ALL: [Self; 12] = [
        Self::Ended,
        Self::StillLive,
        Self::NotPending,
        Self::NotRunning,
        Self::StaleAttempt,
        Self::TooEarly,
        Self::TooLate,
        Self::NotRecoverable,
        Self::Final,
        Self::StoppingAlready,
        Self::ReasonMissing,
        Self::KeyTaken,
    ];

    /// The stable code of the API.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Ended => "task_ended",
            Self::StillLive => "task_still_live",
            Self::NotPending => "task_not_pending",
            Self::NotRunning => "task_not_running",
            Self::StaleAttempt => "stale_attempt",
            Self::TooEarly => "too_early",
            Self::TooLate => "budget_spent",
            Self::NotRecoverable => "not_recoverable",
            Self::Final => "task_final",
            Self::StoppingAlready => "stopping_already",
            Self::ReasonMissing => "reason_missing",
            Self::KeyTaken => "dedup_key_taken",
        }
    }
}

/// The host's own hands, as the audit names them.
pub mod actor {
    /// Claims tasks for its node, after the pre-check.
    pub const CLAIM: &str = "host:claim";
    /// Watches budgets.
    pub const WATCH: &str = "host:watch";
    /// The guest, by how it ended.
    pub const GUEST: &str = "guest";
    /// Takes a node down in good order.
    pub const SHUTDOWN: &str = "host:shutdown";
    /// Finds what was lost.
    pub const RECONCILE: &str = "host:reconcile";
    /// Takes submissions or refuses them.
    pub const ADMISSION: &str = "host:admission";
    /// Queues a failed task again.
    pub const RETRY: &str = "host:retry";
}
