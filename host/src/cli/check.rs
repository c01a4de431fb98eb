//! `atropos check`: would this file fit, and how does it behave when it is stopped? Asked of a throw-away host, without a
//! server.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::Shell;
use super::compile_component::this_program;
use super::drill;
use super::exit::{Complaint, Exit};
use super::files;
use super::human::{bytes, span};
use super::print::{Tone, tame};
use super::signals::Signals;
use super::table::facts;
use super::values::{Json, duration, size};
use crate::config::Config;
use crate::host::{DrillOrders, Drilled, Error, Grade, Host};
use crate::store::ComponentRow;
use crate::task::TermsDraft;

/// Check whether a component would fit, and how it behaves when it is stopped
///
/// If it fits, it is run: once undisturbed, and then again and again, each time stopped at another moment: as it makes a
/// host call, and at random. It really runs, but it is granted nothing, and can reach nothing but this check. The grade:
///
///   A  every time over by itself, within a tenth of the grace
///   B  every time over by itself, but it took longer, or being stopped made it trap
///   C  it sometimes needs force
///   D  it never looks whether it is asked to stop, or needs force every time
///   F  it does not fit, it traps though nobody disturbs it, or the host could not stop it as it should
///
/// Ends with 0 if it fits, 7 if it does not, and 8 if its grade is F or below `--min-grade`.
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  atropos check hello.wasm --input '{\"name\": \"Ada\"}'
  atropos check hello.wasm --no-drill --json | jq -r .imports[]
  atropos check export.wasm --input @input.json --min-grade B"
)]
pub struct Check {
    /// The component
    file: PathBuf,
    /// Only look whether it fits: run nothing of it
    #[arg(long)]
    no_drill: bool,
    /// The input of its runs: JSON, @FILE, or - for stdin
    #[arg(long, short, value_name = "JSON", default_value = "{}")]
    input: Json,
    /// How long the undisturbed run may take
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "5s")]
    run_timeout: Duration,
    /// Time between being told to stop and being killed
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "1s")]
    grace: Duration,
    /// Linear memory of one run [default: 64MiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory: Option<u64>,
    /// How long all stops may take together
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "20s")]
    drill_time: Duration,
    /// Other random moments than those of the seed 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// The worst grade that will do
    #[arg(long, value_name = "GRADE", conflicts_with = "no_drill")]
    min_grade: Option<Grade>,
}

/// The verdict, for programs.
#[derive(Serialize)]
struct Verdict<'a> {
    fits: bool,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    imports: &'a [String],
    exports: &'a [String],
    /// F if it does not fit; absent if nothing of it was run.
    #[serde(skip_serializing_if = "Option::is_none")]
    grade: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    drill: Option<drill::Record>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<Problem>,
}

#[derive(Serialize)]
struct Problem {
    code: &'static str,
    detail: String,
    hint: String,
}

fn interrupted() -> Complaint {
    let message = "interrupted before the check was over".into();
    Complaint { exit: Exit::TaskFailed, code: "interrupted", message, hint: None }
}

impl Check {
    pub async fn run(self, shell: &Shell) -> anyhow::Result<Exit> {
        let orders = self.orders()?;
        let component = files::component(&self.file)?;
        let size = component.len() as u64;
        let mut signals = Signals::listen()?;
        let host = Host::start(Config {
            slots: 1,
            guest_threads: 1,
            executors: 1,
            program: Some(this_program()),
            ..Config::default()
        })
        .await?;
        let begun = std::time::Instant::now();
        let checked = tokio::select! {
            checked = host.push(component, shell.by.as_str().into()) => checked,
            _ = signals.next() => {
                host.shut_down_within(Duration::ZERO).await?;
                return Err(interrupted().into());
            }
        };
        let took = begun.elapsed();
        let found = match checked {
            Ok(row) if self.no_drill => Ok((row, None)),
            Ok(row) => {
                if !shell.print.json {
                    shell.print.text(&fits(shell, &row, took))?;
                    shell.print.say(shell.print.err.paint(Tone::Dim, "running and stopping it …"));
                }
                tokio::select! {
                    drilled = host.drill(row.digest, orders.clone()) => drilled.map(|drilled| (row, Some(drilled))),
                    _ = signals.next() => {
                        host.shut_down_within(Duration::ZERO).await?;
                        return Err(interrupted().into());
                    }
                }
            }
            Err(error) => Err(error),
        };
        host.shut_down().await?;
        match found {
            Ok((row, drilled)) if shell.print.json => {
                shell.print.document(&record(&row, drilled.as_ref(), &orders))?;
                Ok(self.exit(drilled.as_ref()))
            }
            Ok((row, None)) => {
                shell.print.text(&fits(shell, &row, took))?;
                Ok(Exit::Ok)
            }
            Ok((_, Some(drilled))) => {
                shell.print.text(&drill::report(shell.print.out, &drilled, &orders))?;
                Ok(self.exit(Some(&drilled)))
            }
            Err(error @ Error::Component(_)) if shell.print.json => {
                shell.print.document(&unfit(size, &error))?;
                Ok(super::exit::of_host(&error))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn orders(&self) -> anyhow::Result<DrillOrders> {
        let draft = TermsDraft {
            run_timeout: Some(self.run_timeout),
            grace: Some(self.grace),
            memory_bytes_max: self.memory,
            ..TermsDraft::default()
        };
        let terms = draft.resolve(Duration::ZERO).map_err(Error::from)?;
        Ok(DrillOrders {
            input: if self.no_drill { "{}".into() } else { self.input.read("the input")?.into() },
            run_timeout: terms.run_timeout,
            grace: terms.grace,
            limits: terms.limits,
            time: self.drill_time,
            seed: self.seed,
        })
    }

    fn exit(&self, drilled: Option<&Drilled>) -> Exit {
        let worst = self.min_grade.unwrap_or(Grade::D);
        if drilled.is_some_and(|drilled| drilled.verdict.grade > worst) { Exit::BelowGrade } else { Exit::Ok }
    }
}

fn record<'a>(row: &'a ComponentRow, drilled: Option<&Drilled>, orders: &DrillOrders) -> Verdict<'a> {
    Verdict {
        fits: true,
        bytes: row.bytes,
        digest: Some(row.digest.to_string()),
        imports: &row.imports,
        exports: &row.exports,
        grade: drilled.map(|drilled| drilled.verdict.grade.code()),
        drill: drilled.map(|drilled| drill::Record::of(drilled, orders)),
        problem: None,
    }
}

fn unfit(bytes: u64, error: &Error) -> Verdict<'static> {
    let problem = Problem { code: error.code(), detail: error.to_string(), hint: error.hint() };
    Verdict {
        fits: false,
        bytes,
        digest: None,
        imports: &[],
        exports: &[],
        grade: Some(Grade::F.code()),
        drill: None,
        problem: Some(problem),
    }
}

fn fits(shell: &Shell, row: &ComponentRow, took: Duration) -> String {
    let ink = shell.print.out;
    let offered = |name: &String| format!("{} {}", ink.paint(Tone::Good, "✓"), tame(name));
    let list = |names: Vec<String>| names.join("\n         ");
    let imports =
        if row.imports.is_empty() { "nothing".into() } else { list(row.imports.iter().map(offered).collect()) };
    facts(
        ink,
        &[
            ("size", bytes(row.bytes)),
            ("digest", row.digest.to_string()),
            ("imports", imports),
            ("exports", list(row.exports.iter().map(|name| tame(name)).collect())),
            ("verdict", format!("{}: checked and compiled in {}", ink.paint(Tone::Good, "it fits"), span(took))),
        ],
    )
}
