//! One attempt, from the first start function to the last byte of its result, in one future that can be dropped anywhere.

use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::de::IgnoredAny;
use wasmtime::Store;
use wasmtime::component::{Component, InstancePre};

use super::bindings::{Failure, Offered, OfferedPre};
use super::dump::{Dump, Wish};
use super::dumps::Dumps;
use super::engine::{Engines, Metering, Workshop};
use super::guest::{Guest, Identity};
use super::ledger::Ledger;
use super::limiter::{Limiter, NodeMemory};
use super::net::{Names, Net};
use super::scratch;
use super::signs::Signs;
use super::store;
use super::text::clip;
use super::trap::{self, Circumstances, MESSAGE_BYTES_MAX};
use super::wasi::Wasi;
use crate::id::{TaskId, TraceParent, TypeName};
use crate::task::{CoreDump, Death, Ending, FailureClass, Grants, Limits, Phase, Scene};

/// A component that is compiled, linked and checked: starting it costs microseconds.
pub(crate) struct Prepared {
    pre: OfferedPre<Guest>,
    /// The same code in an engine that makes core dumps; there once an attempt wanted one.
    dumping: OnceLock<OfferedPre<Guest>>,
}

impl Prepared {
    /// # Errors
    /// The component does not fit the world that is offered.
    pub(crate) fn new(workshop: &Workshop, component: &Component) -> wasmtime::Result<Self> {
        let pre: InstancePre<Guest> = workshop.linker.instantiate_pre(component)?;
        Ok(Self { pre: OfferedPre::new(pre)?, dumping: OnceLock::new() })
    }

    /// For an attempt that wants a core dump.
    fn dumping(&self, engines: &Engines, metering: Metering) -> wasmtime::Result<&OfferedPre<Guest>> {
        if let Some(pre) = self.dumping.get() {
            return Ok(pre);
        }
        let workshop = engines.dump_workshop(metering)?;
        let code = self.pre.instance_pre().component().serialize()?;
        // SAFETY: wasmtime gave out these bytes itself, right before; nobody else has had them.
        let component = unsafe { Component::deserialize(&workshop.engine, &code)? };
        let pre = OfferedPre::new(workshop.linker.instantiate_pre(&component)?)?;
        Ok(self.dumping.get_or_init(|| pre))
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
    /// Whether a trap or a kill is to leave a core dump.
    pub core_dump: bool,
    pub limits: Limits,
    pub grants: Arc<Grants>,
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
    /// Where core dumps are kept, if they are.
    pub dumps: Option<Arc<Dumps>>,
    /// Where the scratch folders of attempts are made.
    pub scratch: Option<Arc<Path>>,
    /// How names are looked up.
    pub names: Arc<Names>,
}

/// The sandbox of a guest that is over. Dropping it gives back its memory, which takes a while if there was much of it.
pub(crate) struct Remains {
    store: Store<Guest>,
    dump: Option<Dump>,
}

impl Remains {
    /// Whether there is a core dump to be written first, which takes its time.
    pub(crate) fn has_dump(&self) -> bool {
        self.dump.is_some()
    }

    /// Writes the core dump, if there is to be one, and says what became of it.
    pub(crate) fn write_dump(&mut self) -> Option<CoreDump> {
        Some(self.dump.take()?.write(&mut self.store))
    }
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
    let (pre, wish) = choose(&prepared, &work, &room);
    let engine = pre.engine().clone();
    let limits = work.limits.clone();
    let (input, fuel) = (Arc::clone(&work.input), work.fuel);
    let guest = match guest(work, &room, &signs) {
        Ok(guest) => guest,
        Err(error) => return Outcome::bare(no_scratch(&error)),
    };
    let mut store = match store::new(&engine, guest, &limits, Arc::clone(&room.engines.ticks), fuel) {
        Ok(store) => store,
        Err(error) => return Outcome::died(Death::HostFault, format!("no store could be made: {error:#}")),
    };
    signs.reach(Phase::Instantiating);
    signs.enter();
    signs.count_in(input.len());
    let returned = call(pre, &mut store, &input, &signs).await;
    signs.end_prints();
    if let (Some(given), Ok(left)) = (fuel, store.get_fuel()) {
        signs.fuel(given.saturating_sub(left));
    }
    let (outcome, dump) = match returned {
        Ok(returned) => (settle(returned, &limits, &signs), None),
        Err(error) => {
            let guest = store.data();
            let at = Circumstances {
                phase: signs.phase(),
                now: signs.clock.now(),
                killed: signs.token.is_dead(),
                refused: guest.limiter.refused(),
                call: guest.call,
            };
            let outcome = Outcome { scene: Some(trap::scene(&error, &at)), ..Outcome::bare(trap::ending(&error, &at)) };
            (outcome, wish.and_then(|wish| wish.fulfil(error, signs.memory_now())))
        }
    };
    Outcome { remains: Some(Remains { store, dump }), ..outcome }
}

/// What is started, and the wish for a core dump, if there is one. That it cannot be had does not hinder the attempt.
fn choose<'a>(prepared: &'a Prepared, work: &Work, room: &Room) -> (&'a OfferedPre<Guest>, Option<Wish>) {
    if !work.core_dump {
        return (&prepared.pre, None);
    }
    let wish = |folder| Wish { task: work.task, attempt: work.attempt, folder };
    let Some(dumps) = &room.dumps else {
        return (&prepared.pre, Some(wish(Err("this host has no folder for core dumps".to_owned()))));
    };
    match prepared.dumping(&room.engines, work.metering()) {
        Ok(pre) => (pre, Some(wish(Ok(Arc::clone(dumps))))),
        Err(error) => (&prepared.pre, Some(wish(Err(format!("its engine could not be set up: {error:#}"))))),
    }
}

async fn call(
    pre: &OfferedPre<Guest>,
    store: &mut Store<Guest>,
    input: &str,
    signs: &Signs,
) -> wasmtime::Result<Result<String, Failure>> {
    let instance: Offered = pre.instantiate_async(&mut *store).await?;
    signs.reach(Phase::Running);
    instance.call_run(&mut *store, input).await
}

/// The node's own want: another attempt may fare better.
fn no_scratch(error: &io::Error) -> Ending {
    let message = format!("no scratch folder could be made: {error}");
    Ending::Failed { class: FailureClass::System, message, retry_after: None }
}

fn guest(work: Work, room: &Room, signs: &Arc<Signs>) -> io::Result<Guest> {
    let folder = |scratch| {
        let none = || io::Error::other("this executor has no place for one");
        let place = room.scratch.as_deref().ok_or_else(none)?;
        scratch::Folder::make(place, (work.task, work.attempt), scratch, &room.ledger)
    };
    let scratch = work.grants.scratch.map(folder).transpose()?;
    let net = Net::new(Arc::clone(&work.grants), Arc::clone(signs), Arc::clone(&room.ledger), Arc::clone(&room.names));
    Ok(Guest {
        limiter: Limiter::new(&work.limits, Arc::clone(&room.memory), Arc::clone(signs)),
        wasi: Wasi::new(Arc::clone(signs), work.limits.handles_max, &work.grants, scratch, net)?,
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
    })
}

/// What the guest returned, checked.
fn settle(returned: Result<String, Failure>, limits: &Limits, signs: &Signs) -> Outcome {
    let failed = |class, message: &str, retry_after| {
        Outcome::bare(Ending::Failed { class, message: clip(message, MESSAGE_BYTES_MAX), retry_after })
    };
    match returned {
        Ok(result) => {
            signs.count_out(result.len());
            signs.reach(Phase::Returning);
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
