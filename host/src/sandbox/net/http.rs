//! `wasi:http/outgoing-handler`: requests to granted hosts, by HTTP/1.1 over a connection of their own each. Redirects are
//! the guest's to follow, and each is a request like any other. There is no proxy, and no connection is used again.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::uri::Scheme;
use http::{Request, Response, Uri};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Sleep, timeout};
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks};

use super::connect::{Target, machines_trust, secure};
use super::{OpenSocket, Outside};

/// Bytes of the fields of one request or answer, as they are held in memory.
pub(super) const FIELDS_BYTES_MAX: usize = 64 << 10;
/// Bytes of a connection that wait to be read or written.
const BUFFER_BYTES_MAX: usize = 64 << 10;
const HEADERS_MAX: usize = 128;
/// Bytes of a request's body that a guest writes at one time.
const CHUNK_BYTES_MAX: usize = 16 << 10;
/// A guest may wait less than these, but not longer.
const CONNECT_TIMEOUT: Duration = Duration::from_mins(1);
const ANSWER_TIMEOUT: Duration = Duration::from_mins(10);
const PAUSE_TIMEOUT: Duration = Duration::from_mins(5);

type Answer = Response<WasiBody>;
type Rest = Box<dyn Future<Output = Result<(), Error>> + Send>;
type Exchange = Box<dyn Future<Output = Result<(Answer, Rest), Error>> + Send>;

/// What wasmtime's own asks of us.
pub(super) struct Hooks(pub(super) Arc<Outside>);

impl WasiHttpHooks for Hooks {
    fn send_request(&mut self, request: Request<WasiBody>, options: Option<RequestOptions>, _: Rest) -> Exchange {
        let refused = |error| -> Exchange { Box::new(std::future::ready(Err(error))) };
        let target = match target(request.uri()) {
            Ok(target) => target,
            Err(error) => return refused(error),
        };
        if !self.0.http_knows(&target) {
            return refused(Error::HttpRequestDenied);
        }
        let Some(open) = self.0.open_socket() else { return refused(Error::ConnectionLimitReached) };
        let outside = Arc::clone(&self.0);
        let limits = Limits::of(options);
        Box::new(self.0.leash.hold(async move { outside.exchange(target, request, limits, open).await }))
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        CHUNK_BYTES_MAX
    }
}

/// How long the parts of an exchange may take.
#[derive(Clone, Copy)]
struct Limits {
    connect: Duration,
    answer: Duration,
    pause: Duration,
}

impl Limits {
    fn of(options: Option<RequestOptions>) -> Self {
        let options = options.unwrap_or_default();
        let least = |given: Option<Duration>, most: Duration| given.map_or(most, |given| given.min(most));
        Self {
            connect: least(options.connect_timeout, CONNECT_TIMEOUT),
            answer: least(options.first_byte_timeout, ANSWER_TIMEOUT),
            pause: least(options.between_bytes_timeout, PAUSE_TIMEOUT),
        }
    }
}

fn target(uri: &Uri) -> Result<Target, Error> {
    let authority = uri.authority().ok_or(Error::HttpRequestUriInvalid)?;
    // Names and secrets of users have no place before a host.
    if authority.as_str().contains('@') {
        return Err(Error::HttpRequestUriInvalid);
    }
    let secure = uri.scheme() == Some(&Scheme::HTTPS);
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    let port = authority.port_u16().unwrap_or(if secure { 443 } else { 80 });
    if host.is_empty() || port == 0 {
        return Err(Error::HttpRequestUriInvalid);
    }
    Ok(Target { host, port, secure })
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Outside {
    async fn exchange(
        self: Arc<Self>,
        target: Target,
        mut request: Request<WasiBody>,
        limits: Limits,
        open: OpenSocket,
    ) -> Result<(Answer, Rest), Error> {
        let connecting = async {
            let wire = self.connect(&target, open).await?;
            Ok::<Box<dyn Stream>, Error>(if target.secure {
                Box::new(secure(wire, &target.host, machines_trust()?).await?)
            } else {
                Box::new(wire)
            })
        };
        let stream = timeout(limits.connect, connecting).await.map_err(|_| Error::ConnectionTimeout)??;
        let mut builder = http1::Builder::new();
        builder.max_buf_size(BUFFER_BYTES_MAX).max_headers(HEADERS_MAX);
        let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
        // What is asked of the host itself has no host in it.
        let path = request.uri().path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        *request.uri_mut() = path.parse().map_err(|_| Error::HttpRequestUriInvalid)?;
        let mut connection = self.leash.hold(connection);
        let asking = timeout(limits.answer, sender.send_request(request));
        tokio::pin!(asking);
        let mut broken = None;
        let answer = std::future::poll_fn(|cx| {
            if broken.is_none()
                && let Poll::Ready(ended) = Pin::new(&mut connection).poll(cx)
            {
                broken = Some(ended);
            }
            asking.as_mut().poll(cx)
        });
        let answer = answer.await.map_err(|_| Error::HttpResponseTimeout)?.map_err(told)?;
        let rest = async move {
            match broken {
                Some(ended) => ended.map_err(told),
                None => connection.await.map_err(told),
            }
        };
        Ok((answer.map(|body| Paced::new(body, limits.pause).boxed_unsync()), Box::new(rest)))
    }
}

/// What hyper says, as far as the guest can do something about it.
fn told(error: hyper::Error) -> Error {
    if error.is_incomplete_message() {
        return Error::HttpResponseIncomplete;
    }
    if error.is_parse_too_large() {
        return Error::HttpResponseHeaderSectionSize(None);
    }
    error.into()
}

/// A body whose next part must come in time.
struct Paced {
    body: Incoming,
    pause: Duration,
    late: Pin<Box<Sleep>>,
}

impl Paced {
    fn new(body: Incoming, pause: Duration) -> Self {
        Self { body, pause, late: Box::pin(tokio::time::sleep(pause)) }
    }
}

impl Body for Paced {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(frame) => {
                let next = Instant::now() + self.pause;
                self.late.as_mut().reset(next);
                Poll::Ready(frame.map(|frame| frame.map_err(told)))
            }
            Poll::Pending => self.late.as_mut().poll(cx).map(|()| Some(Err(Error::ConnectionReadTimeout))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
