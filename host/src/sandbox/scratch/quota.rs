//! How much of its scratch folder a guest has used. Nobody else changes the folder, so what it does is all there is.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Inode, Look};
use crate::task::Scratch;

pub(in crate::sandbox) struct Quota {
    max: Scratch,
    used: Mutex<Used>,
}

#[derive(Default)]
struct Used {
    bytes: u64,
    files: u64,
    /// Files that are open.
    open: HashMap<Inode, Open>,
    listings: u32,
}

#[derive(Default)]
struct Open {
    handles: u64,
    /// Whether it has no name any more: its room is given back when nobody has it open.
    orphan: bool,
}

/// The quota is used up.
pub(super) fn full() -> io::Error {
    rustix::io::Errno::NOSPC.into()
}

impl Quota {
    pub(super) fn new(max: Scratch) -> Self {
        Self { max, used: Mutex::default() }
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Files and folders that there are.
    pub(in crate::sandbox) fn files(&self) -> u64 {
        self.used().files
    }

    pub(super) fn take_bytes(&self, bytes: u64) -> io::Result<()> {
        let mut used = self.used();
        let wanted = used.bytes.checked_add(bytes).filter(|wanted| *wanted <= self.max.bytes);
        used.bytes = wanted.ok_or_else(full)?;
        Ok(())
    }

    pub(super) fn give_bytes(&self, bytes: u64) {
        let mut used = self.used();
        used.bytes = used.bytes.saturating_sub(bytes);
    }

    pub(super) fn take_file(&self) -> io::Result<()> {
        let mut used = self.used();
        if used.files >= self.max.files {
            return Err(full());
        }
        used.files += 1;
        Ok(())
    }

    pub(super) fn give_file(&self) {
        let mut used = self.used();
        used.files = used.files.saturating_sub(1);
    }

    pub(super) fn opened(&self, inode: Inode) {
        self.used().open.entry(inode).or_default().handles += 1;
    }

    pub(super) fn closed(&self, seen: Look) {
        let mut used = self.used();
        let Some(open) = used.open.get_mut(&seen.inode) else { return };
        open.handles -= 1;
        if open.handles > 0 {
            return;
        }
        if used.open.remove(&seen.inode).is_some_and(|open| open.orphan) {
            used.bytes = used.bytes.saturating_sub(seen.bytes);
            used.files = used.files.saturating_sub(1);
        }
    }

    /// A name is gone, and with it what it was the name of, unless somebody has that open.
    pub(super) fn unlinked(&self, seen: Look) {
        let mut used = self.used();
        match used.open.get_mut(&seen.inode) {
            Some(open) if !seen.folder => open.orphan = true,
            _ => {
                used.bytes = used.bytes.saturating_sub(if seen.folder { 0 } else { seen.bytes });
                used.files = used.files.saturating_sub(1);
            }
        }
    }

    /// Listings are held in the host's memory.
    pub(super) fn take_listing(&self, most: u32) -> io::Result<()> {
        let mut used = self.used();
        if used.listings >= most {
            return Err(rustix::io::Errno::NOMEM.into());
        }
        used.listings += 1;
        Ok(())
    }

    pub(super) fn give_listing(&self) {
        let mut used = self.used();
        used.listings = used.listings.saturating_sub(1);
    }
}

/// A file that a stream has open.
pub(super) struct Held {
    pub(super) file: Arc<File>,
    pub(super) quota: Arc<Quota>,
}

impl Held {
    pub(super) fn new(file: &Arc<File>, quota: &Arc<Quota>) -> io::Result<Self> {
        quota.opened(Look::at(file)?.inode);
        Ok(Self { file: Arc::clone(file), quota: Arc::clone(quota) })
    }

    /// Does something that makes the file at most as large as `end`, and counts what came of it.
    pub(super) fn grow<T>(&self, end: u64, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        grow(&self.quota, &self.file, end, act)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Ok(seen) = Look::at(&self.file) {
            self.quota.closed(seen);
        }
    }
}

pub(super) fn grow<T>(quota: &Quota, file: &File, end: u64, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let before = Look::at(file)?.bytes;
    let growth = end.saturating_sub(before);
    quota.take_bytes(growth)?;
    let done = act();
    let after = Look::at(file).map_or(before, |seen| seen.bytes);
    quota.give_bytes((before + growth).saturating_sub(after));
    done
}
