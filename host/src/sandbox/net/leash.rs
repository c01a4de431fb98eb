//! Work for a guest that others poll: its requests are tasks of the runtime, and a task that is told to end ends some time
//! later. So the task holds but a handle, and the work itself lies where the attempt can reach it and drop it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};

use crate::sandbox::signs::Signs;

type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Holds all work of one attempt.
pub(super) struct Leash {
    signs: Arc<Signs>,
    cells: Mutex<Cells>,
}

#[derive(Default)]
struct Cells {
    cut: bool,
    held: Vec<Weak<dyn Cut>>,
}

trait Cut: Send + Sync {
    fn cut(&self);
}

struct Cell<T>(Mutex<Option<Work<T>>>);

impl<T> Cell<T> {
    fn lock(&self) -> MutexGuard<'_, Option<Work<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Cut for Cell<T> {
    /// Waits for a poll that is under way, which never waits itself.
    fn cut(&self) {
        drop(self.lock().take());
    }
}

/// The handle: what the work gives when it is done, and nothing for ever once it was cut.
pub(super) struct Held<T> {
    cell: Arc<Cell<T>>,
    signs: Arc<Signs>,
}

impl Leash {
    pub(super) fn new(signs: Arc<Signs>) -> Self {
        Self { signs, cells: Mutex::default() }
    }

    fn cells(&self) -> MutexGuard<'_, Cells> {
        self.cells.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn hold<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Held<T> {
        let cell = Arc::new(Cell(Mutex::new(Some(Box::pin(work) as Work<T>))));
        let mut cells = self.cells();
        if cells.cut {
            cell.cut();
        } else {
            cells.held.retain(|held| held.strong_count() > 0);
            let weak: Weak<Cell<T>> = Arc::downgrade(&cell);
            cells.held.push(weak);
        }
        Held { cell, signs: Arc::clone(&self.signs) }
    }

    /// Drops all work. When this returns, nothing of it is left, whoever still has a handle.
    pub(super) fn cut(&self) {
        let held = {
            let mut cells = self.cells();
            cells.cut = true;
            std::mem::take(&mut cells.held)
        };
        held.iter().filter_map(Weak::upgrade).for_each(|cell| cell.cut());
    }
}

impl<T> Future for Held<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let mut work = self.cell.lock();
        if self.signs.token.is_dead() {
            return Poll::Pending;
        }
        let Some(doing) = work.as_mut() else { return Poll::Pending };
        let done = doing.as_mut().poll(cx);
        if done.is_ready() {
            *work = None;
        }
        done
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        self.cell.cut();
    }
}
