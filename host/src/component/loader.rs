//! Components in memory, ready to start: read from the cache of machine code, once however many ask, the least used
//! given up first.
//!
//! Never compiles. What is not in the cache is [`LoadError::NotCompiled`], and another's work.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::runtime::Handle;
use tokio::sync::watch;

use super::artefacts::{Artefacts, Verified};
use super::error::ComponentError;
use super::inspect::DETAIL_BYTES_MAX;
use crate::id::Digest;
use crate::sandbox::{Engines, Metering, Prepared, clip};

/// A component that a task needs cannot be had.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error("the component `{0}` is not there")]
    Missing(Digest),
    #[error("the component `{digest}` cannot be read: {detail}")]
    Unreadable { digest: Digest, detail: String },
    #[error("the component `{digest}` does not fit")]
    Unfit { digest: Digest, source: ComponentError },
    /// There is no machine code of it, or none that is whole.
    #[error("the component `{0}` is not compiled")]
    NotCompiled(Digest),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct LoaderSize {
    /// Components in memory.
    pub cached: usize,
    /// Bytes of machine code of all components in memory.
    pub cached_bytes: usize,
}

type Key = (Digest, Metering);
type Loaded = Result<Arc<Prepared>, LoadError>;

pub(crate) struct Loader {
    engines: Arc<Engines>,
    artefacts: Artefacts,
    size: LoaderSize,
    /// Its blocking threads are where files are read.
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
    pub(crate) fn new(engines: Arc<Engines>, artefacts: Artefacts, size: LoaderSize, threads: Handle) -> Arc<Self> {
        Arc::new(Self { engines, artefacts, size, threads, state: Mutex::default() })
    }

    /// The component, if it is in memory.
    pub(crate) fn cached(&self, digest: Digest, metering: Metering) -> Option<Arc<Prepared>> {
        self.lock().cached(&(digest, metering))
    }

    /// The component, from the cache on disk if it must. Whoever stops waiting does not stop the others' waiting.
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

    fn fetch(&self, digest: Digest, metering: Metering) -> Loaded {
        let begun = Instant::now();
        let unreadable = |detail| LoadError::Unreadable { digest, detail };
        let workshop = self.engines.workshop(metering).map_err(|error| unreadable(format!("{error:#}")))?;
        let code = self.artefacts.find(digest, metering).ok_or(LoadError::NotCompiled(digest))?;
        let loaded = catch_unwind(AssertUnwindSafe(|| {
            let component = code.component(workshop).map_err(|error| Self::unloaded(digest, &code, &error))?;
            Prepared::new(workshop, &component).map_err(|error| {
                let detail = clip(&format!("{error:#}"), DETAIL_BYTES_MAX);
                LoadError::Unfit { digest, source: ComponentError::ImportMismatch { detail } }
            })
        }));
        let loaded =
            loaded.unwrap_or_else(|_| Err(unreadable("the host panicked while it loaded the code".to_owned())));
        tracing::debug!(component = %digest, took = ?begun.elapsed(), loaded = loaded.is_ok(), "a component was fetched");
        loaded.map(Arc::new)
    }

    fn unloaded(digest: Digest, code: &Verified, error: &wasmtime::Error) -> LoadError {
        let detail = format!("{error:#}");
        // Want of memory or descriptors is not the code's fault.
        if error.is::<std::io::Error>() || error.is::<wasmtime::OutOfMemory>() {
            return LoadError::Unreadable { digest, detail };
        }
        tracing::warn!(component = %digest, error = detail, "compiled code cannot be loaded; it is made anew");
        code.discard();
        LoadError::NotCompiled(digest)
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
