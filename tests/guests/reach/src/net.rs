//! Names and TCP.

use crate::wasi::io::streams::{InputStream, OutputStream, StreamError};
use crate::wasi::sockets::instance_network::instance_network;
use crate::wasi::sockets::ip_name_lookup::resolve_addresses;
use crate::wasi::sockets::network::{
    ErrorCode, IpAddress, IpAddressFamily, IpSocketAddress, Ipv4SocketAddress, Ipv6SocketAddress,
};
use crate::wasi::sockets::tcp::TcpSocket;
use crate::wasi::sockets::tcp_create_socket::create_tcp_socket;
use crate::wasi::sockets::udp_create_socket::create_udp_socket;
use crate::{Came, name};

#[derive(Default)]
pub struct Net {
    sockets: Vec<TcpSocket>,
    connected: Vec<Connection>,
}

/// Its streams go first.
struct Connection {
    input: InputStream,
    output: OutputStream,
    _socket: TcpSocket,
}

impl Net {
    pub fn command(&mut self, words: &[&str]) -> Option<Came> {
        Some(match words {
            ["resolve", host] => resolve(host).map(|all| all.iter().map(written).collect::<Vec<_>>().join(" ")),
            // Asks and gives the answer's place in words, not an error.
            ["tcp", address, text] => connect(address).and_then(|connection| exchange(&connection, text)),
            ["tcpname", host, port, text] => resolve(host).and_then(|all| {
                let first = all.first().ok_or_else(|| "no address".to_owned())?;
                connect(&format!("{}:{port}", written(first))).and_then(|connection| exchange(&connection, text))
            }),
            ["hang", address] => connect(address).and_then(|connection| exchange(&connection, "")),
            ["keep", address] => connect(address).map(|connection| {
                self.connected.push(connection);
                "ok".to_owned()
            }),
            ["talk", address] => connect(address).and_then(|connection| {
                loop {
                    connection.output.blocking_write_and_flush(b"x").map_err(stream_error)?;
                }
            }),
            ["sockets"] => loop {
                match create_tcp_socket(IpAddressFamily::Ipv4) {
                    Ok(socket) => self.sockets.push(socket),
                    Err(error) => break Ok(format!("{} {}", self.sockets.len(), name(error))),
                }
            },
            ["bind"] => create_tcp_socket(IpAddressFamily::Ipv4).map_err(name).and_then(|socket| {
                socket.start_bind(&instance_network(), address("127.0.0.1:0")?).map(|()| "ok".to_owned()).map_err(name)
            }),
            ["udp"] => create_udp_socket(IpAddressFamily::Ipv4).map(|_| "ok".to_owned()).map_err(name),
            _ => return None,
        })
    }
}

fn resolve(host: &str) -> Result<Vec<IpAddress>, String> {
    let found = resolve_addresses(&instance_network(), host).map_err(name)?;
    let ready = found.subscribe();
    let mut all = Vec::new();
    loop {
        match found.resolve_next_address() {
            Ok(Some(address)) => all.push(address),
            Ok(None) => return Ok(all),
            Err(ErrorCode::WouldBlock) => ready.block(),
            Err(error) => return Err(name(error)),
        }
    }
}

fn written(address: &IpAddress) -> String {
    match *address {
        IpAddress::Ipv4((a, b, c, d)) => std::net::Ipv4Addr::new(a, b, c, d).to_string(),
        IpAddress::Ipv6((a, b, c, d, e, f, g, h)) => format!("[{}]", std::net::Ipv6Addr::new(a, b, c, d, e, f, g, h)),
    }
}

fn address(text: &str) -> Result<IpSocketAddress, String> {
    Ok(match text.parse().map_err(|_| "no address".to_owned())? {
        std::net::SocketAddr::V4(v4) => {
            let [a, b, c, d] = v4.ip().octets();
            IpSocketAddress::Ipv4(Ipv4SocketAddress { port: v4.port(), address: (a, b, c, d) })
        }
        std::net::SocketAddr::V6(v6) => {
            let [a, b, c, d, e, f, g, h] = v6.ip().segments();
            let address = (a, b, c, d, e, f, g, h);
            IpSocketAddress::Ipv6(Ipv6SocketAddress { port: v6.port(), flow_info: 0, address, scope_id: 0 })
        }
    })
}

fn connect(to: &str) -> Result<Connection, String> {
    let to = address(to)?;
    let family = match to {
        IpSocketAddress::Ipv4(_) => IpAddressFamily::Ipv4,
        IpSocketAddress::Ipv6(_) => IpAddressFamily::Ipv6,
    };
    let socket = create_tcp_socket(family).map_err(name)?;
    socket.start_connect(&instance_network(), to).map_err(name)?;
    let ready = socket.subscribe();
    loop {
        match socket.finish_connect() {
            Ok((input, output)) => {
                drop(ready);
                return Ok(Connection { input, output, _socket: socket });
            }
            Err(ErrorCode::WouldBlock) => ready.block(),
            Err(error) => return Err(name(error)),
        }
    }
}

fn exchange(connection: &Connection, text: &str) -> Came {
    if !text.is_empty() {
        connection.output.blocking_write_and_flush(text.as_bytes()).map_err(stream_error)?;
    }
    let mut all = Vec::new();
    loop {
        match connection.input.blocking_read(1 << 16) {
            Ok(bytes) => all.extend(bytes),
            Err(StreamError::Closed) => return Ok(String::from_utf8_lossy(&all).into_owned()),
            Err(error) => return Err(stream_error(error)),
        }
    }
}

fn stream_error(error: StreamError) -> String {
    match error {
        StreamError::Closed => "closed".to_owned(),
        StreamError::LastOperationFailed(error) => error.to_debug_string(),
    }
}
