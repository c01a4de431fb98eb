//! The registry of attempts in hand: what this node knows of them beyond their records.
//!
//! A cache of the store, never its rival: it holds what is needed to tell, to kill and to show.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::finish::Lines;
use crate::executor::protocol::{AttemptKey, Beat};
use crate::id::TaskId;
use crate::task::{Event, Limits, LogLine, Progress, State, Task, Vitals};
use crate::time::Timestamp;

/// Signs of life come every few dozen milliseconds: a heartbeat counts as missed only when its sign had the time to come.
const SIGN_DELAY: Duration = Duration::from_millis(200);

/// What can be shown of a running attempt beyond its record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveView {
    pub entered_at: Option<Timestamp>,
    pub heartbeat_at: Option<Timestamp>,
    pub stop_seen_at: Option<Timestamp>,
    pub killed_at: Option<Timestamp>,
    pub progress: Option<Progress>,
}

/// One attempt in hand.
pub(super) struct Live {
    pub(super) task: Task,
    pub(super) key: AttemptKey,
    pub(super) vitals: Vitals,
    pub(super) stop_seen_at: Option<Timestamp>,
    pub(super) killed_at: Option<Timestamp>,
    /// The killed guest will not run again; what it held is being given back.
    pub(super) caught_at: Option<Timestamp>,
    pub(super) progress: Option<Progress>,
    pub(super) logs: LogWindow,
    /// Lines that no write has taken yet: no more than are kept at all, however long the store takes.
    unwritten: Vec<LogLine>,
    /// A write of lines is on its way to the store.
    writing: bool,
    /// Its sandbox is gone, and its ending is on the way to the store.
    pub(super) finishing: bool,
    /// A budget of it is spent, and the request to stop is on the way to the store.
    pub(super) asking: bool,
    /// A spent budget for which the guest is being stopped, though the store would not take it: written with the end.
    pub(super) owed: Option<(Event, Timestamp)>,
    alarm_at: Option<Timestamp>,
}

#[derive(Default)]
pub(super) struct Registry {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    attempts: HashMap<TaskId, Live>,
    alarms: BTreeSet<(Timestamp, TaskId)>,
}

/// The numbers and sizes of the log lines that are kept, so that a flood leaves no more than its tail.
#[derive(Default)]
pub(super) struct LogWindow {
    kept: VecDeque<(u64, usize)>,
    bytes: usize,
    dropped_below: u64,
}

impl LogWindow {
    /// Takes in new lines; gives the number below which lines are to be forgotten.
    pub(super) fn admit(&mut self, lines: &[LogLine], limits: &Limits) -> u64 {
        let lines_max = usize::try_from(limits.log_lines_max).unwrap_or(usize::MAX);
        let bytes_max = usize::try_from(limits.log_bytes_max).unwrap_or(usize::MAX);
        for line in lines {
            self.kept.push_back((line.number, line.message.len()));
            self.bytes += line.message.len();
        }
        while self.kept.len() > lines_max || self.bytes > bytes_max {
            let Some((number, bytes)) = self.kept.pop_front() else { break };
            self.bytes -= bytes;
            self.dropped_below = number + 1;
        }
        self.dropped_below
    }

    /// How many lines are kept.
    pub(super) fn kept(&self) -> u64 {
        self.kept.len() as u64
    }
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn len(&self) -> usize {
        self.lock().attempts.len()
    }

    /// The attempt is in hand from here on. Gives its first alarm.
    pub(super) fn insert(&self, task: Task, key: AttemptKey) -> Option<Timestamp> {
        let mut inner = self.lock();
        let live = Live {
            task,
            key,
            vitals: Vitals::default(),
            stop_seen_at: None,
            killed_at: None,
            caught_at: None,
            progress: None,
            logs: LogWindow::default(),
            unwritten: Vec::new(),
            writing: false,
            finishing: false,
            asking: false,
            owed: None,
            alarm_at: None,
        };
        inner.attempts.insert(key.task, live);
        inner.arm(key.task)
    }

    /// Looks at, or changes, the attempt if it is still in hand.
    pub(super) fn with<T>(&self, key: AttemptKey, look: impl FnOnce(&mut Live) -> T) -> Option<T> {
        self.lock().attempts.get_mut(&key.task).filter(|live| live.key == key).map(look)
    }

    /// As [`Registry::with`], and sets the attempt's alarm anew; gives when it goes off.
    pub(super) fn with_alarm(&self, key: AttemptKey, change: impl FnOnce(&mut Live)) -> Option<Timestamp> {
        let mut inner = self.lock();
        change(inner.attempts.get_mut(&key.task).filter(|live| live.key == key)?);
        inner.arm(key.task)
    }

    /// Nothing of the attempt is left to look after.
    pub(super) fn remove(&self, key: AttemptKey) {
        let mut inner = self.lock();
        if inner.attempts.get(&key.task).is_some_and(|live| live.key == key) {
            inner.disarm(key.task);
            inner.attempts.remove(&key.task);
        }
    }

    /// Takes the alarms that are due, and gives when the next one is.
    pub(super) fn due(&self, now: Timestamp) -> (Vec<AttemptKey>, Option<Timestamp>) {
        let mut inner = self.lock();
        let mut due = Vec::new();
        while let Some((at, id)) = inner.alarms.first().copied().filter(|(at, _)| *at <= now) {
            inner.alarms.remove(&(at, id));
            if let Some(live) = inner.attempts.get_mut(&id) {
                live.alarm_at = None;
                due.push(live.key);
            }
        }
        (due, inner.alarms.first().map(|(at, _)| *at))
    }

    /// An alarm outside the rules, such as another look at a guest that will not go.
    pub(super) fn remind(&self, key: AttemptKey, at: Timestamp) {
        let mut inner = self.lock();
        if inner.attempts.get(&key.task).is_some_and(|live| live.key == key) {
            inner.set_alarm(key.task, at);
        }
    }

    pub(super) fn keys(&self) -> Vec<AttemptKey> {
        self.lock().attempts.values().map(|live| live.key).collect()
    }

    /// How many were killed before then, and are still there.
    pub(super) fn killed_before(&self, then: Timestamp) -> usize {
        let there =
            |live: &Live| !live.finishing && live.killed_at.is_some_and(|at| at < then) && live.caught_at.is_none();
        self.lock().attempts.values().filter(|live| there(live)).count()
    }

    pub(super) fn view(&self, id: TaskId) -> Option<LiveView> {
        self.lock().attempts.get(&id).map(|live| LiveView {
            entered_at: live.vitals.entered_at,
            heartbeat_at: live.vitals.heartbeat_at,
            stop_seen_at: live.stop_seen_at,
            killed_at: live.killed_at,
            progress: live.progress.clone(),
        })
    }
}

impl Inner {
    fn disarm(&mut self, id: TaskId) {
        if let Some(live) = self.attempts.get_mut(&id)
            && let Some(at) = live.alarm_at.take()
        {
            self.alarms.remove(&(at, id));
        }
    }

    fn set_alarm(&mut self, id: TaskId, at: Timestamp) {
        self.disarm(id);
        if let Some(live) = self.attempts.get_mut(&id) {
            live.alarm_at = Some(at);
            self.alarms.insert((at, id));
        }
    }

    fn arm(&mut self, id: TaskId) -> Option<Timestamp> {
        let (at, _) = self.attempts.get(&id)?.alarm()?;
        self.set_alarm(id, at);
        Some(at)
    }
}

impl Live {
    /// When something has to be done about it that is not being done already, and what.
    ///
    /// Its budgets count from the entry of the guest. Until that is known, it is the host that is at work, and only the
    /// life of the task counts.
    pub(super) fn alarm(&self) -> Option<(Timestamp, Event)> {
        let asked = self.asking && self.stop().is_none();
        if self.finishing || self.killed_at.is_some() || asked {
            return None;
        }
        let entered_at = self.vitals.entered_at.or(Some(Timestamp::FAR));
        let (at, event) = self.task.alarm(Vitals { entered_at, ..self.vitals })?;
        let delay = if matches!(event, Event::HeartbeatMissed { .. }) { SIGN_DELAY } else { Duration::ZERO };
        Some((at + delay, event))
    }

    /// The record has changed; false if this is not news. What a reconcile has read may have been overtaken, and a kill
    /// that was brought forward is never put off again.
    pub(super) fn renew(&mut self, task: &Task) -> bool {
        let news = task.version >= self.task.version;
        if news {
            self.task = task.clone();
        }
        news
    }

    /// Takes in a sign of life.
    pub(super) fn hear(&mut self, beat: Beat) {
        self.vitals.entered_at = beat.entered_at.or(self.vitals.entered_at);
        self.vitals.heartbeat_at = beat.heartbeat_at.or(self.vitals.heartbeat_at);
        self.stop_seen_at = beat.stop_seen_at.or(self.stop_seen_at);
        self.progress = beat.progress.or_else(|| self.progress.take());
        let keep_from = self.logs.admit(&beat.log, &self.task.spec.terms.limits);
        self.unwritten.extend(beat.log);
        self.unwritten.retain(|line| line.number >= keep_from);
    }

    /// The lines to write now, if there are any and none are being written. Whoever takes them tells when it is done.
    pub(super) fn begin_write(&mut self) -> Option<Lines> {
        if self.writing || self.finishing || self.unwritten.is_empty() {
            return None;
        }
        self.writing = true;
        Some(self.take_lines())
    }

    pub(super) fn end_write(&mut self) {
        self.writing = false;
    }

    /// The lines that are left.
    pub(super) fn take_lines(&mut self) -> Lines {
        let lines = std::mem::take(&mut self.unwritten);
        Lines { key: self.key, new: lines, keep_from: self.logs.dropped_below }
    }

    /// The request to stop, if there is one.
    pub(super) fn stop(&self) -> Option<&crate::task::Stop> {
        match &self.task.state {
            State::Stopping(stopping) => Some(stopping.stop()),
            State::Pending(_) | State::Running(_) | State::Ended(_) => None,
        }
    }
}
