//! The store in one SQLite file: one writer connection, a few readers, a write-ahead log, every commit on disk.
//!
//! Decides nothing: [`super::life`] does. The only module that names rusqlite.

mod codec;
mod grants;
mod list;
mod lock;
mod memo;
mod migrate;
mod read;
mod scene;
#[cfg(test)]
mod tests;
mod write;

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use self::lock::DirLock;
use self::memo::Memo;
use self::read::Session;
use super::{Backend, Read, StoreError, Write};

/// The database's file, in the directory that is given.
const FILE: &str = "atropos.db";

/// Reads that may run side by side; more wait their turn.
const READERS_MAX: usize = 4;

/// Bytes of a page. Set once, when the file is made.
const PAGE_BYTES: u32 = 4096;

/// The write-ahead log is copied into the database when it has this many pages: less often means fewer pages to copy,
/// since most are written again and again, but a longer wait for whoever writes just then.
const CHECKPOINT_PAGES: u32 = 8_000;

/// What the log is cut back to once it has been copied.
const LOG_BYTES_KEPT: u32 = 64 << 20;

/// Reads that overlap without end keep the log from starting anew. Past this size the writer waits for them.
const LOG_BYTES_MAX: u64 = 256 << 20;

/// How long it waits.
const LOG_PATIENCE: Duration = Duration::from_secs(2);

/// Statements kept compiled on each connection: all that there are, and the commoner filters of lists.
const STATEMENTS_MAX: usize = 128;

/// How long a connection waits for another. Only recovery and checkpoints ever hold one up.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

fn failed_to(what: &'static str) -> impl Fn(rusqlite::Error) -> StoreError + Copy {
    move |source| StoreError::Backend { what, source: Arc::new(source) }
}

/// A store in a directory, which no other process can open as long as this lives.
#[derive(Debug)]
pub struct Sqlite {
    path: PathBuf,
    writer: Mutex<Writer>,
    readers: Mutex<Pool>,
    freed: Condvar,
    /// Last, so that it is freed last.
    lock: Mutex<Option<DirLock>>,
}

#[derive(Debug)]
struct Writer {
    conn: Connection,
    memo: RefCell<Memo>,
    log: PathBuf,
    /// The size of the log at which it is cut.
    log_bytes_max: Cell<u64>,
}

#[derive(Debug, Default)]
struct Pool {
    idle: Vec<Connection>,
    open: usize,
}

impl Sqlite {
    /// Opens the store in `dir`, and makes both if they are not there.
    ///
    /// # Errors
    /// Another process has it, it was written by a newer program, or it cannot be read.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        std::fs::create_dir_all(dir)
            .map_err(|source| StoreError::Backend { what: "make its directory", source: Arc::new(source) })?;
        let lock = DirLock::take(dir)?;
        let path = dir.join(FILE);
        let mut conn = connect(&path)?;
        prepare_writer(&conn)?;
        migrate::migrate(&mut conn)?;
        let memo = RefCell::new(Memo::load(&conn)?);
        let log = dir.join(format!("{FILE}-wal"));
        Ok(Self {
            path,
            writer: Mutex::new(Writer { conn, memo, log, log_bytes_max: Cell::new(LOG_BYTES_MAX) }),
            readers: Mutex::default(),
            freed: Condvar::new(),
            lock: Mutex::new(Some(lock)),
        })
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A reader connection: an idle one, a new one, or the next that comes free.
    fn reader(&self) -> Result<Reader<'_>, StoreError> {
        let mut pool = self.pool();
        loop {
            if let Some(conn) = pool.idle.pop() {
                return Ok(Reader { store: self, conn: Some(conn) });
            }
            if pool.open < READERS_MAX {
                pool.open += 1;
                drop(pool);
                // From here on the place in the pool is given back when the reader is dropped.
                let mut reader = Reader { store: self, conn: None };
                reader.conn = Some(connect(&self.path).and_then(|conn| {
                    let failed = failed_to("open a connection to read");
                    conn.pragma_update(None, "query_only", true).map_err(failed)?;
                    conn.pragma_update(None, "cache_size", -8_000).map_err(failed)?;
                    Ok(conn)
                })?);
                return Ok(reader);
            }
            pool = self.freed.wait(pool).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A reader connection on loan from the pool.
struct Reader<'a> {
    store: &'a Sqlite,
    conn: Option<Connection>,
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        // A reader that panicked within its view is not used again.
        let conn = self.conn.take().filter(Connection::is_autocommit);
        let mut pool = self.store.pool();
        match conn {
            Some(conn) => pool.idle.push(conn),
            None => pool.open -= 1,
        }
        drop(pool);
        self.store.freed.notify_one();
    }
}

fn connect(path: &Path) -> Result<Connection, StoreError> {
    let failed = failed_to("open its database");
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags).map_err(failed)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    conn.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false).map_err(failed)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DDL, false).map_err(failed)?;
    conn.pragma_update(None, "trusted_schema", false).map_err(failed)?;
    conn.pragma_update(None, "foreign_keys", false).map_err(failed)?;
    conn.pragma_update(None, "temp_store", "MEMORY").map_err(failed)?;
    Ok(conn)
}

fn prepare_writer(conn: &Connection) -> Result<(), StoreError> {
    let failed = failed_to("set up its database");
    // Before the first page is written; later it changes nothing.
    conn.pragma_update(None, "page_size", PAGE_BYTES).map_err(failed)?;
    let mode: String = conn.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0)).map_err(failed)?;
    if !mode.eq_ignore_ascii_case("wal") {
        return Err(codec::unreadable("a file system that can keep a write-ahead log", mode));
    }
    conn.pragma_update(None, "synchronous", "FULL").map_err(failed)?;
    conn.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES).map_err(failed)?;
    conn.pragma_update(None, "journal_size_limit", LOG_BYTES_KEPT).map_err(failed)?;
    conn.pragma_update(None, "cache_size", -32_000).map_err(failed)?;
    Ok(())
}

impl Writer {
    /// Waits for the readers and begins the log anew, if it has grown out of its bounds.
    fn bound_log(&self) {
        let bytes = std::fs::metadata(&self.log).map_or(0, |meta| meta.len());
        if bytes <= self.log_bytes_max.get() {
            return;
        }
        let cut = self.conn.busy_timeout(LOG_PATIENCE).and_then(|()| {
            self.conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| Ok(row.get::<_, i64>(0)? == 0))
        });
        // What has just been committed stands whatever comes of this.
        if let Err(error) = self.conn.busy_timeout(BUSY_TIMEOUT) {
            tracing::error!(error = &error as &dyn std::error::Error, "the writer's patience could not be set");
        }
        if matches!(cut, Ok(true)) {
            self.log_bytes_max.set(LOG_BYTES_MAX);
        } else {
            tracing::warn!(bytes, "the write-ahead log cannot begin anew: a read has been going on for long");
            self.log_bytes_max.set(bytes + LOG_BYTES_MAX / 4);
        }
    }
}

/// The writer's transaction: undone when dropped, unless it was committed.
struct Open<'a> {
    writer: &'a Writer,
    committed: bool,
}

impl<'a> Open<'a> {
    fn begin(writer: &'a Writer) -> Result<Self, StoreError> {
        // What could not be undone the last time has to be before anything else is written.
        if !writer.conn.is_autocommit() {
            execute(&writer.conn, "undo a transaction", "ROLLBACK")?;
        }
        execute(&writer.conn, "begin a transaction", "BEGIN IMMEDIATE")?;
        Ok(Self { writer, committed: false })
    }

    fn commit(mut self) -> Result<(), StoreError> {
        let Writer { conn, memo, .. } = self.writer;
        for (name, value) in memo.borrow().changed_counters() {
            let failed = failed_to("write its counters");
            let mut update = conn.prepare_cached("UPDATE counters SET value = ?2 WHERE name = ?1").map_err(failed)?;
            update.execute((name, value)).map_err(failed)?;
        }
        execute(conn, "commit", "COMMIT")?;
        self.committed = true;
        memo.borrow_mut().committed();
        Ok(())
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if self.committed {
            return;
        }
        self.writer.memo.borrow_mut().undone();
        // SQLite undoes by itself what fails badly enough; then there is nothing left to undo.
        if !self.writer.conn.is_autocommit()
            && let Err(error) = execute(&self.writer.conn, "undo a transaction", "ROLLBACK")
        {
            tracing::error!(error = &error as &dyn std::error::Error, "a transaction could not be undone");
        }
    }
}

fn execute(conn: &Connection, what: &'static str, sql: &str) -> Result<(), StoreError> {
    conn.prepare_cached(sql).and_then(|mut statement| statement.execute([])).map(drop).map_err(failed_to(what))
}

impl Backend for Sqlite {
    fn write(&self, run: &mut dyn FnMut(&mut dyn Write) -> Result<(), StoreError>) -> Result<(), StoreError> {
        // A write that panicked was undone on its way out: nothing is half done behind a poisoned lock.
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let open = Open::begin(&writer)?;
        run(&mut Session { conn: &writer.conn, memo: Some(&writer.memo) })?;
        open.commit()?;
        writer.bound_log();
        Ok(())
    }

    fn read(&self, run: &mut dyn FnMut(&dyn Read) -> Result<(), StoreError>) -> Result<(), StoreError> {
        let reader = self.reader()?;
        let Some(conn) = &reader.conn else { return Err(StoreError::Closed) };
        execute(conn, "begin to read", "BEGIN")?;
        let outcome = run(&Session { conn, memo: None });
        execute(conn, "end to read", "COMMIT").and(outcome)
    }

    fn release(&self) {
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}
