//! `atropos attempts`: the executions of a task, with their receipts.

use clap::Args;

use super::exit::Exit;
use super::print::{Ink, Tone};
use super::{Shell, history, logs, receipt};
use crate::api::wire::{Attempt, Items, LogLine};
use crate::id::TaskId;
use crate::time::{Clock, SystemClock};

/// The log lines that an autopsy shows.
const LAST_WORDS: usize = 5;

/// Show the attempts of a task: what each cost, how it stopped, where it died
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  atropos attempts ID\n  atropos attempts ID --json | jq '.items[].cost.cpu_ms'")]
pub struct Attempts {
    id: TaskId,
}

impl Attempts {
    pub async fn run(self, shell: &Shell) -> anyhow::Result<Exit> {
        let client = shell.client()?;
        let items = client.attempts(self.id).await?;
        if shell.print.json {
            shell.print.document(&Items { items })?;
            return Ok(Exit::Ok);
        }
        if items.is_empty() {
            shell.print.say("it has not run yet");
            return Ok(Exit::Ok);
        }
        shell.print.text(&history::attempts(shell.print.out, &items, SystemClock::default().now()))?;
        let died = |attempt: &Attempt| attempt.scene.is_some();
        let log = if items.iter().any(died) { logs::all(&client, self.id).await?.items } else { Vec::new() };
        for attempt in &items {
            shell.print.text(&leavings(shell.print.out, attempt))?;
            if died(attempt) {
                shell.print.text(&last_words(shell.print.out, &log, attempt.attempt))?;
            }
        }
        Ok(Exit::Ok)
    }
}

/// The last lines that an attempt wrote, to be read with its autopsy.
fn last_words(ink: Ink, log: &[LogLine], attempt: u32) -> String {
    let own: Vec<_> = log.iter().filter(|line| line.attempt == attempt).collect();
    let last = own[own.len().saturating_sub(LAST_WORDS)..].iter();
    last.fold(String::new(), |text, line| text + "      " + &history::log_line(ink, line) + "\n")
}

/// How the attempt was stopped, and where it died, if so.
pub(super) fn leavings(ink: Ink, attempt: &Attempt) -> String {
    let mut text = String::new();
    let mut part = |title: &str, body: String| {
        let title = ink.paint(Tone::Strong, format!("{title} of attempt {}", attempt.attempt));
        text.extend(["\n", &title, "\n", &body]);
    };
    if let Some(stop) = &attempt.stop {
        part("Stop", receipt::stop(ink, stop));
    }
    if let Some(scene) = &attempt.scene {
        part("Autopsy", receipt::autopsy(ink, attempt, scene));
    }
    text
}
