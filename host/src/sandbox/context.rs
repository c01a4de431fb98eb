//! `atropos:task/context`: who and what the attempt is.

use super::bindings::context::{Host, Identity};
use super::guest::Guest;

impl Host for Guest {
    fn whoami(&mut self) -> wasmtime::Result<Identity> {
        self.enter("atropos:task/context.whoami");
        let who = &self.identity;
        let identity = Identity {
            task_id: who.task.to_string(),
            task_type: who.task_type.to_string(),
            attempt: who.attempt,
            traceparent: who.trace.to_string(),
            creator: who.creator.as_ref().map(ToString::to_string),
        };
        let creator = identity.creator.as_ref().map_or(0, String::len);
        self.signs.count_in(identity.task_id.len() + identity.task_type.len() + identity.traceparent.len() + creator);
        Ok(identity)
    }

    fn time_left_ms(&mut self) -> wasmtime::Result<u32> {
        self.enter("atropos:task/context.time-left-ms");
        if self.signs.token.pending().is_some() {
            return Ok(0);
        }
        let now = self.signs.clock.now();
        let spent = now.since(self.signs.entered_at().unwrap_or(now));
        let left = self.run_timeout.saturating_sub(spent);
        Ok(u32::try_from(left.as_millis()).unwrap_or(u32::MAX))
    }
}
