//! The handle that the host holds: a writer thread that commits in groups, and reads beside it.
//!
//! A write is a closure over the open transaction. All that wait while a commit is on its way to the disk share the
//! next one. If one of a group fails, the group is undone and taken apart around it, so that it fails alone.

use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::{Backend, Read, StoreError, Write};

/// The most writes in one commit: past some thousand the gain is gone and the first of them waits too long.
const GROUP_MAX: usize = 1024;

/// How long a group takes more in, if its writes are heavy.
const GROUP_SPAN_MAX: Duration = Duration::from_millis(50);

/// One write on its way.
trait Job: Send {
    fn run(&mut self, tx: &mut dyn Write) -> Result<(), StoreError>;

    /// Tells whoever asked.
    fn done(self: Box<Self>, outcome: Result<(), StoreError>);
}

struct Asked<T, R, F, G> {
    run: F,
    value: Option<T>,
    then: G,
    answer: oneshot::Sender<Result<R, StoreError>>,
}

impl<T, R, F, G> Job for Asked<T, R, F, G>
where
    T: Send,
    R: Send,
    F: FnMut(&mut dyn Write) -> Result<T, StoreError> + Send,
    G: FnOnce(T) -> R + Send,
{
    fn run(&mut self, tx: &mut dyn Write) -> Result<(), StoreError> {
        self.value = Some((self.run)(tx)?);
        Ok(())
    }

    fn done(self: Box<Self>, outcome: Result<(), StoreError>) {
        let Self { value, then, answer, .. } = *self;
        let outcome = outcome.and_then(|()| value.map(then).ok_or(StoreError::Closed));
        // Whoever asked may have gone; the write stands.
        drop(answer.send(outcome));
    }
}

type Group = Vec<Box<dyn Job>>;

/// A backend and its writer thread. Clones share them.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    backend: Arc<dyn Backend>,
    jobs: Mutex<Option<mpsc::Sender<Box<dyn Job>>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    failed: Arc<LastFailure>,
}

/// When the backend last failed a write, if it ever did.
#[derive(Default)]
struct LastFailure(Mutex<Option<Instant>>);

impl LastFailure {
    fn note(&self, error: &StoreError) {
        if matches!(error, StoreError::Backend { .. }) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
    }
}

impl Store {
    /// Takes over a backend.
    ///
    /// # Errors
    /// The writer thread could not be started.
    pub fn new(backend: impl Backend) -> std::io::Result<Self> {
        let backend: Arc<dyn Backend> = Arc::new(backend);
        let (jobs, queue) = mpsc::channel();
        let failed = Arc::<LastFailure>::default();
        let (own, noted) = (Arc::clone(&backend), Arc::clone(&failed));
        let writer =
            std::thread::Builder::new().name("store-writer".into()).spawn(move || write_loop(&*own, &queue, &noted))?;
        let inner = Inner { backend, jobs: Mutex::new(Some(jobs)), writer: Mutex::new(Some(writer)), failed };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Whether the backend has failed a write in so long a time.
    #[must_use]
    pub fn failed_within(&self, span: Duration) -> bool {
        let failed = self.inner.failed.0.lock().unwrap_or_else(PoisonError::into_inner);
        failed.is_some_and(|at| at.elapsed() < span)
    }

    /// Runs `run` in a transaction; the future is ready once its changes are on disk. Writes happen in the order of
    /// these calls, whether or not the future is awaited. `run` may be called again if a commit that it shared was
    /// undone.
    ///
    /// # Errors
    /// What `run` gave, or the failure of the backend; then nothing was written.
    pub fn write<T, F>(&self, run: F) -> impl Future<Output = Result<T, StoreError>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnMut(&mut dyn Write) -> Result<T, StoreError> + Send + 'static,
    {
        let answer = self.ask(run, |value| value);
        async { answer.await.unwrap_or(Err(StoreError::Closed)) }
    }

    /// As [`Store::write`]; `then` runs on the writer's thread right after the commit, in the order of the writes.
    /// It must be short.
    ///
    /// # Errors
    /// As [`Store::write`].
    pub fn write_then<T, R, F, G>(
        &self,
        run: F,
        then: G,
    ) -> impl Future<Output = Result<R, StoreError>> + Send + use<T, R, F, G>
    where
        T: Send + 'static,
        R: Send + 'static,
        F: FnMut(&mut dyn Write) -> Result<T, StoreError> + Send + 'static,
        G: FnOnce(T) -> R + Send + 'static,
    {
        let answer = self.ask(run, then);
        async { answer.await.unwrap_or(Err(StoreError::Closed)) }
    }

    fn ask<T, R>(
        &self,
        run: impl FnMut(&mut dyn Write) -> Result<T, StoreError> + Send + 'static,
        then: impl FnOnce(T) -> R + Send + 'static,
    ) -> oneshot::Receiver<Result<R, StoreError>>
    where
        T: Send + 'static,
        R: Send + 'static,
    {
        let (answer, waiter) = oneshot::channel();
        let job = Asked { run, value: None, then, answer };
        // A closed store drops the job, and with it the sender: the waiter is told so.
        if let Some(jobs) = self.inner.jobs.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            drop(jobs.send(Box::new(job)));
        }
        waiter
    }

    /// Asks something on a thread of its own.
    ///
    /// # Errors
    /// What `run` gave, or the failure of the backend.
    pub async fn read<T: Send + 'static>(
        &self,
        run: impl FnOnce(&dyn Read) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let backend = Arc::clone(&self.inner.backend);
        let work = move || {
            let (mut run, mut value) = (Some(run), None);
            backend.read(&mut |view| {
                let run = run.take().ok_or(StoreError::Closed)?;
                value = Some(run(view)?);
                Ok(())
            })?;
            value.ok_or(StoreError::Closed)
        };
        let outcome = tokio::task::spawn_blocking(work).await;
        outcome.unwrap_or_else(|source| Err(StoreError::Backend { what: "run a read", source: Arc::new(source) }))
    }

    /// Writes what was asked for, and takes nothing more. Blocks until the writer is done.
    pub fn close(&self) {
        self.inner.close();
    }
}

impl Inner {
    fn close(&self) {
        drop(self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take());
        // Held while the writer ends, so that a second caller waits for it too.
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        // The writer cannot wait for itself, if it is what gave up the last handle.
        let waits = writer.as_ref().is_some_and(|writer| writer.thread().id() != std::thread::current().id());
        if let Some(writer) = writer.take()
            && waits
        {
            if writer.join().is_err() {
                tracing::error!("the store's writer thread panicked");
            }
            self.backend.release();
        }
    }
}

/// So that the backend is free for the next owner when the last handle is gone.
impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}

fn write_loop(backend: &dyn Backend, queue: &mpsc::Receiver<Box<dyn Job>>, failed: &LastFailure) {
    while let Ok(first) = queue.recv() {
        let begun = Instant::now();
        let mut group = vec![first];
        let outcome = commit(backend, &mut group, |len| {
            if len < GROUP_MAX && begun.elapsed() < GROUP_SPAN_MAX { queue.try_recv().ok() } else { None }
        });
        settle(backend, group, outcome, failed);
    }
}

/// A commit that was undone, and the place of the write that is to blame, if one is.
struct Undone {
    place: Option<usize>,
    error: StoreError,
}

/// Runs the jobs of the group, and those that `more` gives while it is open, in one transaction.
fn commit(
    backend: &dyn Backend,
    group: &mut Group,
    mut more: impl FnMut(usize) -> Option<Box<dyn Job>>,
) -> Result<(), Undone> {
    let at = Cell::new(None);
    let attempt = catch_unwind(AssertUnwindSafe(|| {
        backend.write(&mut |tx| {
            let mut next = 0;
            while let Some(job) = group.get_mut(next) {
                at.set(Some(next));
                job.run(tx)?;
                at.set(None);
                next += 1;
                if next == group.len() {
                    group.extend(more(next));
                }
            }
            Ok(())
        })
    }));
    let outcome = attempt.unwrap_or_else(|_| {
        tracing::error!("a write panicked; its transaction was undone");
        let source: Box<dyn std::error::Error + Send + Sync> = "the write panicked".into();
        Err(StoreError::Backend { what: "run a write", source: source.into() })
    });
    outcome.map_err(|error| Undone { place: at.get(), error })
}

/// Tells each of the group what became of it. One that was undone is committed again in parts, in the same order:
/// what stood before the write that failed, that one alone, and the rest; or in halves, if no write is to blame.
fn settle(backend: &dyn Backend, group: Group, outcome: Result<(), Undone>, failed: &LastFailure) {
    let mut parts = VecDeque::from([(group, Some(outcome))]);
    while let Some((mut part, outcome)) = parts.pop_front() {
        let outcome = outcome.unwrap_or_else(|| commit(backend, &mut part, |_| None));
        match outcome {
            Ok(()) => tell(part, &Ok(())),
            Err(undone) if part.len() <= 1 => {
                failed.note(&undone.error);
                tell(part, &Err(undone.error));
            }
            Err(undone) => {
                let middle = part.len() / 2;
                let rest = part.split_off(undone.place.map_or(middle, |place| place + 1));
                let alone = undone.place.map_or_else(Vec::new, |place| part.split_off(place));
                let again = [part, alone, rest].into_iter().filter(|part| !part.is_empty());
                again.rev().for_each(|part| parts.push_front((part, None)));
            }
        }
    }
}

fn tell(group: Group, outcome: &Result<(), StoreError>) {
    for job in group {
        if catch_unwind(AssertUnwindSafe(|| job.done(outcome.clone()))).is_err() {
            tracing::error!("what follows a write panicked; the write stands");
        }
    }
}

#[cfg(test)]
mod tests;
