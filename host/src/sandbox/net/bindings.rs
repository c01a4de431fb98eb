//! The Rust face of what of `wasi:sockets` the host implements itself.

wasmtime::component::bindgen!({
    path: "src/sandbox/net/wit",
    world: "atropos:net/net",
    imports: { default: trappable },
    require_store_data_send: true,
    with: {
        "wasi:io/poll": wasmtime_wasi::p2::bindings::io::poll,
        "wasi:io/streams": wasmtime_wasi::p2::bindings::io::streams,
        "wasi:clocks/monotonic-clock": wasmtime_wasi::p2::bindings::clocks::monotonic_clock,
        "wasi:sockets/network.network": wasmtime_wasi::p2::bindings::sockets::network::Network,
        "wasi:sockets/ip-name-lookup.resolve-address-stream": super::lookup::Found,
        "wasi:sockets/tcp.tcp-socket": super::tcp::Socket,
    },
});

pub(super) use self::wasi::sockets::{ip_name_lookup, network, tcp, tcp_create_socket};
