//! `atropos attempts`: the executions of a task, with their receipts.

use clap::Args;

use super::exit::Exit;
use super::print::Tone;
use super::{Shell, history, receipt};
use crate::api::wire::{Attempt, Items};
use crate::id::TaskId;
use crate::time::{Clock, SystemClock};

/// Show the attempts of a task: what each cost, how it stopped, where it died
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  atropos attempts ID\n  atropos attempts ID --json | jq '.items[].cost.cpu_ms'")]
pub struct Attempts {
    id: TaskId,
}

impl Attempts {
    pub async fn run(self, shell: &Shell) -> anyhow::Result<Exit> {
        let items = shell.client()?.attempts(self.id).await?;
        if shell.print.json {
            shell.print.document(&Items { items })?;
            return Ok(Exit::Ok);
        }
        if items.is_empty() {
            shell.print.say("it has not run yet");
            return Ok(Exit::Ok);
        }
        shell.print.text(&history::attempts(shell.print.out, &items, SystemClock::default().now()))?;
        for attempt in &items {
            shell.print.text(&leavings(shell.print.out, attempt))?;
        }
        Ok(Exit::Ok)
    }
}

/// How the attempt was stopped, and where it died, if so.
pub(super) fn leavings(ink: super::print::Ink, attempt: &Attempt) -> String {
    let mut text = String::new();
    let mut part = |title: &str, body: String| {
        let title = ink.paint(Tone::Strong, format!("{title} of attempt {}", attempt.attempt));
        text.extend(["\n", &title, "\n", &body]);
    };
    if let Some(stop) = &attempt.stop {
        part("Stop", receipt::stop(ink, stop));
    }
    if let Some(scene) = attempt.scene.as_ref().filter(|scene| !scene.backtrace.is_empty() || scene.host_call.is_some())
    {
        part("Backtrace", receipt::scene(ink, scene));
    }
    text
}
