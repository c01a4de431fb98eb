//! The folder of machine code that was made of components. Nobody but Atropos writes it: whoever could, could run
//! anything in an executor.
//!
//! An entry is good or it is a miss. Must not know how the code is made, or what it does.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use wasmtime::component::Component;

use crate::id::Digest;
use crate::sandbox::{EngineSize, Metering, Workshop, code_print};

/// Raised with every change of the seal, and of what happens to a component before it is compiled.
const FORMAT: u32 = 1;
const MAGIC: &[u8; 12] = b"atropos code";
const ENDING: &str = "code";
const DRAFT_ENDING: &str = "part";
/// As many digits of the print as tell engines apart in a name; the seal has all of them.
const PRINT_DIGITS: usize = 16;

/// The cache cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ArtefactError {
    #[error("could not {tried} `{}`", path.display())]
    Io { tried: &'static str, path: PathBuf, source: io::Error },
    #[error("could not set up an engine to compile for: {detail}")]
    Engine { detail: String },
    #[error("could not start a thread to compile")]
    Thread { source: io::Error },
}

impl ArtefactError {
    fn io(tried: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { tried, path: path.to_owned(), source }
    }
}

/// Machine code, by the component that it was made of and the engine that it is for. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Artefacts {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    size: EngineSize,
    bytes_max: u64,
    plain: Digest,
    fueled: Digest,
    drafts: AtomicU64,
}

/// What stands behind the code in its file: whose it is, and that it is whole. Behind, because code is mapped from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seal {
    component: Digest,
    print: Digest,
    bytes: u64,
    code: Digest,
}

const SEAL_BYTES: usize = MAGIC.len() + 4 + 32 + 32 + 8 + 32;

impl Seal {
    fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SEAL_BYTES);
        bytes.extend_from_slice(self.component.as_bytes());
        bytes.extend_from_slice(self.print.as_bytes());
        bytes.extend_from_slice(&self.bytes.to_le_bytes());
        bytes.extend_from_slice(self.code.as_bytes());
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(MAGIC);
        bytes
    }
}

/// Code in the folder that is as it was written.
pub(super) struct Verified {
    path: PathBuf,
}

impl Verified {
    /// Maps the code into an engine.
    ///
    /// # Errors
    /// The engine does not take it.
    pub(super) fn component(&self, workshop: &Workshop) -> wasmtime::Result<Component> {
        // SAFETY: the file is what `Component::serialize` of this very version of wasmtime gave, for an engine of the same
        // settings: its seal has the digest of the code and the print of the engine, and both were compared. It stays so:
        // only Atropos can write to the folder (0700), and it never changes a file in place; a new entry is another file
        // under the same name, which leaves the mapping of this one whole.
        unsafe { Component::deserialize_file(&workshop.engine, &self.path) }
    }

    /// Takes it out of the cache, so that it is made anew.
    pub(super) fn discard(&self) {
        // Where this is not allowed, the next entry takes its place.
        let _ = fs::remove_file(&self.path);
    }
}

/// A file that is written to, and not an entry yet. Gone when it is dropped.
pub(super) struct Draft {
    path: PathBuf,
}

impl Draft {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // It was renamed, or could not be made; whatever is left is removed at the next start.
        let _ = fs::remove_file(&self.path);
    }
}

impl Artefacts {
    /// Opens the folder for executors with so many slots, and makes it if it is not there.
    ///
    /// # Errors
    /// The folder cannot be made, or no engine works here.
    pub fn open(path: impl Into<PathBuf>, slots: u32, bytes_max: u64) -> Result<Self, ArtefactError> {
        let (path, size) = (path.into(), EngineSize { slots });
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&path).map_err(ArtefactError::io("make the folder", &path))?;
        let found = fs::metadata(&path).map_err(ArtefactError::io("look at", &path))?;
        if found.permissions().mode() & 0o077 != 0 {
            let private = fs::Permissions::from_mode(0o700);
            fs::set_permissions(&path, private).map_err(ArtefactError::io("keep others out of", &path))?;
        }
        let (plain, fueled) = (Self::print_for(size, Metering::Off)?, Self::print_for(size, Metering::Fuel)?);
        let shared = Shared { path, size, bytes_max, plain, fueled, drafts: AtomicU64::new(0) };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Which engines, and which way of making code, an entry is for.
    pub(super) fn print_for(size: EngineSize, metering: Metering) -> Result<Digest, ArtefactError> {
        let engine = code_print(size, metering);
        let engine = engine.map_err(|error| ArtefactError::Engine { detail: format!("{error:#}") })?;
        Ok(Digest::of(&[engine.as_bytes().as_slice(), &FORMAT.to_le_bytes()].concat()))
    }

    /// Where they lie.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// The engines that the code is for.
    pub(super) fn size(&self) -> EngineSize {
        self.shared.size
    }

    /// The entry, if it is there and as it was written. One that is not goes away.
    pub(super) fn find(&self, component: Digest, metering: Metering) -> Option<Verified> {
        let path = self.entry(component, metering);
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "cannot read compiled code; it is made anew");
                return None;
            }
        };
        match self.is_whole(&mut file, component, metering) {
            Ok(true) => {
                // The last use, for who has to make room. A folder that is only read keeps the order of writing.
                let _ = file.set_modified(SystemTime::now());
                Some(Verified { path })
            }
            Ok(false) => {
                tracing::warn!(path = %path.display(), "compiled code is damaged; it is made anew");
                // Where this is not allowed, the next entry takes its place.
                let _ = fs::remove_file(&path);
                None
            }
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "cannot read compiled code; it is made anew");
                None
            }
        }
    }

    fn is_whole(&self, file: &mut File, component: Digest, metering: Metering) -> io::Result<bool> {
        let Some(bytes) = file.metadata()?.len().checked_sub(SEAL_BYTES as u64) else { return Ok(false) };
        let code = Digest::of_rest(&mut (&mut *file).take(bytes))?;
        let mut seal = Vec::new();
        file.take(SEAL_BYTES as u64 + 1).read_to_end(&mut seal)?;
        Ok(seal == Seal { component, print: self.print(metering), bytes, code }.to_bytes())
    }

    /// A place for code that is being made.
    pub(super) fn draft(&self, component: Digest) -> Draft {
        let number = self.shared.drafts.fetch_add(1, Ordering::Relaxed);
        let name = format!(".{component}.{}.{number}.{DRAFT_ENDING}", std::process::id());
        Draft { path: self.shared.path.join(name) }
    }

    /// Makes an entry of a file that [`write_sealed`] wrote. Once this returns, it survives a loss of power.
    pub(super) fn publish(&self, draft: &Draft, component: Digest, metering: Metering) -> Result<(), ArtefactError> {
        let path = self.entry(component, metering);
        fs::rename(&draft.path, &path).map_err(ArtefactError::io("rename a file to", &path))?;
        let folder = &self.shared.path;
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(ArtefactError::io("sync", folder))?;
        self.make_room(&path);
        Ok(())
    }

    /// The seal that code needs to be found.
    pub(super) fn seal(component: Digest, print: Digest, code: &[u8]) -> Seal {
        Seal { component, print, bytes: code.len() as u64, code: Digest::of(code) }
    }

    /// Removes what a dead process left, and what no engine of today reads. Only for who owns the folder, when nobody writes yet.
    pub(super) fn sweep(&self) -> Result<(), ArtefactError> {
        let today = Metering::ALL.map(|metering| self.ending(metering));
        for (path, _) in self.files()? {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if !today.iter().any(|ending| name.ends_with(ending)) {
                fs::remove_file(&path).map_err(ArtefactError::io("remove", &path))?;
            }
        }
        Ok(())
    }

    /// Gives up the entries that were not used for the longest time.
    fn make_room(&self, newest: &Path) {
        let files = match self.files() {
            Ok(files) => files,
            Err(error) => {
                tracing::warn!(error = crate::chain(&error), "cannot see how much compiled code there is");
                return;
            }
        };
        let mut entries: Vec<_> = files
            .into_iter()
            .filter(|(path, _)| path.extension().is_some_and(|ending| ending == ENDING))
            .map(|(path, data)| (data.modified().unwrap_or(SystemTime::UNIX_EPOCH), data.len(), path))
            .collect();
        let mut bytes: u64 = entries.iter().map(|(_, bytes, _)| bytes).sum();
        entries.sort_unstable();
        for (_, size, path) in entries {
            if bytes <= self.shared.bytes_max {
                break;
            }
            if path == newest {
                continue;
            }
            match fs::remove_file(&path) {
                Ok(()) => bytes -= size,
                Err(error) => tracing::warn!(path = %path.display(), %error, "cannot remove compiled code"),
            }
        }
    }

    fn files(&self) -> Result<Vec<(PathBuf, fs::Metadata)>, ArtefactError> {
        let folder = &self.shared.path;
        let mut files = Vec::new();
        for entry in fs::read_dir(folder).map_err(ArtefactError::io("list", folder))? {
            let entry = entry.map_err(ArtefactError::io("list", folder))?;
            // What is gone again needs no care.
            if let Ok(data) = entry.metadata()
                && data.is_file()
            {
                files.push((entry.path(), data));
            }
        }
        Ok(files)
    }

    fn entry(&self, component: Digest, metering: Metering) -> PathBuf {
        self.shared.path.join(format!("{component}{}", self.ending(metering)))
    }

    fn ending(&self, metering: Metering) -> String {
        let print = self.print(metering).to_string();
        format!("-{}.{ENDING}", &print[..PRINT_DIGITS])
    }

    pub(super) fn print(&self, metering: Metering) -> Digest {
        match metering {
            Metering::Off => self.shared.plain,
            Metering::Fuel => self.shared.fueled,
        }
    }
}

/// Makes the file, for nobody else to read.
pub(super) fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Code and seal, on disk when this returns.
pub(super) fn write_sealed(file: &mut File, code: &[u8], seal: Seal) -> io::Result<()> {
    file.seek(SeekFrom::Start(0))?;
    file.write_all(code)?;
    file.write_all(&seal.to_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(artefacts: &Artefacts, component: Digest, code: &[u8]) {
        let draft = artefacts.draft(component);
        let seal = Artefacts::seal(component, artefacts.print(Metering::Off), code);
        write_sealed(&mut create(draft.path()).unwrap(), code, seal).unwrap();
        artefacts.publish(&draft, component, Metering::Off).unwrap();
    }

    fn count(place: &tempfile::TempDir) -> usize {
        fs::read_dir(place.path()).unwrap().count()
    }

    #[test]
    fn an_entry_is_found_by_its_own_component_and_engine_only() {
        let place = tempfile::tempdir().unwrap();
        let artefacts = Artefacts::open(place.path(), 1, 1 << 20).unwrap();
        let (one, two) = (Digest::of(b"1"), Digest::of(b"2"));
        assert!(artefacts.find(one, Metering::Off).is_none());
        keep(&artefacts, one, b"code");
        assert!(artefacts.find(one, Metering::Off).is_some());
        assert!(artefacts.find(one, Metering::Fuel).is_none() && artefacts.find(two, Metering::Off).is_none());
        let another = Artefacts::open(place.path(), 4_096, 1 << 20).unwrap();
        assert!(another.find(one, Metering::Off).is_none());
    }

    #[test]
    fn an_entry_under_another_name_is_a_miss_and_goes_away() {
        let place = tempfile::tempdir().unwrap();
        let artefacts = Artefacts::open(place.path(), 1, 1 << 20).unwrap();
        let (one, two) = (Digest::of(b"1"), Digest::of(b"2"));
        keep(&artefacts, one, b"code");
        fs::rename(artefacts.entry(one, Metering::Off), artefacts.entry(two, Metering::Off)).unwrap();
        assert!(artefacts.find(two, Metering::Off).is_none());
        assert_eq!(count(&place), 0);
    }

    #[test]
    fn what_was_not_used_for_the_longest_time_makes_room() {
        let place = tempfile::tempdir().unwrap();
        let room = 3 * (SEAL_BYTES as u64 + 100);
        let artefacts = Artefacts::open(place.path(), 1, room).unwrap();
        let [one, two, three, four] = [1, 2, 3, 4].map(|number: u8| Digest::of(&[number]));
        let long_ago = |digest, seconds| {
            let file = File::options().append(true).open(artefacts.entry(digest, Metering::Off)).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds)).unwrap();
        };
        for (digest, seconds) in [(one, 1), (two, 2), (three, 3)] {
            keep(&artefacts, digest, &[0; 100]);
            long_ago(digest, seconds);
        }
        assert!(artefacts.find(one, Metering::Off).is_some(), "it is used");
        keep(&artefacts, four, &[0; 100]);
        let there = [one, two, three, four].map(|digest| artefacts.find(digest, Metering::Off).is_some());
        assert_eq!(there, [true, false, true, true]);
        // One that has no room at all stays, and is all that stays.
        keep(&artefacts, two, &[0; 1_000]);
        assert!(artefacts.find(two, Metering::Off).is_some());
        assert_eq!(count(&place), 1);
    }

    #[test]
    fn a_draft_is_gone_with_who_wrote_it_or_at_the_next_start() {
        let place = tempfile::tempdir().unwrap();
        let artefacts = Artefacts::open(place.path(), 1, 1 << 20).unwrap();
        let draft = artefacts.draft(Digest::of(b"1"));
        create(draft.path()).unwrap();
        assert_eq!(count(&place), 1);
        let path = draft.path().to_owned();
        drop(draft);
        assert_eq!(count(&place), 0);
        create(&path).unwrap();
        keep(&artefacts, Digest::of(b"2"), b"code");
        artefacts.sweep().unwrap();
        assert!(count(&place) == 1 && artefacts.find(Digest::of(b"2"), Metering::Off).is_some());
    }
}
