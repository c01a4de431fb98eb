//! Those who wait for the end of a task.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::id::TaskId;
use crate::task::Task;

/// Absent once nothing ends any more.
type Bells = Mutex<Option<HashMap<TaskId, watch::Sender<Option<Task>>>>>;

/// One bell for each task that somebody waits for. It goes with the last who waits.
pub(super) struct Waiters {
    bells: Arc<Bells>,
}

impl Default for Waiters {
    fn default() -> Self {
        Self { bells: Arc::new(Mutex::new(Some(HashMap::new()))) }
    }
}

/// A place in the line of those who wait for one task. No ending after [`Waiters::join`] is missed.
pub struct Waiting {
    id: TaskId,
    // Dropped before the bell is looked at, so that it counts itself no more.
    bell: Option<watch::Receiver<Option<Task>>>,
    bells: Arc<Bells>,
}

impl Waiters {
    pub(super) fn join(&self, id: TaskId) -> Waiting {
        let mut bells = self.bells.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || watch::channel(None).0;
        // A bell that nobody can ring tells at once that there is nothing to wait for.
        let bell =
            bells.as_mut().map_or_else(|| new().subscribe(), |bells| bells.entry(id).or_insert_with(new).subscribe());
        Waiting { id, bell: Some(bell), bells: Arc::clone(&self.bells) }
    }

    /// The task has ended like this.
    pub(super) fn ring(&self, task: &Task) {
        let mut bells = self.bells.lock().unwrap_or_else(PoisonError::into_inner);
        let bell = bells.as_mut().and_then(|bells| bells.remove(&task.spec.id));
        drop(bells);
        // It rings once: who joins after this waits for another end, as after a rerun.
        if let Some(bell) = bell {
            bell.send_replace(Some(task.clone()));
        }
    }

    /// Nothing ends any more: nobody shall wait for it.
    pub(super) fn dismiss(&self) {
        drop(self.bells.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.bells.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map_or(0, HashMap::len)
    }
}

impl Waiting {
    /// The task as it ended; none if the node went down before it did.
    pub async fn ended(&mut self) -> Option<Task> {
        let bell = self.bell.as_mut()?;
        let task = bell.wait_for(Option::is_some).await.ok()?;
        task.clone()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut bells = self.bells.lock().unwrap_or_else(PoisonError::into_inner);
        self.bell = None;
        if let Some(bells) = bells.as_mut()
            && bells.get(&self.id).is_some_and(|bell| bell.receiver_count() == 0)
        {
            bells.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bell_goes_with_the_last_who_waits() {
        let waiters = Waiters::default();
        let id = TaskId::new();
        let (first, second) = (waiters.join(id), waiters.join(id));
        drop(first);
        assert_eq!(waiters.len(), 1);
        drop(second);
        assert_eq!(waiters.len(), 0);
    }

    #[tokio::test]
    async fn who_joins_after_an_end_waits_for_the_next_one() {
        let waiters = Waiters::default();
        let first_end = ended();
        let id = first_end.spec.id;
        let mut first = waiters.join(id);
        waiters.ring(&first_end);
        let mut second = waiters.join(id);
        let next_end = Task { version: first_end.version + 1, ..first_end.clone() };
        waiters.ring(&next_end);
        assert_eq!(first.ended().await, Some(first_end));
        assert_eq!(second.ended().await, Some(next_end));
        assert_eq!(waiters.len(), 0);
    }

    #[tokio::test]
    async fn nobody_waits_once_nothing_ends_any_more() {
        let waiters = Waiters::default();
        let mut before = waiters.join(TaskId::new());
        waiters.dismiss();
        assert_eq!(before.ended().await, None);
        assert_eq!(waiters.join(TaskId::new()).ended().await, None);
    }

    fn ended() -> Task {
        let task = super::super::tests::pending();
        let step = crate::task::birth(&task.spec, Some((crate::task::Rejection::UnknownType, "")));
        Task { state: step.state, ..task }
    }
}
