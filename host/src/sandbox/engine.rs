//! The one place that builds wasmtime engines, so that no guest runs under other settings.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use wasmtime::component::Linker;
use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Strategy, WasmBacktraceDetails,
    WasmFeatures,
};

use super::guest::Guest;
use super::linker;

const MIB: usize = 1 << 20;
const GIB: u64 = 1 << 30;
/// With a fiber hardly larger than this, recursion with a host call at each depth aborts the process.
const WASM_STACK_BYTES: usize = 512 << 10;
const FIBER_STACK_BYTES: usize = 2 * MIB;
/// Components of real languages have several core instances, memories and tables each.
const CORE_INSTANCES_PER_SLOT: u32 = 16;
const MEMORIES_PER_SLOT: u32 = 4;
const TABLES_PER_SLOT: u32 = 4;
/// The ceiling of `memory_bytes_max` and of `table_elements_max` in the terms.
const MEMORY_BYTES_MAX: u64 = GIB;
const TABLE_ELEMENTS_MAX: usize = 1_000_000;
/// With as much address space as a 32-bit memory can name, the compiled code needs no bounds checks.
const RESERVATION_UNCHECKED: u64 = 4 * GIB;
/// A process has 128 TiB to give.
const ADDRESS_SPACE_FOR_MEMORIES: u64 = 32 * 1024 * GIB;
/// Pages that a slot keeps, cleared, for its next guest.
const MEMORY_KEPT_BYTES: usize = 512 << 10;
const TABLE_KEPT_BYTES: usize = 64 << 10;

/// How many guests an engine has room for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EngineSize {
    pub slots: u32,
}

/// Whether instructions are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Metering {
    Off,
    Fuel,
}

/// An engine with everything that its components may import.
pub(crate) struct Workshop {
    pub(crate) engine: Engine,
    pub(crate) linker: Linker<Guest>,
}

/// The engines of one process. The one that counts fuel is built when first asked for: counting costs up to half of the speed.
pub(crate) struct Engines {
    size: EngineSize,
    plain: Workshop,
    fueled: OnceLock<Workshop>,
    building: Mutex<()>,
    /// Counts the ticks; guests look at it to see whether their time slice is over.
    pub(super) ticks: Arc<AtomicU64>,
}

impl Engines {
    pub(crate) fn new(size: EngineSize) -> wasmtime::Result<Self> {
        Ok(Self {
            size,
            plain: Workshop::new(size, Metering::Off)?,
            fueled: OnceLock::new(),
            building: Mutex::new(()),
            ticks: Arc::new(AtomicU64::new(0)),
        })
    }

    pub(crate) fn workshop(&self, metering: Metering) -> wasmtime::Result<&Workshop> {
        if metering == Metering::Off {
            return Ok(&self.plain);
        }
        let _one_at_a_time = self.building.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(workshop) = self.fueled.get() {
            return Ok(workshop);
        }
        let workshop = Workshop::new(self.size, Metering::Fuel)?;
        Ok(self.fueled.get_or_init(|| workshop))
    }

    /// Ends the time slice of every running guest.
    pub(crate) fn tick(&self) {
        self.ticks.fetch_add(1, Ordering::Relaxed);
        self.interrupt();
    }

    /// Makes every running guest look whether it was killed.
    pub(crate) fn interrupt(&self) {
        self.plain.engine.increment_epoch();
        if let Some(workshop) = self.fueled.get() {
            workshop.engine.increment_epoch();
        }
    }
}

impl Workshop {
    fn new(size: EngineSize, metering: Metering) -> wasmtime::Result<Self> {
        let engine = Engine::new(&config(size, metering))?;
        let linker = linker::build(&engine)?;
        Ok(Self { engine, linker })
    }
}

fn config(size: EngineSize, metering: Metering) -> Config {
    let mut config = Config::new();
    config
        .strategy(Strategy::Cranelift)
        .epoch_interruption(true)
        .consume_fuel(metering == Metering::Fuel)
        .max_wasm_stack(WASM_STACK_BYTES)
        .async_stack_size(FIBER_STACK_BYTES)
        .wasm_backtrace_details(WasmBacktraceDetails::Disable)
        // Compiling takes one thread at a low priority rather than all of them at a high one.
        .parallel_compilation(false)
        .concurrency_support(false)
        .shared_memory(false)
        .wasm_features(proposals_off(), false)
        .memory_reservation(reservation(size))
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool(size)));
    config
}

/// What no guest needs, or what could not be stopped or bounded: a wait on shared memory never ends.
fn proposals_off() -> WasmFeatures {
    WasmFeatures::THREADS
        | WasmFeatures::SHARED_EVERYTHING_THREADS
        | WasmFeatures::MEMORY64
        | WasmFeatures::RELAXED_SIMD
        | WasmFeatures::GC
        | WasmFeatures::FUNCTION_REFERENCES
        | WasmFeatures::EXCEPTIONS
        | WasmFeatures::STACK_SWITCHING
        | WasmFeatures::CUSTOM_PAGE_SIZES
        | WasmFeatures::WIDE_ARITHMETIC
}

fn reservation(size: EngineSize) -> u64 {
    let unchecked = u64::from(size.slots) * u64::from(MEMORIES_PER_SLOT) * RESERVATION_UNCHECKED;
    if unchecked <= ADDRESS_SPACE_FOR_MEMORIES { RESERVATION_UNCHECKED } else { MEMORY_BYTES_MAX }
}

fn pool(size: EngineSize) -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(size.slots)
        .total_core_instances(size.slots.saturating_mul(CORE_INSTANCES_PER_SLOT))
        .total_memories(size.slots.saturating_mul(MEMORIES_PER_SLOT))
        .total_tables(size.slots.saturating_mul(TABLES_PER_SLOT))
        .total_stacks(size.slots)
        .max_memory_size(usize::try_from(MEMORY_BYTES_MAX).unwrap_or(usize::MAX))
        .table_elements(TABLE_ELEMENTS_MAX)
        .max_memories_per_module(16)
        .max_tables_per_module(16)
        .linear_memory_keep_resident(MEMORY_KEPT_BYTES)
        .table_keep_resident(TABLE_KEPT_BYTES)
        .pagemap_scan(Enabled::Auto);
    pool
}
