//! Random modules of every kind: in pieces they are valid, and do the same.

use arbitrary::Unstructured;
use wasm_smith::{InstructionKind, InstructionKinds};
use wasmparser::{Validator, WasmFeatures};
use wasmtime::{Engine, Extern, Instance, Module, Store, Trap, Val};

use super::super::Piece;
use super::{Dice, cut};

const BYTES: usize = 32 << 10;
const TURNS: u32 = 2_000;

fn random_module(seed: u64) -> Option<Vec<u8>> {
    let mut dice = Dice(seed);
    let config = wasm_smith::Config {
        export_everything: true,
        max_imports: 0,
        min_funcs: 3,
        max_funcs: 8,
        max_instructions: 600,
        max_types: 12,
        max_globals: 8,
        min_memories: 1,
        max_memories: 3,
        max_memory32_bytes: 2 << 20,
        memory_max_size_required: true,
        min_tables: 1,
        max_tables: 3,
        max_table_elements: 200,
        table_max_size_required: true,
        min_data_segments: 2,
        max_data_segments: 6,
        min_element_segments: 2,
        max_element_segments: 6,
        max_elements: 30,
        // A start function often traps at once.
        allow_start_export: false,
        allowed_instructions: InstructionKinds::new(&[
            InstructionKind::Control,
            InstructionKind::Memory,
            InstructionKind::Numeric,
            InstructionKind::Parametric,
            InstructionKind::Reference,
            InstructionKind::Table,
            InstructionKind::Variable,
        ]),
        // The engine of the tests has no collector, which `externref` needs.
        reference_types_enabled: dice.below(4) == 0,
        canonicalize_nans: true,
        bulk_memory_enabled: true,
        exceptions_enabled: false,
        gc_enabled: false,
        memory64_enabled: false,
        relaxed_simd_enabled: false,
        threads_enabled: false,
        tail_call_enabled: dice.below(2) == 0,
        ..wasm_smith::Config::default()
    };
    let bytes = dice.bytes(BYTES);
    let mut module = wasm_smith::Module::new(config, &mut Unstructured::new(&bytes)).ok()?;
    module.ensure_termination(TURNS).ok()?;
    Some(module.to_bytes())
}

/// Calls every function, and tells what each gave, and what is left.
fn run(engine: &Engine, bytes: &[u8]) -> Option<Vec<String>> {
    let module = Module::new(engine, bytes).ok()?;
    let mut store = Store::new(engine, ());
    let mut told = Vec::new();
    let instance = match Instance::new(&mut store, &module, &[]) {
        Ok(instance) => instance,
        Err(error) => return Some(vec![format!("{:?}", error.downcast_ref::<Trap>())]),
    };
    let exports: Vec<_> =
        instance.exports(&mut store).map(|export| (export.name().to_owned(), export.into_extern())).collect();
    for (name, export) in &exports {
        let Extern::Func(function) = export else { continue };
        let ty = function.ty(&store);
        let operands: Option<Vec<_>> = ty.params().map(|ty| Val::default_for_ty(&ty)).collect();
        let mut results: Vec<_> = ty.results().map(|_| Val::I32(0)).collect();
        let ended = function.call(&mut store, &operands?, &mut results);
        told.push(match ended {
            Ok(()) => format!("{name}: {}", results.iter().map(plain).collect::<String>()),
            Err(error) => format!("{name}: {:?}", error.downcast_ref::<Trap>()),
        });
    }
    for (name, export) in exports {
        told.push(match export {
            Extern::Global(global) => format!("{name}: {}", plain(&global.get(&mut store))),
            Extern::Memory(memory) => format!("{name}: {:x}", digest(memory.data(&store))),
            Extern::Table(table) => {
                let size = table.size(&store);
                let filled = (0..size).filter(|at| table.get(&mut store, *at).is_some_and(|item| !item.is_null()));
                format!("{name}: {:?} of {size}", filled.collect::<Vec<_>>())
            }
            Extern::Func(_) | Extern::SharedMemory(_) | Extern::Tag(_) => continue,
        });
    }
    Some(told)
}

/// References are of the instance, and only their being there can be compared.
fn plain(value: &Val) -> String {
    match value {
        Val::FuncRef(function) => format!("{} ", function.is_some()),
        other => format!("{other:?} "),
    }
}

fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

#[test]
fn random_modules_stay_valid_and_do_the_same() {
    let engine = Engine::default();
    let (mut changed, mut run_through) = (0, 0);
    for seed in 0..1_000 {
        let Some(whole) = random_module(seed) else { continue };
        let piece = Piece { bytes: 1 + u32::try_from(seed % 5).unwrap(), elements: 1 };
        let cut = cut(&whole, piece).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        if cut == whole {
            continue;
        }
        changed += 1;
        Validator::new_with_features(WasmFeatures::all())
            .validate_all(&cut)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        // What the engine does not offer, it offers neither way.
        if let Some(expected) = run(&engine, &whole) {
            assert_eq!(run(&engine, &cut).unwrap_or_default(), expected, "seed {seed}");
            run_through += 1;
        }
    }
    assert!(changed > 40 && run_through > 20, "{changed} were changed, {run_through} ran");
}
