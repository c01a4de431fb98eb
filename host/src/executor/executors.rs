//! A node's executors, in whichever way they run: one in this process, or several as processes of their own.

use super::fleet::Fleet;
use super::in_process::Executor;
use super::protocol::{AttemptKey, Order};
use super::wire::Lock;
use crate::sandbox::Counts;

/// What runs a node's guests.
pub enum Executors {
    /// Threads of this process. A guest that breaks out of wasmtime, or a fault of wasmtime, takes the whole program along,
    /// and a guest that does not go within the kill bound stays until the program ends.
    Here(Box<Executor>),
    /// Child processes: what nothing else ends is ended with its process.
    Processes(Fleet),
}

/// What can be said of one executor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutorView {
    /// From 0.
    pub number: usize,
    /// Of its process; absent while there is none, and if it has none of its own.
    pub pid: Option<u32>,
    /// Whether it takes attempts.
    pub ready: bool,
    /// How often its process was started.
    pub starts: u64,
    /// Attempts that it was given.
    pub attempts: usize,
    /// What its process has given up.
    pub locks: Vec<Lock>,
}

impl Executors {
    /// Takes an order. Never blocks; orders of one caller are taken one after the other.
    pub fn order(&self, order: Order) {
        match self {
            Self::Here(executor) => executor.order(order),
            Self::Processes(fleet) => fleet.order(order),
        }
    }

    /// Ends an attempt that does not go, whatever else that costs: its process is killed. False if it has none of its own.
    pub fn put_down(&self, key: AttemptKey, why: &str) -> bool {
        match self {
            Self::Here(_) => false,
            Self::Processes(fleet) => fleet.put_down(key, why),
        }
    }

    /// Attempts that have not ended.
    #[must_use]
    pub fn live(&self) -> usize {
        match self {
            Self::Here(executor) => executor.live(),
            Self::Processes(fleet) => fleet.live(),
        }
    }

    /// What is alive of guests, as far as is known. All zero when nothing runs.
    #[must_use]
    pub fn ledger(&self) -> Counts {
        match self {
            Self::Here(executor) => executor.ledger(),
            Self::Processes(fleet) => fleet.ledger(),
        }
    }

    /// Each of them.
    #[must_use]
    pub fn views(&self) -> Vec<ExecutorView> {
        match self {
            Self::Here(executor) => {
                vec![ExecutorView {
                    number: 0,
                    pid: None,
                    ready: true,
                    starts: 1,
                    attempts: executor.live(),
                    locks: Vec::new(),
                }]
            }
            Self::Processes(fleet) => fleet.views(),
        }
    }

    /// Kills what runs, and ends every thread and process. Blocks, for some seconds at most; returns how many attempts it
    /// had to leave.
    pub fn close(&self) -> usize {
        match self {
            Self::Here(executor) => executor.close(),
            Self::Processes(fleet) => fleet.close(),
        }
    }
}
