//! The API over HTTP: a handler decodes, makes one call on the host, and encodes.
//!
//! Must not know stores, sandboxes or the rules of a task's life. [`wire`] is where JSON meets the host's types,
//! [`problem`] where errors become answers, [`client`] the other side; there is one file for each resource.

mod actions;
pub mod client;
mod codes;
mod components;
mod extract;
mod guard;
mod health;
mod history;
mod logs;
mod nodes;
mod openapi;
pub mod problem;
mod query;
mod queues;
mod serve;
mod submit;
mod tasks;
#[cfg(test)]
mod tests;
mod types;
pub mod wire;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use tokio::sync::watch;
use utoipa::OpenApi as _;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub use serve::{BindError, check_bind, serve};

use crate::Host;
use crate::time::{Clock, SystemClock, Timestamp};
use problem::Problem;

/// Requests that wait for the end of a task, and logs that are followed, at one time.
const WAITS_MAX: usize = 512;

/// All routes of a host, for a server of one's own. [`serve`] is the usual way.
pub fn router(host: Host) -> Router {
    build(Api::new(host))
}

fn build(api: Api) -> Router {
    guard::around(routes().split_for_parts().0.with_state(api))
}

/// Every route there is, with its description.
fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::with_openapi(openapi::Document::openapi())
        .routes(routes!(components::push, components::list))
        .routes(routes!(components::show))
        .routes(routes!(types::put, types::versions))
        .routes(routes!(types::list))
        .routes(routes!(submit::submit, tasks::list))
        .routes(routes!(tasks::show))
        .routes(routes!(actions::cancel))
        .routes(routes!(actions::rerun))
        .routes(routes!(actions::fail))
        .routes(routes!(actions::give_up))
        .routes(routes!(history::audit))
        .routes(routes!(history::attempts))
        .routes(routes!(history::core_dump))
        .routes(routes!(history::result))
        .routes(routes!(history::input))
        .routes(routes!(logs::logs))
        .routes(routes!(queues::list))
        .routes(routes!(queues::pause))
        .routes(routes!(queues::resume))
        .routes(routes!(health::livez))
        .routes(routes!(health::readyz))
        .routes(routes!(health::health))
        .routes(routes!(nodes::list))
        .routes(routes!(nodes::alerts))
        .routes(routes!(openapi::document))
        .routes(routes!(openapi::problems))
        .routes(routes!(openapi::problem))
}

/// What every handler is given. Clones share it.
#[derive(Clone)]
struct Api {
    host: Host,
    clock: Arc<SystemClock>,
    closing: Arc<watch::Sender<bool>>,
    waits: Arc<AtomicUsize>,
}

/// A request that may last. It is counted until this is dropped.
struct Wait {
    waits: Arc<AtomicUsize>,
}

impl Api {
    fn new(host: Host) -> Self {
        Self { host, clock: Arc::default(), closing: Arc::new(watch::channel(false).0), waits: Arc::default() }
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn problem(&self, error: &crate::host::Error) -> Problem {
        Problem::of(error, self.now())
    }

    fn task(&self, view: &crate::host::TaskView) -> wire::Task {
        wire::Task::of(view, self.now())
    }

    /// From now on nobody waits any more.
    fn close(&self) {
        self.closing.send_replace(true);
    }

    fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }

    /// Ready when nobody is to wait any more.
    async fn closing(&self) {
        let mut closing = self.closing.subscribe();
        if closing.wait_for(|closing| *closing).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    fn wait(&self) -> Result<Wait, Problem> {
        let wait = Wait { waits: Arc::clone(&self.waits) };
        if self.waits.fetch_add(1, Ordering::Relaxed) >= WAITS_MAX {
            return Err(Problem::new("too_many_waits", format!("{WAITS_MAX} requests wait already")));
        }
        Ok(wait)
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.waits.fetch_sub(1, Ordering::Relaxed);
    }
}
