//! A store that fails when it is told to: as a disk that is full for a while, or as a process that has died.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use atropos::store::sqlite::Sqlite;
use atropos::store::{Backend, Read, StoreError, Write};

/// When the process dies, and whether the disk had its last write by then.
#[derive(Clone, Copy, Debug)]
pub struct Death {
    /// The number of the transaction, from 1.
    pub at: u64,
    pub written: bool,
}

/// What the test holds in its hand.
#[derive(Default)]
pub struct Switch {
    writes: AtomicU64,
    dead: AtomicBool,
    full: AtomicBool,
}

impl Switch {
    /// Nothing reaches the disk any more, and nothing is read from it.
    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    /// While the disk is full, every write fails.
    pub fn fill(&self, full: bool) {
        self.full.store(full, Ordering::SeqCst);
    }
}

pub struct Faulty {
    inner: Sqlite,
    death: Option<Death>,
    switch: Arc<Switch>,
}

impl Faulty {
    pub fn open(dir: &Path, death: Option<Death>) -> (Self, Arc<Switch>) {
        let switch = Arc::new(Switch::default());
        let inner = Sqlite::open(dir).expect("the store opens");
        (Self { inner, death, switch: Arc::clone(&switch) }, switch)
    }

    fn fails() -> StoreError {
        let source: Box<dyn std::error::Error + Send + Sync> = "the test says so".into();
        StoreError::Backend { what: "reach the disk", source: source.into() }
    }
}

impl Backend for Faulty {
    fn write(&self, run: &mut dyn FnMut(&mut dyn Write) -> Result<(), StoreError>) -> Result<(), StoreError> {
        if self.switch.is_dead() || self.switch.full.load(Ordering::SeqCst) {
            return Err(Self::fails());
        }
        let number = self.switch.writes.fetch_add(1, Ordering::SeqCst) + 1;
        match self.death {
            Some(death) if number == death.at => {
                let written = if death.written { self.inner.write(run) } else { Ok(()) };
                self.switch.dead.store(true, Ordering::SeqCst);
                // Whatever became of it, nobody was told.
                written.and(Err(Self::fails()))
            }
            _ => self.inner.write(run),
        }
    }

    fn read(&self, run: &mut dyn FnMut(&dyn Read) -> Result<(), StoreError>) -> Result<(), StoreError> {
        if self.switch.is_dead() { Err(Self::fails()) } else { self.inner.read(run) }
    }

    fn release(&self) {
        self.inner.release();
    }
}
