//! The terms of a task: budgets, retries, grace, limits; what a type or a submission may say of them, and what follows.
//!
//! Knows nothing of where the numbers come from.

use std::sync::Arc;
use std::time::Duration;

use super::grants::Grants;

const SECOND: Duration = Duration::from_secs(1);
const YEAR: Duration = Duration::from_hours(366 * 24);

/// What one task may use, and what happens when it has used it. Complete: nothing is left to a default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Ready but not started, in one wait.
    pub queue_timeout: Duration,
    /// One attempt, from guest entry.
    pub run_timeout: Duration,
    /// Birth (or rerun) to terminal state, across retries and waits.
    pub max_age: Duration,
    /// Between being told to stop and being killed. May be zero.
    pub grace: Duration,
    /// Since the guest last called the host's heartbeat; not watched if absent.
    pub heartbeat_timeout: Option<Duration>,
    /// Instructions of one attempt; not metered if absent.
    pub fuel: Option<u64>,
    /// Whether a trap or a kill leaves a core dump: what the guest's memory held, secrets and all.
    pub core_dump: bool,
    /// When it is run again.
    pub retry: RetryPolicy,
    /// What one attempt may hold and produce.
    pub limits: Limits,
    /// What its guest may reach. Of the type, never of a submission.
    pub grants: Arc<Grants>,
}

/// When a failed attempt is followed by another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// 0 means at most once: then nothing is ever run again by itself.
    pub max_retries: u32,
    /// The delay before the first retry; doubles with each.
    pub base: Duration,
    /// The longest delay before its spread.
    pub cap: Duration,
    /// Whether an attempt that spent its run or heartbeat budget is retried.
    pub retry_timeouts: bool,
}

/// What one attempt may hold and produce. Passing a limit ends the attempt, except for logs: their tail is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Linear memory, summed over all memories.
    pub memory_bytes_max: u64,
    /// Elements, summed over all tables.
    pub table_elements_max: u64,
    /// Core instances, and as many memories and tables.
    pub instances_max: u64,
    /// Bytes of the result.
    pub result_bytes_max: u64,
    /// Log lines that are kept.
    pub log_lines_max: u64,
    /// Bytes of the log lines that are kept.
    pub log_bytes_max: u64,
    /// Bytes that cross the boundary in one host call.
    pub host_call_bytes_max: u64,
    /// Host resources held at one time.
    pub handles_max: u64,
}

/// What a type or a submission says of the terms: only what differs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TermsDraft {
    /// See [`Terms::queue_timeout`].
    pub queue_timeout: Option<Duration>,
    /// See [`Terms::run_timeout`].
    pub run_timeout: Option<Duration>,
    /// See [`Terms::max_age`].
    pub max_age: Option<Duration>,
    /// See [`Terms::grace`].
    pub grace: Option<Duration>,
    /// See [`Terms::heartbeat_timeout`].
    pub heartbeat_timeout: Option<Duration>,
    /// See [`Terms::fuel`].
    pub fuel: Option<u64>,
    /// See [`Terms::core_dump`].
    pub core_dump: Option<bool>,
    /// See [`RetryPolicy::max_retries`].
    pub max_retries: Option<u32>,
    /// See [`RetryPolicy::base`].
    pub retry_base: Option<Duration>,
    /// See [`RetryPolicy::cap`].
    pub retry_cap: Option<Duration>,
    /// See [`RetryPolicy::retry_timeouts`].
    pub retry_timeouts: Option<bool>,
    /// See [`Limits::memory_bytes_max`].
    pub memory_bytes_max: Option<u64>,
    /// See [`Limits::table_elements_max`].
    pub table_elements_max: Option<u64>,
    /// See [`Limits::instances_max`].
    pub instances_max: Option<u64>,
    /// See [`Limits::result_bytes_max`].
    pub result_bytes_max: Option<u64>,
    /// See [`Limits::log_lines_max`].
    pub log_lines_max: Option<u64>,
    /// See [`Limits::log_bytes_max`].
    pub log_bytes_max: Option<u64>,
    /// See [`Limits::host_call_bytes_max`].
    pub host_call_bytes_max: Option<u64>,
    /// See [`Limits::handles_max`].
    pub handles_max: Option<u64>,
    /// See [`Terms::grants`]. A submission's count for nothing: those of its type stand.
    pub grants: Arc<Grants>,
}

/// The terms cannot be worked out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TermsError {
    /// There is no default for it.
    #[error("no `run_timeout`: neither the task type nor the submission gives one")]
    RunTimeoutMissing,
    /// A value past its floor or ceiling.
    #[error("`{name}` is {given}, but must be from {least} to {most}")]
    OutOfRange { name: &'static str, given: String, least: String, most: String },
}

/// A limit with its default, its least and its greatest value.
struct Range<T> {
    name: &'static str,
    default: T,
    least: T,
    most: T,
}

const MIB: u64 = 1 << 20;
const QUEUE_TIMEOUT: Range<Duration> =
    Range { name: "queue_timeout", default: Duration::from_hours(24), least: Duration::from_millis(1), most: YEAR };
const RUN_TIMEOUT: Range<Duration> =
    Range { name: "run_timeout", default: SECOND, least: Duration::from_millis(1), most: YEAR };
const MAX_AGE: Range<Duration> = Range {
    name: "max_age",
    default: SECOND,
    least: Duration::from_millis(1),
    most: Duration::from_hours(10 * 366 * 24),
};
const GRACE: Range<Duration> =
    Range { name: "grace", default: Duration::from_secs(5), least: Duration::ZERO, most: Duration::from_hours(1) };
const HEARTBEAT: Range<Duration> =
    Range { name: "heartbeat_timeout", default: SECOND, least: Duration::from_millis(10), most: YEAR };
const FUEL: Range<u64> = Range { name: "fuel", default: 1, least: 1, most: u64::MAX / 4 };
const MAX_RETRIES: Range<u32> = Range { name: "max_retries", default: 3, least: 0, most: 1_000 };
/// 10 s doubled up to one hour: requirements common to job queues that must not hammer a dependency.
const RETRY_BASE: Range<Duration> = Range {
    name: "retry_base",
    default: Duration::from_secs(10),
    least: Duration::from_millis(1),
    most: Duration::from_hours(24),
};
const RETRY_CAP: Range<Duration> = Range {
    name: "retry_cap",
    default: Duration::from_hours(1),
    least: Duration::from_millis(1),
    most: Duration::from_hours(7 * 24),
};
const MEMORY: Range<u64> = Range { name: "memory_bytes_max", default: 64 * MIB, least: 64 << 10, most: 1024 * MIB };
const TABLE: Range<u64> = Range { name: "table_elements_max", default: 100_000, least: 1, most: 1_000_000 };
const INSTANCES: Range<u64> = Range { name: "instances_max", default: 16, least: 1, most: 128 };
const RESULT: Range<u64> = Range { name: "result_bytes_max", default: MIB, least: 4, most: 16 * MIB };
const LOG_LINES: Range<u64> = Range { name: "log_lines_max", default: 1_000, least: 0, most: 100_000 };
const LOG_BYTES: Range<u64> = Range { name: "log_bytes_max", default: 256 << 10, least: 0, most: 16 * MIB };
const HOST_CALL: Range<u64> = Range { name: "host_call_bytes_max", default: MIB, least: 64 << 10, most: 16 * MIB };
const HANDLES: Range<u64> = Range { name: "handles_max", default: 1_000, least: 1, most: 100_000 };

impl<T: PartialOrd + Copy + Shown> Range<T> {
    fn pick(&self, given: Option<T>) -> Result<T, TermsError> {
        given.map_or(Ok(self.default), |value| self.check(value))
    }

    fn pick_opt(&self, given: Option<T>) -> Result<Option<T>, TermsError> {
        given.map(|value| self.check(value)).transpose()
    }

    fn check(&self, value: T) -> Result<T, TermsError> {
        if value < self.least || value > self.most {
            return Err(TermsError::OutOfRange {
                name: self.name,
                given: value.shown(),
                least: self.least.shown(),
                most: self.most.shown(),
            });
        }
        Ok(value)
    }
}

trait Shown {
    fn shown(self) -> String;
}

impl Shown for Duration {
    fn shown(self) -> String {
        const DAY: u64 = 24 * 3600;
        let whole_days = self.subsec_nanos() == 0 && self.as_secs() >= DAY && self.as_secs().is_multiple_of(DAY);
        if whole_days { format!("{} days", self.as_secs() / DAY) } else { format!("{self:?}") }
    }
}

impl Shown for u64 {
    fn shown(self) -> String {
        self.to_string()
    }
}

impl Shown for u32 {
    fn shown(self) -> String {
        self.to_string()
    }
}

impl TermsDraft {
    /// These, and where they are silent, those of `base`.
    #[must_use]
    pub fn over(&self, base: &Self) -> Self {
        Self {
            queue_timeout: self.queue_timeout.or(base.queue_timeout),
            run_timeout: self.run_timeout.or(base.run_timeout),
            max_age: self.max_age.or(base.max_age),
            grace: self.grace.or(base.grace),
            heartbeat_timeout: self.heartbeat_timeout.or(base.heartbeat_timeout),
            fuel: self.fuel.or(base.fuel),
            core_dump: self.core_dump.or(base.core_dump),
            max_retries: self.max_retries.or(base.max_retries),
            retry_base: self.retry_base.or(base.retry_base),
            retry_cap: self.retry_cap.or(base.retry_cap),
            retry_timeouts: self.retry_timeouts.or(base.retry_timeouts),
            memory_bytes_max: self.memory_bytes_max.or(base.memory_bytes_max),
            table_elements_max: self.table_elements_max.or(base.table_elements_max),
            instances_max: self.instances_max.or(base.instances_max),
            result_bytes_max: self.result_bytes_max.or(base.result_bytes_max),
            log_lines_max: self.log_lines_max.or(base.log_lines_max),
            log_bytes_max: self.log_bytes_max.or(base.log_bytes_max),
            host_call_bytes_max: self.host_call_bytes_max.or(base.host_call_bytes_max),
            handles_max: self.handles_max.or(base.handles_max),
            // Nobody widens by a submission what the type may reach.
            grants: Arc::clone(&base.grants),
        }
    }

    /// Whether each value that is given is within its range.
    ///
    /// # Errors
    /// Names the first that is not.
    pub fn check(&self) -> Result<(), TermsError> {
        let probe = Self { run_timeout: self.run_timeout.or(Some(SECOND)), ..self.clone() };
        probe.resolve(Duration::ZERO).map(drop)
    }

    /// The complete terms of a task whose start is put off by `delay`.
    ///
    /// # Errors
    /// No `run_timeout`, or a value out of its range.
    pub fn resolve(&self, delay: Duration) -> Result<Terms, TermsError> {
        let run_timeout = RUN_TIMEOUT.check(self.run_timeout.ok_or(TermsError::RunTimeoutMissing)?)?;
        let queue_timeout = QUEUE_TIMEOUT.pick(self.queue_timeout)?;
        let grace = GRACE.pick(self.grace)?;
        let retry = RetryPolicy {
            max_retries: MAX_RETRIES.pick(self.max_retries)?,
            base: RETRY_BASE.pick(self.retry_base)?,
            cap: RETRY_CAP.pick(self.retry_cap)?,
            retry_timeouts: self.retry_timeouts.unwrap_or(false),
        };
        let max_age = match self.max_age {
            Some(given) => MAX_AGE.check(given)?,
            None => default_max_age(queue_timeout, run_timeout + grace, &retry, delay).min(MAX_AGE.most),
        };
        Ok(Terms {
            queue_timeout,
            run_timeout,
            max_age,
            grace,
            heartbeat_timeout: HEARTBEAT.pick_opt(self.heartbeat_timeout)?,
            fuel: FUEL.pick_opt(self.fuel)?,
            core_dump: self.core_dump.unwrap_or(false),
            retry,
            limits: Limits {
                memory_bytes_max: MEMORY.pick(self.memory_bytes_max)?,
                table_elements_max: TABLE.pick(self.table_elements_max)?,
                instances_max: INSTANCES.pick(self.instances_max)?,
                result_bytes_max: RESULT.pick(self.result_bytes_max)?,
                log_lines_max: LOG_LINES.pick(self.log_lines_max)?,
                log_bytes_max: LOG_BYTES.pick(self.log_bytes_max)?,
                host_call_bytes_max: HOST_CALL.pick(self.host_call_bytes_max)?,
                handles_max: HANDLES.pick(self.handles_max)?,
            },
            grants: Arc::clone(&self.grants),
        })
    }
}

/// One wait in the queue, every attempt with its grace, every delay at its longest.
fn default_max_age(queue: Duration, attempt: Duration, retry: &RetryPolicy, delay: Duration) -> Duration {
    let attempts = attempt.saturating_mul(retry.max_retries.saturating_add(1));
    let delays = (1..=retry.max_retries).fold(Duration::ZERO, |sum, n| sum.saturating_add(retry.longest_delay(n)));
    queue.saturating_add(attempts).saturating_add(delays).saturating_add(delay)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft() -> TermsDraft {
        TermsDraft { run_timeout: Some(Duration::from_mins(1)), ..TermsDraft::default() }
    }

    #[test]
    fn a_missing_run_timeout_names_both_places_where_it_may_be_given() {
        let error = TermsDraft::default().resolve(Duration::ZERO).unwrap_err();
        assert_eq!(error.to_string(), "no `run_timeout`: neither the task type nor the submission gives one");
        assert_eq!(TermsDraft::default().check(), Ok(()), "a type may leave it to the submission");
    }

    #[test]
    fn what_nobody_gives_is_by_default() {
        let terms = draft().resolve(Duration::ZERO).unwrap();
        assert_eq!(terms.grace, Duration::from_secs(5));
        assert_eq!((terms.heartbeat_timeout, terms.fuel), (None, None));
        let policy = RetryPolicy {
            max_retries: 3,
            base: Duration::from_secs(10),
            cap: Duration::from_hours(1),
            retry_timeouts: false,
        };
        assert_eq!(terms.retry, policy);
        assert_eq!(terms.limits.memory_bytes_max, 64 << 20);
        assert_eq!(terms.limits.result_bytes_max, 1 << 20);
    }

    #[test]
    fn the_default_life_has_room_for_the_wait_every_attempt_and_every_delay() {
        let terms = draft().resolve(Duration::from_secs(7)).unwrap();
        let delays = Duration::from_secs(12 + 24 + 48);
        let attempts = 4 * Duration::from_secs(60 + 5);
        assert_eq!(terms.max_age, terms.queue_timeout + attempts + delays + Duration::from_secs(7));

        let given = TermsDraft { max_age: Some(Duration::from_secs(9)), ..draft() };
        assert_eq!(given.resolve(Duration::from_secs(7)).unwrap().max_age, Duration::from_secs(9));
    }

    #[test]
    fn the_default_life_never_passes_the_ceiling() {
        let long = TermsDraft { max_retries: Some(1_000), run_timeout: Some(YEAR), ..draft() };
        assert_eq!(long.resolve(Duration::MAX).unwrap().max_age, MAX_AGE.most);
    }

    #[test]
    fn what_the_submission_says_goes_before_what_the_type_says() {
        let of_type = TermsDraft { grace: Some(Duration::ZERO), max_retries: Some(0), ..draft() };
        let of_task = TermsDraft { max_retries: Some(2), ..TermsDraft::default() };
        let terms = of_task.over(&of_type).resolve(Duration::ZERO).unwrap();
        assert_eq!(terms.run_timeout, Duration::from_mins(1));
        assert_eq!((terms.grace, terms.retry.max_retries), (Duration::ZERO, 2));
    }

    #[test]
    fn a_submission_does_not_widen_what_its_type_may_reach() {
        let granted = |host: &str| Arc::new(Grants { http: vec![host.parse().unwrap()], ..Grants::default() });
        let of_type = TermsDraft { grants: granted("api.example.com"), ..draft() };
        let of_task = TermsDraft { grants: granted("*.example.com"), ..TermsDraft::default() };
        assert_eq!(of_task.over(&of_type).resolve(Duration::ZERO).unwrap().grants, of_type.grants);
        assert!(of_task.over(&draft()).resolve(Duration::ZERO).unwrap().grants.is_empty());
    }

    #[test]
    fn a_value_past_its_floor_or_ceiling_is_named_with_both() {
        let told = |draft: TermsDraft| draft.check().unwrap_err().to_string();
        let short = TermsDraft { run_timeout: Some(Duration::from_micros(500)), ..draft() };
        assert_eq!(told(short), "`run_timeout` is 500µs, but must be from 1ms to 366 days");
        let large = TermsDraft { memory_bytes_max: Some(u64::MAX), ..draft() };
        assert_eq!(told(large), "`memory_bytes_max` is 18446744073709551615, but must be from 65536 to 1073741824");
    }

    /// A term with this many nanoseconds, or this number.
    type Given = fn(u64) -> TermsDraft;

    #[test]
    fn every_term_has_a_floor_and_a_ceiling() {
        let past_the_floor: [(&str, Given, u64); 14] = [
            ("queue_timeout", |v| TermsDraft { queue_timeout: Some(Duration::from_nanos(v)), ..draft() }, 0),
            ("run_timeout", |v| TermsDraft { run_timeout: Some(Duration::from_nanos(v)), ..draft() }, 0),
            ("max_age", |v| TermsDraft { max_age: Some(Duration::from_nanos(v)), ..draft() }, 0),
            ("heartbeat_timeout", |v| TermsDraft { heartbeat_timeout: Some(Duration::from_nanos(v)), ..draft() }, 0),
            ("retry_base", |v| TermsDraft { retry_base: Some(Duration::from_nanos(v)), ..draft() }, 0),
            ("retry_cap", |v| TermsDraft { retry_cap: Some(Duration::from_nanos(v)), ..draft() }, 0),
            ("fuel", |v| TermsDraft { fuel: Some(v), ..draft() }, 0),
            ("memory_bytes_max", |v| TermsDraft { memory_bytes_max: Some(v), ..draft() }, 0),
            ("table_elements_max", |v| TermsDraft { table_elements_max: Some(v), ..draft() }, 0),
            ("instances_max", |v| TermsDraft { instances_max: Some(v), ..draft() }, 0),
            ("result_bytes_max", |v| TermsDraft { result_bytes_max: Some(v), ..draft() }, 3),
            ("host_call_bytes_max", |v| TermsDraft { host_call_bytes_max: Some(v), ..draft() }, 1),
            ("handles_max", |v| TermsDraft { handles_max: Some(v), ..draft() }, 0),
            ("log_lines_max", |v| TermsDraft { log_lines_max: Some(v), ..draft() }, u64::MAX),
        ];
        for (name, given, low) in past_the_floor {
            for value in [low, u64::MAX] {
                let error = given(value).check().expect_err(name);
                assert!(matches!(error, TermsError::OutOfRange { name: told, .. } if told == name), "{error}");
            }
        }
    }
}
