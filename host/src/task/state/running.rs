//! RUNNING: one attempt is in the hands of a node.

use std::time::Duration;

use super::ended::{Ended, Manner};
use super::pending::Pending;
use super::stopping::{Stop, StopReason, Stopping};
use super::{Hold, Kind, State, Tally, Vitals};
use crate::task::event::{Ask, Context, Effect, Event, Objection, Reason, Refused, Step, Transition, actor};
use crate::task::failure::{Death, Ending, FailureClass, Loss};
use crate::time::Timestamp;

/// An attempt that nobody has asked to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    tally: Tally,
    hold: Hold,
}

impl Running {
    pub(super) const fn claimed(tally: Tally, hold: Hold) -> Self {
        Self { tally, hold }
    }

    pub(in crate::task) const fn restored(tally: Tally, hold: Hold) -> Self {
        Self { tally, hold }
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

    pub(super) fn alarm(&self, cx: &Context, vitals: Vitals) -> (Timestamp, Event) {
        let attempt = self.tally.attempts;
        // The executor's clock may be behind: what it tells of the time before the claim is not believed.
        let claimed_at = self.hold.claimed_at;
        let entered_at = vitals.entered_at.map_or(claimed_at, |at| at.max(claimed_at));
        let life = (self.tally.life_ends_at(cx), Event::AgeSpent);
        let run = (entered_at + cx.terms.run_timeout, Event::RunSpent { attempt });
        let beat = cx.terms.heartbeat_timeout.map(|timeout| {
            let last = vitals.heartbeat_at.map_or(entered_at, |at| at.max(entered_at));
            (last + timeout, Event::HeartbeatMissed { attempt })
        });
        let first = |a: (Timestamp, Event), b: (Timestamp, Event)| if b.0 < a.0 { b } else { a };
        let soonest = first(life, run);
        beat.into_iter().fold(soonest, first)
    }

    fn ask_to_stop(self, reason: StopReason, ask: Ask, grace: Duration, cx: &Context) -> Step {
        let attempt = self.tally.attempts;
        let stop = Stop { reason, by: ask.by.clone(), why: ask.why.clone(), asked_at: cx.now, kill_at: cx.now + grace };
        let line = Transition {
            from: Some(Kind::Running),
            to: Kind::Running,
            reason: Reason::StopAsked(reason),
            by: ask.by,
            detail: ask.why,
            attempt,
        };
        Step::to(Stopping::asked(self.tally, self.hold, stop)).told(line).and(Effect::TellGuest { attempt })
    }

    fn end(self, ending: Ending, cx: &Context) -> Step {
        // Of these the guest knows nothing.
        let hosts = matches!(ending, Ending::Died { cause: Death::Unloadable | Death::HostFault, .. });
        let by = if hosts { actor::CLAIM } else { actor::GUEST };
        let (kind, reason, detail, manner) = match ending {
            Ending::Succeeded => (Kind::Success, Reason::Completed, String::new(), Manner::Returned),
            Ending::Stopped => {
                let detail = "the guest returned `stopped`, but nobody had asked it to stop".to_owned();
                (Kind::Failed, Reason::StoppedUnasked, detail, Manner::Returned)
            }
            Ending::Failed { class: FailureClass::Business, message, .. } => {
                (Kind::Failed, Reason::Business, message, Manner::Returned)
            }
            Ending::Failed { class: FailureClass::Fatal, message, .. } => {
                (Kind::Failed, Reason::GuestFatal, message, Manner::Returned)
            }
            Ending::Failed { class: FailureClass::System, message, retry_after } => {
                return self.falter(&message, retry_after, cx);
            }
            Ending::Died { cause, message } => (Kind::Failed, Reason::Died(cause), message, Manner::Killed),
            Ending::FuelSpent => {
                let spent = |fuel| format!("its budget of {fuel} instructions is spent");
                (Kind::TimedOut, Reason::FuelSpent, cx.terms.fuel.map(spent).unwrap_or_default(), Manner::Killed)
            }
            Ending::Lost { loss, message } => return lost(self.tally, loss, &message, cx),
            Ending::Killed => return lost(self.tally, Loss::Executor, "", cx),
        };
        ended(self.tally, kind, reason, manner, by, &detail, cx)
    }

    /// A system failure: retried while retries are left.
    fn falter(self, message: &str, wish: Option<Duration>, cx: &Context) -> Step {
        if self.tally.retries >= cx.terms.retry.max_retries {
            return ended(self.tally, Kind::Failed, Reason::RetriesSpent, Manner::Returned, actor::GUEST, message, cx);
        }
        retried(self.tally, (Kind::Failed, Reason::System), actor::GUEST, message, wish, cx)
    }

    pub(super) fn on(self, event: Event, cx: &Context) -> Result<Step, Refused> {
        let host = |by: &str| Ask { by: by.into(), why: "".into() };
        let refuse = |state: Self, event, why| Err(Refused { state: State::Running(state), event, why });
        let grace = cx.terms.grace;
        match event {
            Event::CancelAsked { ask, grace: given } => {
                Ok(self.ask_to_stop(StopReason::Cancelled, ask, given.unwrap_or(grace).min(grace), cx))
            }
            Event::FailAsked { ask } => Ok(self.ask_to_stop(StopReason::Forced, ask, Duration::ZERO, cx)),
            Event::AgeSpent => {
                if cx.now < self.tally.life_ends_at(cx) {
                    return refuse(self, event, Objection::TooEarly);
                }
                Ok(self.ask_to_stop(StopReason::LifeSpent, host(actor::WATCH), grace, cx))
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
                Ok(self.ask_to_stop(StopReason::Shutdown, host(actor::SHUTDOWN), grace.min(grace_max), cx))
            }
            Event::RunSpent { .. } => {
                if !self.hold.run_may_be_spent(cx) {
                    return refuse(self, event, Objection::TooEarly);
                }
                Ok(self.ask_to_stop(StopReason::RunSpent, host(actor::WATCH), grace, cx))
            }
            Event::HeartbeatMissed { .. } => {
                if !self.hold.beat_may_be_missed(cx) {
                    return refuse(self, event, Objection::TooEarly);
                }
                Ok(self.ask_to_stop(StopReason::HeartbeatMissed, host(actor::WATCH), grace, cx))
            }
            Event::AttemptEnded { ending, .. } => Ok(self.end(ending, cx)),
            Event::GraceSpent { .. } => refuse(self, event, Objection::TooEarly),
            Event::Claimed { .. } | Event::PrecheckFailed(_) | Event::WaitSpent => {
                refuse(self, event, Objection::NotPending)
            }
            Event::RerunAsked { .. } | Event::GiveUpAsked { .. } => refuse(self, event, Objection::StillLive),
        }
    }
}

impl From<Running> for State {
    fn from(state: Running) -> Self {
        Self::Running(state)
    }
}

/// The attempt is over and the task with it.
pub(super) fn ended(
    tally: Tally,
    kind: Kind,
    reason: Reason,
    manner: Manner,
    by: &str,
    detail: &str,
    cx: &Context,
) -> Step {
    let line = Transition {
        from: Some(Kind::Running),
        to: kind,
        reason,
        by: by.into(),
        detail: detail.into(),
        attempt: tally.attempts,
    };
    Step::to(Ended::new(tally, kind, reason, manner, cx.now, detail.into())).told(line)
}

/// The attempt is over, and another follows after the delay of the policy: two lines in one step.
pub(super) fn retried(
    tally: Tally,
    (kind, reason): (Kind, Reason),
    by: &str,
    detail: &str,
    wish: Option<Duration>,
    cx: &Context,
) -> Step {
    let delay = cx.terms.retry.delay(cx.id, tally.retries + 1, wish);
    let pending = Pending::retry(tally, cx.now, delay);
    let over = Transition {
        from: Some(Kind::Running),
        to: kind,
        reason,
        by: by.into(),
        detail: detail.into(),
        attempt: tally.attempts,
    };
    let again = Transition {
        from: Some(kind),
        to: Kind::Pending,
        reason: Reason::Retry,
        by: actor::RETRY.into(),
        detail: format!("retry {} of {}", tally.retries + 1, cx.terms.retry.max_retries).into(),
        attempt: tally.attempts,
    };
    Step::to(pending).told(over).told(again)
}

/// The attempt ended through nobody's fault, and the next does not count as a retry.
pub(super) fn requeued(tally: Tally, reason: Reason, by: &str, detail: &str, cx: &Context) -> Step {
    let over = Transition {
        from: Some(Kind::Running),
        to: Kind::Interrupted,
        reason,
        by: by.into(),
        detail: detail.into(),
        attempt: tally.attempts,
    };
    let again = Transition {
        from: Some(Kind::Interrupted),
        to: Kind::Pending,
        reason: Reason::Requeued,
        detail: "".into(),
        ..over.clone()
    };
    Step::to(Pending::requeued(tally, cx.now)).told(over).told(again)
}

/// An attempt that was lost. It counts if it may be what killed its node or its executor.
pub(super) fn lost(tally: Tally, loss: Loss, message: &str, cx: &Context) -> Step {
    let policy = &cx.terms.retry;
    let (reason, counts) = match loss {
        Loss::Node => (Reason::NodeLost, true),
        Loss::Suspect => (Reason::ExecutorLost, true),
        Loss::Executor => (Reason::ExecutorLost, false),
    };
    let over = policy.max_retries == 0 || (counts && tally.retries >= policy.max_retries);
    if over {
        return ended(tally, Kind::Interrupted, reason, Manner::Killed, actor::RECONCILE, message, cx);
    }
    if counts {
        return retried(tally, (Kind::Interrupted, reason), actor::RECONCILE, message, None, cx);
    }
    requeued(tally, reason, actor::RECONCILE, message, cx)
}
