//! Looks after all executor processes at a steady pace: whether they answer, and whether they take more memory than their
//! guests may have.

use std::sync::PoisonError;
use std::time::Duration;

use super::{START_MAX, Shared};
use crate::executor::in_process::ExecutorConfig;
use crate::executor::wire::FromNode;
use crate::sandbox::{Counts, kept_bytes};

const PACE: Duration = Duration::from_millis(250);
/// An idle process is looked at once in so many rounds.
const IDLE_ROUNDS: u64 = 8;
/// A process that was asked so many times and has not answered once is stuck.
const UNANSWERED_MAX: u32 = 12;
/// What a process may take beside its guests' memory, and what its sandboxes leave for the next: machine code, stacks, buffers.
const OWN_BYTES_MAX: u64 = 1 << 30;

pub(super) fn watch(shared: &Shared) {
    let page = rustix::param::page_size() as u64;
    let bytes_max = bytes_max(&shared.config.each);
    let mut round = 0_u64;
    let mut state = shared.lock();
    while !state.closing {
        round += 1;
        for number in 0..state.members.len() {
            // An idle process is asked less often, once it has said that nothing is alive in it.
            let starting = state.members[number].is_starting();
            let idle = state.attempts.at(number) == 0 && state.members[number].counts == Counts::default();
            if idle && !starting && !round.is_multiple_of(IDLE_ROUNDS) {
                continue;
            }
            let silent = state.members[number].look();
            if let Some(why) = verdict(starting, silent) {
                state.members[number].doom(why, None);
                continue;
            }
            if !starting {
                shared.send(&mut state, number, &FromNode::Ping);
            }
            if let Some(bytes) = state.members[number].pid().and_then(|pid| private_bytes(pid, page))
                && bytes > bytes_max
            {
                state.members[number].doom(format!("it took {bytes} bytes of memory; {bytes_max} are allowed"), None);
            }
        }
        let wait = shared.changed.wait_timeout_while(state, PACE, |state| !state.closing);
        state = wait.unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// Why a process has to go that was silent at so many looks, if it has to.
fn verdict(starting: bool, silent: u32) -> Option<String> {
    if starting {
        (PACE.saturating_mul(silent) >= START_MAX).then(|| format!("it was not ready within {START_MAX:?}"))
    } else {
        (silent >= UNANSWERED_MAX).then(|| format!("it did not answer {silent} times in a row"))
    }
}

fn bytes_max(each: &ExecutorConfig) -> u64 {
    each.memory_bytes_max.saturating_add(kept_bytes(each.slots)).saturating_add(OWN_BYTES_MAX)
}

/// Memory that nobody else shares. None if the process is gone.
fn private_bytes(pid: u32, page: u64) -> Option<u64> {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let mut fields = statm.split_ascii_whitespace().skip(1).map(|field| field.parse::<u64>().ok());
    let (resident, shared) = (fields.next()??, fields.next()??);
    Some(resident.saturating_sub(shared) * page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_may_take_long_to_start_but_not_for_ever_and_must_answer_then() {
        let looks = |span: Duration| u32::try_from(span.as_millis() / PACE.as_millis()).unwrap();
        assert_eq!(verdict(true, looks(START_MAX) - 1), None);
        assert!(verdict(true, looks(START_MAX)).is_some());
        assert_eq!(verdict(false, UNANSWERED_MAX - 1), None);
        assert!(verdict(false, UNANSWERED_MAX).is_some());
    }

    #[test]
    fn what_many_slots_keep_for_their_next_guests_is_no_excess() {
        let few = ExecutorConfig { slots: 1, ..ExecutorConfig::default() };
        let many = ExecutorConfig { slots: 4_096, ..few.clone() };
        assert!(bytes_max(&many) - bytes_max(&few) >= 4_095 * (512 << 10));
    }
}
