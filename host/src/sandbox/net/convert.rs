//! Addresses and errors of sockets, between WIT and Rust.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use super::bindings::network::{ErrorCode, IpAddress, IpSocketAddress, Ipv4SocketAddress, Ipv6SocketAddress};

impl From<IpAddr> for IpAddress {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => Self::Ipv4(v4.octets().into()),
            IpAddr::V6(v6) => Self::Ipv6(v6.segments().into()),
        }
    }
}

impl From<SocketAddr> for IpSocketAddress {
    fn from(address: SocketAddr) -> Self {
        match address {
            SocketAddr::V4(v4) => Self::Ipv4(Ipv4SocketAddress { port: v4.port(), address: v4.ip().octets().into() }),
            SocketAddr::V6(v6) => Self::Ipv6(Ipv6SocketAddress {
                port: v6.port(),
                flow_info: v6.flowinfo(),
                address: v6.ip().segments().into(),
                scope_id: v6.scope_id(),
            }),
        }
    }
}

impl From<IpSocketAddress> for SocketAddr {
    fn from(address: IpSocketAddress) -> Self {
        match address {
            IpSocketAddress::Ipv4(v4) => {
                let octets: [u8; 4] = v4.address.into();
                Self::V4(SocketAddrV4::new(Ipv4Addr::from(octets), v4.port))
            }
            IpSocketAddress::Ipv6(v6) => {
                let segments: [u16; 8] = v6.address.into();
                Self::V6(SocketAddrV6::new(Ipv6Addr::from(segments), v6.port, v6.flow_info, v6.scope_id))
            }
        }
    }
}

impl From<io::Error> for ErrorCode {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::ConnectionRefused => Self::ConnectionRefused,
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Self::ConnectionReset,
            ErrorKind::ConnectionAborted => Self::ConnectionAborted,
            ErrorKind::TimedOut => Self::Timeout,
            ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::NetworkDown => {
                Self::RemoteUnreachable
            }
            ErrorKind::NotConnected => Self::InvalidState,
            ErrorKind::PermissionDenied => Self::AccessDenied,
            ErrorKind::AddrNotAvailable => Self::AddressNotBindable,
            ErrorKind::InvalidInput => Self::InvalidArgument,
            ErrorKind::OutOfMemory => Self::OutOfMemory,
            ErrorKind::WouldBlock => Self::WouldBlock,
            _ if error.raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error()) => Self::NewSocketLimit,
            _ => Self::Unknown,
        }
    }
}
