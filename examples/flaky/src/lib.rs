//! Fails in the way its input asks for: one way for each class of failure, and for each what the host makes of it.
//!
//! | input | what happens |
//! | --- | --- |
//! | `{"mode": "ok"}` | succeeds |
//! | `{"mode": "business"}` | the business says no: failed, never retried |
//! | `{"mode": "system"}` | a dependency falters: retried until the retries are spent |
//! | `{"mode": "system", "retry_after_ms": 1500}` | the same, and the dependency says when to come back |
//! | `{"mode": "system", "system_until_attempt": 3}` | a dependency falters in attempts 1 and 2; attempt 3 succeeds |
//! | `{"mode": "fatal"}` | a defect that the task noticed itself: failed, never retried |
//! | `{"mode": "panic"}` | a defect that it did not notice: a trap, with a backtrace and the message in the log |

use std::time::Duration;

use atropos_guest::{Failure, log, whoami};
use serde::{Deserialize, Serialize};

/// What the task takes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    mode: Mode,
    /// With `system`: the wish of the dependency, such as an HTTP `Retry-After`.
    retry_after_ms: Option<u32>,
    /// With `system`: the first attempt in which the dependency is up again.
    system_until_attempt: Option<u32>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    Ok,
    Business,
    System,
    Fatal,
    Panic,
}

/// What the task gives back.
#[derive(Debug, PartialEq, Serialize)]
struct Output {
    attempt: u32,
}

atropos_guest::task!(run);

fn run(input: Input) -> Result<Output, Failure> {
    let attempt = whoami().attempt;
    log::info!("attempt {attempt}, mode {:?}", input.mode);
    match input.mode {
        Mode::Ok => {}
        Mode::Business => return Err(Failure::business("the account is closed")),
        Mode::System => ask_the_warehouse(&input, attempt)?,
        Mode::Fatal => return Err(Failure::fatal("the totals do not add up")),
        Mode::Panic => audit(&[]),
    }
    Ok(Output { attempt })
}

/// A dependency that is down, for a while or for good.
fn ask_the_warehouse(input: &Input, attempt: u32) -> Result<(), Failure> {
    if input.system_until_attempt.is_some_and(|up_again| attempt >= up_again) {
        return Ok(());
    }
    let message = format!("the warehouse does not answer (attempt {attempt})");
    Err(match input.retry_after_ms {
        None => Failure::system(message),
        Some(ms) => Failure::system_retry_after(message, Duration::from_millis(ms.into())),
    })
}

/// Does not expect an empty ledger. Not inlined, so that the backtrace shows it.
#[inline(never)]
fn audit(ledger: &[u64]) {
    let last = ledger.last().expect("a ledger has at least one entry");
    log::info!("the last entry is {last}");
}

#[cfg(test)]
mod tests {
    use atropos_guest::testing::Host;

    use super::*;

    fn input(mode: Mode) -> Input {
        Input { mode, retry_after_ms: None, system_until_attempt: None }
    }

    #[test]
    fn each_mode_ends_in_its_own_class() {
        assert_eq!(run(input(Mode::Ok)), Ok(Output { attempt: 1 }));
        assert!(matches!(run(input(Mode::Business)), Err(Failure::Business(_))));
        assert!(matches!(run(input(Mode::System)), Err(Failure::System { retry_after: None, .. })));
        assert!(matches!(run(input(Mode::Fatal)), Err(Failure::Fatal(_))));
    }

    #[test]
    fn the_dependency_comes_back_when_it_was_told_to() {
        for (attempt, up) in [(1, false), (2, false), (3, true), (4, true)] {
            let input = Input { system_until_attempt: Some(3), ..input(Mode::System) };
            let (result, _) = Host::new().attempt(attempt).run(|| run(input));
            assert_eq!(result.is_ok(), up, "attempt {attempt}");
        }
    }

    #[test]
    #[should_panic(expected = "at least one entry")]
    fn a_panic_is_a_panic() {
        let _ = run(input(Mode::Panic));
    }
}
