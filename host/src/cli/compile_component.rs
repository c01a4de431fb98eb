//! `atropos compile-component`: what `atropos` itself starts to compile an upload. Not for people.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::component;

/// Compile one upload, as another atropos process orders it
#[derive(Args, Debug)]
#[command(hide = true, after_help = "Started by `atropos serve`, `run` and `check`; of no use otherwise.")]
pub struct CompileComponent {}

impl CompileComponent {
    pub fn run() -> ExitCode {
        component::compile_child()
    }
}

/// This program, even if another has taken its place on disk meanwhile.
pub fn this_program() -> PathBuf {
    PathBuf::from("/proc/self/exe")
}
