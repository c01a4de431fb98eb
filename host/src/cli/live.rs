//! The live view: a line for each task at the foot of the terminal, and everything else above it.
//!
//! Only on a terminal; elsewhere nothing of it is seen, and what is said is plain lines.

use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::human::{clip, span};
use super::print::{Ink, Print, Tone};
use super::words;
use crate::api::wire::{Progress, Task};
use crate::time::Timestamp;

/// The length of a full bar, in its own unit.
const FULL: u32 = 1_000;
/// The longest reason beside a bar: a line of the foot should fit a terminal.
const WHY_MAX: usize = 60;
const REDRAW_EVERY: Duration = Duration::from_millis(80);

/// The foot of the terminal.
pub struct Live {
    print: Print,
    lines: MultiProgress,
    name_width: usize,
}

/// One task of it.
pub struct Row {
    bar: ProgressBar,
    ink: Ink,
}

impl Live {
    /// `name_width` is that of the longest name to come.
    #[must_use]
    pub fn new(print: Print, name_width: usize) -> Self {
        let seen = print.err_terminal && !print.quiet;
        let target = if seen { ProgressDrawTarget::stderr_with_hz(15) } else { ProgressDrawTarget::hidden() };
        Self { print, lines: MultiProgress::with_draw_target(target), name_width }
    }

    /// Whether a person sees it.
    #[must_use]
    pub fn is_seen(&self) -> bool {
        !self.lines.is_hidden()
    }

    #[must_use]
    pub fn row(&self, name: &str) -> Row {
        let bar = self.lines.add(ProgressBar::new(FULL.into()));
        bar.set_prefix(format!("{name:width$}", width = self.name_width));
        bar.set_style(style(self.print.err, Shape::Spinner));
        if self.is_seen() {
            bar.enable_steady_tick(REDRAW_EVERY);
        }
        Row { bar, ink: self.print.err }
    }

    /// Says a line on stderr, above the foot.
    pub fn say(&self, text: &str) {
        self.lines.suspend(|| self.print.say(text));
    }

    /// Does something with the terminal while the foot is away.
    pub fn away<T>(&self, work: impl FnOnce() -> T) -> T {
        self.lines.suspend(work)
    }
}

impl Row {
    /// The task as it is now.
    pub fn show(&self, task: &Task, now: Timestamp) {
        let progress = task.running.as_ref().and_then(|running| running.progress.as_ref());
        let filled = progress.and_then(filled).filter(|_| task.stopping.is_none());
        self.bar.set_style(style(self.ink, if filled.is_some() { Shape::Bar } else { Shape::Spinner }));
        self.bar.set_position(filled.unwrap_or(0));
        self.bar.set_message(message(self.ink, task, now));
    }

    /// The task has ended: its line stays as this.
    pub fn end(&self, task: &Task) {
        self.bar.set_style(style(self.ink, Shape::Done));
        let took = task.ended_at.map(|at| span(at.since(task.created_at))).unwrap_or_default();
        self.bar.finish_with_message(format!(
            "{}  {}",
            words::verdict(self.ink, task),
            self.ink.paint(Tone::Dim, took)
        ));
    }

    /// Nothing of the line stays.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// How full the bar is, if the guest says how much there is to do.
fn filled(progress: &Progress) -> Option<u64> {
    let part = progress.done / progress.total.filter(|total| *total > 0.0)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    part.is_finite().then(|| (part.clamp(0.0, 1.0) * f64::from(FULL)) as u64)
}

/// What stands beside the bar.
fn message(ink: Ink, task: &Task, now: Timestamp) -> String {
    let (tone, word) = words::state(task);
    let mut parts = vec![ink.paint(tone, word)];
    if task.attempts > 1 {
        parts.push(format!("attempt {}", task.attempts));
    }
    let why = words::why(task, now);
    if !why.is_empty() {
        parts.push(clip(&why, WHY_MAX));
    }
    let since = task.running.as_ref().map(|running| running.entered_at.unwrap_or(running.claimed_at));
    parts.extend(since.map(|at| ink.paint(Tone::Dim, span(now.since(at)))));
    parts.join("  ")
}

#[derive(Clone, Copy)]
enum Shape {
    Spinner,
    Bar,
    Done,
}

fn style(ink: Ink, shape: Shape) -> ProgressStyle {
    let colour = |name: &'static str| if ink == Ink::OFF { "" } else { name };
    let template = match shape {
        Shape::Spinner => format!("  {{spinner{}}} {{prefix}}  {{msg}}", colour(":.cyan")),
        Shape::Bar => {
            format!("  {{spinner{}}} {{prefix}}  {{bar:24{}}} {{msg}}", colour(":.cyan"), colour(".cyan/dim"))
        }
        Shape::Done => "    {prefix}  {msg}".to_owned(),
    };
    let style = ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar());
    style.progress_chars("━╸─").tick_chars("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::words::tests::{noon, task};
    use super::*;

    fn of(done: f64, total: Option<f64>) -> Option<u64> {
        filled(&Progress { done, total, note: None })
    }

    #[test]
    fn a_bar_takes_whatever_a_guest_says() {
        assert_eq!(of(1.0, Some(4.0)), Some(250));
        assert_eq!(of(9.0, Some(4.0)), Some(1000));
        assert_eq!(of(-1.0, Some(4.0)), Some(0));
        for (done, total) in [(1.0, None), (1.0, Some(0.0)), (f64::NAN, Some(1.0)), (1.0, Some(f64::NAN))] {
            assert_eq!(of(done, total), None);
        }
    }

    #[test]
    fn a_line_tells_state_attempt_reason_and_time() {
        let running = json!({"node": "0192d3a4-5b6c-7d8e-9f00-112233445566", "claimed_at": "2030-01-31T11:59:58Z"});
        let task = task(&json!({"state": "RUNNING", "running": running, "attempts": 2}));
        assert_eq!(message(Ink::OFF, &task, noon()), "RUNNING  attempt 2  2.0 s");
    }

    #[test]
    fn every_template_is_a_valid_one() {
        for shape in [Shape::Spinner, Shape::Bar, Shape::Done] {
            style(Ink::OFF, shape);
        }
        for template in ["  {spinner:.cyan} {prefix}", "{bar:24.cyan/dim} {msg}"] {
            assert!(ProgressStyle::with_template(template).is_ok());
        }
    }
}
