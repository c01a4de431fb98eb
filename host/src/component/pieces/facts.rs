//! What must be known of a core module to rewrite its functions: how many types, functions, memories and tables it has, and how long
//! what is in them can be.

use wasm_encoder::{RefType, ValType};
use wasmparser::{
    CompositeInnerType, DataKind, DataSectionReader, ElementItems, ElementKind, ElementSectionReader,
    FunctionSectionReader, ImportSectionReader, MemorySectionReader, MemoryType, TableSectionReader, TableType,
    TypeRef, TypeSectionReader,
};

use super::Unsplittable;
use super::sections::Section;

/// Of types, functions, memories, and so on: as many as the compiler takes of any of them.
const ENTRIES_MAX: usize = 1_000_000;
/// 64 KiB.
const PAGE_SIZE_LOG2: u32 = 16;

/// A memory or a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Space {
    pub(super) kind: SpaceKind,
    pub(super) index: u32,
    /// Bytes or elements that it can ever have.
    pub(super) max: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpaceKind {
    Memory { page_size_log2: u32 },
    Table,
}

#[derive(Default)]
pub(super) struct Facts {
    /// How many parameters each type has, if it is a function's.
    types: Vec<Option<u32>>,
    functions: u32,
    memories: Vec<MemoryType>,
    tables: Vec<TableType>,
    /// Lengths; 0 of those that are empty as soon as the module runs.
    data: Vec<u32>,
    elements: Vec<u32>,
}

impl Facts {
    pub(super) fn read_types(&mut self, section: &Section<'_>) -> Result<(), Unsplittable> {
        for group in TypeSectionReader::new(section.reader())? {
            for ty in group?.types() {
                let params = match &ty.composite_type.inner {
                    CompositeInnerType::Func(func) => u32::try_from(func.params().len()).ok(),
                    CompositeInnerType::Array(_) | CompositeInnerType::Struct(_) | CompositeInnerType::Cont(_) => None,
                };
                push(&mut self.types, params, "types")?;
            }
        }
        Ok(())
    }

    pub(super) fn read_imports(&mut self, section: &Section<'_>) -> Result<(), Unsplittable> {
        for import in ImportSectionReader::new(section.reader())?.into_imports() {
            match import?.ty {
                TypeRef::Func(_) | TypeRef::FuncExact(_) => self.add_functions(1)?,
                TypeRef::Table(ty) => push(&mut self.tables, ty, "tables")?,
                TypeRef::Memory(ty) => push(&mut self.memories, ty, "memories")?,
                TypeRef::Global(_) | TypeRef::Tag(_) => {}
            }
        }
        Ok(())
    }

    pub(super) fn read_functions(&mut self, section: &Section<'_>) -> Result<(), Unsplittable> {
        self.add_functions(FunctionSectionReader::new(section.reader())?.count())
    }

    pub(super) fn read_tables(&mut self, section: &Section<'_>) -> Result<(), Unsplittable> {
        for table in TableSectionReader::new(section.reader())? {
            push(&mut self.tables, table?.ty, "tables")?;
        }
        Ok(())
    }

    pub(super) fn read_memories(&mut self, section: &Section<'_>) -> Result<(), Unsplittable> {
        for memory in MemorySectionReader::new(section.reader())? {
            push(&mut self.memories, memory?, "memories")?;
        }
        Ok(())
    }

    pub(super) fn read_data(&mut self, section: &Section<'_>) -> Result<(), Unsplittable> {
        for segment in DataSectionReader::new(section.reader())? {
            let segment = segment?;
            let length = match segment.kind {
                DataKind::Passive => u32::try_from(segment.data.len()).unwrap_or(u32::MAX),
                DataKind::Active { .. } => 0,
            };
            push(&mut self.data, length, "data segments")?;
        }
        Ok(())
    }

    pub(super) fn read_elements(&mut self, section: &Section<'_>) -> Result<(), Unsplittable> {
        for segment in ElementSectionReader::new(section.reader())? {
            let segment = segment?;
            let length = match (&segment.kind, &segment.items) {
                (ElementKind::Passive, ElementItems::Functions(items)) => items.count(),
                (ElementKind::Passive, ElementItems::Expressions(_, items)) => items.count(),
                (ElementKind::Active { .. } | ElementKind::Declared, _) => 0,
            };
            push(&mut self.elements, length, "element segments")?;
        }
        Ok(())
    }

    pub(super) fn types(&self) -> u32 {
        u32::try_from(self.types.len()).unwrap_or(u32::MAX)
    }

    /// With those that are imported.
    pub(super) fn functions(&self) -> u32 {
        self.functions
    }

    /// How many parameters a function of this type has.
    pub(super) fn params(&self, ty: u32) -> Option<u32> {
        *at(&self.types, ty)?
    }

    pub(super) fn memory(&self, instruction: &'static str, index: u32) -> Result<Space, Unsplittable> {
        let Some(ty) = at(&self.memories, index) else {
            return Err(Unsplittable::Missing { instruction, what: "memory", index });
        };
        if ty.memory64 {
            return Err(Unsplittable::NotOffered { instruction, what: "a 64-bit memory".to_owned() });
        }
        let page_size_log2 = ty.page_size_log2.unwrap_or(PAGE_SIZE_LOG2);
        // A 32-bit memory cannot have more.
        let whole = 1_u64 << 32;
        let max = ty.maximum.map_or(whole, |pages| pages.saturating_mul(1 << page_size_log2.min(PAGE_SIZE_LOG2)));
        Ok(Space { kind: SpaceKind::Memory { page_size_log2 }, index, max: max.min(whole) })
    }

    pub(super) fn table(&self, instruction: &'static str, index: u32) -> Result<Space, Unsplittable> {
        let ty = self.table_type(instruction, index)?;
        let max = ty.maximum.unwrap_or(u64::from(u32::MAX));
        Ok(Space { kind: SpaceKind::Table, index, max })
    }

    /// The type of a table's elements.
    pub(super) fn element(&self, instruction: &'static str, index: u32) -> Result<ValType, Unsplittable> {
        let element = self.table_type(instruction, index)?.element_type;
        match element {
            wasmparser::RefType::FUNCREF => Ok(ValType::Ref(RefType::FUNCREF)),
            wasmparser::RefType::EXTERNREF => Ok(ValType::Ref(RefType::EXTERNREF)),
            _ => Err(Unsplittable::NotOffered { instruction, what: format!("a table of `{element}`") }),
        }
    }

    /// How long this data segment is until it is dropped.
    pub(super) fn data(&self, instruction: &'static str, index: u32) -> Result<u32, Unsplittable> {
        at(&self.data, index).copied().ok_or(Unsplittable::Missing { instruction, what: "data segment", index })
    }

    /// How long this element segment is until it is dropped.
    pub(super) fn elements(&self, instruction: &'static str, index: u32) -> Result<u32, Unsplittable> {
        at(&self.elements, index).copied().ok_or(Unsplittable::Missing { instruction, what: "element segment", index })
    }

    fn add_functions(&mut self, more: u32) -> Result<(), Unsplittable> {
        let max = u32::try_from(ENTRIES_MAX).unwrap_or(u32::MAX);
        let sum = self.functions.checked_add(more).filter(|sum| *sum <= max);
        self.functions = sum.ok_or(Unsplittable::TooMany { what: "functions", max: ENTRIES_MAX })?;
        Ok(())
    }

    fn table_type(&self, instruction: &'static str, index: u32) -> Result<&TableType, Unsplittable> {
        let Some(ty) = at(&self.tables, index) else {
            return Err(Unsplittable::Missing { instruction, what: "table", index });
        };
        if ty.table64 {
            return Err(Unsplittable::NotOffered { instruction, what: "a 64-bit table".to_owned() });
        }
        Ok(ty)
    }
}

fn at<T>(items: &[T], index: u32) -> Option<&T> {
    items.get(usize::try_from(index).ok()?)
}

fn push<T>(items: &mut Vec<T>, item: T, what: &'static str) -> Result<(), Unsplittable> {
    if items.len() == ENTRIES_MAX {
        return Err(Unsplittable::TooMany { what, max: ENTRIES_MAX });
    }
    items.push(item);
    Ok(())
}
