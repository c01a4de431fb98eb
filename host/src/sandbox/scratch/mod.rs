//! The scratch folder of an attempt: made before its guest, removed with everything in it when the guest is gone.
//!
//! All work on files is done on the thread that polls the guest, so that none is under way when the poll returns.

mod files;
mod quota;
mod stream;

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub(super) use files::{Files, FilesView};
pub(super) use quota::Quota;

use super::ledger::{Entry, Ledger};
use crate::id::TaskId;
use crate::task::Scratch;

/// The name under which a guest finds its folder.
pub(super) const GUEST_PATH: &str = "/scratch";

/// The folder. Dropping it removes it.
pub(super) struct Folder {
    path: PathBuf,
    pub(super) quota: Arc<Quota>,
    /// Stays in the ledger for ever if the folder stays.
    entry: Option<Entry>,
}

impl Folder {
    /// Makes it, empty. What an earlier process left under its name is removed.
    pub(super) fn make(
        root: &Path,
        (task, attempt): (TaskId, u32),
        scratch: Scratch,
        ledger: &Arc<Ledger>,
    ) -> io::Result<Self> {
        let path = root.join(folder_name(task, attempt));
        DirBuilder::new().recursive(true).mode(0o700).create(root)?;
        remove(&path)?;
        let folder = Self { path, quota: Arc::new(Quota::new(scratch)), entry: Some(ledger.scratch_folder()) };
        DirBuilder::new().mode(0o700).create(&folder.path)?;
        Ok(folder)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = insist(&self.path) {
            tracing::error!(folder = %self.path.display(), %error, "a scratch folder could not be removed");
            std::mem::forget(self.entry.take());
        }
    }
}

/// Removes the folder of an attempt whose process is dead, if it had one.
pub(crate) fn remove_of(root: &Path, task: TaskId, attempt: u32) -> io::Result<()> {
    insist(&root.join(folder_name(task, attempt)))
}

/// Removes a folder, and does not give up at once: whoever waits for it says afterwards that nothing is left.
fn insist(path: &Path) -> io::Result<()> {
    const TRIES: u32 = 20;
    const PAUSE: Duration = Duration::from_millis(50);
    let mut outcome = remove(path);
    for _ in 1..TRIES {
        if outcome.is_ok() {
            break;
        }
        std::thread::sleep(PAUSE);
        outcome = remove(path);
    }
    outcome
}

/// What the folder of an attempt is called.
fn folder_name(task: TaskId, attempt: u32) -> String {
    format!("{task}-{attempt}")
}

/// Removes a scratch folder, or the folder of all of them; that there is none is no error.
///
/// Folders in folders are first moved up: however deep they are, two descriptors are enough, and no path gets long.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let found = |result: io::Result<()>| match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    };
    let mut moved = 0_u64;
    loop {
        let entries = match fs::read_dir(path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => return found(fs::remove_file(path)),
            Err(error) => return Err(error),
        };
        let mut empty = true;
        for entry in entries {
            let entry = entry?;
            empty = false;
            if entry.file_type()?.is_dir() {
                flatten(&entry.path(), path, &mut moved)?;
                found(fs::remove_dir(entry.path()))?;
            } else {
                found(fs::remove_file(entry.path()))?;
            }
        }
        if empty {
            return found(fs::remove_dir(path));
        }
    }
}

/// Empties a folder: files are removed, folders moved to `up`.
fn flatten(folder: &Path, up: &Path, moved: &mut u64) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            fs::remove_file(entry.path())?;
            continue;
        }
        loop {
            // A name that a guest has taken itself is passed over.
            let to = up.join(format!(".removed-{moved}"));
            *moved += 1;
            if fs::symlink_metadata(&to).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
                fs::rename(entry.path(), to)?;
                break;
            }
        }
    }
    Ok(())
}

/// Which file it is, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Inode {
    device: u64,
    number: u64,
}

/// What must be known of a file before it is touched.
#[derive(Clone, Copy, Debug)]
struct Look {
    inode: Inode,
    bytes: u64,
    folder: bool,
}

impl Look {
    fn at(file: &File) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt as _;
        let seen = file.metadata()?;
        if !seen.is_dir() && !seen.is_file() {
            // Whoever reads from a pipe may wait for ever; nothing of a guest makes one.
            return Err(rustix::io::Errno::PERM.into());
        }
        let inode = Inode { device: seen.dev(), number: seen.ino() };
        Ok(Self { inode, bytes: seen.len(), folder: seen.is_dir() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_removed_however_deep_it_is() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("scratch");
        fs::create_dir(&path).unwrap();
        fs::create_dir(path.join(".removed-0")).unwrap();
        fs::write(path.join(".removed-1"), "x").unwrap();
        // Deeper than any path can name, and than a process has descriptors.
        let (one, other) = (path.join("one"), path.join("other"));
        fs::create_dir(&one).unwrap();
        for _ in 0..3_000 {
            fs::create_dir(&other).unwrap();
            fs::write(other.join("file"), "x").unwrap();
            fs::rename(&one, other.join("d")).unwrap();
            fs::rename(&other, &one).unwrap();
        }
        remove(&path).unwrap();
        assert!(!path.exists());
        remove(&path).unwrap();
    }

    #[test]
    fn a_link_is_removed_and_not_what_it_leads_to() {
        let place = tempfile::tempdir().unwrap();
        let (path, outside) = (place.path().join("scratch"), place.path().join("outside"));
        fs::create_dir(&path).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("kept"), "x").unwrap();
        std::os::unix::fs::symlink(&outside, path.join("link")).unwrap();
        remove(&path).unwrap();
        assert!(!path.exists() && outside.join("kept").exists());
    }
}
