//! The command line: its grammar is here, each command has a file of its own.
//!
//! Commands that talk to a server do so through `api::client` and nothing else; `run`, `demo`, `check` and `serve` hold a host of
//! their own. What goes to stdout and stderr goes through `print`, what becomes of an error is decided in `exit`.

#![expect(clippy::doc_markdown, reason = "doc comments are help texts here")]

mod attempts;
mod audit;
mod cancel;
mod check;
mod compile_component;
mod core_dump;
mod demo;
mod doctor;
mod drill;
mod executor_process;
mod exit;
mod fail;
mod files;
mod follow;
mod give_up;
mod grammar;
mod grants;
mod history;
mod human;
mod list;
mod live;
mod logs;
mod print;
mod push;
mod queue;
mod receipt;
mod report;
mod rerun;
mod result;
mod run;
mod serve;
mod show;
mod signals;
mod submit;
mod table;
mod terms;
mod types;
mod values;
mod watch;
mod words;

use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, FromArgMatches, Parser, Subcommand};
use exit::Exit;
use print::{Print, Tone};

use crate::api::client::{Client, ClientError};
use crate::api::wire::Task;
use crate::time::{Clock, SystemClock};

/// Where a server answers unless it is told otherwise.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:7717";

/// Runs tasks in WebAssembly sandboxes, owns them from birth to death, and stops them for certain.
#[derive(Debug, Parser)]
#[command(name = "atropos", version, max_term_width = 110)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Everywhere")]
struct Global {
    /// The server to talk to [env: ATROPOS_URL] [default: http://127.0.0.1:7717]
    #[arg(long, global = true)]
    url: Option<String>,
    /// Who asks, for the record [env: ATROPOS_BY] [default: user:LOGIN]
    #[arg(long, global = true, value_name = "NAME")]
    by: Option<String>,
    /// Print JSON, as the API has it
    #[arg(long, global = true)]
    json: bool,
    /// Say nothing but the result and errors
    #[arg(long, short, global = true)]
    quiet: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// What a node starts to run guests in
    #[command(name = executor_process::COMMAND, hide = true)]
    ExecutorProcess,
    Run(run::Run),
    Demo(demo::Demo),
    Check(check::Check),
    Doctor(doctor::Doctor),
    Serve(serve::Serve),
    Push(push::Push),
    Type(types::Types),
    Submit(submit::Submit),
    List(list::List),
    Show(show::Show),
    Watch(watch::Watch),
    Logs(logs::Logs),
    Result(result::ResultOf),
    Attempts(attempts::Attempts),
    CoreDump(core_dump::CoreDump),
    Audit(audit::Audit),
    Cancel(cancel::Cancel),
    Rerun(rerun::Rerun),
    Fail(fail::Fail),
    GiveUp(give_up::GiveUp),
    Queue(queue::Queue),
    CompileComponent(compile_component::CompileComponent),
}

/// What every command is given.
struct Shell {
    print: Print,
    url: String,
    by: String,
}

/// Parses, runs, and gives the exit code.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match grammar::command().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Ok }.code().into();
        }
    };
    // Before there is any other thread.
    if matches!(cli.command, Command::ExecutorProcess) {
        return executor_process::run();
    }
    if let Command::CompileComponent(_) = &cli.command {
        return compile_component::CompileComponent::run();
    }
    let Global { url, by, json, quiet } = cli.global;
    let url = url.or_else(|| set("ATROPOS_URL")).unwrap_or_else(|| format!("http://{DEFAULT_ADDRESS}"));
    let by = by.or_else(|| set("ATROPOS_BY")).unwrap_or_else(|| format!("user:{}", login()));
    let shell = Shell { print: Print::new(json, quiet), url, by };
    let outcome = tokio::runtime::Runtime::new().context("cannot start").and_then(|runtime| {
        let outcome = runtime.block_on(cli.command.run(&shell));
        // Whatever still waits, such as a read from a terminal, must not hold the end up.
        runtime.shutdown_background();
        outcome
    });
    outcome.unwrap_or_else(|error| shell.error(&error)).code().into()
}

impl Command {
    async fn run(self, shell: &Shell) -> anyhow::Result<Exit> {
        match self {
            Self::Run(command) => command.run(shell).await,
            Self::Demo(command) => command.run(shell).await,
            Self::Check(command) => command.run(shell).await,
            Self::Doctor(command) => command.run(shell).await,
            Self::Serve(command) => command.run(shell).await,
            Self::Push(command) => command.run(shell).await,
            Self::Type(command) => command.run(shell).await,
            Self::Submit(command) => command.run(shell).await,
            Self::List(command) => command.run(shell).await,
            Self::Show(command) => command.run(shell).await,
            Self::Watch(command) => command.run(shell).await,
            Self::Logs(command) => command.run(shell).await,
            Self::Result(command) => command.run(shell).await,
            Self::Attempts(command) => command.run(shell).await,
            Self::CoreDump(command) => command.run(shell).await,
            Self::Audit(command) => command.run(shell).await,
            Self::Cancel(command) => command.run(shell).await,
            Self::Rerun(command) => command.run(shell).await,
            Self::Fail(command) => command.run(shell).await,
            Self::GiveUp(command) => command.run(shell).await,
            Self::Queue(command) => command.run(shell).await,
            // Seen to before there is a runtime, whose threads it must do without.
            // They have no use for what every other command is given.
            Self::ExecutorProcess | Self::CompileComponent(_) => Ok(Exit::Usage),
        }
    }
}

impl Shell {
    fn client(&self) -> Result<Client, ClientError> {
        Client::new(&self.url)
    }

    /// A task to which something was done.
    fn tell_task(&self, task: &Task) -> anyhow::Result<Exit> {
        if self.print.json {
            self.print.document(task)?;
        } else {
            let (tone, word) = words::state(task);
            let why = words::why(task, SystemClock::default().now());
            let why = self.print.out.paint(Tone::Dim, why);
            self.print.line(format!("{} {} {why}", task.id, self.print.out.paint(tone, word)).trim_end())?;
        }
        Ok(Exit::Ok)
    }

    /// Tells an error once, and gives its exit code.
    fn error(&self, error: &anyhow::Error) -> Exit {
        let Some(told) = exit::tell(error) else { return Exit::Ok };
        let (print, hint) = (self.print, told.hint.filter(|hint| !hint.is_empty()));
        if print.json {
            print.shout(serde_json::json!({ "error": { "code": told.code, "detail": told.message, "hint": hint } }));
        } else {
            print.shout(format!("{} {}", print.err.paint(Tone::Bad, "error:"), told.message));
            if let Some(hint) = hint {
                print.shout(format!("{} {hint}", print.err.paint(Tone::Dim, " hint:")));
            }
        }
        told.exit
    }
}

/// Of the environment, unless it is empty.
fn set(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Who is logged in.
fn login() -> String {
    let uid = rustix::process::getuid().as_raw();
    set("USER").or_else(|| set("LOGNAME")).or_else(|| account(uid)).unwrap_or_else(|| uid.to_string())
}

/// The name of an account of this machine.
fn account(uid: u32) -> Option<String> {
    let accounts = std::fs::read_to_string("/etc/passwd").ok()?;
    let fields = |line: &str| line.split(':').map(str::to_owned).collect::<Vec<_>>();
    accounts.lines().map(fields).find(|fields| fields.get(2) == Some(&uid.to_string()))?.into_iter().next()
}
