//! A host call that misbehaves as its caller wishes: what a guest that broke out of its sandbox could do to an executor.
//!
//! It is not there, unless the program that links this library says so first. Only the project's own tests do.

use std::sync::OnceLock;

use wasmtime::component::Linker;

use super::guest::Guest;

const INTERFACE: &str = "atropos:mischief/escape";

static MISCHIEF: OnceLock<fn(&str)> = OnceLock::new();

/// Offers the host call in every sandbox of this program. The first one stays.
#[doc(hidden)]
pub fn allow_mischief(how: fn(&str)) {
    // A second one changes nothing.
    let _ = MISCHIEF.set(how);
}

pub(super) fn is_offered(interface: &str) -> bool {
    interface == INTERFACE && MISCHIEF.get().is_some()
}

pub(super) fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    let Some(how) = MISCHIEF.get() else { return Ok(()) };
    let mut escape = linker.instance(&format!("{INTERFACE}@0.1.0"))?;
    escape.func_wrap("do", move |mut store, (what,): (String,)| {
        let guest: &mut Guest = store.data_mut();
        guest.enter("atropos:mischief/escape.do");
        how(&what);
        Ok(())
    })
}
