//! What can be wrong with a request, or with the world while it was carried out.

use std::path::{Path, PathBuf};

use crate::component::{ArtefactError, ComponentError, FolderError};
use crate::config::ConfigError;
use crate::executor::StartError;
use crate::id::TaskId;
use crate::store::StoreError;
use crate::task::{GrantsError, Objection, Task, TermsError};

/// Why the host did not do what it was asked to. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no {what} `{name}`")]
    NotFound { what: &'static str, name: String },
    /// The task's state says no; this is the task as it is.
    #[error("task `{}` is {}: {event} is refused", task.spec.id, task.state.kind().code())]
    Refused { task: Box<Task>, event: &'static str, why: Objection },
    #[error("`{field}` {problem}")]
    Invalid { field: &'static str, problem: String },
    #[error(transparent)]
    Terms(#[from] TermsError),
    #[error(transparent)]
    Grants(#[from] GrantsError),
    #[error(transparent)]
    Component(#[from] ComponentError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("the sandbox cannot be set up")]
    Executor(#[from] StartError),
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("the cache of compiled components cannot be used")]
    Artefacts(#[from] ArtefactError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot {what} `{}`", path.display())]
    Io { what: &'static str, path: PathBuf, source: std::io::Error },
    #[error("the host is shutting down")]
    Closed,
    /// A part of the node has panicked, and tasks are not looked after as they should be.
    #[error("a part of the host has failed")]
    Broken,
}

impl Error {
    pub(super) fn io(what: &'static str, path: &Path, source: std::io::Error) -> Self {
        Self::Io { what, path: path.to_owned(), source }
    }

    pub(super) fn no_task(id: TaskId) -> Self {
        Self::NotFound { what: "task", name: id.to_string() }
    }

    /// The stable code of the API and the command line.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound { what: "task", .. } => "task_not_found",
            Self::NotFound { what: "component", .. } => "component_not_found",
            Self::NotFound { what: "task type", .. } => "type_not_found",
            Self::NotFound { what: "core dump", .. } => "no_core_dump",
            Self::NotFound { .. } => "not_found",
            Self::Refused { why, .. } => why.code(),
            Self::Invalid { .. } => "invalid_field",
            Self::Terms(TermsError::RunTimeoutMissing) => "run_timeout_missing",
            Self::Terms(TermsError::OutOfRange { .. }) => "terms_out_of_range",
            Self::Grants(_) => "grants_invalid",
            Self::Component(error) => error.code(),
            Self::Config(_) => "config_out_of_range",
            Self::Executor(_) | Self::Artefacts(ArtefactError::Engine { .. }) => "sandbox_unavailable",
            Self::Store(StoreError::InUse { .. }) => "store_in_use",
            Self::Store(StoreError::SchemaTooNew { .. }) => "store_too_new",
            Self::Store(StoreError::Closed) | Self::Closed => "shutting_down",
            Self::Store(_) => "store_failed",
            Self::Broken => "host_broken",
            Self::Io { .. } | Self::Folder(_) | Self::Artefacts(_) => "io_failed",
        }
    }

    /// What to do next.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::NotFound { what: "task", .. } => "list the tasks to find its id: `atropos list`".into(),
            Self::NotFound { what: "component", .. } => "upload it first: `atropos push TYPE FILE`".into(),
            Self::NotFound { what: "task type", .. } => {
                "see which types there are with `atropos type list`, or register one: `atropos push TYPE FILE`".into()
            }
            Self::NotFound { what: "core dump", .. } => {
                "`atropos attempts ID` says whether there is one; the type's terms ask for them: `--core-dump`".into()
            }
            Self::NotFound { .. } => "check the name".into(),
            Self::Refused { why, task, .. } => refusal_hint(*why, task),
            Self::Invalid { .. } => "correct the field and send the request again".into(),
            Self::Terms(TermsError::RunTimeoutMissing) => {
                "give the type a budget with `atropos push TYPE FILE --run-timeout 60s`, or the submission one in its \
                 `terms.run_timeout`"
                    .into()
            }
            Self::Component(error) => error.hint().to_owned(),
            Self::Grants(error) => error.hint().to_owned(),
            Self::Terms(TermsError::OutOfRange { .. }) | Self::Config(_) => "choose a value within the range".into(),
            Self::Broken => "restart the host; its log says what failed".into(),
            Self::Executor(_) => "see the cause; fewer slots need less address space".into(),
            Self::Store(StoreError::InUse { .. }) => {
                "stop the other process, or choose another folder with `--data`".into()
            }
            Self::Store(StoreError::SchemaTooNew { .. }) => "use the newer program, or another folder".into(),
            Self::Store(StoreError::Closed) | Self::Closed => "try again once the host is up again".into(),
            Self::Store(_) | Self::Io { .. } | Self::Folder(_) | Self::Artefacts(_) => {
                "see the cause and the host's log; check the disk".into()
            }
        }
    }
}

fn refusal_hint(why: Objection, task: &Task) -> String {
    let id = task.spec.id;
    match why {
        Objection::Ended => format!("it has ended; `atropos show {id}` tells how"),
        Objection::StillLive => format!("it has not ended; cancel it first: `atropos cancel {id}`"),
        Objection::NotRecoverable => {
            "only tasks that ended by spent retries, a timeout or an interruption are taken up again; a rerun can be \
             forced with a reason: `--force --reason TEXT`"
                .into()
        }
        Objection::Final => "SUCCESS, CANCELLED and REJECTED never change; submit a new task".into(),
        Objection::StoppingAlready => "it is being stopped already; to kill it now, repeat the request that is under \
                                       way with no grace"
            .into(),
        Objection::ReasonMissing => "give a reason".into(),
        Objection::KeyTaken => "another task has its deduplication key now; wait for its end or cancel it".into(),
        Objection::NotPending
        | Objection::NotRunning
        | Objection::StaleAttempt
        | Objection::TooEarly
        | Objection::TooLate => format!("look at it again: `atropos show {id}`"),
    }
}
