//! How values look in columns: codes, numbers, and JSON where SQL never looks inside. Knows no tables.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::Row;
use rusqlite::types::ValueRef;
use serde::{Deserialize, Serialize};

use super::failed_to;
use super::grants::GrantsBody;
use crate::id::{Digest, NodeId, TaskId, TraceParent};
use crate::store::StoreError;
use crate::task::{DedupScope, Limits, RetryPolicy, Terms, TermsDraft};
use crate::time::Timestamp;

pub(super) fn unreadable(expected: &'static str, value: impl std::fmt::Debug) -> StoreError {
    StoreError::Unreadable { expected, value: format!("{value:?}").chars().take(200).collect() }
}

/// Reads the columns of one row, from left to right.
pub(super) struct Cells<'r> {
    row: &'r Row<'r>,
    next: usize,
}

impl<'r> Cells<'r> {
    pub(super) fn of(row: &'r Row<'r>) -> Self {
        Self { row, next: 0 }
    }

    fn take(&mut self) -> Result<ValueRef<'r>, StoreError> {
        let value = self.row.get_ref(self.next).map_err(failed_to("read a column"))?;
        self.next += 1;
        Ok(value)
    }

    pub(super) fn opt_int(&mut self) -> Result<Option<i64>, StoreError> {
        match self.take()? {
            ValueRef::Null => Ok(None),
            ValueRef::Integer(number) => Ok(Some(number)),
            other => Err(unreadable("an integer", other)),
        }
    }

    pub(super) fn int(&mut self) -> Result<i64, StoreError> {
        self.opt_int()?.ok_or_else(|| unreadable("an integer", "NULL"))
    }

    /// A whole number of any smaller kind.
    pub(super) fn number<T: TryFrom<i64>>(&mut self, expected: &'static str) -> Result<T, StoreError> {
        let number = self.int()?;
        T::try_from(number).map_err(|_| unreadable(expected, number))
    }

    /// What [`whole`] wrote.
    pub(super) fn whole(&mut self) -> Result<u64, StoreError> {
        Ok(self.int()?.cast_unsigned())
    }

    pub(super) fn opt_whole(&mut self) -> Result<Option<u64>, StoreError> {
        Ok(self.opt_int()?.map(i64::cast_unsigned))
    }

    pub(super) fn opt_real(&mut self) -> Result<Option<f64>, StoreError> {
        match self.take()? {
            ValueRef::Null => Ok(None),
            ValueRef::Real(number) => Ok(Some(number)),
            other => Err(unreadable("a number", other)),
        }
    }

    pub(super) fn at(&mut self) -> Result<Timestamp, StoreError> {
        self.int().map(Timestamp::from_micros)
    }

    pub(super) fn opt_at(&mut self) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.opt_int()?.map(Timestamp::from_micros))
    }

    pub(super) fn opt_text(&mut self) -> Result<Option<&'r str>, StoreError> {
        match self.take()? {
            ValueRef::Null => Ok(None),
            ValueRef::Text(bytes) => std::str::from_utf8(bytes).map(Some).map_err(|_| unreadable("UTF-8", bytes)),
            other => Err(unreadable("a text", other)),
        }
    }

    pub(super) fn text(&mut self) -> Result<&'r str, StoreError> {
        self.opt_text()?.ok_or_else(|| unreadable("a text", "NULL"))
    }

    pub(super) fn arc(&mut self) -> Result<Arc<str>, StoreError> {
        self.text().map(Arc::from)
    }

    pub(super) fn opt_arc(&mut self) -> Result<Option<Arc<str>>, StoreError> {
        Ok(self.opt_text()?.map(Arc::from))
    }

    /// A code that `parse` knows.
    pub(super) fn code<T>(
        &mut self,
        expected: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<T, StoreError> {
        let code = self.text()?;
        parse(code).ok_or_else(|| unreadable(expected, code))
    }

    pub(super) fn opt_code<T>(
        &mut self,
        expected: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, StoreError> {
        self.opt_text()?.map(|code| parse(code).ok_or_else(|| unreadable(expected, code))).transpose()
    }

    fn opt_bytes<const N: usize>(&mut self, expected: &'static str) -> Result<Option<[u8; N]>, StoreError> {
        match self.take()? {
            ValueRef::Null => Ok(None),
            ValueRef::Blob(bytes) => bytes.try_into().map(Some).map_err(|_| unreadable(expected, bytes)),
            other => Err(unreadable(expected, other)),
        }
    }

    fn bytes<const N: usize>(&mut self, expected: &'static str) -> Result<[u8; N], StoreError> {
        self.opt_bytes(expected)?.ok_or_else(|| unreadable(expected, "NULL"))
    }

    pub(super) fn task_id(&mut self) -> Result<TaskId, StoreError> {
        self.bytes("a task id").map(TaskId::from_bytes)
    }

    pub(super) fn node_id(&mut self) -> Result<NodeId, StoreError> {
        self.bytes("a node id").map(NodeId::from_bytes)
    }

    pub(super) fn opt_node_id(&mut self) -> Result<Option<NodeId>, StoreError> {
        Ok(self.opt_bytes("a node id")?.map(NodeId::from_bytes))
    }

    pub(super) fn digest(&mut self) -> Result<Digest, StoreError> {
        self.bytes("a component's digest").map(Digest::from_bytes)
    }

    pub(super) fn opt_digest(&mut self) -> Result<Option<Digest>, StoreError> {
        Ok(self.opt_bytes("a component's digest")?.map(Digest::from_bytes))
    }

    pub(super) fn trace(&mut self) -> Result<TraceParent, StoreError> {
        let bytes: [u8; 25] = self.bytes("a trace context")?;
        let (mut text, digits) = (String::with_capacity(55), b"0123456789abcdef");
        text.push_str("00-");
        for (place, byte) in bytes.iter().enumerate() {
            if place == 16 || place == 24 {
                text.push('-');
            }
            text.push(char::from(digits[usize::from(byte >> 4)]));
            text.push(char::from(digits[usize::from(byte & 15)]));
        }
        text.parse().map_err(|_| unreadable("a trace context", text))
    }

    pub(super) fn json<T: for<'de> Deserialize<'de>>(&mut self, expected: &'static str) -> Result<T, StoreError> {
        let text = self.text()?;
        serde_json::from_str(text).map_err(|_| unreadable(expected, text))
    }

    pub(super) fn opt_json<T: for<'de> Deserialize<'de>>(
        &mut self,
        expected: &'static str,
    ) -> Result<Option<T>, StoreError> {
        self.opt_text()?.map(|text| serde_json::from_str(text).map_err(|_| unreadable(expected, text))).transpose()
    }
}

/// SQLite's integers are signed; what is past their middle comes back the same.
pub(super) const fn whole(number: u64) -> i64 {
    number.cast_signed()
}

pub(super) fn opt_micros(at: Option<Timestamp>) -> Option<i64> {
    at.map(Timestamp::as_micros)
}

/// SQLite has no NaN, and a progress that is not a number is none.
pub(super) fn real(number: f64) -> f64 {
    if number.is_nan() { 0.0 } else { number }
}

/// A row's number as SQL compares it.
pub(super) fn after(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A limit as SQL takes it.
pub(super) fn limit(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

pub(super) fn nanos(span: Duration) -> Result<i64, StoreError> {
    i64::try_from(span.as_nanos()).map_err(|_| unreadable("a duration of less than 292 years", span))
}

pub(super) fn from_nanos(nanos: i64) -> Result<Duration, StoreError> {
    u64::try_from(nanos).map(Duration::from_nanos).map_err(|_| unreadable("a duration", nanos))
}

/// Trace id, span id and flags, without their hyphens and in half the room.
pub(super) fn trace_bytes(trace: &TraceParent) -> [u8; 25] {
    let mut bytes = [0; 25];
    let text = trace.as_str().as_bytes();
    let places = (3..35).step_by(2).chain((36..52).step_by(2)).chain([53]);
    for (byte, place) in bytes.iter_mut().zip(places) {
        *byte = hex(text[place]) << 4 | hex(text[place + 1]);
    }
    bytes
}

/// The first and the last trace context of a trace; `None` if the text is no trace id.
pub(super) fn trace_range(trace_id: &str) -> Option<([u8; 25], [u8; 25])> {
    let digits = trace_id.as_bytes();
    if digits.len() != 32 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let (mut first, mut last) = ([0; 25], [0xff; 25]);
    for (place, pair) in digits.chunks_exact(2).enumerate() {
        let byte = hex(pair[0]) << 4 | hex(pair[1]);
        (first[place], last[place]) = (byte, byte);
    }
    Some((first, last))
}

/// The time within an id, in milliseconds: the first 48 bits of a UUID of version 7 (RFC 9562, 5.7).
pub(super) fn id_millis(id: TaskId) -> i64 {
    id.as_bytes()[..6].iter().fold(0, |millis, byte| millis << 8 | i64::from(*byte))
}

/// The least id that carries this time, or the nearest that can be named.
pub(super) fn first_id_at(millis: i64) -> [u8; 16] {
    let mut id = [0; 16];
    id[..6].copy_from_slice(&millis.clamp(0, 0xffff_ffff_ffff).to_be_bytes()[2..]);
    id
}

const fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        b'A'..=b'F' => digit - b'A' + 10,
        _ => 0,
    }
}

pub(super) fn json<T: Serialize>(what: &'static str, value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|source| StoreError::Backend { what, source: Arc::new(source) })
}

/// [`Terms`] but for `max_age`, which has a column of its own.
#[derive(Serialize, Deserialize)]
pub(super) struct TermsBody {
    queue_timeout: Duration,
    run_timeout: Duration,
    grace: Duration,
    heartbeat_timeout: Option<Duration>,
    fuel: Option<u64>,
    /// Absent in rows of before it was known.
    #[serde(default)]
    core_dump: bool,
    max_retries: u32,
    retry_base: Duration,
    retry_cap: Duration,
    retry_timeouts: bool,
    memory_bytes_max: u64,
    table_elements_max: u64,
    instances_max: u64,
    result_bytes_max: u64,
    log_lines_max: u64,
    log_bytes_max: u64,
    host_call_bytes_max: u64,
    handles_max: u64,
    #[serde(default, skip_serializing_if = "GrantsBody::is_empty")]
    grants: GrantsBody,
}

impl From<&Terms> for TermsBody {
    fn from(terms: &Terms) -> Self {
        let Terms {
            queue_timeout,
            run_timeout,
            max_age: _,
            grace,
            heartbeat_timeout,
            fuel,
            core_dump,
            retry,
            limits,
            grants,
        } = terms;
        Self {
            queue_timeout: *queue_timeout,
            run_timeout: *run_timeout,
            grace: *grace,
            heartbeat_timeout: *heartbeat_timeout,
            fuel: *fuel,
            core_dump: *core_dump,
            max_retries: retry.max_retries,
            retry_base: retry.base,
            retry_cap: retry.cap,
            retry_timeouts: retry.retry_timeouts,
            memory_bytes_max: limits.memory_bytes_max,
            table_elements_max: limits.table_elements_max,
            instances_max: limits.instances_max,
            result_bytes_max: limits.result_bytes_max,
            log_lines_max: limits.log_lines_max,
            log_bytes_max: limits.log_bytes_max,
            host_call_bytes_max: limits.host_call_bytes_max,
            handles_max: limits.handles_max,
            grants: GrantsBody(Arc::clone(grants)),
        }
    }
}

impl TermsBody {
    pub(super) fn with_max_age(self, max_age: Duration) -> Terms {
        Terms {
            queue_timeout: self.queue_timeout,
            run_timeout: self.run_timeout,
            max_age,
            grace: self.grace,
            heartbeat_timeout: self.heartbeat_timeout,
            fuel: self.fuel,
            core_dump: self.core_dump,
            retry: RetryPolicy {
                max_retries: self.max_retries,
                base: self.retry_base,
                cap: self.retry_cap,
                retry_timeouts: self.retry_timeouts,
            },
            limits: Limits {
                memory_bytes_max: self.memory_bytes_max,
                table_elements_max: self.table_elements_max,
                instances_max: self.instances_max,
                result_bytes_max: self.result_bytes_max,
                log_lines_max: self.log_lines_max,
                log_bytes_max: self.log_bytes_max,
                host_call_bytes_max: self.host_call_bytes_max,
                handles_max: self.handles_max,
            },
            grants: self.grants.0,
        }
    }
}

macro_rules! draft {
    ($($field:ident: $of:ty),+ $(,)?) => {
        /// [`TermsDraft`], of which only what is given is written.
        #[derive(Serialize, Deserialize)]
        pub(super) struct DraftBody {
            $(#[serde(default, skip_serializing_if = "Option::is_none")] $field: Option<$of>,)+
            #[serde(default, skip_serializing_if = "GrantsBody::is_empty")]
            grants: GrantsBody,
        }

        impl From<&TermsDraft> for DraftBody {
            fn from(draft: &TermsDraft) -> Self {
                Self { $($field: draft.$field,)+ grants: GrantsBody(Arc::clone(&draft.grants)) }
            }
        }

        impl From<DraftBody> for TermsDraft {
            fn from(body: DraftBody) -> Self {
                Self { $($field: body.$field,)+ grants: body.grants.0 }
            }
        }
    };
}

draft! {
    queue_timeout: Duration,
    run_timeout: Duration,
    max_age: Duration,
    grace: Duration,
    heartbeat_timeout: Duration,
    fuel: u64,
    core_dump: bool,
    max_retries: u32,
    retry_base: Duration,
    retry_cap: Duration,
    retry_timeouts: bool,
    memory_bytes_max: u64,
    table_elements_max: u64,
    instances_max: u64,
    result_bytes_max: u64,
    log_lines_max: u64,
    log_bytes_max: u64,
    host_call_bytes_max: u64,
    handles_max: u64,
}

pub(super) const fn scope_code(scope: DedupScope) -> &'static str {
    match scope {
        DedupScope::Record => "record",
        DedupScope::Live => "live",
    }
}

pub(super) fn parse_scope(code: &str) -> Option<DedupScope> {
    [DedupScope::Record, DedupScope::Live].into_iter().find(|scope| scope_code(*scope) == code)
}
