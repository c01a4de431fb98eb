//! The language of the stories: a line for each thing that happens, and a transcript of what follows.
//!
//! `5s ann cancels: wrong month` is one thing that happens, five seconds after birth. `alarm` lets the state's own alarm go off.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use expect_test::Expect;

use crate::id::{NodeId, TaskId, TraceParent};
use crate::task::{
    Ask, Death, DedupScope, Effect, Ending, Event, FailureClass, Loss, Reason, Rejection, Spec, State, Step, Task,
    Terms, TermsDraft, Vitals, apply, birth,
};
use crate::time::Timestamp;

/// Plays the script under the terms (`"grace 1s, max_retries 0"`; the rest is by default, and `run_timeout` is 60 s)
/// and compares the transcript.
pub(super) fn check(terms: &str, script: &str, expect: &Expect) {
    let mut story = Story { terms: read_terms(terms), task: None, vitals: Vitals::default(), told: String::new() };
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        story.play(line);
    }
    story.close();
    expect.assert_eq(&story.told);
}

struct Story {
    terms: Terms,
    task: Option<Task>,
    vitals: Vitals,
    told: String,
}

/// What a line of the script says.
enum Said {
    Submit { run_after: Option<Timestamp>, refusal: Option<(Rejection, String)> },
    Enter(Timestamp),
    Beat(Timestamp),
    Happen(Event),
}

impl Story {
    fn play(&mut self, line: &str) {
        let (now, said) = if line == "alarm" {
            let task = self.task.as_ref().expect("a task is born first");
            let (at, event) = task.alarm(self.vitals).expect("a live state has an alarm");
            writeln!(self.told, "{} alarm: {}", span(at), event.name()).unwrap();
            (at, Said::Happen(event))
        } else {
            let (when, what) = line.split_once(' ').unwrap_or_else(|| panic!("`{line}` has no time"));
            writeln!(self.told, "{when} {what}").unwrap();
            let now = instant(when);
            (now, read(what, now))
        };
        match said {
            Said::Submit { run_after, refusal } => self.submit(now, run_after, refusal.as_ref()),
            Said::Enter(at) => self.vitals.entered_at = Some(at),
            Said::Beat(at) => self.vitals.heartbeat_at = Some(at),
            Said::Happen(event) => self.happen(now, event),
        }
    }

    fn submit(&mut self, now: Timestamp, run_after: Option<Timestamp>, refusal: Option<&(Rejection, String)>) {
        let spec = spec(now, run_after, self.terms.clone());
        let step = birth(&spec, refusal.map(|(rejection, detail)| (*rejection, detail.as_str())));
        self.tell(&step);
        self.task = Some(Task { spec: Arc::new(spec), state: step.state, version: 1 });
    }

    fn happen(&mut self, now: Timestamp, event: Event) {
        let task = self.task.take().expect("a task is born first");
        let (spec, version) = (Arc::clone(&task.spec), task.version + 1);
        let cx = crate::task::Context { id: spec.id, now, terms: &spec.terms };
        let state = match apply(task.state, event, &cx) {
            Ok(step) => {
                self.tell(&step);
                if step.effects.contains(&Effect::StartGuest { attempt: step.state.tally().attempts }) {
                    self.vitals = Vitals::default();
                }
                step.state
            }
            Err(refused) => {
                writeln!(self.told, "    refused: {}", refused.why.code()).unwrap();
                refused.state
            }
        };
        self.task = Some(Task { spec, state, version });
    }

    fn tell(&mut self, step: &Step) {
        for line in &step.trail {
            let from = line.from.map_or("–", |kind| kind.code());
            let (to, reason, by) = (line.to.code(), line.reason.code(), &line.by);
            let detail = if line.detail.is_empty() { String::new() } else { format!(": {}", line.detail) };
            writeln!(self.told, "    {from} → {to} ({reason}) by {by}{detail}").unwrap();
        }
        for effect in &step.effects {
            match effect {
                Effect::StartGuest { attempt } => writeln!(self.told, "    start guest {attempt}").unwrap(),
                Effect::TellGuest { attempt } => writeln!(self.told, "    tell guest {attempt}").unwrap(),
                Effect::KillGuest { attempt } => writeln!(self.told, "    kill guest {attempt}").unwrap(),
            }
        }
        if step.trail.is_empty() && step.effects.is_empty() {
            self.told.push_str("    nothing changes\n");
        }
    }

    /// Where the task stands at the end of the script.
    fn close(&mut self) {
        let state = &self.task.as_ref().expect("a task is born").state;
        let mut words = vec![state.kind().code().to_owned()];
        match state {
            State::Pending(s) => words.push(format!("{}, ready at {}", s.wait().code(), span(s.ready_at()))),
            State::Running(_) => {}
            State::Stopping(s) => {
                let stop = s.stop();
                words.push(format!("stopping ({}) for {}", stop.reason.code(), stop.by));
                words.push(format!("kill at {}", span(stop.kill_at)));
            }
            State::Ended(s) => {
                words.push(format!("{}, {}", s.reason().code(), s.manner().code()));
                if s.recoverable() {
                    words.push("recoverable".to_owned());
                }
            }
        }
        let tally = state.tally();
        let counts =
            [("attempts", tally.attempts, 0), ("retries", tally.retries, 0), ("generation", tally.generation, 1)];
        let counted = counts.iter().filter(|(_, count, least)| count > least);
        words.extend(counted.map(|(name, count, _)| format!("{name} {count}")));
        writeln!(self.told, "= {}", words.join(", ")).unwrap();
    }
}

fn read(what: &str, now: Timestamp) -> Said {
    let (words, why) = what.split_once(": ").unwrap_or((what, ""));
    let ask = |who: &str| Ask { by: who.into(), why: why.into() };
    let words: Vec<&str> = words.split_whitespace().collect();
    Said::Happen(match words[..] {
        ["submit"] => return Said::Submit { run_after: None, refusal: None },
        ["submit", "to", "start", "at", at] => {
            return Said::Submit { run_after: Some(instant(at)), refusal: None };
        }
        ["submit", "refused", code] => {
            return Said::Submit { run_after: None, refusal: Some((rejection(code), why.to_owned())) };
        }
        ["claim"] => Event::Claimed { node: NodeId::from_bytes([1; 16]) },
        ["pre-check", "fails", code] => Event::PrecheckFailed(rejection(code)),
        ["queue", "wait", "spent"] => Event::WaitSpent,
        ["life", "spent"] => Event::AgeSpent,
        ["shutdown", "of", attempt, "within", ceiling] => {
            Event::ShutdownBegan { attempt: number(attempt), grace_max: duration(ceiling) }
        }
        ["attempt", _, "enters"] => return Said::Enter(now),
        ["attempt", _, "beats"] => return Said::Beat(now),
        ["attempt", attempt, "run", "time", "spent"] => Event::RunSpent { attempt: number(attempt) },
        ["attempt", attempt, "heartbeat", "missed"] => Event::HeartbeatMissed { attempt: number(attempt) },
        ["attempt", attempt, "grace", "spent"] => Event::GraceSpent { attempt: number(attempt) },
        ["attempt", attempt, ref how @ ..] => {
            Event::AttemptEnded { attempt: number(attempt), ending: ending(how, why) }
        }
        [who, "cancels"] => Event::CancelAsked { ask: ask(who), grace: None },
        [who, "cancels", "within", grace] => Event::CancelAsked { ask: ask(who), grace: Some(duration(grace)) },
        [who, "fails", "it"] => Event::FailAsked { ask: ask(who) },
        [who, "reruns", "it"] => Event::RerunAsked { ask: ask(who), force: false },
        [who, "reruns", "it", "by", "force"] => Event::RerunAsked { ask: ask(who), force: true },
        [who, "gives", "it", "up"] => Event::GiveUpAsked { ask: ask(who) },
        _ => panic!("`{what}` is not a line of a story"),
    })
}

fn ending(how: &[&str], message: &str) -> Ending {
    let failed = |class: &str, retry_after| Ending::Failed {
        class: FailureClass::parse(class).unwrap_or_else(|| panic!("`{class}` is no class")),
        message: message.to_owned(),
        retry_after,
    };
    match *how {
        ["returns", "ok"] => Ending::Succeeded,
        ["returns", "stopped"] => Ending::Stopped,
        ["fails", class, "retry", "after", wish] => failed(class, Some(duration(wish))),
        ["fails", class] => failed(class, None),
        ["traps"] => Ending::Died { cause: Death::Trap, message: message.to_owned() },
        ["spends", "its", "fuel"] => Ending::FuelSpent,
        ["is", "killed"] => Ending::Killed,
        ["is", "lost", "with", "its", "node"] => lost(Loss::Node),
        ["is", "lost", "with", "its", "executor"] => lost(Loss::Executor),
        ["is", "lost", "as", "a", "suspect"] => lost(Loss::Suspect),
        _ => panic!("{how:?} is no ending"),
    }
}

fn lost(loss: Loss) -> Ending {
    Ending::Lost { loss, message: String::new() }
}

fn rejection(code: &str) -> Rejection {
    let found = Rejection::ALL.into_iter().find(|rejection| Reason::Rejected(*rejection).code() == code);
    found.unwrap_or_else(|| panic!("`{code}` is no rejection"))
}

fn read_terms(text: &str) -> Terms {
    let mut draft = TermsDraft { run_timeout: Some(Duration::from_mins(1)), ..TermsDraft::default() };
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        match part.split_whitespace().collect::<Vec<_>>()[..] {
            ["queue_timeout", value] => draft.queue_timeout = Some(duration(value)),
            ["run_timeout", value] => draft.run_timeout = Some(duration(value)),
            ["max_age", value] => draft.max_age = Some(duration(value)),
            ["grace", value] => draft.grace = Some(duration(value)),
            ["heartbeat_timeout", value] => draft.heartbeat_timeout = Some(duration(value)),
            ["max_retries", value] => draft.max_retries = Some(number(value)),
            ["retry_timeouts"] => draft.retry_timeouts = Some(true),
            _ => panic!("`{part}` is no term"),
        }
    }
    draft.resolve(Duration::ZERO).unwrap()
}

pub(super) fn spec(now: Timestamp, run_after: Option<Timestamp>, terms: Terms) -> Spec {
    Spec {
        id: TaskId::from_bytes([7; 16]),
        task_type: "export_report".parse().unwrap(),
        component: None,
        queue: "default".parse().unwrap(),
        priority: 0,
        dedup_key: None,
        dedup_scope: DedupScope::Record,
        creator: Some("shop".into()),
        request_id: None,
        trace: TraceParent::generate(),
        labels: Vec::new(),
        created_at: now,
        run_after,
        terms,
    }
}

fn number(text: &str) -> u32 {
    text.parse().unwrap_or_else(|_| panic!("`{text}` is no number"))
}

fn duration(text: &str) -> Duration {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let count = u64::from(number(&text[..digits]));
    match &text[digits..] {
        "ms" => Duration::from_millis(count),
        "s" => Duration::from_secs(count),
        "m" => Duration::from_mins(count),
        "h" => Duration::from_hours(count),
        unit => panic!("`{unit}` is no unit of time"),
    }
}

fn instant(text: &str) -> Timestamp {
    Timestamp::default() + duration(text)
}

fn span(at: Timestamp) -> String {
    let span = at.since(Timestamp::default());
    if span.is_zero() { "0s".to_owned() } else { format!("{span:?}") }
}
