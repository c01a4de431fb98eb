//! The terminal states. A task gets here once per generation.

use std::sync::Arc;

use super::pending::Pending;
use super::{Kind, State, Tally};
use crate::task::event::{Ask, Context, Event, Objection, Reason, Refused, Step, Transition};
use crate::time::Timestamp;

/// How the guest was when the task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Manner {
    /// It came back by itself.
    Returned,
    /// It was killed, or died.
    Killed,
    /// There was none.
    NotRunning,
}

impl Manner {
    /// Each of them once.
    pub const ALL: [Self; 3] = [Self::Returned, Self::Killed, Self::NotRunning];

    /// The stable code of the API and the store.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Returned => "returned",
            Self::Killed => "killed",
            Self::NotRunning => "not_running",
        }
    }

    /// Reads what `code` gives.
    #[must_use]
    pub fn parse(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|manner| manner.code() == code)
    }
}

/// A task whose life, or this generation of it, is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    tally: Tally,
    kind: Kind,
    reason: Reason,
    manner: Manner,
    at: Timestamp,
    detail: Arc<str>,
}

impl Ended {
    pub(in crate::task) fn new(
        tally: Tally,
        kind: Kind,
        reason: Reason,
        manner: Manner,
        at: Timestamp,
        detail: Arc<str>,
    ) -> Self {
        debug_assert!(lawful(kind, reason, manner), "{kind:?} {reason:?} {manner:?}");
        Self { tally, kind, reason, manner, at, detail }
    }

    /// What was counted up to the end.
    #[must_use]
    pub const fn tally(&self) -> Tally {
        self.tally
    }

    /// Which of the terminal states it is.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Why it ended.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        self.reason
    }

    /// How the guest was.
    #[must_use]
    pub const fn manner(&self) -> Manner {
        self.manner
    }

    /// When the ending was decided.
    #[must_use]
    pub const fn at(&self) -> Timestamp {
        self.at
    }

    /// The failure's message, or the words of who ended it.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// Whether an operator may rerun it or give it up without force: it is on the dead-letter list.
    #[must_use]
    pub const fn recoverable(&self) -> bool {
        match self.kind {
            Kind::Failed => matches!(self.reason, Reason::RetriesSpent),
            Kind::TimedOut => !matches!(self.reason, Reason::FuelSpent),
            Kind::Interrupted => true,
            Kind::Pending | Kind::Running | Kind::Success | Kind::Cancelled | Kind::Rejected => false,
        }
    }

    const fn is_final(&self) -> bool {
        matches!(self.kind, Kind::Success | Kind::Cancelled | Kind::Rejected)
    }

    fn revive(self, ask: Ask, now: Timestamp) -> Step {
        let line = Transition {
            from: Some(self.kind),
            to: Kind::Pending,
            reason: Reason::Rerun,
            by: ask.by,
            detail: ask.why,
            attempt: self.tally.attempts,
        };
        Step::to(Pending::revived(self.tally, now)).told(line)
    }

    fn give_up(self, ask: Ask, now: Timestamp) -> Step {
        let line = Transition {
            from: Some(self.kind),
            to: Kind::Cancelled,
            reason: Reason::GivenUp,
            by: ask.by,
            detail: ask.why.clone(),
            attempt: self.tally.attempts,
        };
        Step::to(Self::new(self.tally, Kind::Cancelled, Reason::GivenUp, self.manner, now, ask.why)).told(line)
    }

    pub(super) fn on(self, event: Event, cx: &Context) -> Result<Step, Refused> {
        let now = cx.now;
        let refuse = |state: Self, event, why| Err(Refused { state: State::Ended(state), event, why });
        match event {
            Event::RerunAsked { .. } | Event::GiveUpAsked { .. } if self.is_final() => {
                refuse(self, event, Objection::Final)
            }
            Event::RerunAsked { ref ask, force: true } if ask.why.trim().is_empty() => {
                refuse(self, event, Objection::ReasonMissing)
            }
            Event::RerunAsked { force: false, .. } | Event::GiveUpAsked { .. } if !self.recoverable() => {
                refuse(self, event, Objection::NotRecoverable)
            }
            Event::RerunAsked { ask, .. } => Ok(self.revive(ask, now)),
            Event::GiveUpAsked { ask } => Ok(self.give_up(ask, now)),
            Event::ShutdownBegan { .. }
            | Event::RunSpent { .. }
            | Event::HeartbeatMissed { .. }
            | Event::GraceSpent { .. }
            | Event::AttemptEnded { .. }
            | Event::Claimed { .. }
            | Event::PrecheckFailed(_)
            | Event::CancelAsked { .. }
            | Event::FailAsked { .. }
            | Event::WaitSpent
            | Event::AgeSpent => refuse(self, event, Objection::Ended),
        }
    }
}

/// Which endings there are: the state that each reason leads to, and how the guest can have been.
pub(in crate::task) fn lawful(kind: Kind, reason: Reason, manner: Manner) -> bool {
    use Manner::{Killed, NotRunning, Returned};
    let (expected, manners): (Kind, &[Manner]) = match reason {
        Reason::Completed => (Kind::Success, &[Returned]),
        Reason::Business | Reason::RetriesSpent | Reason::GuestFatal | Reason::StoppedUnasked => {
            (Kind::Failed, &[Returned])
        }
        Reason::Died(_) => (Kind::Failed, &[Killed]),
        Reason::Forced => (Kind::Failed, &Manner::ALL),
        Reason::SkippedBeforeStart => (Kind::Cancelled, &[NotRunning]),
        Reason::Cancelled | Reason::GivenUp => (Kind::Cancelled, &Manner::ALL),
        Reason::QueueWaitSpent => (Kind::TimedOut, &[NotRunning]),
        Reason::LifeSpent => (Kind::TimedOut, &Manner::ALL),
        Reason::RunTimeSpent | Reason::HeartbeatExpired => (Kind::TimedOut, &[Returned, Killed]),
        Reason::FuelSpent => (Kind::TimedOut, &[Killed]),
        Reason::Shutdown => (Kind::Interrupted, &[Returned, Killed]),
        Reason::NodeLost | Reason::ExecutorLost => (Kind::Interrupted, &[Killed]),
        Reason::Rejected(_) => (Kind::Rejected, &[NotRunning]),
        Reason::Submitted
        | Reason::Claimed
        | Reason::StopAsked(_)
        | Reason::System
        | Reason::Retry
        | Reason::Requeued
        | Reason::Rerun => return false,
    };
    kind == expected && manners.contains(&manner)
}

impl From<Ended> for State {
    fn from(state: Ended) -> Self {
        Self::Ended(state)
    }
}
