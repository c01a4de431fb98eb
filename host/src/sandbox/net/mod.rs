//! The network as a guest finds it: names, TCP and HTTP to the hosts that its type was granted, and nowhere else.
//!
//! A connection goes to the very address that was checked. Everything is gone when the guest's state is dropped.

mod bindings;
mod connect;
mod convert;
mod http;
mod leash;
mod lookup;
mod names;
mod tcp;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use wasmtime::component::{HasData, Linker, ResourceTable};
use wasmtime_wasi::WasiCtx;
use wasmtime_wasi::p2::bindings::sockets::{instance_network, network, udp, udp_create_socket};
use wasmtime_wasi::sockets::{WasiSockets, WasiSocketsCtxView};
use wasmtime_wasi_http::p2::bindings::http::{outgoing_handler, types};
use wasmtime_wasi_http::{WasiHttp, WasiHttpCtx, WasiHttpCtxView};

pub(crate) use names::Names;

use super::guest::Guest;
use super::ledger::{Entry, Ledger};
use super::signs::Signs;
use crate::task::{Grants, Ports, is_special};
use leash::Leash;

/// Sockets that one attempt may have at a time.
const SOCKETS_MAX: usize = 64;
/// Addresses that are remembered of the names that a guest looked up.
const RESOLVED_MAX: usize = 1_024;

/// The network of one attempt.
pub(super) struct Net {
    outside: Arc<Outside>,
    http: WasiHttpCtx,
    hooks: http::Hooks,
}

/// What of it the work shares that is done for the guest.
struct Outside {
    grants: Arc<Grants>,
    signs: Arc<Signs>,
    ledger: Arc<Ledger>,
    names: Arc<Names>,
    leash: Leash,
    open: Arc<AtomicUsize>,
    resolved: Mutex<HashMap<IpAddr, Vec<Ports>>>,
}

/// Counts a socket for as long as it is open.
struct OpenSocket {
    open: Arc<AtomicUsize>,
    _entry: Entry,
}

impl Drop for OpenSocket {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Net {
    pub(super) fn new(grants: Arc<Grants>, signs: Arc<Signs>, ledger: Arc<Ledger>, names: Arc<Names>) -> Self {
        let leash = Leash::new(Arc::clone(&signs));
        let (open, resolved) = (Arc::default(), Mutex::default());
        let mut http = WasiHttpCtx::new();
        http.set_field_size_limit(http::FIELDS_BYTES_MAX);
        let outside = Arc::new(Outside { grants, signs, ledger, names, leash, open, resolved });
        Self { hooks: http::Hooks(Arc::clone(&outside)), outside, http }
    }
}

/// The work on the leash has handles of it.
impl Drop for Net {
    fn drop(&mut self) {
        self.outside.leash.cut();
    }
}

impl Outside {
    /// Room for one more socket, if there is some.
    fn open_socket(&self) -> Option<OpenSocket> {
        let room = |open: usize| (open < SOCKETS_MAX).then_some(open + 1);
        self.open.fetch_update(Ordering::SeqCst, Ordering::SeqCst, room).ok()?;
        Some(OpenSocket { open: Arc::clone(&self.open), _entry: self.ledger.socket() })
    }

    /// Whether TCP to the address is granted: itself, or as that of a name which this attempt looked up.
    fn tcp_opens(&self, to: SocketAddr) -> bool {
        let address = to.ip().to_canonical();
        let itself = self.grants.tcp.iter().any(|grant| grant.host.opens(address) && grant.ports.open(to.port(), None));
        let resolved = self.resolved.lock().unwrap_or_else(PoisonError::into_inner);
        itself || resolved.get(&address).is_some_and(|ports| ports.iter().any(|open| open.open(to.port(), None)))
    }

    /// Of a looked-up name's addresses those that may be connected to, which from now on are open to this attempt.
    fn admit(&self, name: &str, found: Vec<IpAddr>) -> Vec<IpAddr> {
        let mut resolved = self.resolved.lock().unwrap_or_else(PoisonError::into_inner);
        found
            .into_iter()
            .filter(|address| {
                let special = is_special(*address);
                let ports = self.grants.tcp.iter().filter_map(|grant| {
                    let by_name = grant.host.meets_name(name).is_some_and(|private| private || !special);
                    (by_name || grant.host.opens(*address)).then_some(grant.ports)
                });
                let ports: Vec<Ports> = ports.collect();
                let room = resolved.contains_key(address) || resolved.len() < RESOLVED_MAX;
                if ports.is_empty() || !room {
                    return false;
                }
                let known = resolved.entry(*address).or_default();
                ports.into_iter().for_each(|ports| {
                    if !known.contains(&ports) {
                        known.push(ports);
                    }
                });
                true
            })
            .collect()
    }
}

/// The network and the tables that WASI keeps of it.
pub(super) struct NetView<'a> {
    pub(super) net: &'a mut Net,
    pub(super) ctx: &'a mut WasiCtx,
    pub(super) table: &'a mut ResourceTable,
}

/// [`NetView`] as bindings ask for it.
struct Networked;

impl HasData for Networked {
    type Data<'a> = NetView<'a>;
}

impl<'a> NetView<'a> {
    /// What wasmtime's own knows of sockets: nothing but the handle, and that UDP is refused.
    fn plain(self) -> WasiSocketsCtxView<'a> {
        WasiSocketsCtxView { ctx: self.ctx.sockets(), table: self.table }
    }

    fn pages(self) -> WasiHttpCtxView<'a> {
        let Net { http, hooks, outside: _ } = self.net;
        WasiHttpCtxView { ctx: http, table: self.table, hooks }
    }
}

/// Adds sockets and HTTP. Without a grant every use of them is refused.
pub(super) fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    macro_rules! link {
        ($name:literal: $($path:ident)::+ as $data:ty, $view:ident $(, $options:expr)?) => {
            $($path)::+::add_to_linker::<Guest, $data>(linker, $($options,)? |guest| guest.enter($name).wasi.net().$view())?;
        };
    }
    link!("wasi:sockets/network": network as WasiSockets, plain, &network::LinkOptions::default());
    link!("wasi:sockets/instance-network": instance_network as WasiSockets, plain);
    link!("wasi:sockets/udp": udp as WasiSockets, plain);
    link!("wasi:sockets/udp-create-socket": udp_create_socket as WasiSockets, plain);
    link!("wasi:http/outgoing-handler": outgoing_handler as WasiHttp, pages);
    link!("wasi:http/types": types as WasiHttp, pages, &types::LinkOptions::default());
    macro_rules! own {
        ($name:literal: $interface:ident) => {
            bindings::$interface::add_to_linker::<Guest, Networked>(linker, |guest| guest.enter($name).wasi.net())?;
        };
    }
    own!("wasi:sockets/tcp": tcp);
    own!("wasi:sockets/tcp-create-socket": tcp_create_socket);
    own!("wasi:sockets/ip-name-lookup": ip_name_lookup);
    Ok(())
}
