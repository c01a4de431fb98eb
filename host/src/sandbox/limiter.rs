//! What a guest may hold: sums its memories and tables, refuses what passes the limits, and remembers that it did.
//!
//! wasmtime's own limiter counts each memory alone, so that many memories pass any limit together.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::ledger::Ledger;
use super::signs::Signs;
use crate::task::Limits;

/// What an element of a table costs.
const TABLE_ELEMENT_BYTES: u64 = 8;

/// The memory of all guests in this process together.
#[derive(Debug)]
pub(crate) struct NodeMemory {
    ledger: Arc<Ledger>,
    bytes_max: u64,
}

impl NodeMemory {
    pub(crate) fn new(ledger: Arc<Ledger>, bytes_max: u64) -> Self {
        Self { ledger, bytes_max }
    }

    fn reserve(&self, bytes: u64) -> bool {
        let grown = |used: u64| used.checked_add(bytes).filter(|&sum| sum <= self.bytes_max);
        self.ledger.guest_memory.fetch_update(Ordering::SeqCst, Ordering::SeqCst, grown).is_ok()
    }

    fn release(&self, bytes: u64) {
        self.ledger.guest_memory.fetch_sub(bytes, Ordering::SeqCst);
    }
}

/// A growth that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Memory {
        wanted: u64,
        max: u64,
    },
    Table {
        wanted: u64,
        max: u64,
    },
    /// The guest kept to its own limits, but all guests together are at the node's.
    Node {
        wanted: u64,
        max: u64,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory { wanted, max } => {
                write!(f, "the guest wanted {wanted} bytes of memory; `memory_bytes_max` is {max}")
            }
            Self::Table { wanted, max } => {
                write!(f, "the guest wanted {wanted} table elements; `table_elements_max` is {max}")
            }
            Self::Node { wanted, max } => {
                write!(f, "all guests of the node together would need {wanted} bytes more than its {max} bytes allow")
            }
        }
    }
}

pub(super) struct Limiter {
    memory_max: u64,
    table_elements_max: u64,
    instances_max: usize,
    memory: u64,
    table_elements: u64,
    refused: Option<Refusal>,
    node: Arc<NodeMemory>,
    signs: Arc<Signs>,
}

impl Limiter {
    pub(super) fn new(limits: &Limits, node: Arc<NodeMemory>, signs: Arc<Signs>) -> Self {
        Self {
            memory_max: limits.memory_bytes_max,
            table_elements_max: limits.table_elements_max,
            instances_max: usize::try_from(limits.instances_max).unwrap_or(usize::MAX),
            memory: 0,
            table_elements: 0,
            refused: None,
            node,
            signs,
        }
    }

    /// The last growth that was refused.
    pub(super) fn refused(&self) -> Option<Refusal> {
        self.refused
    }

    fn grow_memory(&mut self, added: u64) -> Result<(), Refusal> {
        let wanted = self.memory.saturating_add(added);
        if wanted > self.memory_max {
            return Err(Refusal::Memory { wanted, max: self.memory_max });
        }
        self.reserve(added)?;
        self.memory = wanted;
        Ok(())
    }

    fn grow_table(&mut self, added: u64) -> Result<(), Refusal> {
        let wanted = self.table_elements.saturating_add(added);
        if wanted > self.table_elements_max {
            return Err(Refusal::Table { wanted, max: self.table_elements_max });
        }
        self.reserve(added.saturating_mul(TABLE_ELEMENT_BYTES))?;
        self.table_elements = wanted;
        Ok(())
    }

    fn reserve(&self, bytes: u64) -> Result<(), Refusal> {
        if self.node.reserve(bytes) { Ok(()) } else { Err(Refusal::Node { wanted: bytes, max: self.node.bytes_max }) }
    }

    fn settle(&mut self, growth: Result<(), Refusal>) -> bool {
        match growth {
            Ok(()) => self.tell(),
            Err(refusal) => self.refused = Some(refusal),
        }
        growth.is_ok()
    }

    fn held(&self) -> u64 {
        self.memory + self.table_elements * TABLE_ELEMENT_BYTES
    }

    fn tell(&self) {
        self.signs.memory(self.held());
    }
}

impl Drop for Limiter {
    fn drop(&mut self) {
        self.node.release(self.held());
        self.signs.memory(0);
    }
}

/// A growth that is granted here and fails later, for want of the machine's memory, stays on the guest's account.
impl wasmtime::ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, declared: Option<usize>) -> wasmtime::Result<bool> {
        if declared.is_some_and(|max| desired > max) {
            return Ok(false);
        }
        let growth = self.grow_memory(desired.saturating_sub(current) as u64);
        Ok(self.settle(growth))
    }

    fn table_growing(&mut self, current: usize, desired: usize, declared: Option<usize>) -> wasmtime::Result<bool> {
        if declared.is_some_and(|max| desired > max) {
            return Ok(false);
        }
        let growth = self.grow_table(desired.saturating_sub(current) as u64);
        Ok(self.settle(growth))
    }

    fn instances(&self) -> usize {
        self.instances_max
    }

    fn tables(&self) -> usize {
        self.instances_max
    }

    fn memories(&self) -> usize {
        self.instances_max
    }
}
