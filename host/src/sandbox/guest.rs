//! What a store holds for its guest: who it is, its limits, and the state of its WASI calls.

use std::sync::Arc;
use std::time::Duration;

use super::ledger::Entry;
use super::limiter::Limiter;
use super::signs::Signs;
use super::wasi::Wasi;
use crate::id::{TaskId, TraceParent, TypeName};

/// Who and what this attempt is.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub(super) task: TaskId,
    pub(super) attempt: u32,
    pub(super) task_type: TypeName,
    pub(super) trace: TraceParent,
    pub(super) creator: Option<Arc<str>>,
}

pub(crate) struct Guest {
    pub(super) identity: Identity,
    pub(super) run_timeout: Duration,
    pub(super) signs: Arc<Signs>,
    pub(super) limiter: Limiter,
    pub(super) wasi: Wasi,
    /// The host call that the guest is in, or left last.
    pub(super) call: Option<&'static str>,
    pub(super) _entry: Entry,
}

/// Whatever takes the sandbox away, a panic of the host too, it is known where the guest was.
impl Drop for Guest {
    fn drop(&mut self) {
        self.signs.leave(self.call);
    }
}

impl Guest {
    /// Notes that the guest entered a host call, or an interface whose functions are not told apart.
    pub(super) fn enter(&mut self, call: &'static str) -> &mut Self {
        self.call = Some(call);
        self.signs.count_call(call);
        self
    }
}
