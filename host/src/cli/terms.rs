//! The terms of a task as flags, the same for `run`, `push` and `submit`.

use std::time::Duration;

use clap::Args;

use super::exit::Complaint;
use super::values::{duration, pair, size};
use crate::task::TermsDraft;

/// Budgets, retries and limits. What is not given keeps its default.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Terms")]
pub struct TermsArgs {
    /// How long one attempt may run, from the guest's entry
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub run_timeout: Option<Duration>,
    /// How long a task may wait, ready but not started [default: 24h]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub queue_timeout: Option<Duration>,
    /// How old a task may get, over all waits and attempts [default: the sum of the other budgets]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub max_age: Option<Duration>,
    /// Time between being told to stop and being killed; may be 0 [default: 5s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub grace: Option<Duration>,
    /// How long a guest may go without a heartbeat [default: not watched]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub heartbeat_timeout: Option<Duration>,
    /// Instructions that one attempt may use [default: not metered]
    #[arg(long, value_name = "N")]
    pub fuel: Option<u64>,
    /// Keep a core dump of an attempt that traps or is killed: all that its memory held [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub core_dump: Option<bool>,
    /// Linear memory of one attempt [default: 64MiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory: Option<u64>,
    /// Retries after a system failure; 0 means at most once [default: 3]
    #[arg(long, value_name = "N")]
    pub max_retries: Option<u32>,
    /// Delay before the first retry; it doubles each time [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub retry_base: Option<Duration>,
    /// The longest delay before a retry [default: 1h]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub retry_cap: Option<Duration>,
    /// Retry an attempt that spent its run or heartbeat budget, too
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub retry_timeouts: Option<bool>,
    /// Another limit, by name: table_elements, instances, result_bytes, log_lines, log_bytes, host_call_bytes, handles
    #[arg(long = "limit", value_name = "NAME=N", value_parser = pair)]
    pub limits: Vec<(String, String)>,
}

impl TermsArgs {
    /// What the flags say.
    ///
    /// # Errors
    /// A limit has no such name, or no such value.
    pub fn draft(&self) -> Result<TermsDraft, Complaint> {
        let mut draft = TermsDraft {
            queue_timeout: self.queue_timeout,
            run_timeout: self.run_timeout,
            max_age: self.max_age,
            grace: self.grace,
            heartbeat_timeout: self.heartbeat_timeout,
            fuel: self.fuel,
            core_dump: self.core_dump,
            max_retries: self.max_retries,
            retry_base: self.retry_base,
            retry_cap: self.retry_cap,
            retry_timeouts: self.retry_timeouts,
            memory_bytes_max: self.memory,
            ..TermsDraft::default()
        };
        for (name, value) in &self.limits {
            let field = match name.as_str() {
                "table_elements" => &mut draft.table_elements_max,
                "instances" => &mut draft.instances_max,
                "result_bytes" => &mut draft.result_bytes_max,
                "log_lines" => &mut draft.log_lines_max,
                "log_bytes" => &mut draft.log_bytes_max,
                "host_call_bytes" => &mut draft.host_call_bytes_max,
                "handles" => &mut draft.handles_max,
                _ => {
                    return Err(Complaint::usage(format!("there is no limit `{name}`"))
                        .hint("the limits and their meaning: `atropos help push`"));
                }
            };
            let number = size(value).map_err(|why| Complaint::usage(format!("`--limit {name}={value}`: {why}")))?;
            *field = Some(number);
        }
        Ok(draft)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_known_by_its_name() {
        let limit =
            |name: &str, value: &str| TermsArgs { limits: vec![(name.into(), value.into())], ..TermsArgs::default() };
        assert_eq!(limit("result_bytes", "2MiB").draft().unwrap().result_bytes_max, Some(2 << 20));
        assert!(limit("result", "1").draft().is_err());
        assert!(limit("handles", "many").draft().is_err());
    }
}
