//! What is uploaded: kept by its digest, checked before anything of it runs, and compiled once.
//!
//! Must not know tasks, attempts or who uploads.

mod error;
mod folder;
mod inspect;
mod loader;

pub use error::ComponentError;
pub use folder::{Folder, FolderError};
pub use inspect::Inspection;
pub(crate) use loader::{LoadError, Loader, LoaderSize};
