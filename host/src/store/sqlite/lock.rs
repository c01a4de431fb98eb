//! One process for one store: a lock on its folder, which the system frees with its process.
//!
//! On the folder itself, not on a file in it: a file can be deleted by somebody who takes it for a leftover, and then a
//! second process would not notice the first.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::Arc;

use crate::store::StoreError;

/// Held as long as the store is open.
#[derive(Debug)]
pub(super) struct DirLock {
    _dir: File,
}

impl DirLock {
    /// # Errors
    /// Another process has it, or the folder cannot be opened.
    pub(super) fn take(dir: &Path) -> Result<Self, StoreError> {
        let failed =
            |source: std::io::Error| StoreError::Backend { what: "lock its directory", source: Arc::new(source) };
        let file = File::open(dir).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _dir: file }),
            Err(TryLockError::WouldBlock) => Err(StoreError::InUse { path: dir.to_owned() }),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }
}
