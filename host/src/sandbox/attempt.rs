//! One attempt, from the first start function to the last byte of its result, in one future that can be dropped anywhere.

use std::sync::Arc;
use std::time::Duration;

use serde::de::IgnoredAny;
use wasmtime::Store;
use wasmtime::component::{Component, InstancePre};

use super::bindings::{Failure, Offered, OfferedPre};
use super::engine::{Engines, Metering, Workshop};
use super::guest::{Guest, Identity};
use super::ledger::Ledger;
use super::limiter::{Limiter, NodeMemory};
use super::signs::Signs;
use super::store;
use super::text::clip;
use super::trap::{self, Circumstances, MESSAGE_BYTES_MAX, Phase};
use super::wasi::Wasi;
use crate::id::{TaskId, TraceParent, TypeName};
use crate::task::{Death, Ending, FailureClass, Limits, Scene};

/// A component that is compiled, linked and checked: starting it costs microseconds.
#[derive(Clone)]
pub(crate) struct Prepared {
    pre: OfferedPre<Guest>,
}

impl Prepared {
    /// # Errors
    /// The component does not fit the world that is offered.
    pub(crate) fn new(workshop: &Workshop, component: &Component) -> wasmtime::Result<Self> {
        let pre: InstancePre<Guest> = workshop.linker.instantiate_pre(component)?;
        Ok(Self { pre: OfferedPre::new(pre)? })
    }

    /// Bytes of machine code and data.
    pub(crate) fn image_bytes(&self) -> usize {
        let range = self.pre.instance_pre().component().image_range();
        range.end as usize - range.start as usize
    }
}

/// What the guest is to do, and for whom.
#[derive(Debug)]
pub(crate) struct Work {
    pub task: TaskId,
    pub attempt: u32,
    pub task_type: TypeName,
    pub trace: TraceParent,
    pub creator: Option<Arc<str>>,
    /// JSON.
    pub input: Arc<str>,
    pub run_timeout: Duration,
    pub fuel: Option<u64>,
    pub limits: Limits,
}

impl Work {
    pub(crate) fn metering(&self) -> Metering {
        if self.fuel.is_some() { Metering::Fuel } else { Metering::Off }
    }
}

/// What of the host a sandbox takes its share of.
#[derive(Clone)]
pub(crate) struct Room {
    pub engines: Arc<Engines>,
    pub ledger: Arc<Ledger>,
    pub memory: Arc<NodeMemory>,
}

/// The sandbox of a guest that is over. Dropping it gives back its memory, which takes a while if there was much of it.
pub(crate) struct Remains {
    _store: Store<Guest>,
}

/// How an attempt ended.
pub(crate) struct Outcome {
    pub ending: Ending,
    /// JSON, if and only if it succeeded.
    pub result: Option<String>,
    pub scene: Option<Scene>,
    pub remains: Option<Remains>,
}

impl Outcome {
    /// Without anything but how it ended.
    pub(crate) fn bare(ending: Ending) -> Self {
        Self { ending, result: None, scene: None, remains: None }
    }

    pub(crate) fn died(cause: Death, message: String) -> Self {
        Self::bare(Ending::Died { cause, message })
    }
}

/// Runs the guest to its end.
pub(crate) async fn run(prepared: Arc<Prepared>, work: Work, room: Room, signs: Arc<Signs>) -> Outcome {
    let engine = prepared.pre.engine().clone();
    let limits = work.limits.clone();
    let (input, fuel) = (Arc::clone(&work.input), work.fuel);
    let guest = guest(work, &room, &signs);
    let mut store = match store::new(&engine, guest, &limits, Arc::clone(&room.engines.ticks), fuel) {
        Ok(store) => store,
        Err(error) => return Outcome::died(Death::HostFault, format!("no store could be made: {error:#}")),
    };
    signs.enter();
    signs.count_in(input.len());
    let mut phase = Phase::Instantiating;
    let returned = call(&prepared.pre, &mut store, &input, &mut phase).await;
    signs.end_prints();
    if let (Some(given), Ok(left)) = (fuel, store.get_fuel()) {
        signs.fuel(given.saturating_sub(left));
    }
    let outcome = match returned {
        Ok(returned) => settle(returned, &limits, &signs),
        Err(error) => {
            let guest = store.data();
            let at = Circumstances {
                phase,
                killed: signs.token.is_dead(),
                refused: guest.limiter.refused(),
                call: guest.call,
            };
            Outcome { scene: trap::scene(&error, &at), ..Outcome::bare(trap::ending(&error, &at)) }
        }
    };
    Outcome { remains: Some(Remains { _store: store }), ..outcome }
}

async fn call(
    pre: &OfferedPre<Guest>,
    store: &mut Store<Guest>,
    input: &str,
    phase: &mut Phase,
) -> wasmtime::Result<Result<String, Failure>> {
    let instance: Offered = pre.instantiate_async(&mut *store).await?;
    *phase = Phase::Running;
    instance.call_run(&mut *store, input).await
}

fn guest(work: Work, room: &Room, signs: &Arc<Signs>) -> Guest {
    Guest {
        limiter: Limiter::new(&work.limits, Arc::clone(&room.memory), Arc::clone(signs)),
        wasi: Wasi::new(Arc::clone(signs), work.limits.handles_max),
        identity: Identity {
            task: work.task,
            attempt: work.attempt,
            task_type: work.task_type,
            trace: work.trace,
            creator: work.creator,
        },
        run_timeout: work.run_timeout,
        signs: Arc::clone(signs),
        call: None,
        _entry: room.ledger.sandbox(),
    }
}

/// What the guest returned, checked.
fn settle(returned: Result<String, Failure>, limits: &Limits, signs: &Signs) -> Outcome {
    let failed = |class, message: &str, retry_after| {
        Outcome::bare(Ending::Failed { class, message: clip(message, MESSAGE_BYTES_MAX), retry_after })
    };
    match returned {
        Ok(result) => {
            signs.count_out(result.len());
            match check(&result, limits) {
                Ok(()) => Outcome { result: Some(result), ..Outcome::bare(Ending::Succeeded) },
                Err(message) => Outcome::died(Death::BadResult, message),
            }
        }
        Err(Failure::Stopped) => Outcome::bare(Ending::Stopped),
        Err(Failure::Business(message)) => failed(FailureClass::Business, &message, None),
        Err(Failure::System(failure)) => {
            let wish = failure.retry_after_ms.map(|ms| Duration::from_millis(u64::from(ms)));
            failed(FailureClass::System, &failure.message, wish)
        }
        Err(Failure::Fatal(message)) => failed(FailureClass::Fatal, &message, None),
    }
}

fn check(result: &str, limits: &Limits) -> Result<(), String> {
    if result.len() as u64 > limits.result_bytes_max {
        return Err(format!(
            "the result has {} bytes; `result_bytes_max` is {}",
            result.len(),
            limits.result_bytes_max
        ));
    }
    serde_json::from_str::<IgnoredAny>(result).map(drop).map_err(|error| format!("the result is not JSON: {error}"))
}
