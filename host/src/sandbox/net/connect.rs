//! A connection for a request: to one of the addresses that the host's name has now, each checked, and to no other.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use wasmtime_wasi_http::Error;

use super::names::NameError;
use super::{OpenSocket, Outside};
use crate::sandbox::signs::Signs;
use crate::task::is_special;

/// Addresses of one name that are tried.
const TRIES_MAX: usize = 4;

/// Where a request goes.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// A name, or an address without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) secure: bool,
}

impl Target {
    const fn usual_port(&self) -> u16 {
        if self.secure { 443 } else { 80 }
    }
}

impl Outside {
    /// Whether requests to the target are granted, as far as can be said without its addresses.
    pub(super) fn http_knows(&self, target: &Target) -> bool {
        self.grants.http.iter().any(|grant| {
            let host = match target.host.parse() {
                Ok(address) => grant.host.opens(address),
                Err(_) => grant.host.meets_name(&target.host).is_some(),
            };
            host && grant.ports.open(target.port, Some(target.usual_port()))
        })
    }

    /// Whether this address of the target may be connected to.
    fn http_opens(&self, target: &Target, address: IpAddr) -> bool {
        let special = is_special(address);
        self.grants.http.iter().any(|grant| {
            let by_name = grant.host.meets_name(&target.host).is_some_and(|private| private || !special);
            (by_name || grant.host.opens(address)) && grant.ports.open(target.port, Some(target.usual_port()))
        })
    }

    /// Connects to the target.
    pub(super) async fn connect(&self, target: &Target, open: OpenSocket) -> Result<Wire, Error> {
        let found = match target.host.parse() {
            Ok(address) => vec![address],
            Err(_) => Arc::clone(&self.names).look_up(target.host.clone()).await.map_err(|error| match error {
                NameError::Unknown => Error::DnsError { rcode: Some("NXDOMAIN".to_owned()), info_code: None },
                NameError::Mute => Error::DnsTimeout,
                NameError::Failed => Error::DnsError { rcode: None, info_code: None },
            })?,
        };
        let open_to_it = |address: &IpAddr| self.http_opens(target, *address);
        let mut last = Error::DestinationIpProhibited;
        for address in found.into_iter().filter(open_to_it).take(TRIES_MAX) {
            match TcpStream::connect(SocketAddr::new(address, target.port)).await {
                Ok(stream) => return Ok(Wire { stream, signs: Arc::clone(&self.signs), _open: open }),
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => last = Error::ConnectionRefused,
                Err(error) => last = Error::Connect(error),
            }
        }
        Err(last)
    }
}

/// Bytes to and from a host, counted; none once the attempt is killed.
pub(super) struct Wire {
    stream: TcpStream,
    signs: Arc<Signs>,
    _open: OpenSocket,
}

impl Wire {
    fn alive(&self) -> io::Result<()> {
        self.signs.token.check().map_err(io::Error::other)
    }
}

impl AsyncRead for Wire {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.alive()?;
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.signs.count_in(buf.filled().len() - before);
        read
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.alive()?;
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if let Poll::Ready(Ok(written)) = &written {
            self.signs.count_out(*written);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// TLS over a connection, to the host by its name.
pub(super) async fn secure<S>(
    stream: S,
    host: &str,
    config: Arc<ClientConfig>,
) -> Result<tokio_rustls::client::TlsStream<S>, Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let name = ServerName::try_from(host.to_owned()).map_err(|_| Error::HttpRequestUriInvalid)?;
    TlsConnector::from(config).connect(name, stream).await.map_err(|error| {
        let certificate = error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<rustls::Error>())
            .is_some_and(|inner| matches!(inner, rustls::Error::InvalidCertificate(_)));
        if certificate { Error::TlsCertificateError } else { Error::Tls(error) }
    })
}

/// With the certificates that the machine trusts. Read once for the process.
pub(super) fn machines_trust() -> Result<Arc<ClientConfig>, Error> {
    static CONFIG: OnceLock<Option<Arc<ClientConfig>>> = OnceLock::new();
    let config = CONFIG.get_or_init(|| {
        let found = rustls_native_certs::load_native_certs();
        for error in &found.errors {
            tracing::warn!(%error, "some of the machine's certificates could not be read");
        }
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(found.certs);
        trusting(roots).map_err(|error| tracing::error!(%error, "TLS cannot be set up")).ok()
    });
    config.clone().ok_or(Error::ConfigurationError)
}

/// Whoever these vouch for.
pub(super) fn trusting(roots: RootCertStore) -> Result<Arc<ClientConfig>, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}
