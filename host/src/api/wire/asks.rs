//! What people ask of tasks and queues, with their names and reasons for the audit.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Unfit;
use super::text::Span;
use crate::task;

const BY_BYTES_MAX: usize = 200;
const REASON_BYTES_MAX: usize = 2_000;
/// Who asks, when nobody says.
const NOBODY: &str = "api";

/// A wish, with who has it and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Ask {
    /// Who asks, for the audit: up to 200 bytes. `api` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why, in the asker's own words: up to 2,000 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The wish to cancel a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CancelAsk {
    /// Who asks, for the audit: up to 200 bytes. `api` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why, in the asker's own words: up to 2,000 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A shorter grace than that of the task's terms. `0s` kills at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace: Option<Span>,
}

/// The wish to take a task up again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RerunAsk {
    /// Who asks, for the audit: up to 200 bytes. `api` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why, in the asker's own words: up to 2,000 bytes. `force` needs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Take it up even if it is not recoverable.
    pub force: bool,
}

/// The wish to hold a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PauseAsk {
    /// Hold only tasks of a lower priority than this, from −100 to 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub below: Option<i32>,
    /// Who asks, for the audit: up to 200 bytes. `api` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why, in the asker's own words: up to 2,000 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The name of who does something.
pub(in crate::api) fn who(by: Option<&str>) -> Result<std::sync::Arc<str>, Unfit> {
    let by = by.unwrap_or(NOBODY);
    if by.is_empty() || by.len() > BY_BYTES_MAX || by.chars().any(char::is_control) {
        return Err(Unfit::new("by", format!("must have 1 to {BY_BYTES_MAX} bytes and no control characters")));
    }
    Ok(by.into())
}

fn ask(by: Option<&str>, reason: Option<&str>) -> Result<task::Ask, Unfit> {
    let why = reason.unwrap_or_default();
    if why.len() > REASON_BYTES_MAX || why.chars().any(|c| c.is_control() && c != '\n') {
        let problem = format!("must have at most {REASON_BYTES_MAX} bytes and no control characters but line ends");
        return Err(Unfit::new("reason", problem));
    }
    Ok(task::Ask { by: who(by)?, why: why.trim().into() })
}

impl TryFrom<Ask> for task::Ask {
    type Error = Unfit;

    fn try_from(wire: Ask) -> Result<Self, Unfit> {
        ask(wire.by.as_deref(), wire.reason.as_deref())
    }
}

impl CancelAsk {
    /// As the host has it.
    pub(in crate::api) fn ask(&self) -> Result<task::Ask, Unfit> {
        ask(self.by.as_deref(), self.reason.as_deref())
    }
}

impl RerunAsk {
    /// As the host has it.
    pub(in crate::api) fn ask(&self) -> Result<task::Ask, Unfit> {
        ask(self.by.as_deref(), self.reason.as_deref())
    }
}

impl PauseAsk {
    /// As the host has it.
    pub(in crate::api) fn ask(&self) -> Result<(Option<i8>, task::Ask), Unfit> {
        let out = |below| Unfit::new("below", format!("is {below}, but must be from -100 to 100"));
        let priority = |below| i8::try_from(below).ok().filter(|p| (-100..=100).contains(p)).ok_or_else(|| out(below));
        Ok((self.below.map(priority).transpose()?, ask(self.by.as_deref(), self.reason.as_deref())?))
    }
}
