//! `wasi:sockets/tcp`: connections to granted addresses. No listening, no binding. Nothing runs beside the guest: bytes
//! that the kernel does not take at once wait in the stream, and go when the guest waits for it or drops it.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::net::TcpStream;
use wasmtime::component::Resource;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p2::{
    DynInputStream, DynOutputStream, DynPollable, InputStream, OutputStream, Pollable, StreamError, StreamResult,
    subscribe,
};

use super::bindings::network::{ErrorCode, IpAddressFamily, IpSocketAddress, Network};
use super::bindings::{tcp, tcp_create_socket};
use super::{NetView, OpenSocket};
use crate::sandbox::signs::Signs;

/// Bytes of one read or write.
const PART_BYTES_MAX: usize = 64 << 10;
/// A connection that nobody answers.
const CONNECT_TIMEOUT: Duration = Duration::from_mins(2);

/// A socket as a guest holds it.
pub struct Socket {
    family: IpAddressFamily,
    state: State,
}

enum State {
    Fresh(OpenSocket),
    Connecting(Pin<Box<dyn Future<Output = io::Result<Wire>> + Send>>),
    /// The guest has not asked how it went.
    Settled(io::Result<Wire>),
    Connected(Arc<Wire>),
    Closed,
}

/// A connection, which its socket and its two streams share.
struct Wire {
    stream: TcpStream,
    out: Mutex<Out>,
    signs: Arc<Signs>,
    _open: OpenSocket,
}

#[derive(Default)]
struct Out {
    pending: Bytes,
    closed: bool,
    /// To be told to the peer when nothing is pending any more.
    ending: bool,
}

impl Wire {
    fn out(&self) -> MutexGuard<'_, Out> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the kernel what it takes. True if nothing is pending then.
    fn push(&self, out: &mut Out) -> io::Result<bool> {
        while !out.pending.is_empty() {
            self.signs.token.check().map_err(io::Error::other)?;
            match self.stream.try_write(&out.pending) {
                Ok(written) => {
                    self.signs.count_out(written);
                    drop(out.pending.split_to(written));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => {
                    out.pending.clear();
                    out.closed = true;
                    return Err(error);
                }
            }
        }
        if std::mem::take(&mut out.ending) {
            rustix::net::shutdown(&self.stream, rustix::net::Shutdown::Write)?;
        }
        Ok(true)
    }

    async fn drained(&self) {
        loop {
            let waiting = matches!(self.push(&mut self.out()), Ok(false));
            // A connection that is broken is drained, too: the next write says so.
            if !waiting || self.stream.writable().await.is_err() {
                return;
            }
        }
    }
}

impl Socket {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let State::Connecting(connecting) = &mut self.state {
            match connecting.as_mut().poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(settled) => self.state = State::Settled(settled),
            }
        }
        Poll::Ready(())
    }

    fn wire(&self) -> Result<&Arc<Wire>, ErrorCode> {
        match &self.state {
            State::Connected(wire) => Ok(wire),
            _ => Err(ErrorCode::InvalidState),
        }
    }
}

#[async_trait]
impl Pollable for Socket {
    async fn ready(&mut self) {
        std::future::poll_fn(|cx| self.poll(cx)).await;
    }
}

struct Reader(Arc<Wire>);

#[async_trait]
impl Pollable for Reader {
    async fn ready(&mut self) {
        // An error shows at the read.
        let _ = self.0.stream.readable().await;
    }
}

#[async_trait]
impl InputStream for Reader {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        self.0.signs.token.check().map_err(StreamError::Trap)?;
        if size == 0 {
            return Ok(Bytes::new());
        }
        let mut part = BytesMut::zeroed(size.min(PART_BYTES_MAX));
        match self.0.stream.try_read(&mut part) {
            Ok(0) => Err(StreamError::Closed),
            Ok(read) => {
                self.0.signs.count_in(read);
                part.truncate(read);
                Ok(part.freeze())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Bytes::new()),
            Err(error) => Err(StreamError::LastOperationFailed(error.into())),
        }
    }
}

struct Writer(Arc<Wire>);

#[async_trait]
impl Pollable for Writer {
    async fn ready(&mut self) {
        self.0.drained().await;
    }
}

#[async_trait]
impl OutputStream for Writer {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.0.signs.token.check().map_err(StreamError::Trap)?;
        let mut out = self.0.out();
        if out.closed {
            return Err(StreamError::Closed);
        }
        if bytes.len() > PART_BYTES_MAX || !out.pending.is_empty() {
            return Err(StreamError::trap("a write is larger than `check-write` allows"));
        }
        out.pending = bytes;
        self.0.push(&mut out).map(drop).map_err(|error| StreamError::LastOperationFailed(error.into()))
    }

    fn flush(&mut self) -> StreamResult<()> {
        self.check_write().map(drop)
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        self.0.signs.token.check().map_err(StreamError::Trap)?;
        let mut out = self.0.out();
        match self.0.push(&mut out) {
            Ok(true) if out.closed => Err(StreamError::Closed),
            Ok(drained) => Ok(if drained { PART_BYTES_MAX } else { 0 }),
            Err(error) => Err(StreamError::LastOperationFailed(error.into())),
        }
    }

    async fn cancel(&mut self) {
        self.0.drained().await;
    }
}

type Told<T> = wasmtime::Result<Result<T, ErrorCode>>;
type This = Resource<Socket>;

impl NetView<'_> {
    fn socket(&mut self, this: &This) -> wasmtime::Result<&mut Socket> {
        self.net.outside.signs.token.check()?;
        Ok(self.table.get_mut(this)?)
    }
}

impl tcp_create_socket::Host for NetView<'_> {
    fn create_tcp_socket(&mut self, family: IpAddressFamily) -> Told<This> {
        if self.net.outside.grants.tcp.is_empty() {
            return Ok(Err(ErrorCode::AccessDenied));
        }
        let Some(open) = self.net.outside.open_socket() else { return Ok(Err(ErrorCode::NewSocketLimit)) };
        Ok(Ok(self.table.push(Socket { family, state: State::Fresh(open) })?))
    }
}

impl tcp::Host for NetView<'_> {}

impl tcp::HostTcpSocket for NetView<'_> {
    fn start_connect(&mut self, this: This, network: Resource<Network>, to: IpSocketAddress) -> Told<()> {
        self.table.get(&network)?;
        let to: SocketAddr = to.into();
        let signs = Arc::clone(&self.net.outside.signs);
        let granted = self.net.outside.tcp_opens(to);
        let socket = self.socket(&this)?;
        let fits = matches!(
            (socket.family, to),
            (IpAddressFamily::Ipv4, SocketAddr::V4(_)) | (IpAddressFamily::Ipv6, SocketAddr::V6(_))
        );
        match &socket.state {
            State::Fresh(_) => {}
            State::Connecting(_) | State::Settled(_) => return Ok(Err(ErrorCode::ConcurrencyConflict)),
            State::Connected(_) | State::Closed => return Ok(Err(ErrorCode::InvalidState)),
        }
        if !fits || to.port() == 0 {
            return Ok(Err(ErrorCode::InvalidArgument));
        }
        if !granted {
            return Ok(Err(ErrorCode::AccessDenied));
        }
        if let State::Fresh(open) = std::mem::replace(&mut socket.state, State::Closed) {
            socket.state = State::Connecting(Box::pin(async move {
                let connecting = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(to));
                let stream = connecting.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
                Ok(Wire { stream, out: Mutex::default(), signs, _open: open })
            }));
        }
        // From here on it is on its way, whether or not the guest waits for it.
        let _ = socket.poll(&mut Context::from_waker(Waker::noop()));
        Ok(Ok(()))
    }

    fn finish_connect(&mut self, this: This) -> Told<(Resource<DynInputStream>, Resource<DynOutputStream>)> {
        let socket = self.socket(&this)?;
        if socket.poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            return Ok(Err(ErrorCode::WouldBlock));
        }
        let wire = match std::mem::replace(&mut socket.state, State::Closed) {
            State::Settled(Ok(wire)) => Arc::new(wire),
            State::Settled(Err(error)) => return Ok(Err(error.into())),
            other => {
                socket.state = other;
                return Ok(Err(ErrorCode::NotInProgress));
            }
        };
        socket.state = State::Connected(Arc::clone(&wire));
        let input: DynInputStream = Box::new(Reader(Arc::clone(&wire)));
        let output: DynOutputStream = Box::new(Writer(wire));
        Ok(Ok((self.table.push_child(input, &this)?, self.table.push_child(output, &this)?)))
    }

    fn local_address(&mut self, this: This) -> Told<IpSocketAddress> {
        Ok(self.socket(&this)?.wire().and_then(|wire| Ok(wire.stream.local_addr()?.into())))
    }

    fn remote_address(&mut self, this: This) -> Told<IpSocketAddress> {
        Ok(self.socket(&this)?.wire().and_then(|wire| Ok(wire.stream.peer_addr()?.into())))
    }

    fn address_family(&mut self, this: This) -> wasmtime::Result<IpAddressFamily> {
        Ok(self.socket(&this)?.family)
    }

    fn subscribe(&mut self, this: This) -> wasmtime::Result<Resource<DynPollable>> {
        subscribe(self.table, this)
    }

    fn shutdown(&mut self, this: This, what: tcp::ShutdownType) -> Told<()> {
        let socket = self.socket(&this)?;
        let wire = match socket.wire() {
            Ok(wire) => wire,
            Err(error) => return Ok(Err(error)),
        };
        if matches!(what, tcp::ShutdownType::Receive | tcp::ShutdownType::Both)
            && let Err(error) = rustix::net::shutdown(&wire.stream, rustix::net::Shutdown::Read)
        {
            return Ok(Err(io::Error::from(error).into()));
        }
        if matches!(what, tcp::ShutdownType::Send | tcp::ShutdownType::Both) {
            let mut out = wire.out();
            (out.closed, out.ending) = (true, true);
            return Ok(wire.push(&mut out).map(drop).map_err(Into::into));
        }
        Ok(Ok(()))
    }

    fn drop(&mut self, this: This) -> wasmtime::Result<()> {
        self.table.delete(this)?;
        Ok(())
    }

    fn start_bind(&mut self, _: This, _: Resource<Network>, _: IpSocketAddress) -> Told<()> {
        Ok(Err(ErrorCode::AccessDenied))
    }

    fn finish_bind(&mut self, _: This) -> Told<()> {
        Ok(Err(ErrorCode::NotInProgress))
    }

    fn start_listen(&mut self, _: This) -> Told<()> {
        Ok(Err(ErrorCode::AccessDenied))
    }

    fn finish_listen(&mut self, _: This) -> Told<()> {
        Ok(Err(ErrorCode::NotInProgress))
    }

    fn accept(&mut self, _: This) -> Told<(This, Resource<DynInputStream>, Resource<DynOutputStream>)> {
        Ok(Err(ErrorCode::InvalidState))
    }

    fn is_listening(&mut self, _: This) -> wasmtime::Result<bool> {
        Ok(false)
    }

    fn set_listen_backlog_size(&mut self, _: This, _: u64) -> Told<()> {
        Ok(Err(ErrorCode::NotSupported))
    }

    fn keep_alive_enabled(&mut self, _: This) -> Told<bool> {
        Ok(Ok(false))
    }

    fn set_keep_alive_enabled(&mut self, _: This, on: bool) -> Told<()> {
        Ok(if on { Err(ErrorCode::NotSupported) } else { Ok(()) })
    }

    fn keep_alive_idle_time(&mut self, _: This) -> Told<u64> {
        Ok(Err(ErrorCode::NotSupported))
    }

    fn set_keep_alive_idle_time(&mut self, _: This, _: u64) -> Told<()> {
        Ok(Err(ErrorCode::NotSupported))
    }

    fn keep_alive_interval(&mut self, _: This) -> Told<u64> {
        Ok(Err(ErrorCode::NotSupported))
    }

    fn set_keep_alive_interval(&mut self, _: This, _: u64) -> Told<()> {
        Ok(Err(ErrorCode::NotSupported))
    }

    fn keep_alive_count(&mut self, _: This) -> Told<u32> {
        Ok(Err(ErrorCode::NotSupported))
    }

    fn set_keep_alive_count(&mut self, _: This, _: u32) -> Told<()> {
        Ok(Err(ErrorCode::NotSupported))
    }

    fn hop_limit(&mut self, _: This) -> Told<u8> {
        Ok(Err(ErrorCode::NotSupported))
    }

    fn set_hop_limit(&mut self, _: This, _: u8) -> Told<()> {
        Ok(Err(ErrorCode::NotSupported))
    }

    fn receive_buffer_size(&mut self, _: This) -> Told<u64> {
        Ok(Ok(PART_BYTES_MAX as u64))
    }

    /// A hint, by its definition.
    fn set_receive_buffer_size(&mut self, _: This, _: u64) -> Told<()> {
        Ok(Ok(()))
    }

    fn send_buffer_size(&mut self, _: This) -> Told<u64> {
        Ok(Ok(PART_BYTES_MAX as u64))
    }

    /// A hint, by its definition.
    fn set_send_buffer_size(&mut self, _: This, _: u64) -> Told<()> {
        Ok(Ok(()))
    }
}
