//! What can be asked of an open connection, within whatever transaction it is in.

#![expect(
    clippy::redundant_closure_for_method_calls,
    reason = "the method's path has one lifetime, where any is asked for"
)]

use std::cell::RefCell;
use std::sync::Arc;

use rusqlite::{Connection, Params, Row, params};

use super::codec::{self, Cells, unreadable};
use super::memo::Memo;
use super::{failed_to, list};
use crate::id::{Digest, QueueName, TaskId, TypeName};
use crate::schedule::Candidate;
use crate::store::{
    AttemptRow, AuditRow, ComponentRow, Line, LogRow, OutboxRow, Pause, QueueRow, Read, ResultRow, StoreError,
    TaskFilter, TypeRow,
};
use crate::task::{
    CostReceipt, Kind, LogLevel, LogLine, Manner, Progress, Reason, Record, Ring, Spec, State, Stop, StopReason,
    StopReceipt, Task, Wait,
};
use crate::time::Timestamp;

/// A connection in a transaction, and, if it is the writer's, what the writer knows.
pub(super) struct Session<'a> {
    pub(super) conn: &'a Connection,
    pub(super) memo: Option<&'a RefCell<Memo>>,
}

/// The columns that [`task`] reads, of `tasks t JOIN terms m ON m.id = t.terms`.
macro_rules! task_columns {
    () => {
        "t.id, t.task_type, t.type_version, t.component, t.queue, t.priority, t.dedup_key, t.dedup_scope, t.creator, \
         t.request_id, t.trace, t.labels, t.created_at, t.run_after, t.max_age_ns, m.body, t.version, t.state, \
         t.generation, t.generation_at, t.attempts, t.retries, t.wait, t.ready_at, t.node, t.claimed_at, \
         t.stop_reason, t.stop_by, t.stop_why, t.stop_asked_at, t.stop_kill_at, t.reason, t.manner, t.ended_at, \
         t.detail"
    };
}
pub(super) use task_columns;

macro_rules! select_task {
    ($where:literal) => {
        concat!("SELECT ", task_columns!(), " FROM tasks t JOIN terms m ON m.id = t.terms WHERE ", $where)
    };
}

impl Session<'_> {
    /// Every row of a query, through `read`.
    pub(super) fn all<T>(
        &self,
        what: &'static str,
        sql: &str,
        params: impl Params,
        read: impl Fn(&mut Cells<'_>) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let failed = failed_to(what);
        let mut statement = self.conn.prepare_cached(sql).map_err(failed)?;
        let mut rows = statement.query(params).map_err(failed)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            found.push(read(&mut Cells::of(row))?);
        }
        Ok(found)
    }

    /// The first row of a query, through `read`.
    pub(super) fn one<T>(
        &self,
        what: &'static str,
        sql: &str,
        params: impl Params,
        read: impl Fn(&mut Cells<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let failed = failed_to(what);
        let mut statement = self.conn.prepare_cached(sql).map_err(failed)?;
        let mut rows = statement.query(params).map_err(failed)?;
        rows.next().map_err(failed)?.map(|row: &Row<'_>| read(&mut Cells::of(row))).transpose()
    }

    fn count_by_queue(&self, running: bool) -> Result<Vec<(QueueName, u64)>, StoreError> {
        let sql = if running {
            "SELECT queue, count(*) FROM tasks INDEXED BY tasks_state WHERE state = 'RUNNING' GROUP BY queue"
        } else {
            "SELECT queue, count(*) FROM tasks INDEXED BY tasks_pending WHERE ready_at IS NOT NULL GROUP BY queue"
        };
        self.all("count its queues", sql, [], |cells| Ok((queue(cells)?, cells.whole()?)))
    }

    fn first_ready_in(&self, line: &Line, after: i64) -> Result<Option<Timestamp>, StoreError> {
        self.one(
            "look into a queue",
            "SELECT ready_at FROM tasks INDEXED BY tasks_pending
             WHERE queue = ?1 AND priority = ?2 AND ready_at > ?3 ORDER BY ready_at LIMIT 1",
            params![line.queue.as_str(), line.priority, after],
            |cells| cells.at(),
        )
    }
}

impl Read for Session<'_> {
    fn task(&self, id: TaskId) -> Result<Option<Task>, StoreError> {
        if let Some(known) = self.memo.and_then(|memo| memo.borrow().running(id).cloned()) {
            return Ok(Some(known));
        }
        self.one("read a task", select_task!("t.id = ?1"), [id.as_bytes()], task)
    }

    fn holder_of(&self, task_type: &TypeName, key: &str) -> Result<Option<Task>, StoreError> {
        let sql = select_task!("t.task_type = ?1 AND t.dedup_key = ?2 AND t.holds_key = 1");
        self.one("look for a deduplication key", sql, [task_type.as_str(), key], task)
    }

    fn tasks(&self, filter: &TaskFilter, before: Option<TaskId>, limit: usize) -> Result<Vec<Task>, StoreError> {
        list::tasks(self, filter, before, limit)
    }

    fn input(&self, id: TaskId) -> Result<Option<Arc<str>>, StoreError> {
        self.one("read an input", "SELECT input FROM inputs WHERE task = ?1", [id.as_bytes()], |cells| cells.arc())
    }

    fn result(&self, id: TaskId) -> Result<Option<ResultRow>, StoreError> {
        let sql = "SELECT attempt, result, at FROM results WHERE task = ?1";
        self.one("read a result", sql, [id.as_bytes()], |cells| {
            Ok(ResultRow { task: id, attempt: cells.number("an attempt")?, result: cells.arc()?, at: cells.at()? })
        })
    }

    fn audit(&self, id: TaskId, after: u64, limit: usize) -> Result<Vec<AuditRow>, StoreError> {
        let sql = "SELECT number, at, from_state, to_state, reason, by, detail, attempt, generation, trace FROM audit
                   WHERE task = ?1 AND number > ?2 ORDER BY number LIMIT ?3";
        let params = params![id.as_bytes(), codec::after(after), codec::limit(limit)];
        self.all("read the audit", sql, params, |cells| audit(id, cells))
    }

    fn attempts(&self, id: TaskId) -> Result<Vec<AttemptRow>, StoreError> {
        let sql = "SELECT attempt, generation, node, claimed_at, entered_at, heartbeat_at, ended_at, outcome, reason,
                       detail, wall_us, cpu_us, fuel, memory_bytes_peak, host_calls, bytes_in, bytes_out, log_lines,
                       log_lines_dropped, stop_asked_at, stop_told_at, stop_seen_at, stop_killed_at, stop_gone_at,
                       stop_written_at, stop_ring, scene, progress_done, progress_total, progress_note
                   FROM attempts WHERE task = ?1 ORDER BY attempt";
        self.all("read attempts", sql, [id.as_bytes()], |cells| attempt(id, cells))
    }

    fn logs(&self, id: TaskId, after: u64, limit: usize) -> Result<Vec<LogRow>, StoreError> {
        let sql = "SELECT number, attempt, line, at, level, message FROM logs INDEXED BY logs_number
                   WHERE task = ?1 AND number > ?2 ORDER BY number LIMIT ?3";
        let params = params![id.as_bytes(), codec::after(after), codec::limit(limit)];
        self.all("read logs", sql, params, |cells| {
            Ok(LogRow {
                number: cells.whole()?,
                attempt: cells.number("an attempt")?,
                line: LogLine {
                    number: cells.whole()?,
                    at: cells.at()?,
                    level: cells.code("a log level", LogLevel::parse)?,
                    message: cells.text()?.to_owned(),
                },
            })
        })
    }

    fn lines(&self) -> Result<Vec<Line>, StoreError> {
        if let Some(memo) = self.memo {
            return Ok(memo.borrow().lines());
        }
        // Jumps from line to line instead of reading all that is pending.
        let sql = "SELECT queue, priority FROM (
                       SELECT queue, priority FROM tasks INDEXED BY tasks_pending
                       WHERE ready_at IS NOT NULL AND queue = ?1 AND priority > ?2 ORDER BY priority LIMIT 1)
                   UNION ALL SELECT queue, priority FROM (
                       SELECT queue, priority FROM tasks INDEXED BY tasks_pending
                       WHERE ready_at IS NOT NULL AND queue > ?1 ORDER BY queue, priority LIMIT 1)
                   LIMIT 1";
        let (mut found, mut queue, mut priority) = (Vec::<Line>::new(), String::new(), i8::MIN);
        while let Some(next) = self.one("list its queues", sql, params![queue, priority], line)? {
            (queue, priority) = (next.queue.to_string(), next.priority);
            found.push(next);
        }
        Ok(found)
    }

    fn ready_in(&self, line: &Line, now: Timestamp, limit: usize) -> Result<Vec<Candidate>, StoreError> {
        self.all(
            "look into a queue",
            "SELECT id, ready_at FROM tasks INDEXED BY tasks_pending
             WHERE queue = ?1 AND priority = ?2 AND ready_at <= ?3
             ORDER BY ready_at, id LIMIT ?4",
            params![line.queue.as_str(), line.priority, now.as_micros(), codec::limit(limit)],
            |cells| Ok(Candidate { id: cells.task_id()?, priority: line.priority, ready_at: cells.at()? }),
        )
    }

    fn next_ready_in(&self, line: &Line, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        self.first_ready_in(line, now.as_micros())
    }

    fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<TaskId>, StoreError> {
        let sql = "SELECT id FROM tasks INDEXED BY tasks_alarm WHERE alarm_at <= ?1 ORDER BY alarm_at, id LIMIT ?2";
        self.all("look for alarms", sql, params![now.as_micros(), codec::limit(limit)], |cells| cells.task_id())
    }

    fn next_alarm_at(&self) -> Result<Option<Timestamp>, StoreError> {
        let sql = "SELECT alarm_at FROM tasks INDEXED BY tasks_alarm WHERE alarm_at IS NOT NULL
                   ORDER BY alarm_at LIMIT 1";
        self.one("look for alarms", sql, [], |cells| cells.at())
    }

    fn running(&self) -> Result<Vec<Task>, StoreError> {
        self.all("read what runs", select_task!("t.state = 'RUNNING' ORDER BY t.id"), [], task)
    }

    fn pending_count(&self, queue: &QueueName) -> Result<u64, StoreError> {
        if let Some(memo) = self.memo {
            return Ok(memo.borrow().pending_in(queue));
        }
        let sql = "SELECT count(*) FROM tasks INDEXED BY tasks_pending WHERE ready_at IS NOT NULL AND queue = ?1";
        self.one("count a queue", sql, [queue.as_str()], |cells| cells.whole()).map(Option::unwrap_or_default)
    }

    fn component(&self, digest: Digest) -> Result<Option<ComponentRow>, StoreError> {
        let sql = "SELECT digest, bytes, uploaded_at, uploaded_by, imports, exports FROM components WHERE digest = ?1";
        self.one("read a component", sql, [digest.as_bytes()], component)
    }

    fn components(&self) -> Result<Vec<ComponentRow>, StoreError> {
        let sql = "SELECT digest, bytes, uploaded_at, uploaded_by, imports, exports FROM components
                   ORDER BY uploaded_at DESC, digest DESC";
        self.all("read components", sql, [], component)
    }

    fn task_type(&self, name: &TypeName, version: Option<u32>) -> Result<Option<TypeRow>, StoreError> {
        let sql = "SELECT name, version, component, terms, input_schema, created_at, created_by FROM types
                   WHERE name = ?1 AND version BETWEEN ?2 AND ?3 ORDER BY version DESC LIMIT 1";
        let (least, most) = version.map_or((1, u32::MAX), |version| (version, version));
        self.one("read a task type", sql, params![name.as_str(), least, most], type_row)
    }

    fn task_types(&self) -> Result<Vec<TypeRow>, StoreError> {
        let sql = "SELECT name, version, component, terms, input_schema, created_at, created_by FROM types t
                   WHERE version = (SELECT max(version) FROM types WHERE name = t.name) ORDER BY name";
        self.all("read task types", sql, [], type_row)
    }

    fn type_versions(&self, name: &TypeName) -> Result<Vec<TypeRow>, StoreError> {
        let sql = "SELECT name, version, component, terms, input_schema, created_at, created_by FROM types
                   WHERE name = ?1 ORDER BY version DESC";
        self.all("read a task type", sql, [name.as_str()], type_row)
    }

    fn pause(&self, queue: &QueueName) -> Result<Option<Pause>, StoreError> {
        let sql = "SELECT below, by, why, at FROM pauses WHERE queue = ?1";
        self.one("read a pause", sql, [queue.as_str()], pause)
    }

    fn queues(&self) -> Result<Vec<QueueRow>, StoreError> {
        let mut found = std::collections::BTreeMap::<QueueName, QueueRow>::new();
        let blank = |name: QueueName| QueueRow { name, pause: None, pending: 0, running: 0, oldest_ready_at: None };
        let sql = "SELECT queue, below, by, why, at FROM pauses";
        for (name, row) in self.all("read pauses", sql, [], |cells| Ok((queue(cells)?, pause(cells)?)))? {
            found.entry(name.clone()).or_insert_with(|| blank(name)).pause = Some(row);
        }
        for (name, count) in self.count_by_queue(false)? {
            found.entry(name.clone()).or_insert_with(|| blank(name)).pending = count;
        }
        for (name, count) in self.count_by_queue(true)? {
            found.entry(name.clone()).or_insert_with(|| blank(name)).running = count;
        }
        for line in self.lines()? {
            let first = self.first_ready_in(&line, i64::MIN)?;
            if let Some(row) = found.get_mut(&line.queue) {
                row.oldest_ready_at = row.oldest_ready_at.into_iter().chain(first).min();
            }
        }
        Ok(found.into_values().collect())
    }

    fn outbox(&self, after: u64, limit: usize) -> Result<Vec<OutboxRow>, StoreError> {
        let sql = "SELECT number, task, event, audit, created_at FROM outbox WHERE number > ?1
                   ORDER BY number LIMIT ?2";
        self.all("read the outbox", sql, params![codec::after(after), codec::limit(limit)], |cells| {
            Ok(OutboxRow {
                number: cells.whole()?,
                task: cells.task_id()?,
                event: cells.arc()?,
                audit: cells.whole()?,
                created_at: cells.at()?,
            })
        })
    }
}

pub(super) fn task(cells: &mut Cells<'_>) -> Result<Task, StoreError> {
    let spec = spec(cells)?;
    let version = cells.whole()?;
    let record = Record {
        kind: cells.code("a state", Kind::parse)?,
        generation: cells.number("a generation")?,
        generation_at: cells.at()?,
        attempts: cells.number("a number of attempts")?,
        retries: cells.number("a number of retries")?,
        wait: cells.opt_code("a wait", Wait::parse)?,
        ready_at: cells.opt_at()?,
        node: cells.opt_node_id()?,
        claimed_at: cells.opt_at()?,
        stop: stop(cells)?,
        reason: cells.opt_code("a reason", Reason::parse)?,
        manner: cells.opt_code("a manner of ending", Manner::parse)?,
        ended_at: cells.opt_at()?,
        detail: cells.arc()?,
    };
    let id = spec.id;
    let state = State::try_from(record).map_err(|source| StoreError::Corrupt { id, source })?;
    Ok(Task { spec: Arc::new(spec), state, version })
}

fn spec(cells: &mut Cells<'_>) -> Result<Spec, StoreError> {
    Ok(Spec {
        id: cells.task_id()?,
        task_type: type_name(cells)?,
        component: {
            let version = cells.opt_int()?;
            let version = version.map(|v| u32::try_from(v).map_err(|_| unreadable("a version of a type", v)));
            version.transpose()?.zip(cells.opt_digest()?)
        },
        queue: queue(cells)?,
        priority: cells.number("a priority")?,
        dedup_key: cells.opt_arc()?,
        dedup_scope: cells.code("a scope of a key", codec::parse_scope)?,
        creator: cells.opt_arc()?,
        request_id: cells.opt_arc()?,
        trace: cells.trace()?,
        labels: labels(cells)?,
        created_at: cells.at()?,
        run_after: cells.opt_at()?,
        terms: {
            let max_age = codec::from_nanos(cells.int()?)?;
            cells.json::<codec::TermsBody>("terms")?.with_max_age(max_age)
        },
    })
}

type Labels = Vec<(Arc<str>, Arc<str>)>;

fn labels(cells: &mut Cells<'_>) -> Result<Labels, StoreError> {
    let pairs: Option<Vec<(String, String)>> = cells.opt_json("labels")?;
    Ok(pairs.into_iter().flatten().map(|(name, value)| (name.into(), value.into())).collect())
}

fn stop(cells: &mut Cells<'_>) -> Result<Option<Stop>, StoreError> {
    let reason = cells.opt_code("a reason to stop", StopReason::parse)?;
    let (by, why, asked_at, kill_at) = (cells.opt_arc()?, cells.opt_arc()?, cells.opt_at()?, cells.opt_at()?);
    match (reason, by, why, asked_at, kill_at) {
        (None, None, None, None, None) => Ok(None),
        (Some(reason), Some(by), Some(why), Some(asked_at), Some(kill_at)) => {
            Ok(Some(Stop { reason, by, why, asked_at, kill_at }))
        }
        part => Err(unreadable("a whole request to stop", part)),
    }
}

fn attempt(task: TaskId, cells: &mut Cells<'_>) -> Result<AttemptRow, StoreError> {
    Ok(AttemptRow {
        task,
        attempt: cells.number("an attempt")?,
        generation: cells.number("a generation")?,
        node: cells.node_id()?,
        claimed_at: cells.at()?,
        entered_at: cells.opt_at()?,
        heartbeat_at: cells.opt_at()?,
        ended_at: cells.at()?,
        outcome: cells.code("a state", Kind::parse)?,
        reason: cells.code("a reason", Reason::parse)?,
        detail: cells.arc()?,
        cost: CostReceipt {
            wall_micros: cells.whole()?,
            cpu_micros: cells.whole()?,
            fuel: cells.opt_whole()?,
            memory_bytes_peak: cells.whole()?,
            host_calls: cells.whole()?,
            bytes_in: cells.whole()?,
            bytes_out: cells.whole()?,
            log_lines: cells.whole()?,
            log_lines_dropped: cells.whole()?,
        },
        stop: stop_receipt(cells)?,
        scene: cells.opt_json::<super::scene::SceneBody>("a scene")?.map(Into::into),
        progress: match (cells.opt_real()?, cells.opt_real()?, cells.opt_text()?) {
            (None, _, _) => None,
            (Some(done), total, note) => Some(Progress { done, total, note: note.map(str::to_owned) }),
        },
    })
}

fn stop_receipt(cells: &mut Cells<'_>) -> Result<Option<StopReceipt>, StoreError> {
    let (asked_at, told_at, seen_at) = (cells.opt_at()?, cells.opt_at()?, cells.opt_at()?);
    let (killed_at, gone_at, written_at) = (cells.opt_at()?, cells.opt_at()?, cells.opt_at()?);
    let ring = cells.opt_int()?;
    match (asked_at, gone_at, written_at, ring) {
        (None, None, None, None) => Ok(None),
        (Some(asked_at), Some(gone_at), Some(written_at), Some(number)) => {
            let ring = u8::try_from(number).ok().and_then(Ring::parse).ok_or_else(|| unreadable("a ring", number))?;
            Ok(Some(StopReceipt { asked_at, told_at, seen_at, killed_at, gone_at, written_at, ring }))
        }
        part => Err(unreadable("a whole stop receipt", part)),
    }
}

fn audit(task: TaskId, cells: &mut Cells<'_>) -> Result<AuditRow, StoreError> {
    Ok(AuditRow {
        task,
        number: cells.whole()?,
        at: cells.at()?,
        from: cells.opt_code("a state", Kind::parse)?,
        to: cells.code("a state", Kind::parse)?,
        reason: cells.code("a reason", Reason::parse)?,
        by: cells.arc()?,
        detail: cells.arc()?,
        attempt: cells.number("an attempt")?,
        generation: cells.number("a generation")?,
        trace: cells.trace()?,
    })
}

fn component(cells: &mut Cells<'_>) -> Result<ComponentRow, StoreError> {
    Ok(ComponentRow {
        digest: cells.digest()?,
        bytes: cells.whole()?,
        uploaded_at: cells.at()?,
        uploaded_by: cells.arc()?,
        imports: cells.json("a list of imports")?,
        exports: cells.json("a list of exports")?,
    })
}

fn type_row(cells: &mut Cells<'_>) -> Result<TypeRow, StoreError> {
    Ok(TypeRow {
        name: type_name(cells)?,
        version: cells.number("a version of a type")?,
        component: cells.digest()?,
        terms: cells.json::<codec::DraftBody>("terms of a type")?.into(),
        input_schema: cells.opt_arc()?,
        created_at: cells.at()?,
        created_by: cells.arc()?,
    })
}

fn pause(cells: &mut Cells<'_>) -> Result<Pause, StoreError> {
    let below = cells.opt_int()?.map(|below| i8::try_from(below).map_err(|_| unreadable("a priority", below)));
    Ok(Pause { below: below.transpose()?, by: cells.arc()?, why: cells.arc()?, at: cells.at()? })
}

pub(super) fn line(cells: &mut Cells<'_>) -> Result<Line, StoreError> {
    Ok(Line { queue: queue(cells)?, priority: cells.number("a priority")? })
}

fn queue(cells: &mut Cells<'_>) -> Result<QueueName, StoreError> {
    cells.code("a queue", |text| text.parse().ok())
}

fn type_name(cells: &mut Cells<'_>) -> Result<TypeName, StoreError> {
    cells.code("a task type", |text| text.parse().ok())
}
