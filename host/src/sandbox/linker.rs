//! Everything that a component may import, in one linker; and what to say of the rest.

use wasmtime::Engine;
use wasmtime::component::{HasSelf, Linker};

use super::bindings::{context, lifecycle, log};
use super::guest::Guest;
use super::{mischief, wasi};

/// Interfaces that are linked, without their versions.
const OFFERED: [&str; 33] = [
    "atropos:task/lifecycle",
    "atropos:task/context",
    "atropos:task/log",
    "atropos:task/failures",
    "wasi:io/poll",
    "wasi:io/streams",
    "wasi:io/error",
    "wasi:clocks/wall-clock",
    "wasi:clocks/monotonic-clock",
    "wasi:random/random",
    "wasi:random/insecure",
    "wasi:random/insecure-seed",
    "wasi:cli/exit",
    "wasi:cli/environment",
    "wasi:cli/stdin",
    "wasi:cli/stdout",
    "wasi:cli/stderr",
    "wasi:cli/terminal-input",
    "wasi:cli/terminal-output",
    "wasi:cli/terminal-stdin",
    "wasi:cli/terminal-stdout",
    "wasi:cli/terminal-stderr",
    "wasi:filesystem/preopens",
    "wasi:filesystem/types",
    "wasi:sockets/network",
    "wasi:sockets/instance-network",
    "wasi:sockets/ip-name-lookup",
    "wasi:sockets/tcp",
    "wasi:sockets/tcp-create-socket",
    "wasi:sockets/udp",
    "wasi:sockets/udp-create-socket",
    "wasi:http/types",
    "wasi:http/outgoing-handler",
];

pub(super) fn build(engine: &Engine) -> wasmtime::Result<Linker<Guest>> {
    let mut linker = Linker::new(engine);
    lifecycle::add_to_linker::<Guest, HasSelf<Guest>>(&mut linker, |guest| guest)?;
    context::add_to_linker::<Guest, HasSelf<Guest>>(&mut linker, |guest| guest)?;
    log::add_to_linker::<Guest, HasSelf<Guest>>(&mut linker, |guest| guest)?;
    wasi::add_to_linker(&mut linker)?;
    mischief::add_to_linker(&mut linker)?;
    Ok(linker)
}

/// Whether an import of this name can be met.
pub(crate) fn is_offered(import: &str) -> bool {
    let (interface, version) = import.split_once('@').unwrap_or((import, ""));
    let line = if interface.starts_with("wasi:") { "0.2." } else { "0.1." };
    (OFFERED.contains(&interface) || mischief::is_offered(interface)) && version.starts_with(line)
}

/// Why an import of this name is not met, and what the author can do.
pub(crate) fn unoffered_reason(import: &str) -> &'static str {
    let (interface, version) = import.split_once('@').unwrap_or((import, ""));
    let package = interface.split('/').next().unwrap_or_default();
    if OFFERED.contains(&interface) {
        return match package {
            "wasi:io" | "wasi:clocks" | "wasi:random" | "wasi:cli" | "wasi:filesystem" | "wasi:sockets"
            | "wasi:http"
                if version.starts_with("0.3") =>
            {
                "this version of Atropos offers WASI 0.2, not 0.3: build for `wasm32-wasip2`"
            }
            _ => "the interface is offered in another version: build against the one in `wit/task.wit`, or WASI 0.2",
        };
    }
    match interface {
        "atropos:task/checkpoint" => "checkpoints are not offered by this version of Atropos",
        "atropos:task/effects" => "the effect ledger is not offered by this version of Atropos",
        "atropos:task/children" => "child tasks are not offered by this version of Atropos",
        _ => match package {
            "wasi:sockets" => "of WASI's sockets, TCP and look-ups of names are offered, of version 0.2",
            "wasi:http" => "of WASI's HTTP, outgoing requests are offered: a task serves nobody",
            _ => "Atropos does not know it: build without it, or compose the component with one that provides it",
        },
    }
}
