//! What is uploaded: kept by its digest, checked before anything of it runs, and compiled once, away from everything else.
//!
//! Must not know tasks, attempts or who uploads.

mod artefacts;
mod child;
mod compiler;
mod complexity;
mod error;
mod folder;
mod inspect;
mod loader;
mod lockdown;
mod pieces;
mod process;

pub use artefacts::{ArtefactError, Artefacts};
pub(crate) use child::main as compile_child;
pub use compiler::{CompileLimits, Compiler, Place};
pub use error::ComponentError;
pub use folder::{Folder, FolderError};
pub use inspect::Inspection;
pub(crate) use loader::{LoadError, Loader, LoaderSize};
