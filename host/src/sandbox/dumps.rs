//! The folder of core dumps, which hold whatever the guests held: for its owner's eyes only, and never larger than it may be.
//!
//! Knows nothing of what is in a dump.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use crate::id::TaskId;

/// All dumps together. The oldest make room.
const BYTES_MAX: u64 = 256 << 20;
const ENDING: &str = "coredump";
const DRAFT_ENDING: &str = "part";

/// Where core dumps are kept, each in a file of its own.
#[derive(Debug)]
pub struct Dumps {
    folder: PathBuf,
    bytes_max: u64,
    writes: AtomicU64,
}

impl Dumps {
    /// The folder is made when the first dump is written.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), bytes_max: BYTES_MAX, writes: AtomicU64::new(0) }
    }

    /// The dump of an attempt, if there is one.
    ///
    /// # Errors
    /// The file is there, and cannot be read.
    pub fn find(&self, task: TaskId, attempt: u32) -> io::Result<Option<Vec<u8>>> {
        let file = match File::open(self.file(task, attempt)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        file.take(self.bytes_max).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// Keeps a dump. It need not survive a loss of power.
    pub(super) fn keep(&self, task: TaskId, attempt: u32, bytes: &[u8]) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        self.make_room(bytes.len() as u64)?;
        // The process may have siblings that write here, too.
        let number = self.writes.fetch_add(1, Ordering::Relaxed);
        let draft = self.folder.join(format!("{}.{number}.{DRAFT_ENDING}", std::process::id()));
        let written = write_private(&draft, bytes).and_then(|()| fs::rename(&draft, self.file(task, attempt)));
        if written.is_err() {
            // The write's own error says more than that of cleaning up after it.
            let _ = fs::remove_file(&draft);
        }
        written
    }

    fn file(&self, task: TaskId, attempt: u32) -> PathBuf {
        self.folder.join(format!("{task}.{attempt}.{ENDING}"))
    }

    /// Removes the oldest, and drafts that nobody finished, until so many bytes more have room.
    fn make_room(&self, wanted: u64) -> io::Result<()> {
        let mut files: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            // Another may have removed it in the meantime.
            let Ok(about) = entry.metadata() else { continue };
            if about.is_file() {
                files.push((about.modified().unwrap_or(SystemTime::UNIX_EPOCH), about.len(), entry.path()));
            }
        }
        files.sort_unstable();
        let mut total = wanted + files.iter().map(|(_, bytes, _)| bytes).sum::<u64>();
        for (_, bytes, path) in files {
            if total <= self.bytes_max {
                break;
            }
            match fs::remove_file(&path) {
                Ok(()) => total -= bytes,
                Err(error) if error.kind() == io::ErrorKind::NotFound => total -= bytes,
                Err(error) => return Err(error),
            }
        }
        if total > self.bytes_max { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn dumps(place: &tempfile::TempDir, bytes_max: u64) -> Dumps {
        Dumps { bytes_max, ..Dumps::new(place.path().join("dumps")) }
    }

    #[test]
    fn a_dump_is_kept_for_its_owner_only() {
        let place = tempfile::tempdir().unwrap();
        let (dumps, task) = (dumps(&place, 100), TaskId::new());
        assert_eq!(dumps.find(task, 1).unwrap(), None);
        dumps.keep(task, 1, b"dump").unwrap();
        assert_eq!(dumps.find(task, 1).unwrap().as_deref(), Some(&b"dump"[..]));
        assert_eq!(dumps.find(task, 2).unwrap(), None);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&dumps.folder), mode(&dumps.file(task, 1))), (0o700, 0o600));
    }

    #[test]
    fn the_oldest_make_room_and_what_never_fits_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let (dumps, task) = (dumps(&place, 100), TaskId::new());
        for attempt in 1..=2 {
            dumps.keep(task, attempt, &[0; 40]).unwrap();
            let aged = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(u64::from(attempt));
            File::open(dumps.file(task, attempt)).unwrap().set_modified(aged).unwrap();
        }
        dumps.keep(task, 3, &[0; 40]).unwrap();
        let there = [1, 2, 3].map(|attempt| dumps.find(task, attempt).unwrap().is_some());
        assert_eq!(there, [false, true, true]);
        assert!(dumps.keep(task, 4, &[0; 101]).is_err());
        let left: Vec<_> = fs::read_dir(&dumps.folder).unwrap().collect();
        assert!(left.is_empty(), "no draft is left: {left:?}");
    }
}
