//! The node itself: its executors, what is alive in them, and what a person should know of.

use super::Host;
use crate::executor::{Counts, ExecutorView};
use crate::id::NodeId;
use crate::runner::Alert;

/// A node as it is now.
#[derive(Clone, Debug)]
pub struct NodeView {
    pub id: NodeId,
    pub slots: usize,
    pub slots_free: usize,
    /// Attempts in hand.
    pub attempts: usize,
    /// What is alive of guests, as the executors counted it when they were last asked.
    pub counts: Counts,
    pub executors: Vec<ExecutorView>,
}

impl Host {
    /// This node.
    #[must_use]
    pub fn node(&self) -> NodeView {
        let runner = &self.inner.runner;
        NodeView {
            id: runner.node,
            slots: self.inner.config.slots,
            slots_free: runner.slots_free(),
            attempts: runner.ledger().0,
            counts: runner.executors().ledger(),
            executors: runner.executors().views(),
        }
    }

    /// What a person should know of at once. Empty when all is well.
    #[must_use]
    pub fn alerts(&self) -> Vec<Alert> {
        self.inner.runner.alerts()
    }
}
