//! Lists of what happened: tasks, audit, attempts, log lines.
//!
//! Reads the API's types and gives text. Knows no streams.

use super::human::{age, bytes, clip, clock, date, instant, span};
use super::print::{Ink, Tone, tame};
use super::table::{Cell, Table};
use super::words;
use crate::api::wire::{Attempt, AuditEntry, LogLine, Task};
use crate::task::LogLevel;
use crate::time::Timestamp;

/// The longest reason that a list shows; `show` has all of it.
const WHY_MAX: usize = 80;

/// Many tasks, one line each.
#[must_use]
pub fn tasks(ink: Ink, tasks: &[Task], now: Timestamp) -> String {
    let mut table = Table::new(&["ID", "TYPE", "STATE", "ATTEMPT", "AGE", "WHY"]);
    for task in tasks {
        let (tone, word) = words::state(task);
        let attempt = if task.attempts == 0 { String::new() } else { task.attempts.to_string() };
        table.row([
            task.id.to_string().into(),
            task.task_type.to_string().into(),
            Cell::new(tone, word),
            attempt.into(),
            age(task.created_at, now).into(),
            clip(&words::why(task, now), WHY_MAX).into(),
        ]);
    }
    table.text(ink)
}

/// The whole life of a task, one line for each change.
#[must_use]
pub fn audit(ink: Ink, entries: &[AuditEntry]) -> String {
    let mut table = Table::new(&["AT", "AFTER", "FROM", "TO", "REASON", "BY", "ATTEMPT", "DETAIL"]);
    let born_at = entries.first().map_or_else(Timestamp::default, |first| first.at);
    for entry in entries {
        let attempt = if entry.attempt == 0 { String::new() } else { entry.attempt.to_string() };
        table.row([
            instant(entry.at).into(),
            format!("+{}", span(entry.at.since(born_at))).into(),
            entry.from.map_or("", |kind| kind.code()).into(),
            Cell::new(words::tone(entry.to), entry.to.code()),
            entry.reason.code().into(),
            tame(&entry.by).into(),
            attempt.into(),
            tame(&entry.detail).into(),
        ]);
    }
    table.text(ink)
}

/// The attempts of a task, one line each.
#[must_use]
pub fn attempts(ink: Ink, attempts: &[Attempt], now: Timestamp) -> String {
    let header =
        ["ATTEMPT", "STARTED", "TOOK", "OUTCOME", "REASON", "PROCESSOR", "PEAK", "CALLS", "PROGRESS", "DETAIL"];
    let mut table = Table::new(&header);
    for attempt in attempts {
        let started = attempt.entered_at.unwrap_or(attempt.claimed_at);
        let (tone, outcome) = match attempt.outcome {
            Some(kind) => (words::tone(kind), kind.code()),
            None => (Tone::Live, "running"),
        };
        let cost = attempt.cost.as_ref();
        let cpu = |ms: f64| span(std::time::Duration::try_from_secs_f64(ms / 1e3).unwrap_or_default());
        table.row([
            attempt.attempt.to_string().into(),
            instant(started).into(),
            span(attempt.ended_at.unwrap_or(now).since(started)).into(),
            Cell::new(tone, outcome),
            attempt.reason.map_or("", |reason| reason.code()).into(),
            cost.map(|cost| cpu(cost.cpu_ms)).unwrap_or_default().into(),
            cost.map(|cost| bytes(cost.memory_bytes_peak)).unwrap_or_default().into(),
            cost.map(|cost| cost.host_calls.to_string()).unwrap_or_default().into(),
            attempt.progress.as_ref().map(words::progress).unwrap_or_default().into(),
            tame(attempt.detail.as_deref().unwrap_or_default()).into(),
        ]);
    }
    table.text(ink)
}

/// A line of a guest. A message of several lines keeps them, set in.
#[must_use]
pub fn log_line(ink: Ink, line: &LogLine) -> String {
    let tone = match line.level {
        LogLevel::Error => Tone::Bad,
        LogLevel::Warn => Tone::Warn,
        LogLevel::Info => Tone::Good,
        LogLevel::Debug | LogLevel::Trace => Tone::Dim,
    };
    let level = ink.paint(tone, format!("{:5}", line.level.code()));
    let message: Vec<_> = line.message.lines().map(tame).collect();
    let set_in = format!("\n{:19}", "");
    format!("{} {level} {}", ink.paint(Tone::Dim, clock(line.at)), message.join(&set_in))
}

/// The day and time of an instant, with how long ago it was.
#[must_use]
pub fn moment(at: Timestamp, now: Timestamp) -> String {
    if at > now {
        return format!("{} (in {})", date(at), span(at.since(now)));
    }
    match age(at, now).as_str() {
        "now" => format!("{} (now)", date(at)),
        age => format!("{} ({age} ago)", date(at)),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::super::words::tests::{noon, task};
    use super::*;

    #[test]
    fn a_list_shows_where_each_task_is_and_why() {
        let long = "x".repeat(100);
        let list = [
            task(&json!({"state": "SUCCESS", "reason": "completed"})),
            task(&json!({"state": "FAILED", "reason": "business", "detail": long, "attempts": 0})),
        ];
        expect![[r"
            ID                                    TYPE    STATE    ATTEMPT  AGE  WHY
            0192d3a4-5b6c-7d8e-9f00-112233445566  export  SUCCESS  1        now
            0192d3a4-5b6c-7d8e-9f00-112233445566  export  FAILED            now  business: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…
        "]]
        .assert_eq(&tasks(Ink::OFF, &list, noon()));
    }

    #[test]
    fn an_audit_reads_as_a_timeline() {
        let entry = |at: &str, from: Option<&str>, to: &str, reason: &str, by: &str| -> AuditEntry {
            serde_json::from_value(json!({
                "number": 1, "at": at, "from": from, "to": to, "reason": reason, "by": by, "detail": "",
                "attempt": 1, "generation": 1,
                "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            }))
            .unwrap()
        };
        let entries = [
            entry("2030-01-31T12:00:00Z", None, "PENDING", "submitted", "user:ada"),
            entry("2030-01-31T12:00:00.001Z", Some("PENDING"), "RUNNING", "claimed", "host:claim"),
        ];
        expect![[r"
            AT                        AFTER    FROM     TO       REASON     BY          ATTEMPT
            2030-01-31 12:00:00.000Z  +0 ms             PENDING  submitted  user:ada    1
            2030-01-31 12:00:00.001Z  +1.0 ms  PENDING  RUNNING  claimed    host:claim  1
        "]]
        .assert_eq(&audit(Ink::OFF, &entries));
    }

    #[test]
    fn a_message_of_several_lines_keeps_them() {
        let line = LogLine {
            number: 1,
            attempt: 1,
            line: 1,
            at: noon(),
            level: LogLevel::Error,
            message: "panicked:\nno entry\n".into(),
        };
        expect![[r"
            12:00:00.000 error panicked:
                               no entry"]]
        .assert_eq(&log_line(Ink::OFF, &line));
    }

    #[test]
    fn a_moment_says_how_far_it_is() {
        assert_eq!(moment(noon(), noon() + std::time::Duration::from_secs(90)), "2030-01-31 12:00:00Z (1m ago)");
        assert_eq!(moment(noon() + std::time::Duration::from_secs(90), noon()), "2030-01-31 12:01:30Z (in 1m 30s)");
    }
}
