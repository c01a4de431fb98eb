//! The life of one task: every state, event, rule and race, as pure functions of what they are given.
//!
//! Must not know stores, sandboxes, threads, clocks or chance: time comes in with the [`Context`], what is to be
//! done comes out as [`Effect`]s.

#![deny(clippy::wildcard_enum_match_arm, clippy::match_wildcard_for_single_variants)]
#![allow(clippy::result_large_err, reason = "a refusal gives back the state and the event that it was given")]

mod event;
mod failure;
mod grants;
mod receipt;
mod record;
mod retry;
mod state;
mod terms;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use event::{Ask, Context, Effect, Event, Objection, Reason, Refused, Rejection, Step, Transition, actor};
pub use failure::{Death, Ending, FailureClass, Loss};
pub use grants::{Grants, GrantsError, HostGrant, HostPattern, Net, Ports, SCRATCH_FILES, Scratch, is_special};
pub use receipt::{CoreDump, CostReceipt, LogLevel, LogLine, Phase, Progress, Ring, Scene, StopReceipt};
pub use record::{Corrupt, Record};
pub use state::{Ended, Hold, Kind, Manner, Pending, Running, State, Stop, StopReason, Stopping, Tally, Vitals, Wait};
pub use terms::{Limits, RetryPolicy, Terms, TermsDraft, TermsError};

use crate::id::{Digest, QueueName, TaskId, TraceParent, TypeName};
use crate::time::Timestamp;

/// How long a deduplication key stays taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DedupScope {
    /// As long as the record is kept.
    #[default]
    Record,
    /// Until the task ends.
    Live,
}

/// What a task is, from birth on: never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Given at birth; sorts by it.
    pub id: TaskId,
    /// The name under which its component is registered.
    pub task_type: TypeName,
    /// The version the task was born with, and its component; absent if the type was unknown.
    pub component: Option<(u32, Digest)>,
    /// The line it waits in.
    pub queue: QueueName,
    /// −100 to 100, higher first.
    pub priority: i8,
    /// A second submission of its type with this key gives this task.
    pub dedup_key: Option<Arc<str>>,
    /// How long the key stays taken.
    pub dedup_scope: DedupScope,
    /// Who submitted it, as the submission says.
    pub creator: Option<Arc<str>>,
    /// The request that made it, as the submission says.
    pub request_id: Option<Arc<str>>,
    /// Followed from the request that made it to its clean-up.
    pub trace: TraceParent,
    /// Sorted by name.
    pub labels: Vec<(Arc<str>, Arc<str>)>,
    /// Its birth.
    pub created_at: Timestamp,
    /// No start before then.
    pub run_after: Option<Timestamp>,
    /// Of no meaning for a task that was rejected at birth.
    pub terms: Terms,
}

/// A task: what it is, and where it is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// What it is.
    pub spec: Arc<Spec>,
    /// Where it is in its life.
    pub state: State,
    /// Counts the writes: the optimistic lock of the store.
    pub version: u64,
}

impl Task {
    /// What a decision about this task may look at.
    #[must_use]
    pub fn context(&self, now: Timestamp) -> Context<'_> {
        Context { id: self.spec.id, now, terms: &self.spec.terms }
    }

    /// When the task's state is over by itself, and with which event.
    #[must_use]
    pub fn alarm(&self, vitals: Vitals) -> Option<(Timestamp, Event)> {
        self.state.alarm(&self.context(Timestamp::default()), vitals)
    }
}

/// A task comes into the world: as PENDING, or, if it is refused, as REJECTED.
///
/// The wish for a start past the end of its life is refused here.
#[must_use]
pub fn birth(spec: &Spec, refusal: Option<(Rejection, &str)>) -> Step {
    let now = spec.created_at;
    let pending = Pending::born(now, spec.run_after);
    let born = Transition {
        from: None,
        to: Kind::Pending,
        reason: Reason::Submitted,
        by: spec.creator.clone().unwrap_or_else(|| actor::ADMISSION.into()),
        detail: "".into(),
        attempt: 0,
    };
    let too_late = pending.ready_at() >= now + spec.terms.max_age;
    let refusal = refusal.or_else(|| {
        too_late.then_some((Rejection::RunAfterTooLate, "`run_after` is past the end of the task's `max_age`"))
    });
    match refusal {
        None => Step { state: pending.into(), trail: vec![born], effects: Vec::new() },
        Some((rejection, detail)) => {
            let mut step = pending.reject(rejection, actor::ADMISSION, detail, now);
            step.trail.iter_mut().for_each(|line| line.from = None);
            step
        }
    }
}

/// What follows when `event` meets `state`. The one rule book: everything that changes a task asks here.
///
/// # Errors
/// The state says no; it is given back unchanged.
pub fn apply(state: State, event: Event, cx: &Context) -> Result<Step, Refused> {
    state.on(event, cx)
}
