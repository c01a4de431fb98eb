//! Ends killed attempts from outside: takes their guests away, and drops what they held, on threads of normal priority.
//!
//! Giving back much memory takes milliseconds, and writing a core dump tens of them, so that is left to other threads than the one that takes guests away.

use std::io;
use std::sync::mpsc::{Receiver, SendError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use super::attempt::{Attempt, Over};
use super::core::Core;

enum Job {
    Reap(Arc<Attempt>),
    Quit,
}

enum Burial {
    Drop(Arc<Attempt>, Box<Over>),
    Quit,
}

/// Where killed attempts are sent.
pub(super) struct Grave {
    jobs: Sender<Job>,
    burials: Sender<Burial>,
}

/// The other end of [`Grave`], before its threads run.
pub(super) struct Pit {
    jobs: Receiver<Job>,
    burials: Receiver<Burial>,
}

pub(super) fn dig() -> (Grave, Pit) {
    let (jobs, reaped) = channel();
    let (burials, buried) = channel();
    (Grave { jobs, burials }, Pit { jobs: reaped, burials: buried })
}

impl Grave {
    pub(super) fn reap(&self, attempt: Arc<Attempt>) {
        // After the threads have quit, nothing lives that could be killed.
        let _ = self.jobs.send(Job::Reap(attempt));
    }

    /// Leaves the end of an attempt to the slow threads, or gives it back if they are no more.
    pub(super) fn bury(&self, attempt: &Arc<Attempt>, over: Over) -> Option<Over> {
        match self.burials.send(Burial::Drop(Arc::clone(attempt), Box::new(over))) {
            Err(SendError(Burial::Drop(_, over))) => Some(*over),
            Ok(()) | Err(SendError(Burial::Quit)) => None,
        }
    }

    /// Ends the threads once they have done what was sent before.
    pub(super) fn quit(&self) {
        let _ = self.jobs.send(Job::Quit);
    }
}

/// Starts the threads.
pub(super) fn start(core: &Arc<Core>, pit: Pit, slow_threads: usize) -> io::Result<Vec<JoinHandle<()>>> {
    let Pit { jobs, burials } = pit;
    let slow = Arc::new(Mutex::new(burials));
    let mut threads = Vec::new();
    for number in 0..slow_threads {
        let (core, slow) = (Arc::clone(core), Arc::clone(&slow));
        threads.push(thread::Builder::new().name(format!("atropos-bury-{number}")).spawn(move || bury(&core, &slow))?);
    }
    let core = Arc::clone(core);
    threads.push(thread::Builder::new().name("atropos-reap".to_owned()).spawn(move || {
        reap(&core, &jobs);
        for _ in 0..slow_threads {
            let _ = core.grave.burials.send(Burial::Quit);
        }
    })?);
    Ok(threads)
}

fn reap(core: &Core, jobs: &Receiver<Job>) {
    // Guests wait with the timers of their runtime.
    let _timers = core.threads.enter();
    while let Ok(Job::Reap(attempt)) = jobs.recv() {
        let large = Core::is_large(&attempt);
        let seat = core.black_box.as_ref().and_then(|black_box| black_box.enter(attempt.key));
        let over = attempt.reap();
        drop(seat);
        match over {
            None => {}
            Some(over) if large => {
                core.caught(&attempt);
                if let Some(over) = core.grave.bury(&attempt, over) {
                    core.finish(&attempt, over);
                }
            }
            Some(over) => core.conclude(&attempt, over),
        }
    }
}

fn bury(core: &Core, burials: &Mutex<Receiver<Burial>>) {
    let _timers = core.threads.enter();
    loop {
        let next = burials.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match next {
            Ok(Burial::Drop(attempt, over)) => core.finish(&attempt, *over),
            Ok(Burial::Quit) | Err(_) => return,
        }
    }
}
