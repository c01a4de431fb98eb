//! The bulk instructions, and what each works on. Knows nothing of where they stand.

use wasm_encoder::{InstructionSink, ValType};
use wasmparser::Operator;

use super::facts::{Facts, Space};
use super::{Piece, Unsplittable};

/// An instruction over a range, whose last operand is the length of the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Bulk {
    MemoryFill { memory: u32 },
    MemoryCopy { to: u32, from: u32 },
    MemoryInit { memory: u32, data: u32 },
    TableFill { table: u32 },
    TableCopy { to: u32, from: u32 },
    TableInit { table: u32, elements: u32 },
}

/// What the second operand is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The same for the whole range.
    Value,
    /// Where to read, in a memory or table.
    Space(Space),
    /// Where to read, in a segment of this length. It may have been dropped, and then has none.
    Segment { length: u32 },
}

/// What an instruction works on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operands {
    pub(super) to: Space,
    pub(super) from: Source,
    /// Of the second one; the others are `i32`.
    pub(super) second: ValType,
    /// As much as is done at a time.
    pub(super) piece: u32,
}

impl Operands {
    /// Whether some length is in bounds and longer than a piece.
    pub(super) fn may_be_long(&self) -> bool {
        let from = match self.from {
            Source::Value => u64::MAX,
            Source::Space(space) => space.max,
            Source::Segment { length } => u64::from(length),
        };
        self.to.max.min(from) > u64::from(self.piece)
    }
}

impl Bulk {
    pub(super) fn of(operator: &Operator<'_>) -> Option<Self> {
        match *operator {
            Operator::MemoryFill { mem } => Some(Self::MemoryFill { memory: mem }),
            Operator::MemoryCopy { dst_mem, src_mem } => Some(Self::MemoryCopy { to: dst_mem, from: src_mem }),
            Operator::MemoryInit { data_index, mem } => Some(Self::MemoryInit { memory: mem, data: data_index }),
            Operator::TableFill { table } => Some(Self::TableFill { table }),
            Operator::TableCopy { dst_table, src_table } => Some(Self::TableCopy { to: dst_table, from: src_table }),
            Operator::TableInit { elem_index, table } => Some(Self::TableInit { table, elements: elem_index }),
            _ => None,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::MemoryFill { .. } => "memory.fill",
            Self::MemoryCopy { .. } => "memory.copy",
            Self::MemoryInit { .. } => "memory.init",
            Self::TableFill { .. } => "table.fill",
            Self::TableCopy { .. } => "table.copy",
            Self::TableInit { .. } => "table.init",
        }
    }

    pub(super) fn operands(self, facts: &Facts, piece: Piece) -> Result<Operands, Unsplittable> {
        let name = self.name();
        let plain = |to, from, piece| Operands { to, from, second: ValType::I32, piece };
        Ok(match self {
            Self::MemoryFill { memory } => plain(facts.memory(name, memory)?, Source::Value, piece.bytes),
            Self::MemoryCopy { to, from } => {
                plain(facts.memory(name, to)?, Source::Space(facts.memory(name, from)?), piece.bytes)
            }
            Self::MemoryInit { memory, data } => {
                let length = facts.data(name, data)?;
                plain(facts.memory(name, memory)?, Source::Segment { length }, piece.bytes)
            }
            Self::TableFill { table } => {
                let to = facts.table(name, table)?;
                Operands { to, from: Source::Value, second: facts.element(name, table)?, piece: piece.elements }
            }
            Self::TableCopy { to, from } => {
                plain(facts.table(name, to)?, Source::Space(facts.table(name, from)?), piece.elements)
            }
            Self::TableInit { table, elements } => {
                let length = facts.elements(name, elements)?;
                plain(facts.table(name, table)?, Source::Segment { length }, piece.elements)
            }
        })
    }

    pub(super) fn write(self, sink: &mut InstructionSink<'_>) {
        match self {
            Self::MemoryFill { memory } => sink.memory_fill(memory),
            Self::MemoryCopy { to, from } => sink.memory_copy(to, from),
            Self::MemoryInit { memory, data } => sink.memory_init(memory, data),
            Self::TableFill { table } => sink.table_fill(table),
            Self::TableCopy { to, from } => sink.table_copy(to, from),
            Self::TableInit { table, elements } => sink.table_init(table, elements),
        };
    }
}

/// The name of an instruction over a range of an array.
pub(super) const fn array(operator: &Operator<'_>) -> Option<&'static str> {
    match operator {
        Operator::ArrayNew { .. }
        | Operator::ArrayNewDefault { .. }
        | Operator::ArrayNewData { .. }
        | Operator::ArrayNewElem { .. } => Some("array.new"),
        Operator::ArrayFill { .. } => Some("array.fill"),
        Operator::ArrayCopy { .. } => Some("array.copy"),
        Operator::ArrayInitData { .. } | Operator::ArrayInitElem { .. } => Some("array.init"),
        _ => None,
    }
}
