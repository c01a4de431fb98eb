//! A thread that does something small at a steady pace while there is need, and sleeps while there is none.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

/// For so many beats without need the thread stays awake, so that whoever needs it next need not wake it.
const LINGER: u32 = 64;

pub(super) struct Pulse {
    state: Arc<State>,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    asleep: AtomicBool,
    closing: AtomicBool,
}

/// Wakes a pulse.
#[derive(Clone)]
pub(super) struct Nudge {
    state: Arc<State>,
    thread: Thread,
}

impl Nudge {
    /// To be called after the need has become visible.
    pub(super) fn nudge(&self) {
        if self.state.asleep.load(Ordering::SeqCst) {
            self.thread.unpark();
        }
    }
}

impl Pulse {
    pub(super) fn start(
        name: &str,
        period: Duration,
        needed: impl Fn() -> bool + Send + 'static,
        beat: impl Fn() + Send + 'static,
    ) -> io::Result<Self> {
        let state = Arc::new(State::default());
        let own = Arc::clone(&state);
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || own.run(period, &needed, &beat))?;
        Ok(Self { state, thread })
    }

    pub(super) fn nudge(&self) -> Nudge {
        Nudge { state: Arc::clone(&self.state), thread: self.thread.thread().clone() }
    }

    pub(super) fn close(self) -> JoinHandle<()> {
        self.state.closing.store(true, Ordering::SeqCst);
        self.thread.thread().unpark();
        self.thread
    }
}

impl State {
    fn run(&self, period: Duration, needed: &impl Fn() -> bool, beat: &impl Fn()) {
        let mut idle = 0;
        while !self.closing.load(Ordering::SeqCst) {
            if needed() {
                idle = 0;
                beat();
                thread::park_timeout(period);
            } else if idle < LINGER {
                idle += 1;
                thread::park_timeout(period);
            } else {
                self.asleep.store(true, Ordering::SeqCst);
                if !needed() && !self.closing.load(Ordering::SeqCst) {
                    thread::park();
                }
                self.asleep.store(false, Ordering::SeqCst);
                idle = 0;
            }
        }
    }
}
