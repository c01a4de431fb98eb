//! What an attempt leaves, for people: what it cost, how its stop went step by step, where it died.
//!
//! Reads the API's types and gives text. Knows no streams.

use std::fmt::Write;
use std::time::Duration;

use super::human::{bytes, count, span};
use super::print::{Ink, Tone, tame};
use super::words;
use crate::api::wire::{Attempt, CoreDump, Cost, Scene, StopReceipt, Task};
use crate::task::Phase;
use crate::time::Timestamp;

/// The frames of a backtrace that are shown: those that are kept, and the word that there were more.
const FRAMES_MAX: usize = 21;

fn ms(ms: f64) -> String {
    span(Duration::try_from_secs_f64(ms / 1e3).unwrap_or_default())
}

/// `2.1 s wall · 4.5 ms processor · 1.2 MiB peak · 130 host calls`.
#[must_use]
pub fn cost(cost: &Cost) -> String {
    let mut parts = vec![
        format!("{} wall", ms(cost.wall_ms)),
        format!("{} processor", ms(cost.cpu_ms)),
        format!("{} peak memory", bytes(cost.memory_bytes_peak)),
        count(cost.host_calls, "host call"),
    ];
    parts.extend(cost.fuel.map(|fuel| format!("{fuel} fuel")));
    if cost.log_lines_dropped > 0 {
        parts.push(format!("{} dropped", count(cost.log_lines_dropped, "log line")));
    }
    parts.join(" · ")
}

/// A stop as a timeline: every step with its distance from the request.
#[must_use]
pub fn stop(ink: Ink, stop: &StopReceipt) -> String {
    let took = match stop.ring {
        1 => "it came back by itself",
        2 => "its sandbox was taken away",
        _ => "it died with its executor, or with its node",
    };
    let steps: [(&str, Option<Timestamp>, &str); 6] = [
        ("asked", Some(stop.asked_at), "the request was made"),
        ("told", stop.told_at, "the executor had it"),
        ("seen", stop.seen_at, "the guest looked, and saw it"),
        ("killed", stop.killed_at, "the grace was over"),
        ("gone", Some(stop.gone_at), took),
        ("written", Some(stop.written_at), "the end is on record"),
    ];
    let mut text = String::new();
    for (name, at, meaning) in steps {
        let (tone, when) = match at {
            Some(at) => (Tone::Plain, format!("+{:.1} ms", at.since(stop.asked_at).as_secs_f64() * 1e3)),
            None => (Tone::Dim, "never".into()),
        };
        let line = format!("{when:>12}  {name:8}{}", if at.is_some() { meaning } else { "" });
        let _ = writeln!(text, "{}", ink.paint(tone, line.trim_end()));
    }
    text
}

/// Where an attempt died, and what is known of that moment; then its frames by name, innermost first.
#[must_use]
pub fn autopsy(ink: Ink, attempt: &Attempt, scene: &Scene) -> String {
    let mut text = String::new();
    let before = |at: Option<Timestamp>| scene.at.zip(at).map(|(died_at, at)| span(died_at.since(at)));
    if let Some(phase) = scene.phase {
        let after = before(attempt.entered_at).map(|after| format!(", {after} after its entry")).unwrap_or_default();
        let call = scene.host_call.as_ref().map(|call| format!(", in the host call {}", tame(call)));
        let _ = writeln!(text, "  it was {}{after}{}", doing(phase), call.unwrap_or_default());
    } else if let Some(call) = &scene.host_call {
        let _ = writeln!(text, "  in the host call {}", tame(call));
    }
    if let Some(before) = before(attempt.heartbeat_at) {
        let progress = attempt.progress.as_ref().map(|progress| format!(", at {}", words::progress(progress)));
        let _ = writeln!(text, "  its last heartbeat was {before} before{}", progress.unwrap_or_default());
    }
    match &scene.core_dump {
        Some(CoreDump { bytes: Some(size), .. }) => {
            let _ = writeln!(text, "  a core dump of {} is kept: `atropos core-dump`", bytes(*size));
        }
        Some(CoreDump { missing, .. }) => {
            let why = missing.as_deref().map(|why| format!(": {}", tame(why))).unwrap_or_default();
            let _ = writeln!(text, "  there is no core dump{why}");
        }
        None => {}
    }
    for (number, frame) in scene.backtrace.iter().take(FRAMES_MAX).enumerate() {
        let tone = if number == 0 { Tone::Strong } else { Tone::Plain };
        let _ = writeln!(text, "{number:>4}  {}", ink.paint(tone, tame(frame)));
    }
    if let Some(more) = scene.backtrace.len().checked_sub(FRAMES_MAX).filter(|more| *more > 0) {
        let _ = writeln!(text, "      and {} further out", count(more as u64, "frame"));
    }
    text
}

const fn doing(phase: Phase) -> &'static str {
    match phase {
        Phase::Loading => "waiting for its component",
        Phase::Waiting => "waiting for room for its sandbox",
        Phase::Instantiating => "being instantiated",
        Phase::Running => "running",
        Phase::Returning => "returning its result",
    }
}

/// How a task ended and what its last attempt cost, in a few lines.
#[must_use]
pub fn ending(ink: Ink, task: &Task, last: Option<&Attempt>) -> String {
    let mut text = words::verdict(ink, task);
    if let Some(detail) = task.detail.as_deref().filter(|detail| !detail.is_empty()) {
        let _ = write!(text, ": {}", tame(detail));
    }
    text.push('\n');
    let attempts = if task.attempts > 1 { format!(" · attempt {}", task.attempts) } else { String::new() };
    if let Some(paid) = last.and_then(|attempt| attempt.cost.as_ref()) {
        let _ = writeln!(text, "  {}", ink.paint(Tone::Dim, cost(paid) + &attempts));
    }
    let indented = |text: &mut String, title: &str, block: &str| {
        let _ = writeln!(text, "  {}", ink.paint(Tone::Strong, title));
        block.lines().for_each(|line| {
            let _ = writeln!(text, "  {line}");
        });
    };
    if let Some(receipt) = last.and_then(|attempt| attempt.stop.as_ref()) {
        indented(&mut text, &format!("stopped in {}", ms(receipt.total_ms)), &stop(ink, receipt));
    }
    if let Some((attempt, scene)) = last.and_then(|attempt| Some((attempt, attempt.scene.as_ref()?))) {
        indented(&mut text, "autopsy", &autopsy(ink, attempt, scene));
    }
    if let Some(hint) = task.reason.and_then(words::hint) {
        let _ = writeln!(text, "  {} {hint}", ink.paint(Tone::Dim, "hint:"));
    }
    text
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::super::words::tests::task;
    use super::*;

    fn attempt() -> Attempt {
        serde_json::from_value(json!({
            "attempt": 1,
            "node": "0192d3a4-5b6c-7d8e-9f00-112233445566",
            "claimed_at": "2030-01-31T12:00:00Z",
            "ended_at": "2030-01-31T12:00:02Z",
            "outcome": "CANCELLED",
            "reason": "cancelled",
            "cost": {"wall_ms": 2001.5, "cpu_ms": 1990.25, "memory_bytes_peak": 1_114_112, "host_calls": 1,
                     "bytes_in": 2, "bytes_out": 0, "log_lines": 0, "log_lines_dropped": 0},
            "stop": {"asked_at": "2030-01-31T12:00:01Z", "told_at": "2030-01-31T12:00:01.0002Z",
                     "killed_at": "2030-01-31T12:00:02.001Z", "gone_at": "2030-01-31T12:00:02.0012Z",
                     "written_at": "2030-01-31T12:00:02.0024Z", "ring": 2, "total_ms": 1002.4},
        }))
        .unwrap()
    }

    #[test]
    fn a_stop_is_told_step_by_step() {
        let task = task(&json!({"state": "CANCELLED", "reason": "cancelled", "detail": "enough", "ended": "killed"}));
        expect![[r"
            CANCELLED cancelled: enough
              2.0 s wall · 1.9 s processor · 1.0 MiB peak memory · 1 host call
              stopped in 1.0 s
                   +0.0 ms  asked   the request was made
                   +0.2 ms  told    the executor had it
                     never  seen
                +1001.0 ms  killed  the grace was over
                +1001.2 ms  gone    its sandbox was taken away
                +1002.4 ms  written the end is on record
        "]]
        .assert_eq(&ending(Ink::OFF, &task, Some(&attempt())));
    }

    /// The scene of a death at this second of noon, with so many frames.
    fn scene(frames: &[&str]) -> Scene {
        serde_json::from_value(json!({"phase": "running", "at": "2030-01-31T12:00:02Z", "backtrace": frames})).unwrap()
    }

    #[test]
    fn a_death_shows_its_scene_and_a_way_on() {
        let task = task(&json!({"state": "FAILED", "reason": "trap", "detail": "unreachable"}));
        let died = scene(&["flaky::audit", "run"]);
        let entered_at = Some("2030-01-31T12:00:00.5Z".parse().unwrap());
        let attempt = Attempt { cost: None, stop: None, scene: Some(died), entered_at, ..attempt() };
        expect![[r"
            FAILED trap: unreachable
              autopsy
                it was running, 1.5 s after its entry
                 0  flaky::audit
                 1  run
              hint: a trap is a defect of the task; the last log lines may hold a panic's message
        "]]
        .assert_eq(&ending(Ink::OFF, &task, Some(&attempt)));
    }

    #[test]
    fn an_autopsy_tells_all_that_is_known() {
        let titled = |text: &str| format!("autopsy\n{text}");
        let died = Scene {
            host_call: Some("atropos:task/lifecycle.sleep".into()),
            core_dump: Some(CoreDump { bytes: Some(1 << 20), missing: None }),
            ..scene(&["run"])
        };
        let attempt: Attempt = Attempt {
            heartbeat_at: Some("2030-01-31T12:00:01Z".parse().unwrap()),
            progress: Some(serde_json::from_value(json!({"done": 3, "total": 9, "note": "rows"})).unwrap()),
            ..attempt()
        };
        expect![[r"
            autopsy
              it was running, in the host call atropos:task/lifecycle.sleep
              its last heartbeat was 1.0 s before, at 3/9 rows
              a core dump of 1.0 MiB is kept: `atropos core-dump`
               0  run
        "]]
        .assert_eq(&titled(&autopsy(Ink::OFF, &attempt, &died)));
        let missing = Scene {
            phase: Some(Phase::Waiting),
            core_dump: Some(CoreDump { bytes: None, missing: Some("no room".into()) }),
            ..scene(&[])
        };
        expect![[r"
            autopsy
              it was waiting for room for its sandbox
              there is no core dump: no room
        "]]
        .assert_eq(&titled(&autopsy(Ink::OFF, &Attempt { heartbeat_at: None, ..attempt }, &missing)));
    }

    #[test]
    fn a_long_backtrace_is_cut_and_says_so() {
        let long = scene(&["f"; 26]);
        assert!(autopsy(Ink::OFF, &attempt(), &long).ends_with("and 5 frames further out\n"));
    }
}
