//! What the writer knows without asking the database, because it is the only one that writes.
//!
//! All of it follows the transaction: [`Memo::committed`] keeps it, [`Memo::undone`] takes it back.

use std::collections::{BTreeMap, HashMap};

use rusqlite::Connection;

use super::failed_to;
use crate::id::{QueueName, TaskId};
use crate::store::{Line, StoreError};
use crate::task::{State, Task, Terms};

/// The most sets of terms whose ids are remembered.
const TERMS_MAX: usize = 32;

/// Numbers that are given out, as the table `counters` has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    pub(super) audit: i64,
    pub(super) outbox: i64,
    pub(super) logs: i64,
    /// How far, at most, a task's birth and the time within its id lie apart, in milliseconds.
    pub(super) id_skew_ms: i64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Memo {
    pub(super) counters: Counters,
    saved: Counters,
    /// Tasks that are running, as they are in this transaction.
    running: HashMap<TaskId, Task>,
    /// How many tasks are pending in each line.
    pending: BTreeMap<Line, i64>,
    moves: Vec<(Line, i64)>,
    /// Terms whose `max_age` is zero, and their ids.
    terms: Vec<(Terms, i64)>,
}

impl Memo {
    pub(super) fn load(conn: &Connection) -> Result<Self, StoreError> {
        let counter = |name: &str| {
            conn.query_row("SELECT value FROM counters WHERE name = ?1", [name], |row| row.get(0))
                .map_err(failed_to("read its counters"))
        };
        let counters = Counters {
            audit: counter("audit")?,
            outbox: counter("outbox")?,
            logs: counter("logs")?,
            id_skew_ms: counter("id_skew_ms")?,
        };
        Ok(Self { counters, saved: counters, pending: count_pending(conn)?, ..Self::default() })
    }

    pub(super) fn running(&self, id: TaskId) -> Option<&Task> {
        self.running.get(&id)
    }

    /// Remembers a task as it is now, if it is worth it.
    pub(super) fn saw(&mut self, task: &Task) {
        match task.state {
            State::Running(_) | State::Stopping(_) => drop(self.running.insert(task.spec.id, task.clone())),
            State::Pending(_) | State::Ended(_) => drop(self.running.remove(&task.spec.id)),
        }
    }

    pub(super) fn lines(&self) -> Vec<Line> {
        self.pending.keys().cloned().collect()
    }

    pub(super) fn pending_in(&self, queue: &QueueName) -> u64 {
        let first = Line { queue: queue.clone(), priority: i8::MIN };
        let of_queue = self.pending.range(first..).take_while(|(line, _)| line.queue == *queue);
        of_queue.map(|(_, count)| u64::try_from(*count).unwrap_or(0)).sum()
    }

    /// A task came to this line, or went from it.
    pub(super) fn moved(&mut self, line: Line, by: i64) {
        self.shift(line.clone(), by);
        self.moves.push((line, by));
    }

    fn shift(&mut self, line: Line, by: i64) {
        use std::collections::btree_map::Entry;
        match self.pending.entry(line) {
            Entry::Vacant(entry) => drop(entry.insert(by)),
            Entry::Occupied(mut entry) => {
                *entry.get_mut() += by;
                if *entry.get() == 0 {
                    entry.remove();
                }
            }
        }
    }

    /// The id of these terms, which have a `max_age` of zero.
    pub(super) fn terms_id(&self, terms: &Terms) -> Option<i64> {
        self.terms.iter().find(|(known, _)| known == terms).map(|(_, id)| *id)
    }

    pub(super) fn knows_terms(&mut self, terms: Terms, id: i64) {
        if self.terms.len() >= TERMS_MAX {
            self.terms.remove(0);
        }
        self.terms.push((terms, id));
    }

    /// The counters that this transaction changed.
    pub(super) fn changed_counters(&self) -> impl Iterator<Item = (&'static str, i64)> {
        let (now, was) = (self.counters, self.saved);
        [
            ("audit", now.audit, was.audit),
            ("outbox", now.outbox, was.outbox),
            ("logs", now.logs, was.logs),
            ("id_skew_ms", now.id_skew_ms, was.id_skew_ms),
        ]
        .into_iter()
        .filter(|(_, now, was)| now != was)
        .map(|(name, now, _)| (name, now))
    }

    pub(super) fn committed(&mut self) {
        self.saved = self.counters;
        self.moves.clear();
    }

    pub(super) fn undone(&mut self) {
        self.counters = self.saved;
        self.running.clear();
        self.terms.clear();
        while let Some((line, by)) = self.moves.pop() {
            self.shift(line, -by);
        }
    }
}

fn count_pending(conn: &Connection) -> Result<BTreeMap<Line, i64>, StoreError> {
    let what = failed_to("count what is pending");
    let mut statement = conn
        .prepare(
            "SELECT queue, priority, count(*) FROM tasks INDEXED BY tasks_pending WHERE ready_at IS NOT NULL
             GROUP BY queue, priority",
        )
        .map_err(what)?;
    let mut rows = statement.query([]).map_err(what)?;
    let mut pending = BTreeMap::new();
    while let Some(row) = rows.next().map_err(what)? {
        let mut cells = super::codec::Cells::of(row);
        pending.insert(super::read::line(&mut cells)?, cells.int()?);
    }
    Ok(pending)
}
