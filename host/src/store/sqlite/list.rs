//! Pages of tasks, newest first: which index drives the query, and what is left to compare.
//!
//! The index is chosen here, by counting a little: SQLite's planner would need statistics that fit every moment.

#![expect(
    clippy::redundant_closure_for_method_calls,
    reason = "the method's path has one lifetime, where any is asked for"
)]

use std::rc::Rc;

use rusqlite::{ToSql, params_from_iter};

use super::codec;
use super::read::{Session, task, task_columns};
use crate::id::TaskId;
use crate::store::{StoreError, TaskFilter};
use crate::task::{Kind, Task};

/// How far the rows behind an index are counted to find out which of several is the narrowest.
const COUNTED_MAX: i64 = 2_000;

/// Conditions, and the values for their question marks.
struct Where {
    sql: String,
    values: Vec<Rc<dyn ToSql>>,
}

impl Where {
    fn of(condition: &str, values: impl IntoIterator<Item = Rc<dyn ToSql>>) -> Self {
        Self { sql: condition.to_owned(), values: values.into_iter().collect() }
    }

    fn and(&mut self, condition: &str, value: impl ToSql + 'static) {
        self.sql.push_str(" AND ");
        self.sql.push_str(condition);
        self.values.push(Rc::new(value));
    }
}

/// One condition that an index can answer.
struct Driver {
    /// What follows FROM.
    source: &'static str,
    answers: Where,
    /// The column of the id, in whose order the index is.
    id: &'static str,
}

impl Driver {
    fn by(source: &'static str, condition: &str, value: impl ToSql + 'static) -> Self {
        Self { source, answers: Where::of(condition, [Rc::new(value) as _]), id: "t.id" }
    }

    /// Its condition, within these bounds.
    fn within(&self, bounds: &Bounds) -> Where {
        let mut found = Where::of(&self.answers.sql, self.answers.values.iter().cloned());
        if bounds.least != [0; 16] {
            found.and(&format!("{} >= ?", self.id), bounds.least);
        }
        if let Some(end) = bounds.end {
            found.and(&format!("{} < ?", self.id), end);
        }
        found
    }
}

const BY_TRACE: &str = "tasks t INDEXED BY tasks_trace";
const BY_CREATOR: &str = "tasks t INDEXED BY tasks_creator";
const BY_STATE: &str = "tasks t INDEXED BY tasks_state";
const BY_TYPE: &str = "tasks t INDEXED BY tasks_type";
const BY_QUEUE: &str = "tasks t INDEXED BY tasks_queue";
const BY_LABEL: &str = "labels l CROSS JOIN tasks t ON t.id = l.task";
const BY_BIRTH: &str = "tasks t NOT INDEXED";

/// See [`crate::store::Read::tasks`].
pub(super) fn tasks(
    session: &Session<'_>,
    filter: &TaskFilter,
    before: Option<TaskId>,
    limit: usize,
) -> Result<Vec<Task>, StoreError> {
    if limit == 0 || filter.trace_id.as_ref().is_some_and(|id| codec::trace_range(id).is_none()) {
        return Ok(Vec::new());
    }
    let bounds = Bounds::of(session, filter, before)?;
    let driver = narrowest(session, filter, &bounds)?;
    if driver.source != BY_STATE {
        return page(session, &driver, filter, &filter.kinds, &bounds, limit);
    }
    // Each state is in the order of birth by itself; together they are merged.
    let mut kinds = filter.kinds.clone();
    kinds.sort_unstable();
    kinds.dedup();
    let mut found = Vec::new();
    for kind in kinds {
        found.extend(page(session, &by_state(kind), filter, &[], &bounds, limit)?);
    }
    found.sort_unstable_by_key(|task| std::cmp::Reverse(task.spec.id));
    found.truncate(limit);
    Ok(found)
}

fn by_state(kind: Kind) -> Driver {
    Driver::by(BY_STATE, "t.state = ?", kind.code())
}

/// Where the page lies in the order of birth, as far as ids tell.
struct Bounds {
    least: [u8; 16],
    /// Not including.
    end: Option<[u8; 16]>,
}

impl Bounds {
    /// An id carries the time of its making, which lies near the task's birth: no further than the store has seen.
    fn of(session: &Session<'_>, filter: &TaskFilter, before: Option<TaskId>) -> Result<Self, StoreError> {
        let mut bounds = Self { least: [0; 16], end: before.map(|id| *id.as_bytes()) };
        if filter.created_from.is_none() && filter.created_to.is_none() {
            return Ok(bounds);
        }
        let skew = if let Some(memo) = session.memo {
            memo.borrow().counters.id_skew_ms
        } else {
            let sql = "SELECT value FROM counters WHERE name = 'id_skew_ms'";
            session.one("read its counters", sql, [], |cells| cells.int())?.unwrap_or(i64::MAX)
        };
        if let Some(from) = filter.created_from {
            bounds.least = codec::first_id_at(from.as_micros().div_euclid(1000).saturating_sub(skew));
        }
        if let Some(to) = filter.created_to {
            let end = codec::first_id_at(to.as_micros().div_euclid(1000).saturating_add(skew).saturating_add(1));
            // The last millisecond that an id can name is no bound.
            if end[..6] != [0xff; 6] {
                bounds.end = Some(bounds.end.map_or(end, |before| before.min(end)));
            }
        }
        Ok(bounds)
    }
}

/// The indexes that could answer, best first as far as one can tell without counting.
fn drivers(filter: &TaskFilter) -> Vec<Driver> {
    let mut found = Vec::new();
    if let Some((first, last)) = filter.trace_id.as_deref().and_then(codec::trace_range) {
        let answers = Where::of("t.trace BETWEEN ? AND ?", [Rc::new(first) as _, Rc::new(last) as _]);
        // A plus keeps the planner from walking the table to have the order, which this index does not give.
        found.push(Driver { source: BY_TRACE, answers, id: "+t.id" });
    }
    if let Some((name, value)) = filter.label.clone() {
        let answers = Where::of("l.name = ? AND l.value = ?", [Rc::new(name) as _, Rc::new(value) as _]);
        found.push(Driver { source: BY_LABEL, answers, id: "l.task" });
    }
    if let Some(creator) = &filter.creator {
        found.push(Driver::by(BY_CREATOR, "t.creator = ?", creator.clone()));
    }
    if let Some(name) = &filter.task_type {
        found.push(Driver::by(BY_TYPE, "t.task_type = ?", name.to_string()));
    }
    if let Some(queue) = filter.queue.as_ref().filter(|queue| queue.as_str() != "default") {
        found.push(Driver::by(BY_QUEUE, "t.queue <> 'default' AND t.queue = ?", queue.to_string()));
    }
    if !filter.kinds.is_empty() {
        let rare = !filter.kinds.contains(&Kind::Success);
        let place = if rare { 0 } else { found.len() };
        found.insert(place, by_state(filter.kinds[0]));
    }
    found
}

/// The index with the fewest rows behind it, counted only as far as it pays.
fn narrowest(session: &Session<'_>, filter: &TaskFilter, bounds: &Bounds) -> Result<Driver, StoreError> {
    let mut candidates = drivers(filter);
    if let Some(trace) = candidates.iter().position(|driver| driver.source == BY_TRACE) {
        return Ok(candidates.swap_remove(trace));
    }
    if candidates.len() < 2 {
        let all = Driver { source: BY_BIRTH, answers: Where::of("TRUE", []), id: "t.id" };
        return Ok(candidates.pop().unwrap_or(all));
    }
    let mut best = (i64::MAX, 0);
    for (place, driver) in candidates.iter().enumerate() {
        let rows = if driver.source == BY_STATE {
            filter.kinds.iter().map(|kind| count(session, &by_state(*kind), bounds)).sum::<Result<i64, _>>()?
        } else {
            count(session, driver, bounds)?
        };
        if rows < best.0 {
            best = (rows, place);
        }
    }
    Ok(candidates.swap_remove(best.1))
}

fn count(session: &Session<'_>, driver: &Driver, bounds: &Bounds) -> Result<i64, StoreError> {
    let Where { sql, values } = driver.within(bounds);
    let source = if driver.source == BY_LABEL { "labels l" } else { driver.source };
    let sql = format!("SELECT count(*) FROM (SELECT 1 FROM {source} WHERE {sql} LIMIT {COUNTED_MAX})");
    let rows = session.one("count tasks", &sql, params_from_iter(values), |cells| cells.int())?;
    Ok(rows.unwrap_or(0))
}

fn page(
    session: &Session<'_>,
    driver: &Driver,
    filter: &TaskFilter,
    kinds: &[Kind],
    bounds: &Bounds,
    limit: usize,
) -> Result<Vec<Task>, StoreError> {
    let mut found = driver.within(bounds);
    rest(driver, filter, kinds, &mut found);
    found.values.push(Rc::new(codec::limit(limit)));
    let sql = format!(
        "SELECT {columns} FROM {source} CROSS JOIN terms m ON m.id = t.terms WHERE {conditions}
         ORDER BY {id} DESC LIMIT ?",
        columns = task_columns!(),
        source = driver.source,
        conditions = found.sql,
        id = driver.id,
    );
    session.all("list tasks", &sql, params_from_iter(found.values), task)
}

/// The conditions that the driver does not answer. A plus keeps the planner from looking for another index.
fn rest(driver: &Driver, filter: &TaskFilter, kinds: &[Kind], found: &mut Where) {
    if let Some(name) = filter.task_type.as_ref().filter(|_| driver.source != BY_TYPE) {
        found.and("+t.task_type = ?", name.to_string());
    }
    if let Some(queue) = filter.queue.as_ref().filter(|_| driver.source != BY_QUEUE) {
        found.and("+t.queue = ?", queue.to_string());
    }
    if let Some(creator) = filter.creator.as_ref().filter(|_| driver.source != BY_CREATOR) {
        found.and("+t.creator = ?", creator.clone());
    }
    if let Some((name, value)) = filter.label.clone().filter(|_| driver.source != BY_LABEL) {
        found.and("EXISTS (SELECT 1 FROM labels x WHERE x.name = ? AND x.value = ? AND x.task = t.id)", name);
        found.values.push(Rc::new(value));
    }
    if let Some(from) = filter.created_from {
        found.and("t.created_at >= ?", from.as_micros());
    }
    if let Some(to) = filter.created_to {
        found.and("t.created_at < ?", to.as_micros());
    }
    if !kinds.is_empty() {
        // Codes of our own: nothing to escape.
        let codes: Vec<String> = kinds.iter().map(|kind| format!("'{}'", kind.code())).collect();
        found.sql = format!("{} AND +t.state IN ({})", found.sql, codes.join(", "));
    }
}
