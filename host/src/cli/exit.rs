//! The one mapping from what went wrong to an exit code, and the words for it on stderr.
//!
//! Matches on error types, never on the text of a message.

use std::fmt;

use crate::api::client::ClientError;
use crate::component::ComponentError;
use crate::host;
use crate::task::Kind;

/// How a command ends, for whoever called it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Ok,
    /// The task ended in another state than SUCCESS.
    TaskFailed,
    /// Flags, input or fields are wrong.
    Usage,
    /// There is no such file, task, type or component.
    NotFound,
    /// The task's state says no.
    Conflict,
    /// It goes on, but nobody waits for it any more.
    GaveUp,
    /// The server, the store or the machine did not do its part.
    Unavailable,
    /// The file is no component that fits.
    BadComponent,
    /// It fits, but does not stop as well as was asked for.
    BelowGrade,
}

/// The table of exit codes, as the help shows it.
pub const TABLE: &str = "  0  done; of a task that was waited for: SUCCESS
  1  the task ended in another state than SUCCESS
  2  usage: a flag, the input or a field is wrong
  3  not found: file, task, type or component
  4  conflict: the state of the task does not allow it
  5  gave up waiting; the task goes on
  6  unavailable: the server does not answer, the data is in use, or the machine failed
  7  bad component: the file does not fit, and the message says why
  8  below grade: it fits, but does not stop as well as `check --min-grade` asks";

impl Exit {
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::TaskFailed => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Conflict => 4,
            Self::GaveUp => 5,
            Self::Unavailable => 6,
            Self::BadComponent => 7,
            Self::BelowGrade => 8,
        }
    }

    /// This, or if it is Ok, the other: of many, the first that went wrong counts.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        if self == Self::Ok { other } else { self }
    }

    /// Of a task that has ended.
    #[must_use]
    pub fn of(kind: Kind) -> Self {
        if kind == Kind::Success { Self::Ok } else { Self::TaskFailed }
    }
}

/// What the command line itself finds wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    pub exit: Exit,
    pub code: &'static str,
    pub message: String,
    pub hint: Option<String>,
}

impl Complaint {
    pub fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, code: "usage", message: message.into(), hint: None }
    }

    /// A file that cannot be read, for the reason that the system gives.
    pub fn unreadable(path: &std::path::Path, error: &std::io::Error) -> Self {
        let path = path.display();
        match error.kind() {
            std::io::ErrorKind::NotFound => Self {
                exit: Exit::NotFound,
                code: "file_not_found",
                message: format!("there is no file `{path}`"),
                hint: None,
            },
            _ => Self {
                exit: Exit::Usage,
                code: "file_unreadable",
                message: format!("cannot read `{path}`: {error}"),
                hint: None,
            },
        }
    }

    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Complaint {}

/// An error as it is told: once, with its causes, a stable code and the next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub exit: Exit,
    pub code: String,
    pub message: String,
    pub hint: Option<String>,
}

/// The words and the exit code for an error; `None` if nobody is listening any more, which is no error.
#[must_use]
pub fn tell(error: &anyhow::Error) -> Option<Told> {
    let broken_pipe = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
    };
    let ours = error.downcast_ref::<host::Error>().is_none() && error.downcast_ref::<ClientError>().is_none();
    if ours && error.chain().any(broken_pipe) {
        return None;
    }
    let message = format!("{error:#}");
    if let Some(own) = error.downcast_ref::<Complaint>() {
        return Some(Told { exit: own.exit, code: own.code.into(), message, hint: own.hint.clone() });
    }
    if let Some(error) = error.downcast_ref::<host::Error>() {
        return Some(Told { exit: of_host(error), code: error.code().into(), message, hint: Some(error.hint()) });
    }
    if let Some(error) = error.downcast_ref::<ClientError>() {
        let (code, hint) = (error.code().to_owned(), Some(error.hint().to_owned()));
        // The innermost cause is in the message already.
        return Some(Told { exit: of_client(error), code, message: error.to_string(), hint });
    }
    Some(Told { exit: Exit::Unavailable, code: "failed".into(), message, hint: None })
}

pub(super) fn of_host(error: &host::Error) -> Exit {
    match error {
        host::Error::NotFound { .. } => Exit::NotFound,
        host::Error::Refused { .. } => Exit::Conflict,
        host::Error::Invalid { .. } | host::Error::Terms(_) | host::Error::Grants(_) | host::Error::Config(_) => {
            Exit::Usage
        }
        host::Error::Component(ComponentError::HostFault { .. } | ComponentError::Busy { .. })
        | host::Error::Executor(_)
        | host::Error::Store(_)
        | host::Error::Folder(_)
        | host::Error::Artefacts(_)
        | host::Error::Io { .. }
        | host::Error::Closed
        | host::Error::Broken => Exit::Unavailable,
        host::Error::Component(_) => Exit::BadComponent,
    }
}

fn of_client(error: &ClientError) -> Exit {
    match error {
        ClientError::Problem(problem) => of_problem(&problem.code, problem.status),
        ClientError::Unreachable { .. } | ClientError::Protocol { .. } => Exit::Unavailable,
        ClientError::Address { .. } => Exit::Usage,
    }
}

/// The API's codes are stable; where one says no more than its status, the status decides.
fn of_problem(code: &str, status: u16) -> Exit {
    match (code, status) {
        ("component_missing", _) | (_, 404) => Exit::NotFound,
        (_, 409) => Exit::Conflict,
        (code, 400..500) if code.starts_with("component_") => Exit::BadComponent,
        (_, 408 | 429) => Exit::Unavailable,
        (_, 400..500) => Exit::Usage,
        _ => Exit::Unavailable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_api_says_has_an_exit_code() {
        let cases = [
            ("task_not_found", 404, Exit::NotFound),
            ("unknown_type", 404, Exit::NotFound),
            ("no_result", 404, Exit::NotFound),
            ("component_missing", 422, Exit::NotFound),
            ("component_invalid", 422, Exit::BadComponent),
            ("component_too_large", 413, Exit::BadComponent),
            ("input_invalid", 422, Exit::Usage),
            ("run_timeout_missing", 422, Exit::Usage),
            ("task_ended", 409, Exit::Conflict),
            ("queue_full", 429, Exit::Unavailable),
            ("shutting_down", 503, Exit::Unavailable),
            ("internal", 500, Exit::Unavailable),
        ];
        for (code, status, exit) in cases {
            assert_eq!(of_problem(code, status), exit, "{code}");
        }
    }

    #[test]
    fn every_exit_code_is_in_the_table_and_means_one_thing() {
        let all = [
            Exit::Ok,
            Exit::TaskFailed,
            Exit::Usage,
            Exit::NotFound,
            Exit::Conflict,
            Exit::GaveUp,
            Exit::Unavailable,
            Exit::BadComponent,
            Exit::BelowGrade,
        ];
        for (line, exit) in TABLE.lines().zip(all) {
            assert!(line.trim_start().starts_with(&format!("{}  ", exit.code())), "{line}");
        }
        assert_eq!(TABLE.lines().count(), all.len());
    }

    #[test]
    fn only_success_is_success() {
        for kind in Kind::ALL.into_iter().filter(|kind| kind.is_terminal()) {
            assert_eq!(Exit::of(kind) == Exit::Ok, kind == Kind::Success, "{}", kind.code());
        }
    }

    #[test]
    fn an_error_keeps_its_code_through_any_context() {
        let error = anyhow::Error::new(Complaint::usage("the input is not JSON")).context("cannot submit");
        let told = tell(&error).unwrap();
        assert_eq!(told.exit, Exit::Usage);
        assert_eq!(told.message, "cannot submit: the input is not JSON");
        let error = anyhow::Error::new(host::Error::NotFound { what: "task", name: "x".into() });
        assert_eq!(tell(&error).unwrap().exit, Exit::NotFound);
    }

    #[test]
    fn a_broken_pipe_is_the_readers_choice() {
        let error = anyhow::Error::new(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        assert_eq!(tell(&error), None);
        let error = anyhow::Error::new(std::io::Error::other("disk"));
        assert_eq!(tell(&error).unwrap().exit, Exit::Unavailable);
    }

    #[test]
    fn a_missing_file_and_one_that_cannot_be_read_differ() {
        let path = std::path::Path::new("x.wasm");
        let missing = Complaint::unreadable(path, &std::io::ErrorKind::NotFound.into());
        assert_eq!(missing.exit, Exit::NotFound);
        assert_eq!(Complaint::unreadable(path, &std::io::ErrorKind::PermissionDenied.into()).exit, Exit::Usage);
    }
}
