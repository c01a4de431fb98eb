//! What this module asks of the operating system about threads.

use std::time::Duration;

use rustix::process::setpriority_process;
use rustix::time::{ClockId, clock_gettime};

/// Guests and compilers give way to everything else of the node.
const GUEST_NICE: i32 = 10;

/// Lowers the priority of the calling thread.
pub(super) fn give_way() {
    // On Linux this concerns the thread, not the process. If it is refused, guests run as fast as everything else.
    if let Err(error) = setpriority_process(None, GUEST_NICE) {
        tracing::warn!(%error, "guest threads run at normal priority");
    }
}

/// Processor time that the calling thread has used.
pub(super) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}
