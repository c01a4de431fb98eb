//! Which cutters a module needs, and under which indices they are added.

use std::collections::HashMap;

use wasm_encoder::{Encode as _, ValType};
use wasmparser::Operator;

use super::bulk::{Bulk, Operands, array};
use super::cutter::{cutter, signature};
use super::facts::Facts;
use super::sections::Items;
use super::{CHANGES_MAX, Piece, Unsplittable};

/// Of one module. One is needed for each kind of instruction and what it works on.
const CUTTERS_MAX: usize = 1_000;
const FUNCTION_TYPE: u8 = 0x60;

pub(super) struct Plan<'a> {
    facts: &'a Facts,
    piece: Piece,
    changes_left: &'a mut usize,
    cutters: Vec<Cutter>,
    by_bulk: HashMap<Bulk, usize>,
    types: Vec<[ValType; 3]>,
}

struct Cutter {
    bulk: Bulk,
    operands: Operands,
    ty: u32,
    function: u32,
}

/// What stands before an instruction.
pub(super) struct Cut {
    /// A length of more than this is cut.
    pub(super) piece: u32,
    /// The cutter, and its type, which is also that of the block around its call.
    pub(super) function: u32,
    pub(super) ty: u32,
}

/// What the sections get behind their own items.
#[derive(Default)]
pub(super) struct Added {
    pub(super) types: Items,
    pub(super) functions: Items,
    pub(super) bodies: Items,
    pub(super) names: Items,
}

impl<'a> Plan<'a> {
    pub(super) fn new(facts: &'a Facts, piece: Piece, changes_left: &'a mut usize) -> Self {
        Self { facts, piece, changes_left, cutters: Vec::new(), by_bulk: HashMap::new(), types: Vec::new() }
    }

    /// How to cut this instruction, if it may be long. Its length is sometimes known.
    pub(super) fn cut(&mut self, bulk: Bulk, length: Option<u32>) -> Result<Option<Cut>, Unsplittable> {
        let operands = bulk.operands(self.facts, self.piece)?;
        if !operands.may_be_long() || length.is_some_and(|length| length <= operands.piece) {
            return Ok(None);
        }
        let Some(left) = self.changes_left.checked_sub(1) else {
            return Err(Unsplittable::TooMany { what: "bulk instructions", max: CHANGES_MAX });
        };
        *self.changes_left = left;
        let index = match self.by_bulk.get(&bulk) {
            Some(index) => *index,
            None => self.add(bulk, operands)?,
        };
        let Cutter { function, ty, .. } = self.cutters[index];
        Ok(Some(Cut { piece: operands.piece, function, ty }))
    }

    /// Arrays live in a heap that no guest has. If one ever has, their instructions are to be cut too.
    pub(super) fn refuse_array(operator: &Operator<'_>) -> Result<(), Unsplittable> {
        array(operator)
            .map_or(Ok(()), |instruction| Err(Unsplittable::NotOffered { instruction, what: "an array".to_owned() }))
    }

    fn add(&mut self, bulk: Bulk, operands: Operands) -> Result<usize, Unsplittable> {
        let index = self.cutters.len();
        if index == CUTTERS_MAX {
            return Err(Unsplittable::TooMany { what: "kinds of bulk instructions in one module", max: CUTTERS_MAX });
        }
        let signature = signature(&operands);
        let ty = self.types.iter().position(|ty| *ty == signature).unwrap_or_else(|| {
            self.types.push(signature);
            self.types.len() - 1
        });
        let ty = behind(self.facts.types(), ty, "types")?;
        let function = behind(self.facts.functions(), index, "functions")?;
        self.cutters.push(Cutter { bulk, operands, ty, function });
        self.by_bulk.insert(bulk, index);
        Ok(index)
    }

    /// What is to be added, if anything is.
    pub(super) fn added(&self) -> Option<Added> {
        if self.cutters.is_empty() {
            return None;
        }
        let mut added = Added::default();
        for signature in &self.types {
            added.types.put(|bytes| {
                bytes.push(FUNCTION_TYPE);
                for side in [signature, signature] {
                    side.len().encode(bytes);
                    side.iter().for_each(|ty| ty.encode(bytes));
                }
            });
        }
        for Cutter { bulk, operands, ty, function } in &self.cutters {
            added.functions.put(|bytes| ty.encode(bytes));
            added.bodies.put(|bytes| cutter(*bulk, operands).encode(bytes));
            added.names.put(|bytes| {
                function.encode(bytes);
                format!("{} in pieces", bulk.name()).as_str().encode(bytes);
            });
        }
        Some(added)
    }
}

fn behind(first: u32, index: usize, what: &'static str) -> Result<u32, Unsplittable> {
    let index = u32::try_from(index).ok().and_then(|index| first.checked_add(index));
    index.ok_or(Unsplittable::TooMany { what, max: usize::try_from(u32::MAX).unwrap_or(usize::MAX) })
}
