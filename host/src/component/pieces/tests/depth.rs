//! Random sequences of bulk instructions, on the same module whole and in pieces: after each, memories, tables and traps are the same.

use std::fmt::Write as _;

use wasmtime::{
    Config, Engine, Extern, Func, Instance, Linker, Memory, MemoryType, Module, Ref, RefType, Store, Table, TableType,
    Trap, WasmBacktrace,
};

use super::super::{PIECE, Piece};
use super::{Dice, SMALL, cut, module};

const PAGE: u32 = 64 << 10;
/// What a table may hold, beside nothing.
const CONTENTS: u32 = 5;

/// A module with a function for each bulk instruction, and what they work on.
struct Shape {
    /// Two memories and two tables come from outside; they may be one and the same.
    aliased: bool,
    /// Pages, and the ceiling.
    memories: [(u32, Option<u32>); 2],
    /// Elements, and the ceiling.
    tables: [(u32, Option<u32>); 2],
    data: [u32; 2],
    elements: [u32; 2],
    imported: bool,
}

impl Shape {
    fn random(dice: &mut Dice, piece: Piece) -> Self {
        let imported = dice.below(2) == 0;
        let pages = |dice: &mut Dice| {
            let least = 1 + dice.below(2) + usize::try_from(3 * piece.bytes / PAGE).unwrap();
            let pages = u32::try_from(least).unwrap();
            (pages, dice.one_of(&[None, Some(pages), Some(pages + 1)]))
        };
        let elements = |dice: &mut Dice| {
            let count = piece.elements * 4 + u32::try_from(dice.below(20)).unwrap();
            (count, dice.one_of(&[None, Some(count), Some(count + 5)]))
        };
        let about = |dice: &mut Dice, piece: u32| dice.one_of(&[1, piece, piece + 1, 2 * piece, 3 * piece + 2]);
        let aliased = imported && dice.below(2) == 0;
        let (memories, tables) = ([pages(dice), pages(dice)], [elements(dice), elements(dice)]);
        Self {
            aliased,
            memories: if aliased { [memories[0]; 2] } else { memories },
            tables: if aliased { [tables[0]; 2] } else { tables },
            data: [about(dice, piece.bytes), about(dice, piece.bytes)],
            elements: [about(dice, piece.elements), about(dice, piece.elements)],
            imported,
        }
    }

    fn text(&self) -> String {
        let mut text = "(module (type $content (func (result i32)))\n".to_owned();
        let limits =
            |(min, max): (u32, Option<u32>)| format!("{min} {}", max.map_or(String::new(), |max| max.to_string()));
        for index in 0..2 {
            let import = if self.imported { format!("(import \"out\" \"m{index}\")") } else { String::new() };
            writeln!(text, "(memory (export \"m{index}\") {import} {})", limits(self.memories[index])).unwrap();
            let import = if self.imported { format!("(import \"out\" \"t{index}\")") } else { String::new() };
            writeln!(text, "(table (export \"t{index}\") {import} {} funcref)", limits(self.tables[index])).unwrap();
        }
        for content in 0..CONTENTS {
            writeln!(text, "(func $f{content} (type $content) (i32.const {content}))").unwrap();
        }
        for index in 0..2 {
            let bytes: String =
                (0..self.data[index]).map(|at| format!("\\{:02x}", (at * 7 + 13) % 251)).collect::<Vec<_>>().concat();
            writeln!(text, "(data $d{index} \"{bytes}\")").unwrap();
            let items: String =
                (0..self.elements[index]).map(|at| format!(" $f{}", at % CONTENTS)).collect::<Vec<_>>().concat();
            writeln!(text, "(elem $e{index} func{items})").unwrap();
        }
        text += "(table $all funcref (elem $f0 $f1 $f2 $f3 $f4 $f0))";
        for (name, instruction, second) in instructions() {
            // Some of them have locals of their own, and stand in a block or after other instructions.
            let (locals, second) = match second {
                Second::Number => ("(local i64 f32)", "(local.get 1)".to_owned()),
                Second::Content => ("", "(table.get $all (i32.rem_u (local.get 1) (i32.const 6)))".to_owned()),
            };
            writeln!(
                text,
                "(func ${name} (export \"{name}\") (param i32 i32 i32) {locals}
                   (block (br_if 0 (i32.eqz (i32.const 1)))
                     ({instruction} (local.get 0) {second} (local.get 2))))"
            )
            .unwrap();
        }
        for index in 0..2 {
            writeln!(text, "(func (export \"drop-d{index}\") (param i32 i32 i32) (data.drop $d{index}))").unwrap();
            writeln!(text, "(func (export \"drop-e{index}\") (param i32 i32 i32) (elem.drop $e{index}))").unwrap();
            write!(text, "{}", digest(index)).unwrap();
        }
        text + ")"
    }
}

/// A function that boils down what is in a table.
fn digest(table: usize) -> String {
    format!(
        "(func (export \"digest{table}\") (result i64) (local $i i32) (local $sum i64)
           (block $done (loop $next
             (br_if $done (i32.eq (local.get $i) (table.size {table})))
             (local.set $sum (i64.mul (local.get $sum) (i64.const 1099511628211)))
             (if (ref.is_null (table.get {table} (local.get $i)))
               (then (local.set $sum (i64.add (local.get $sum) (i64.const 77))))
               (else (local.set $sum (i64.add (local.get $sum)
                 (i64.extend_i32_u (call_indirect {table} (type $content) (local.get $i)))))))
             (local.set $i (i32.add (local.get $i) (i32.const 1)))
             (br $next)))
           (local.get $sum))\n"
    )
}

#[derive(Clone, Copy)]
enum Second {
    Number,
    Content,
}

fn instructions() -> Vec<(String, String, Second)> {
    let mut all = Vec::new();
    for a in 0..2 {
        all.push((format!("memory-fill-{a}"), format!("memory.fill {a}"), Second::Number));
        all.push((format!("table-fill-{a}"), format!("table.fill {a}"), Second::Content));
        for b in 0..2 {
            all.push((format!("memory-copy-{a}-{b}"), format!("memory.copy {a} {b}"), Second::Number));
            all.push((format!("memory-init-{a}-{b}"), format!("memory.init {a} $d{b}"), Second::Number));
            all.push((format!("table-copy-{a}-{b}"), format!("table.copy {a} {b}"), Second::Number));
            all.push((format!("table-init-{a}-{b}"), format!("table.init {a} $e{b}"), Second::Number));
        }
    }
    all
}

struct Running {
    store: Store<()>,
    instance: Instance,
}

/// What is left after an instruction.
#[derive(Debug, PartialEq)]
struct Outcome {
    trap: Option<Trap>,
    /// The innermost function, by its index.
    at: Option<u32>,
    tables: [i64; 2],
}

impl Running {
    fn start(engine: &Engine, bytes: &[u8], shape: &Shape) -> Self {
        let compiled = Module::new(engine, bytes).unwrap();
        let mut store = Store::new(engine, ());
        let mut linker = Linker::new(engine);
        for index in 0..2 {
            let of = if shape.aliased { 0 } else { index };
            let known = linker.get(&mut store, "out", &format!("m{of}"));
            let memory = known.unwrap_or_else(|_| {
                let (min, max) = shape.memories[of];
                Extern::from(Memory::new(&mut store, MemoryType::new(min, max)).unwrap())
            });
            linker.define(&store, "out", &format!("m{index}"), memory).unwrap();
            let known = linker.get(&mut store, "out", &format!("t{of}"));
            let table = known.unwrap_or_else(|_| {
                let (min, max) = shape.tables[of];
                Extern::from(
                    Table::new(&mut store, TableType::new(RefType::FUNCREF, min, max), Ref::Func(None)).unwrap(),
                )
            });
            linker.define(&store, "out", &format!("t{index}"), table).unwrap();
        }
        let instance = linker.instantiate(&mut store, &compiled).unwrap();
        Self { store, instance }
    }

    fn function(&mut self, name: &str) -> Func {
        self.instance.get_func(&mut self.store, name).unwrap_or_else(|| panic!("`{name}` is there"))
    }

    fn call(&mut self, name: &str, operands: [u32; 3]) -> Outcome {
        let function = self.function(name).typed::<(u32, u32, u32), ()>(&self.store).unwrap();
        let [to, second, length] = operands;
        let error = function.call(&mut self.store, (to, second, length)).err();
        let trap = error.as_ref().map(|error| *error.downcast_ref::<Trap>().unwrap());
        let at = error.as_ref().and_then(|error| Some(error.downcast_ref::<WasmBacktrace>()?.frames()[0].func_index()));
        let tables = ["digest0", "digest1"].map(|name| {
            let digest = self.function(name).typed::<(), i64>(&self.store).unwrap();
            digest.call(&mut self.store, ()).unwrap()
        });
        Outcome { trap, at, tables }
    }

    fn memory(&mut self, index: usize) -> &[u8] {
        let memory = self.instance.get_memory(&mut self.store, &format!("m{index}")).unwrap();
        memory.data(&self.store)
    }
}

/// A place or length that something may go wrong with.
fn number(dice: &mut Dice, piece: u32, sizes: &[u32]) -> u32 {
    let whole = dice.one_of(sizes);
    let few = u32::try_from(dice.below(5)).unwrap();
    let about = dice.one_of(&[0, piece, 2 * piece, 3 * piece, whole, whole.wrapping_sub(piece), whole / 2, 1 << 31]);
    match dice.below(8) {
        0 => u32::try_from(dice.below(usize::try_from(whole).unwrap().max(1))).unwrap(),
        1 => about.wrapping_sub(few),
        2 => about.wrapping_add(few),
        3 => few,
        4 => 0_u32.wrapping_sub(piece * few).wrapping_sub(few),
        _ => u32::try_from(dice.below(usize::try_from(5 * piece).unwrap())).unwrap(),
    }
}

fn walk(seed: u64, piece: Piece, steps: usize) -> [usize; 2] {
    let mut dice = Dice(seed);
    let shape = Shape::random(&mut dice, piece);
    let whole = module(&shape.text());
    let in_pieces = cut(&whole, piece).unwrap();
    assert_ne!(in_pieces, whole);
    let engine = Engine::new(Config::new().wasm_multi_memory(true)).unwrap();
    let (mut whole, mut in_pieces) =
        (Running::start(&engine, &whole, &shape), Running::start(&engine, &in_pieces, &shape));
    let mut names: Vec<_> = instructions().into_iter().map(|(name, _, _)| name).collect();
    names.extend(["drop-d0", "drop-d1", "drop-e0", "drop-e1"].map(str::to_owned));
    let mut dropped = Vec::new();
    let mut ended = [0, 0];
    for step in 0..steps {
        let name = &names[dice.below(names.len())];
        // A segment that is dropped early makes a dull walk.
        if name.starts_with("drop") && (step < steps / 2 || dice.below(4) > 0) {
            continue;
        }
        let (piece, sizes) = if name.starts_with("memory") {
            (piece.bytes, vec![shape.memories[0].0 * PAGE, shape.memories[1].0 * PAGE, shape.data[0], shape.data[1]])
        } else {
            (piece.elements, vec![shape.tables[0].0, shape.tables[1].0, shape.elements[0], shape.elements[1]])
        };
        let operands = [0; 3].map(|_| number(&mut dice, piece, &sizes));
        let told = format!("seed {seed}, step {step}: {name} {operands:?}");
        let (mut expected, mut found) = (whole.call(name, operands), in_pieces.call(name, operands));
        if let Some(segment) = name.strip_prefix("drop-") {
            dropped.push(segment.to_owned());
        }
        let of_dropped = dropped.iter().any(|segment| {
            let (kind, index) = segment.split_at(1);
            name.starts_with(if kind == "d" { "memory-init" } else { "table-init" }) && name.ends_with(index)
        });
        if of_dropped {
            // Only the cutter finds out, so that its frame stands above.
            (expected.at, found.at) = (None, None);
        }
        assert_eq!(found, expected, "{told}");
        ended[usize::from(expected.trap.is_some())] += 1;
        for index in 0..2 {
            assert!(whole.memory(index) == in_pieces.memory(index), "{told}: memory {index}");
        }
    }
    ended
}

fn walks(seeds: std::ops::Range<u64>, piece: Piece, steps: usize) {
    let ended = seeds.map(|seed| walk(seed, piece, steps)).fold([0, 0], |[a, b], [c, d]| [a + c, b + d]);
    // If most were to trap, or none, little would have been compared.
    assert!(ended.iter().all(|count| *count > (ended[0] + ended[1]) / 5), "{ended:?}");
}

#[test]
fn random_sequences_do_the_same_in_small_pieces() {
    walks(0..60, SMALL, 400);
    walks(60..80, Piece { bytes: 1, elements: 1 }, 200);
}

#[test]
fn random_sequences_do_the_same_in_real_pieces() {
    walks(100..106, PIECE, 150);
}
