//! The node's compiler: checks what is uploaded and makes machine code of it, a few at a time, each once however many ask.
//!
//! Work on running tasks' components comes before uploads, and uploads have a queue that ends: beyond it they are asked
//! to come again. Must not know tasks, or who loads the code.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::artefacts::{self, ArtefactError, Artefacts};
use super::child::{Answer, Order};
use super::error::ComponentError;
use super::folder::Folder;
use super::inspect::{Inspection, inspect};
use super::loader::LoadError;
use super::lockdown::{self, Caps};
use super::process::{self, Over};
use crate::id::Digest;
use crate::sandbox::{Metering, Workshop};

/// What compiling may take. The times are for a component of a real toolchain on a slow machine: the largest known, a
/// Python of 18 MB, takes up to half a minute of processor time on an ordinary one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompileLimits {
    /// Of one upload.
    pub upload_bytes_max: usize,
    /// Components that are compiled at one time. With more than one, uploads leave one place to components of tasks.
    pub at_once: usize,
    /// Uploads that wait for their turn. Each is held in memory.
    pub waiting_max: usize,
    /// Address space of one compiling process; running out of it is the end of that process alone.
    pub memory_bytes_max: u64,
    /// Processor time for any upload.
    pub cpu: Duration,
    /// Processor time on top for each MiB of the upload: a small file has no claim to minutes.
    pub cpu_per_mib: Duration,
    /// Time on the clock, which counts on while everything else of the node goes first.
    pub wall: Duration,
    /// Machine code of one component.
    pub code_bytes_max: u64,
}

impl Default for CompileLimits {
    fn default() -> Self {
        Self {
            upload_bytes_max: 64 << 20,
            at_once: 2,
            waiting_max: 8,
            memory_bytes_max: 2 << 30,
            cpu: Duration::from_secs(10),
            cpu_per_mib: Duration::from_secs(6),
            wall: Duration::from_mins(3),
            code_bytes_max: 1 << 30,
        }
    }
}

impl CompileLimits {
    fn caps(&self, bytes: usize) -> Caps {
        let mib = u32::try_from(bytes.div_ceil(1 << 20)).unwrap_or(u32::MAX);
        let cpu = self.cpu.saturating_add(self.cpu_per_mib.saturating_mul(mib));
        Caps {
            address_space_bytes: self.memory_bytes_max,
            cpu_seconds: cpu.as_secs().max(1),
            file_bytes: self.code_bytes_max,
        }
    }
}

type Key = (Digest, Metering);
/// `None`: the code was there already.
type Made = Result<Option<Arc<Inspection>>, LoadError>;

/// The right to send an upload: as many as can be compiled or wait. Given back when it is dropped.
#[derive(Debug)]
pub struct Place {
    _permit: OwnedSemaphorePermit,
}

/// Compiles until it is closed.
pub struct Compiler {
    shared: Arc<Shared>,
    places: Arc<Semaphore>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    /// What is started to compile. `None`: this process does it, with none of the limits.
    program: Option<PathBuf>,
    artefacts: Artefacts,
    folder: Folder,
    limits: CompileLimits,
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    closed: bool,
    needed: VecDeque<Key>,
    uploads: VecDeque<Key>,
    /// Uploads that are being compiled.
    uploading: usize,
    jobs: HashMap<Key, Job>,
    /// One for each process that runs.
    running: HashMap<Key, Sender<Over>>,
}

struct Job {
    source: Source,
    begun: bool,
    done: watch::Sender<Option<Made>>,
}

#[derive(Clone)]
enum Source {
    Upload(Arc<Vec<u8>>),
    /// In the folder of components.
    Kept,
}

impl Compiler {
    /// Opens the cache for writing, and removes from it what is of no use any more.
    ///
    /// `program` is the program that compiles, in a process of its own for each component, with limits on memory and time
    /// that it cannot pass: `atropos` itself. Without one, components are compiled in this process. That is for programs
    /// that trust what they load: a component made for it can then take any time and memory, compiling cannot be stopped, and
    /// want of memory ends the whole process.
    ///
    /// # Errors
    /// The cache cannot be read, or no thread can be started.
    pub fn new(
        program: Option<PathBuf>,
        artefacts: Artefacts,
        folder: Folder,
        limits: CompileLimits,
    ) -> Result<Arc<Self>, ArtefactError> {
        artefacts.sweep()?;
        let (state, work) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { program, artefacts, folder, limits, state, work });
        let places = Arc::new(Semaphore::new(limits.waiting_max + shared.uploads_at_once()));
        let compiler = Arc::new(Self { shared: Arc::clone(&shared), places, threads: Mutex::default() });
        for _ in 0..limits.at_once.max(1) {
            let shared = Arc::clone(&shared);
            let thread = thread::Builder::new().name("atropos-compile".to_owned()).spawn(move || shared.work_off());
            let thread = thread.map_err(|source| ArtefactError::Thread { source })?;
            compiler.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        }
        Ok(compiler)
    }

    /// A place for an upload, to be taken before its bytes are read: what would have to wait too long is not even read.
    ///
    /// # Errors
    /// There is none.
    pub fn place(&self) -> Result<Place, ComponentError> {
        let permit = Arc::clone(&self.places).try_acquire_owned();
        permit
            .map(|permit| Place { _permit: permit })
            .map_err(|_| ComponentError::Busy { waiting: self.shared.limits.waiting_max })
    }

    /// Checks an upload, and leaves its code in the cache if it fits, so that its first start need not compile it again.
    ///
    /// # Errors
    /// It does not fit, or there are too many uploads before it.
    pub async fn check(&self, bytes: impl Into<Arc<Vec<u8>>>) -> Result<Inspection, ComponentError> {
        let bytes: Arc<Vec<u8>> = bytes.into();
        let max = self.shared.limits.upload_bytes_max;
        if bytes.len() > max {
            return Err(ComponentError::TooLarge { bytes: bytes.len(), max });
        }
        let hashed = Arc::clone(&bytes);
        let digest = tokio::task::spawn_blocking(move || Digest::of(&hashed)).await;
        let digest = digest.map_err(|error| ComponentError::HostFault { detail: error.to_string() })?;
        let key = (digest, Metering::Off);
        loop {
            let done = self.shared.enqueue(key, Source::Upload(Arc::clone(&bytes)))?;
            match wait(done).await {
                Some(Ok(Some(inspection))) => return Ok(Arc::unwrap_or_clone(inspection)),
                Some(Err(LoadError::Unfit { source, .. })) => return Err(source),
                // Another asked for what should have been kept; here are the bytes.
                Some(Ok(None) | Err(LoadError::Missing(_) | LoadError::NotCompiled(_))) => (),
                Some(Err(LoadError::Unreadable { detail, .. })) => return Err(ComponentError::HostFault { detail }),
                None => return Err(process::closing()),
            }
        }
    }

    /// Sees to it that the code of a kept component is in the cache. Whoever stops waiting does not stop the work.
    pub(crate) async fn ensure(&self, digest: Digest, metering: Metering) -> Result<(), LoadError> {
        let closing = || LoadError::Unreadable { digest, detail: "the node is closing".to_owned() };
        let done = self.shared.enqueue((digest, metering), Source::Kept).map_err(|_| closing())?;
        wait(done).await.unwrap_or_else(|| Err(closing())).map(drop)
    }

    /// Where the code is kept.
    pub(crate) fn artefacts(&self) -> &Artefacts {
        &self.shared.artefacts
    }

    /// Ends it: what is being compiled is killed, whoever waits is told. Returns when no process is left; compiling in this
    /// process cannot be ended, and is left to itself.
    pub fn close(&self) {
        self.shared.close();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        if self.shared.program.is_some() {
            for thread in threads {
                // A thread that panicked has said so itself.
                let _ = thread.join();
            }
        }
    }
}

impl Drop for Compiler {
    fn drop(&mut self) {
        self.close();
    }
}

async fn wait(mut done: watch::Receiver<Option<Made>>) -> Option<Made> {
    done.wait_for(Option::is_some).await.ok().and_then(|made| made.clone())
}

impl Shared {
    fn enqueue(&self, key: Key, source: Source) -> Result<watch::Receiver<Option<Made>>, ComponentError> {
        let mut state = self.lock();
        if state.closed {
            return Err(process::closing());
        }
        let needed = matches!(source, Source::Kept);
        let State { needed: first, uploads, jobs, .. } = &mut *state;
        if let Some(job) = jobs.get_mut(&key) {
            if !job.begun && needed {
                // A task waits for it: it goes before the uploads.
                uploads.retain(|other| *other != key);
                if !first.contains(&key) {
                    first.push_back(key);
                }
            }
            return Ok(job.done.subscribe());
        }
        if !needed && uploads.len() >= self.limits.waiting_max {
            return Err(ComponentError::Busy { waiting: uploads.len() });
        }
        let (done, waiting) = watch::channel(None);
        jobs.insert(key, Job { source, begun: false, done });
        let queue = if needed { first } else { uploads };
        queue.push_back(key);
        drop(state);
        self.work.notify_one();
        Ok(waiting)
    }

    /// The life of a thread. The processes that it starts end with it, whatever it ends of: the kernel sees to that.
    fn work_off(&self) {
        if self.program.is_none()
            && let Err(error) = lockdown::give_way()
        {
            tracing::warn!(%error, "components are compiled at normal priority");
        }
        let mut state = self.lock();
        while !state.closed {
            let Some((key, uploaded)) = state.next(self.uploads_at_once()) else {
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let Some(job) = state.jobs.get_mut(&key) else { continue };
            if uploaded && job.done.is_closed() {
                // Nobody waits for it any more.
                state.jobs.remove(&key);
                continue;
            }
            job.begun = true;
            let source = job.source.clone();
            state.uploading += usize::from(uploaded);
            let (signal, over) = mpsc::channel();
            state.running.insert(key, signal.clone());
            drop(state);
            let made = catch_unwind(AssertUnwindSafe(|| self.make(key, source, &signal, &over))).unwrap_or_else(|_| {
                Err(LoadError::Unreadable { digest: key.0, detail: "the host panicked while it compiled".to_owned() })
            });
            state = self.lock();
            state.running.remove(&key);
            state.uploading -= usize::from(uploaded);
            if let Some(job) = state.jobs.remove(&key) {
                job.done.send_replace(Some(made));
            }
            // An upload may go where this one was.
            self.work.notify_one();
        }
    }

    fn uploads_at_once(&self) -> usize {
        self.limits.at_once.saturating_sub(1).max(1)
    }

    fn make(&self, key: Key, source: Source, signal: &Sender<Over>, over: &Receiver<Over>) -> Made {
        let (digest, metering) = key;
        let bytes = match source {
            Source::Upload(bytes) => bytes,
            Source::Kept if self.artefacts.find(digest, metering).is_some() => return Ok(None),
            Source::Kept => match self.folder.get(digest) {
                Ok(Some(bytes)) => Arc::new(bytes),
                Ok(None) => return Err(LoadError::Missing(digest)),
                Err(error) => return Err(LoadError::Unreadable { digest, detail: crate::chain(&error) }),
            },
        };
        let answer = match &self.program {
            Some(program) => self.make_outside(program, key, &bytes, signal, over),
            None => self.make_here(key, &bytes),
        };
        answer.map(|inspection| Some(Arc::new(inspection))).map_err(|source| LoadError::Unfit { digest, source })
    }

    fn make_outside(
        &self,
        program: &Path,
        (digest, metering): Key,
        bytes: &[u8],
        signal: &Sender<Over>,
        over: &Receiver<Over>,
    ) -> Answer {
        let draft = self.artefacts.draft(digest);
        let order = Order {
            parent: rustix::process::getpid().as_raw_nonzero().get(),
            caps: self.limits.caps(bytes.len()),
            size: self.artefacts.size(),
            metering,
            draft: draft.path().to_owned(),
            bytes: bytes.len() as u64,
        };
        let inspection = process::run(program, &order, bytes, self.limits.wall, signal, over)?;
        self.artefacts.publish(&draft, digest, metering).map_err(|error| fault(&error))?;
        Ok(inspection)
    }

    fn make_here(&self, (digest, metering): Key, bytes: &[u8]) -> Answer {
        let engine = |error: wasmtime::Error| ComponentError::HostFault { detail: format!("{error:#}") };
        let workshop = Workshop::for_compiling(self.artefacts.size(), metering).map_err(engine)?;
        // The compiler is large, and what it reads is a stranger's.
        let (inspection, code) = catch_unwind(AssertUnwindSafe(|| inspect(&workshop, bytes)))
            .unwrap_or_else(|_| Err(ComponentError::Invalid { detail: "the compiler failed on it".to_owned() }))?;
        let draft = self.artefacts.draft(digest);
        let seal = Artefacts::seal(digest, self.artefacts.print(metering), &code);
        artefacts::create(draft.path())
            .and_then(|mut file| artefacts::write_sealed(&mut file, &code, seal))
            .map_err(|error| fault(&error))?;
        self.artefacts.publish(&draft, digest, metering).map_err(|error| fault(&error))?;
        Ok(inspection)
    }

    fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        for running in state.running.values() {
            // Its process has ended by itself just now.
            let _ = running.send(Over::Closing);
        }
        // Whoever waits sees that nobody will answer.
        state.jobs.retain(|_, job| job.begun);
        drop(state);
        self.work.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// What to do next, and whether it is an upload.
    fn next(&mut self, uploads_at_once: usize) -> Option<(Key, bool)> {
        if let Some(key) = self.needed.pop_front() {
            return Some((key, false));
        }
        if self.uploading < uploads_at_once {
            return self.uploads.pop_front().map(|key| (key, true));
        }
        None
    }
}

fn fault(error: &(dyn std::error::Error + 'static)) -> ComponentError {
    ComponentError::HostFault { detail: format!("the code cannot be kept: {}", crate::chain(error)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without threads: what is asked for stays to be looked at.
    fn idle(waiting_max: usize) -> (Shared, tempfile::TempDir) {
        let place = tempfile::tempdir().unwrap();
        let artefacts = Artefacts::open(place.path().join("cache"), 1, 1 << 20).unwrap();
        let folder = Folder::open(place.path().join("components")).unwrap();
        let limits = CompileLimits { waiting_max, ..CompileLimits::default() };
        let (state, work) = (Mutex::default(), Condvar::new());
        (Shared { program: None, artefacts, folder, limits, state, work }, place)
    }

    fn upload(number: u8) -> (Key, Source) {
        ((Digest::of(&[number]), Metering::Off), Source::Upload(Arc::new(vec![number])))
    }

    #[test]
    fn uploads_beyond_the_queue_are_told_to_come_again_and_tasks_are_not() {
        let (shared, _place) = idle(2);
        let ask = |(key, source)| shared.enqueue(key, source);
        let waiting = [ask(upload(1)).unwrap(), ask(upload(2)).unwrap()];
        assert_eq!(ask(upload(3)).unwrap_err(), ComponentError::Busy { waiting: 2 });
        ask(upload(1)).unwrap();
        ask((upload(4).0, Source::Kept)).unwrap();
        drop(waiting);
    }

    #[test]
    fn what_a_task_waits_for_comes_first_and_one_place_is_kept_for_it() {
        let (shared, _place) = idle(8);
        for number in 1..=3 {
            shared.enqueue(upload(number).0, upload(number).1).unwrap();
        }
        shared.enqueue(upload(4).0, Source::Kept).unwrap();
        // A task needs what waits as an upload.
        shared.enqueue(upload(3).0, Source::Kept).unwrap();
        let mut state = shared.lock();
        let order: Vec<_> = std::iter::from_fn(|| state.next(1)).collect();
        let expected = [(4, false), (3, false), (1, true), (2, true)];
        assert_eq!(order, expected.map(|(number, uploaded)| (upload(number).0, uploaded)));
        state.uploads.push_back(upload(5).0);
        state.uploading = 1;
        assert_eq!(state.next(shared.uploads_at_once()), None);
    }

    #[test]
    fn a_small_file_has_no_claim_to_minutes() {
        let limits = CompileLimits::default();
        assert_eq!(limits.caps(0).cpu_seconds, 10);
        assert_eq!(limits.caps(1).cpu_seconds, 16);
        assert_eq!(limits.caps(18 << 20).cpu_seconds, 118);
        assert_eq!(limits.caps(usize::MAX).cpu_seconds, 10 + 6 * u64::from(u32::MAX));
    }

    #[tokio::test]
    async fn an_upload_beyond_the_size_is_not_even_looked_at_and_a_closed_compiler_says_so() {
        let (shared, _place) = idle(1);
        let limits = CompileLimits { upload_bytes_max: 10, ..CompileLimits::default() };
        let compiler = Compiler::new(None, shared.artefacts.clone(), shared.folder.clone(), limits).unwrap();
        assert_eq!(compiler.check(vec![0; 11]).await.unwrap_err().code(), "component_too_large");
        assert_eq!(compiler.check(Vec::new()).await.unwrap_err().code(), "component_empty");
        let missing = compiler.ensure(Digest::of(b"x"), Metering::Fuel).await;
        assert!(matches!(missing, Err(LoadError::Missing(_))), "{missing:?}");
        compiler.close();
        assert_eq!(compiler.check(Vec::new()).await.unwrap_err(), process::closing());
    }

    #[tokio::test]
    async fn an_upload_that_nobody_waits_for_any_more_is_not_compiled() {
        let (shared, _place) = idle(8);
        drop(shared.enqueue(upload(1).0, upload(1).1).unwrap());
        let mut kept = shared.enqueue(upload(2).0, upload(2).1).unwrap();
        let shared = Arc::new(shared);
        let working = Arc::clone(&shared);
        let thread = thread::spawn(move || working.work_off());
        let made = kept.wait_for(Option::is_some).await.unwrap().clone();
        assert!(matches!(made, Some(Err(LoadError::Unfit { .. }))), "{made:?}");
        assert!(shared.lock().jobs.is_empty(), "the first one was passed over");
        shared.close();
        thread.join().unwrap();
    }
}
