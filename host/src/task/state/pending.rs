//! PENDING: registered, and waiting for its turn.

use std::time::Duration;

use super::ended::{Ended, Manner};
use super::running::Running;
use super::{Hold, Kind, State, Tally};
use crate::task::event::{Ask, Context, Effect, Event, Objection, Reason, Refused, Rejection, Step, Transition, actor};
use crate::time::Timestamp;

/// What a pending task waits for. A paused queue holds any of them; that is a fact of the queue, and not repeated here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wait {
    /// A free slot.
    Ready,
    /// The time that its submission named.
    Scheduled,
    /// The delay before a retry.
    Retry,
}

impl Wait {
    /// Each of them once.
    pub const ALL: [Self; 3] = [Self::Ready, Self::Scheduled, Self::Retry];

    /// The stable code of the API and the store.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Scheduled => "scheduled",
            Self::Retry => "retry",
        }
    }

    /// Reads what `code` gives.
    #[must_use]
    pub fn parse(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|wait| wait.code() == code)
    }
}

/// A task that waits. Fields are private: only a birth, a move or a sound [`crate::task::Record`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    tally: Tally,
    wait: Wait,
    ready_at: Timestamp,
}

impl Pending {
    /// A task as it is born; `run_after` puts its start off.
    pub(in crate::task) fn born(now: Timestamp, run_after: Option<Timestamp>) -> Self {
        match run_after {
            Some(at) if at > now => Self { tally: Tally::at_birth(now), wait: Wait::Scheduled, ready_at: at },
            _ => Self { tally: Tally::at_birth(now), wait: Wait::Ready, ready_at: now },
        }
    }

    pub(in crate::task) const fn restored(tally: Tally, wait: Wait, ready_at: Timestamp) -> Self {
        Self { tally, wait, ready_at }
    }

    /// The next attempt is due after `delay`, and counts as a retry.
    pub(super) fn retry(tally: Tally, now: Timestamp, delay: Duration) -> Self {
        Self { tally: tally.next_retry(), wait: Wait::Retry, ready_at: now + delay }
    }

    /// The next attempt is due at once, and does not count.
    pub(super) const fn requeued(tally: Tally, now: Timestamp) -> Self {
        Self { tally, wait: Wait::Ready, ready_at: now }
    }

    pub(super) const fn revived(tally: Tally, now: Timestamp) -> Self {
        Self { tally: tally.next_generation(now), wait: Wait::Ready, ready_at: now }
    }

    /// What was counted up to now.
    #[must_use]
    pub const fn tally(&self) -> Tally {
        self.tally
    }

    /// What it waits for; `ready_at` tells whether that has come.
    #[must_use]
    pub const fn wait(&self) -> Wait {
        self.wait
    }

    /// From when on it may start.
    #[must_use]
    pub const fn ready_at(&self) -> Timestamp {
        self.ready_at
    }

    fn wait_ends_at(&self, cx: &Context) -> Timestamp {
        self.ready_at + cx.terms.queue_timeout
    }

    pub(super) fn alarm(&self, cx: &Context) -> (Timestamp, Event) {
        let (wait, life) = (self.wait_ends_at(cx), self.tally.life_ends_at(cx));
        if life <= wait { (life, Event::AgeSpent) } else { (wait, Event::WaitSpent) }
    }

    fn claim(self, hold: Hold) -> Step {
        let tally = self.tally.next_attempt();
        let attempt = tally.attempts;
        let line = Transition {
            from: Some(Kind::Pending),
            to: Kind::Running,
            reason: Reason::Claimed,
            by: actor::CLAIM.into(),
            detail: "".into(),
            attempt,
        };
        Step::to(Running::claimed(tally, hold)).told(line).and(Effect::StartGuest { attempt })
    }

    fn end(self, kind: Kind, reason: Reason, ask: Ask, now: Timestamp) -> Step {
        let attempt = self.tally.attempts;
        let line =
            Transition { from: Some(Kind::Pending), to: kind, reason, by: ask.by, detail: ask.why.clone(), attempt };
        Step::to(Ended::new(self.tally, kind, reason, Manner::NotRunning, now, ask.why)).told(line)
    }

    /// A task that is refused: its record is its end.
    pub(in crate::task) fn reject(self, rejection: Rejection, by: &str, detail: &str, now: Timestamp) -> Step {
        let ask = Ask { by: by.into(), why: detail.into() };
        self.end(Kind::Rejected, Reason::Rejected(rejection), ask, now)
    }

    /// Nothing of it will run. Whether something already has, before a retry or a rerun, is told by the reason.
    fn cancel(self, ask: Ask, now: Timestamp) -> Step {
        let reason = if self.tally.attempts == 0 { Reason::SkippedBeforeStart } else { Reason::Cancelled };
        self.end(Kind::Cancelled, reason, ask, now)
    }

    pub(super) fn on(self, event: Event, cx: &Context) -> Result<Step, Refused> {
        let host = |by: &str| Ask { by: by.into(), why: "".into() };
        let refuse = |state: Self, event, why| Err(Refused { state: State::Pending(state), event, why });
        match event {
            Event::Claimed { node } => {
                if cx.now < self.ready_at {
                    refuse(self, event, Objection::TooEarly)
                } else if cx.now >= self.alarm(cx).0 {
                    refuse(self, event, Objection::TooLate)
                } else {
                    Ok(self.claim(Hold { node, claimed_at: cx.now }))
                }
            }
            Event::PrecheckFailed(rejection) => Ok(self.reject(rejection, actor::CLAIM, "", cx.now)),
            Event::CancelAsked { ask, .. } => Ok(self.cancel(ask, cx.now)),
            Event::FailAsked { ask } => Ok(self.end(Kind::Failed, Reason::Forced, ask, cx.now)),
            Event::WaitSpent => {
                if cx.now < self.wait_ends_at(cx) {
                    return refuse(self, event, Objection::TooEarly);
                }
                Ok(self.end(Kind::TimedOut, Reason::QueueWaitSpent, host(actor::WATCH), cx.now))
            }
            Event::AgeSpent => {
                if cx.now < self.tally.life_ends_at(cx) {
                    return refuse(self, event, Objection::TooEarly);
                }
                Ok(self.end(Kind::TimedOut, Reason::LifeSpent, host(actor::WATCH), cx.now))
            }
            Event::ShutdownBegan { attempt, .. }
            | Event::RunSpent { attempt }
            | Event::HeartbeatMissed { attempt }
            | Event::GraceSpent { attempt }
            | Event::AttemptEnded { attempt, .. } => {
                let stale = attempt <= self.tally.attempts;
                refuse(self, event, if stale { Objection::StaleAttempt } else { Objection::NotRunning })
            }
            Event::RerunAsked { .. } | Event::GiveUpAsked { .. } => refuse(self, event, Objection::StillLive),
        }
    }
}

impl From<Pending> for State {
    fn from(state: Pending) -> Self {
        Self::Pending(state)
    }
}
