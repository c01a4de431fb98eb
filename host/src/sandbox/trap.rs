//! Makes of wasmtime's errors what became of the attempt, and the scene that a person can read.

use wasmtime::component::ResourceTableError;
use wasmtime::{PoolConcurrencyLimitError, Trap, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use super::limiter::Refusal;
use super::stop::Killed;
use super::text::clip;
use crate::task::{Death, Ending, FailureClass, Phase, Scene};
use crate::time::Timestamp;

/// Messages of guests and about them are cut here.
pub(super) const MESSAGE_BYTES_MAX: usize = 4 << 10;
/// A frame's name is cut here: generics make names of any length.
const FRAME_BYTES_MAX: usize = 256;
const FRAMES_MAX: usize = 20;
/// One more than are kept, so that it is seen whether there are more.
pub(super) const FRAMES_TAKEN: usize = FRAMES_MAX + 1;
const MORE_FRAMES: &str = "… and more, further out";
/// wasmtime's own limits on a host call have no types that could be asked for. Tests watch over these texts.
const HOST_CALL_LIMITS: [&str; 3] =
    ["fuel allocated for hostcalls has been exhausted", "store handle limit exceeded", "exceeds limit"];

/// What is known about a failed attempt beside wasmtime's error.
pub(super) struct Circumstances {
    pub(super) phase: Phase,
    pub(super) now: Timestamp,
    pub(super) killed: bool,
    pub(super) refused: Option<Refusal>,
    pub(super) call: Option<&'static str>,
}

pub(super) fn ending(error: &wasmtime::Error, at: &Circumstances) -> Ending {
    if at.killed || error.is::<Killed>() {
        return Ending::Killed;
    }
    if error.is::<PoolConcurrencyLimitError>() {
        return lacking(clip(&format!("no room for another sandbox: {}", error.root_cause()), MESSAGE_BYTES_MAX));
    }
    let trap = error.downcast_ref::<Trap>().copied();
    if trap == Some(Trap::OutOfFuel) {
        return Ending::FuelSpent;
    }
    if trap == Some(Trap::StackOverflow) {
        return died(Death::StackOverflow, "the guest's call stack is exhausted".to_owned());
    }
    // A guest that cannot have more memory traps in its own way, but seldom in any other than these.
    let gave_up = trap.is_none_or(|trap| matches!(trap, Trap::UnreachableCodeReached | Trap::MemoryOutOfBounds));
    match at.refused {
        Some(refusal @ Refusal::Node { .. }) if gave_up => return lacking(refusal.to_string()),
        Some(refusal) if gave_up => return died(Death::OutOfMemory, refusal.to_string()),
        Some(_) | None => {}
    }
    if let Some(I32Exit(code)) = error.downcast_ref() {
        return died(Death::Trap, format!("the guest called `exit({code})`; a task returns instead"));
    }
    // The reason says already that it is a trap.
    let message = error.root_cause().to_string();
    let message = message.strip_prefix("wasm trap: ").unwrap_or(&message);
    died(cause(error, trap, at.phase), clip(message, MESSAGE_BYTES_MAX))
}

fn cause(error: &wasmtime::Error, trap: Option<Trap>, phase: Phase) -> Death {
    if trap.is_some() {
        return Death::Trap;
    }
    let in_guest = error.downcast_ref::<WasmBacktrace>().is_some();
    let text = error.root_cause().to_string();
    let limited = HOST_CALL_LIMITS.iter().any(|limit| text.contains(limit));
    match (phase, in_guest) {
        (_, true) if limited || error.is::<ResourceTableError>() => Death::HostCallLimit,
        (_, true) => Death::Trap,
        // Outside of the guest's frames there is nothing to fail but its result.
        (Phase::Running | Phase::Returning, false) => Death::BadResult,
        (Phase::Loading | Phase::Waiting | Phase::Instantiating, false) => Death::Unloadable,
    }
}

fn died(cause: Death, message: String) -> Ending {
    Ending::Died { cause, message }
}

/// The host's own want: another attempt may fare better.
fn lacking(message: String) -> Ending {
    Ending::Failed { class: FailureClass::System, message, retry_after: None }
}

/// The frames, innermost first, and the host call that the guest sat in.
pub(super) fn scene(error: &wasmtime::Error, at: &Circumstances) -> Scene {
    let frames = error.downcast_ref::<WasmBacktrace>().map(WasmBacktrace::frames).unwrap_or_default();
    let mut backtrace: Vec<String> = frames.iter().take(FRAMES_MAX).map(frame).collect();
    if frames.len() > FRAMES_MAX {
        backtrace.push(MORE_FRAMES.to_owned());
    }
    // A trap is the guest's own; every other error was made under the host call.
    let in_a_call = !frames.is_empty() && !error.is::<Trap>();
    let host_call = at.call.filter(|_| in_a_call).map(str::to_owned);
    // With no frame of the guest, it had come back.
    let back = at.phase == Phase::Running && !at.killed && frames.is_empty();
    let phase = if back { Phase::Returning } else { at.phase };
    Scene { phase: Some(phase), at: Some(at.now), backtrace, host_call, core_dump: None }
}

fn frame(frame: &wasmtime::FrameInfo) -> String {
    // Rust's mangled names are unmistakable; of other languages' short ones, `run` say, a C++ demangler makes nonsense.
    let function = frame.func_name().map_or_else(
        || format!("func[{}]", frame.func_index()),
        |name| rustc_demangle::try_demangle(name).map_or_else(|_| name.to_owned(), |name| format!("{name:#}")),
    );
    let name = match frame.module().name() {
        Some(module) => format!("{module}!{function}"),
        None => function,
    };
    clip(&name, FRAME_BYTES_MAX)
}
