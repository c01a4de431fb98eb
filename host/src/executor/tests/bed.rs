//! A test's own executor, with its reports in order, and an empty ledger at the end.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::super::protocol::{AttemptKey, Beat, Ended, Order, Report, Start, StopOrder};
use super::super::{CallWatch, Counts, Executor, ExecutorConfig};
use crate::component::{Artefacts, CompileLimits, Compiler, ComponentError, Folder, Inspection};
use crate::id::{Digest, TaskId, TraceParent};
use crate::task::{Limits, LogLine, StopReason, TermsDraft};
use crate::time::{Clock, SystemClock, Timestamp};

/// Longer than anything takes on the slowest machine: a test that waits for it has failed.
const FOR_EVER: Duration = Duration::from_mins(2);

pub(super) struct Bed {
    executor: Option<Executor>,
    reports: UnboundedReceiver<Report>,
    beats: Vec<Beat>,
    waiting: Runtime,
    pub(super) folder: Folder,
    compiler: Arc<Compiler>,
    _place: tempfile::TempDir,
}

pub(super) fn limits() -> Limits {
    let draft = TermsDraft { run_timeout: Some(Duration::from_mins(1)), ..TermsDraft::default() };
    draft.resolve(Duration::ZERO).unwrap().limits
}

impl Bed {
    pub(super) fn new() -> Self {
        Self::with(Self::config(100), Arc::new(SystemClock::default()))
    }

    pub(super) fn config(slots: u32) -> ExecutorConfig {
        ExecutorConfig { slots, guest_threads: 2, ..ExecutorConfig::default() }
    }

    pub(super) fn with(config: ExecutorConfig, clock: Arc<dyn Clock>) -> Self {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path().join("components")).unwrap();
        let artefacts = Artefacts::open(place.path().join("cache"), config.slots, 1 << 30).unwrap();
        let compiler = Compiler::new(None, artefacts.clone(), folder.clone(), CompileLimits::default()).unwrap();
        let (sender, reports) = unbounded_channel();
        let executor = Executor::start(config, artefacts, Some(Arc::clone(&compiler)), clock, sender).unwrap();
        let waiting = Builder::new_current_thread().enable_time().build().unwrap();
        Self { executor: Some(executor), reports, beats: Vec::new(), waiting, folder, compiler, _place: place }
    }

    fn executor(&self) -> &Executor {
        self.executor.as_ref().unwrap()
    }

    pub(super) fn check(&self, bytes: &[u8]) -> Result<Inspection, ComponentError> {
        self.waiting.block_on(self.compiler.check(bytes.to_vec()))
    }

    /// As an upload does it: kept, checked, in memory.
    pub(super) fn push(&self, bytes: &[u8]) -> Digest {
        self.check(bytes).unwrap();
        self.folder.put(bytes).unwrap()
    }

    pub(super) fn start(&self, component: Digest) -> AttemptKey {
        self.start_as(component, |_| {})
    }

    pub(super) fn start_as(&self, component: Digest, change: impl FnOnce(&mut Start)) -> AttemptKey {
        let mut start = Self::order(component);
        change(&mut start);
        let key = start.key;
        self.executor().order(Order::Start(Box::new(start)));
        key
    }

    pub(super) fn start_watched(&self, component: Digest, watch: CallWatch) {
        self.executor().start_watched(Self::order(component), watch);
    }

    fn order(component: Digest) -> Start {
        let key = AttemptKey { task: TaskId::new(), attempt: 1 };
        Start {
            key,
            component,
            input: "{\"n\": 1}".into(),
            task_type: "test".parse().unwrap(),
            trace: TraceParent::generate(),
            creator: Some("tester".into()),
            run_timeout: Duration::from_mins(1),
            fuel: None,
            core_dump: false,
            limits: limits(),
            grants: Arc::default(),
        }
    }

    pub(super) fn stop(&self, key: AttemptKey) {
        let stop = StopOrder { reason: StopReason::Cancelled, kill_at: Timestamp::FAR, message: "enough".into() };
        self.executor().order(Order::Stop { key, stop });
    }

    pub(super) fn kill(&self, key: AttemptKey) {
        self.executor().order(Order::Kill { key });
    }

    /// The next attempt that ends.
    pub(super) fn ended(&mut self) -> Ended {
        loop {
            match self.report() {
                Report::Ended(ended) => return *ended,
                Report::Beat(beat) => self.beats.push(*beat),
                Report::Caught(_) => {}
            }
        }
    }

    /// Runs a guest to its end.
    pub(super) fn end_of(&mut self, bytes: &[u8]) -> Ended {
        let component = self.push(bytes);
        self.start(component);
        self.ended()
    }

    /// Waits for a beat that is as wanted.
    pub(super) fn beat(&mut self, wanted: impl Fn(&Beat) -> bool) -> Beat {
        loop {
            if let Some(at) = self.beats.iter().position(&wanted) {
                return self.beats.remove(at);
            }
            match self.report() {
                Report::Beat(beat) => self.beats.push(*beat),
                Report::Caught(_) => {}
                Report::Ended(ended) => panic!("ended before the beat: {ended:?}"),
            }
        }
    }

    /// Waits until the guest has been entered.
    pub(super) fn entered(&mut self, key: AttemptKey) {
        self.beat(|beat| beat.key == key && beat.entered_at.is_some());
    }

    pub(super) fn counts(&self) -> Counts {
        self.executor().ledger()
    }

    fn report(&mut self) -> Report {
        let next = async { tokio::time::timeout(FOR_EVER, self.reports.recv()).await };
        self.waiting.block_on(next).expect("no report").expect("the executor is gone")
    }

    /// The log lines of all beats that were waited through.
    pub(super) fn logged_in_beats(&mut self) -> Vec<LogLine> {
        self.beats.iter_mut().flat_map(|beat| std::mem::take(&mut beat.log)).collect()
    }

    /// Lets the guests come as far as they come by themselves: another guest has run to its end after them on every thread.
    pub(super) fn settle(&mut self) {
        let component = self.push(&super::guest::file("sleep-once"));
        for _ in 0..4 {
            self.start(component);
        }
        for _ in 0..4 {
            self.ended();
        }
    }

    /// Ends the executor while guests run.
    pub(super) fn close(mut self) {
        let executor = self.executor.take().unwrap();
        let live = executor.live();
        assert_eq!(executor.close(), 0);
        assert_eq!(executor.ledger(), Counts::default());
        for _ in 0..live {
            self.ended();
        }
    }
}

/// Names of things that nobody has.
pub(super) mod small {
    use super::{AttemptKey, TaskId};

    pub(in super::super) fn key() -> AttemptKey {
        AttemptKey { task: TaskId::new(), attempt: 1 }
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        let Some(executor) = self.executor.take() else { return };
        if std::thread::panicking() {
            return;
        }
        assert_eq!(executor.ledger(), Counts::default(), "something was left");
        assert_eq!(executor.close(), 0);
        assert!(self.reports.try_recv().is_err(), "a report came after the last");
    }
}
