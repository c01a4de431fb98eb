//! What each thread of an executor process is running, in memory that it shares with its node: when the process dies,
//! whatever of, the node reads there which guests may be what killed it.
//!
//! Must not know why it died, or what follows.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

use super::protocol::AttemptKey;
use crate::id::TaskId;

/// One for each thread that may poll a guest: those of the guests, and the reapers. Who comes later is not recorded.
const ROWS: usize = 1_024;
const BYTES: usize = ROWS * size_of::<Row>();

/// What one thread runs. Zero: nothing.
#[repr(C)]
struct Row {
    attempt: AtomicU32,
    _unused: AtomicU32,
    task: [AtomicU64; 2],
}

/// Memory of both processes.
pub(super) struct BlackBox {
    map: MmapRaw,
    seats: AtomicUsize,
}

thread_local! {
    /// The row of this thread, once it has one.
    static SEAT: Cell<Option<usize>> = const { Cell::new(None) };
}

impl BlackBox {
    /// A new one, with the descriptor through which another process opens it.
    pub(super) fn create() -> io::Result<(Self, OwnedFd)> {
        let memory = memfd_create("atropos-black-box", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&memory, BYTES as u64)?;
        // Were it made smaller by the other process, a look at it would be the end of this one.
        fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok((Self::map(&memory)?, memory))
    }

    /// The one that the node made.
    pub(super) fn open(memory: impl AsFd) -> io::Result<Self> {
        let memory = memory.as_fd().try_clone_to_owned()?;
        if rustix::fs::fstat(&memory)?.st_size.cast_unsigned() < BYTES as u64 {
            return Err(io::Error::other("the black box is too small"));
        }
        Self::map(&memory)
    }

    fn map(memory: &OwnedFd) -> io::Result<Self> {
        let file = File::from(memory.try_clone()?);
        let map = MmapOptions::new().len(BYTES).map_raw(&file)?;
        Ok(Self { map, seats: AtomicUsize::new(0) })
    }

    fn rows(&self) -> &[Row] {
        // SAFETY: the mapping is page-aligned, has BYTES bytes for as long as `self` lives, and holds nothing but atomics,
        // for which any bytes are valid; whatever the other process does, it does to atomics.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr().cast(), ROWS) }
    }

    /// Records that the calling thread runs this attempt until the guard is dropped.
    pub(super) fn enter(&self, key: AttemptKey) -> Option<Seat<'_>> {
        let seat = SEAT.get().unwrap_or_else(|| {
            let seat = self.seats.fetch_add(1, Ordering::Relaxed);
            SEAT.set(Some(seat));
            seat
        });
        let row = self.rows().get(seat)?;
        let (high, low) = halves(key.task);
        row.task[0].store(high, Ordering::Relaxed);
        row.task[1].store(low, Ordering::Relaxed);
        row.attempt.store(key.attempt, Ordering::Release);
        Some(Seat { row })
    }

    /// What was being run. To be asked when the other process is dead.
    pub(super) fn running(&self) -> Vec<AttemptKey> {
        let read = |row: &Row| {
            let attempt = row.attempt.load(Ordering::Acquire);
            let task = whole(row.task[0].load(Ordering::Relaxed), row.task[1].load(Ordering::Relaxed));
            (attempt != 0).then_some(AttemptKey { task, attempt })
        };
        self.rows().iter().filter_map(read).collect()
    }
}

/// A thread that runs an attempt.
pub(super) struct Seat<'a> {
    row: &'a Row,
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.row.attempt.store(0, Ordering::Release);
    }
}

fn halves(task: TaskId) -> (u64, u64) {
    let number = u128::from_le_bytes(*task.as_bytes());
    #[expect(clippy::cast_possible_truncation, reason = "a half of it is meant")]
    let halves = ((number >> 64) as u64, number as u64);
    halves
}

fn whole(high: u64, low: u64) -> TaskId {
    TaskId::from_bytes((u128::from(high) << 64 | u128::from(low)).to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_side_runs_the_other_reads() {
        let (node, memory) = BlackBox::create().unwrap();
        let executor = BlackBox::open(&memory).unwrap();
        let key = AttemptKey { task: TaskId::new(), attempt: 7 };
        let seat = executor.enter(key);
        assert_eq!(node.running(), [key]);
        drop(seat);
        assert_eq!(node.running(), []);
    }

    #[test]
    fn no_process_takes_the_memory_away_from_another() {
        let (node, memory) = BlackBox::create().unwrap();
        assert!(ftruncate(&memory, 0).is_err(), "whoever reads it then is killed");
        assert_eq!(node.running(), []);
    }
}
