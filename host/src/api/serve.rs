//! The server: connections in, with a bound on everything that a client may keep open, and a shutdown that ends.
//!
//! Must not know what is served.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::{Api, build};
use crate::Host;

const CONNECTIONS_MAX: usize = 1_000;
/// For the whole head of a request, and so also for a connection that is kept open and silent.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
const HEAD_BYTES_MAX: usize = 64 << 10;
/// What is under way when the server goes down gets this long.
const DRAIN_MAX: Duration = Duration::from_secs(10);
/// And a connection on which nothing is under way this long, such as one with half a request.
const IDLE_DRAIN_MAX: Duration = Duration::from_millis(500);
/// Before accepting is tried again when it failed, for instance for want of descriptors.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// An address that the API does not answer on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{addr}` can be reached from other machines, and this version knows no tokens: bind to a loopback address such as \
     `127.0.0.1:{}`",
    addr.port()
)]
pub struct BindError {
    pub addr: SocketAddr,
}

/// Whether the API may answer on this address: only this machine may reach it.
pub const fn check_bind(addr: SocketAddr) -> Result<(), BindError> {
    if addr.ip().to_canonical().is_loopback() { Ok(()) } else { Err(BindError { addr }) }
}

/// Answers until `shutdown` is ready, and then until what is under way is done; those who wait for the end of a task, or
/// follow a log, are answered at once then. The host goes on; ending it is its owner's business.
///
/// # Errors
/// The listener is not on a loopback address.
pub async fn serve(host: Host, listener: TcpListener, shutdown: impl Future<Output = ()> + Send) -> io::Result<()> {
    check_bind(listener.local_addr()?).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let api = Api::new(host);
    let router = build(api.clone());
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        let accepted = async {
            let place = Arc::clone(&room).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            biased;
            () = &mut shutdown => break,
            accepted = accepted => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let connection = answer(stream, router.clone(), api.clone());
                connections.spawn(async move {
                    connection.await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_AGAIN_AFTER).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    api.close();
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN_MAX, drained).await.is_err() {
        tracing::warn!(left = connections.len(), "connections are cut: they did not end in time");
        connections.shutdown().await;
    }
    Ok(())
}

/// One connection, from its first request to its end. What goes wrong with it is the client's business.
async fn answer(stream: TcpStream, router: Router, api: Api) {
    let _ = stream.set_nodelay(true);
    let inner = TowerToHyperService::new(router);
    let under_way = Arc::new(());
    let counted = Arc::clone(&under_way);
    let service = service_fn(move |request| {
        let (answering, counted) = (inner.call(request), Arc::clone(&counted));
        async move {
            let answer = answering.await;
            drop(counted);
            answer
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        () = api.closing() => {}
    }
    connection.as_mut().graceful_shutdown();
    while tokio::time::timeout(IDLE_DRAIN_MAX, connection.as_mut()).await.is_err() {
        // This one, and that of the service: no request has another.
        if Arc::strong_count(&under_way) <= 2 {
            return;
        }
    }
}
