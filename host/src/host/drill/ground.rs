//! Where the drill takes place: an executor of its own, and one run after the other in it, told and killed in time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

use super::super::Error;
use super::{DrillOrders, Moment, SIDE_BY_SIDE};
use crate::component::{Artefacts, Compiler};
use crate::executor::protocol::{AttemptKey, Ended, Order, Report, Start, StopOrder};
use crate::executor::{CallWatch, Executor, ExecutorConfig};
use crate::id::{Digest, TaskId, TraceParent, TypeName};
use crate::task::StopReason;
use crate::time::{Clock, SystemClock};

/// A guest that is not gone so long after it was killed is given up: more than any sandbox takes.
const GIVE_UP: Duration = Duration::from_secs(10);
/// A guest waits so long for its entry at most: its component may have to be compiled first.
const COMPILE_MAX: Duration = Duration::from_mins(10);

pub(super) struct Ground {
    pub(super) orders: DrillOrders,
    component: Digest,
    task_type: TypeName,
    executor: Arc<Executor>,
    clock: Arc<dyn Clock>,
    running: Arc<Runs>,
}

/// How a run came out.
pub(super) enum Run {
    Ended(Box<Ended>),
    /// It was not gone long after it had been killed.
    Left,
}

#[derive(Default)]
struct Runs(Mutex<HashMap<AttemptKey, oneshot::Sender<Box<Ended>>>>);

impl Runs {
    fn lock(&self) -> MutexGuard<'_, HashMap<AttemptKey, oneshot::Sender<Box<Ended>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn hear(self: Arc<Self>, mut reports: UnboundedReceiver<Report>) {
        while let Some(report) = reports.recv().await {
            if let Report::Ended(ended) = report
                && let Some(waits) = self.lock().remove(&ended.last.key)
            {
                // Nobody waits for one that was given up.
                let _ = waits.send(ended);
            }
        }
    }
}

/// What a run has come to.
#[derive(Default)]
struct Marks {
    entered: Notify,
    told: Notify,
}

impl Ground {
    pub(super) fn open(
        artefacts: Artefacts,
        compiler: Arc<Compiler>,
        component: Digest,
        orders: DrillOrders,
    ) -> Result<Self, Error> {
        let (reports, heard) = unbounded_channel();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let slots = u32::try_from(SIDE_BY_SIDE).unwrap_or(u32::MAX);
        let config = ExecutorConfig { slots, guest_threads: 1, ..ExecutorConfig::default() };
        let executor = Arc::new(Executor::start(config, artefacts, Some(compiler), Arc::clone(&clock), reports)?);
        let running = Arc::new(Runs::default());
        tokio::spawn(Arc::clone(&running).hear(heard));
        let task_type = "drill"
            .parse()
            .map_err(|error: crate::id::IdError| Error::Invalid { field: "type", problem: error.to_string() })?;
        Ok(Self { orders, component, task_type, executor, clock, running })
    }

    pub(super) async fn close(&self) {
        let executor = Arc::clone(&self.executor);
        // What does not end now ends with the process.
        let _ = tokio::task::spawn_blocking(move || executor.close()).await;
    }

    /// One run that is told to stop at a moment, if it is not over before, and killed after its grace.
    pub(super) async fn run(&self, tell_at: Moment) -> Run {
        let key = AttemptKey { task: TaskId::new(), attempt: 1 };
        let marks = Arc::new(Marks::default());
        let (ends, mut ended) = oneshot::channel();
        self.running.lock().insert(key, ends);
        self.executor.start_watched(self.start(key), self.watch(key, tell_at, &marks));
        let spared = match tell_at {
            Moment::After(span) => span,
            // Should it never make that call, it is told at the end of its time.
            Moment::Entry | Moment::Call(_) => self.orders.run_timeout,
        };
        let life = async {
            // Whatever happens before the entry is the host's own work.
            let _ = timeout(COMPILE_MAX, marks.entered.notified()).await;
            if timeout(spared, marks.told.notified()).await.is_err() {
                self.tell(key);
            }
            tokio::time::sleep(self.orders.grace).await;
        };
        tokio::select! {
            biased;
            ended = &mut ended => return ended.map_or(Run::Left, Run::Ended),
            () = life => self.executor.order(Order::Kill { key }),
        }
        match timeout(GIVE_UP, ended).await {
            Ok(Ok(ended)) => Run::Ended(ended),
            Ok(Err(_)) | Err(_) => Run::Left,
        }
    }

    fn watch(&self, key: AttemptKey, tell_at: Moment, marks: &Arc<Marks>) -> CallWatch {
        let (executor, marks) = (Arc::downgrade(&self.executor), Arc::clone(marks));
        let order = self.stop_order();
        Box::new(move |number, _| {
            if number == 0 {
                marks.entered.notify_one();
            }
            let now = match tell_at {
                Moment::Entry => number == 0,
                Moment::Call(wanted) => number == wanted,
                Moment::After(_) => false,
            };
            if now && let Some(executor) = executor.upgrade() {
                executor.order(Order::Stop { key, stop: order() });
                marks.told.notify_one();
            }
        })
    }

    fn tell(&self, key: AttemptKey) {
        self.executor.order(Order::Stop { key, stop: self.stop_order()() });
    }

    fn stop_order(&self) -> impl Fn() -> StopOrder + Send + Sync + use<> {
        let (clock, grace) = (Arc::clone(&self.clock), self.orders.grace);
        move || StopOrder { reason: StopReason::Cancelled, kill_at: clock.now() + grace, message: "a drill".into() }
    }

    fn start(&self, key: AttemptKey) -> Start {
        Start {
            key,
            component: self.component,
            input: Arc::clone(&self.orders.input),
            task_type: self.task_type.clone(),
            trace: TraceParent::generate(),
            creator: None,
            run_timeout: self.orders.run_timeout,
            fuel: None,
            core_dump: false,
            limits: self.orders.limits.clone(),
            grants: Arc::default(),
        }
    }
}
