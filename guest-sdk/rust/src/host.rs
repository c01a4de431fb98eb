//! The host's functions in a component: the generated bindings, in this crate's own types.

use std::time::Duration;

use crate::bindings::atropos::task::{context, failures, lifecycle, log};
use crate::{Failure, Identity, Level, Progress, StopReason, StopRequest};

pub(crate) fn check_cancel() -> Option<StopRequest> {
    lifecycle::check_cancel().map(stop_request)
}

pub(crate) fn heartbeat(progress: Option<Progress>) -> Option<StopRequest> {
    let progress = progress.map(|Progress { done, total, note }| lifecycle::Progress { done, total, note });
    lifecycle::heartbeat(progress.as_ref()).map(stop_request)
}

pub(crate) fn sleep(ms: u32) -> Option<StopRequest> {
    lifecycle::sleep(ms).map(stop_request)
}

pub(crate) fn whoami() -> Identity {
    let context::Identity { task_id, task_type, attempt, traceparent, creator } = context::whoami();
    Identity { task_id, task_type, attempt, traceparent, creator }
}

pub(crate) fn time_left_ms() -> u32 {
    context::time_left_ms()
}

pub(crate) fn write(level: Level, message: &str) {
    let level = match level {
        Level::Trace => log::Level::Trace,
        Level::Debug => log::Level::Debug,
        Level::Info => log::Level::Info,
        Level::Warn => log::Level::Warn,
        Level::Error => log::Level::Error,
    };
    log::write(level, message);
}

/// A failure as the contract spells it.
pub fn to_wire(failure: Failure) -> failures::Failure {
    match failure {
        Failure::Stopped => failures::Failure::Stopped,
        Failure::Business(message) => failures::Failure::Business(message),
        Failure::System { message, retry_after } => failures::Failure::System(failures::SystemFailure {
            message,
            // A wish past 49 days is cut to that.
            retry_after_ms: retry_after.map(|after| u32::try_from(after.as_millis()).unwrap_or(u32::MAX)),
        }),
        Failure::Fatal(message) => failures::Failure::Fatal(message),
    }
}

fn stop_request(request: lifecycle::StopRequest) -> StopRequest {
    StopRequest {
        reason: match request.reason {
            lifecycle::StopReason::Cancelled => StopReason::Cancelled,
            lifecycle::StopReason::TimedOut => StopReason::TimedOut,
            lifecycle::StopReason::ShuttingDown => StopReason::ShuttingDown,
        },
        grace: Duration::from_millis(request.grace_ms.into()),
        message: request.message,
    }
}
