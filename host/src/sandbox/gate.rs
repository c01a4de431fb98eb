//! Where every way out of the guest's code passes: host calls and epoch checks.
//!
//! A killed guest goes no further, and one whose time slice is over lets others run. A straight line of host calls never
//! reaches an epoch check, so it is stopped here.

use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use wasmtime::{CallHook, CallHookHandler, StoreContextMut};

use super::guest::Guest;
use super::signs::Signs;

/// Bytes that may cross from the guest to the host at one time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Toll {
    /// In the arguments of a host call.
    pub(super) call: usize,
    /// In the result of the guest's export.
    pub(super) result: usize,
}

pub(super) struct Gate {
    signs: Arc<Signs>,
    ticks: Arc<AtomicU64>,
    /// The tick at which the guest last came back from letting others run.
    seen: AtomicU64,
    toll: Toll,
}

impl Gate {
    pub(super) fn new(signs: Arc<Signs>, ticks: Arc<AtomicU64>, toll: Toll) -> Self {
        let seen = AtomicU64::new(ticks.load(Ordering::Relaxed));
        Self { signs, ticks, seen, toll }
    }

    async fn let_others_run(&self) -> wasmtime::Result<()> {
        Yield::default().await;
        self.seen.store(self.ticks.load(Ordering::Relaxed), Ordering::Relaxed);
        self.signs.token.check()
    }
}

type Step<'a> = Pin<Box<dyn Future<Output = wasmtime::Result<()>> + Send + 'a>>;

impl CallHookHandler<Guest> for Gate {
    fn handle_call_event<'a, 'b, 'f>(&'a self, mut store: StoreContextMut<'b, Guest>, event: CallHook) -> Step<'f>
    where
        'a: 'f,
        'b: 'f,
        Self: 'f,
    {
        match event {
            CallHook::CallingHost => {}
            CallHook::ReturningFromHost => {
                store.set_hostcall_fuel(self.toll.result);
                return Box::pin(Pass);
            }
            // An error at the return would hide the trap that caused it.
            CallHook::CallingWasm | CallHook::ReturningFromWasm => return Box::pin(Pass),
        }
        store.set_hostcall_fuel(self.toll.call);
        store.data_mut().call = None;
        if let Err(killed) = self.signs.token.check() {
            return Box::pin(ready(Err(killed)));
        }
        if self.ticks.load(Ordering::Relaxed) == self.seen.load(Ordering::Relaxed) {
            return Box::pin(Pass);
        }
        Box::pin(self.let_others_run())
    }
}

/// Ready at once. Of no size, so that boxing it costs nothing.
struct Pass;

impl Future for Pass {
    type Output = wasmtime::Result<()>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(Ok(()))
    }
}

/// Gives the thread away once.
#[derive(Default)]
struct Yield {
    done: bool,
}

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.done {
            return Poll::Ready(());
        }
        self.done = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
