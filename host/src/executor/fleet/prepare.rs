//! An attempt whose component is not in the cache: has it compiled, and places the attempt again.

use std::sync::Arc;

use super::Shared;
use crate::executor::protocol::AttemptKey;
use crate::executor::unloadable::ending_of;
use crate::task::{Ending, FailureClass};

/// The cache may lose a component again before it is loaded, but not time after time.
const TIMES_MAX: u32 = 3;

/// A process has not begun the attempt, for want of compiled code.
pub(super) fn prepare(shared: &Arc<Shared>, key: AttemptKey) {
    let mut state = shared.lock();
    let Some((component, metering, times)) = state.attempts.unplace(key) else { return };
    // Its place is another's meanwhile.
    shared.place_waiting(&mut state);
    if state.attempts.is_killed(key) {
        return shared.end_unplaced(&mut state, key);
    }
    if times > TIMES_MAX {
        let message = format!("the compiled component was not to be found {times} times, though it was made each time");
        if let Some(placed) = state.attempts.remove(key) {
            shared.report_end(&placed, Ending::Failed { class: FailureClass::System, message, retry_after: None });
        }
        return;
    }
    drop(state);
    let here = Arc::clone(shared);
    shared.waiting.spawn(async move {
        let ensured = here.compiler.ensure(component, metering).await;
        let mut state = here.lock();
        match ensured {
            Ok(()) => here.place(&mut state, key),
            // Unless it was killed meanwhile, and has ended.
            Err(error) => {
                if let Some(placed) = state.attempts.remove(key) {
                    here.report_end(&placed, ending_of(&error));
                }
            }
        }
    });
}
