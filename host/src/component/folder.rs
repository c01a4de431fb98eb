//! A folder of components, each under the name of its digest. Knows nothing of what the bytes mean.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::id::Digest;

/// What kept the folder from doing its work.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("could not {tried} `{}`", path.display())]
    Io { tried: &'static str, path: PathBuf, source: io::Error },
    /// The disk, or somebody, changed the bytes.
    #[error("`{}` no longer has the digest that it is named after", path.display())]
    Spoilt { path: PathBuf },
}

/// A content-addressed folder. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Folder {
    path: Arc<Path>,
    writes: Arc<AtomicU64>,
}

impl Folder {
    /// Opens the folder, and makes it if it is not there.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, FolderError> {
        let path = path.into();
        fs::create_dir_all(&path).map_err(io_error("make the folder", &path))?;
        Ok(Self { path: path.into(), writes: Arc::new(AtomicU64::new(0)) })
    }

    /// Keeps `bytes`. Once this returns, they survive a loss of power. Idempotent.
    ///
    /// # Errors
    /// The bytes cannot be written.
    pub fn put(&self, bytes: &[u8]) -> Result<Digest, FolderError> {
        let digest = Digest::of(bytes);
        let path = self.file(digest);
        if matches!(self.get(digest), Ok(Some(_))) {
            return Ok(digest);
        }
        // Of its own for each write, so that two uploads of the same bytes do not write into each other's file.
        let write = self.writes.fetch_add(1, Ordering::Relaxed);
        let draft = self.path.join(format!(".{digest}.{}.{write}.part", std::process::id()));
        let done = write_synced(&draft, bytes).and_then(|()| {
            fs::rename(&draft, &path).map_err(io_error("rename a file to", &path))?;
            File::open(&self.path).and_then(|folder| folder.sync_all()).map_err(io_error("sync", &self.path))
        });
        if done.is_err() {
            // The write's own error says more than that of cleaning up after it.
            let _ = fs::remove_file(&draft);
        }
        done.map(|()| digest)
    }

    /// The bytes, if they are there.
    ///
    /// # Errors
    /// They cannot be read, or are not what they were.
    pub fn get(&self, digest: Digest) -> Result<Option<Vec<u8>>, FolderError> {
        let path = self.file(digest);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(FolderError::Io { tried: "read", path, source }),
        };
        if Digest::of(&bytes) == digest { Ok(Some(bytes)) } else { Err(FolderError::Spoilt { path }) }
    }

    fn file(&self, digest: Digest) -> PathBuf {
        self.path.join(format!("{digest}.wasm"))
    }
}

fn write_synced(path: &Path, bytes: &[u8]) -> Result<(), FolderError> {
    let mut file = File::create(path).map_err(io_error("create", path))?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(io_error("write", path))
}

fn io_error(tried: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FolderError {
    move |source| FolderError::Io { tried, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_is_there_after_reopening_and_nothing_else_is() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path().join("components")).unwrap();
        let digest = folder.put(b"abc").unwrap();
        assert_eq!(folder.put(b"abc").unwrap(), digest);
        let folder = Folder::open(place.path().join("components")).unwrap();
        assert_eq!(folder.get(digest).unwrap().as_deref(), Some(&b"abc"[..]));
        assert_eq!(folder.get(Digest::of(b"other")).unwrap(), None);
        assert_eq!(fs::read_dir(place.path().join("components")).unwrap().count(), 1);
    }

    #[test]
    fn spoilt_bytes_are_not_given_out_and_a_new_upload_heals_them() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path()).unwrap();
        let digest = folder.put(b"abc").unwrap();
        fs::write(folder.file(digest), b"abd").unwrap();
        assert!(matches!(folder.get(digest), Err(FolderError::Spoilt { .. })));
        folder.put(b"abc").unwrap();
        assert_eq!(folder.get(digest).unwrap().as_deref(), Some(&b"abc"[..]));
    }
}
