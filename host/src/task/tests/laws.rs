//! What holds whenever a state meets an event.

use std::collections::BTreeSet;
use std::time::Duration;

use super::world::{TASK, all_states, all_terms, at, attempt_of, events, everywhere, left_alone, states};
use crate::task::{
    Context, Effect, Ending, Event, Kind, Reason, Rejection, State, Step, StopReason, Tally, Vitals, apply, birth,
};
use crate::time::Timestamp;

/// The table of the design: nothing else ever happens, and each of these can.
pub(super) const MOVES: [(Option<Kind>, Kind); 19] = [
    (None, Kind::Pending),
    (None, Kind::Rejected),
    (Some(Kind::Pending), Kind::Running),
    (Some(Kind::Pending), Kind::Failed),
    (Some(Kind::Pending), Kind::Cancelled),
    (Some(Kind::Pending), Kind::TimedOut),
    (Some(Kind::Pending), Kind::Rejected),
    (Some(Kind::Running), Kind::Running),
    (Some(Kind::Running), Kind::Success),
    (Some(Kind::Running), Kind::Failed),
    (Some(Kind::Running), Kind::Cancelled),
    (Some(Kind::Running), Kind::TimedOut),
    (Some(Kind::Running), Kind::Interrupted),
    (Some(Kind::Failed), Kind::Pending),
    (Some(Kind::Failed), Kind::Cancelled),
    (Some(Kind::TimedOut), Kind::Pending),
    (Some(Kind::TimedOut), Kind::Cancelled),
    (Some(Kind::Interrupted), Kind::Pending),
    (Some(Kind::Interrupted), Kind::Cancelled),
];

fn starts(step: &Step) -> bool {
    step.effects.iter().any(|effect| matches!(effect, Effect::StartGuest { .. }))
}

/// Every birth there is, accepted or refused.
pub(super) fn births() -> Vec<Step> {
    let refusals = Rejection::ALL.map(|rejection| Some((rejection, "so")));
    let terms = all_terms().remove(0);
    let wishes = [None, Some(at(30)), Some(at(1_000_000))];
    let specs = wishes.map(|run_after| super::script::spec(at(0), run_after, terms.clone()));
    let meet = |spec| std::iter::once(None).chain(refusals).map(move |refusal| birth(spec, refusal));
    specs.iter().flat_map(meet).collect()
}

#[test]
fn only_the_moves_of_the_table_happen_and_each_of_them_does() {
    let mut seen = BTreeSet::new();
    seen.extend(births().iter().flat_map(|step| &step.trail).map(|line| (line.from, line.to)));
    everywhere(|case| {
        seen.extend(case.step().into_iter().flat_map(|step| &step.trail).map(|line| (line.from, line.to)));
    });
    assert_eq!(seen, BTreeSet::from(MOVES));
}

#[test]
fn a_trail_leads_from_the_state_before_to_the_state_after() {
    everywhere(|case| {
        let Some(step) = case.step() else { return };
        let mut kind = case.before.kind();
        for line in &step.trail {
            assert_eq!(line.from, Some(kind), "{}", case.shown());
            assert!(!line.by.is_empty(), "{}", case.shown());
            assert_eq!(Reason::parse(line.reason.code()), Some(line.reason), "{}", case.shown());
            kind = line.to;
        }
        assert_eq!(kind, step.state.kind(), "{}", case.shown());
    });
    for step in births() {
        assert_eq!((step.trail.len(), step.trail[0].from, step.trail[0].to), (1, None, step.state.kind()));
    }
}

#[test]
fn what_is_not_told_is_not_changed() {
    everywhere(|case| {
        let told = case.step().is_none_or(Step::changes);
        assert!(told || case.step().is_some_and(|step| step.state == *case.before), "{}", case.shown());
    });
}

#[test]
fn a_refusal_changes_nothing() {
    everywhere(|case| {
        if let Err(refused) = case.outcome {
            assert_eq!((&refused.state, &refused.event), (case.before, case.event));
        }
    });
}

#[test]
fn a_terminal_state_stays_unless_an_operator_may_take_it_up_again() {
    everywhere(|case| {
        let State::Ended(ended) = case.before else { return };
        let open = !matches!(ended.kind(), Kind::Success | Kind::Cancelled | Kind::Rejected);
        let lawful = match case.event {
            Event::RerunAsked { ask, force: true } => open && !ask.why.trim().is_empty(),
            Event::RerunAsked { force: false, .. } | Event::GiveUpAsked { .. } => ended.recoverable(),
            Event::Claimed { .. }
            | Event::PrecheckFailed(_)
            | Event::CancelAsked { .. }
            | Event::FailAsked { .. }
            | Event::ShutdownBegan { .. }
            | Event::WaitSpent
            | Event::AgeSpent
            | Event::RunSpent { .. }
            | Event::HeartbeatMissed { .. }
            | Event::GraceSpent { .. }
            | Event::AttemptEnded { .. } => false,
        };
        assert!(open || !ended.recoverable(), "{}", case.shown());
        assert_eq!(case.outcome.is_ok(), lawful, "{}", case.shown());
    });
}

#[test]
fn every_live_state_has_an_alarm_that_moves_it_or_orders_the_kill() {
    let vitals = |entered, heartbeat| Vitals { entered_at: entered, heartbeat_at: heartbeat };
    let all_vitals = [
        Vitals::default(),
        vitals(Some(at(0)), Some(at(0))),
        vitals(Some(at(110)), None),
        vitals(Some(at(110)), Some(at(115))),
        vitals(None, Some(at(115))),
        vitals(Some(Timestamp::FAR), Some(Timestamp::FAR)),
    ];
    for terms in all_terms() {
        for (state, vitals) in all_states().into_iter().flat_map(|s| all_vitals.map(|vitals| (s.clone(), vitals))) {
            let cx = Context { id: TASK, now: at(0), terms: &terms };
            let Some((due, event)) = state.alarm(&cx, vitals) else {
                assert!(state.kind().is_terminal(), "{state:?} waits for nothing");
                continue;
            };
            for now in [due, due + Duration::from_hours(1)] {
                let step = apply(state.clone(), event.clone(), &Context { now, ..cx }).unwrap();
                let killed = Effect::KillGuest { attempt: state.tally().attempts };
                let orders = matches!(state, State::Stopping(_)) && step.effects == [killed];
                assert!(orders || step.changes(), "{state:?}: {event:?} moves nothing");
            }
        }
    }
}

#[test]
fn a_task_that_is_left_alone_ends() {
    for terms in all_terms() {
        for state in all_states() {
            let born_at = state.tally().generation_at;
            let kept = matches!(state, State::Stopping(_) | State::Ended(_));
            let end = left_alone(state, born_at, &terms);
            let State::Ended(ended) = &end else { panic!("{end:?}") };
            assert!(kept || ended.at() <= born_at + terms.max_age + terms.grace, "{end:?} lived too long");
        }
    }
}

#[test]
fn success_comes_only_from_a_guest_that_returned_ok() {
    everywhere(|case| {
        let succeeded = case.step().is_some_and(|step| step.state.kind() == Kind::Success);
        let ok = matches!(case.event, Event::AttemptEnded { ending: Ending::Succeeded, .. });
        assert!(!succeeded || ok, "{}", case.shown());
    });
}

#[test]
fn a_guest_starts_only_when_a_waiting_task_is_claimed() {
    everywhere(|case| {
        let Some(step) = case.step() else { return };
        let claimed = case.before.kind() == Kind::Pending && step.state.kind() == Kind::Running;
        assert_eq!(starts(step), claimed, "{}", case.shown());
        assert!(!claimed || matches!(case.event, Event::Claimed { .. }), "{}", case.shown());
    });
}

#[test]
fn a_task_that_was_asked_to_be_cancelled_is_never_run_again() {
    everywhere(|case| {
        let State::Stopping(stopping) = case.before else { return };
        let asked = stopping.stop().reason == StopReason::Cancelled;
        let Some(step) = case.step().filter(|_| asked) else { return };
        match &step.state {
            State::Stopping(after) => assert_eq!(after.stop().reason, StopReason::Cancelled, "{}", case.shown()),
            State::Ended(after) => {
                assert!(matches!(after.kind(), Kind::Cancelled | Kind::Success), "{}", case.shown());
            }
            State::Pending(_) | State::Running(_) => panic!("{}", case.shown()),
        }
    });
}

#[test]
fn an_accepted_cancel_is_what_counts_from_then_on() {
    everywhere(|case| {
        let Some(step) = case.step().filter(|_| matches!(case.event, Event::CancelAsked { .. })) else { return };
        match &step.state {
            State::Stopping(after) => assert_eq!(after.stop().reason, StopReason::Cancelled, "{}", case.shown()),
            State::Ended(after) => assert_eq!(after.kind(), Kind::Cancelled, "{}", case.shown()),
            State::Pending(_) | State::Running(_) => panic!("{}", case.shown()),
        }
    });
}

#[test]
fn a_report_of_any_attempt_but_the_current_one_is_refused() {
    everywhere(|case| {
        let stale = attempt_of(case.event).is_some_and(|attempt| attempt != case.before.tally().attempts);
        assert!(!stale || case.outcome.is_err(), "{}", case.shown());
    });
}

#[test]
fn the_counts_only_grow_and_each_only_for_its_own_reason() {
    everywhere(|case| {
        let Some(step) = case.step() else { return };
        let (before, after) = (case.before.tally(), step.state.tally());
        let rerun = matches!(case.event, Event::RerunAsked { .. });
        assert_eq!(after.attempts, before.attempts + u32::from(starts(step)), "{}", case.shown());
        assert_eq!(after.generation, before.generation + u32::from(rerun), "{}", case.shown());
        let began_at = if rerun { case.cx.now } else { before.generation_at };
        assert_eq!(after.generation_at, began_at, "{}", case.shown());
        if rerun {
            assert_eq!(after.retries, 0, "{}", case.shown());
        } else if after.retries != before.retries {
            assert_eq!(after.retries, before.retries + 1, "{}", case.shown());
            assert!(after.retries <= case.cx.terms.retry.max_retries, "{}", case.shown());
        }
    });
}

#[test]
fn at_most_once_means_that_no_attempt_follows_by_itself() {
    everywhere(|case| {
        let at_most_once = case.cx.terms.retry.max_retries == 0 && case.before.kind() == Kind::Running;
        let again = case.step().is_some_and(|step| step.state.kind() == Kind::Pending);
        assert!(!(at_most_once && again), "{}", case.shown());
    });
}

#[test]
fn a_kill_is_never_put_off_nor_ordered_before_its_time() {
    everywhere(|case| {
        let Some(step) = case.step() else { return };
        let kills = step.effects.iter().any(|effect| matches!(effect, Effect::KillGuest { .. }));
        let kill_at = |state: &State| match state {
            State::Stopping(s) => Some(s.stop().kill_at),
            State::Pending(_) | State::Running(_) | State::Ended(_) => None,
        };
        let before = kill_at(case.before);
        assert!(!kills || before.is_some_and(|due| due <= case.cx.now), "{}", case.shown());
        if let Some(after) = kill_at(&step.state) {
            let latest = before.unwrap_or(case.cx.now + case.cx.terms.grace);
            assert!(after <= latest, "{}", case.shown());
        }
    });
}

#[test]
fn nothing_overflows_at_the_end_of_numbers_and_of_time() {
    let last = Tally { generation: u32::MAX, generation_at: Timestamp::FAR, attempts: u32::MAX, retries: u32::MAX };
    for (terms, state) in all_terms().iter().flat_map(|terms| states(last).into_iter().map(move |s| (terms, s))) {
        for event in events(u32::MAX) {
            for now in [Timestamp::from_micros(i64::MIN), Timestamp::FAR] {
                let cx = Context { id: TASK, now, terms };
                let state = apply(state.clone(), event.clone(), &cx).map_or_else(|no| no.state, |step| step.state);
                assert_eq!(state.alarm(&cx, Vitals::default()).is_none(), state.kind().is_terminal());
            }
        }
    }
}
