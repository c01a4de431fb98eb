//! What a person should know of at once: something of a guest that outlives its attempt, a guest that nothing ends, an
//! executor that is not there.
//!
//! Looked for with every reconcile; a difference counts only when it stays.

use std::sync::{Mutex, PoisonError};

use super::Runner;
use crate::executor::{Counts, ExecutorView};
use crate::time::Timestamp;

/// So many looks in a row must find the same: executors are asked now and then, and what is on its way is no leak.
const LOOKS: u32 = 5;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AlertKind {
    /// More of guests is alive than attempts are in hand.
    Leak,
    /// A killed guest is still there.
    Zombie,
    /// An executor has no process that takes guests.
    ExecutorDown,
    /// Writes do not reach the disk.
    StoreFails,
}

impl AlertKind {
    /// Each of them once.
    pub const ALL: [Self; 4] = [Self::Leak, Self::Zombie, Self::ExecutorDown, Self::StoreFails];

    /// The stable code of the API.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Leak => "leak",
            Self::Zombie => "zombie",
            Self::ExecutorDown => "executor_down",
            Self::StoreFails => "store_fails",
        }
    }

    /// What to do about it.
    #[must_use]
    pub const fn hint(self) -> &'static str {
        match self {
            Self::Leak => "nothing is at risk yet; a restart of the node gives back what leaked; please report it",
            Self::Zombie => {
                "its slot is lost until the node restarts; run guests in executor processes to be spared that"
            }
            Self::StoreFails => "make room on the disk; what has ended is written as soon as it can be",
            Self::ExecutorDown => "the node's log says why its process does not start; `atropos doctor` may too",
        }
    }
}

/// An alert that stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    pub kind: AlertKind,
    /// When it was first seen.
    pub since: Timestamp,
    /// What was seen last.
    pub message: String,
}

#[derive(Default)]
pub(super) struct Alerts {
    watched: Mutex<[Watched; AlertKind::ALL.len()]>,
}

#[derive(Default)]
struct Watched {
    looks: u32,
    first_at: Timestamp,
    message: String,
}

impl Alerts {
    /// Those that stand.
    pub(super) fn standing(&self) -> Vec<Alert> {
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let alerts = AlertKind::ALL.into_iter().zip(watched.iter()).filter(|(_, watched)| watched.looks >= LOOKS);
        alerts.map(|(kind, it)| Alert { kind, since: it.first_at, message: it.message.clone() }).collect()
    }

    fn note(&self, kind: AlertKind, found: Option<String>, now: Timestamp) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((_, it)) = AlertKind::ALL.into_iter().zip(watched.iter_mut()).find(|(one, _)| *one == kind) else {
            return;
        };
        match found {
            None => {
                if it.looks >= LOOKS {
                    tracing::info!(alert = kind.code(), "the alert is over");
                }
                *it = Watched::default();
            }
            Some(message) => {
                if it.looks == 0 {
                    it.first_at = now;
                }
                it.looks = it.looks.saturating_add(1);
                if it.looks == LOOKS {
                    tracing::error!(alert = kind.code(), since = %it.first_at, "{message}");
                }
                it.message = message;
            }
        }
    }
}

impl Runner {
    /// What a person should know of.
    #[must_use]
    pub fn alerts(&self) -> Vec<Alert> {
        self.alerts.standing()
    }

    pub(super) fn look_for_alerts(&self) {
        let now = self.clock.now();
        let counts = self.executors.ledger();
        self.alerts.note(AlertKind::Leak, leak(counts, self.live.len()), now);
        let zombies = self.live.killed_before(now - self.config.kill_bound * 2);
        let message = |count: usize| format!("{count} killed guests are still there");
        self.alerts.note(AlertKind::Zombie, (zombies > 0).then(|| message(zombies)), now);
        self.alerts.note(AlertKind::ExecutorDown, down(&self.executors.views()), now);
        let fails = self.store.failed_within(self.config.reconcile_every * 2);
        self.alerts.note(AlertKind::StoreFails, fails.then(|| "writes fail".to_owned()), now);
    }
}

/// What there is more of than attempts in hand can account for.
fn leak(counts: Counts, in_hand: usize) -> Option<String> {
    let of = |name: &str, count: usize| (count > in_hand).then(|| format!("{count} {name}"));
    let left = |name: &str, count: u64| (in_hand == 0 && count > 0).then(|| format!("{count} {name}"));
    let found: Vec<String> = [
        of("attempts in executors", counts.attempts),
        of("sandboxes", counts.sandboxes),
        left("bytes of guests' memory", counts.guest_memory_bytes),
        left("scratch folders", counts.scratch_folders as u64),
        left("sockets", counts.sockets as u64),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!found.is_empty()).then(|| format!("{} are alive, but {in_hand} attempts are in hand", found.join(", ")))
}

fn down(executors: &[ExecutorView]) -> Option<String> {
    let down: Vec<String> =
        executors.iter().filter(|executor| !executor.ready).map(|executor| executor.number.to_string()).collect();
    (!down.is_empty()).then(|| format!("without a process: executor {}", down.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stays_is_an_alert_and_what_goes_ends_it() {
        let alerts = Alerts::default();
        let at = Timestamp::from_micros;
        for look in 1..i64::from(LOOKS) {
            alerts.note(AlertKind::Leak, Some(format!("look {look}")), at(look));
            assert_eq!(alerts.standing(), []);
        }
        alerts.note(AlertKind::Zombie, None, at(8));
        alerts.note(AlertKind::Leak, Some("still".to_owned()), at(9));
        let alert = Alert { kind: AlertKind::Leak, since: at(1), message: "still".to_owned() };
        assert_eq!(alerts.standing(), [alert]);
        alerts.note(AlertKind::Leak, None, at(10));
        assert_eq!(alerts.standing(), []);
    }

    #[test]
    fn more_than_the_attempts_in_hand_is_a_leak() {
        let counts = |attempts, sandboxes, guest_memory_bytes| Counts {
            attempts,
            sandboxes,
            guest_memory_bytes,
            ..Counts::default()
        };
        assert_eq!(leak(counts(2, 2, 100), 2), None);
        assert_eq!(leak(Counts::default(), 0), None);
        assert!(leak(counts(3, 2, 0), 2).is_some());
        assert!(leak(counts(0, 1, 0), 0).is_some());
        assert!(leak(counts(0, 0, 1), 0).is_some());
    }
}
