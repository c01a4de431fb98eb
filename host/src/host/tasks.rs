//! Looking at tasks, and what people do to them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::{Error, Host};
use crate::id::{NodeId, TaskId};
use crate::runner::LiveView;
use crate::store::life::Change;
use crate::store::{AttemptRow, AuditRow, LogRow, Pause, ResultRow, TaskFilter};
use crate::task::{Ask, Event, Hold, State, Task};

/// The most entries of one page.
pub const PAGE_MAX: usize = 500;

/// A task with what is known of it beyond its record.
#[derive(Clone, Debug)]
pub struct TaskView {
    pub task: Task,
    /// If it runs here.
    pub live: Option<LiveView>,
    /// The pause of its queue, if that is what it waits for.
    pub held: Option<Pause>,
}

/// One page of a list.
#[derive(Clone, Debug)]
pub struct TaskPage {
    pub tasks: Vec<TaskView>,
    /// Give this to get the next page.
    pub next: Option<TaskId>,
}

/// An attempt, over or under way.
#[derive(Clone, Debug)]
pub enum AttemptView {
    Over(Box<AttemptRow>),
    Live { attempt: u32, node: NodeId, hold: Hold, live: Box<LiveView> },
}

impl Host {
    /// The task as it is.
    ///
    /// # Errors
    /// There is none of this id.
    pub async fn show(&self, id: TaskId) -> Result<TaskView, Error> {
        let found = self
            .inner
            .store
            .read(move |view| {
                let Some(task) = view.task(id)? else { return Ok(None) };
                let pause = view.pause(&task.spec.queue)?;
                Ok(Some((task, pause)))
            })
            .await?;
        let (task, pause) = found.ok_or_else(|| Error::no_task(id))?;
        Ok(self.view(task, pause))
    }

    pub(super) fn view(&self, task: Task, pause: Option<Pause>) -> TaskView {
        let live = match &task.state {
            State::Running(_) | State::Stopping(_) => self.inner.runner.live_view(task.spec.id),
            State::Pending(_) | State::Ended(_) => None,
        };
        let waits = matches!(task.state, State::Pending(_));
        let held = pause.filter(|pause| waits && pause.holds(task.spec.priority));
        TaskView { task, live, held }
    }

    /// The core dump of an attempt, in the format of the WebAssembly tool conventions. It holds what the guest's memory
    /// held.
    ///
    /// # Errors
    /// There is no such task, its terms asked for none, the attempt left none, or newer ones needed its room.
    pub async fn core_dump(&self, id: TaskId, attempt: u32) -> Result<Vec<u8>, Error> {
        self.show(id).await?;
        let dumps = Arc::clone(&self.inner.dumps);
        let found = tokio::task::spawn_blocking(move || dumps.find(id, attempt)).await.map_err(|_| Error::Closed)?;
        let found = found.map_err(|source| Error::io("read the core dump of", Path::new(&id.to_string()), source))?;
        found.ok_or_else(|| Error::NotFound { what: "core dump", name: format!("{id}/{attempt}") })
    }

    /// The task as it is when it has ended, or when `patience` is over.
    ///
    /// # Errors
    /// There is none of this id.
    pub async fn wait(&self, id: TaskId, patience: Duration) -> Result<TaskView, Error> {
        let mut waiting = self.inner.runner.wait_for(id);
        let view = self.show(id).await?;
        if view.task.state.kind().is_terminal() {
            return Ok(view);
        }
        match tokio::time::timeout(patience, waiting.ended()).await {
            Ok(Some(task)) => Ok(self.view(task, None)),
            Ok(None) | Err(_) => self.show(id).await,
        }
    }

    /// Newest first; `before` is the `next` of the page before.
    ///
    /// # Errors
    /// The store failed.
    pub async fn list(&self, filter: TaskFilter, before: Option<TaskId>, limit: usize) -> Result<TaskPage, Error> {
        let limit = limit.clamp(1, PAGE_MAX);
        let (mut rows, more) = self
            .inner
            .store
            .read(move |view| {
                let mut tasks = view.tasks(&filter, before, limit + 1)?;
                let more = tasks.len() > limit;
                tasks.truncate(limit);
                let rows = tasks.into_iter().map(|task| {
                    let pause = view.pause(&task.spec.queue)?;
                    Ok((task, pause))
                });
                Ok((rows.collect::<Result<Vec<_>, crate::store::StoreError>>()?, more))
            })
            .await?;
        let next = more.then(|| rows.last().map(|(task, _)| task.spec.id)).flatten();
        let tasks = rows.drain(..).map(|(task, pause)| self.view(task, pause)).collect();
        Ok(TaskPage { tasks, next })
    }

    async fn act(&self, id: TaskId, event: Event) -> Result<TaskView, Error> {
        match self.inner.runner.act(id, event).await? {
            Change::Missing => Err(Error::no_task(id)),
            Change::Refused { task, event, why } => Err(Error::Refused { task: Box::new(task), event, why }),
            Change::Done { task, .. } => Ok(self.view(task, None)),
        }
    }

    /// Cancels: a waiting task ends at once; a running one is told to stop, and killed when `grace` (at most that of
    /// its terms) is over. Durable when this returns; the task is CANCELLED only once the guest is gone.
    ///
    /// # Errors
    /// There is no such task, or it has ended.
    pub async fn cancel(&self, id: TaskId, ask: Ask, grace: Option<Duration>) -> Result<TaskView, Error> {
        self.act(id, Event::CancelAsked { ask, grace }).await
    }

    /// Ends a task as FAILED, with no grace and no retry.
    ///
    /// # Errors
    /// There is no such task, or it has ended.
    pub async fn fail(&self, id: TaskId, ask: Ask) -> Result<TaskView, Error> {
        self.act(id, Event::FailAsked { ask }).await
    }

    /// Takes an ended task up again, as a new generation of the same task.
    ///
    /// # Errors
    /// There is no such task, it is not recoverable (unless `force` is set, with a reason), or it never changes again.
    pub async fn rerun(&self, id: TaskId, ask: Ask, force: bool) -> Result<TaskView, Error> {
        self.act(id, Event::RerunAsked { ask, force }).await
    }

    /// Takes a recoverable task off the dead-letter list: CANCELLED.
    ///
    /// # Errors
    /// There is no such task, or it is not recoverable.
    pub async fn give_up(&self, id: TaskId, ask: Ask) -> Result<TaskView, Error> {
        self.act(id, Event::GiveUpAsked { ask }).await
    }

    /// Every change of the task, in order.
    ///
    /// # Errors
    /// There is no such task.
    pub async fn audit(&self, id: TaskId) -> Result<Vec<AuditRow>, Error> {
        self.of_task(id, move |view| view.audit(id, 0, usize::MAX)).await
    }

    /// Every attempt, first to last.
    ///
    /// # Errors
    /// There is no such task.
    pub async fn attempts(&self, id: TaskId) -> Result<Vec<AttemptView>, Error> {
        let (task, rows) = self.of_task(id, move |view| Ok((view.task(id)?, view.attempts(id)?))).await?;
        let mut attempts: Vec<_> = rows.into_iter().map(|row| AttemptView::Over(Box::new(row))).collect();
        let hold = match task.as_ref().map(|task| &task.state) {
            Some(State::Running(s)) => Some((s.tally().attempts, s.hold())),
            Some(State::Stopping(s)) => Some((s.tally().attempts, s.hold())),
            Some(State::Pending(_) | State::Ended(_)) | None => None,
        };
        if let Some((attempt, hold)) = hold {
            let live = Box::new(self.inner.runner.live_view(id).unwrap_or_default());
            attempts.push(AttemptView::Live { attempt, node: hold.node, hold, live });
        }
        Ok(attempts)
    }

    /// Log lines after the row of this number, in the order of writing.
    ///
    /// # Errors
    /// There is no such task.
    pub async fn logs(&self, id: TaskId, after: u64, limit: usize) -> Result<Vec<LogRow>, Error> {
        self.of_task(id, move |view| view.logs(id, after, limit)).await
    }

    /// What the task came to, if it succeeded.
    ///
    /// # Errors
    /// There is no such task.
    pub async fn result(&self, id: TaskId) -> Result<Option<ResultRow>, Error> {
        self.of_task(id, move |view| view.result(id)).await
    }

    /// The task's input, unless it was too large to be kept.
    ///
    /// # Errors
    /// There is no such task.
    pub async fn input(&self, id: TaskId) -> Result<Option<Arc<str>>, Error> {
        self.of_task(id, move |view| view.input(id)).await
    }

    async fn of_task<T: Send + 'static>(
        &self,
        id: TaskId,
        look: impl FnOnce(&dyn crate::store::Read) -> Result<T, crate::store::StoreError> + Send + 'static,
    ) -> Result<T, Error> {
        let found = self
            .inner
            .store
            .read(move |view| if view.task(id)?.is_some() { look(view).map(Some) } else { Ok(None) })
            .await?;
        found.ok_or_else(|| Error::no_task(id))
    }
}
