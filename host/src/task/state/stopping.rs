//! RUNNING, and asked to stop: told once, and killed when its grace is spent.

use std::sync::Arc;
use std::time::Duration;

use super::ended::Manner;
use super::running::{ended, lost, requeued, retried};
use super::{Hold, Kind, State, Tally};
use crate::task::event::{Ask, Context, Effect, Event, Objection, Reason, Refused, Step, Transition, actor};
use crate::task::failure::Ending;
use crate::time::Timestamp;

/// Why an attempt is to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StopReason {
    /// A person cancelled the task.
    Cancelled,
    /// An operator makes it fail.
    Forced,
    /// The attempt's `run_timeout` is over.
    RunSpent,
    /// The task's `max_age` is over.
    LifeSpent,
    /// The guest was silent for longer than `heartbeat_timeout`.
    HeartbeatMissed,
    /// The node goes down.
    Shutdown,
}

impl StopReason {
    /// Each of them once.
    pub const ALL: [Self; 6] =
        [Self::Cancelled, Self::Forced, Self::RunSpent, Self::LifeSpent, Self::HeartbeatMissed, Self::Shutdown];

    /// The stable code of the API and the store.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::Forced => "forced",
            Self::RunSpent => "run_time_spent",
            Self::LifeSpent => "life_spent",
            Self::HeartbeatMissed => "heartbeat_expired",
            Self::Shutdown => "shutdown",
        }
    }

    /// Reads what `code` gives.
    #[must_use]
    pub fn parse(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.code() == code)
    }

    /// A person's word goes before a budget's, and that before the node's: a task that somebody cancelled
    /// is never run again because the node was going down, or because a timeout would have been retried.
    /// The end of the life goes before the budgets of one attempt, which a retry renews.
    const fn rank(self) -> u8 {
        match self {
            Self::Cancelled | Self::Forced => 3,
            Self::LifeSpent => 2,
            Self::RunSpent | Self::HeartbeatMissed => 1,
            Self::Shutdown => 0,
        }
    }
}

/// A request to stop, as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Of all that were given, the one that counts.
    pub reason: StopReason,
    /// Who asked.
    pub by: Arc<str>,
    /// In the asker's words; may be empty.
    pub why: Arc<str>,
    /// When this reason was given.
    pub asked_at: Timestamp,
    /// When force is used; never put off.
    pub kill_at: Timestamp,
}

/// An attempt that has been asked to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopping {
    tally: Tally,
    hold: Hold,
    stop: Stop,
}

impl Stopping {
    pub(super) const fn asked(tally: Tally, hold: Hold, stop: Stop) -> Self {
        Self { tally, hold, stop }
    }

    pub(in crate::task) const fn restored(tally: Tally, hold: Hold, stop: Stop) -> Self {
        Self { tally, hold, stop }
    }

    /// What was counted, the current attempt included.
    #[must_use]
    pub const fn tally(&self) -> Tally {
        self.tally
    }

    /// Who has the attempt.
    #[must_use]
    pub const fn hold(&self) -> Hold {
        self.hold
    }

    /// The request as it stands.
    #[must_use]
    pub const fn stop(&self) -> &Stop {
        &self.stop
    }

    pub(super) const fn alarm(&self) -> (Timestamp, Event) {
        (self.stop.kill_at, Event::GraceSpent { attempt: self.tally.attempts })
    }

    /// Another request: a weightier one takes over, and the sooner kill stands in any case.
    fn asked_again(self, reason: StopReason, ask: Ask, grace: Duration, cx: &Context) -> Step {
        let attempt = self.tally.attempts;
        let kill_at = self.stop.kill_at.min(cx.now + grace);
        let weightier = reason.rank() > self.stop.reason.rank();
        if !weightier && kill_at == self.stop.kill_at {
            return Step::to(self);
        }
        let line = Transition {
            from: Some(Kind::Running),
            to: Kind::Running,
            reason: Reason::StopAsked(reason),
            by: ask.by.clone(),
            detail: ask.why.clone(),
            attempt,
        };
        let stop = if weightier {
            Stop { reason, by: ask.by, why: ask.why, asked_at: cx.now, kill_at }
        } else {
            Stop { kill_at, ..self.stop }
        };
        Step::to(Self { stop, ..self }).told(line).and(Effect::TellGuest { attempt })
    }

    fn end(self, ending: &Ending, cx: &Context) -> Step {
        let (manner, wish) = match ending {
            Ending::Succeeded => {
                let detail = format!("the request to stop ({}) came too late", self.stop.reason.code());
                let by = actor::GUEST;
                return ended(self.tally, Kind::Success, Reason::Completed, Manner::Returned, by, &detail, cx);
            }
            Ending::Lost { loss, message } if self.stop.reason == StopReason::Shutdown => {
                return lost(self.tally, *loss, message, cx);
            }
            Ending::Stopped => (Manner::Returned, None),
            Ending::Failed { retry_after, .. } => (Manner::Returned, *retry_after),
            Ending::Died { .. } | Ending::FuelSpent | Ending::Killed | Ending::Lost { .. } => (Manner::Killed, None),
        };
        self.end_by_reason(manner, wish, cx)
    }

    fn end_by_reason(self, manner: Manner, wish: Option<Duration>, cx: &Context) -> Step {
        let Self { tally, stop, .. } = self;
        let (kind, reason) = match stop.reason {
            StopReason::Cancelled => (Kind::Cancelled, Reason::Cancelled),
            StopReason::Forced => (Kind::Failed, Reason::Forced),
            StopReason::LifeSpent => (Kind::TimedOut, Reason::LifeSpent),
            StopReason::RunSpent => return timed_out(tally, Reason::RunTimeSpent, manner, wish, cx),
            StopReason::HeartbeatMissed => return timed_out(tally, Reason::HeartbeatExpired, manner, wish, cx),
            StopReason::Shutdown if cx.terms.retry.max_retries > 0 => {
                return requeued(tally, Reason::Shutdown, actor::SHUTDOWN, "", cx);
            }
            StopReason::Shutdown => (Kind::Interrupted, Reason::Shutdown),
        };
        ended(tally, kind, reason, manner, &stop.by, &stop.why, cx)
    }

    pub(super) fn on(self, event: Event, cx: &Context) -> Result<Step, Refused> {
        let host = |by: &str| Ask { by: by.into(), why: "".into() };
        let refuse = |state: Self, event, why| Err(Refused { state: State::Stopping(state), event, why });
        let grace = cx.terms.grace;
        match event {
            Event::CancelAsked { .. } if self.stop.reason == StopReason::Forced => {
                refuse(self, event, Objection::StoppingAlready)
            }
            Event::CancelAsked { ask, grace: given } => {
                Ok(self.asked_again(StopReason::Cancelled, ask, given.unwrap_or(grace).min(grace), cx))
            }
            Event::FailAsked { .. } if self.stop.reason == StopReason::Cancelled => {
                refuse(self, event, Objection::StoppingAlready)
            }
            Event::FailAsked { ask } => Ok(self.asked_again(StopReason::Forced, ask, Duration::ZERO, cx)),
            Event::AgeSpent => {
                if cx.now < self.tally.life_ends_at(cx) {
                    return refuse(self, event, Objection::TooEarly);
                }
                Ok(self.asked_again(StopReason::LifeSpent, host(actor::WATCH), grace, cx))
            }
            Event::ShutdownBegan { attempt, .. }
            | Event::RunSpent { attempt }
            | Event::HeartbeatMissed { attempt }
            | Event::GraceSpent { attempt }
            | Event::AttemptEnded { attempt, .. }
                if attempt != self.tally.attempts =>
            {
                refuse(self, event, Objection::StaleAttempt)
            }
            Event::ShutdownBegan { grace_max, .. } => {
                Ok(self.asked_again(StopReason::Shutdown, host(actor::SHUTDOWN), grace.min(grace_max), cx))
            }
            Event::RunSpent { .. } if !self.hold.run_may_be_spent(cx) => refuse(self, event, Objection::TooEarly),
            Event::HeartbeatMissed { .. } if !self.hold.beat_may_be_missed(cx) => {
                refuse(self, event, Objection::TooEarly)
            }
            Event::RunSpent { .. } => Ok(self.asked_again(StopReason::RunSpent, host(actor::WATCH), grace, cx)),
            Event::HeartbeatMissed { .. } => {
                Ok(self.asked_again(StopReason::HeartbeatMissed, host(actor::WATCH), grace, cx))
            }
            Event::GraceSpent { attempt } => {
                if cx.now < self.stop.kill_at {
                    return refuse(self, event, Objection::TooEarly);
                }
                Ok(Step::to(self).and(Effect::KillGuest { attempt }))
            }
            Event::AttemptEnded { ending, .. } => Ok(self.end(&ending, cx)),
            Event::Claimed { .. } | Event::PrecheckFailed(_) | Event::WaitSpent => {
                refuse(self, event, Objection::NotPending)
            }
            Event::RerunAsked { .. } | Event::GiveUpAsked { .. } => refuse(self, event, Objection::StillLive),
        }
    }
}

impl From<Stopping> for State {
    fn from(state: Stopping) -> Self {
        Self::Stopping(state)
    }
}

/// A budget of one attempt is spent: retried only if the terms say so.
fn timed_out(tally: Tally, reason: Reason, manner: Manner, wish: Option<Duration>, cx: &Context) -> Step {
    let policy = &cx.terms.retry;
    if policy.retry_timeouts && tally.retries < policy.max_retries {
        return retried(tally, (Kind::TimedOut, reason), actor::WATCH, "", wish, cx);
    }
    ended(tally, Kind::TimedOut, reason, manner, actor::WATCH, "", cx)
}
