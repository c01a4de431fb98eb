//! Components in memory, compiled: fetched by digest, compiled once however many ask, the least used given up first.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::watch;

use super::error::ComponentError;
use super::folder::Folder;
use super::inspect::{Inspection, inspect};
use crate::id::Digest;
use crate::sandbox::{Engines, Metering, Prepared};

/// A component that a task needs cannot be had.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error("the component `{0}` is not there")]
    Missing(Digest),
    #[error("the component `{digest}` cannot be read: {detail}")]
    Unreadable { digest: Digest, detail: String },
    #[error("the component `{digest}` does not fit")]
    Unfit { digest: Digest, source: ComponentError },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct LoaderSize {
    /// Bytes of one upload.
    pub upload: usize,
    /// Components in memory.
    pub cached: usize,
    /// Bytes of machine code of all components in memory.
    pub cached_bytes: usize,
}

type Key = (Digest, Metering);
type Loaded = Result<Arc<Prepared>, LoadError>;

pub(crate) struct Loader {
    engines: Arc<Engines>,
    folder: Folder,
    size: LoaderSize,
    /// Its blocking threads are where compiling happens.
    threads: Handle,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    cached: HashMap<Key, Cached>,
    bytes: usize,
    uses: u64,
    loading: HashMap<Key, watch::Receiver<Option<Loaded>>>,
}

struct Cached {
    prepared: Arc<Prepared>,
    bytes: usize,
    used: u64,
}

impl Loader {
    pub(crate) fn new(engines: Arc<Engines>, folder: Folder, size: LoaderSize, threads: Handle) -> Arc<Self> {
        Arc::new(Self { engines, folder, size, threads, state: Mutex::default() })
    }

    /// The component, if it is in memory.
    pub(crate) fn cached(&self, digest: Digest, metering: Metering) -> Option<Arc<Prepared>> {
        self.lock().cached(&(digest, metering))
    }

    /// The component, from the folder if it must. Whoever stops waiting does not stop the others' waiting.
    pub(crate) async fn load(self: Arc<Self>, digest: Digest, metering: Metering) -> Loaded {
        let key = (digest, metering);
        let mut loading = {
            let mut state = self.lock();
            if let Some(prepared) = state.cached(&key) {
                return Ok(prepared);
            }
            state.loading.get(&key).cloned().unwrap_or_else(|| self.begin(&mut state, key))
        };
        if let Ok(Some(loaded)) = loading.wait_for(Option::is_some).await.as_deref() {
            return loaded.clone();
        }
        self.lock().loading.remove(&key);
        Err(LoadError::Unreadable { digest, detail: "the node is closing".to_owned() })
    }

    fn begin(self: &Arc<Self>, state: &mut State, key: Key) -> watch::Receiver<Option<Loaded>> {
        let (done, loading) = watch::channel(None);
        state.loading.insert(key, loading.clone());
        let here = Arc::clone(self);
        self.threads.spawn_blocking(move || {
            let loaded = here.fetch(key.0, key.1);
            here.keep(key, &loaded);
            done.send_replace(Some(loaded));
        });
        loading
    }

    /// Checks an upload, and keeps it in memory if it fits, so that its first start need not compile it again.
    pub(crate) async fn check(self: Arc<Self>, bytes: Vec<u8>) -> Result<Inspection, ComponentError> {
        let max = self.size.upload;
        if bytes.len() > max {
            return Err(ComponentError::TooLarge { bytes: bytes.len(), max });
        }
        let threads = self.threads.clone();
        let checked = threads.spawn_blocking(move || {
            let (inspection, prepared) = self.compile(&bytes, Metering::Off)?;
            self.keep((Digest::of(&bytes), Metering::Off), &Ok(Arc::new(prepared)));
            Ok(inspection)
        });
        checked.await.unwrap_or_else(|error| Err(ComponentError::HostFault { detail: error.to_string() }))
    }

    fn fetch(&self, digest: Digest, metering: Metering) -> Loaded {
        let bytes = match self.folder.get(digest) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Err(LoadError::Missing(digest)),
            Err(error) => return Err(LoadError::Unreadable { digest, detail: error.to_string() }),
        };
        match self.compile(&bytes, metering) {
            Ok((_, prepared)) => Ok(Arc::new(prepared)),
            Err(source) => Err(LoadError::Unfit { digest, source }),
        }
    }

    fn compile(&self, bytes: &[u8], metering: Metering) -> Result<(Inspection, Prepared), ComponentError> {
        let workshop = self
            .engines
            .workshop(metering)
            .map_err(|error| ComponentError::HostFault { detail: format!("{error:#}") })?;
        // The compiler is large, and what it reads is a stranger's.
        catch_unwind(AssertUnwindSafe(|| inspect(workshop, bytes)))
            .unwrap_or_else(|_| Err(ComponentError::Invalid { detail: "the compiler failed on it".to_owned() }))
    }

    fn keep(&self, key: Key, loaded: &Loaded) {
        let mut state = self.lock();
        state.loading.remove(&key);
        if let Ok(prepared) = loaded {
            let given_up = state.keep(key, Arc::clone(prepared), self.size);
            drop(state);
            drop(given_up);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn cached(&mut self, key: &Key) -> Option<Arc<Prepared>> {
        self.uses += 1;
        let cached = self.cached.get_mut(key)?;
        cached.used = self.uses;
        Some(Arc::clone(&cached.prepared))
    }

    /// Returns what had to make room, to be dropped where nobody waits.
    fn keep(&mut self, key: Key, prepared: Arc<Prepared>, size: LoaderSize) -> Vec<Arc<Prepared>> {
        self.uses += 1;
        let bytes = prepared.image_bytes();
        let mut given_up = Vec::new();
        if let Some(old) = self.cached.insert(key, Cached { prepared, bytes, used: self.uses }) {
            self.bytes -= old.bytes;
            given_up.push(old.prepared);
        }
        self.bytes += bytes;
        while self.cached.len() > size.cached || self.bytes > size.cached_bytes {
            let least_used =
                self.cached.iter().filter(|(other, _)| **other != key).min_by_key(|(_, cached)| cached.used);
            let Some(least_used) = least_used.map(|(key, _)| *key) else { break };
            let Some(old) = self.cached.remove(&least_used) else { break };
            self.bytes -= old.bytes;
            given_up.push(old.prepared);
        }
        given_up
    }
}
