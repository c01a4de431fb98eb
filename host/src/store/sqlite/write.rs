//! What can be changed on the writer's connection, within its transaction.

#![expect(
    clippy::redundant_closure_for_method_calls,
    reason = "the method's path has one lifetime, where any is asked for"
)]

use std::cell::RefMut;

use rusqlite::{Params, params};

use super::codec::{self, opt_micros, whole};
use super::failed_to;
use super::memo::{Counters, Memo};
use super::read::Session;
use crate::id::{NodeId, QueueName, TaskId};
use crate::store::{AttemptRow, AuditRow, ComponentRow, Line, OutboxRow, Pause, ResultRow, StoreError, TypeRow, Write};
use crate::task::{Kind, LogLine, Manner, Reason, Record, Spec, State, Task, Terms, Vitals, Wait};

impl Session<'_> {
    fn memo(&self) -> Result<RefMut<'_, Memo>, StoreError> {
        self.memo.map(std::cell::RefCell::borrow_mut).ok_or(StoreError::Closed)
    }

    fn run(&self, what: &'static str, sql: &str, params: impl Params) -> Result<usize, StoreError> {
        let failed = failed_to(what);
        self.conn.prepare_cached(sql).map_err(failed)?.execute(params).map_err(failed)
    }

    /// The next number that `counter` gives.
    fn next(&self, counter: impl Fn(&mut Counters) -> &mut i64) -> Result<i64, StoreError> {
        let mut memo = self.memo()?;
        let number = counter(&mut memo.counters);
        *number += 1;
        Ok(*number)
    }

    /// The id of a set of terms, which is written if it is new.
    fn terms_id(&self, terms: &Terms) -> Result<i64, StoreError> {
        let bare = Terms { max_age: std::time::Duration::ZERO, ..terms.clone() };
        if let Some(id) = self.memo()?.terms_id(&bare) {
            return Ok(id);
        }
        let body = codec::json("write terms", &codec::TermsBody::from(&bare))?;
        self.run("write terms", "INSERT INTO terms (body) VALUES (?1) ON CONFLICT DO NOTHING", [&body])?;
        let id = self.one("read terms", "SELECT id FROM terms WHERE body = ?1", [&body], |cells| cells.int())?;
        let id = id.ok_or_else(|| codec::unreadable("the terms just written", &body))?;
        self.memo()?.knows_terms(bare, id);
        Ok(id)
    }

    fn insert_labels(&self, spec: &Spec) -> Result<(), StoreError> {
        for (name, value) in &spec.labels {
            let sql = "INSERT INTO labels (name, value, task) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
            self.run("write a label", sql, params![name, value, spec.id.as_bytes()])?;
        }
        Ok(())
    }

    /// What the writer knows follows the tasks that go by.
    fn remember(&self, task: &Task, was_pending: bool) -> Result<(), StoreError> {
        let mut memo = self.memo()?;
        memo.saw(task);
        let is_pending = task.state.kind() == Kind::Pending;
        if was_pending != is_pending {
            let line = Line { queue: task.spec.queue.clone(), priority: task.spec.priority };
            memo.moved(line, if is_pending { 1 } else { -1 });
        }
        Ok(())
    }

    fn is_pending(&self, id: TaskId) -> Result<bool, StoreError> {
        if self.memo()?.running(id).is_some() {
            return Ok(false);
        }
        let sql = "SELECT state = 'PENDING' FROM tasks WHERE id = ?1";
        Ok(self.one("read a task", sql, [id.as_bytes()], |cells| cells.int())? == Some(1))
    }
}

/// When a pending task's wait is over.
fn alarm_at(task: &Task) -> Option<i64> {
    match task.state {
        State::Pending(_) => task.alarm(Vitals::default()).map(|(at, _)| at.as_micros()),
        State::Running(_) | State::Stopping(_) | State::Ended(_) => None,
    }
}

impl Write for Session<'_> {
    fn insert(&mut self, task: &Task, input: Option<&str>, takes_key: bool) -> Result<(), StoreError> {
        let spec = &*task.spec;
        let terms = self.terms_id(&spec.terms)?;
        let max_age = codec::nanos(spec.terms.max_age)?;
        let labels = if spec.labels.is_empty() { None } else { Some(codec::json("write labels", &pairs(spec))?) };
        let record = Record::from(&task.state);
        let stop = record.stop.as_ref();
        let sql = "INSERT INTO tasks (id, task_type, type_version, component, queue, priority, dedup_key,
                       dedup_scope, creator, request_id, trace, labels, created_at, run_after, max_age_ns, terms,
                       version, holds_key, state, generation, generation_at, attempts, retries, wait, ready_at,
                       alarm_at, node, claimed_at, stop_reason, stop_by, stop_why, stop_asked_at, stop_kill_at,
                       reason, manner, ended_at, detail)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,
                       ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35, ?36, ?37)";
        self.run(
            "write a new task",
            sql,
            params![
                spec.id.as_bytes(),
                spec.task_type.as_str(),
                spec.component.map(|(version, _)| version),
                spec.component.as_ref().map(|(_, digest)| digest.as_bytes()),
                spec.queue.as_str(),
                spec.priority,
                spec.dedup_key,
                codec::scope_code(spec.dedup_scope),
                spec.creator,
                spec.request_id,
                codec::trace_bytes(&spec.trace),
                labels,
                spec.created_at.as_micros(),
                opt_micros(spec.run_after),
                max_age,
                terms,
                whole(task.version),
                takes_key && spec.dedup_key.is_some(),
                record.kind.code(),
                record.generation,
                record.generation_at.as_micros(),
                record.attempts,
                record.retries,
                record.wait.map(Wait::code),
                opt_micros(record.ready_at),
                alarm_at(task),
                record.node.as_ref().map(NodeId::as_bytes),
                opt_micros(record.claimed_at),
                stop.map(|stop| stop.reason.code()),
                stop.map(|stop| &*stop.by),
                stop.map(|stop| &*stop.why),
                stop.map(|stop| stop.asked_at.as_micros()),
                stop.map(|stop| stop.kill_at.as_micros()),
                record.reason.map(Reason::code),
                record.manner.map(Manner::code),
                opt_micros(record.ended_at),
                record.detail,
            ],
        )?;
        self.insert_labels(spec)?;
        if let Some(input) = input {
            let sql = "INSERT INTO inputs (task, input) VALUES (?1, ?2)";
            self.run("write an input", sql, params![spec.id.as_bytes(), input])?;
        }
        self.remember(task, false)?;
        let skew = codec::id_millis(spec.id).abs_diff(spec.created_at.as_micros().div_euclid(1000));
        let counters = &mut self.memo()?.counters;
        counters.id_skew_ms = counters.id_skew_ms.max(i64::try_from(skew).unwrap_or(i64::MAX));
        Ok(())
    }

    fn replace(&mut self, task: &Task, seen: u64, keeps_key: bool) -> Result<bool, StoreError> {
        let id = task.spec.id;
        let was_pending = self.is_pending(id)?;
        let record = Record::from(&task.state);
        let stop = record.stop.as_ref();
        let sql = "UPDATE tasks SET version = ?3, holds_key = ?4, state = ?5, generation = ?6, generation_at = ?7,
                       attempts = ?8, retries = ?9, wait = ?10, ready_at = ?11, alarm_at = ?12, node = ?13,
                       claimed_at = ?14, stop_reason = ?15, stop_by = ?16, stop_why = ?17, stop_asked_at = ?18,
                       stop_kill_at = ?19, reason = ?20, manner = ?21, ended_at = ?22, detail = ?23
                   WHERE id = ?1 AND version = ?2";
        let changed = self.run(
            "write a task",
            sql,
            params![
                id.as_bytes(),
                whole(seen),
                whole(task.version),
                keeps_key && task.spec.dedup_key.is_some(),
                record.kind.code(),
                record.generation,
                record.generation_at.as_micros(),
                record.attempts,
                record.retries,
                record.wait.map(Wait::code),
                opt_micros(record.ready_at),
                alarm_at(task),
                record.node.as_ref().map(NodeId::as_bytes),
                opt_micros(record.claimed_at),
                stop.map(|stop| stop.reason.code()),
                stop.map(|stop| &*stop.by),
                stop.map(|stop| &*stop.why),
                stop.map(|stop| stop.asked_at.as_micros()),
                stop.map(|stop| stop.kill_at.as_micros()),
                record.reason.map(Reason::code),
                record.manner.map(Manner::code),
                opt_micros(record.ended_at),
                record.detail,
            ],
        )?;
        if changed == 1 {
            self.remember(task, was_pending)?;
        }
        Ok(changed == 1)
    }

    fn append_audit(&mut self, row: &AuditRow) -> Result<u64, StoreError> {
        let number = self.next(|counters| &mut counters.audit)?;
        let sql = "INSERT INTO audit (number, task, at, from_state, to_state, reason, by, detail, attempt, generation,
                       trace)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
        self.run(
            "write the audit",
            sql,
            params![
                number,
                row.task.as_bytes(),
                row.at.as_micros(),
                row.from.map(Kind::code),
                row.to.code(),
                row.reason.code(),
                row.by,
                row.detail,
                row.attempt,
                row.generation,
                codec::trace_bytes(&row.trace),
            ],
        )?;
        Ok(number.cast_unsigned())
    }

    fn append_outbox(&mut self, row: &OutboxRow) -> Result<u64, StoreError> {
        let number = self.next(|counters| &mut counters.outbox)?;
        self.run(
            "write the outbox",
            "INSERT INTO outbox (number, task, event, audit, created_at) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![number, row.task.as_bytes(), row.event, whole(row.audit), row.created_at.as_micros()],
        )?;
        Ok(number.cast_unsigned())
    }

    fn append_attempt(&mut self, row: &AttemptRow) -> Result<(), StoreError> {
        let scene = row.scene.as_ref().map(|scene| codec::json("write a scene", &super::scene::SceneBody::from(scene)));
        let stop = row.stop.as_ref();
        let progress = row.progress.as_ref();
        let sql = "INSERT INTO attempts (task, attempt, generation, node, claimed_at, entered_at, heartbeat_at,
                       ended_at, outcome, reason, detail, wall_us, cpu_us, fuel, memory_bytes_peak, host_calls,
                       bytes_in, bytes_out, log_lines, log_lines_dropped, stop_asked_at, stop_told_at, stop_seen_at,
                       stop_killed_at, stop_gone_at, stop_written_at, stop_ring, progress_done, progress_total,
                       progress_note, scene)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,
                       ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31)";
        self.run(
            "write an attempt",
            sql,
            params![
                row.task.as_bytes(),
                row.attempt,
                row.generation,
                row.node.as_bytes(),
                row.claimed_at.as_micros(),
                opt_micros(row.entered_at),
                opt_micros(row.heartbeat_at),
                row.ended_at.as_micros(),
                row.outcome.code(),
                row.reason.code(),
                row.detail,
                whole(row.cost.wall_micros),
                whole(row.cost.cpu_micros),
                row.cost.fuel.map(whole),
                whole(row.cost.memory_bytes_peak),
                whole(row.cost.host_calls),
                whole(row.cost.bytes_in),
                whole(row.cost.bytes_out),
                whole(row.cost.log_lines),
                whole(row.cost.log_lines_dropped),
                stop.map(|stop| stop.asked_at.as_micros()),
                stop.and_then(|stop| opt_micros(stop.told_at)),
                stop.and_then(|stop| opt_micros(stop.seen_at)),
                stop.and_then(|stop| opt_micros(stop.killed_at)),
                stop.map(|stop| stop.gone_at.as_micros()),
                stop.map(|stop| stop.written_at.as_micros()),
                stop.map(|stop| stop.ring.number()),
                progress.map(|progress| codec::real(progress.done)),
                progress.and_then(|progress| progress.total.map(codec::real)),
                progress.and_then(|progress| progress.note.as_deref()),
                scene.transpose()?,
            ],
        )?;
        Ok(())
    }

    fn put_result(&mut self, row: &ResultRow) -> Result<(), StoreError> {
        let sql = "INSERT INTO results (task, attempt, result, at) VALUES (?1, ?2, ?3, ?4)";
        self.run("write a result", sql, params![row.task.as_bytes(), row.attempt, row.result, row.at.as_micros()])?;
        Ok(())
    }

    fn append_logs(&mut self, id: TaskId, attempt: u32, lines: &[LogLine], keep_from: u64) -> Result<(), StoreError> {
        for line in lines.iter().filter(|line| line.number >= keep_from) {
            let sql = "INSERT INTO logs (task, attempt, line, number, at, level, message)
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING";
            let number = self.next(|counters| &mut counters.logs)?;
            let row = params![
                id.as_bytes(),
                attempt,
                codec::after(line.number),
                number,
                line.at.as_micros(),
                line.level.code(),
                line.message
            ];
            if self.run("write logs", sql, row)? == 0 {
                // It is there already: the number was not used.
                self.memo()?.counters.logs -= 1;
            }
        }
        let sql = "DELETE FROM logs WHERE task = ?1 AND attempt = ?2 AND line < ?3";
        self.run("forget logs", sql, params![id.as_bytes(), attempt, codec::after(keep_from)])?;
        Ok(())
    }

    fn touch(&mut self) -> Result<(), StoreError> {
        self.run("write", "UPDATE counters SET value = value WHERE name = 'id_skew_ms'", []).map(drop)
    }

    fn put_component(&mut self, row: &ComponentRow) -> Result<(), StoreError> {
        let what = "write a component";
        let sql = "INSERT INTO components (digest, bytes, uploaded_at, uploaded_by, imports, exports)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING";
        let (imports, exports) = (codec::json(what, &row.imports)?, codec::json(what, &row.exports)?);
        self.run(
            what,
            sql,
            params![
                row.digest.as_bytes(),
                whole(row.bytes),
                row.uploaded_at.as_micros(),
                row.uploaded_by,
                imports,
                exports
            ],
        )?;
        Ok(())
    }

    fn put_type(&mut self, row: &TypeRow) -> Result<(), StoreError> {
        let what = "write a task type";
        let sql = "INSERT INTO types (name, version, component, terms, input_schema, created_at, created_by)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let terms = codec::json(what, &codec::DraftBody::from(&row.terms))?;
        self.run(
            what,
            sql,
            params![
                row.name.as_str(),
                row.version,
                row.component.as_bytes(),
                terms,
                row.input_schema,
                row.created_at.as_micros(),
                row.created_by
            ],
        )?;
        Ok(())
    }

    fn set_pause(&mut self, queue: &QueueName, pause: Option<&Pause>) -> Result<(), StoreError> {
        let Some(Pause { below, by, why, at }) = pause else {
            self.run("lift a pause", "DELETE FROM pauses WHERE queue = ?1", [queue.as_str()])?;
            return Ok(());
        };
        let sql = "INSERT OR REPLACE INTO pauses (queue, below, by, why, at) VALUES (?1, ?2, ?3, ?4, ?5)";
        self.run("write a pause", sql, params![queue.as_str(), below, by, why, at.as_micros()])?;
        Ok(())
    }
}

fn pairs(spec: &Spec) -> Vec<(&str, &str)> {
    spec.labels.iter().map(|(name, value)| (&**name, &**value)).collect()
}
