//! Ends killed attempts from outside: takes their guests away, and drops what they held, on threads of normal priority.
//!
//! Giving back much memory takes milliseconds, so that is left to other threads than the one that takes guests away.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use super::attempt::{Attempt, Over};
use super::core::Core;

/// A sandbox with more memory than this is dropped on the slow threads.
const LARGE_BYTES: u64 = 1 << 20;

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
}

/// The other end of [`Grave`], before its threads run.
pub(super) struct Pit {
    jobs: Receiver<Job>,
}

pub(super) fn dig() -> (Grave, Pit) {
    let (sender, receiver) = channel();
    (Grave { jobs: sender }, Pit { jobs: receiver })
}

impl Grave {
    pub(super) fn reap(&self, attempt: Arc<Attempt>) {
        // After the threads have quit, nothing lives that could be killed.
        let _ = self.jobs.send(Job::Reap(attempt));
    }

    /// Ends the threads once they have done what was sent before.
    pub(super) fn quit(&self) {
        let _ = self.jobs.send(Job::Quit);
    }
}

/// Starts the threads.
pub(super) fn start(core: &Arc<Core>, pit: Pit, slow_threads: usize) -> io::Result<Vec<JoinHandle<()>>> {
    let (burials, slow) = channel();
    let slow = Arc::new(Mutex::new(slow));
    let mut threads = Vec::new();
    for number in 0..slow_threads {
        let (core, slow) = (Arc::clone(core), Arc::clone(&slow));
        threads.push(thread::Builder::new().name(format!("atropos-bury-{number}")).spawn(move || bury(&core, &slow))?);
    }
    let core = Arc::clone(core);
    threads.push(thread::Builder::new().name("atropos-reap".to_owned()).spawn(move || {
        reap(&core, &pit.jobs, &burials);
        for _ in 0..slow_threads {
            let _ = burials.send(Burial::Quit);
        }
    })?);
    Ok(threads)
}

fn reap(core: &Core, jobs: &Receiver<Job>, burials: &Sender<Burial>) {
    // Guests wait with the timers of their runtime.
    let _timers = core.threads.enter();
    while let Ok(Job::Reap(attempt)) = jobs.recv() {
        let large = attempt.signs.memory_now() > LARGE_BYTES;
        match attempt.reap() {
            None => {}
            Some(over) if large => {
                let _ = burials.send(Burial::Drop(attempt, Box::new(over)));
            }
            Some(over) => core.finish(&attempt, over),
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
