//! The face of the library: a node with its store, its executor and its runner, and everything that can be asked of it.
//!
//! The API and the command line say the same things in other words; neither knows more than this.

mod drill;
mod error;
mod node;
mod queues;
mod submit;
mod tasks;
mod types;

use std::sync::Arc;
use std::time::Duration;

pub use drill::{DrillOrders, Drilled, Grade, How, Moment, Stop, Undisturbed, Verdict};
pub use error::Error;
pub use node::NodeView;
pub use submit::{NewTask, Submitted};
pub use tasks::{AttemptView, TaskPage, TaskView};
pub use types::NewType;

pub use crate::executor::{ExecutorView, Lock};
pub use crate::runner::{Alert, AlertKind};

use crate::component::{Artefacts, Compiler, Folder};
use crate::config::Config;
use crate::executor::{Dumps, Executor, ExecutorConfig, Executors, Fleet, FleetConfig, remove_scratch};
use crate::id::NodeId;
use crate::runner::Runner;
use crate::store::memory::Memory;
use crate::store::sqlite::Sqlite;
use crate::store::{Backend, Store, StoreError};
use crate::time::{Clock, SystemClock};

/// A running node. Clones share it; [`Host::shut_down`] ends it.
#[derive(Clone)]
pub struct Host {
    inner: Arc<Inner>,
}

struct Inner {
    config: Config,
    clock: Arc<dyn Clock>,
    store: Store,
    folder: Folder,
    compiler: Arc<Compiler>,
    dumps: Arc<Dumps>,
    runner: Arc<Runner>,
    types: types::TypeCache,
    /// The folder of a throw-away host; removed with it.
    _scratch: Option<tempfile::TempDir>,
}

/// Whoever drops the last handle without a shutdown ends the node as a crash would: the next start finds what ran.
impl Drop for Inner {
    fn drop(&mut self) {
        self.runner.abandon();
    }
}

/// How a shutdown went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Every task was written.
    Clean,
    /// This many attempts could not be ended in time. They are found again at the next start.
    Unfinished(usize),
}

/// What a health check sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// Attempts in hand.
    pub attempts: usize,
    /// Sandboxes that exist.
    pub sandboxes: usize,
    pub slots: usize,
    pub slots_free: usize,
}

impl Host {
    /// Opens the store, takes over what a dead process left, and begins to work.
    ///
    /// # Errors
    /// A setting is out of range, the store is in use or damaged, or the sandbox cannot be set up here.
    pub async fn start(config: Config) -> Result<Self, Error> {
        config.check()?;
        let scratch = match &config.data_dir {
            Some(dir) => {
                make_private(dir).map_err(|source| Error::io("create the data folder", dir, source))?;
                None
            }
            None => Some(
                tempfile::Builder::new()
                    .prefix("atropos-")
                    .tempdir()
                    .map_err(|source| Error::io("create a folder in", &std::env::temp_dir(), source))?,
            ),
        };
        match (&config.data_dir, &scratch) {
            (Some(dir), _) => {
                let (backend, dir) = (open_sqlite(dir.clone()).await?, dir.clone());
                Self::start_on(config, backend, &dir, None).await
            }
            (None, Some(folder)) => {
                let dir = folder.path().to_owned();
                Self::start_on(config, Memory::default(), &dir, scratch).await
            }
            (None, None) => Err(Error::Closed),
        }
    }

    /// As [`Host::start`], on a backend of one's own; components lie in `dir`.
    ///
    /// # Errors
    /// As [`Host::start`].
    #[doc(hidden)]
    pub async fn start_on(
        config: Config,
        backend: impl Backend,
        dir: &std::path::Path,
        scratch: Option<tempfile::TempDir>,
    ) -> Result<Self, Error> {
        // Executors are somewhere else.
        let dir = &std::path::absolute(dir).map_err(|source| Error::io("find", dir, source))?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let store = Store::new(backend).map_err(|source| Error::io("start the writer of", dir, source))?;
        let components = dir.join("components");
        let folder = Folder::open(&components)?;
        let (reports, heard) = tokio::sync::mpsc::unbounded_channel();
        // The store is ours alone, so whose these were is dead.
        let scratch_folders = dir.join("scratch");
        remove_scratch(&scratch_folders).map_err(|source| Error::io("clear", &scratch_folders, source))?;
        let executor_config = ExecutorConfig {
            slots: u32::try_from(config.slots).unwrap_or(u32::MAX),
            guest_threads: config.guest_threads,
            memory_bytes_max: config.guest_memory_bytes_max,
            dumps: Some(dir.join("dumps")),
            scratch: Some(scratch_folders.clone()),
            nameservers: config.nameservers.clone(),
            ..ExecutorConfig::default()
        };
        let each = FleetConfig::share(&executor_config, config.executors);
        let slots = if config.program.is_some() { each.slots } else { executor_config.slots };
        let artefacts = Artefacts::open(dir.join("cache"), slots, config.cache_bytes_max)?;
        let compiler =
            Compiler::new(config.program.clone(), artefacts.clone(), folder.clone(), config.compile_limits())?;
        // Executors write there and nowhere else, and cannot make them.
        let dumps = dir.join("dumps");
        for folder in [&dumps, &scratch_folders] {
            make_private(folder).map_err(|source| Error::io("create the folder", folder, source))?;
        }
        let executors = match &config.program {
            None => {
                let compiler = Some(Arc::clone(&compiler));
                let executor = Executor::start(executor_config, artefacts, compiler, Arc::clone(&clock), reports)?;
                Executors::Here(Box::new(executor))
            }
            Some(program) => {
                let (program, compiler, clock) = (program.clone(), Arc::clone(&compiler), Arc::clone(&clock));
                let fleet = FleetConfig { program, executors: config.executors, each, artefacts };
                let here = tokio::runtime::Handle::current();
                let start = move || Fleet::start(fleet, compiler, here, clock, reports);
                Executors::Processes(tokio::task::spawn_blocking(start).await.map_err(|_| Error::Closed)??)
            }
        };
        let runner =
            Runner::start(config.clone(), NodeId::new(), store.clone(), Arc::clone(&clock), executors, heard).await?;
        let types = types::TypeCache::default();
        let dumps = Arc::new(Dumps::new(dumps));
        let inner = Inner { config, clock, store, folder, compiler, dumps, runner, types, _scratch: scratch };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The settings this node runs with.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.inner.config
    }

    /// Whether a shutdown has begun: what is submitted from now on waits for the next start.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.inner.runner.is_draining()
    }

    /// Whether the node does what it is for: it takes tasks, looks after them, and its writes reach the disk.
    ///
    /// # Errors
    /// It is going down, a part of it has failed, or the store does not take a write within two seconds.
    pub async fn ready(&self) -> Result<(), Error> {
        const PATIENCE: Duration = Duration::from_secs(2);
        /// A disk that is full takes a small write now and then: what failed just now counts.
        const FAILURES_COUNT_FOR: Duration = Duration::from_secs(5);
        if self.is_shutting_down() {
            return Err(Error::Closed);
        }
        if self.inner.runner.is_broken() {
            return Err(Error::Broken);
        }
        let failure = |what, source: &'static str| crate::store::StoreError::Backend {
            what,
            source: Arc::from(Box::<dyn std::error::Error + Send + Sync>::from(source)),
        };
        let late = || failure("take a write in time", "another process may have the database locked");
        let failed = || failure("take every write of the last seconds", "the disk may be full; the log says more");
        tokio::time::timeout(PATIENCE, self.inner.store.write(|tx| tx.touch())).await.map_err(|_| late())??;
        if self.inner.store.failed_within(FAILURES_COUNT_FOR) {
            return Err(failed().into());
        }
        Ok(())
    }

    /// What a health check sees. Fails if the store does not answer.
    ///
    /// # Errors
    /// The store failed.
    pub async fn health(&self) -> Result<Health, Error> {
        self.inner.store.read(|view| view.next_alarm_at()).await?;
        let (attempts, sandboxes) = self.inner.runner.ledger();
        Ok(Health { attempts, sandboxes, slots: self.inner.config.slots, slots_free: self.inner.runner.slots_free() })
    }

    /// Ends the node: no new claims, every attempt is told to stop and gets its grace up to the node's ceiling, what
    /// does not come back is killed, and every task is written.
    ///
    /// # Errors
    /// The store failed.
    pub async fn shut_down(&self) -> Result<Shutdown, Error> {
        self.shut_down_within(self.inner.config.shutdown_grace_max).await
    }

    /// As [`Host::shut_down`], with a ceiling of one's own. A second call with less hurries the first.
    ///
    /// # Errors
    /// The store failed.
    pub async fn shut_down_within(&self, grace_max: Duration) -> Result<Shutdown, Error> {
        let runner = &self.inner.runner;
        let told = runner.begin_shutdown(grace_max).await;
        if told.is_ok() {
            let patience = grace_max + self.inner.config.kill_bound + Duration::from_secs(5);
            runner.drained_within(patience).await;
        }
        let left = runner.ledger().0;
        let (closing, compiler) = (Arc::clone(runner), Arc::clone(&self.inner.compiler));
        // Also if the store has failed: neither guests nor compilers outlive their node.
        let close = move || {
            compiler.close();
            closing.close();
        };
        tokio::task::spawn_blocking(close).await.map_err(|_| Error::Closed)?;
        // Closed: it has gone down before.
        if let Err(error) = told
            && !matches!(error, StoreError::Closed)
        {
            return Err(error.into());
        }
        Ok(if left == 0 { Shutdown::Clean } else { Shutdown::Unfinished(left) })
    }

    /// Cuts the grace of a shutdown that is under way to zero.
    ///
    /// # Errors
    /// The store failed.
    pub async fn hurry(&self) -> Result<(), Error> {
        Ok(self.inner.runner.begin_shutdown(Duration::ZERO).await?)
    }
}

/// Inputs and results are nobody else's business. A folder that is there keeps the rights that it has.
fn make_private(dir: &std::path::Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

async fn open_sqlite(dir: std::path::PathBuf) -> Result<Sqlite, Error> {
    let opened = tokio::task::spawn_blocking(move || Sqlite::open(&dir)).await;
    Ok(opened.map_err(|_| Error::Closed)??)
}
