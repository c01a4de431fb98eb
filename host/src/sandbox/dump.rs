//! One core dump: the wish for it, what is kept of it at a death, and its writing, while the sandbox is still there.
//!
//! In the format of the WebAssembly tool conventions (`Coredump.md`), as wasmtime writes it.

use std::sync::Arc;

use wasmtime::{Store, WasmCoreDump};

use super::dumps::Dumps;
use super::guest::Guest;
use super::text::clip;
use crate::id::TaskId;
use crate::task::CoreDump;

/// Of a guest that holds more memory there is no dump: reading it would keep the guest's end waiting. Some 2 ms per MiB.
const MEMORY_BYTES_MAX: u64 = 16 << 20;
const WHY_BYTES_MAX: usize = 500;

/// A core dump is wanted, and goes to this folder; or why there can be none.
pub(super) struct Wish {
    pub(super) task: TaskId,
    pub(super) attempt: u32,
    pub(super) folder: Result<Arc<Dumps>, String>,
}

/// A core dump that can be written.
pub(super) struct Dump {
    wish: Wish,
    noted: Result<WasmCoreDump, String>,
}

impl Wish {
    /// Keeps what the dump needs of the error. An error that no code of the guest made has nothing to dump.
    pub(super) fn fulfil(self, error: wasmtime::Error, memory_bytes: u64) -> Option<Dump> {
        let noted = match (&self.folder, error.downcast::<WasmCoreDump>()) {
            (Err(why), _) => Err(why.clone()),
            (Ok(_), Err(_)) => return None,
            (Ok(_), Ok(_)) if memory_bytes > MEMORY_BYTES_MAX => Err(format!(
                "the guest held {memory_bytes} bytes of memory; dumps are made of {MEMORY_BYTES_MAX} at most"
            )),
            (Ok(_), Ok(noted)) => Ok(noted),
        };
        Some(Dump { wish: self, noted })
    }
}

impl Dump {
    pub(super) fn write(self, store: &mut Store<Guest>) -> CoreDump {
        let Self { wish: Wish { task, attempt, folder }, noted } = self;
        let name = format!("task {task} attempt {attempt}");
        let written = noted.and_then(|noted| {
            let folder = folder?;
            let bytes = noted.serialize(store, &name);
            folder.keep(task, attempt, &bytes).map_err(|error| format!("it could not be written: {error}"))?;
            Ok(bytes.len() as u64)
        });
        match written {
            Ok(bytes) => CoreDump::Kept { bytes },
            Err(why) => CoreDump::Missing { why: clip(&why, WHY_BYTES_MAX) },
        }
    }
}
