//! Terms of tasks and types.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::text::Span;
use crate::task;

/// What one task may use, and what happens when it has used it. Complete: defaults are worked out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Terms {
    /// Ready but not started, in one wait.
    pub queue_timeout: Span,
    /// One attempt, from guest entry.
    pub run_timeout: Span,
    /// Birth (or rerun) to terminal state, across retries and waits.
    pub max_age: Span,
    /// Between being told to stop and being killed.
    pub grace: Span,
    /// Since the guest last called the host's heartbeat; not watched if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat_timeout: Option<Span>,
    /// Instructions of one attempt; not metered if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
    /// Whether a trap or a kill leaves a core dump: what the guest's memory held, secrets and all.
    #[serde(default)]
    pub core_dump: bool,
    /// 0 means at most once: then nothing is ever run again by itself.
    pub max_retries: u32,
    /// The delay before the first retry; it doubles from retry to retry.
    pub retry_base: Span,
    /// The longest delay before a retry.
    pub retry_cap: Span,
    /// Whether an attempt that spent its run or heartbeat budget is retried.
    pub retry_timeouts: bool,
    /// Linear memory, summed over all memories.
    pub memory_bytes_max: u64,
    /// Elements, summed over all tables.
    pub table_elements_max: u64,
    /// Core instances, and as many memories and tables.
    pub instances_max: u64,
    pub result_bytes_max: u64,
    /// Of the log, the tail is kept.
    pub log_lines_max: u64,
    pub log_bytes_max: u64,
    /// Bytes that cross the boundary in one host call.
    pub host_call_bytes_max: u64,
    /// Host resources held at one time.
    pub handles_max: u64,
}

/// What a type or a submission says of the terms: only what differs. A submission's go before its type's, and those before
/// the defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TermsDraft {
    /// Ready but not started, in one wait. Default 1 day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_timeout: Option<Span>,
    /// One attempt, from guest entry. Has no default: the type or the submission gives it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_timeout: Option<Span>,
    /// Birth (or rerun) to terminal state, across retries and waits. Default: what the other budgets add up to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_age: Option<Span>,
    /// Between being told to stop and being killed. Default 5 s; may be 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace: Option<Span>,
    /// Since the guest last called the host's heartbeat; not watched unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat_timeout: Option<Span>,
    /// Instructions of one attempt; not metered unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
    /// Whether a trap or a kill leaves a core dump: what the guest's memory held, secrets and all. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core_dump: Option<bool>,
    /// 0 means at most once. Default 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    /// The delay before the first retry; it doubles from retry to retry. Default 10 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_base: Option<Span>,
    /// The longest delay before a retry. Default 1 h.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_cap: Option<Span>,
    /// Whether an attempt that spent its run or heartbeat budget is retried. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_timeouts: Option<bool>,
    /// Linear memory, summed over all memories. Default 64 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes_max: Option<u64>,
    /// Elements, summed over all tables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table_elements_max: Option<u64>,
    /// Core instances, and as many memories and tables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instances_max: Option<u64>,
    /// Default 1 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_bytes_max: Option<u64>,
    /// Of the log, the tail is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_lines_max: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_bytes_max: Option<u64>,
    /// Bytes that cross the boundary in one host call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_call_bytes_max: Option<u64>,
    /// Host resources held at one time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handles_max: Option<u64>,
}

impl From<&task::Terms> for Terms {
    fn from(terms: &task::Terms) -> Self {
        // What may be reached is shown beside the terms.
        let task::Terms {
            queue_timeout,
            run_timeout,
            max_age,
            grace,
            heartbeat_timeout,
            fuel,
            core_dump,
            retry,
            limits,
            grants: _,
        } = terms;
        Self {
            queue_timeout: Span(*queue_timeout),
            run_timeout: Span(*run_timeout),
            max_age: Span(*max_age),
            grace: Span(*grace),
            heartbeat_timeout: heartbeat_timeout.map(Span),
            fuel: *fuel,
            core_dump: *core_dump,
            max_retries: retry.max_retries,
            retry_base: Span(retry.base),
            retry_cap: Span(retry.cap),
            retry_timeouts: retry.retry_timeouts,
            memory_bytes_max: limits.memory_bytes_max,
            table_elements_max: limits.table_elements_max,
            instances_max: limits.instances_max,
            result_bytes_max: limits.result_bytes_max,
            log_lines_max: limits.log_lines_max,
            log_bytes_max: limits.log_bytes_max,
            host_call_bytes_max: limits.host_call_bytes_max,
            handles_max: limits.handles_max,
        }
    }
}

impl From<TermsDraft> for task::TermsDraft {
    fn from(draft: TermsDraft) -> Self {
        Self {
            queue_timeout: draft.queue_timeout.map(Into::into),
            run_timeout: draft.run_timeout.map(Into::into),
            max_age: draft.max_age.map(Into::into),
            grace: draft.grace.map(Into::into),
            heartbeat_timeout: draft.heartbeat_timeout.map(Into::into),
            fuel: draft.fuel,
            core_dump: draft.core_dump,
            max_retries: draft.max_retries,
            retry_base: draft.retry_base.map(Into::into),
            retry_cap: draft.retry_cap.map(Into::into),
            retry_timeouts: draft.retry_timeouts,
            memory_bytes_max: draft.memory_bytes_max,
            table_elements_max: draft.table_elements_max,
            instances_max: draft.instances_max,
            result_bytes_max: draft.result_bytes_max,
            log_lines_max: draft.log_lines_max,
            log_bytes_max: draft.log_bytes_max,
            host_call_bytes_max: draft.host_call_bytes_max,
            handles_max: draft.handles_max,
            grants: Arc::default(),
        }
    }
}

impl From<&task::TermsDraft> for TermsDraft {
    fn from(draft: &task::TermsDraft) -> Self {
        Self {
            queue_timeout: draft.queue_timeout.map(Span),
            run_timeout: draft.run_timeout.map(Span),
            max_age: draft.max_age.map(Span),
            grace: draft.grace.map(Span),
            heartbeat_timeout: draft.heartbeat_timeout.map(Span),
            fuel: draft.fuel,
            core_dump: draft.core_dump,
            max_retries: draft.max_retries,
            retry_base: draft.retry_base.map(Span),
            retry_cap: draft.retry_cap.map(Span),
            retry_timeouts: draft.retry_timeouts,
            memory_bytes_max: draft.memory_bytes_max,
            table_elements_max: draft.table_elements_max,
            instances_max: draft.instances_max,
            result_bytes_max: draft.result_bytes_max,
            log_lines_max: draft.log_lines_max,
            log_bytes_max: draft.log_bytes_max,
            host_call_bytes_max: draft.host_call_bytes_max,
            handles_max: draft.handles_max,
        }
    }
}
