//! Every state and every event that differ in a way that matters, and every way in which they can meet.

use std::time::Duration;

use crate::id::{NodeId, TaskId};
use crate::task::{
    Ask, Context, Death, Effect, Ending, Event, FailureClass, Kind, Loss, Manner, Reason, Record, Refused, Rejection,
    State, Step, Stop, StopReason, Tally, Terms, TermsDraft, Wait, apply,
};
use crate::time::Timestamp;

pub(super) const TASK: TaskId = TaskId::from_bytes([7; 16]);
const NODE: NodeId = NodeId::from_bytes([1; 16]);

/// So many seconds after the birth of every task here.
pub(super) fn at(seconds: u64) -> Timestamp {
    Timestamp::from_micros(1_900_000_000_000_000) + Duration::from_secs(seconds)
}

/// Terms that lead to different decisions.
pub(super) fn all_terms() -> Vec<Terms> {
    let seconds = |count| Some(Duration::from_secs(count));
    let plain = TermsDraft { run_timeout: seconds(60), queue_timeout: seconds(600), ..TermsDraft::default() };
    let drafts = [
        TermsDraft { max_retries: Some(0), ..plain.clone() },
        TermsDraft { retry_timeouts: Some(true), grace: seconds(0), ..plain.clone() },
        TermsDraft { heartbeat_timeout: seconds(10), max_age: seconds(150), ..plain.clone() },
        plain,
    ];
    drafts.iter().map(|draft| draft.resolve(Duration::ZERO).unwrap()).collect()
}

pub(super) fn tallies() -> Vec<Tally> {
    let first = |attempts, retries| Tally { generation: 1, generation_at: at(0), attempts, retries };
    vec![
        first(0, 0),
        first(1, 0),
        first(2, 1),
        first(5, 3),
        Tally { generation: 3, generation_at: at(100), attempts: 9, retries: 2 },
    ]
}

/// Every sound record with this tally: what the way back from the store refuses is not a state.
pub(super) fn states(tally: Tally) -> Vec<State> {
    let claimed_at = tally.generation_at + Duration::from_secs(1);
    let blank = Record {
        kind: Kind::Pending,
        generation: tally.generation,
        generation_at: tally.generation_at,
        attempts: tally.attempts,
        retries: tally.retries,
        wait: None,
        ready_at: None,
        node: None,
        claimed_at: None,
        stop: None,
        reason: None,
        manner: None,
        ended_at: None,
        detail: "".into(),
    };
    let mut records = Vec::new();
    for wait in Wait::ALL {
        for delay in [0, 20] {
            let ready_at = Some(tally.generation_at + Duration::from_secs(delay));
            records.push(Record { wait: Some(wait), ready_at, ..blank.clone() });
        }
    }
    let running = Record { kind: Kind::Running, node: Some(NODE), claimed_at: Some(claimed_at), ..blank.clone() };
    for reason in StopReason::ALL {
        for grace in [0, 10, 3600] {
            let asked_at = claimed_at + Duration::from_secs(1);
            let kill_at = asked_at + Duration::from_secs(grace);
            let stop = Stop { reason, by: "ann".into(), why: "wrong month".into(), asked_at, kill_at };
            records.push(Record { stop: Some(stop), ..running.clone() });
        }
    }
    records.push(running);
    for kind in Kind::ALL {
        for reason in Reason::all() {
            for manner in Manner::ALL {
                let (reason, manner, ended_at) = (Some(reason), Some(manner), Some(claimed_at));
                records.push(Record { kind, reason, manner, ended_at, detail: "so".into(), ..blank.clone() });
            }
        }
    }
    records.into_iter().filter_map(|record| State::try_from(record).ok()).collect()
}

pub(super) fn all_states() -> Vec<State> {
    tallies().into_iter().flat_map(states).collect()
}

pub(super) fn endings() -> Vec<Ending> {
    let mut endings = vec![Ending::Succeeded, Ending::Stopped, Ending::FuelSpent, Ending::Killed];
    endings.extend(
        [Loss::Node, Loss::Executor, Loss::Suspect].map(|loss| Ending::Lost { loss, message: "it died".into() }),
    );
    endings.extend(Death::ALL.map(|cause| Ending::Died { cause, message: "so".to_owned() }));
    for retry_after in [None, Some(Duration::ZERO), Some(Duration::MAX)] {
        let failed = |class| Ending::Failed { class, message: "so".to_owned(), retry_after };
        endings.extend(FailureClass::ALL.map(failed));
    }
    endings
}

/// Every event; those that speak of an attempt speak of the one before, the current one, and the one after.
pub(super) fn events(current: u32) -> Vec<Event> {
    let ask = |why: &str| Ask { by: "ann".into(), why: why.into() };
    let mut events = vec![
        Event::Claimed { node: NODE },
        Event::FailAsked { ask: ask("stuck") },
        Event::WaitSpent,
        Event::AgeSpent,
        Event::GiveUpAsked { ask: ask("hopeless") },
    ];
    events.extend(Rejection::ALL.map(Event::PrecheckFailed));
    for grace in [None, Some(Duration::ZERO), Some(Duration::MAX)] {
        events.push(Event::CancelAsked { ask: ask(""), grace });
    }
    for (why, force) in [("", false), ("again", false), ("", true), (" ", true), ("again", true)] {
        events.push(Event::RerunAsked { ask: ask(why), force });
    }
    for attempt in [current.saturating_sub(1), current, current.saturating_add(1)] {
        events.extend([
            Event::RunSpent { attempt },
            Event::HeartbeatMissed { attempt },
            Event::GraceSpent { attempt },
            Event::ShutdownBegan { attempt, grace_max: Duration::ZERO },
            Event::ShutdownBegan { attempt, grace_max: Duration::from_secs(30) },
        ]);
        events.extend(endings().into_iter().map(|ending| Event::AttemptEnded { attempt, ending }));
    }
    events
}

/// The attempt that an event speaks of. An event that is new does not compile here: `events` has to make it too.
pub(super) fn attempt_of(event: &Event) -> Option<u32> {
    match event {
        Event::ShutdownBegan { attempt, .. }
        | Event::RunSpent { attempt }
        | Event::HeartbeatMissed { attempt }
        | Event::GraceSpent { attempt }
        | Event::AttemptEnded { attempt, .. } => Some(*attempt),
        Event::Claimed { .. }
        | Event::PrecheckFailed(_)
        | Event::CancelAsked { .. }
        | Event::FailAsked { .. }
        | Event::WaitSpent
        | Event::AgeSpent
        | Event::RerunAsked { .. }
        | Event::GiveUpAsked { .. } => None,
    }
}

/// A meeting of a state and an event, and what came of it.
pub(super) struct Case<'a> {
    pub before: &'a State,
    pub event: &'a Event,
    pub cx: Context<'a>,
    pub outcome: &'a Result<Step, Refused>,
}

impl Case<'_> {
    pub(super) fn step(&self) -> Option<&Step> {
        self.outcome.as_ref().ok()
    }

    /// The case in words, for a law that is broken.
    pub(super) fn shown(&self) -> String {
        format!("{:?}\n meets {:?}\n at {}: {:?}", self.before, self.event, self.cx.now, self.outcome)
    }
}

/// Lets every state meet every event, under all terms, before, in and after its time.
pub(super) fn everywhere(mut law: impl FnMut(&Case)) {
    for terms in all_terms() {
        for before in all_states() {
            for event in events(before.tally().attempts) {
                for now in [at(5), at(130), at(1_000_000)] {
                    let cx = Context { id: TASK, now, terms: &terms };
                    let outcome = apply(before.clone(), event.clone(), &cx);
                    law(&Case { before: &before, event: &event, cx, outcome: &outcome });
                }
            }
        }
    }
}

/// Lets a task be claimed as soon as it may, run until its alarms stop it, and die when it is killed. Gives the end.
pub(super) fn left_alone(mut state: State, mut now: Timestamp, terms: &Terms) -> State {
    for _ in 0..1_000 {
        let (due, event) = match &state {
            State::Ended(_) => return state,
            State::Pending(s) => {
                let cx = Context { id: TASK, now: now.max(s.ready_at()), terms };
                match apply(state.clone(), Event::Claimed { node: NODE }, &cx) {
                    Ok(_) => (cx.now, Event::Claimed { node: NODE }),
                    Err(_) => alarm(&state, terms),
                }
            }
            State::Running(_) | State::Stopping(_) => alarm(&state, terms),
        };
        now = now.max(due);
        let cx = Context { id: TASK, now, terms };
        let step = apply(state, event, &cx).unwrap();
        state = step.state;
        if let Some(Effect::KillGuest { attempt }) = step.effects.first() {
            let killed = Event::AttemptEnded { attempt: *attempt, ending: Ending::Killed };
            state = apply(state, killed, &cx).unwrap().state;
        }
    }
    panic!("it lives for ever: {state:?}");
}

fn alarm(state: &State, terms: &Terms) -> (Timestamp, Event) {
    let cx = Context { id: TASK, now: Timestamp::default(), terms };
    state.alarm(&cx, crate::task::Vitals::default()).expect("a live state has an alarm")
}
