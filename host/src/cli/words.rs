//! One task in words: where it is in its life, why, and what to do about it.
//!
//! Reads the API's types. Knows no streams and no command.

use super::human::{amount, span};
use super::print::{Ink, Tone, tame};
use crate::api::wire::{Progress, Task, Waiting, WaitingFor};
use crate::task::{Death, Kind, Reason, Rejection, StopReason};
use crate::time::Timestamp;

/// How a state looks.
#[must_use]
pub fn tone(kind: Kind) -> Tone {
    match kind {
        Kind::Pending => Tone::Plain,
        Kind::Running => Tone::Live,
        Kind::Success => Tone::Good,
        Kind::Cancelled | Kind::Interrupted => Tone::Warn,
        Kind::Failed | Kind::TimedOut | Kind::Rejected => Tone::Bad,
    }
}

/// The state, and what tells more of it in one word: `RUNNING stopping`, `PENDING held`.
#[must_use]
pub fn state(task: &Task) -> (Tone, String) {
    let code = task.state.code();
    if task.stopping.is_some() {
        return (Tone::Warn, format!("{code} stopping"));
    }
    match &task.waiting {
        Some(waiting) if waiting.what != WaitingFor::Ready => (Tone::Plain, format!("{code} {}", wait(waiting.what))),
        _ => (tone(task.state), code.into()),
    }
}

fn wait(what: WaitingFor) -> &'static str {
    match what {
        WaitingFor::Ready => "ready",
        WaitingFor::Scheduled => "scheduled",
        WaitingFor::Retry => "retry",
        WaitingFor::Held => "held",
    }
}

/// Why it is where it is, in one line.
#[must_use]
pub fn why(task: &Task, now: Timestamp) -> String {
    if let Some(waiting) = &task.waiting {
        return why_waiting(waiting, task, now);
    }
    if let Some(stopping) = &task.stopping {
        let asked = with_detail(&format!("{} by {}", stopping.reason.code(), stopping.by), Some(&stopping.why));
        return match stopping.killed_at {
            Some(_) => format!("{asked}; killed"),
            None => format!("{asked}; killed in {}", span(stopping.kill_at.since(now))),
        };
    }
    if let Some(running) = &task.running {
        return running.progress.as_ref().map(progress).unwrap_or_default();
    }
    match task.reason {
        Some(Reason::Completed) => tame(task.detail.as_deref().unwrap_or_default()),
        Some(reason) => with_detail(reason.code(), task.detail.as_deref()),
        None => String::new(),
    }
}

fn why_waiting(waiting: &Waiting, task: &Task, now: Timestamp) -> String {
    let until = span(waiting.ready_at.since(now));
    match (waiting.what, &waiting.held) {
        (WaitingFor::Held, Some(pause)) => {
            with_detail(&format!("queue `{}` paused by {}", task.queue, pause.by), Some(&pause.reason))
        }
        (WaitingFor::Held, None) => format!("queue `{}` is paused", task.queue),
        (WaitingFor::Ready, _) => "waits for a free slot".into(),
        (WaitingFor::Scheduled, _) => format!("starts in {until}"),
        (WaitingFor::Retry, _) => format!("retry {} in {until}", task.retries),
    }
}

fn with_detail(text: &str, detail: Option<&str>) -> String {
    match detail {
        Some(detail) if !detail.is_empty() => format!("{text}: {}", tame(detail)),
        _ => text.to_owned(),
    }
}

/// `120/500 writing rows`.
#[must_use]
pub fn progress(progress: &Progress) -> String {
    let done = amount(progress.done);
    let count = progress.total.map_or_else(|| done.clone(), |total| format!("{done}/{}", amount(total)));
    match progress.note.as_deref() {
        Some(note) if !note.is_empty() => format!("{count} {}", tame(note)),
        _ => count,
    }
}

/// The state and the reason of an ended task, for its last line.
#[must_use]
pub fn verdict(ink: Ink, task: &Task) -> String {
    let (tone, word) = state(task);
    let word = ink.paint(tone, word);
    match task.reason {
        Some(Reason::Completed) | None => word,
        Some(reason) => format!("{word} {}", reason.code()),
    }
}

/// What may be done about an ending, if there is something.
#[must_use]
pub fn hint(reason: Reason) -> Option<&'static str> {
    Some(match reason {
        Reason::Died(Death::Trap) => "a trap is a defect of the task; the last log lines may hold a panic's message",
        Reason::Died(Death::OutOfMemory) => "give it more with `--memory`, or let it hold less at a time",
        Reason::Died(Death::StackOverflow) => "its recursion is too deep for the stack of a guest",
        Reason::Died(Death::BadResult) => "`run` must return JSON text within the limit `result_bytes`",
        Reason::Died(Death::HostCallLimit) => {
            "it passed too much to the host at once, or held too much of it; see `--limit host_call_bytes` and `--limit handles`"
        }
        Reason::Died(Death::Unloadable) => "see what does not fit with `atropos check FILE`",
        Reason::Died(Death::HostFault) => "the host failed under it; see the host's log, then rerun it",
        Reason::StoppedUnasked => "it returned `stopped` though nobody had asked it to stop",
        Reason::RetriesSpent => "once the cause is mended, `atropos rerun` takes it up again",
        Reason::RunTimeSpent => "give it longer with `--run-timeout`, or see where it stands still",
        Reason::QueueWaitSpent => "no slot came free in time: see `atropos queue list`, and `--queue-timeout`",
        Reason::LifeSpent => "its whole life was too long; see `--max-age`",
        Reason::HeartbeatExpired => "it must call `heartbeat` more often than `--heartbeat-timeout`",
        Reason::FuelSpent => "give it more with `--fuel`",
        Reason::Shutdown | Reason::NodeLost | Reason::ExecutorLost => "`atropos rerun` takes it up again",
        Reason::Rejected(Rejection::UnknownType) => "register the type first: `atropos push TYPE FILE`",
        Reason::Rejected(Rejection::InputInvalid) => "the schema of the input: `atropos type show TYPE`",
        Reason::Rejected(Rejection::InputTooLarge) => "put large data where the task can fetch it",
        Reason::Rejected(Rejection::ComponentMissing) => "push the component again: `atropos push TYPE FILE`",
        Reason::Rejected(Rejection::RunAfterTooLate) => "see `--max-age`",
        Reason::StopAsked(
            StopReason::Cancelled
            | StopReason::Forced
            | StopReason::RunSpent
            | StopReason::LifeSpent
            | StopReason::HeartbeatMissed
            | StopReason::Shutdown,
        )
        | Reason::Submitted
        | Reason::Claimed
        | Reason::Completed
        | Reason::Business
        | Reason::System
        | Reason::GuestFatal
        | Reason::Forced
        | Reason::Cancelled
        | Reason::SkippedBeforeStart
        | Reason::GivenUp
        | Reason::Retry
        | Reason::Requeued
        | Reason::Rerun => return None,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    /// A task as the API shows it, with these fields instead of the usual ones.
    pub fn task(fields: &serde_json::Value) -> Task {
        let mut all = json!({
            "id": "0192d3a4-5b6c-7d8e-9f00-112233445566",
            "type": "export",
            "state": "PENDING",
            "queue": "default",
            "priority": 0,
            "labels": {},
            "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
            "created_at": "2030-01-31T12:00:00Z",
            "generation": 1,
            "attempts": 1,
            "retries": 0,
        });
        for (name, value) in fields.as_object().unwrap() {
            all[name] = value.clone();
        }
        serde_json::from_value(all).unwrap()
    }

    pub fn noon() -> Timestamp {
        "2030-01-31T12:00:00Z".parse().unwrap()
    }

    fn told(fields: &serde_json::Value) -> String {
        let task = task(fields);
        format!("{} | {}", state(&task).1, why(&task, noon()))
    }

    #[test]
    fn each_place_in_life_has_its_words() {
        let node = "0192d3a4-5b6c-7d8e-9f00-112233445566";
        let wait = |what: &str| json!({"waiting": {"for": what, "ready_at": "2030-01-31T12:10:00Z", "wait_ends_at": "2030-02-01T12:00:00Z"}});
        let running = json!({"node": node, "claimed_at": "2030-01-31T12:00:00Z", "progress": {"done": 1, "total": 4, "note": "rows\u{1b}[2J"}});
        let stopping = json!({"reason": "cancelled", "by": "user:ada", "why": "", "asked_at": "2030-01-31T12:00:00Z", "kill_at": "2030-01-31T12:00:02Z"});
        let lines = [
            told(&wait("ready")),
            told(&wait("scheduled")),
            told(&wait("held")),
            told(&json!({"state": "RUNNING", "running": running})),
            told(&json!({"state": "RUNNING", "running": running, "stopping": stopping})),
            told(&json!({"state": "SUCCESS", "reason": "completed"})),
            told(&json!({"state": "FAILED", "reason": "business", "detail": "no account"})),
        ];
        expect![[r"
            PENDING | waits for a free slot
            PENDING scheduled | starts in 10m 00s
            PENDING held | queue `default` is paused
            RUNNING | 1/4 rows�[2J
            RUNNING stopping | cancelled by user:ada; killed in 2.0 s
            SUCCESS | 
            FAILED | business: no account"]]
        .assert_eq(&lines.join("\n"));
    }
}
