//! `atropos check`: would this file fit? Asked of a throw-away host, without a server.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::Shell;
use super::exit::Exit;
use super::files;
use super::human::{bytes, span};
use super::print::{Tone, tame};
use super::table::facts;
use crate::config::Config;
use crate::host::{Error, Host};
use crate::store::ComponentRow;

/// Check whether a component would fit, and what it imports and exports
///
/// Ends with 0 if it fits and 7 if it does not.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  atropos check hello.wasm\n  atropos check hello.wasm --json | jq -r .imports[]")]
pub struct Check {
    /// The component
    file: PathBuf,
}

/// The verdict, for programs.
#[derive(Serialize)]
struct Verdict<'a> {
    fits: bool,
    bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    imports: &'a [String],
    exports: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<Problem>,
}

#[derive(Serialize)]
struct Problem {
    code: &'static str,
    detail: String,
    hint: String,
}

impl Check {
    pub async fn run(self, shell: &Shell) -> anyhow::Result<Exit> {
        let component = files::component(&self.file)?;
        let size = component.len();
        let host = Host::start(Config { slots: 1, guest_threads: 1, ..Config::default() }).await?;
        let begun = std::time::Instant::now();
        let checked = host.push(component, shell.by.as_str().into()).await;
        let took = begun.elapsed();
        host.shut_down().await?;
        match checked {
            Ok(row) => {
                fits(shell, &row, took)?;
                Ok(Exit::Ok)
            }
            Err(error @ Error::Component(_)) if shell.print.json => {
                let problem = Problem { code: error.code(), detail: error.to_string(), hint: error.hint() };
                let none = Verdict {
                    fits: false,
                    bytes: size,
                    digest: None,
                    imports: &[],
                    exports: &[],
                    problem: Some(problem),
                };
                shell.print.document(&none)?;
                Ok(super::exit::of_host(&error))
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn fits(shell: &Shell, row: &ComponentRow, took: std::time::Duration) -> std::io::Result<()> {
    if shell.print.json {
        return shell.print.document(&Verdict {
            fits: true,
            bytes: usize::try_from(row.bytes).unwrap_or(usize::MAX),
            digest: Some(row.digest.to_string()),
            imports: &row.imports,
            exports: &row.exports,
            problem: None,
        });
    }
    let ink = shell.print.out;
    let offered = |name: &String| format!("{} {}", ink.paint(Tone::Good, "✓"), tame(name));
    let list = |names: Vec<String>| names.join("\n         ");
    let imports =
        if row.imports.is_empty() { "nothing".into() } else { list(row.imports.iter().map(offered).collect()) };
    shell.print.text(&facts(
        ink,
        &[
            ("size", bytes(row.bytes)),
            ("digest", row.digest.to_string()),
            ("imports", imports),
            ("exports", list(row.exports.iter().map(|name| tame(name)).collect())),
            ("verdict", format!("{}: checked and compiled in {}", ink.paint(Tone::Good, "it fits"), span(took))),
        ],
    ))
}
