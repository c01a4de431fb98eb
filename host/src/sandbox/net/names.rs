//! Names to addresses, by a resolver of our own: asynchronous, bounded in time, and gone when its future is dropped. The
//! system's parks a thread at a mute nameserver, and nobody can call it back.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::runtime::{RuntimeProvider, Spawn, TokioRuntimeProvider};
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::rr::Name;
use hickory_resolver::{Hosts, Resolver, system_conf};

/// One answer of one nameserver.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// One look-up, with all nameservers and repetitions.
const LOOK_UP_TIMEOUT: Duration = Duration::from_secs(10);
/// Addresses that are taken of an answer.
const ADDRESSES_MAX: usize = 32;

/// How this process looks names up: read once, at the start. A change of the machine's files counts from the next start.
pub(crate) struct Names {
    config: ResolverConfig,
    hosts: Arc<Hosts>,
}

/// Why a name has no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameError {
    /// Nobody knows such a name.
    Unknown,
    /// No nameserver answered in time.
    Mute,
    /// A nameserver failed.
    Failed,
}

impl Names {
    pub(crate) fn new(nameservers: Vec<SocketAddr>) -> Self {
        let config = if nameservers.is_empty() {
            // Whoever has no such file gets no names, and an error that says so.
            system_conf::read_system_conf().map(|(config, _)| config).unwrap_or_default()
        } else {
            ResolverConfig::from_parts(None, Vec::new(), nameservers.into_iter().map(nameserver).collect())
        };
        Self { config, hosts: Arc::new(Hosts::from_system().unwrap_or_default()) }
    }

    /// The addresses of a full name. No domains are tried behind it: that would be another name than the granted one.
    pub(super) async fn look_up(self: Arc<Self>, name: String) -> Result<Vec<IpAddr>, NameError> {
        let mut full = Name::from_ascii(&name).map_err(|_| NameError::Unknown)?;
        full.set_fqdn(true);
        let beside = Beside::default();
        let provider = Provider { beside: beside.clone(), plain: TokioRuntimeProvider::new() };
        let mut builder = Resolver::builder_with_config(self.config.clone(), provider);
        *builder.options_mut() = options();
        let mut resolver = builder.build().map_err(|_| NameError::Failed)?;
        resolver.set_hosts(Arc::clone(&self.hosts));
        let asking = async move { resolver.lookup_ip(full).await };
        match tokio::time::timeout(LOOK_UP_TIMEOUT, Together { main: Box::pin(asking), beside }).await {
            Ok(Ok(found)) => Ok(found.iter().map(|address| address.to_canonical()).take(ADDRESSES_MAX).collect()),
            Ok(Err(NetError::Dns(DnsError::NoRecordsFound(_)))) => Err(NameError::Unknown),
            Ok(Err(NetError::Timeout)) | Err(_) => Err(NameError::Mute),
            Ok(Err(_)) => Err(NameError::Failed),
        }
    }
}

fn nameserver(address: SocketAddr) -> NameServerConfig {
    let mut connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
    connections.iter_mut().for_each(|connection| connection.port = address.port());
    NameServerConfig::new(address.ip(), true, connections.into())
}

fn options() -> ResolverOpts {
    let mut options = ResolverOpts::default();
    options.timeout = ANSWER_TIMEOUT;
    options.attempts = 2;
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    // Each look-up is its own: nothing is remembered for other guests.
    options.cache_size = 0;
    options.use_hosts_file = ResolveHosts::Never;
    options
}

type Background = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What the resolver wants done beside the look-up: kept with it, so that it ends with it.
#[derive(Clone, Default)]
struct Beside(Arc<Mutex<Vec<Background>>>);

impl Beside {
    fn take(&self) -> Vec<Background> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Spawn for Beside {
    fn spawn_bg(&mut self, future: impl Future<Output = ()> + Send + 'static) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Box::pin(future));
    }
}

/// Sockets as tokio has them, tasks as [`Beside`] does.
#[derive(Clone)]
struct Provider {
    beside: Beside,
    plain: TokioRuntimeProvider,
}

type Opening<T> = Pin<Box<dyn Send + Future<Output = io::Result<T>>>>;

impl RuntimeProvider for Provider {
    type Handle = Beside;
    type Timer = <TokioRuntimeProvider as RuntimeProvider>::Timer;
    type Udp = <TokioRuntimeProvider as RuntimeProvider>::Udp;
    type Tcp = <TokioRuntimeProvider as RuntimeProvider>::Tcp;

    fn create_handle(&self) -> Beside {
        self.beside.clone()
    }

    fn connect_tcp(&self, to: SocketAddr, from: Option<SocketAddr>, within: Option<Duration>) -> Opening<Self::Tcp> {
        self.plain.connect_tcp(to, from, within)
    }

    fn bind_udp(&self, local: SocketAddr, server: SocketAddr) -> Opening<Self::Udp> {
        self.plain.bind_udp(local, server)
    }
}

/// A future, and what runs beside it.
struct Together<T> {
    main: Pin<Box<dyn Future<Output = T> + Send>>,
    beside: Beside,
}

impl<T> Future for Together<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let mut done = self.main.as_mut().poll(cx);
        let mut polled = Vec::new();
        // What is polled may want more done, and may have what the main one waits for.
        loop {
            let fresh = self.beside.take();
            if fresh.is_empty() {
                break;
            }
            polled.extend(fresh.into_iter().filter_map(|mut work| work.as_mut().poll(cx).is_pending().then_some(work)));
            if done.is_pending() {
                done = self.main.as_mut().poll(cx);
            }
        }
        self.beside.0.lock().unwrap_or_else(PoisonError::into_inner).extend(polled);
        done
    }
}

/// The work holds handles of the list that it is in.
impl<T> Drop for Together<T> {
    fn drop(&mut self) {
        drop(self.beside.take());
    }
}
