//! The one place that makes a store: none exists without deadline, limiter, caps and token.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use wasmtime::{Engine, Store, UpdateDeadline};

use super::gate::{Gate, Toll};
use super::guest::Guest;
use crate::task::Limits;

/// What a failure's message may have beside a result of the largest size.
const RESULT_MARGIN_BYTES: u64 = 1 << 10;

pub(super) fn new(
    engine: &Engine,
    guest: Guest,
    limits: &Limits,
    ticks: Arc<AtomicU64>,
    fuel: Option<u64>,
) -> wasmtime::Result<Store<Guest>> {
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let toll =
        Toll { call: size(limits.host_call_bytes_max), result: size(limits.result_bytes_max + RESULT_MARGIN_BYTES) };
    let gate = Gate::new(Arc::clone(&guest.signs), ticks, toll);
    let mut store = Store::new(engine, guest);
    store.limiter(|guest| &mut guest.limiter);
    store.set_epoch_deadline(1);
    // The gate stands before this too, and has let others run, or found that the guest was killed.
    store.epoch_deadline_callback(|_| Ok(UpdateDeadline::Continue(1)));
    store.call_hook_async(gate);
    store.set_hostcall_fuel(toll.result);
    store.set_max_component_handles(size(limits.handles_max));
    if let Some(fuel) = fuel {
        store.set_fuel(fuel)?;
    }
    Ok(store)
}
