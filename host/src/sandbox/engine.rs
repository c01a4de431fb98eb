//! The one place that builds wasmtime engines, so that no guest runs under other settings.

use std::hash::{Hash as _, Hasher};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use serde::{Deserialize, Serialize};
use wasmtime::component::Linker;
use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Strategy, WasmBacktraceDetails,
    WasmFeatures,
};

use super::guest::Guest;
use super::linker;
use super::trap::FRAMES_TAKEN;
use crate::id::Digest;

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
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct EngineSize {
    pub slots: u32,
}

/// Whether instructions are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Metering {
    Off,
    Fuel,
}

impl Metering {
    pub(crate) const ALL: [Self; 2] = [Self::Off, Self::Fuel];
}

/// An engine with everything that its components may import.
pub(crate) struct Workshop {
    pub(crate) engine: Engine,
    pub(crate) linker: Linker<Guest>,
}

/// The engines of one process. All but the plain one are built when first asked for: counting fuel costs up to half of the
/// speed, and noting what a core dump needs makes each kill slower.
pub(crate) struct Engines {
    size: EngineSize,
    plain: Workshop,
    fueled: OnceLock<Workshop>,
    dumping: OnceLock<Workshop>,
    dumping_fueled: OnceLock<Workshop>,
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
            dumping: OnceLock::new(),
            dumping_fueled: OnceLock::new(),
            building: Mutex::new(()),
            ticks: Arc::new(AtomicU64::new(0)),
        })
    }

    pub(crate) fn workshop(&self, metering: Metering) -> wasmtime::Result<&Workshop> {
        if metering == Metering::Off {
            return Ok(&self.plain);
        }
        self.built(&self.fueled, || Workshop::new(self.size, Metering::Fuel))
    }

    /// One whose traps and kills can leave core dumps. It runs the same machine code as the one of this metering that
    /// does not.
    pub(super) fn dump_workshop(&self, metering: Metering) -> wasmtime::Result<&Workshop> {
        let place = match metering {
            Metering::Off => &self.dumping,
            Metering::Fuel => &self.dumping_fueled,
        };
        self.built(place, || Workshop::for_dumps(self.size, metering))
    }

    fn built<'a>(
        &'a self,
        place: &'a OnceLock<Workshop>,
        build: impl FnOnce() -> wasmtime::Result<Workshop>,
    ) -> wasmtime::Result<&'a Workshop> {
        if let Some(workshop) = place.get() {
            return Ok(workshop);
        }
        let _one_at_a_time = self.building.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(workshop) = place.get() {
            return Ok(workshop);
        }
        let workshop = build()?;
        Ok(place.get_or_init(|| workshop))
    }

    /// Ends the time slice of every running guest.
    pub(crate) fn tick(&self) {
        self.ticks.fetch_add(1, Ordering::Relaxed);
        self.interrupt();
    }

    /// Makes every running guest look whether it was killed.
    pub(crate) fn interrupt(&self) {
        self.plain.engine.increment_epoch();
        for built in [&self.fueled, &self.dumping, &self.dumping_fueled] {
            if let Some(workshop) = built.get() {
                workshop.engine.increment_epoch();
            }
        }
    }
}

impl Workshop {
    fn new(size: EngineSize, metering: Metering) -> wasmtime::Result<Self> {
        let mut config = code_config(size, metering);
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(size)));
        Self::of(&config)
    }

    /// One that compiles and checks for an engine of this size, and starts nothing: without the pool's address space.
    pub(crate) fn for_compiling(size: EngineSize, metering: Metering) -> wasmtime::Result<Self> {
        Self::of(&code_config(size, metering))
    }

    /// Sandboxes of their own rather than from a pool: one more pool would take its address space for few guests.
    fn for_dumps(size: EngineSize, metering: Metering) -> wasmtime::Result<Self> {
        let mut config = code_config(size, metering);
        Self::of(config.allocation_strategy(InstanceAllocationStrategy::OnDemand).coredump_on_trap(true))
    }

    fn of(config: &Config) -> wasmtime::Result<Self> {
        let engine = Engine::new(config)?;
        let linker = linker::build(&engine)?;
        Ok(Self { engine, linker })
    }
}

/// What machine code depends on beside the component: two engines of the same print run each other's.
pub(crate) fn code_print(size: EngineSize, metering: Metering) -> wasmtime::Result<Digest> {
    let mut seen = Seen(Vec::new());
    Engine::new(&code_config(size, metering))?.precompile_compatibility_hash().hash(&mut seen);
    Ok(Digest::of(&seen.0))
}

/// Keeps what is hashed: the hash has to be the same in every process.
struct Seen(Vec<u8>);

impl Hasher for Seen {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}

/// Everything that the code depends on. How sandboxes are allocated is not part of it.
fn code_config(size: EngineSize, metering: Metering) -> Config {
    let mut config = Config::new();
    config
        .strategy(Strategy::Cranelift)
        .epoch_interruption(true)
        .consume_fuel(metering == Metering::Fuel)
        .max_wasm_stack(WASM_STACK_BYTES)
        .async_stack_size(FIBER_STACK_BYTES)
        // Source lines would have to be read from what a stranger wrote.
        .wasm_backtrace_details(WasmBacktraceDetails::Disable)
        .wasm_backtrace_max_frames(NonZeroUsize::new(FRAMES_TAKEN))
        // Compiling takes one thread at a low priority rather than all of them at a high one.
        .parallel_compilation(false)
        .concurrency_support(false)
        .shared_memory(false)
        .wasm_features(proposals_off(), false)
        .memory_reservation(reservation(size));
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

/// What sandboxes leave with a process for the next ones, at most, of one engine.
pub(crate) fn kept_bytes(slots: u32) -> u64 {
    let memories = u64::from(MEMORIES_PER_SLOT) * MEMORY_KEPT_BYTES as u64;
    let tables = u64::from(TABLES_PER_SLOT) * TABLE_KEPT_BYTES as u64;
    u64::from(slots) * (memories + tables)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn print_of(engine: &Engine) -> Digest {
        let mut seen = Seen(Vec::new());
        engine.precompile_compatibility_hash().hash(&mut seen);
        Digest::of(&seen.0)
    }

    #[test]
    fn code_is_made_for_the_engines_that_run_it_and_for_no_others() {
        let size = EngineSize { slots: 4 };
        let engines = Engines::new(size).unwrap();
        for metering in Metering::ALL {
            let runs = print_of(&engines.workshop(metering).unwrap().engine);
            assert_eq!(runs, print_of(&Workshop::for_compiling(size, metering).unwrap().engine), "{metering:?}");
            assert_eq!(runs, code_print(size, metering).unwrap(), "{metering:?}");
        }
        let others = [(size, Metering::Fuel), (EngineSize { slots: 4_096 }, Metering::Off)];
        for (size, metering) in others {
            assert_ne!(code_print(size, metering).unwrap(), print_of(&engines.plain.engine), "{size:?} {metering:?}");
        }
    }

    #[test]
    fn code_that_is_compiled_once_runs_with_core_dumps_and_without() {
        let engines = Engines::new(EngineSize { slots: 2 }).unwrap();
        for metering in Metering::ALL {
            let (plain, dumping) = (engines.workshop(metering).unwrap(), engines.dump_workshop(metering).unwrap());
            assert_eq!(print_of(&plain.engine), print_of(&dumping.engine), "{metering:?}");
        }
    }
}
