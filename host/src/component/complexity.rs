//! Refuses, before anything is compiled, what no component of a real toolchain has and what would take minutes or
//! gigabytes to compile. Reads the binary once, and checks nothing else of it.
//!
//! Must not know wasmtime: what it lets through may still be invalid.

use wasmparser::{
    BlockType, ContType, ElementItems, FrameKind, FuncType, FunctionBody, ModuleArity, Operator, Parser, Payload,
    RefType, SubType, TypeRef,
};

use super::error::ComponentError;

/// A number that a real toolchain stays below. The largest programs that were looked at (a C++ compiler of 26 MB, Python
/// of 18 MB, Go, `QuickJS`) have at most a quarter of each, but for Go's 42,000 data segments. What is below and still
/// costs too much is cut by the limits on compiling.
struct Bound {
    what: &'static str,
    max: u64,
}

const MODULES: Bound = Bound { what: "core modules", max: 1_000 };
const COMPONENTS: Bound = Bound { what: "nested components", max: 1_000 };
const NESTING: Bound = Bound { what: "components within each other", max: 20 };
const INSTANCES: Bound = Bound { what: "instances", max: 1_000 };
const COMPONENT_ITEMS: Bound = Bound { what: "types, aliases and functions of components", max: 100_000 };
const TYPES: Bound = Bound { what: "types of core modules", max: 100_000 };
const TYPE_VALUES: Bound = Bound { what: "params and results of all types together", max: 1_000_000 };
const FUNCTIONS: Bound = Bound { what: "functions", max: 200_000 };
const IMPORTS: Bound = Bound { what: "imports and exports of core modules", max: 100_000 };
const GLOBALS: Bound = Bound { what: "globals", max: 100_000 };
const MEMORIES: Bound = Bound { what: "memories and tables", max: 1_000 };
const ELEMENTS: Bound = Bound { what: "elements of tables", max: 100_000 };
const SEGMENTS: Bound = Bound { what: "data and element segments", max: 100_000 };
const BODY: Bound = Bound { what: "bytes of code in one function", max: 2 << 20 };
const LOCALS: Bound = Bound { what: "locals in one function", max: 5_000 };
const DEPTH: Bound = Bound { what: "blocks within each other", max: 10_000 };
const HEIGHT: Bound = Bound { what: "values on the stack of one function", max: 2_000 };
const TARGETS: Bound = Bound { what: "targets of jump tables in one function", max: 100_000 };
const MOVES: Bound = Bound { what: "values passed by calls and jumps in one function", max: 250_000 };
const WEAVE: Bound = Bound { what: "locals times loops in one function", max: 2_000_000 };

impl Bound {
    fn hold(&self, found: u64) -> Result<(), ComponentError> {
        if found <= self.max {
            return Ok(());
        }
        Err(ComponentError::TooComplex { what: self.what.into(), found, max: self.max })
    }
}

/// Why the walk is over before the end.
enum Stop {
    TooComplex(ComponentError),
    /// It is no proper binary from here on. The compiler, which reads it in the same order, says it better.
    Malformed,
}

impl From<ComponentError> for Stop {
    fn from(error: ComponentError) -> Self {
        Self::TooComplex(error)
    }
}

impl From<wasmparser::BinaryReaderError> for Stop {
    fn from(_: wasmparser::BinaryReaderError) -> Self {
        Self::Malformed
    }
}

/// Walks through the component once.
///
/// # Errors
/// Names the first number that is out of bounds.
pub(super) fn check(bytes: &[u8]) -> Result<(), ComponentError> {
    match Walk::default().over(bytes) {
        Ok(()) | Err(Stop::Malformed) => Ok(()),
        Err(Stop::TooComplex(error)) => Err(error),
    }
}

/// What was counted so far, in all modules together.
#[derive(Default)]
struct Walk {
    modules: u64,
    components: u64,
    instances: u64,
    component_items: u64,
    types: u64,
    type_values: u64,
    functions: u64,
    imports: u64,
    globals: u64,
    memories: u64,
    elements: u64,
    segments: u64,
    /// The modules and components that have begun and not ended.
    open: Vec<Module>,
}

/// What calls and blocks of one core module need to be weighed.
#[derive(Default)]
struct Module {
    types: Vec<SubType>,
    functions: Vec<u32>,
}

impl Walk {
    fn over(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        for payload in Parser::new(0).parse_all(bytes) {
            match payload? {
                Payload::Version { .. } => {
                    self.open.push(Module::default());
                    NESTING.hold(self.open.len() as u64)?;
                }
                Payload::End(_) => drop(self.open.pop()),
                Payload::ModuleSection { .. } => add(&mut self.modules, 1, &MODULES)?,
                Payload::ComponentSection { .. } => add(&mut self.components, 1, &COMPONENTS)?,
                Payload::InstanceSection(all) => add(&mut self.instances, all.count(), &INSTANCES)?,
                Payload::ComponentInstanceSection(all) => add(&mut self.instances, all.count(), &INSTANCES)?,
                Payload::CoreTypeSection(all) => self.component_items(all.count())?,
                Payload::ComponentAliasSection(all) => self.component_items(all.count())?,
                Payload::ComponentTypeSection(all) => self.component_items(all.count())?,
                Payload::ComponentCanonicalSection(all) => self.component_items(all.count())?,
                Payload::ComponentImportSection(all) => self.component_items(all.count())?,
                Payload::ComponentExportSection(all) => self.component_items(all.count())?,
                payload => self.core(payload)?,
            }
        }
        Ok(())
    }

    fn component_items(&mut self, count: u32) -> Result<(), ComponentError> {
        add(&mut self.component_items, count, &COMPONENT_ITEMS)
    }

    /// A part of a core module.
    fn core(&mut self, payload: Payload<'_>) -> Result<(), Stop> {
        let Some(module) = self.open.last_mut() else { return Err(Stop::Malformed) };
        match payload {
            Payload::TypeSection(all) => {
                add(&mut self.types, all.count(), &TYPES)?;
                for group in all {
                    for ty in group?.into_types() {
                        let (params, results) = module.sub_type_arity(&ty).unwrap_or_default();
                        add(&mut self.type_values, params.saturating_add(results), &TYPE_VALUES)?;
                        module.types.push(ty);
                        // One group may have many types, and counts as one above.
                        TYPES.hold(module.types.len() as u64)?;
                    }
                }
            }
            Payload::ImportSection(all) => {
                add(&mut self.imports, all.count(), &IMPORTS)?;
                for import in all.into_imports() {
                    if let TypeRef::Func(ty) | TypeRef::FuncExact(ty) = import?.ty {
                        module.functions.push(ty);
                        IMPORTS.hold(module.functions.len() as u64)?;
                    }
                }
            }
            Payload::FunctionSection(all) => {
                add(&mut self.functions, all.count(), &FUNCTIONS)?;
                for ty in all {
                    module.functions.push(ty?);
                }
            }
            Payload::ExportSection(all) => add(&mut self.imports, all.count(), &IMPORTS)?,
            Payload::GlobalSection(all) => add(&mut self.globals, all.count(), &GLOBALS)?,
            Payload::TagSection(all) => add(&mut self.globals, all.count(), &GLOBALS)?,
            Payload::TableSection(all) => add(&mut self.memories, all.count(), &MEMORIES)?,
            Payload::MemorySection(all) => add(&mut self.memories, all.count(), &MEMORIES)?,
            Payload::DataSection(all) => add(&mut self.segments, all.count(), &SEGMENTS)?,
            Payload::ElementSection(all) => {
                add(&mut self.segments, all.count(), &SEGMENTS)?;
                for segment in all {
                    let count = match segment?.items {
                        ElementItems::Functions(items) => items.count(),
                        ElementItems::Expressions(_, items) => items.count(),
                    };
                    add(&mut self.elements, count, &ELEMENTS)?;
                }
            }
            Payload::CodeSectionEntry(body) => Function::of(module).over(&body)?,
            _ => (),
        }
        Ok(())
    }
}

fn add(sum: &mut u64, count: u32, bound: &Bound) -> Result<(), ComponentError> {
    *sum = sum.saturating_add(u64::from(count));
    bound.hold(*sum)
}

/// One function, while it is read.
struct Function<'a> {
    module: &'a Module,
    /// Each block with the height of the stack below it.
    blocks: Vec<(BlockType, FrameKind, u64)>,
    height: u64,
    loops: u64,
    targets: u64,
    moves: u64,
}

impl<'a> Function<'a> {
    fn of(module: &'a Module) -> Self {
        Self { module, blocks: Vec::new(), height: 0, loops: 0, targets: 0, moves: 0 }
    }

    fn over(mut self, body: &FunctionBody<'_>) -> Result<(), Stop> {
        BODY.hold(body.range().len() as u64)?;
        let mut locals = 0_u64;
        for group in body.get_locals_reader()? {
            locals = locals.saturating_add(u64::from(group?.0));
            LOCALS.hold(locals)?;
        }
        for operator in body.get_operators_reader()? {
            self.step(&operator?)?;
            HEIGHT.hold(self.height)?;
            MOVES.hold(self.moves)?;
        }
        WEAVE.hold(locals.saturating_mul(self.loops))?;
        Ok(())
    }

    fn step(&mut self, operator: &Operator<'_>) -> Result<(), Stop> {
        // A block's parameters are its own, and an end has no arity without a block: the function's own end.
        let (taken, given) = operator.operator_arity(self).unwrap_or_default();
        match operator {
            Operator::Block { blockty } => self.open(*blockty, FrameKind::Block, taken, 0)?,
            Operator::If { blockty } => self.open(*blockty, FrameKind::If, taken, 1)?,
            Operator::Loop { blockty } => {
                self.loops += 1;
                self.open(*blockty, FrameKind::Loop, taken, 0)?;
            }
            Operator::TryTable { try_table } => self.open(try_table.ty, FrameKind::TryTable, taken, 0)?,
            Operator::Else => {
                if let Some((_, _, base)) = self.blocks.last() {
                    self.height = base + u64::from(given);
                }
            }
            Operator::End => {
                if let Some((_, _, base)) = self.blocks.pop() {
                    self.height = base + u64::from(given);
                }
            }
            Operator::BrTable { targets } => {
                self.targets = self.targets.saturating_add(u64::from(targets.len()));
                TARGETS.hold(self.targets)?;
                self.moves = self.moves.saturating_add(u64::from(taken).saturating_mul(u64::from(targets.len())));
                self.height = self.height.saturating_sub(u64::from(taken));
            }
            _ => {
                if passes(operator) {
                    self.moves = self.moves.saturating_add(u64::from(taken) + u64::from(given));
                }
                self.height = self.height.saturating_sub(u64::from(taken)) + u64::from(given);
            }
        }
        Ok(())
    }

    fn open(&mut self, ty: BlockType, kind: FrameKind, taken: u32, condition: u32) -> Result<(), ComponentError> {
        let params = u64::from(taken.saturating_sub(condition));
        self.moves = self.moves.saturating_add(params);
        self.height = self.height.saturating_sub(u64::from(condition));
        self.blocks.push((ty, kind, self.height.saturating_sub(params)));
        DEPTH.hold(self.blocks.len() as u64)
    }
}

/// Whether it passes values on, rather than making one of few.
fn passes(operator: &Operator<'_>) -> bool {
    matches!(
        operator,
        Operator::Call { .. }
            | Operator::CallIndirect { .. }
            | Operator::ReturnCall { .. }
            | Operator::ReturnCallIndirect { .. }
            | Operator::Return
            | Operator::Br { .. }
            | Operator::BrIf { .. }
    )
}

impl ModuleArity for Module {
    fn sub_type_at(&self, type_idx: u32) -> Option<&SubType> {
        self.types.get(type_idx as usize)
    }

    fn tag_type_arity(&self, _: u32) -> Option<(u32, u32)> {
        None
    }

    fn type_index_of_function(&self, function_idx: u32) -> Option<u32> {
        self.functions.get(function_idx as usize).copied()
    }

    fn func_type_of_cont_type(&self, _: &ContType) -> Option<&FuncType> {
        None
    }

    fn sub_type_of_ref_type(&self, _: &RefType) -> Option<&SubType> {
        None
    }

    fn control_stack_height(&self) -> u32 {
        0
    }

    fn label_block(&self, _: u32) -> Option<(BlockType, FrameKind)> {
        None
    }
}

impl ModuleArity for Function<'_> {
    fn sub_type_at(&self, type_idx: u32) -> Option<&SubType> {
        self.module.sub_type_at(type_idx)
    }

    fn tag_type_arity(&self, _: u32) -> Option<(u32, u32)> {
        None
    }

    fn type_index_of_function(&self, function_idx: u32) -> Option<u32> {
        self.module.type_index_of_function(function_idx)
    }

    fn func_type_of_cont_type(&self, _: &ContType) -> Option<&FuncType> {
        None
    }

    fn sub_type_of_ref_type(&self, _: &RefType) -> Option<&SubType> {
        None
    }

    fn control_stack_height(&self) -> u32 {
        u32::try_from(self.blocks.len()).unwrap_or(u32::MAX)
    }

    fn label_block(&self, depth: u32) -> Option<(BlockType, FrameKind)> {
        let at = self.blocks.len().checked_sub(1)?.checked_sub(depth as usize)?;
        self.blocks.get(at).map(|(ty, kind, _)| (*ty, *kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(module: &str) -> Option<String> {
        let bytes = wat::parse_str(format!("(component (core module {module}))")).unwrap();
        match check(&bytes) {
            Ok(()) => None,
            Err(ComponentError::TooComplex { what, found, max }) => {
                assert!(found > max, "{what}");
                Some(what.into_owned())
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn repeated(before: &str, part: &str, count: u64, after: &str) -> Option<String> {
        of(&format!("{before}{}{after}", part.repeat(usize::try_from(count).unwrap())))
    }

    #[test]
    fn at_a_bound_it_passes_and_beyond_it_is_named() {
        let cases = [
            (&LOCALS, "(func (local ", "i32 ", "))"),
            (&DEPTH, "(func ", "block ", ""),
            (&HEIGHT, "(func ", "i32.const 0 ", "unreachable)"),
            (&MEMORIES, "", "(memory 1)", ""),
            (&ELEMENTS, "(table 1 funcref) (func $f) (elem func ", "0 ", ")"),
            (&GLOBALS, "", "(global i32 (i32.const 0))", ""),
        ];
        for (bound, before, part, after) in cases {
            let ends = |count: u64| match bound.what {
                "blocks within each other" => "end ".repeat(usize::try_from(count).unwrap()) + ")",
                _ => after.to_owned(),
            };
            assert_eq!(repeated(before, part, bound.max, &ends(bound.max)), None, "{}", bound.what);
            let beyond = repeated(before, part, bound.max + 1, &ends(bound.max + 1));
            assert_eq!(beyond.as_deref(), Some(bound.what));
        }
    }

    #[test]
    fn what_is_passed_along_counts_for_each_pass() {
        let values = "i32 ".repeat(1_000);
        let wide = format!("(type $t (func (param {values}) (result {values}))) (func $f (type $t) unreachable)");
        let gets = (0..1_000).map(|at| format!("local.get {at} ")).collect::<Vec<_>>().concat();
        let func = |calls: usize| format!("{wide} (func (type $t) {gets} {})", "call $f ".repeat(calls));
        assert_eq!(of(&func(125)), None);
        assert_eq!(of(&func(126)).as_deref(), Some(MOVES.what));
    }

    #[test]
    fn the_stack_is_as_high_as_it_is() {
        let block = "(block (result i32 i32) i32.const 0 i32.const 1 br 0) drop drop ".repeat(5_000);
        assert_eq!(of(&format!("(func {block})")), None, "a block leaves what it says");
        let branch = "(if (i32.const 1) (then i32.const 0 drop) (else i32.const 0 drop)) ".repeat(5_000);
        assert_eq!(of(&format!("(func {branch})")), None);
        let call = "call $three drop drop drop ".repeat(5_000);
        assert_eq!(of(&format!("(func $three (result i32 i32 i32) unreachable) (func {call})")), None);
    }

    #[test]
    fn what_is_malformed_is_left_to_who_says_it_better() {
        for bytes in [&b"\0asm\x0d\0\x01\0 and nonsense"[..], b"", b"\0asm\x0d\0\x01\0\x01\xff\xff\xff\xff\x0f"] {
            assert_eq!(check(bytes), Ok(()));
        }
    }

    #[test]
    fn every_example_passes() {
        for name in ["hello", "export-report", "flaky", "runaway"] {
            let path = format!("{}/../examples/{name}.wasm", env!("CARGO_MANIFEST_DIR"));
            assert_eq!(check(&std::fs::read(path).unwrap()), Ok(()), "{name}");
        }
    }
}
