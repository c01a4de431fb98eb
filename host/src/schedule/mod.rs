//! Which task next. Pure: told what is ready, it says in which order to claim.
//!
//! Must not know stores, clocks or chance.

use crate::id::TaskId;
use crate::time::Timestamp;

/// One claim in this many takes the task that has been ready longest, whatever its priority, so that a steady
/// stream of urgent work cannot keep the rest waiting for ever.
pub const OLDEST_EVERY: u64 = 10;

/// A task that could start now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub id: TaskId,
    /// Higher first.
    pub priority: i8,
    pub ready_at: Timestamp,
}

/// The tasks to claim for `slots` free slots, in order. `claims` counts the claims made before.
#[must_use]
pub fn pick(mut candidates: Vec<Candidate>, slots: usize, claims: u64) -> Vec<TaskId> {
    candidates.sort_by_key(|c| (std::cmp::Reverse(c.priority), c.ready_at, c.id));
    let mut picked = Vec::with_capacity(slots.min(candidates.len()));
    let mut by_age: Vec<Candidate> = candidates.clone();
    by_age.sort_by_key(|c| (c.ready_at, c.id));
    let mut taken = std::collections::HashSet::new();
    let (mut urgent, mut old) = (candidates.into_iter(), by_age.into_iter());
    while picked.len() < slots {
        let oldest_turn = (claims + picked.len() as u64 + 1).is_multiple_of(OLDEST_EVERY);
        let source = if oldest_turn { &mut old } else { &mut urgent };
        match source.find(|c| taken.insert(c.id)) {
            Some(next) => picked.push(next.id),
            None => break,
        }
    }
    picked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(n: u8, priority: i8, ready: i64) -> Candidate {
        Candidate { id: TaskId::from_bytes([n; 16]), priority, ready_at: Timestamp::from_micros(ready) }
    }

    fn numbers(ids: &[TaskId]) -> Vec<u8> {
        ids.iter().map(|id| id.as_bytes()[0]).collect()
    }

    #[test]
    fn the_higher_priority_goes_first_and_then_the_longer_wait() {
        let ready = vec![candidate(1, 0, 5), candidate(2, 0, 3), candidate(3, 9, 8), candidate(4, -9, 1)];
        assert_eq!(numbers(&pick(ready, 9, 0)), [3, 2, 1, 4]);
    }

    #[test]
    fn one_claim_in_ten_takes_the_longest_wait() {
        let ready: Vec<_> = (2..40).map(|n| candidate(n, 9, 100)).chain([candidate(1, -100, 1)]).collect();
        let first_ten = numbers(&pick(ready.clone(), 10, 0));
        assert_eq!(first_ten.iter().position(|n| *n == 1), Some(9));
        assert_eq!(numbers(&pick(ready, 1, 9)), [1], "also when slots come free one by one");
    }

    #[test]
    fn every_candidate_is_picked_once_and_no_slot_too_many() {
        let ready: Vec<_> = (0..30).map(|n| candidate(n, 0, i64::from(n))).collect();
        let mut all = numbers(&pick(ready.clone(), 99, 3));
        all.sort_unstable();
        assert_eq!(all, (0..30).collect::<Vec<u8>>());
        assert_eq!(pick(ready, 7, 0).len(), 7);
    }
}
