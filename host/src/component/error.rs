//! Why an upload is refused, and what would fit instead.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// An upload that is no task.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum ComponentError {
    #[error("the upload is empty")]
    Empty,
    #[error("the upload has {bytes} bytes, but at most {max} are taken")]
    TooLarge { bytes: usize, max: usize },
    #[error("the upload is no WebAssembly: it starts with {start}")]
    NotWebAssembly { start: String },
    #[error("the upload is WebAssembly text, not binary")]
    TextFormat,
    #[error("the upload is a core module, not a component")]
    CoreModule,
    #[error("the upload is machine code that some engine compiled before")]
    Precompiled,
    #[error("the component is not valid: {detail}")]
    Invalid { detail: String },
    #[error("the component imports `{import}`, which is not offered: {reason}")]
    ImportNotOffered { import: String, reason: Cow<'static, str> },
    #[error("the component imports something in another shape than it is offered: {detail}")]
    ImportMismatch { detail: String },
    #[error("the component does not export `run`; it exports {}", listed(exports))]
    RunMissing { exports: Vec<String> },
    #[error("the component's `run` is {found}")]
    RunMistyped { found: String },
    /// No component of a real toolchain comes near these numbers, and compiling it could take minutes or gigabytes.
    #[error("the component is too complex: {found} {what}, but at most {max} are taken")]
    TooComplex { what: Cow<'static, str>, found: u64, max: u64 },
    #[error("the component was not compiled: it took more than {max} of {limit}")]
    CompileLimit { limit: Cow<'static, str>, max: String },
    /// Nobody's fault; nothing was looked at.
    #[error("{waiting} uploads wait for the compiler already")]
    Busy { waiting: usize },
    /// Not the upload's fault.
    #[error("the host could not check the component: {detail}")]
    HostFault { detail: String },
}

impl ComponentError {
    /// The error's stable name.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Empty => "component_empty",
            Self::TooLarge { .. } => "component_too_large",
            Self::NotWebAssembly { .. } => "component_not_webassembly",
            Self::TextFormat => "component_is_text",
            Self::CoreModule => "component_is_core_module",
            Self::Precompiled => "component_is_precompiled",
            Self::Invalid { .. } => "component_invalid",
            Self::ImportNotOffered { .. } => "component_import_not_offered",
            Self::ImportMismatch { .. } => "component_import_mismatch",
            Self::RunMissing { .. } => "component_run_missing",
            Self::RunMistyped { .. } => "component_run_mistyped",
            Self::TooComplex { .. } => "component_too_complex",
            Self::CompileLimit { .. } => "component_compile_limit",
            Self::Busy { .. } => "compiler_busy",
            Self::HostFault { .. } => "component_check_failed",
        }
    }

    /// What to do next.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Empty => "send the component's bytes as the body",
            Self::TooLarge { .. } => "strip debug information (`wasm-tools strip`), or raise the node's limit",
            Self::NotWebAssembly { .. } => "send a WebAssembly component, as `wasm-tools component new` makes it",
            Self::TextFormat => "make it binary first: `wasm-tools parse task.wat -o task.wasm`",
            Self::CoreModule => "make a component of it: `wasm-tools component new module.wasm -o task.wasm`",
            Self::Precompiled => "send the component itself; Atropos compiles it",
            Self::Invalid { .. } => "see `wasm-tools validate`; build it anew with current tools",
            Self::ImportNotOffered { .. } => "build it without this import, against the world `task` of `wit/task.wit`",
            Self::ImportMismatch { .. } => "build it against the `wit/task.wit` of this version of Atropos",
            Self::RunMissing { .. } => {
                "export the world `task` of `wit/task.wit`: run: func(input: string) -> result<string, failure>"
            }
            Self::RunMistyped { .. } => {
                "it must be run: func(input: string) -> result<string, failure>, as in `wit/task.wit`"
            }
            Self::TooComplex { .. } => {
                "split large functions and tables; an optimising build (`wasm-opt -O`) lowers most of these numbers"
            }
            Self::CompileLimit { .. } => {
                "build it with optimisations, or in smaller parts; the node's limits on compiling can be raised"
            }
            Self::Busy { .. } => "send it again in some seconds",
            Self::HostFault { .. } => "try again; the node's log says more",
        }
    }
}

fn listed(names: &[String]) -> String {
    const SHOWN: usize = 10;
    if names.is_empty() {
        return "nothing".to_owned();
    }
    let shown = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
